"""Writes a first lane file and the settings that choose touchgate, into a repository that has neither."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from touchgate.edge.usage import UsageFault

SETTINGS = 'loader = "touchgate"\nreporter = "touchgate"\n'


def first_check(root: Path, *, has_pytest: bool) -> str:
    """The check that a repository most likely has already and that can run here, as it stands in a declaration."""
    if has_pytest and has_tests(root):
        return "pytest: tests"
    if (root / "Cargo.toml").is_file():
        return "command: cargo test"
    if (root / "package.json").is_file():
        return "command: npm test"
    makefile = root / "Makefile"
    if makefile.is_file() and re.search(r"^test:", makefile.read_text(encoding="utf-8", errors="replace"), re.MULTILINE):
        return "command: make test"
    # True of every repository, and it can fail.
    return "command: '! git grep -nE \"^(<{7}|>{7}) \"'"


def has_tests(root: Path) -> bool:
    """Whether there are tests that pytest would find."""
    return any((root / "tests").glob("test_*.py"))


def write_first_lane(root: Path) -> list[str]:
    """Write tasks/lanes.yml and the settings; returns lines that say what was done. Raises UsageFault, nothing written.

    Five lines in all: three of a lane, two of settings (under the table's name, where the table is new). Where there are
    lane files already, the settings alone.
    """
    lanes = root / "tasks" / "lanes.yml"
    existing = sorted((root / "tasks").glob("*.y*ml"))
    settings = root / "pyproject.toml"
    before = settings.read_text(encoding="utf-8") if settings.is_file() else ""
    after = with_settings(before)
    if existing and after == before:
        raise UsageFault(f"{existing[0].relative_to(root)} is there already; add lanes to it")
    has_pytest = find_spec("pytest") is not None
    if not existing:
        check = first_check(root, has_pytest=has_pytest)
        lanes.parent.mkdir(exist_ok=True)
        lanes.write_text(
            f"lanes:\n  tests:\n    {{about: the tests, paths: ['**'], checks: [{{{check}}}]}}\n", encoding="utf-8"
        )
    if after != before:
        settings.write_text(after, encoding="utf-8")
    without = (
        "tests/ holds tests of pytest, which is not installed here; once it is, `- pytest: tests` among the checks runs them"
    )
    return [
        f"{existing[0].relative_to(root)} is there already: no lane was written"
        if existing
        else f"wrote {lanes.relative_to(root)}: one lane over every path; narrow its `paths`, add lanes and checks",
        *(["wrote pyproject.toml: [tool.doit] chooses touchgate's loader and reporter"] if after != before else []),
        *([without] if has_tests(root) and not has_pytest and not existing else []),
        "next: `doit lanes` shows what the change touches, `doit` runs it",
    ]


def with_settings(before: str) -> str:
    """The text of pyproject.toml that chooses touchgate. Raises UsageFault where it chooses something else."""
    whole = before if before.endswith("\n") or not before else f"{before}\n"
    table = re.search(r"^\[tool\.doit\][^\n]*\n", whole, re.MULTILINE)
    inside = whole[table.end() :].partition("\n[")[0] if table else ""
    chosen = dict(re.findall(r"^[ \t]*(loader|reporter)[ \t]*=[ \t]*[\"']([^\"'\n]*)", inside, re.MULTILINE))
    if chosen == {"loader": "touchgate", "reporter": "touchgate"}:
        return before
    if re.search(r"^\s*(loader|reporter)\s*=", inside, re.MULTILINE):
        raise UsageFault(f"pyproject.toml has a loader or reporter under [tool.doit] already; it must read:\n{SETTINGS}")
    if table:
        return whole[: table.end()] + SETTINGS + whole[table.end() :]
    gap = "\n" if before and not before.endswith("\n\n") else ""
    return f"{whole}{gap}[tool.doit]\n{SETTINGS}"
