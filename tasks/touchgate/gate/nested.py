"""What differs inside a submodule, or an untracked repository, that differs as a whole.

A submodule is one entry of the repository around it, and counts as a file: its path is touched when it is moved to
another commit. A lane may also name paths below it; these are listed where the submodule is checked out. Where it is
not, the path with a slash at its end stands for anything below.
"""

from __future__ import annotations

import contextlib

from touchgate.gate.git import GITLINK, Difference, GitFault, Repository, find_root
from touchgate.gate.model import TouchedPath
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def between(repo: Repository, old: str, new: str) -> list[TouchedPath]:
    """What differs between two commits, in git's order, each submodule followed by what differs inside."""
    touched = []
    for difference in repo.diff(old, new):
        touched.append(TouchedPath(difference.path, difference.status))
        if GITLINK in (difference.old_mode, difference.new_mode):
            touched += _moved(repo, difference)
    return touched


def uncommitted(repo: Repository) -> list[TouchedPath]:
    """What differs between the commit checked out and the working tree, nested repositories included.

    Every submodule that is checked out is looked into by itself: what git says of it from outside depends on marks and
    settings inside.
    """
    touched = []
    differences = repo.uncommitted()
    submodules = {entry.path: entry.blob for entry in repo.special() if entry.mode == GITLINK}
    for difference in differences:
        path = difference.path
        if path.endswith("/"):
            # An untracked repository: git lists its folder only.
            touched.append(TouchedPath(path[:-1], difference.status))
            touched += _untracked(repo, path[:-1])
            continue
        touched.append(TouchedPath(path, difference.status))
        if GITLINK in (difference.old_mode, difference.new_mode) or path in submodules:
            submodules.pop(path, None)
            touched += _checked_out(repo, path, difference.old, _status(difference))
    for path, commit in submodules.items():
        inside = _checked_out(repo, path, commit) if _holds_anything(repo.root / path) else []
        if inside:
            touched += [TouchedPath(path, "M"), *inside]
    return touched


def _moved(repo: Repository, difference: Difference) -> list[TouchedPath]:
    """What differs inside a submodule that two commits of the repository around it set to different commits."""
    path = difference.path
    if _is_root(repo.root / path):
        with contextlib.suppress(GitFault), Repository(repo.root / path, repo.environ) as inner:
            if inner.commit(difference.old) and inner.commit(difference.new):
                return _below(path, between(inner, difference.old, difference.new))
    return [TouchedPath(f"{path}/", _status(difference))]


def _status(difference: Difference) -> str:
    """What became of everything below a submodule: it came, went, or is another commit's."""
    if difference.new_mode != GITLINK:
        return "D"
    return "M" if difference.old_mode == GITLINK else "A"


def _checked_out(repo: Repository, path: str, old: str, status: str = "M") -> list[TouchedPath]:
    """What differs inside the submodule at `path` between one of its commits and its checkout.

    status: of all below it, where that can't be looked at.
    """
    if _is_root(repo.root / path):
        with contextlib.suppress(GitFault), Repository(repo.root / path, repo.environ) as inner:
            at = inner.head()
            if at and inner.commit(old):
                return _below(path, [*(between(inner, old, at) if at != old else []), *uncommitted(inner)])
    return [TouchedPath(f"{path}/", status)]


def _below(path: str, touched: Iterable[TouchedPath]) -> list[TouchedPath]:
    return [TouchedPath(f"{path}/{one.path}", one.status) for one in touched]


def _holds_anything(folder: Path) -> bool:
    """Whether there is anything in the place of a submodule: an empty folder is one that is not checked out."""
    try:
        return any(True for _ in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _untracked(repo: Repository, path: str) -> list[TouchedPath]:
    """Every file of an untracked repository, its own ignored ones left out."""
    names = {""}
    if _is_root(repo.root / path):
        try:
            with Repository(repo.root / path, repo.environ) as inner:
                names = {entry.path for entry in inner.tracked()}
                names |= {touched.path for touched in uncommitted(inner)}
        except GitFault:
            names = {""}
    return [TouchedPath(f"{path}/{name}", "?") for name in sorted(names)]


def _is_root(folder: Path) -> bool:
    return not folder.is_symlink() and find_root(folder) == folder.resolve()
