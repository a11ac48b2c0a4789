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


GATE = [sys.executable, "-c", "import sys; from touchgate.console import main; sys.exit(main())", "gate"]


def shell(project, line, **environ):
    """What a shell says of the gate, started as `gate` with its redirections."""
    script = f'gate() {{ "$PY" -c "$CODE" gate main HEAD "$@"; }}; {line}'
    environ = {**project.environ, "PY": sys.executable, "CODE": GATE[2], **environ}
    done = subprocess.run(["sh", "-c", script], cwd=project.root, env=environ, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


def test_closed_streams(project, tmp_path):
    """The answer alone is on standard output, though standard error is closed; and the other way round."""
    assert shell(project, "gate 2>&-").stdout == "false\n"
    output = tmp_path / "output"
    done = shell(project, "gate >&-; echo $?", GITHUB_OUTPUT=str(output))
    assert (done.stdout, output.read_text()) == ("0\n", "run=false\nlanes=[]\n")
    assert shell(project, "gate <&-").stdout == "false\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="unmeasured: /dev/full, which Linux has")  # noqa: PTH110
def test_an_answer_that_can_not_be_written(project):
    done = shell(project, "gate >/dev/full; echo $?")
    assert done.stdout == "3\n"
    assert done.stderr.endswith("the answer can't be written to standard output: No space left on device\n")


@pytest.mark.parametrize("broken", ["raise RuntimeError('é')", "import no_such_module"])
def test_what_reads_yaml_is_broken(project, tmp_path, broken):
    (tmp_path / "path/yaml").mkdir(parents=True)
    (tmp_path / "path/yaml/__init__.py").write_text(broken, encoding="utf-8")
    output = tmp_path / "output"
    path = os.pathsep.join(filter(None, (str(tmp_path / "path"), os.environ.get("PYTHONPATH"))))
    done = shell(project, "gate; echo $?", PYTHONPATH=path, GITHUB_OUTPUT=str(output))
    assert (done.stdout, output.read_text()) == ("true\n0\n", "run=true\n")
    assert done.stderr.startswith("everything runs: touchgate itself failed: ")
