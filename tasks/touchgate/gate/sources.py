"""Reads the lane files, tasks/*.yml and tasks/*.yaml, of head and of the base branch's tip.

A file that is a symbolic link, can't be read or is huge is refused: in head with a located problem, in the base with a
text in its stead that no reader of lanes accepts, so that the answer is open. So is any other file that is read here (a
workflow). What a sparse checkout leaves out of the working tree is read from the index.
"""

from __future__ import annotations

import contextlib
import os
import stat

from touchgate.gate.git import GITLINK, SYMLINK, GitFault, IndexEntry, Repository, missing
from touchgate.gate.model import At
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from touchgate.gate.change import Judged
    from touchgate.gate.located import DeclarationError

FOLDER = "tasks"
ENDINGS = (".yml", ".yaml")
LARGEST = 1 << 20
"""Bytes of one file."""

_LINK = "a symbolic link, which is not followed: what it points to could change unseen"
_LINK_ABOVE = "below " + _LINK
_HUGE = f"larger than {LARGEST >> 20} MiB, which no lane file is"


class Sources(NamedTuple):
    """The lane files' contents by their paths, sorted. base: None where no base branch is known."""

    head: dict[str, bytes]
    base: dict[str, bytes] | None


class _Refused(NamedTuple):
    why: str


def read(repo: Repository, judged: Judged) -> Sources:
    """The lane files of both sides. Raises DeclarationError for what is refused in head, GitFault for missing objects."""
    found = _of_worktree(repo, judged) if _is_worktree(judged) else _of_commit(repo, str(judged.change.head))
    refused = {path: content for path, content in found.items() if isinstance(content, _Refused)}
    if refused:
        raise _refusal(refused)
    head = {path: content for path, content in found.items() if isinstance(content, bytes)}
    if judged.base_tip is None:
        return Sources(head, None)
    if not _is_worktree(judged) and repo.entry(judged.base_tip, FOLDER) == repo.entry(str(judged.change.head), FOLDER):
        # The same folder, as nearly always.
        return Sources(head, head)
    return Sources(head, at_commit(repo, judged.base_tip))


def at_commit(repo: Repository, commit: str) -> dict[str, bytes]:
    """The lane files of a commit by their paths; the reason in the stead of one that is refused."""
    found = _of_commit(repo, commit)
    return {path: text if isinstance(text, bytes) else text.why.encode() for path, text in found.items()}


def head_reader(repo: Repository, judged: Judged) -> Callable[[str], bytes | None]:
    """Reads any other file of head by its path: None for one that is not there, or a folder.

    It raises DeclarationError for a file that is refused, GitFault for a missing object.
    """
    if _is_worktree(judged):
        return lambda path: _accepted(path, _in_worktree(repo, judged, path))
    return commit_reader(repo, str(judged.change.head))


def base_reader(repo: Repository, judged: Judged) -> Callable[[str], bytes | None]:
    """The same for the base branch's tip."""
    return commit_reader(repo, judged.base_tip) if judged.base_tip else lambda _: None


def commit_reader(repo: Repository, commit: str) -> Callable[[str], bytes | None]:
    """The same for a commit."""
    return lambda path: _accepted(path, _in_commit(repo, commit, path))


def head_folders(repo: Repository, judged: Judged) -> Callable[[str], tuple[str, ...]]:
    """The names of the folders directly in a folder of head ("" is the root), sorted; none where there is no such folder.

    A folder is one that holds a file which git tracks, or would: what only ignored files keep alive is none, and neither
    is a submodule or a symbolic link.
    """
    if _is_worktree(judged):
        from touchgate.gate.folders import WorktreeFolders  # noqa: PLC0415  only lanes with `each` ask

        return WorktreeFolders(repo, judged.change)
    return commit_folders(repo, str(judged.change.head))


def base_folders(repo: Repository, judged: Judged) -> Callable[[str], tuple[str, ...]]:
    """The same for the base branch's tip."""
    return commit_folders(repo, judged.base_tip) if judged.base_tip else lambda _: ()


def commit_folders(repo: Repository, commit: str) -> Callable[[str], tuple[str, ...]]:
    """The same for a commit."""

    def folders(path: str) -> tuple[str, ...]:
        entries = repo.folder(commit, path) or {}
        return tuple(sorted(name for name, entry in entries.items() if _is_folder(entry.mode)))

    return folders


def _accepted(path: str, content: bytes | _Refused | None) -> bytes | None:
    if isinstance(content, _Refused):
        raise _refusal({path: content})
    return content


def _refusal(refused: Mapping[str, _Refused]) -> DeclarationError:
    # Reading the files must not wait for what reads YAML to be imported.
    from touchgate.gate.located import DeclarationError, Problem  # noqa: PLC0415

    return DeclarationError(Problem(At(path, 1, 1), f"{path} is {one.why}") for path, one in refused.items())


def _is_worktree(judged: Judged) -> bool:
    return judged.change.head_is_worktree or judged.change.head is None


def _is_lane_file(name: str) -> bool:
    return name.endswith(ENDINGS) and not name.startswith(".")


def _in_worktree(repo: Repository, judged: Judged, path: str) -> bytes | _Refused | None:
    file = repo.root / path
    if any((repo.root / part).is_symlink() for part in _folders(path)):
        return _Refused(_LINK_ABOVE)
    if os.path.lexists(file):
        return _of_file(file)
    with _unusable_git_allowed(judged):
        entry = repo.left_out(path)
        return _of_entry(repo, entry) if entry else None
    return None


def _in_commit(repo: Repository, commit: str, path: str) -> bytes | _Refused | None:
    entry = repo.entry(commit, path) if path else None
    if entry is None:
        links = (repo.entry(commit, part) for part in _folders(path))
        return _Refused(_LINK_ABOVE) if any(link and link.mode == SYMLINK for link in links) else None
    if _is_folder(entry.mode) or entry.mode == GITLINK:
        return None
    (content,) = repo.blobs([entry.id], LARGEST)
    if content is None:
        raise missing(path, commit)
    return _checked(entry.mode, content)


def _folders(path: str) -> list[str]:
    """The folders above a path, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


@contextlib.contextmanager
def _unusable_git_allowed(judged: Judged) -> Iterator[None]:
    """Where everything runs already, git that can't be asked is no further trouble."""
    try:
        yield
    except GitFault:
        if not judged.change.open_reason:
            raise


def _of_worktree(repo: Repository, judged: Judged) -> dict[str, bytes | _Refused]:
    found: dict[str, bytes | _Refused] = {}
    folder = repo.root / FOLDER
    if folder.is_symlink():
        return {FOLDER: _Refused(_LINK)}
    with _unusable_git_allowed(judged):
        found = {
            entry.path: _of_entry(repo, entry)
            for entry in repo.left_out_in(FOLDER)
            if _is_lane_file(entry.path.rpartition("/")[2])
        }
    try:
        names = [file.name for file in folder.iterdir() if _is_lane_file(file.name)]
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as error:
        return {FOLDER: _Refused(f"a folder that can't be read: {error.strerror}")}
    for name in names:
        content = _of_file(folder / name)
        if content is not None:
            found[f"{FOLDER}/{name}"] = content
    return dict(sorted(found.items()))


def _of_entry(repo: Repository, entry: IndexEntry) -> bytes | _Refused:
    (content,) = repo.blobs([entry.blob], LARGEST)
    if content is None:
        raise missing(entry.path, "the index")
    return _checked(entry.mode, content)


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
        if content is None and entry.mode != GITLINK:
            raise missing(f"{FOLDER}/{name}", commit)
        found[f"{FOLDER}/{name}"] = _checked(entry.mode, content)
    return found


def _is_folder(mode: int) -> bool:
    return stat.S_ISDIR(mode)


def _checked(mode: int, content: bytes | None) -> bytes | _Refused:
    if mode == SYMLINK:
        return _Refused(_LINK)
    if content is None:
        return _Refused("a submodule")
    return _Refused(_HUGE) if len(content) > LARGEST else content
