"""One exclusive lease a host: a lock file, and beside it a record of who holds it.

The lock is an flock(2) on a descriptor of ours, taken through filelock, so it excludes everything that uses filelock's
`FileLock` on that file. It belongs to the open file description: every child that is handed the descriptor keeps it,
and it ends, in the kernel, with the last process that has it. `Held.close` therefore closes and never unlocks, and a
run killed in any way leaves no lock behind, only a record, which by itself holds nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from touchgate.leases import process, record
from touchgate.leases.directory import LeaseDirectory, LeaseRefused, lease_directory, prepare
from touchgate.leases.holder import RESOURCE, Holder, locked_out, of_record, status, unknown, user_name, who_has
from touchgate.leases.wake import Watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

__all__ = [
    "Held",
    "Holder",
    "LeaseCancelled",
    "LeaseDirectory",
    "LeaseRefused",
    "LeaseTimeout",
    "acquire",
    "lease_directory",
    "status",
]

LOOK_AGAIN = 1.0
"""Seconds between two looks while waiting, for what no wake-up tells: a new holder's name, a lock file replaced."""
ASK_CANCELLED = 0.25
"""The same where a caller may cancel."""
SETTLE = (0.001, 0.002, 0.004, 0.008)
"""Seconds. The wake-up comes just before the kernel frees the lock, and `status` may have it for some microseconds."""
SOON = (0.02, 0.05, 0.1, 0.2)
"""Seconds to the next looks after a wake-up, for a host so busy that the one who closes is not done by then."""


class LeaseTimeout(Exception):
    """Not granted in time. `holder`: who had it last."""

    def __init__(self, holder: Holder, waited: float) -> None:
        super().__init__(f"the host's lease was not granted in {waited:.0f} s: held by {holder}")
        self.holder = holder


class LeaseCancelled(Exception):
    """The caller's `cancelled` said so while the lease was waited for."""


class Held:
    """The lease. A context manager; leaving it closes the descriptor and does not unlock (see the module's text)."""

    def __init__(self, descriptor: int, paths: _Paths, entry: record.Record, record_fault: str) -> None:
        self._descriptor: int | None = descriptor
        self._paths = paths
        self._entry = entry
        self._process = os.getpid()
        self.record_fault = record_fault
        """Why the record beside the lock could not be written (a full disk), or "". The lease is held all the same."""

    @property
    def token(self) -> int:
        """Larger than that of every earlier grant."""
        return self._entry.token

    @property
    def since(self) -> str:
        """When it was granted, ISO 8601, UTC."""
        return self._entry.since

    def fileno(self) -> int:
        """The descriptor to hand to children (`pass_fds`): the lease lasts as long as one of them has it."""
        if self._descriptor is None:
            raise ValueError("the lease is closed")
        return self._descriptor

    def still_ours(self) -> bool:
        """Whether the lock file is still the one that is locked. False: deleted or replaced, so others can get in."""
        return self._descriptor is not None and _same_file(self._descriptor, self._paths.lock)

    def close(self) -> None:
        """Mark the record as ended and close the descriptor. The lease ends once no child has it either."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            # A forked child that leaves through here closes its copy only; the run is not over.
            if os.getpid() == self._process and not self.record_fault and _same_file(descriptor, self._paths.lock):
                with suppress(OSError):  # the record then reads as that of a killed run: no lock depends on it
                    record.write(self._paths.record, replace(self._entry, ended=_now()), self._paths.record_mode)
        finally:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class _Paths:
    """The two files of a lease and their modes."""

    lock: Path
    record: Path
    lock_mode: int
    record_mode: int
    group: int | None
    """The group that shares the folder, None where nobody does."""


def _paths(directory: LeaseDirectory) -> _Paths:
    folder = directory.path
    lock, entry = folder / f"{RESOURCE}.lock", folder / f"{RESOURCE}.json"
    seen = folder.stat()
    if seen.st_mode & stat.S_IWGRP:
        return _Paths(lock, entry, 0o660, 0o644, seen.st_gid)
    return _Paths(lock, entry, 0o600, 0o600, None)


def acquire(
    directory: LeaseDirectory,
    *,
    what: str,
    timeout: float | None,
    on_wait: Callable[[Holder], None],
    job_url: str | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Held:
    """Take the host's lease, waiting at most `timeout` seconds (None: for ever; 0: not at all).

    `on_wait` is called when it first has to wait, and again when the holder changes; `cancelled` is asked meanwhile.
    Raises `LeaseTimeout`, `LeaseCancelled`, `LeaseRefused` (the folder can't keep runs apart).
    """
    prepare(directory)
    paths = _paths(directory)
    wait = _Wait(timeout, on_wait, cancelled)
    while True:
        descriptor = _open(paths)
        try:
            granted = _wait_for(descriptor, paths, wait)
            if granted:
                return _hold(descriptor, paths, what, job_url)
        except BaseException:
            _give_back(descriptor)
            raise
        _give_back(descriptor)


class _Wait:
    """What a waiter was asked for and has said so far."""

    def __init__(self, timeout: float | None, on_wait: Callable[[Holder], None], cancelled: Callable[[], bool] | None) -> None:
        self._timeout = timeout
        self._on_wait = on_wait
        self._cancelled = cancelled
        self._began: float | None = None
        self._told: tuple[int | None, int | None] | None = None

    def on(self, holder: Holder) -> float:
        """Another look was in vain. Say so where that is news; the seconds to sleep. Raises when it is enough."""
        now = time.monotonic()
        if self._began is None:
            self._began = now  # the first look is not part of the wait, however slow the host is
        waited = now - self._began
        if self._timeout is not None and waited >= self._timeout:
            raise LeaseTimeout(holder, waited)
        if self._told != (holder.pid, holder.token):
            self._told = (holder.pid, holder.token)
            self._on_wait(holder)
        if self._cancelled is not None and self._cancelled():
            raise LeaseCancelled("the wait for the host's lease was cancelled")
        longest = LOOK_AGAIN if self._cancelled is None else ASK_CANCELLED
        return longest if self._timeout is None else min(longest, self._timeout - waited)


def _wait_for(descriptor: int, paths: _Paths, wait: _Wait) -> bool:
    """True: locked, and the host is free. False: the lock file was deleted or replaced; open the new one."""
    soon: list[float] = []
    with Watch(paths.lock) as watch:
        while True:
            holder = _grant(descriptor, paths)
            if holder is None:
                return True
            longest = wait.on(holder)
            if watch.sleep(min([longest, *soon])):
                soon = list(SOON)
            elif soon:
                soon.pop(0)
            if not _same_file(descriptor, paths.lock):
                return False


def _open(paths: _Paths) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(paths.lock, flags, paths.lock_mode)
    except OSError as fault:
        raise LeaseRefused(_cannot_open(paths, fault)) from fault
    try:
        _share(descriptor, paths)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _share(descriptor: int, paths: _Paths) -> None:
    """Give our own lock file the folder's group and mode, whatever the umask is and whatever the folder hands down."""
    seen = os.fstat(descriptor)
    if not stat.S_ISREG(seen.st_mode):
        raise LeaseRefused(f"the lock file {paths.lock} is not a regular file; delete it")
    if paths.group is not None and seen.st_uid == os.geteuid():
        if seen.st_gid != paths.group:
            with suppress(PermissionError):
                os.fchown(descriptor, -1, paths.group)
        if stat.S_IMODE(seen.st_mode) != paths.lock_mode:
            os.fchmod(descriptor, paths.lock_mode)


def _cannot_open(paths: _Paths, fault: OSError) -> str:
    path = paths.lock
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


def _try_lock(descriptor: int, path: Path) -> bool:
    """One flock without waiting, through filelock."""
    lock: Callable[[int], bool]
    try:
        # Late: filelock costs tens of milliseconds, and most runs need no lease.
        from filelock import lock_descriptor  # noqa: PLC0415
    except ImportError:  # before filelock 3.30, whose FileLock makes this same call
        lock = _flock
    else:
        lock = partial(lock_descriptor, blocking=False)
    try:
        return lock(descriptor)
    except OSError as fault:
        raise LeaseRefused(
            f"the lock file {path} can't be locked ({fault.strerror}): its file system keeps no locks; "
            "set TOUCHGATE_LEASE_DIR to a folder on a local disk"
        ) from fault


def _flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        if fault.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _grant(descriptor: int, paths: _Paths) -> Holder | None:
    """None: locked, and nobody else is in. Else who has it."""
    for pause in (0.0, *SETTLE):
        if pause:  # sleeping for no time still gives the processor away
            time.sleep(pause)
        if _try_lock(descriptor, paths.lock):
            break
    else:
        return who_has(record.read(paths.record), os.fstat(descriptor))
    if not _same_file(descriptor, paths.lock):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return unknown("the lock file was replaced; trying again")
    entry = record.read(paths.record)
    if entry is not None and locked_out(entry, os.fstat(descriptor)):
        # Deleted while it was held: the file can be locked again, but the host is not free.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return of_record(entry, alive=True, note="its lock file was deleted while it held it; waiting for it to end")
    return None


def _hold(descriptor: int, paths: _Paths, what: str, job_url: str | None) -> Held:
    entry = record.Record(
        resource=RESOURCE,
        user=user_name(os.geteuid()),
        pid=os.getpid(),
        started=process.start_mark(os.getpid()) or "",
        namespace=process.pid_namespace(),
        host=socket.gethostname(),
        what=record.printable(what),
        since=_now(),
        token=_next_token(descriptor, record.read(paths.record)),
        inode=os.fstat(descriptor).st_ino,
        url=record.printable(job_url) if job_url else None,
    )
    fault = ""
    try:
        # In the lock file too, where no record can be lost: 20 bytes in place.
        os.pwrite(descriptor, f"{entry.token:019d}\n".encode("ascii"), 0)
        record.write(paths.record, entry, paths.record_mode)
    except OSError as error:
        fault = f"who holds the lease can't be written to {paths.record}: {error.strerror}"
        with suppress(OSError):  # rather no record than the name of the holder before
            paths.record.unlink()
    return Held(descriptor, paths, entry, fault)


def _next_token(descriptor: int, before: record.Record | None) -> int:
    """One more than the last, not below the clock (microseconds): a wiped folder or a full disk repeats none."""
    written = os.pread(descriptor, 20, 0).strip()
    last = int(written) if written.isdigit() else 0
    return max(last + 1, before.token + 1 if before else 0, time.time_ns() // 1000)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def _give_back(descriptor: int) -> None:
    """Drop a descriptor that no run relies on: unlocked too, should a process forked meanwhile have a copy."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
