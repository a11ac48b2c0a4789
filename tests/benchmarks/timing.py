"""Whole processes timed in turn: every contender once a round, so that a busy minute falls on all of them.

Beside the wall time stands what the process and those it waited for computed: less exact where several cores work at once,
but it hardly depends on what else runs. A daemon's work is not in it.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Contender:
    """Something timed. environ: beside the one that all have. selects: a regex that finds the packages in what it says."""

    name: str
    command: tuple[str, ...]
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    selects: str | None = None


def said(one: Contender, environ: Mapping[str, str]) -> str:
    """What it prints. Ends the benchmark where it fails: a time of a failure says nothing."""
    done = subprocess.run(
        one.command, cwd=one.folder, env={**environ, **one.environ}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{one.name}: {' '.join(one.command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Times(NamedTuple):
    """Milliseconds round by round: by the clock, and computed (user and system)."""

    wall: list[float]
    cpu: list[float]


def timed(one: Contender, environ: Mapping[str, str]) -> tuple[float, float]:
    """The whole process: wall and computing time, milliseconds."""
    whole = {**environ, **one.environ}
    before, began = _computed(), time.perf_counter()
    subprocess.run(one.command, cwd=one.folder, env=whole, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000, _computed() - before


def _computed() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def in_turn(contenders: Sequence[Contender], rounds: int, environ: Mapping[str, str]) -> dict[str, Times]:
    """Times by name, one a round; a round before them warms the page cache."""
    found = {one.name: Times([], []) for one in contenders}
    for number in range(rounds + 1):
        for one in contenders:
            wall, cpu = timed(one, environ)
            if number:
                found[one.name].wall.append(wall)
                found[one.name].cpu.append(cpu)
    return found


def summed(*parts: Times) -> Times:
    """Times of one thing after the other, round by round."""
    walls, cpus = zip(*parts, strict=True)
    return Times([sum(times) for times in zip(*walls, strict=True)], [sum(times) for times in zip(*cpus, strict=True)])


def row(name: str, times: Times, more: str = "") -> str:
    """A line of the table of times."""
    wall = f"{statistics.median(times.wall):6.0f} [{min(times.wall):.0f}-{max(times.wall):.0f}]"
    return f"{name:46} {wall:20} cpu {statistics.median(times.cpu):6.0f}{more}"


def ratio(name: str, ours: Times, theirs: Times, goal: str) -> str:
    """A line of ratios: the median and range pair by pair, that of the two fastest rounds, and that of the computing."""
    ratios = sorted(one / other for one, other in zip(ours.wall, theirs.wall, strict=True))
    pairs = f"{statistics.median(ratios):6.2f} [{ratios[0]:.2f}-{ratios[-1]:.2f}]"
    fastest = min(ours.wall) / min(theirs.wall)
    computed = statistics.median(ours.cpu) / statistics.median(theirs.cpu)
    return f"{name:90} {pairs:20} fastest {fastest:5.2f}  cpu {computed:5.2f}  goal {goal}"
