"""A fault of our own, or of a repository's dodo.py, ends in words."""

from __future__ import annotations

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
