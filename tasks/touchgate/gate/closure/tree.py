"""The tree of files that a closure is read from: a commit's, or the working tree.

Links are followed as the system would, within the tree; what a submodule holds is not looked at: a path that leads into
one stands for the submodule as a whole.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from touchgate.gate.git import GITLINK, SYMLINK, missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from touchgate.gate.git import Repository

LARGEST = 16 << 20
"""Bytes of one source."""
MOST_BELOW = 1_000_000
"""Files below one folder, along links."""
MOST_LINKS = 40
"""Links on one way, as Linux allows."""


class ClosureFault(Exception):
    """Why it can't be told what is included: a clause."""


class Tree(Protocol):
    """Paths are relative to the repository's root, with "/"; "" is the root. All but `read` cost no blob of a commit.

    Each method may raise ClosureFault or GitFault: then nothing can be told.
    """

    def is_file(self, path: str) -> bool:
        """Whether the path is a file or a link to one."""
        ...

    def at(self, path: str) -> tuple[str, ...]:
        """The files that a path may stand for, which need not be normalized: "a/../b" where a is a link has two answers.

        For a path into a submodule, the submodule's own path. () where there is nothing.
        """
        ...

    def folder(self, path: str) -> Sequence[str] | None:
        """The names in a folder, folders with a "/" at their end, sorted; None where there is no such folder."""
        ...

    def read(self, paths: Sequence[str]) -> dict[str, bytes | None]:
        """The contents, fetched together; None for what is no file. Of a link, the file that it leads to."""
        ...

    def blob_id(self, path: str) -> str | None:
        """What stands for the file's content, the same only where the content is; None for what is no file."""
        ...

    def gitlink(self, path: str) -> str | None:
        """The submodule that the path is or lies in, or None."""
        ...

    def behind(self, path: str) -> tuple[str, ...]:
        """The links that a path leads over, and the file at its end where that is another."""
        ...

    def below(self, folder: str) -> Iterable[str]:
        """All files below a folder, also along links, as they are reached from it; submodules as a whole.

        A list of the whole folder: only where a pattern or a check asks for it.
        """
        ...


class Entry(NamedTuple):
    """What lies in a folder. kind: "file", "folder", "link" or "gitlink"; id: a blob's, where it is known."""

    kind: str
    id: str | None = None


class _Place(NamedTuple):
    """Where a path leads: its real path and entry (None: nowhere in the tree), and the links on the way."""

    real: str
    entry: Entry | None
    links: tuple[str, ...] = ()


_ROOT = _Place("", Entry("folder"))


class _Walked:
    """What both trees have in common: walking along links."""

    def __init__(self) -> None:
        self._folders: dict[str, Mapping[str, Entry] | None] = {}
        self._names: dict[str, list[str]] = {}
        self._places: dict[str, _Place] = {}
        self._below: dict[str, list[str]] = {}

    def _entries(self, folder: str) -> Mapping[str, Entry] | None:
        raise NotImplementedError

    def _target(self, link: str, entry: Entry) -> str:
        raise NotImplementedError

    def _in(self, folder: str) -> Mapping[str, Entry] | None:
        if folder not in self._folders:
            self._folders[folder] = self._entries(folder)
        return self._folders[folder]

    def _walk(self, path: str) -> _Place:
        found = self._places.get(path)
        if found is None:
            found = self._places[path] = self._walk_anew(path)
        return found

    def _walk_anew(self, path: str) -> _Place:
        if path.startswith("/") or "\0" in path:
            return _Place(path, None)
        ahead = deque(path.split("/"))
        way: list[str] = []
        links: list[str] = []
        while ahead:
            part = ahead.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                if not way:
                    return _Place(path, None, tuple(links))
                way.pop()
                continue
            entry = (self._in("/".join(way)) or {}).get(part)
            here = "/".join((*way, part))
            if entry is not None and entry.kind == "folder":
                way.append(part)
            elif entry is not None and entry.kind == "link":
                links.append(here)
                target = self._target(here, entry)
                if len(links) > MOST_LINKS or target.startswith("/"):
                    return _Place(path, None, tuple(links))
                ahead.extendleft(reversed(target.split("/")))
            else:
                return _end_of(path, here, entry, tuple(links), last=not ahead)
        return _Place("/".join(way), _ROOT.entry, tuple(links))

    def _file(self, path: str) -> _Place | None:
        place = self._walk(path)
        return place if place.entry and place.entry.kind == "file" else None

    def is_file(self, path: str) -> bool:
        """See Tree."""
        return self._file(path) is not None

    def at(self, path: str) -> tuple[str, ...]:
        """See Tree."""
        if path.startswith("/"):
            return ()
        plain = posixpath.normpath(path)
        ways = (plain,) if plain == path or "." not in path else (plain, path)
        found: dict[str, None] = {}
        for way in ways:
            place = self._walk(way)
            if place.entry is None or place.entry.kind == "folder":
                continue
            is_plain = way is plain and place.entry.kind == "file"
            if is_plain or not any(self._walk(other).real == place.real for other in found):
                found[way if is_plain else place.real] = None
        return tuple(found)

    def folder(self, path: str) -> Sequence[str] | None:
        """See Tree."""
        place = self._walk(path)
        if place.entry is None or place.entry.kind != "folder":
            return None
        if place.real not in self._names:
            self._names[place.real] = self._named(place)
        return self._names[place.real]

    def _named(self, place: _Place) -> list[str]:
        found = []
        for name, entry in (self._in(place.real) or {}).items():
            kind = entry.kind
            if kind == "link":
                end = self._walk(f"{place.real}/{name}" if place.real else name).entry
                kind = end.kind if end else "file"
            found.append(f"{name}/" if kind in ("folder", "gitlink") else name)
        return sorted(found)

    def below(self, folder: str) -> Iterable[str]:
        """See Tree."""
        if folder not in self._below:
            self._below[folder] = self._below_anew(folder)
        return self._below[folder]

    def _below_anew(self, folder: str) -> list[str]:
        found: list[str] = []
        waiting = [(folder, frozenset[str]())]
        while waiting:
            here, around = waiting.pop()
            real = self._walk(here).real
            inner = around | {real}
            for path in self._listed(real):
                shown = f"{here}{path[len(real) :]}" if real else posixpath.join(here, path)
                end = self._walk(path) if self._is_link(path) else None
                if end is None or end.entry is None or end.entry.kind != "folder":
                    found.append(shown)
                elif end.real not in inner and not f"{real}/".startswith(f"{end.real}/" if end.real else ""):
                    waiting.append((shown, inner))
                if len(found) > MOST_BELOW:
                    raise ClosureFault(f"more than {MOST_BELOW} files are below {folder or 'the root'}")
        return sorted(dict.fromkeys(found))

    def _is_link(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        entry = (self._in(folder) or {}).get(name)
        return entry is not None and entry.kind == "link"

    def _listed(self, folder: str) -> Iterable[str]:
        """All files below a real folder, links and submodules as they stand."""
        raise NotImplementedError

    def gitlink(self, path: str) -> str | None:
        """See Tree."""
        place = self._walk(path)
        return place.real if place.entry and place.entry.kind == "gitlink" else None

    def behind(self, path: str) -> tuple[str, ...]:
        """See Tree."""
        place = self._walk(path)
        end = (place.real,) if place.entry and place.real != path else ()
        return (*place.links, *end)


class CommitTree(_Walked):
    """The files of a commit."""

    def __init__(self, repo: Repository, commit: str) -> None:
        super().__init__()
        self._repo = repo
        self._commit = commit

    def _entries(self, folder: str) -> Mapping[str, Entry] | None:
        found = self._repo.folder(self._commit, folder)
        return None if found is None else {name: Entry(_kind(entry.mode), entry.id) for name, entry in found.items()}

    def _target(self, link: str, entry: Entry) -> str:
        (content,) = self._repo.blobs([str(entry.id)])
        if content is None:
            raise missing(link, self._commit)
        return os.fsdecode(content)

    def read(self, paths: Sequence[str]) -> dict[str, bytes | None]:
        """See Tree."""
        ids = {path: place.entry.id for path in paths if (place := self._file(path)) and place.entry}
        self._repo.gather([str(one) for one in ids.values()])
        contents = self._repo.blobs([str(one) for one in ids.values()], LARGEST)
        found: dict[str, bytes | None] = dict.fromkeys(paths)
        for path, content in zip(ids, contents, strict=True):
            if content is None:
                raise missing(path, self._commit)
            found[path] = _not_huge(path, content)
        return found

    def blob_id(self, path: str) -> str | None:
        """See Tree."""
        place = self._file(path)
        return place.entry.id if place and place.entry else None

    def _listed(self, folder: str) -> Iterable[str]:
        waiting = [folder]
        found: list[str] = []
        while waiting:
            here = waiting.pop()
            for name, entry in (self._in(here) or {}).items():
                path = f"{here}/{name}" if here else name
                (waiting if entry.kind == "folder" else found).append(path)
        return sorted(found)


class WorkTree(_Walked):
    """The files of the checkout, and those that a sparse checkout leaves out of it."""

    def __init__(self, repo: Repository) -> None:
        super().__init__()
        self._repo = repo
        self._contents: dict[str, bytes] = {}
        self._left_out: dict[str, dict[str, Entry]] = {}
        self._gitlinks: set[str] = set()
        for entry in repo.special():
            if entry.mode == GITLINK:
                self._gitlinks.add(entry.path)
            elif "skip-worktree" in entry.flags:
                self._leave_out(entry.path, Entry(_kind(entry.mode), entry.blob))

    def _leave_out(self, path: str, entry: Entry) -> None:
        folder, _, name = path.rpartition("/")
        self._left_out.setdefault(folder, {})[name] = entry
        while folder and folder not in self._left_out.setdefault(folder.rpartition("/")[0], {}):
            above, _, name = folder.rpartition("/")
            self._left_out[above].setdefault(name, Entry("folder"))
            folder = above

    def _entries(self, folder: str) -> Mapping[str, Entry] | None:
        found = dict(self._left_out.get(folder, {}))
        try:
            with os.scandir(self._repo.root / folder) as names:
                for one in names:
                    if one.name == ".git":
                        continue
                    kind = _kind(stat.S_IFMT(one.stat(follow_symlinks=False).st_mode))
                    path = f"{folder}/{one.name}" if folder else one.name
                    found[one.name] = Entry("gitlink" if path in self._gitlinks else kind)
        except (FileNotFoundError, NotADirectoryError):
            return found or None
        except OSError as error:
            raise ClosureFault(f"{folder or 'the root'} can't be looked into: {error.strerror}") from error
        return found

    def _target(self, link: str, entry: Entry) -> str:
        if entry.id is not None:
            (content,) = self._repo.blobs([entry.id])
            if content is None:
                raise missing(link, "the index")
            return os.fsdecode(content)
        return os.readlink(self._repo.root / link)  # noqa: PTH115 (as text)

    def _content(self, place: _Place) -> bytes:
        if place.real not in self._contents:
            self._contents[place.real] = self._content_anew(place)
        return self._contents[place.real]

    def _content_anew(self, place: _Place) -> bytes:
        if place.entry and place.entry.id is not None:
            (content,) = self._repo.blobs([place.entry.id], LARGEST)
            if content is None:
                raise missing(place.real, "the index")
            return _not_huge(place.real, content)
        try:
            # Opened without waiting: a pipe may have taken the file's place.
            with open(os.open(self._repo.root / place.real, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
                return _not_huge(place.real, file.read(LARGEST + 1))
        except OSError as error:
            raise ClosureFault(f"{place.real} can't be read: {error.strerror}") from error

    def read(self, paths: Sequence[str]) -> dict[str, bytes | None]:
        """See Tree."""
        found: dict[str, bytes | None] = {}
        for path in paths:
            place = self._file(path)
            found[path] = self._content(place) if place else None
        # Kept between `blob_id` and here only.
        self._contents.clear()
        return found

    def blob_id(self, path: str) -> str | None:
        """See Tree."""
        place = self._file(path)
        if place is None or place.entry is None:
            return None
        if place.entry.id is not None:
            return place.entry.id
        content = self._content(place)
        return hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()

    def _listed(self, folder: str) -> Iterable[str]:
        """What is ignored is left out: it is touched by no change."""
        within = [folder] if folder else None
        tracked = (entry.path for entry in self._repo.tracked(within))
        return list(dict.fromkeys([*tracked, *sorted(self._repo.changed_in_worktree(within))]))


def _end_of(path: str, here: str, entry: Entry | None, links: tuple[str, ...], *, last: bool) -> _Place:
    """Where a way ends that meets no folder: only a file's own name is one, "a.h/" and "a.h/." are none."""
    is_end = entry is not None and (entry.kind == "gitlink" or (entry.kind == "file" and last))
    return _Place(here, entry, links) if is_end else _Place(path, None, links)


def _kind(mode: int) -> str:
    kind = stat.S_IFMT(mode)
    if kind == GITLINK:
        return "gitlink"
    if kind == SYMLINK:
        return "link"
    return {stat.S_IFDIR: "folder", stat.S_IFREG: "file"}.get(kind, "other")


def _not_huge(path: str, content: bytes) -> bytes:
    if len(content) > LARGEST:
        raise ClosureFault(f"{path} is larger than {LARGEST >> 20} MiB, which no source is")
    return content
