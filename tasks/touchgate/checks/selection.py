"""Which of an oracle file's cases run where every launch is slow, and in which ways: few, of each sort one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from touchgate.checks.cases import OracleFault
from touchgate.checks.placement import Layout
from touchgate.checks.problems import ask
from touchgate.checks.trials import Trial, trials

if TYPE_CHECKING:
    from touchgate.checks.cases import Case, Oracle

ENOUGH = 3072
"""Elements of all arrays together from which on a case is likely to take several blocks. Smaller ones are taken last."""
WARP = 32
MANY = 3
"""From so many cases on, two ways each make all six."""


def selected(oracle: Oracle, cases: Sequence[Case]) -> list[Case]:
    """The cases marked `sanitize`; without any, by themselves small ones that show each sort once.

    A sort is an element type with one value of a parameter that is text (a way, an operation, a kind of values). Looked
    at are the cases that run emulated too, where there are any: the others are large. Ragged ones come first, since most
    faults sit in a tail. Raises `OracleFault`, also where no case is fit.
    """
    marked = [case for case in cases if case.sanitize]
    if marked:
        return marked
    small = [case for case in cases if "emulated" in case.places] or list(cases)
    sizes = {case.name: _sizes(oracle, case) for case in small}
    seen: set[tuple[str, str, str]] = set()
    chosen = set()
    for case in sorted(small, key=lambda case: sizes[case.name]):
        sorts = _sorts(case)
        if sizes[case.name][1] and not sorts <= seen:
            seen |= sorts
            chosen.add(case.name)
    if not chosen:
        raise OracleFault(
            "none of its cases is fit for the sanitizers: each has an array without elements; mark some `sanitize`"
        )
    return [case for case in small if case.name in chosen]


def _sorts(case: Case) -> set[tuple[str, str, str]]:
    texts = {(case.dtype, name, value) for name, value in case.parameters.items() if isinstance(value, str)}
    return {(case.dtype, "", ""), *texts}


def _sizes(oracle: Oracle, case: Case) -> tuple[bool, int]:
    """Whether it is a poor choice, and the elements of all its arrays; 0 where an array has none: nothing to launch then."""
    random = np.random.default_rng([1, zlib.crc32(case.name.encode())])
    shapes = ask(f"case {case.name!r}: ", lambda: [one.shape for one in oracle.arrays(case, random)])
    counts = [int(np.prod(shape)) for shape in shapes]
    ragged = any(shape[-1] % WARP for shape in shapes if shape[-1] > WARP)
    return sum(counts) < ENOUGH or not ragged, sum(counts) if all(counts) else 0


def in_turns(count: int) -> Callable[[int], tuple[Trial, ...]]:
    """The ways of each of `count` cases, by its number: all six of few cases, else two each, in turns."""

    def ways(number: int) -> tuple[Trial, ...]:
        every = trials(number)
        half = len(every) // 2
        return every if count < MANY else (every[number % half], every[number % half + half])

    return ways


def untouched(_count: int) -> Callable[[int], tuple[Trial, ...]]:
    """Both blocks, rows packed, outputs and scratch as they were allocated: nothing is written into them before."""
    fresh = Layout(fresh=True)
    ways = (
        Trial("aligned, outputs as allocated", layout=fresh),
        Trial("other block, outputs as allocated", seed=2, block=1, layout=fresh),
    )
    return lambda _number: ways
