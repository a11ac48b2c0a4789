"""The console script: which command, and the exit code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from touchgate import __version__, console


@pytest.fixture
def run(capsys):
    def make(*arguments):
        code = console.main(arguments, {})
        return (code, *capsys.readouterr())

    return make


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help(run, word):
    text = (
        "usage: touchgate COMMAND [...]\n"
        "\n"
        "  gate     say whether a change touches any lane, and why\n"
        "  migrate  take gate jobs out of workflows: each job that needed one gates itself\n"
        "  replay   play the last merges, and find where another gate disagrees\n"
        "  bundle   write the gate as one file, touchgate.pyz, that needs nothing but Python\n"
        "\n"
        "`touchgate COMMAND --help` tells about one; `touchgate --version` about this.\n"
        "Everything else is a command of doit: see `doit help`.\n"
    )
    assert run(word) == (0, text, "")


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_version(run, word):
    assert run(word) == (0, f"touchgate {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [((), "a command is missing"), (("gaet",), "there is no command 'gaet'"), (("",), "a command is missing")],
)
def test_anything_else(run, arguments, problem):
    code, out, err = run(*arguments)
    assert (code, out) == (3, "")
    assert err == f"touchgate: {problem}\n\n{console.help_text()}\n"


def test_the_rest_of_the_line_is_the_command_s(project):
    project.write("src/new.txt", "x")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from touchgate.console import main; sys.exit(main())",
            "gate",
            "--lane",
            "one",
        ],
        cwd=project.root / "docs",
        env=project.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "true\n"


def test_an_interrupt_is_130_without_a_traceback(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("touchgate.gate.cli.main", interrupted)
    assert console.main(["gate"], {}) == 130


def test_a_reader_that_has_gone_is_no_traceback(project):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from touchgate.console import main; sys.exit(main())", "gate", "--json"],
        cwd=project.root,
        env=project.environ,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
