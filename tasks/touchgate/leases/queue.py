"""The queue's file, changed by one process at a time, and what follows from a change: grants, the log, wake-ups.

`queue.json` is written whole, as `queue.json.new`, and renamed under the lock of `queue.lock`, so who reads it needs no lock
and a writer killed at any moment leaves the old one or the new one; where there is no `queue.json`, `queue.json.new` is
whole. Whom a writer wakes stands in what it wrote, and when it has done so it says so in the lock file: whoever changes the
queue next wakes those whom a killed writer did not.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from touchgate.leases import audit, clock, process
from touchgate.leases.engine import LeaseRefused
from touchgate.leases.holder import kept_by
from touchgate.leases.state import (
    WAITING,
    Entry,
    Event,
    NewerState,
    State,
    after_boot,
    dump,
    entry_of,
    own_of,
    parse,
    turn,
)
from touchgate.leases.tickets import Tickets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from touchgate.leases.shared import Modes
    from touchgate.leases.state import Turn

    Change = Callable[[State], "tuple[State, list[Event]]"]

NAME, LOCK = "queue.json", "queue.lock"
LARGEST = 16 << 20
PATIENCE = 5.0
"""Seconds without anybody getting the queue's lock, which is held for some milliseconds: who has it was stopped in there."""
PAUSES = (0.0002, 0.0004, 0.0008, 0.0016, 0.003, 0.006, 0.012, 0.025, 0.05)
"""Seconds between two looks at that lock, at most; the last one again and again.

Each is drawn anew from its upper half. A crowd that looked often would take the processor from the one that has the lock.
"""


class QueueUnavailable(Exception):
    """The queue can't be changed now, and why: a full disk, a folder without write access, somebody stopped in it."""


class Queue:
    """The queue of one lease folder. user, host: who changes it and what this host is called, for the log."""

    def __init__(self, folder: Path, modes: Modes, user: str, host: str) -> None:
        self.folder = folder
        self.modes = modes
        self.tickets = Tickets(folder, modes)
        self._path, self._lock = f"{folder}/{NAME}", f"{folder}/{LOCK}"
        self._user, self._host = user, host

    def read(self) -> State | None:
        """As it was written last, without any lock; None where there is none, or none that can be read.

        Raises `LeaseRefused` where a newer touchgate wrote it.
        """
        content = self._content()
        if content is None:
            return None
        try:
            state = parse(content)
        except ValueError:
            return None
        except NewerState as newer:
            raise LeaseRefused(
                f"the queue {self._path} is of a newer touchgate (schema {newer}); bring touchgate up to date here, "
                "or set TOUCHGATE_LEASE_DIR to another folder"
            ) from None
        return after_boot(state, clock.boot(), clock.now(), clock.wall())

    def own(self, number: int) -> Entry | None:
        """One entry alone, for whoever is woken; None where it has to read all."""
        content = self._content()
        return None if content is None else own_of(content, number)

    def change(
        self, change: Change, *, durable: bool = False, own: int = 0, between: Callable[[], None] | None = None
    ) -> Turn:
        """Change the queue and do what follows: grant, log, wake. Raises `QueueUnavailable`; then nothing was changed.

        durable: on disk before it returns. own: the id that needs no waking. between: called while it waits for the lock,
        may raise.
        """
        with self._locked(between) as lock:
            before, rebuilt = self._load()
            if before.wakes and _done(lock) != before.seq:
                self.tickets.wake(before.wakes)
            changed, events = change(replace(before, wakes=()) if before.wakes else before)
            done = self._turn(changed)
            after = replace(done.state, seq=before.seq + 1, wakes=tuple(one for one in done.state.wakes if one != own))
            if rebuilt or (after.entries, after.gpus, after.drained) != (before.entries, before.gpus, before.drained):
                self._write(after, durable=durable)
            at = audit.now()
            told = [Event("rebuilt", None, rebuilt)] if rebuilt else []
            lines = [audit.line(event, at, self._user, self._host) for event in (*told, *events, *done.events)]
            audit.append(self.folder, self.modes, lines)
            for number in before.entries.keys() - after.entries.keys():
                if not before.entries[number].reserves and not self.tickets.alive(number):
                    self.tickets.remove(number)
            if after.wakes:
                self.tickets.wake(after.wakes)
                with suppress(OSError):
                    os.pwrite(lock, b"%019d\n" % after.seq, 0)
        return replace(done, state=after)

    def _turn(self, state: State) -> Turn:
        wall = clock.wall()
        lowest = int(wall * 1_000_000)
        return turn(
            state,
            clock.now(),
            clock.iso(wall),
            wall,
            alive=lambda one: self.tickets.alive(one.id),
            new_token=lambda last: max(last + 1, lowest),
        )

    def _load(self) -> tuple[State, str]:
        """The state, and why it had to be put together again from the tickets, "" where not."""
        content = self._content()
        state = self.read() if content is not None else None
        if state is not None:
            return state, ""
        entries, numbers = {}, self.tickets.numbers()
        for number in numbers:
            if not self.tickets.alive(number):
                self.tickets.remove(number)
                continue
            with suppress(ValueError):
                entry = entry_of(json.loads(self.tickets.content(number)))
                if entry.id == number:
                    entries[number] = entry
        state = State(clock.boot(), entries, next=max(entries, default=0) + 1)
        if content is None:
            return state, "it was gone" if entries else ""
        return state, "it could not be read"

    def _content(self) -> bytes | None:
        """None where there is none. What is not there for a moment is on its way from one name to the other."""
        for name in (self._path, self._path + ".new") * 3:
            content = _content(name)
            if content is not None:
                return content
        return None

    def _write(self, state: State, *, durable: bool) -> None:
        new = self._path + ".new"
        try:
            descriptor = _fresh(new, self.modes.file)
            try:
                self.modes.share(descriptor)
                content = dump(state)
                if os.write(descriptor, content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not (durable or state.drained or any(one.reserves for one in state.entries.values())):
                # Some file systems write a file out when it replaces another: milliseconds in every lease, for what the
                # tickets tell again. Only what people ordered is worth that.
                with suppress(FileNotFoundError):
                    os.unlink(self._path)  # noqa: PTH108
            os.rename(new, self._path)  # noqa: PTH104 - a dozen microseconds less, in every lease
        except OSError as fault:
            with suppress(OSError):
                os.unlink(new)  # noqa: PTH108
            raise QueueUnavailable(f"the queue {self._path} can't be written: {fault.strerror}") from fault

    @contextmanager
    def _locked(self, between: Callable[[], None] | None) -> Iterator[int]:
        began, looks, had = time.monotonic(), 0, 0
        while True:
            descriptor = self._open_lock()
            try:
                if _try(descriptor, self._lock):
                    with suppress(OSError):
                        os.utime(descriptor)  # for those who look: it was had
                    yield descriptor
                    return
                now_had = os.fstat(descriptor).st_mtime_ns
            finally:
                # Closing is enough: nobody inherits it but a fork in the very moment, whose copy an unlock ends too.
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)
            if between is not None:
                between()
            if now_had != had:
                began, had = time.monotonic(), now_had
            elif time.monotonic() - began > PATIENCE:
                raise QueueUnavailable(
                    f"the queue {self._lock} is held for more than {PATIENCE:.0f} s, as by a process that was stopped in it"
                    + self._who()
                )
            time.sleep(PAUSES[min(looks, len(PAUSES) - 1)] * _upper_half())
            looks += 1

    def _who(self) -> str:
        """Who has the queue's lock, as far as /proc tells."""
        with suppress(OSError):
            keepers = process.keepers(os.stat(self._lock))  # noqa: PTH116
            return f"; {kept_by(keepers)}" if keepers else ""
        return ""

    def _open_lock(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(self._lock, flags, self.modes.file)
        except OSError as fault:
            raise QueueUnavailable(f"the queue's lock {self._lock} can't be opened: {fault.strerror}") from fault
        self.modes.share(descriptor)
        return descriptor


def _upper_half() -> float:
    """Between 0.5 and 1, other in each process and each time: the clock's last microseconds (`random` is slow to import)."""
    return 0.5 + time.monotonic_ns() // 1000 % 512 / 1024


def _try(descriptor: int, path: str) -> bool:
    """Whether the lock is ours now, of the file that is there."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        if fault.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise QueueUnavailable(f"the queue's lock {path} can't be locked: {fault.strerror}") from fault
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def _fresh(path: str, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, mode)
    except FileExistsError:
        os.unlink(path)  # noqa: PTH108 - of a writer that was killed
        return os.open(path, flags, mode)


def _content(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return b""
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > LARGEST:
            return b""
        return os.read(descriptor, LARGEST)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _done(lock: int) -> int:
    try:
        text = os.pread(lock, 20, 0).strip()
    except OSError:
        return -1
    return int(text) if text.isdigit() else -1


def ghosts(state: State, tickets: Tickets, numbers: Iterable[int] | None = None) -> tuple[State, list[Event]]:
    """The state without the waiting requests (None: all) whose run is gone."""
    asked = state.entries if numbers is None else [number for number in numbers if number in state.entries]
    waiting = [state.entries[number] for number in asked if state.entries[number].state == WAITING]
    dead = [one for one in waiting if not one.reserves and not tickets.alive(one.id)]
    return state.without(one.id for one in dead), [Event("died", one, "while it waited") for one in dead]


def content_of(entry: Entry) -> bytes:
    """What stands in a ticket: enough to put a lost queue together again."""
    return json.dumps(entry.to_json()).encode("ascii")
