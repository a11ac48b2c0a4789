"""What the tests share: throw-away repositories, and commands run in an environment that holds nothing of the person's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine makes single examples slow; that says nothing about the code.
settings.register_profile("touchgate", deadline=None, database=None)  # a read-only checkout must do
settings.load_profile("touchgate")

# A shell starts what it puts in the background deaf to Ctrl-C, and what that starts inherits it: the tests' processes too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes is slow as well: who leaves out the slow tests means these too."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker("slow")


SETTINGS = '[tool.doit]\nloader = "touchgate"\nreporter = "touchgate"\n'


def clean_environment(home: Path) -> dict[str, str]:
    """An environment with a private HOME and cache, no forge, no git settings of the person's."""
    dropped = (
        "GIT_",
        "GITHUB_",
        "CI",
        "FORGEJO_",
        "GITEA_",
        "GITLAB_",
        "TOUCHGATE_",
        "XDG_",
        "DOIT_",
        "FORCE_COLOR",
        "NO_COLOR",
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {
        **kept,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TERM": "dumb",
    }


def ended(pid: int, seconds: float = 10) -> bool:
    """Whether a process ends within a time; one that only waits to be reaped by a slow init has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
        if not state.strip() or state.startswith("Z"):
            return True
        time.sleep(0.02)
    return False


@dataclass
class Project:
    """A git repository in a temporary folder, and commands run in it."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    def git(self, *arguments: str) -> str:
        """Run git here; its output without the last newline."""
        done = subprocess.run(["git", *arguments], cwd=self.root, env=self.environ, check=True, capture_output=True, text=True)
        return done.stdout.rstrip("\n")

    def write(self, name: str, text: str) -> Path:
        """Write a file, folders included."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def commit(self, message: str = "change") -> str:
        """Commit everything; the new commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def doit(
        self, *arguments: str, cwd: str = ".", environ: dict[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run doit here with the interpreter of the tests."""
        return subprocess.run(
            [sys.executable, "-m", "doit", *arguments],
            cwd=self.root / cwd,
            env={**self.environ, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository with settings that choose touchgate, one commit on main, and a branch `work` checked out."""
    home = tmp_path / "home"
    home.mkdir()
    made = Project(tmp_path / "repository", clean_environment(home))
    made.root.mkdir()
    made.git("init", "-q", "-b", "main")
    made.write("pyproject.toml", SETTINGS)
    made.write("docs/a.md", "a\n")
    made.write("src/a.txt", "a\n")
    made.write("lib/b.txt", "b\n")
    made.write(
        "tasks/lanes.yml",
        "lanes:\n"
        "  one:\n"
        "    about: what src holds\n"
        "    paths: [src/**]\n"
        "    checks:\n"
        '      - command: cat src/a.txt && echo ran >> "$MARKS"\n'
        "    env: [MARKS]\n"
        "  two:\n"
        "    about: what lib holds\n"
        "    paths: [lib/**]\n"
        "    checks:\n"
        "      - command: test -s lib/b.txt\n",
    )
    made.commit("first")
    made.git("checkout", "-q", "-b", "work")
    made.environ["MARKS"] = str(tmp_path / "marks")
    return made
