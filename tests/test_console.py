"""The console script: which command, and the exit code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from touchgate import __version__, console

ROOT = Path(__file__).resolve().parent.parent


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
        "  gate        say whether a change touches any lane, and why\n"
        "  migrate     take gate jobs out of workflows: each job that needed one gates itself\n"
        "  replay      play the last merges, and find where another gate disagrees\n"
        "  lease-hold  hold a lease of this host for a run on another one, which asks by ssh\n"
        "  bundle      write the gate as one file, touchgate.pyz, that needs nothing but Python\n"
        "\n"
        "`touchgate COMMAND --help` tells about one: what it does, options, exit codes, examples.\n"
        "`touchgate --version` tells about this.\n"
        "Everything else is a command of doit: see `doit help`.\n"
    )
    assert run(word) == (0, text, "")


@pytest.mark.parametrize("command", console.COMMANDS)
def test_help_of_each_command_tells_exit_codes_and_shows_an_example(command, capsys):
    try:
        code = console.main([command, "--help"], {})
    except SystemExit as ended:
        code = ended.code
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: touchgate {command}")
    assert re.search(r"\nExit codes:\n  0  \S.*\n(  [12]  \S.*\n)?  3  \S", out)
    assert re.search(rf"\nExamples?\b[^\n]*:\n  .*touchgate {command}\b", out)
    page = re.search(r"\nMore: (docs/[a-z]+\.md)\.", out)[1]
    assert (ROOT / page).is_file()
    assert max(map(len, out.splitlines())) <= 140


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_version(run, word):
    assert run(word) == (0, f"touchgate {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "a command is missing"),
        (("gaet",), "there is no command 'gaet'; did you mean 'gate'?"),
        (("",), "a command is missing"),
        (("zzz",), "there is no command 'zzz'"),
    ],
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
    assert shell(project, "gate <&- 2>&-; echo $?").stdout == "false\n0\n"
    # No other place was named for the answer.
    done = shell(project, "gate >&-; echo $?")
    assert done.stdout == "3\n"
    assert done.stderr.endswith("the answer can't be written: standard output is closed\n")
    assert shell(project, "gate <&- >&- 2>&-; echo $?").stdout == "3\n"


needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="unmeasured: /dev/full, which Linux has")  # noqa: PTH110


@needs_full
@pytest.mark.parametrize("words", ["", "--json"])
def test_an_answer_that_can_not_be_written(project, words):
    done = shell(project, f"gate {words} >/dev/full; echo $?")
    assert done.stdout == "3\n"
    assert done.stderr.endswith("the answer can't be written to standard output: No space left on device\n")
    assert shell(project, f"gate {words} >/dev/full 2>/dev/full; echo $?").stdout == "3\n"


@needs_full
@pytest.mark.parametrize("to", ["2>/dev/full", "2>&-", "| true"])
def test_reasons_that_can_not_be_written_cost_no_answer(project, tmp_path, to):
    """Full, closed, or a reader that has gone: the answer, its outputs and the exit code stay as they are."""
    output = tmp_path / "output"
    line = f"exec 3>&1; {{ gate 2>&1 >&3; echo $? >&3; }} {to}" if "|" in to else f"gate {to}; echo $?"
    assert shell(project, line, GITHUB_OUTPUT=str(output)).stdout == "false\n0\n"
    assert output.read_text() == "run=false\nlanes=[]\n"


@needs_full
@pytest.mark.parametrize(
    ("line", "code"), [("gate --nope 2>/dev/full", 3), ("touchgate nope 2>/dev/full", 3), ("touchgate --help >/dev/full", 3)]
)
def test_mistakes_that_can_not_be_told(project, line, code):
    line = line.replace("touchgate", '"$PY" -c "$CODE"')
    assert shell(project, f"{line}; echo $?").stdout == f"{code}\n"


@needs_full
def test_outputs_that_can_not_be_written(project):
    done = shell(project, "gate; echo $?", GITHUB_OUTPUT="/dev/full")
    assert done.stdout == "false\n3\n"
    assert done.stderr.endswith("GITHUB_OUTPUT=/dev/full can't be written: No space left on device\n")
    assert shell(project, "gate 2>/dev/full; echo $?", GITHUB_OUTPUT="/no/such/folder").stdout == "false\n3\n"


@needs_full
@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_other_commands_say_what_they_can_not_write(project, to):
    done = shell(project, f'"$PY" -c "$CODE" replay --last 1 {to}; echo $?')
    assert done.stdout == "3\n"
    assert done.stderr.startswith("touchgate replay: ")


@pytest.mark.parametrize("broken", ["raise RuntimeError('é')", "import no_such_module"])
def test_what_reads_yaml_is_broken(project, tmp_path, broken):
    (tmp_path / "path/yaml").mkdir(parents=True)
    (tmp_path / "path/yaml/__init__.py").write_text(broken, encoding="utf-8")
    output = tmp_path / "output"
    path = os.pathsep.join(filter(None, (str(tmp_path / "path"), os.environ.get("PYTHONPATH"))))
    done = shell(project, "gate; echo $?", PYTHONPATH=path, GITHUB_OUTPUT=str(output))
    assert (done.stdout, output.read_text()) == ("true\n0\n", "run=true\n")
    assert done.stderr.startswith("everything runs: touchgate itself failed: ")
