"""Reads objects of a repository, one `git cat-file --batch` for all of them, and takes commits and folders apart.

Object names are handed over on standard input, so a name that looks like an option or a path is never taken for one.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from touchgate.gate.process import Kept

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OBJECT = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) (commit|tree|blob|tag) (\d+)")


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

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self._git = Kept(root, environ, "cat-file", "--batch")
        self._pending = b""

    def read(self, request: bytes, limit: int | None = None) -> tuple[str, bytes, bytes] | None:
        """(id, type, content) of what the request names, or None. limit: keep only its first limit + 1 bytes."""
        self._git.write(request + b"\n")
        while b"\n" not in self._pending:
            self._pending += self._git.more()
        header, _, self._pending = self._pending.partition(b"\n")
        match = _OBJECT.fullmatch(header)
        if not match:
            # "<request> missing", or "ambiguous": no object in either case.
            return None
        size = int(match[3])
        kept = size if limit is None else min(size, limit + 1)
        pieces, have = [self._pending], len(self._pending)
        while have <= size:
            data = self._git.more()
            if have <= kept:
                pieces.append(data)
            have += len(data)
        # What lies beyond the object's last newline is nothing: the next request is not written yet.
        self._pending = b""
        return match[1].decode("ascii"), match[2], b"".join(pieces)[:kept]

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
