"""The harness of the kernel check: runs every case of an oracle file in several ways and collects what is wrong.

Nothing here knows about doit or files: it gets an oracle, a device and a loaded module, and gives a `Tally`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from touchgate.checks.cases import Array, Bound, Case, Launch, Oracle, OracleFault
from touchgate.checks.compare import BoundFault, Comparison, Mismatch, compare
from touchgate.checks.placement import ZONE, Damage, Layout, Placement
from touchgate.checks.problems import Problem, chosen_cases, launches, posed
from touchgate.devices import BuildFault, LaunchFault

__all__ = ["Fault", "NoKernel", "Tally", "Trial", "Worst", "chosen_cases", "run", "trials"]

if TYPE_CHECKING:
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
    """How to run case `number`: its position decides which array alone is misaligned, and with which block.

    In twelve cases each of two, three or four arrays meets both blocks that way. How far all are off in the last way
    takes turns too: in six cases every distance from 16 bytes that the first such way leaves out.
    """
    further = 2 + number % 6
    return (
        Trial("aligned"),
        Trial("other values, rows apart", seed=2, order=1, layout=Layout(gap="even")),
        Trial("all arrays off by one element", order=2, layout=Layout(shift=1)),
        Trial(
            "one array off by one element, rows apart",
            seed=2,
            order=3,
            block=_TURNS[number % len(_TURNS)],
            layout=Layout(1, number, "odd"),
        ),
        Trial("other block", order=4, block=1, layout=Layout(gap="even")),
        Trial(
            f"other block, all arrays off by {further} elements, rows apart",
            seed=2,
            order=5,
            block=1,
            layout=Layout(further, None, "odd"),
        ),
    )


_TURNS = (0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0)


class NoKernel(Exception):
    """A launch of a kernel that the source does not define. name: the kernel's; text: what the device says."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name)
        self.name = name
        self.text = text


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
    launches: int = 0
    faults: list[Fault] = field(default_factory=list)
    worst: Worst | None = None
    reasons: dict[str, list[str]] = field(default_factory=dict)
    proven: dict[tuple[str, str, str], bool | None] = field(default_factory=dict)
    """By the case's element type, output and the output's: would zeros have been caught? None: nothing was compared."""

    def note(self, case: Case, array: Array, found: Comparison, bound: Bound) -> None:
        """Take in one compared output."""
        reasons = self.reasons.setdefault(case.dtype, [])
        if bound.reason not in reasons:
            reasons.append(bound.reason)
        worst = Worst(found.worst_error, found.worst_bound, f"{case.name}: {array.name}", found.worst_index)
        if found.elements and (self.worst is None or worst.share > self.worst.share):
            self.worst = worst
        key = case.dtype, array.name, array.dtype
        proven = self.proven.setdefault(key, None)
        if found.elements:
            self.proven[key] = bool(proven) or not found.zeros_would_pass

    def unproven(self) -> str | None:
        """What these cases could not have shown, in words: a kernel that passes them may do nothing."""
        for (cases, name, dtype), proven in self.proven.items():
            if proven is None:
                return f"no element of {name} ({dtype}) was compared in any {cases} case"
            if not proven:
                return f"its bounds would let zeros pass as {name} ({dtype}) in every {cases} case"
        return None


def run(
    oracle: Oracle,
    cases: Iterable[Case],
    device: Device,
    module: Module,
    *,
    log: Callable[[str], None],
    zone: int = ZONE,
    ways: Callable[[int], Iterable[Trial]] = trials,
    proven: bool = True,
) -> Tally:
    """Run every case in every way, until `GIVE_UP` trials have failed or a launch has (the device may be broken then).

    log: gets each case's name before it runs, and every fault. zone: bytes of a red zone. ways: in which ways a case runs,
    by its number. proven: whether the cases must show that zeros would not pass. Raises `OracleFault` for whatever the
    oracle file does wrong, and `NoKernel`.
    """
    tally = Tally()
    bench = _Bench(oracle, device, module, tally)
    for number, case in enumerate(cases):
        log(case.name)
        tally.cases += 1
        problems: dict[int, Problem] = {}
        for trial in ways(number):
            tally.trials += 1
            if trial.seed not in problems:
                problems[trial.seed] = posed(oracle, case, trial.seed)
            laid_out = replace(trial, layout=replace(trial.layout, zone=zone))
            fault = bench.attempt(case, laid_out, problems[trial.seed])
            if fault is None:
                continue
            tally.faults.append(fault)
            log("  " + "\n  ".join(fault.lines))
            if fault.kind == "launch" or len(tally.faults) == GIVE_UP:
                return tally
    unproven = tally.unproven() if proven else None
    if unproven and not tally.faults:
        raise OracleFault(unproven)
    return tally


@dataclass(frozen=True)
class _Bench:
    """What all trials of a check share."""

    oracle: Oracle
    device: Device
    module: Module
    tally: Tally

    def attempt(self, case: Case, trial: Trial, problem: Problem) -> Fault | None:
        """Place, launch, read back, judge."""
        threads = self.oracle.blocks[trial.block]
        head = f"{case.name}: {trial.about}, seed {trial.seed}, blocks of {threads} threads"
        if isinstance(self.device, Ordered):
            self.device.seed = trial.order
            head += f", thread order {trial.order}"
        with Placement(self.device, problem.arrays, trial.layout) as placement:
            said = self._launch(launches(self.oracle, case, placement.placed, threads))
            if said:
                return Fault("launch", case.name, (head, *said))
            outputs, damages = placement.read()
        if damages:
            return Fault("damage", case.name, (head, *(_damage_line(damage) for damage in damages)))
        for array in problem.arrays:
            if array.role != "out":
                continue
            bound = problem.bounds[array.name]
            try:
                found = compare(outputs[array.name], problem.outputs[array.name], array.dtype, bound)
            except BoundFault as fault:
                raise OracleFault(f"case {case.name!r}: {array.name}: {fault}") from None
            self.tally.note(case, array, found, bound)
            if found.first is not None:
                kind = "unwritten" if found.unwritten else "mismatch"
                return Fault(kind, case.name, (head, *_mismatch_lines(array.name, found, found.first, bound)))
        return None

    def _launch(self, launches: Iterable[Launch]) -> tuple[str, ...]:
        """Launch one after the other; the lines of the fault that ended it, or none."""
        for launch in launches:
            try:
                kernel = self.module.kernel(launch.kernel)
            except BuildFault as fault:
                raise NoKernel(launch.kernel, str(fault)) from None
            self.tally.launches += 1
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
