"""The record beside a lock: who holds it. For people and for `doit lease status`; the lock itself is the truth."""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
LARGEST = 64 * 1024
"""Bytes. A record is a few hundred; anything longer is not ours."""


@dataclass(frozen=True)
class Record:
    """Who took a lease.

    started: `touchgate.leases.process.start_mark` of `pid`; namespace: where that pid means something. since, ended:
    ISO 8601, UTC; ended None while the run goes on. token: grows with every grant. inode: the lock file's, so that a
    lock file replaced under its holder is noticed.
    """

    resource: str
    user: str
    pid: int
    started: str
    namespace: str
    host: str
    what: str
    since: str
    token: int
    inode: int
    url: str | None = None
    ended: str | None = None


_TYPES: dict[str, tuple[type, ...]] = {
    "resource": (str,),
    "user": (str,),
    "pid": (int,),
    "started": (str,),
    "namespace": (str,),
    "host": (str,),
    "what": (str,),
    "since": (str,),
    "token": (int,),
    "inode": (int,),
    "url": (str, type(None)),
    "ended": (str, type(None)),
}
assert set(_TYPES) == {field.name for field in fields(Record)}  # noqa: S101 - the table must name every field


def printable(text: str, longest: int = 500) -> str:
    """`text` without control characters: it is written by others and ends up on a terminal."""
    shown = text[:longest]
    return shown if shown.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in shown)


def parse(text: str) -> Record | None:
    """The record in `text`; None for anything torn, foreign or of a newer schema."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        return None
    values: dict[str, Any] = {}
    for name, types in _TYPES.items():
        value = data.get(name)
        if not isinstance(value, types) or isinstance(value, bool):
            return None
        values[name] = printable(value) if isinstance(value, str) else value
    if values["pid"] <= 0 or values["token"] < 0:
        return None
    return Record(**values)


def read(path: Path) -> Record | None:
    """The record at `path`; None where none can be read and understood. Never waits, never follows a link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = os.read(descriptor, LARGEST + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return parse(content.decode("utf-8", "replace")) if len(content) <= LARGEST else None


def write(path: Path, record: Record, mode: int) -> None:
    """Put `record` at `path`, whole or not at all. Only for whoever has the lock: the temporary name is a fixed one.

    Raises OSError (a full disk, a read-only folder); the old record, if any, is then untouched.
    """
    temporary = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(temporary)  # noqa: PTH108 - what a holder killed while writing left behind
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, mode)
    try:
        try:
            os.fchmod(descriptor, mode)  # whatever the umask says, others must be able to read who holds it
            _write(descriptor, record)
        finally:
            os.close(descriptor)
        # Not over the old one: some file systems write a file out to disk first when it replaces another, and a record
        # that is missing for a moment costs a name.
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108
        os.rename(temporary, path)  # noqa: PTH104
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def end(path: Path, record: Record) -> None:
    """Write a record over the shorter one of the same run that had no end. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _write(descriptor, record)
    finally:
        os.close(descriptor)


def _write(descriptor: int, record: Record) -> None:
    content = (json.dumps({"schema": SCHEMA, **vars(record)}) + "\n").encode("ascii")
    if os.pwrite(descriptor, content, 0) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
