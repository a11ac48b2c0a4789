"""`doit lanes init`: the first lane names a check that can run."""

from __future__ import annotations

import pytest

from touchgate.edge.commands import start


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
