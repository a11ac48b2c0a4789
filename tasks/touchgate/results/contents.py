"""Content ids of the files that a lane's checks depend on: equal content, equal id, in any clone.

A file's id is its kind and git's blob id of the bytes that lie in the checkout ("100644:<blob>"). Git's index is
believed only where git itself compared the file with it and nothing converts content on its way; the rest is hashed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

from touchgate.gate.git import GITLINK, IndexEntry, Repository
from touchgate.gate.patterns import PatternList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from touchgate.gate.model import Lane

ABSENT = "absent"
_PIECE = 1 << 20


MOST_ENTRIES = 100_000
"""In whole folders: a link to / is a mistake, not an input."""


class ContentsFault(Exception):
    """A file's content can't be told: what, where and what to do, one line."""


class Contents:
    """What lies in a checkout, as of the first question. Make another one to look again."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._snapshot: _Snapshot | None = None
        self._ids: dict[str, str] = {}

    def files(self, lanes: Iterable[Lane]) -> dict[str, dict[str, str]]:
        """For each lane by name, path -> content id of all files that match its paths: tracked, or not ignored.

        A submodule counts with every file in it. Raises `ContentsFault` and `touchgate.gate.git.GitFault`.
        """
        snapshot = self._look()
        chosen = {lane.name: _matching(lane, snapshot) for lane in lanes}
        self._learn({path for paths in chosen.values() for path in paths})
        return {name: {path: self._ids[path] for path in paths} for name, paths in chosen.items()}

    def of(self, paths: Iterable[str]) -> dict[str, str]:
        """Path relative to the root -> content id, "absent" if missing. A folder counts with all that is in it."""
        wanted = list(paths)
        self._learn(set(wanted))
        return {path: self._ids[path] for path in wanted}

    def _look(self) -> _Snapshot:
        if self._snapshot is None:
            self._snapshot = _Snapshot.take(self._repository)
        return self._snapshot

    def _learn(self, paths: set[str]) -> None:
        """Fill `_ids` for the paths, asking git once for all of them."""
        snapshot = self._look()
        new = sorted(paths - self._ids.keys())
        trusted = snapshot.trusted(new)
        converted = self._repository.converted(sorted(trusted)) if trusted else set()
        for path in new:
            blob = trusted[path].blob if path in trusted and path not in converted else None
            self._ids[path] = snapshot.hasher.id(path, blob)


class _Snapshot:
    """What git says of a checkout: the index, what differs from it, what is untracked; submodules from inside."""

    def __init__(self, hasher: _Hasher, entries: Mapping[str, IndexEntry], changed: set[str]) -> None:
        self.hasher = hasher
        self._entries = entries
        self._changed = changed
        self.inner: dict[str, list[str]] = {}
        """Submodule, or checkout inside the checkout -> the files in it, as paths from our root."""
        self.paths: list[str] = []
        """Every file that a lane can be gated by, without those of submodules."""

    @classmethod
    def take(cls, repository: Repository) -> _Snapshot:
        tracked = repository.tracked(None)
        changed = repository.changed_in_worktree(None)
        entries = {entry.path: entry for entry in tracked}
        wide = any(len(entry.blob) == 64 for entry in tracked)  # noqa: PLR2004 - hexadecimal digits of SHA-256
        snapshot = cls(_Hasher(repository.root, "sha256" if wide else "sha1"), entries, changed)
        for path in dict.fromkeys([*entries, *sorted(changed)]):
            entry = entries.get(path)
            # Git lists an untracked checkout inside this one as one folder.
            if path.endswith("/") or (entry is not None and entry.mode == GITLINK):
                snapshot.inner[path.rstrip("/")] = _inside(repository, path.rstrip("/"))
            else:
                snapshot.paths.append(path)
        _refuse_folded(repository.root, snapshot.paths)
        return snapshot

    def trusted(self, paths: Iterable[str]) -> dict[str, IndexEntry]:
        """Those whose index entry git itself found equal to the file. Links and submodules are not among them."""
        found = {}
        for path in paths:
            entry = self._entries.get(path)
            if entry is not None and entry.is_trusted and stat.S_ISREG(entry.mode) and path not in self._changed:
                found[path] = entry
        return found


def _inside(repository: Repository, folder: str) -> list[str]:
    """The files of a submodule as paths from our root. Not checked out, it is one path: an empty or missing folder."""
    root = repository.root / folder
    if not os.path.lexists(root / ".git"):
        return [folder]
    with Repository(root) as inner:
        entries, changed = inner.tracked(None), inner.changed_in_worktree(None)
    paths: list[str] = []
    modules = {entry.path for entry in entries if entry.mode == GITLINK}
    for path in dict.fromkeys([*(entry.path for entry in entries), *sorted(changed)]):
        whole = f"{folder}/{path.rstrip('/')}"
        paths += _inside(repository, whole) if path in modules or path.endswith("/") else [whole]
    return paths


def _matching(lane: Lane, snapshot: _Snapshot) -> list[str]:
    patterns = PatternList([pattern.text for pattern in lane.paths])
    matches: Callable[[str], bool] = lambda path: patterns.decides(path) is not None  # noqa: E731
    found = [path for path in snapshot.paths if matches(path)]
    for module, files in snapshot.inner.items():
        # For the gate a submodule is one path; what lies in it decides a result.
        found += files if matches(module) else [path for path in files if matches(path)]
    return sorted(found)


def _refuse_folded(root: Path, paths: Iterable[str]) -> None:
    """On a file system that takes two names for one, only one of the two files can be in the checkout."""
    first: dict[str, str] = {}
    for path in paths:
        other = first.setdefault(path.casefold(), path)
        if other == path:
            continue
        try:
            same = os.path.samestat((root / other).lstat(), (root / path).lstat())
        except OSError:
            continue
        # Two hard links to one file are two names as well, each with its own entry in the folder.
        if same and not _both_listed(root, other, path):
            raise ContentsFault(
                f"{other} and {path} are one file here: this file system does not tell the two names apart; "
                "rename one of them, or use a checkout on a file system that does"
            )


def _both_listed(root: Path, one: str, other: str) -> bool:
    def listed(path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return any(entry.name == name for entry in (root / folder).iterdir())

    return listed(one) and listed(other)


class _Hasher:
    """Ids from the files themselves."""

    def __init__(self, root: Path, algorithm: str) -> None:
        self._root = root
        self._algorithm = algorithm
        self._entries = 0
        """Seen so far below folders that were asked for whole, or that a link leads to."""

    def id(self, path: str, blob: str | None) -> str:
        """The id of what lies at `path`. `blob`: its content's id, where it is known and the file is a regular one."""
        return self._id(self._root / path, path, blob, frozenset())

    def _id(self, file: Path, path: str, blob: str | None, within: frozenset[tuple[int, int]]) -> str:
        try:
            seen = file.lstat()
            if stat.S_ISREG(seen.st_mode):
                mode = "100755" if seen.st_mode & stat.S_IXUSR else "100644"
                return f"{mode}:{blob or self._file(file, path)}"
            if stat.S_ISLNK(seen.st_mode):
                return self._link(file, path, within)
            if stat.S_ISDIR(seen.st_mode):
                return self._folder(file, path, within)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except OSError as fault:
            raise ContentsFault(f"{path} can't be read: {fault.strerror}; it gates a lane or is a check's input") from fault
        return f"special:{stat.S_IFMT(seen.st_mode):o}"

    def _file(self, file: Path, path: str) -> str:
        """The id that `git hash-object --no-filters` gives."""
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as opened:
            size = os.fstat(descriptor).st_size
            total = self._start(size)
            left = size
            while piece := opened.read(_PIECE):
                total.update(piece)
                left -= len(piece)
        if left:
            raise ContentsFault(f"{path} changed while it was read; run again when nothing writes to it")
        return total.hexdigest()

    def _link(self, file: Path, path: str, within: frozenset[tuple[int, int]]) -> str:
        """The target's name, and what it leads to: a check that opens the link reads that."""
        target = os.fsencode(file.readlink())
        total = self._start(len(target))
        total.update(target)
        try:
            real = file.resolve(strict=True)
        except (OSError, RuntimeError):  # dangling, or a loop
            return f"120000:{total.hexdigest()}:{ABSENT}"
        return f"120000:{total.hexdigest()}:{self._id(real, path, None, within)}"

    def _folder(self, folder: Path, path: str, within: frozenset[tuple[int, int]]) -> str:
        seen = folder.stat()
        place = (seen.st_dev, seen.st_ino)
        if place in within:
            return "folder:again"  # a link back up
        total = hashlib.new("sha256")
        # Byte code is Python's own, made anew from what is hashed beside it; a run that writes it would change its own key.
        seen_here = (entry for entry in folder.iterdir() if entry.suffix != ".pyc" or entry.parent.name != "__pycache__")
        entries = sorted(seen_here, key=lambda entry: os.fsencode(entry.name))
        self._entries += len(entries)
        if self._entries > MOST_ENTRIES:
            raise ContentsFault(f"{path} leads to folders with more than {MOST_ENTRIES} entries; name what is needed of them")
        for entry in entries:
            if entry.name != ".git":
                inner = self._id(entry, f"{path}/{entry.name}", None, within | {place})
                total.update(os.fsencode(entry.name) + b"\0" + inner.encode("ascii") + b"\0")
        return f"folder:{total.hexdigest()}"

    def _start(self, size: int) -> hashlib._Hash:
        total = hashlib.new(self._algorithm, usedforsecurity=False)
        total.update(b"blob %d\0" % size)
        return total
