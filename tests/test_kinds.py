"""Kinds of checks and names of lanes: the gate refuses what `doit` refuses, in the same words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import Project

GATE = [sys.executable, "-c", "import sys; from touchgate.console import main; sys.exit(main())", "gate"]
ONE_CHECK = "lanes:\n  one:\n    paths: [src/**]\n    checks:\n      - {}\n"


def gate(project: Project, **environ: str) -> subprocess.CompletedProcess[str]:
    environ = {**project.environ, **environ}
    return subprocess.run(GATE, cwd=project.root, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("comand: make", "5:9: unknown kind of check 'comand' in lane 'one'; did you mean 'command'?"),
        ("run: make", "5:9: unknown kind of check 'run' in lane 'one'; kinds are "),
        (
            "{command: make, inpts: [x]}",
            "5:25: unknown key 'inpts' in a 'command' check of lane 'one'; did you mean 'inputs'?",
        ),
        ("{pytest: t, expect: 1}", "5:21: unknown key 'expect' in a 'pytest' check of lane 'one'; it takes "),
        ("{command: x, pytest: y}", "5:22: a check of lane 'one' has two kinds, 'command' and 'pytest'; write two checks"),
    ],
)
def test_gate_and_doit_refuse_the_same(project: Project, check: str, said: str) -> None:
    project.write("tasks/lanes.yml", ONE_CHECK.format(check))
    done, other = gate(project), project.doit("lanes")
    assert done.stderr.startswith(f"tasks/lanes.yml:{said}")
    assert (done.returncode, done.stdout) == (other.returncode, other.stdout) == (3, "")
    assert done.stderr == other.stderr


@pytest.mark.parametrize("name", ["vectors", "list", "reset-dep"])
def test_gate_and_doit_refuse_the_same_names_of_lanes(project: Project, name: str) -> None:
    project.write("tasks/lanes.yml", ONE_CHECK.format("command: x").replace("one", name))
    done, other = gate(project), project.doit("lanes")
    said = f"tasks/lanes.yml:2:3: '{name}' can't name a lane: it is a command of doit; take another name\n"
    assert (done.returncode, done.stdout) == (other.returncode, other.stdout) == (3, "")
    assert done.stderr == other.stderr
    assert done.stderr.startswith(said)


def test_what_another_package_brings_counts_where_it_is_installed(project: Project) -> None:
    project.write("tasks/lanes.yml", ONE_CHECK.format("{fuzz: x, runs: 3}"))
    assert gate(project).returncode == 3
    installed = project.root.parent / "installed/brings-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: brings\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[touchgate.checks]\nfuzz = brings:KIND\n")
    done = gate(project, PYTHONPATH=str(installed.parent))
    assert (done.returncode, done.stdout) == (0, "true\n")


def test_kinds_of_the_base_branch_that_are_not_known_open_nothing(project: Project) -> None:
    """They are read for their paths."""
    lanes = (project.root / "tasks/lanes.yml").read_text()
    project.git("checkout", "-q", "main")
    project.write("tasks/more.yml", ONE_CHECK.format("fuzz: x").replace("one", "more"))
    project.commit()
    project.git("checkout", "-q", "-B", "work")
    project.write("tasks/more.yml", ONE_CHECK.format("command: x").replace("one", "more"))
    project.write("tasks/lanes.yml", f"{lanes}\n")
    done = gate(project)
    assert done.returncode == 0
    assert "everything runs" not in done.stderr
