"""The locks beneath the queue, which hold whatever becomes of it: `host.lock`, and `gpu-<UUID>.lock` for each leased GPU.

A whole host is `host.lock` alone (exclusive); a GPU is its own lock file, with `host.lock` shared. So flock(1), filelock's
`FileLock` and an older touchgate on `host.lock` are kept out and keep out. The lock belongs to the open file description:
every child that is handed the descriptor keeps it, and it ends, in the kernel, with the last process that has it. It is
therefore closed at the end, never unlocked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from touchgate.leases import clock, record
from touchgate.leases.engine import LeaseRefused
from touchgate.leases.holder import RESOURCE, locked_out, of_record, unknown, user_name, who_has

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from touchgate.leases.engine import Holder
    from touchgate.leases.model import Share
    from touchgate.leases.shared import Modes

SETTLE = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008)
"""Seconds. A wake-up comes just before the kernel frees the lock, and `status` may have it for some microseconds."""


@dataclass(frozen=True)
class Busy:
    """A lock that somebody else has. replaced: the file was deleted meanwhile, look again at once."""

    path: Path
    who: Callable[[], Holder]
    """Looks through /proc where no record fits: asked when it is to be told only."""
    replaced: bool = False

    @property
    def holder(self) -> Holder:
        """Who has it now."""
        return self.who()


@dataclass
class Lock:
    """One file, locked by this process. before: the record found beside it. entry: the one written, None where none was."""

    path: Path
    descriptor: int
    exclusive: bool
    before: record.Record | None = None
    entry: record.Record | None = None

    def ours(self) -> bool:
        """Whether the file is still the one that is locked."""
        return _same_file(self.descriptor, self.path)

    def token(self) -> int:
        """The last one that was written in it, 0 where there is none."""
        try:
            written = os.pread(self.descriptor, 20, 0).strip()
        except OSError:
            return 0
        return int(written) if written.isdigit() else 0

    @cached_property
    def record_path(self) -> Path:
        """Who has it, for people."""
        return self.path.with_suffix(".json")


class Belt:
    """The locks of one lease, taken all or none."""

    def __init__(self, locks: list[Lock], modes: Modes) -> None:
        self._locks = locks
        self._modes = modes

    @property
    def descriptors(self) -> tuple[int, ...]:
        """To hand to children."""
        return tuple(lock.descriptor for lock in self._locks)

    def lost(self, token: int) -> str:
        """Why it holds nothing any more, or ""."""
        for lock in self._locks:
            if not lock.ours():
                return f"its lock file {lock.path} was deleted or replaced, so others can get in"
            if lock.exclusive and lock.token() > token:
                return f"its lock file {lock.path} has a newer token, {lock.token()}"
        return ""

    def last_token(self) -> int:
        """The largest that the locks and records tell of."""
        locks = [lock for lock in self._locks if lock.exclusive]
        return max(max(lock.token(), lock.before.token if lock.before is not None else 0) for lock in locks)

    def write(self, entry: record.Record) -> str:
        """Write who has them; why that could not be done, or "". The locks hold all the same."""
        fault = ""
        for lock in self._locks:
            if not lock.exclusive:
                continue
            lock.entry = replace(entry, resource=lock.path.stem, inode=os.fstat(lock.descriptor).st_ino)
            try:
                # In the lock file too, where no record can be lost: 20 bytes in place.
                os.pwrite(lock.descriptor, b"%019d\n" % entry.token, 0)
                record.write(lock.record_path, lock.entry, self._modes.read)
            except OSError as error:
                lock.entry = None
                fault = f"who holds the lease can't be written to {lock.record_path}: {error.strerror}"
                with suppress(OSError):  # rather no record than the name of the holder before
                    lock.record_path.unlink()
        return fault

    def close(self, *, ended: bool) -> None:
        """Close, never unlock. ended: the run is over, and the records say so."""
        locks, self._locks = self._locks, []
        for lock in reversed(locks):
            if ended and lock.entry is not None and lock.ours():
                with suppress(OSError):  # the record then reads as that of a killed run: no lock depends on it
                    record.end(lock.record_path, replace(lock.entry, ended=clock.iso()))
            os.close(lock.descriptor)

    def give_back(self) -> None:
        """Drop locks that no run relies on: unlocked too, should a process forked meanwhile have a copy."""
        locks, self._locks = self._locks, []
        for lock in locks:
            _give_back(lock.descriptor)


def paths(folder: Path, shares: Iterable[Share]) -> list[tuple[Path, bool]]:
    """The files to lock, in order, and whether exclusively."""
    listed = list(shares)
    host = folder / f"{RESOURCE}.lock"
    if any(share.gpu is None for share in listed):
        return [(host, True)]
    names = sorted({re.sub(r"[^A-Za-z0-9._-]", "_", share.gpu or "") for share in listed})
    return [(host, False), *((folder / f"gpu-{name}.lock", True) for name in names)]


def take(folder: Path, modes: Modes, shares: Iterable[Share], settle: Iterable[float] = SETTLE) -> Belt | Busy:
    """All locks of some shares, or whose lock is in the way. Raises `LeaseRefused` where they can't be locked at all."""
    wanted = paths(folder, shares)
    busy: Busy | None = None
    for pause in settle:
        if pause:
            time.sleep(pause)
        found = _take(wanted, modes)
        if isinstance(found, Belt):
            return found
        busy = found
        if busy.replaced:
            break
    assert busy is not None  # noqa: S101 - there is always a first look
    return busy


def _take(wanted: list[tuple[Path, bool]], modes: Modes) -> Belt | Busy:
    belt = Belt([], modes)
    try:
        for path, exclusive in wanted:
            descriptor = _open(path, modes)
            lock = Lock(path, descriptor, exclusive)
            belt._locks.append(lock)  # noqa: SLF001
            busy = _lock(lock)
            if busy is not None:
                belt.give_back()
                return busy
    except BaseException:
        belt.give_back()
        raise
    return belt


def _lock(lock: Lock) -> Busy | None:
    """None: locked, and nobody else is in. Else who has it."""
    seen = os.fstat(lock.descriptor)
    entry = lock.before = record.read(lock.record_path) if lock.exclusive else None
    try:
        taken = _flock(lock.descriptor, fcntl.LOCK_EX if lock.exclusive else fcntl.LOCK_SH)
    except OSError as fault:
        raise LeaseRefused(
            f"the lock file {lock.path} can't be locked ({fault.strerror}): its file system keeps no locks; "
            "set TOUCHGATE_LEASE_DIR to a folder on a local disk"
        ) from fault
    if not taken:
        return Busy(lock.path, partial(who_has, entry, seen, lock.path.stem), replaced=not lock.ours())
    if not lock.ours():
        return Busy(lock.path, partial(unknown, "the lock file was replaced; trying again", lock.path.stem), replaced=True)
    if entry is not None and locked_out(entry, seen):
        # Deleted while it was held: the file can be locked again, but the host is not free.
        note = "its lock file was deleted while it held it; waiting for it to end"
        return Busy(lock.path, partial(of_record, entry, alive=True, note=note))
    return None


def seen_token(folder: Path, shares: Iterable[Share]) -> int | None:
    """The token in the lock of `shares`, None where nobody has that lock; asked by a shared lock given back at once."""
    path = paths(folder, shares)[-1][0]
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        return 0
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return Lock(path, descriptor, exclusive=True).token()
    finally:
        os.close(descriptor)
    return None


def _open(path: Path, modes: Modes) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, modes.file)
    except OSError as fault:
        raise LeaseRefused(_cannot_open(path, fault)) from fault
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise LeaseRefused(f"the lock file {path} is not a regular file; delete it")  # noqa: TRY301 - it must be closed
        modes.share(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _cannot_open(path: Path, fault: OSError) -> str:
    if fault.errno == errno.ELOOP:
        return f"the lock file {path} is a symbolic link; delete it"
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the lock file {path} can't be made: the disk is full ({fault.strerror}); make room"
    if fault.errno in (errno.EACCES, errno.EPERM):
        with suppress(OSError):
            seen = path.stat()
            owner, mode = user_name(seen.st_uid), stat.S_IMODE(seen.st_mode)
            return (
                f"the lock file {path} belongs to {owner}, mode {mode:04o}, and can't be opened by "
                f"{user_name(os.geteuid())}; "
                f"chmod 0660 {path} and give it the folder's group, or join that group"
            )
    return f"the lock file {path} can't be opened: {fault.strerror}"


def _flock(descriptor: int, kind: int) -> bool:
    """One flock without waiting. Raises OSError.

    It is the very call that filelock's `FileLock` makes, whose import takes longer than the way from holder to holder.
    """
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as fault:
        if fault.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def _give_back(descriptor: int) -> None:
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
