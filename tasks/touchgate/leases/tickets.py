"""A ticket for each request: its life is that of the processes that have it, and who waits for its end sleeps in the kernel.

`<id>.lock` is flock'ed from the asking to the end of the holding, by the run and by every process that was handed the
descriptor: whether it is locked is whether the request lives. `<id>.wake` is a FIFO: its owner reads from it a byte that
whoever granted something writes, and those who wait for the owner's end are told by the kernel that its last writer is
gone (POLLHUP). That comes about when the lock is freed, so who is told looks at the lock.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from touchgate.leases.shared import Modes

FOLDER = "tickets"
LARGEST = 64 * 1024
SETTLE = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008)
"""Seconds between looks at a lock that is about to be freed."""


class Tickets:
    """The folder of the tickets."""

    def __init__(self, folder: Path, modes: Modes) -> None:
        self.folder = folder / FOLDER
        self._modes = modes

    def lock_path(self, number: int) -> str:
        """The file whose lock is the request's life."""
        return f"{self.folder}/{number}.lock"

    def wake_path(self, number: int) -> str:
        """The FIFO."""
        return f"{self.folder}/{number}.wake"

    def make(self, number: int, content: bytes) -> Ticket | None:
        """A new ticket, locked; None where one with that number lives. Only for whoever has the queue. Raises OSError."""
        self._modes.make_folder(self.folder)
        if self.alive(number):
            return None
        self.remove(number)
        lock = os.open(
            self.lock_path(number), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, self._modes.file
        )
        wake = None
        try:
            self._modes.share(lock)
            fcntl.flock(lock, fcntl.LOCK_EX)  # nobody knows of it yet, or looks for some microseconds
            os.pwrite(lock, content, 0)
            os.mkfifo(self.wake_path(number), self._modes.file)
            # Opened for both: never blocks, and the owner is its own last writer.
            wake = os.open(self.wake_path(number), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            self._modes.share(wake)
        except BaseException:
            os.close(lock)
            if wake is not None:
                os.close(wake)
            self.remove(number)
            raise
        return Ticket(self, number, lock, wake)

    def alive(self, number: int) -> bool:
        """Whether a process still has the ticket. Disturbs nobody: shared looks do not keep each other out."""
        try:
            descriptor = os.open(self.lock_path(number), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as fault:
            return not isinstance(fault, (FileNotFoundError, NotADirectoryError))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def settled_alive(self, number: int) -> bool:
        """The same, when its end was just told: the lock may be freed a little later."""
        for pause in SETTLE:
            if pause:
                time.sleep(pause)
            if not self.alive(number):
                return False
        return True

    def wake(self, numbers: Iterable[int]) -> None:
        """A byte into the FIFO of each; one that is gone or full needs none."""
        for number in numbers:
            with suppress(OSError):
                descriptor = os.open(self.wake_path(number), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                        os.write(descriptor, b"w")
                finally:
                    os.close(descriptor)

    def remove(self, number: int) -> None:
        """The files of a dead ticket."""
        for path in (self.lock_path(number), self.wake_path(number)):
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - two of these in every release

    def numbers(self) -> list[int]:
        """Those that have a file."""
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 - names are all that is needed
        except OSError:
            return []
        found = {name.partition(".")[0] for name in names if name.endswith((".lock", ".wake"))}
        return sorted(int(name) for name in found if name.isascii() and name.isdecimal() and len(name) < 19)  # noqa: PLR2004

    def content(self, number: int) -> bytes:
        """What its owner wrote in it, b"" where that can't be read."""
        with suppress(OSError):
            descriptor = os.open(self.lock_path(number), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                return os.read(descriptor, LARGEST)
            finally:
                os.close(descriptor)
        return b""

    def watched(self, number: int) -> int | None:
        """A descriptor that polls POLLHUP when the last process that has the ticket is gone; None: there is no such FIFO."""
        try:
            descriptor = os.open(self.wake_path(number), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return None
        return descriptor


class Ticket:
    """One that this process owns."""

    def __init__(self, tickets: Tickets, number: int, lock: int, wake: int) -> None:
        self._tickets = tickets
        self.number = number
        self._lock: int | None = lock
        self._wake = wake

    @property
    def descriptors(self) -> tuple[int, ...]:
        """To hand to children."""
        return () if self._lock is None else (self._lock, self._wake)

    @property
    def wake(self) -> int:
        """To poll for a byte."""
        return self._wake

    def drain(self) -> None:
        """Read the bytes that came."""
        with suppress(OSError):
            os.read(self._wake, 4096)

    def write(self, content: bytes) -> None:
        """Replace what it tells of its request. Raises OSError."""
        if self._lock is not None:
            os.pwrite(self._lock, content, 0)
            os.ftruncate(self._lock, len(content))

    def there(self) -> bool:
        """Whether its files are still the ones that it has."""
        if self._lock is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._lock), os.lstat(self._tickets.lock_path(self.number))) and (
                os.path.samestat(os.fstat(self._wake), os.lstat(self._tickets.wake_path(self.number)))
            )
        except OSError:
            return False

    def let_go(self) -> None:
        """Close the lock, not the FIFO: who watches is not told before the state says what follows."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def close(self) -> None:
        """Close both, unlocking nothing: children may still have them. Again is nothing."""
        self.let_go()
        wake, self._wake = self._wake, -1
        if wake >= 0:
            os.close(wake)


class Watching:
    """Sleeps until a byte comes for a ticket, or until one of those that it watches may have ended."""

    def __init__(self, tickets: Tickets, ticket: Ticket) -> None:
        self._tickets = tickets
        self._poll = select.poll()
        self.ticket = ticket
        self._poll.register(ticket.wake, select.POLLIN)
        self._watched: dict[int, int | None] = {}

    def watch(self, numbers: Iterable[int]) -> list[int]:
        """Watch exactly these; those among the new ones that are dead already."""
        wanted = list(dict.fromkeys(numbers))
        for number in set(self._watched) - set(wanted):
            self._forget(number)
        new = [number for number in wanted if number not in self._watched]
        for number in new:
            descriptor = self._watched[number] = self._tickets.watched(number)
            if descriptor is not None:
                self._poll.register(descriptor, 0)
        # Only now, or an end in between would be told to nobody.
        return [number for number in new if not self._tickets.alive(number)]

    def dead(self) -> list[int]:
        """Those that are gone by now, told or not."""
        return [number for number in self._watched if not self._tickets.alive(number)]

    @property
    def blind(self) -> bool:
        """Whether the end of one is told by nothing: its FIFO is gone, its lock is not."""
        return None in self._watched.values()

    def sleep(self, seconds: float) -> tuple[bool, list[int]]:
        """Whether a byte came, and those that may have ended: all writers of their FIFOs are gone."""
        ready = [descriptor for descriptor, _ in self._poll.poll(max(0.0, seconds) * 1000)]
        woken = self.ticket.wake in ready
        if woken:
            self.ticket.drain()
        ended = [number for number, descriptor in self._watched.items() if descriptor is not None and descriptor in ready]
        for number in ended:
            self._forget(number)
            self._watched[number] = None
        return woken, ended

    def _forget(self, number: int) -> None:
        descriptor = self._watched.pop(number, None)
        if descriptor is not None:
            self._poll.unregister(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Watch nobody."""
        for number in list(self._watched):
            self._forget(number)
