"""The gate over random small repositories, against the plan over differences that are computed without git."""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from touchgate.gate.asked import Asked
from touchgate.gate.cli import answer_to
from touchgate.gate.declarations import read_lanes
from touchgate.gate.model import Change, TouchedPath
from touchgate.gate.plan import plan

FOLDERS = ("kern", "docs", "docs/deep", "src")
NAMES = ("a.cu", "b.md", "c d.h", "caf\udce9", '"q', "-x")
PATTERNS = ("kern/**", "docs/**", "src/*", "'**/*.md'", "'!**/*.md'", "'!docs/deep/**'", "docs/deep/c d.h", "kern/a.cu")


def lanes(chance):
    """A lane file with three lanes, each with patterns of its own."""
    chosen = [[chance.choice(PATTERNS[:4]), *chance.sample(PATTERNS, chance.randrange(3))] for _ in range(3)]
    lines = [
        f"  {name}: {{paths: [{', '.join(paths)}], checks: [command: x]}}" for name, paths in zip("abc", chosen, strict=True)
    ]
    return "\n".join(["lanes:", *lines, ""])


def snapshot(root):
    """What lies in the working tree: path -> (kind and mode, content)."""
    found = {}
    for path in root.rglob("*"):
        shown = str(path.relative_to(root))
        if shown.startswith(".git/") or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink():
            found[shown] = ("link", str(path.readlink()))
        else:
            found[shown] = (path.stat().st_mode & 0o100, path.read_bytes())
    return found


def edit(project, chance, count):
    """Random edits of the working tree."""
    for _ in range(count):
        path = project.root / chance.choice(FOLDERS) / chance.choice(NAMES)
        action = chance.choice(["write", "write", "write", "delete", "mode", "link", "rename"])
        exists = os.path.lexists(path)
        if action == "write" or not exists:
            path.unlink(missing_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(chance.randrange(1000)))
        elif action == "delete":
            path.unlink()
        elif action == "mode" and not path.is_symlink():
            path.chmod(0o755)
        elif action == "link":
            path.unlink()
            path.symlink_to(chance.choice(NAMES))
        else:
            target = project.root / chance.choice(FOLDERS) / chance.choice(NAMES)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)


def raw(project, *arguments):
    """What git says, as bytes: names need not be UTF-8."""
    return subprocess.run(["git", *arguments], cwd=project.root, env=project.environ, check=True, capture_output=True).stdout


def differing(one, other):
    return {path for path in one.keys() | other.keys() if one.get(path) != other.get(path)}


def agree(project, chance):
    project.git("checkout", "-q", "main")
    project.write("tasks/lanes.yml", lanes(chance))
    edit(project, chance, 12)
    project.commit()
    fork = snapshot(project.root)
    forked = project.git("rev-parse", "HEAD")
    project.git("checkout", "-q", "-B", "work")
    for _ in range(chance.randrange(3)):
        edit(project, chance, chance.randrange(3))
        project.commit()
    head = snapshot(project.root)
    project.git("checkout", "-q", "main")
    if chance.random() < 0.5:
        project.write("tasks/lanes.yml", lanes(chance))
    edit(project, chance, 3)
    project.commit()
    at_main = (project.root / "tasks/lanes.yml").read_bytes()
    project.git("checkout", "-q", "work")
    for entry in os.fsdecode(raw(project, "ls-files", "-z")).split("\0")[:-1]:
        if chance.random() < 0.2:
            project.git("update-index", "--assume-unchanged", "--", entry)
    edit(project, chance, chance.randrange(3))
    now = snapshot(project.root)
    at_head = (project.root / "tasks/lanes.yml").read_bytes()
    base, tip = project.git("rev-parse", "main", "work").split()
    for asked, paths in (
        (("main", "work"), differing(fork, head)),
        ((None, None), differing(fork, head) | differing(head, now)),
    ):
        touched = tuple(TouchedPath(path, "M") for path in sorted(paths))
        change = Change(base, tip, None, "", "", "", asked == (None, None), touched)
        due = "all of it" if change.head_is_worktree and not paths and tip == forked else None
        both = [read_lanes({"tasks/lanes.yml": text}) for text in (at_head, at_main)]
        expected = plan(*both, change, due=due)
        answer = answer_to(Asked(None, *asked, (), "smoke", as_json=False), project.root, project.environ)
        assert answer.judged.change.open_reason is None
        assert [path.path for path in answer.judged.change.paths] == sorted(paths)
        assert {one.lane: one.decision for one in answer.decisions} == {one.lane: one.decision for one in expected.lanes}


@pytest.mark.parametrize("seed", range(8))
def test_a_few_random_repositories(project, seed):
    agree(project, random.Random(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_repositories(project, seed):
    agree(project, random.Random(seed))
