"""The harness of the kernel check: runs every case of an oracle file in several ways and collects what is wrong.

Nothing here knows about doit or files: it gets an oracle, a device and a loaded module, and gives a `Tally`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from touchgate.checks import numerics
from touchgate.checks.cases import Array, Bound, Case, Launch, Oracle, OracleFault
from touchgate.checks.compare import Comparison, Mismatch, compare
from touchgate.checks.placement import ZONE, Damage, Layout, Placement
from touchgate.devices import LaunchFault

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from touchgate.devices import Device, Module

GIVE_UP = 5
"""Failing trials after which the rest is left out: a broken kernel is known by then, and should say so soon."""


@runtime_checkable
class Ordered(Protocol):
    """A device that runs a block's threads in an order of its own choice, told by a seed: the emulated one."""

    seed: int


@dataclass(frozen=True)
class Trial:
    """One way to run a case. seed: of the inputs; order: of the threads, where a device can choose; block: 0 or 1."""

    about: str
    seed: int = 1
    order: int = 0
    block: int = 0
    layout: Layout = field(default_factory=Layout)


def trials(number: int) -> tuple[Trial, ...]:
    """How to run case `number`: its position decides which array alone is misaligned."""
    return (
        Trial("aligned"),
        Trial("other values, rows apart", seed=2, order=1, layout=Layout(gap="even")),
        Trial("all arrays off by one element", order=2, layout=Layout(shift=1)),
        Trial("one array off by one element, rows apart", seed=2, order=3, layout=Layout(1, number, "odd")),
        Trial("other block", order=4, block=1, layout=Layout(gap="even")),
    )


@dataclass(frozen=True)
class Fault:
    """One trial that went wrong. kind: "launch", "damage", "unwritten" or "mismatch". lines: for a person."""

    kind: str
    case: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Worst:
    """The largest error in terms of its bound."""

    error: float
    bound: float
    case: str
    index: tuple[int, ...]

    @property
    def share(self) -> float:
        """Error over bound: 0 for no error, infinite where none is allowed."""
        if self.error == 0:
            return 0.0
        return self.error / self.bound if self.bound else float("inf")


@dataclass
class Tally:
    """What running the cases came to. reasons: why the bounds are as they are, by element type."""

    cases: int = 0
    trials: int = 0
    faults: list[Fault] = field(default_factory=list)
    worst: Worst | None = None
    reasons: dict[str, list[str]] = field(default_factory=dict)
    proven: dict[str, bool] = field(default_factory=dict)
    """By element type: whether an output of zeros would have been caught."""

    def note(self, case: Case, name: str, found: Comparison, bound: Bound) -> None:
        """Take in one compared output."""
        reasons = self.reasons.setdefault(case.dtype, [])
        if bound.reason not in reasons:
            reasons.append(bound.reason)
        worst = Worst(found.worst_error, found.worst_bound, f"{case.name}: {name}", found.worst_index)
        if found.elements and (self.worst is None or worst.share > self.worst.share):
            self.worst = worst
        if found.elements:
            self.proven[case.dtype] = self.proven.get(case.dtype, False) or not found.zeros_would_pass


@dataclass(frozen=True)
class _Problem:
    """A case with one seed's inputs and what they must give."""

    arrays: tuple[Array, ...]
    outputs: Mapping[str, NDArray[Any]]
    bounds: Mapping[str, Bound]


def run(
    oracle: Oracle,
    cases: Iterable[Case],
    device: Device,
    module: Module,
    *,
    log: Callable[[str], None],
    zone: int = ZONE,
) -> Tally:
    """Run every case in every way, until `GIVE_UP` trials have failed or a launch has (the device may be broken then).

    log: gets each case's name before it runs, and every fault. zone: bytes of a red zone. Raises `OracleFault`,
    `BoundFault`, and what the oracle file's own functions raise.
    """
    tally = Tally()
    bench = _Bench(oracle, device, module, tally)
    for number, case in enumerate(cases):
        log(case.name)
        tally.cases += 1
        problems: dict[int, _Problem] = {}
        for trial in trials(number):
            tally.trials += 1
            if trial.seed not in problems:
                problems[trial.seed] = _problem(oracle, case, trial.seed)
            laid_out = replace(trial, layout=replace(trial.layout, zone=zone))
            fault = bench.attempt(case, laid_out, problems[trial.seed])
            if fault is None:
                continue
            tally.faults.append(fault)
            log("  " + "\n  ".join(fault.lines))
            if fault.kind == "launch" or len(tally.faults) == GIVE_UP:
                return tally
    for dtype, proven in tally.proven.items():
        if not proven:
            raise OracleFault(f"its bounds would let an output of zeros pass in every {dtype} case")
    return tally


def chosen_cases(oracle: Oracle, place: str, *, small: bool) -> list[Case]:
    """The cases that run at `place`; `small`: only those marked so. Raises `OracleFault`, also where none is left."""
    cases = list(oracle.cases())
    names: set[str] = set()
    for case in cases:
        if case.dtype not in numerics.FORMATS:
            raise OracleFault(f"case {case.name!r}: dtype {case.dtype!r} is none of {', '.join(numerics.FORMATS)}")
        if case.name in names:
            raise OracleFault(f"two cases are named {case.name!r}")
        names.add(case.name)
    chosen = [case for case in cases if place in case.places and (case.small or not small)]
    if not chosen:
        what = "small case" if small else "case"
        raise OracleFault(f"it has no {what} for the place '{place}'; nothing ran")
    return chosen


def _problem(oracle: Oracle, case: Case, seed: int) -> _Problem:
    random = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    arrays = tuple(oracle.arrays(case, random))
    inputs = {array.name: array.data for array in arrays if array.data is not None}
    outputs = oracle.oracle(case, inputs)
    bounds = oracle.bound(case, inputs, outputs)
    wanted = {array.name for array in arrays if array.role == "out"}
    for what, names in (("oracle", set(outputs)), ("bound", set(bounds))):
        if names != wanted:
            raise OracleFault(f"case {case.name!r}: {what} gives {sorted(names)}, the outputs are {sorted(wanted)}")
    if not wanted:
        raise OracleFault(f"case {case.name!r} has no output")
    return _Problem(arrays, outputs, bounds)


@dataclass(frozen=True)
class _Bench:
    """What all trials of a check share."""

    oracle: Oracle
    device: Device
    module: Module
    tally: Tally

    def attempt(self, case: Case, trial: Trial, problem: _Problem) -> Fault | None:
        """Place, launch, read back, judge."""
        threads = self.oracle.blocks[trial.block]
        head = f"{case.name}: {trial.about}, seed {trial.seed}, blocks of {threads} threads"
        if isinstance(self.device, Ordered):
            self.device.seed = trial.order
            head += f", thread order {trial.order}"
        with Placement(self.device, problem.arrays, trial.layout) as placement:
            said = self._launch(self.oracle.launch(case, placement.placed, threads))
            if said:
                return Fault("launch", case.name, (head, *said))
            outputs, damages = placement.read()
        if damages:
            return Fault("damage", case.name, (head, *(_damage_line(damage) for damage in damages)))
        for array in problem.arrays:
            if array.role != "out":
                continue
            bound = problem.bounds[array.name]
            found = compare(outputs[array.name], problem.outputs[array.name], array.dtype, bound)
            self.tally.note(case, array.name, found, bound)
            if found.first is not None:
                kind = "unwritten" if found.unwritten else "mismatch"
                return Fault(kind, case.name, (head, *_mismatch_lines(array.name, found, found.first, bound)))
        return None

    def _launch(self, launches: Iterable[Launch]) -> tuple[str, ...]:
        """Launch one after the other; the lines of the fault that ended it, or none."""
        for launch in launches:
            kernel = self.module.kernel(launch.kernel)
            try:
                kernel.launch(launch.grid, launch.block, launch.arguments, launch.shared)
            except LaunchFault as fault:
                first, *more = str(fault).splitlines() or [""]
                return (f"{launch.kernel}: {first}", *more)
        return ()


def _damage_line(damage: Damage) -> str:
    more = f", and {damage.elements - 1} more" if damage.elements > 1 else ""
    return f"changed what it may not: {damage.where}: was {damage.before}, is {damage.after}{more}"


def _mismatch_lines(name: str, found: Comparison, first: Mismatch, bound: Bound) -> tuple[str, ...]:
    place = f"{name}[{', '.join(map(str, first.index))}]"
    got = f"never written (still {first.got_bits})" if first.unwritten else f"got {first.got:.9g} ({first.got_bits})"
    apart = "" if first.ulps is None or first.unwritten else f", {first.ulps} ulp apart"
    judged = "bit for bit" if bound.limit is None else f"error {first.error:.3g} > bound {first.bound:.3g}"
    never = f", {found.unwritten} of them never written" if found.unwritten else ""
    worst = ", ".join(map(str, found.worst_index))
    return (
        f"{place}: {got}, expected {first.expected:.9g} ({first.expected_bits}){apart}, {judged}",
        f"bound: {bound.reason}",
        (
            f"{found.differing} of {found.elements} elements differ{never}; "
            f"worst error {found.worst_error:.3g} at [{worst}], bound {found.worst_bound:.3g}"
        ),
    )
