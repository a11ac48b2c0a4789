"""Who has a lease, told from the lock, the record beside it and /proc, without disturbing anybody."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import socket
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from touchgate.leases import process, record
from touchgate.leases.engine import Holder

if TYPE_CHECKING:
    from pathlib import Path

RESOURCE = "host"


def locked_out(entry: record.Record, lock: os.stat_result) -> bool:
    """Whether the run of `entry` goes on, with a lock file that is not this one any more."""
    return entry.ended is None and entry.inode != lock.st_ino and running(entry) is True


def running(entry: record.Record) -> bool | None:
    """Whether the very process of `entry` lives; None where it can't be told (another container's process id)."""
    if entry.namespace != process.pid_namespace() or entry.host != socket.gethostname():
        return None
    return process.start_mark(entry.pid) == entry.started


def status(folder: Path, resource: str = RESOURCE) -> list[Holder]:
    """Who has one lock file, read without taking it. Empty: free, and the last run ended by itself.

    A holder that is not `alive` was killed: the host is free, and the record tells who it was. Where the run has ended
    but a process of it still has the lock, it is alive, and its note names that process as far as this user may see it.
    """
    lock_path, record_path = folder / f"{resource}.lock", folder / f"{resource}.json"
    entry = record.read(record_path)
    try:
        descriptor = os.open(lock_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return _without_lock_file(entry)
    except OSError as fault:
        # A folder of others: the record may still be readable.
        note = f"whether the lock is held can't be told: {fault.strerror}"
        alive = entry is not None and entry.ended is None and running(entry) is not False
        return [of_record(entry, alive=True, note=note)] if entry is not None and alive else []
    try:
        seen = os.fstat(descriptor)
        if process.taker(seen) is not None or not _free(descriptor):
            return [who_has(entry, seen, resource)]
    finally:
        os.close(descriptor)
    if entry is None or entry.ended is not None:
        return []
    if locked_out(entry, seen):
        return _without_lock_file(entry)
    return [of_record(entry, alive=False, note="killed, or its record could not be closed; the host is free")]


def sharer(folder: Path) -> Holder | None:
    """Whoever shares the host's lock, as leases of its GPUs do, who say so themselves; None where nobody is seen to."""
    try:
        seen = (folder / f"{RESOURCE}.lock").lstat()
    except OSError:
        return None
    return who_has(None, seen) if process.taker(seen, "READ") is not None else None


def _without_lock_file(entry: record.Record | None) -> list[Holder]:
    if entry is None or entry.ended is not None:
        return []
    if running(entry):
        return [of_record(entry, alive=True, note="its lock file was deleted while it held it")]
    return [of_record(entry, alive=False, note="killed; its lock file is gone, and the host is free")]


def _free(descriptor: int) -> bool:
    """Ask the kernel by a shared lock given back at once. Only where /proc/locks did not already say that it is held.

    A run that asks in those microseconds tries again (`SETTLE`).
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as fault:
        return fault.errno not in (errno.EAGAIN, errno.EACCES)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def who_has(entry: record.Record | None, lock: os.stat_result, resource: str = RESOURCE) -> Holder:
    """Whoever has the lock `lock`, by the record as far as it fits, else by /proc."""
    if entry is not None and entry.ended is None and entry.inode == lock.st_ino and running(entry) is not False:
        return of_record(entry, alive=True)
    keepers = process.keepers(lock)
    taker = process.taker(lock)
    shared = taker is None and process.taker(lock, "READ") is not None  # a lease locks what it has a record of alone
    fits = entry is not None and entry.inode == lock.st_ino and not shared
    if entry is not None and fits and (entry.pid in (taker or entry.pid, *keepers) or not keepers):
        how = "has ended" if entry.ended is not None else "was killed"
        return of_record(entry, alive=True, note=f"the run {how}; {kept_by(keepers)}")
    if not keepers:
        return unknown("no readable record says who", resource)
    names = kept_by(keepers)
    note = f"locked past the queue, without a record; {names}"
    return replace(unknown(note, resource), pid=keepers[0], user=owner_name(keepers[0]))


def kept_by(keepers: tuple[int, ...]) -> str:
    """In words, which processes have a lock."""
    if not keepers:
        return "a process that it started still has the lock"
    return "the lock is kept by " + ", ".join(f"pid {pid} {process.command(pid)}".strip() for pid in keepers)


def of_record(entry: record.Record, *, alive: bool, note: str = "") -> Holder:
    """The holder that a record tells of."""
    return Holder(
        resource=entry.resource,
        user=entry.user,
        pid=entry.pid,
        since=entry.since,
        what=entry.what,
        url=entry.url,
        token=entry.token,
        alive=alive,
        note=note,
    )


def unknown(note: str, resource: str = RESOURCE) -> Holder:
    """A holder of whom only `note` is known."""
    return Holder(resource, "somebody", None, None, "", alive=True, note=note)


@lru_cache(maxsize=64)
def user_name(uid: int) -> str:
    """The account's name, or "uid 1234" where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def owner_name(pid: int) -> str:
    """The account that process `pid` runs under."""
    try:
        return user_name((process.PROC / str(pid)).stat().st_uid)
    except OSError:
        return "somebody"
