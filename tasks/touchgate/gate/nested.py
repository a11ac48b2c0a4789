"""What differs inside a submodule, or an untracked repository, that differs as a whole.

A submodule is one entry of the repository around it, and counts as a file: its path is touched when it is moved to
another commit. A lane may also name paths below it; these are listed where the submodule is checked out. Where it is
not, the path with a slash at its end stands for anything below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from touchgate.gate.git import GITLINK, Difference, GitFault, Repository, find_root
from touchgate.gate.model import TouchedPath

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def with_nested(repo: Repository, differences: Iterable[Difference], *, worktree: bool = False) -> list[TouchedPath]:
    """The differences as touched paths, in their order, each nested repository followed by what differs inside.

    worktree: the new side is the checkout, not a commit.
    """
    touched = []
    for difference in differences:
        path = difference.path
        if GITLINK in (difference.old_mode, difference.new_mode):
            new = None if worktree else difference.new
            touched.append(TouchedPath(path, difference.status))
            touched += _inside(repo, path, difference.old, new)
        elif path.endswith("/"):
            # An untracked repository: git lists its folder only.
            touched.append(TouchedPath(path[:-1], difference.status))
            touched += _untracked(repo, path[:-1])
        else:
            touched.append(TouchedPath(path, difference.status))
    return touched


def _inside(repo: Repository, path: str, old: str, new: str | None) -> list[TouchedPath]:
    """What differs inside the submodule at `path` between two of its commits; new None: its checkout."""
    unknown = [TouchedPath(f"{path}/", "M")]
    if not _is_root(repo.root / path):
        return unknown
    try:
        with Repository(repo.root / path, repo.environ) as inner:
            at = inner.head() if new is None else new
            if at is None or not inner.commit(old) or not inner.commit(at):
                return unknown
            found = with_nested(inner, inner.diff(old, at))
            if new is None:
                found += with_nested(inner, inner.uncommitted(), worktree=True)
    except GitFault:
        return unknown
    return [TouchedPath(f"{path}/{touched.path}", touched.status) for touched in found]


def _untracked(repo: Repository, path: str) -> list[TouchedPath]:
    """Every file of an untracked repository, its own ignored ones left out."""
    names = {""}
    if _is_root(repo.root / path):
        try:
            with Repository(repo.root / path, repo.environ) as inner:
                names = {entry.path for entry in inner.tracked()}
                names |= {touched.path for touched in with_nested(inner, inner.uncommitted(), worktree=True)}
        except GitFault:
            names = {""}
    return [TouchedPath(f"{path}/{name}", "?") for name in sorted(names)]


def _is_root(folder: Path) -> bool:
    return not folder.is_symlink() and find_root(folder) == folder.resolve()
