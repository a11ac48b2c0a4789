"""Reads objects of a repository, one `git cat-file --batch` for all of them, and takes commits and folders apart.

Object names are handed over on standard input, so a name that looks like an option or a path is never taken for one.
"""

from __future__ import annotations

import os
import re

from touchgate.gate.process import Kept
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_OBJECT = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) (commit|tree|blob|tag) (\d+)")

_PIPE_BYTES = 4096
"""What any pipe holds."""


class Commit(NamedTuple):
    """A commit: its id, its parents' ids as written (they may lie beyond a shallow border), its tree's id."""

    id: str
    parents: tuple[str, ...]
    tree: str


class TreeEntry(NamedTuple):
    """One entry of a folder in a commit."""

    mode: int
    id: str


class ObjectReader:
    """One `git cat-file --batch`, asked again and again."""

    def __init__(self, root: str | Path, environ: Mapping[str, str]) -> None:
        self._git = Kept(root, environ, "cat-file", "--batch")
        self._pending = b""
        self._at = 0
        """Where in what is pending the next answer begins."""

    def read(self, requests: Sequence[bytes], limit: int | None = None) -> list[tuple[str, bytes, bytes] | None]:
        """For each request (id, type, content) of what it names, or None. limit: keep only its first limit + 1 bytes."""
        found: list[tuple[str, bytes, bytes] | None] = []
        waiting = list(requests)
        while waiting:
            # Many at once, or most of the time goes by in waiting for each; never more than the pipe holds, or git would
            # wait for its answers to be read while it is waited for to read.
            count, size = 0, 0
            while count < len(waiting) and (not count or size + len(waiting[count]) < _PIPE_BYTES):
                size += len(waiting[count]) + 1
                count += 1
            self._git.write(b"".join(request + b"\n" for request in waiting[:count]))
            found += [self._answer(limit) for _ in range(count)]
            del waiting[:count]
        return found

    def _answer(self, limit: int | None) -> tuple[str, bytes, bytes] | None:
        while (end := self._pending.find(b"\n", self._at)) < 0:
            self._more()
        match = _OBJECT.fullmatch(self._pending, self._at, end)
        self._at = end + 1
        if not match:
            # "<request> missing", or "ambiguous": no object in either case.
            return None
        size = int(match[3])
        kept = size if limit is None else min(size, limit + 1)
        pieces: list[bytes] = []
        have = 0
        # The content, and the line's end that follows it.
        while len(self._pending) - self._at <= size - have:
            if have < kept:
                pieces.append(self._pending[self._at :])
            have += len(self._pending) - self._at
            self._at = len(self._pending)
            self._more()
        end = self._at + size - have
        if have < kept:
            pieces.append(self._pending[self._at : end])
        self._at = end + 1
        return match[1].decode("ascii"), match[2], b"".join(pieces)[:kept]

    def _more(self) -> None:
        self._pending = self._pending[self._at :] + self._git.more()
        self._at = 0

    def close(self) -> None:
        """End the process and wait for it."""
        self._git.close()


def is_name(name: str) -> bool:
    """Whether a name can be asked for: cat-file reads one a line, and no name of git's begins with a dash."""
    if not name or name.startswith("-") or "\n" in name:
        return False
    try:
        # Half a character that stands for no byte is in no name.
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def parse_commit(oid: str, content: bytes) -> Commit:
    """A commit from its text."""
    header = content.partition(b"\n\n")[0].split(b"\n")
    parents = tuple(line[7:].decode("ascii") for line in header if line.startswith(b"parent "))
    return Commit(oid, parents, header[0][5:].decode("ascii"))


def parse_tree(content: bytes, id_bytes: int) -> dict[str, TreeEntry]:
    """A folder's entries by their names. id_bytes: 20 or 32."""
    entries = {}
    position = 0
    while position < len(content):
        end = content.index(b"\0", position)
        mode, _, name = content[position:end].partition(b" ")
        position = end + 1 + id_bytes
        entries[os.fsdecode(name)] = TreeEntry(int(mode, 8), content[end + 1 : position].hex())
    return entries
