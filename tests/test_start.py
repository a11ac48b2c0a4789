"""`doit lanes init`: the first lane names a check that can run."""

from __future__ import annotations

import pytest

from touchgate.edge.commands import start
from touchgate.edge.usage import UsageFault


@pytest.mark.parametrize(
    ("file", "has_pytest", "check"),
    [
        ("tests/test_a.py", True, "pytest: tests"),
        ("tests/test_a.py", False, "command: '! git grep -nE \"^(<{7}|>{7}) \"'"),
        ("a.py", True, "command: '! git grep -nE \"^(<{7}|>{7}) \"'"),
        ("Cargo.toml", True, "command: cargo test"),
        ("package.json", False, "command: npm test"),
        ("Makefile", False, "command: make test"),
    ],
)
def test_the_first_check(tmp_path, file, has_pytest, check):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("test:\n\ttrue\n")
    assert start.first_check(tmp_path, has_pytest=has_pytest) == check


def test_tests_that_nothing_here_can_run_are_named(tmp_path, monkeypatch):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("")
    monkeypatch.setattr(start, "find_spec", lambda _: None)
    told = start.write_first_lane(tmp_path)
    assert "pytest: tests" not in (tmp_path / "tasks/lanes.yml").read_text()
    assert any("which is not installed here" in line for line in told)


OURS = '[tool.doit]\nloader = "touchgate"\nreporter = "touchgate"\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", OURS),
        ('[project]\nname = "x"\n', f'[project]\nname = "x"\n\n{OURS}'),
        ('[project]\nname = "x"', f'[project]\nname = "x"\n\n{OURS}'),
        ("[tool.doit]", OURS),
        ("[tool.doit]\nverbosity = 2\n", f"{OURS}verbosity = 2\n"),
        # Another table's key of that name is none of doit's.
        ('[tool.doit]\n\n[tool.x]\nreporter = "y"\n', f'{OURS}\n[tool.x]\nreporter = "y"\n'),
        (OURS, OURS),
        (f"{OURS}suite = 'full'\n", f"{OURS}suite = 'full'\n"),
    ],
)
def test_the_settings(tmp_path, before, after):
    (tmp_path / "pyproject.toml").write_text(before)
    told = start.write_first_lane(tmp_path)
    assert (tmp_path / "pyproject.toml").read_text() == after
    assert any(line.startswith("wrote pyproject.toml") for line in told) == (before != after)
    assert (tmp_path / "tasks/lanes.yml").is_file()
    with pytest.raises(UsageFault, match=r"^tasks/lanes\.yml is there already; add lanes to it$"):
        start.write_first_lane(tmp_path)


def test_lanes_without_settings_get_them(tmp_path):
    """As `touchgate migrate` leaves a repository."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/ci.yml").write_text("lanes: {}\n")
    told = start.write_first_lane(tmp_path)
    assert told[0] == "tasks/ci.yml is there already: no lane was written"
    assert (tmp_path / "pyproject.toml").read_text() == OURS
    assert [path.name for path in (tmp_path / "tasks").iterdir()] == ["ci.yml"]


@pytest.mark.parametrize("line", ['loader = "other"', "reporter = 'zero'", 'loader = "touchgate"'])
def test_another_loader_is_left_alone(tmp_path, line):
    (tmp_path / "pyproject.toml").write_text(f"[tool.doit]\n{line}\n")
    with pytest.raises(UsageFault, match="it must read"):
        start.write_first_lane(tmp_path)
    assert not (tmp_path / "tasks").exists()
