"""Reads the lane files, tasks/*.yml and tasks/*.yaml, of head and of the base branch's tip.

A file that is a symbolic link, can't be read or is huge is refused: in head with a located problem, in the base with a
text in its stead that no reader of lanes accepts, so that the answer is open.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from touchgate.gate.git import SYMLINK, Repository
from touchgate.gate.located import DeclarationError, Problem
from touchgate.gate.model import At

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from touchgate.gate.change import Judged

FOLDER = "tasks"
ENDINGS = (".yml", ".yaml")
LARGEST = 1 << 20
"""Bytes of one file."""

_LINK = "a symbolic link, which is not followed: what it points to could change unseen"
_HUGE = f"larger than {LARGEST >> 20} MiB, which no lane file is"


@dataclass(frozen=True)
class Sources:
    """The lane files' contents by their paths, sorted. base: None where no base branch is known."""

    head: dict[str, bytes]
    base: dict[str, bytes] | None


@dataclass(frozen=True)
class _Refused:
    why: str


def read(repo: Repository, judged: Judged) -> Sources:
    """The lane files of both sides. Raises DeclarationError for what is refused in head."""
    found = _of_worktree(repo.root) if _is_worktree(judged) else _of_commit(repo, str(judged.change.head))
    refused = [
        Problem(At(path, 1, 1), f"{path} is {content.why}") for path, content in found.items() if isinstance(content, _Refused)
    ]
    if refused:
        raise DeclarationError(refused)
    head = {path: content for path, content in found.items() if isinstance(content, bytes)}
    if judged.base_tip is None:
        return Sources(head, None)
    base = _of_commit(repo, judged.base_tip)
    return Sources(head, {path: text if isinstance(text, bytes) else text.why.encode() for path, text in base.items()})


def head_reader(repo: Repository, judged: Judged) -> Callable[[str], bytes | None]:
    """Reads any other file of head by its path: None for one that is not there, or not a plain file."""
    if _is_worktree(judged):
        return lambda path: _plain(repo.root, path)
    return lambda path: repo.file(str(judged.change.head), path)


def base_reader(repo: Repository, judged: Judged) -> Callable[[str], bytes | None]:
    """The same for the base branch's tip."""
    return lambda path: repo.file(judged.base_tip, path) if judged.base_tip else None


def _is_worktree(judged: Judged) -> bool:
    return judged.change.head_is_worktree or judged.change.head is None


def _is_lane_file(name: str) -> bool:
    return name.endswith(ENDINGS) and not name.startswith(".")


def _plain(root: Path, path: str) -> bytes | None:
    file = root / path
    try:
        return file.read_bytes() if file.is_file() else None
    except OSError:
        return None


def _of_worktree(root: Path) -> dict[str, bytes | _Refused]:
    folder = root / FOLDER
    if folder.is_symlink():
        return {FOLDER: _Refused(_LINK)}
    try:
        names = sorted(file.name for file in folder.iterdir() if _is_lane_file(file.name))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        return {FOLDER: _Refused(f"a folder that can't be read: {error.strerror}")}
    found = {f"{FOLDER}/{name}": _of_file(folder / name) for name in names}
    return {path: content for path, content in found.items() if content is not None}


def _of_file(file: Path) -> bytes | _Refused | None:
    """A lane file's content; None for a folder."""
    try:
        state = file.lstat()
        if stat.S_ISDIR(state.st_mode):
            return None
        if stat.S_ISLNK(state.st_mode):
            return _Refused(_LINK)
        if not stat.S_ISREG(state.st_mode):
            return _Refused("not a file")
        if state.st_size > LARGEST:
            return _Refused(_HUGE)
        return file.read_bytes()
    except OSError as error:
        return _Refused(f"a file that can't be read: {error.strerror}")


def _of_commit(repo: Repository, commit: str) -> dict[str, bytes | _Refused]:
    entries = repo.folder(commit, FOLDER)
    if entries is None:
        return {FOLDER: _Refused("not a folder")} if FOLDER in (repo.folder(commit, "") or {}) else {}
    chosen = {name: entry for name, entry in sorted(entries.items()) if _is_lane_file(name) and not _is_folder(entry.mode)}
    contents = repo.blobs([entry.id for entry in chosen.values()], LARGEST)
    found: dict[str, bytes | _Refused] = {}
    for (name, entry), content in zip(chosen.items(), contents, strict=True):
        found[f"{FOLDER}/{name}"] = _checked(entry.mode, content)
    return found


def _is_folder(mode: int) -> bool:
    return stat.S_ISDIR(mode)


def _checked(mode: int, content: bytes | None) -> bytes | _Refused:
    if mode == SYMLINK:
        return _Refused(_LINK)
    if content is None:
        return _Refused("a file whose content is not in this clone")
    return _Refused(_HUGE) if len(content) > LARGEST else content
