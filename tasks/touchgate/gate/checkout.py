"""What is asked of a checkout's working tree and index, through git's plumbing and with `-z`."""

from __future__ import annotations

import os
import re
import stat

from touchgate.gate import process
from touchgate.gate.find import path_of
from touchgate.gate.process import GitFault, environment
from touchgate.gate.records import GITLINK, SYMLINK, Difference, IndexEntry, as_line, parse_entry, parse_status
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_CONVERTING = ("text", "crlf", "eol", "ident", "filter", "working-tree-encoding")
_ARGUMENT_BYTES = 100_000


class Checkout:
    """A working tree with its index, both as they are now."""

    def __init__(self, root: str | Path, environ: Mapping[str, str] = os.environ) -> None:
        self.top = os.fspath(root)
        self.environ = environment(environ)
        self._special: list[IndexEntry] | None = None

    @property
    def root(self) -> Path:
        """The top folder of the checkout; as text: `top`."""
        return path_of(self.top)

    def uncommitted(self) -> list[Difference]:
        """What is staged, changed in the checkout, or untracked and not ignored. Statuses: git's letters, `?` and `U`.

        Files marked assume-unchanged or skip-worktree are compared by content, not by the mark. A path that is staged
        and then changed back in the checkout counts. A submodule counts here when another commit than the staged one is
        checked out; what is uncommitted inside it is its own repository's word (`touchgate.gate.nested`).
        """
        touched = [parse_status(record) for record in self._status(None, "dirty")]
        self._special = None
        known = {difference.path for difference in touched}
        touched += [difference for difference in self._changed_behind_marks() if difference.path not in known]
        return touched

    def special(self) -> list[IndexEntry]:
        """The tracked submodules, and the entries with a mark. Read once, and again by `uncommitted`."""
        if self._special is None:
            answer = b"\0" + self._run("ls-files", "-z", "-v", "--stage")
            # Of many thousands of entries these are a few.
            self._special = [parse_entry(record) for record in re.findall(rb"(?<=\0)(?:[a-zS] |. 160000 )[^\0]+", answer)]
        return self._special

    def left_out(self, path: str) -> IndexEntry | None:
        """The index's entry of a file that a sparse checkout left out of the working tree, else None."""
        for entry in self.special():
            if entry.path == path and self._is_left_out(entry):
                return entry
        return None

    def left_out_in(self, folder: str) -> list[IndexEntry]:
        """The files directly in `folder` that a sparse checkout left out of the working tree."""
        return [entry for entry in self.special() if entry.path.rpartition("/")[0] == folder and self._is_left_out(entry)]

    def _is_left_out(self, entry: IndexEntry) -> bool:
        return "skip-worktree" in entry.flags and not os.path.lexists(os.path.join(self.top, entry.path))

    def tracked(self, pathspecs: Sequence[str] | None = None) -> list[IndexEntry]:
        """The index's entries at or below the given paths (taken literally), in the index's order; None: all."""
        chunks = list(_chunks(pathspecs))
        answers = [self._run("ls-files", "-z", "-v", "--stage", "--", *chunk) for chunk in chunks]
        entries = [parse_entry(record) for answer in answers for record in answer.split(b"\0")[:-1]]
        return entries if len(chunks) == 1 else list(dict.fromkeys(entries))

    def changed_in_worktree(self, pathspecs: Sequence[str] | None = None) -> set[str]:
        """The paths at or below the given ones whose file is not what the index says.

        Changed, missing, unmerged, or untracked and not ignored. Git compares by stat and then by content; the index is
        not written. Files marked assume-unchanged or skip-worktree are never among them: `tracked` shows the marks.
        """
        changed = set()
        for chunk in _chunks(pathspecs):
            for record in self._status(chunk, "none"):
                kind, _, rest = record.partition(b" ")
                if kind in b"?u" or rest[1:2] != b".":
                    changed.add(parse_status(record).path)
        return changed

    def hash_files(self, paths: Sequence[str]) -> list[str]:
        """The blob ids that the files at these paths would get if they were added."""
        if not paths:
            return []
        data = b"".join(as_line(os.fsencode(path)) + b"\n" for path in paths)
        return self._run("hash-object", "--stdin-paths", stdin=data).decode("ascii").split()

    def converted(self, paths: Sequence[str]) -> set[str]:
        """Those of the tracked paths whose file may differ from their blob because git converts it on the way.

        Line ends, `ident`, filters and encodings, by every source of attributes that git reads, and by core.autocrlf.
        """
        automatic = self._run("config", "--get", "core.autocrlf", allowed=(0, 1)).strip().lower()
        if automatic not in (b"", b"false", b"no", b"off", b"0"):
            return set(paths)
        data = b"".join(os.fsencode(path) + b"\0" for path in paths)
        fields = self._run("check-attr", "-z", "--stdin", *_CONVERTING, stdin=data).split(b"\0")
        # (path, attribute, value) each; "unset" is the word for an attribute that is switched off.
        answers = zip(fields[0::3], fields[2::3], strict=False)
        return {os.fsdecode(path) for path, value in answers if value not in (b"unspecified", b"unset")}

    def _status(self, pathspecs: Sequence[str] | None, ignored_submodules: str) -> list[bytes]:
        options = ("--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no", "--no-renames")
        answer = self._run("status", *options, f"--ignore-submodules={ignored_submodules}", "--", *(pathspecs or ()))
        return answer.split(b"\0")[:-1]

    def _changed_behind_marks(self) -> list[Difference]:
        """The marked files whose existence, kind, mode or content is not what the index says."""
        found = []
        plain = []
        for entry in self.special():
            if not entry.flags or self._is_left_out(entry):
                continue
            kind = self._kind_now(entry)
            if kind == 0:
                found.append(Difference(entry.path, "D", entry.mode, 0, entry.blob, ""))
            elif kind != entry.mode:
                found.append(Difference(entry.path, _status_of(entry.mode, kind), entry.mode, kind, entry.blob, ""))
            elif entry.mode == SYMLINK:
                target = os.fsencode(os.readlink(self.root / entry.path))
                if _blob_id(target, len(entry.blob)) != entry.blob:
                    found.append(Difference(entry.path, "M", SYMLINK, SYMLINK, entry.blob, ""))
            elif entry.mode != GITLINK:
                plain.append(entry)
        now = self.hash_files([entry.path for entry in plain])
        found += [
            Difference(entry.path, "M", entry.mode, entry.mode, entry.blob, blob)
            for entry, blob in zip(plain, now, strict=True)
            if blob != entry.blob
        ]
        return found

    def _kind_now(self, entry: IndexEntry) -> int:
        """The mode that git would give to what lies at an entry's path now; 0: nothing, 1: neither file nor link."""
        try:
            state = (self.root / entry.path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as error:
            raise GitFault(f"{self.root / entry.path} can't be looked at: {error.strerror}") from error
        if stat.S_ISLNK(state.st_mode):
            return SYMLINK
        if stat.S_ISDIR(state.st_mode):
            return GITLINK
        if not stat.S_ISREG(state.st_mode):
            return 1
        mode = 0o100755 if state.st_mode & stat.S_IXUSR else 0o100644
        if mode != entry.mode and stat.S_ISREG(entry.mode) and not self._modes_count():
            return entry.mode
        return mode

    def _modes_count(self) -> bool:
        """Whether the file system keeps the bit that makes a file executable."""
        said = self._run("config", "--get", "core.fileMode", allowed=(0, 1)).strip().lower()
        return said not in (b"false", b"no", b"off", b"0")

    def _run(self, *arguments: str, stdin: bytes = b"", allowed: tuple[int, ...] = (0,)) -> bytes:
        return process.run(self.top, self.environ, *arguments, stdin=stdin, allowed=allowed)


def _blob_id(content: bytes, digits: int) -> str:
    import hashlib  # noqa: PLC0415 (only a marked symbolic link needs it)

    data = b"blob %d\0%b" % (len(content), content)
    return (hashlib.sha256(data) if digits == 64 else hashlib.sha1(data, usedforsecurity=False)).hexdigest()  # noqa: PLR2004


def _status_of(old: int, new: int) -> str:
    return "M" if stat.S_IFMT(old) == stat.S_IFMT(new) else "T"


def _chunks(pathspecs: Sequence[str] | None) -> Iterable[Sequence[str]]:
    """The paths in pieces that fit a command line; one empty piece (git's word for everything) for None."""
    if pathspecs is None:
        yield ()
        return
    chunk: list[str] = []
    size = 0
    for path in pathspecs:
        chunk.append(path)
        size += len(os.fsencode(path)) + 1
        if size > _ARGUMENT_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
