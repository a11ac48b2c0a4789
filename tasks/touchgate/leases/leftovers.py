"""What is left after a run: processes of it that still use a GPU, or still have its lease. Told, and never ended."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from touchgate import processes
from touchgate.leases import process
from touchgate.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SETTLE = (0.05, 0.15, 0.3)
"""Seconds between two looks: a process that was just ended may need some to go."""


@dataclass(frozen=True)
class Leftover:
    """One process that outlived its run. age: seconds since its start, None unknown."""

    process: Process
    uses_gpu: bool
    has_lease: bool
    age: float | None

    def __str__(self) -> str:
        """For example `pid 4121 (ada) python serve.py, running for 3 min: still has the lease; it was not ended`."""
        what = self.process
        doing = " and ".join(
            words for words, true in (("still uses a GPU", self.uses_gpu), ("still has the lease", self.has_lease)) if true
        )
        running = f", running for {span(self.age)}" if self.age is not None else ""
        return f"pid {what.pid} ({what.user}) {what.command}{running}: {doing}; it was not ended"

    def to_json(self) -> dict[str, object]:
        """For machine output."""
        return {
            "pid": self.process.pid,
            "user": self.process.user,
            "command": self.process.command,
            "age": self.age,
            "uses_gpu": self.uses_gpu,
            "has_lease": self.has_lease,
        }


def leftovers(
    locks: Iterable[Path], token: int | None, *, proc: Path = processes.PROC, settle: Iterable[float] = SETTLE
) -> tuple[Leftover, ...]:
    """The processes that outlived this process's run; to be asked for once its lease is closed and its checks are over.

    locks: the lock files that were held. token: of the grant, as the checks' environment names it. Of the run are those
    that have one of the locks, those that descend from this process, and those whose environment has the token. Who is
    found is looked for again after a moment. Empty where there is no /proc.
    """
    marks = []
    for lock in locks:
        with suppress(OSError):  # deleted: then the token still tells
            marks.append(lock.stat())
    found = _look(marks, token, proc)
    for pause in settle:
        if not found:
            break
        time.sleep(pause)
        found = _look(marks, token, proc)
    return found


def _look(marks: list[os.stat_result], token: int | None, proc: Path) -> tuple[Leftover, ...]:
    own = os.getpid()
    keepers = {pid for mark in marks for pid in process.keepers(mark)}
    descendants = processes.family(own, proc)
    found = []
    for pid in processes.every(proc):
        if pid == own:
            continue
        of_run = pid in keepers or pid in descendants
        if not of_run and token is None:
            continue
        seen = processes.look(pid, proc)
        if seen is None or not (of_run or seen.token == token):
            continue
        uses = processes.uses_gpu(pid, proc) is True
        if uses or pid in keepers:
            age = max(0.0, time.time() - seen.started) if seen.started is not None else None
            found.append(Leftover(seen, uses, pid in keepers, age))
    return tuple(found)


def span(seconds: float) -> str:
    """A length of time for people: 12 s, 3 min, 2 h 5 min."""
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"
