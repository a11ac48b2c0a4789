"""`doit lanes`: what its forms make use of, how many findings are shown, and that every `--json` says the same."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import Project


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("check", "--source", "src/*"),
            "`doit lanes check` makes no use of --source; `doit lanes check WORKFLOW --source ...` does",
        ),
        (
            ("check", "--include", "src"),
            "`doit lanes check` makes no use of --include; `doit lanes check WORKFLOW --include ...` does",
        ),
        (("check", "w.yml", "--include", "src"), "--include says where what --source names is looked up: give --source, too"),
        (("check", "w.yml", "--root", "src"), "`doit lanes check WORKFLOW` makes no use of --root"),
        (("check", "w.yml", "--base", "main"), "`doit lanes check WORKFLOW` makes no use of --base"),
        (("check", "--suite", "full"), "`doit lanes check` makes no use of --suite"),
        (("--root", "src"), "`doit lanes` makes no use of --root"),
        (("--all",), "`doit lanes` makes no use of --all"),
        (("why", "one", "--source", "x"), "`doit lanes why` makes no use of --source"),
        (("stats", "--suite", "full"), "`doit lanes stats` makes no use of --suite"),
        (("init", "--json"), "`doit lanes init` makes no use of --json"),
        (("schema", "--fetch"), "`doit lanes schema` makes no use of --fetch"),
    ],
)
def test_an_option_that_would_be_passed_over_is_refused(project: Project, words: tuple[str, ...], said: str) -> None:
    project.write("w.yml", "on: {push: {paths: [src/**]}}\n")
    done = project.doit("lanes", *words)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"ERROR: {said}\n")


def test_settings_of_the_repository_are_no_options_on_the_command_line(project: Project) -> None:
    settings = (project.root / "pyproject.toml").read_text()
    project.write("pyproject.toml", f'{settings}gated = ["src"]\nsuite = "full"\nbase = "main"\n')
    for words in (("check",), (), ("stats",), ("why", "one")):
        done = project.doit("lanes", *words, environ={"TOUCHGATE_SUITE": "smoke"})
        assert done.returncode == 0, done.stderr


def findings(project: Project, *words: str) -> list[str]:
    done = project.doit("lanes", "check", *words)
    assert done.returncode == 1, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("    ")]


def test_a_flood_of_one_kind_is_cut_short_and_other_kinds_are_not_hidden(project: Project) -> None:
    lanes = (project.root / "tasks/lanes.yml").read_text()
    dead = [f"no/{number}" for number in range(6)]
    # Behind them all, so that they would be at its end.
    twins = "  three: {paths: [src/**], checks: [command: x]}\n  four: {paths: [lib/**], checks: [command: x]}\n"
    twins += "  five: {paths: [lib/**], checks: [command: x]}\n  six: {paths: [lib/**], checks: [command: x]}\n"
    project.write("tasks/lanes.yml", lanes.replace("[src/**]", f"[src/**, {', '.join(dead)}]") + twins)
    project.commit()
    lines = [
        *(f"tasks/lanes.yml:4:{21 + 6 * number}: 'no/{number}' of lane 'one' matches no tracked file" for number in range(6)),
        "tasks/lanes.yml:14:3: lane 'four' has the same paths as 'two' at tasks/lanes.yml:8:3",
        "tasks/lanes.yml:15:3: lane 'five' has the same paths as 'two' at tasks/lanes.yml:8:3",
        "tasks/lanes.yml:16:3: lane 'six' has the same paths as 'two' at tasks/lanes.yml:8:3",
    ]
    assert findings(project, "--all") == lines
    more = "and 3 more: a pattern that matches no tracked file; --all shows them"
    assert findings(project) == [*lines[:3], *lines[6:], more]
    data = json.loads(project.doit("lanes", "check", "--json").stdout)
    assert len(data["findings"]) == len(lines)
    # One more than is shown is shown as well.
    project.write("tasks/lanes.yml", lanes.replace("[src/**]", f"[src/**, {', '.join(dead[:4])}]"))
    assert len(findings(project)) == 4


def test_every_json_says_the_same_of_a_change_and_of_a_decision(project: Project) -> None:
    lanes = (project.root / "tasks/lanes.yml").read_text()
    project.git("checkout", "-q", "main")
    project.write("tasks/lanes.yml", lanes.replace("lib/**", "src/other/**"))
    project.commit()
    project.git("checkout", "-q", "-B", "work")
    project.write("src/deep/new.txt", "x")
    project.commit()
    project.write("docs/more.md", "x")
    command = [sys.executable, "-c", "import sys; from touchgate.console import main; sys.exit(main())", "gate", "--json"]
    done = subprocess.run(command, cwd=project.root, env=project.environ, capture_output=True, text=True, check=True)
    gate = json.loads(done.stdout)
    shown = json.loads(project.doit("lanes", "--json").stdout)
    why = json.loads(project.doit("lanes", "why", "two", "--json").stdout)
    touched = json.loads(project.doit("touched", "--json").stdout)
    of_change = [key for key in touched if key not in ("schema", "paths")]
    assert {"looked_at", "base_from", "head_from", "notes"} <= set(of_change)
    for key in of_change:
        assert gate[key] == shown[key] == why[key] == touched[key], key
    assert touched["looked_at"] == len(touched["paths"]) == 2
    of_lane = [key for key in gate["lanes"][0] if key != "each"]
    for ours, theirs in zip(gate["lanes"], shown["lanes"], strict=True):
        assert [ours[key] for key in of_lane] == [theirs[key] for key in of_lane]
    assert why["lanes"] == [lane for lane in shown["lanes"] if lane["name"] == "two"]
    project.doit("--report-dir", "report")
    report = json.loads((project.root / "report/result.json").read_text())
    near = {"path": "src/deep/new.txt", "pattern": "src/other/**", "where": "tasks/lanes.yml:10:13"}
    for data in (shown, report):
        (two,) = (lane for lane in data["lanes"] if lane["name"] == "two")
        assert (two["path"], two["pattern"], two["nearest"]) == (None, None, near)
    assert "  nearest     src/deep/new.txt\n  to          src/other/**  (tasks/lanes.yml:10:13)\n" in project.doit(
        "lanes", "why", "two"
    ).stdout  # fmt: skip
