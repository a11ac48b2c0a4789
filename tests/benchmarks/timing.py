"""Whole processes timed in turn: every contender once a round, so that a busy minute falls on all of them."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

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


def timed(one: Contender, environ: Mapping[str, str]) -> float:
    """Wall time of the whole process, milliseconds."""
    whole = {**environ, **one.environ}
    began = time.perf_counter()
    subprocess.run(one.command, cwd=one.folder, env=whole, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


def in_turn(contenders: Sequence[Contender], rounds: int, environ: Mapping[str, str]) -> dict[str, list[float]]:
    """Times by name, one a round; a round before them warms the page cache."""
    found: dict[str, list[float]] = {one.name: [] for one in contenders}
    for number in range(rounds + 1):
        for one in contenders:
            time_taken = timed(one, environ)
            if number:
                found[one.name].append(time_taken)
    return found


def summed(*parts: Sequence[float]) -> list[float]:
    """Times of one thing after the other, round by round."""
    return [sum(times) for times in zip(*parts, strict=True)]


def row(name: str, times: Sequence[float], more: str = "") -> str:
    """A line of the table of times."""
    return f"{name:44} {statistics.median(times):7.0f} [{min(times):.0f}-{max(times):.0f}]{more}"


def ratio(name: str, ours: Sequence[float], theirs: Sequence[float], goal: str) -> str:
    """A line of ratios: the median and range pair by pair, and that of the two fastest rounds."""
    ratios = sorted(one / other for one, other in zip(ours, theirs, strict=True))
    pairs = f"{statistics.median(ratios):6.2f} [{ratios[0]:.2f}-{ratios[-1]:.2f}]"
    return f"{name:75} {pairs:20} fastest {min(ours) / min(theirs):5.2f}   goal {goal}"
