"""A fault of our own, or of a repository's dodo.py, ends in words."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Project
from touchgate.edge.faults import internal
from touchgate.gate import cli


def test_an_internal_fault_is_one_line_and_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert internal(KeyError("x")) == 2
    said = capsys.readouterr().err
    assert said.startswith("ERROR: touchgate itself failed: KeyError: 'x'\n")
    written = Path(said.split("please report it with ")[1].split(";")[0])
    assert "KeyError" in written.read_text()
    written.unlink()


def test_a_dodo_file_that_does_not_load_is_named_with_its_line(project: Project) -> None:
    project.write("dodo.py", "import os\nnonsense\n")
    done = project.doit()
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"ERROR: dodo.py can't be loaded: {project.root}/dodo.py:2: NameError: name 'nonsense' is not defined\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("pyproject.toml", '[tool.doit]\nloader = "touchgate\n', ":2:20: the settings can't be read: Illegal character '\\n'"),
        (
            "pyproject.toml",
            '[tool.doit]\nloader = "touchgate"\nplugins = {x = 3}\n',
            ": the settings can't be read: a value is of no shape that doit knows",
        ),
        (
            "doit.cfg",
            "x\n",
            ": the settings can't be read: File contains no section headers. file: 'doit.cfg', line: 1 'x\\n'",
        ),
    ],
)
@pytest.mark.parametrize("command", [(), ("list",)])
def test_settings_that_can_not_be_read_are_named_with_their_place(
    project: Project, name: str, text: str, said: str, command: tuple[str, ...]
) -> None:
    project.write(name, text)
    below = project.root / "below"
    below.mkdir()
    done = project.doit(*command, cwd=below)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"ERROR: {project.root}/{name}{said}\n")


INTERRUPTED = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from doit.__main__ import main
sys.argv = ["doit", *{words!r}]
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("touchgate.edge.usage", ["lease"], -signal.SIGINT),
        ("touchgate.gate.git", ["run"], -signal.SIGINT),
        ("touchgate.edge.commands.lease_status", ["lease"], 130),
        ("touchgate.leases.choose", ["lease", "log"], 130),
    ],
)
def test_an_interrupt_while_we_are_imported_is_a_word(project: Project, name: str, words: list[str], code: int) -> None:
    asked = [sys.executable, "-c", INTERRUPTED.format(name=name, words=words)]
    done = subprocess.run(asked, cwd=project.root, env=project.environ, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert done.stderr.removeprefix("ERROR: ").partition(" before")[0].strip() == "interrupted"


def test_an_interrupt_of_others_is_told_as_ever(project: Project) -> None:
    asked = [sys.executable, "-c", "import touchgate.edge\nraise KeyboardInterrupt"]
    done = subprocess.run(asked, cwd=project.root, env=project.environ, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("Traceback (most recent call last):")


def test_a_fault_of_the_gate_itself_skips_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "answer_to", broken)
    output = tmp_path / "output"
    assert cli.main([], {"GITHUB_OUTPUT": str(output)}) == 0
    told = capsys.readouterr()
    assert (told.out, output.read_text()) == ("true\n", "run=true\n")
    assert told.err.endswith("everything runs: touchgate itself failed: RuntimeError: a bug; please report it\n")
