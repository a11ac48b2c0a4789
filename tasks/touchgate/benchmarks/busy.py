"""Who else was at work: the processes that computed most while something was measured, and those that use the GPU.

On a chip whose CPU shares the GPU's memory a compilation beside a benchmark spoils it; a name helps more than a guess.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
MUCH = 0.25
"""Cores that a process has to have used to be named."""
NAMED = 3


class Snapshot(NamedTuple):
    """Monotonic seconds; seconds computed so far and the name by pid. Empty where there is no /proc."""

    at: float
    used: dict[int, tuple[float, str]]


def snapshot(proc: Path = PROC) -> Snapshot:
    """All processes that can be seen, now."""
    used = {}
    ticks = os.sysconf("SC_CLK_TCK")
    for stat in proc.glob("[0-9]*/stat"):
        try:
            head, _, tail = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")
        except OSError:
            continue  # it ended meanwhile
        fields = tail.split()
        used[int(stat.parent.name)] = ((int(fields[11]) + int(fields[12])) / ticks, head.partition("(")[2])
    return Snapshot(time.monotonic(), used)


def busiest(before: Snapshot, after: Snapshot, without: frozenset[int] = frozenset()) -> list[str]:
    """The processes that used most of the CPU in between, in words, the busiest first; those in `without` left out."""
    elapsed = max(after.at - before.at, 1e-3)
    found = []
    for pid, (seconds, name) in after.used.items():
        cores = (seconds - before.used.get(pid, (0.0, ""))[0]) / elapsed
        if pid not in without and cores >= MUCH:
            found.append((cores, f"{name} (pid {pid}, {cores:.1f} cores)"))
    return [words for _, words in sorted(found, reverse=True)[:NAMED]]


def own(proc: Path = PROC) -> frozenset[int]:
    """This process and the ones above it: they wait for the benchmark, or are it."""
    pids = set()
    pid = os.getpid()
    while pid > 0 and pid not in pids:
        pids.add(pid)
        try:
            pid = int((proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return frozenset(pids)
