"""The only module that imports GitPython: what lists submodules or rearranges a repository, off the hot path."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from git import Repo


class WorktreeFault(Exception):
    """A submodule or worktree can't be had: what is wrong and the cure, one line."""


@dataclass(frozen=True)
class Submodule:
    """A submodule of the commit checked out. path: from the root; commit: the one recorded; is_here: checked out."""

    path: str
    url: str
    commit: str
    is_here: bool


def submodules(root: Path) -> list[Submodule]:
    """The submodules of the commit checked out, by path. Raises WorktreeFault."""
    with _opened(root) as repo:
        try:
            found = [
                Submodule(str(one.path), one.url, one.hexsha, one.module_exists())
                for one in (repo.submodules if _has_commit(repo) else [])
            ]
        except _list_errors() as error:
            raise WorktreeFault(f"the submodules of {root} can't be listed: {_last_line(error)}") from error
    return sorted(found, key=lambda one: one.path)


def add_worktree(root: Path, commit: str, folder: Path) -> None:
    """Check a commit out in a folder of its own, without a branch. Raises WorktreeFault."""
    with _opened(root) as repo:
        try:
            repo.git.worktree("add", "--detach", str(folder), _checked(commit))
        except _git_error() as error:
            raise WorktreeFault(f"no worktree of {commit} can be made in {folder}: {_last_line(error)}") from error


def remove_worktree(root: Path, folder: Path) -> None:
    """Remove a worktree and what is in it. Raises WorktreeFault."""
    with _opened(root) as repo:
        try:
            repo.git.worktree("remove", "--force", str(folder))
        except _git_error() as error:
            raise WorktreeFault(f"the worktree {folder} can't be removed: {_last_line(error)}") from error


@contextmanager
def _opened(root: Path) -> Iterator[Repo]:
    """The repository, for GitPython, with git's environment as the gate has it."""
    from touchgate.gate.git import environment  # noqa: PLC0415 (beside GitPython, which is late)

    # GitPython hands on os.environ and can only add to it, but a hook's GIT_DIR must go. Its import runs git, and
    # raises ImportError where there is none.
    before = dict(os.environ)
    clean = environment(before)
    for name in before.keys() - clean.keys():
        del os.environ[name]
    os.environ.update(clean)
    try:
        try:
            import git  # noqa: PLC0415 (slow to import)
        except ImportError as error:
            raise WorktreeFault("this needs git on PATH; install it (the package is named git)") from error
        try:
            repo = git.Repo(root)
        except (git.exc.InvalidGitRepositoryError, git.exc.NoSuchPathError) as error:
            raise WorktreeFault(f"{root} is not a git repository") from error
        with repo:
            yield repo
    finally:
        os.environ.clear()
        os.environ.update(before)


def _git_error() -> type[Exception]:
    import git  # noqa: PLC0415 (slow to import, and imported already by whoever is here)

    return git.exc.GitError


def _list_errors() -> tuple[type[Exception], ...]:
    # A malformed .gitmodules comes as any of these.
    return _git_error(), ValueError, OSError


def _has_commit(repo: Repo) -> bool:
    return repo.head.is_valid()


def _checked(word: str) -> str:
    """The word, if git can't take it for an option."""
    if word.startswith("-"):
        raise WorktreeFault(f"{word!r} is no commit")
    return word


def _last_line(error: BaseException) -> str:
    """The line of git's that says what went wrong."""
    text = str(getattr(error, "stderr", "") or error)
    lines = [line.strip(" '\t") for line in text.splitlines()]
    told = [line for line in lines if line.startswith(("fatal:", "error:"))] or [line for line in lines if line]
    return told[-1] if told else type(error).__name__
