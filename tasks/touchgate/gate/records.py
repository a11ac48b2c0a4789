"""What git's plumbing prints and reads, record by record: differences, entries of the index, paths as lines."""

from __future__ import annotations

import os
import re

from touchgate.gate.values import NamedTuple

GITLINK = 0o160000
SYMLINK = 0o120000

_NO_FLAGS: frozenset[str] = frozenset()
_FLAGS = {
    b"S": frozenset({"skip-worktree"}),
    b"s": frozenset({"assume-unchanged", "skip-worktree"}),
    b"h": frozenset({"assume-unchanged"}),
    b"m": frozenset({"assume-unchanged"}),
}


class Difference(NamedTuple):
    """A path that differs. Modes: 0 where absent. `old`, `new`: object ids, zeros or empty where unknown or absent."""

    path: str
    status: str
    old_mode: int
    new_mode: int
    old: str
    new: str


class IndexEntry(NamedTuple):
    """A tracked path. stage is 0, or 1 to 3 while a merge is unresolved; flags: "assume-unchanged", "skip-worktree"."""

    path: str
    mode: int
    blob: str
    stage: int
    flags: frozenset[str]

    @property
    def is_trusted(self) -> bool:
        """Whether git compares the file with the index at all."""
        return not self.flags and self.stage == 0


def as_line(path: bytes) -> bytes:
    """A path as git reads it from a line: in quotes where the line would otherwise say something else."""
    if not path.startswith(b'"') and b"\n" not in path and b"\r" not in path:
        return path
    escaped = re.sub(rb'["\\\n\r]', lambda match: b"\\%03o" % match[0][0], path)
    return b'"' + escaped + b'"'


def parse_entry(record: bytes) -> IndexEntry:
    """One record of `git ls-files -z -v --stage`."""
    meta, _, path = record.partition(b"\t")
    tag, mode, blob, stage = meta.split(b" ")
    return IndexEntry(os.fsdecode(path), int(mode, 8), blob.decode("ascii"), int(stage), _FLAGS.get(tag, _NO_FLAGS))


def parse_raw(meta: bytes, path: bytes) -> Difference:
    """One difference of `git diff-tree -z --raw`: what stands before the path, and the path."""
    old_mode, new_mode, old, new, status = meta.decode("ascii").split(" ")
    return Difference(os.fsdecode(path), status, int(old_mode[1:], 8), int(new_mode, 8), old, new)


def parse_status(record: bytes) -> Difference:
    """One record of `git status --porcelain=v2 -z`: changed, unmerged or untracked."""
    kind = record[:1]
    if kind == b"?":
        return Difference(os.fsdecode(record[2:]), "?", 0, 0, "", "")
    if kind == b"u":
        # u XY sub m1 m2 m3 mW h1 h2 h3 path
        fields = record.split(b" ", 10)
        modes = {int(mode, 8) for mode in fields[3:6]}
        # As a submodule where it is one in any version; which commit it was has several answers.
        return Difference(os.fsdecode(fields[10]), "U", GITLINK if GITLINK in modes else 0, 0, "", "")
    # 1 XY sub mH mI mW hH hI path
    _, letters, _, head_mode, _, file_mode, head, index, path = record.split(b" ", 8)
    status = (letters[1:] if letters[1:] != b"." else letters[:1]).decode("ascii")
    return Difference(
        os.fsdecode(path), status, int(head_mode, 8), int(file_mode, 8), head.decode("ascii"), index.decode("ascii")
    )
