"""What is timed: a benchmark's arrays on the device, its launches, and whether what they left there is right.

The device makes the inputs, and the host makes the same again for the rows that it compares: so a benchmark of gigabytes is
checked on the very buffers that were timed, in the time that some rows take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from touchgate.benchmarks import fills
from touchgate.checks import numerics
from touchgate.checks.cases import Array, Benchmark, Case, Oracle, OracleFault, Placed, Span
from touchgate.checks.compare import BoundFault, compare
from touchgate.checks.problems import ask, launches, solved
from touchgate.devices import BuildFault

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

    from touchgate.devices import Buffer, Device, Module
    from touchgate.devices.stopwatch import Step

COMPARED = 1 << 21
"""Elements of the largest array that are compared, about."""
MOST_ROWS = 4096
"""Rows that are compared at most."""


class NoKernel(Exception):
    """A launch of a kernel that the source does not define."""


@dataclass(frozen=True)
class Wrong:
    """An output that is not what the oracle says. lines: for a person."""

    lines: tuple[str, ...]


def benchmarks_of(file: object) -> tuple[Benchmark, ...]:
    """The `BENCHMARKS` of a loaded oracle file. Raises `OracleFault`."""
    listed = getattr(file, "BENCHMARKS", None)
    if listed is None:
        raise OracleFault("defines no BENCHMARKS; docs/benchmarks.md says what it lists")
    found = ask("BENCHMARKS: ", lambda: tuple(listed))
    if not found:
        raise OracleFault("BENCHMARKS is empty: nothing would be timed")
    names = set()
    for one in found:
        if not isinstance(one, Benchmark):
            raise OracleFault(f"BENCHMARKS has a {type(one).__name__}; wanted are Benchmark(...)")
        _refuse(one)
        if one.name in names:
            raise OracleFault(f"two benchmarks are named {one.name!r}")
        names.add(one.name)
    return found


def _refuse(benchmark: Benchmark) -> None:
    """Raise `OracleFault` for what can't be timed or compared."""
    if not isinstance(benchmark.case, Case):
        raise OracleFault(f"BENCHMARKS: a benchmark's case is a {type(benchmark.case).__name__}; wanted is Case(...)")
    about = f"benchmark {benchmark.name!r}: "
    names = [span.name if isinstance(span, Span) else None for span in benchmark.spans]
    if None in names or len(set(names)) < len(names):
        raise OracleFault(f"{about}its spans must be Span(...), each of another name")
    for span in benchmark.spans:
        if span.dtype not in numerics.FORMATS or span.role not in ("in", "out", "scratch"):
            raise OracleFault(f"{about}{span.name}: dtype {span.dtype!r}, role {span.role!r}: one of them is unknown")
        if len(span.shape) not in (1, 2) or not all(isinstance(size, int) and size > 0 for size in span.shape):
            raise OracleFault(f"{about}{span.name}: shape {span.shape}: wanted are one or two whole numbers, 1 or more")
        if span.along and span.shape[0] != benchmark.case.parameters.get(benchmark.rows):
            counted = benchmark.case.parameters.get(benchmark.rows)
            raise OracleFault(f"{about}{span.name} has {span.shape[0]} rows, {benchmark.rows!r} says {counted}")
    if not any(span.role == "out" for span in benchmark.spans):
        raise OracleFault(f"{about}it has no output")
    if benchmark.read < 0 or benchmark.written < 1 or benchmark.flop < 0:
        raise OracleFault(f"{about}read {benchmark.read}, written {benchmark.written}, flop {benchmark.flop}: impossible")


def differing_interface(one: Benchmark, other: Benchmark) -> str:
    """What keeps two benchmarks of one name from being the same problem, in words; "" where nothing does.

    Scratch memory and launches are each one's own affair.
    """
    if one.case.dtype != other.case.dtype:
        return f"the type is {one.case.dtype}, was {other.case.dtype}"
    shapes = [
        {span.name: (span.role, span.dtype, span.shape) for span in listed.spans if span.role != "scratch"}
        for listed in (one, other)
    ]
    if shapes[0] != shapes[1]:
        return "the arrays differ"
    return ""


class Filled:
    """A benchmark's arrays on the device, inputs filled. A context manager: the memory is given back at its end."""

    def __init__(self, device: Device, filler: Module, benchmark: Benchmark) -> None:
        """`filler`: fill.cu, loaded."""
        self.benchmark = benchmark
        self.placed: dict[str, Placed] = {}
        self._device = device
        self._filler = filler
        self._buffers: dict[str, Buffer] = {}
        try:
            for span in benchmark.spans:
                self._place(span)
        except BaseException:
            self.free()
            raise
        self.poison()

    def _place(self, span: Span) -> None:
        count = math.prod(span.shape)
        buffer = self._device.buffer(count * numerics.FORMATS[span.dtype].size)
        self._buffers[span.name] = buffer
        self.placed[span.name] = Placed(buffer.pointer, span.shape, span.shape[-1], span.dtype)
        if span.role == "in":
            fills.fill(self._filler, buffer.pointer, count, span.dtype, fills.seed_of(span.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.free()

    def free(self) -> None:
        """Give the memory back."""
        while self._buffers:
            self._buffers.popitem()[1].free()

    def poison(self) -> None:
        """Make every output what no kernel writes."""
        for span in self.benchmark.spans:
            if span.role == "out":
                form = numerics.FORMATS[span.dtype]
                buffer = self._buffers[span.name]
                fills.flood(self._filler, buffer.pointer, math.prod(span.shape), form.size, form.poison)

    def beside(self, other: Benchmark) -> dict[str, Placed]:
        """The same arrays for another version of the benchmark, with scratch memory as that one wants it."""
        for span in other.spans:
            if span.role == "scratch" and span.shape != self._shape(span.name):
                label = f"{span.name} of the other"
                size = math.prod(span.shape) * numerics.FORMATS[span.dtype].size
                self._buffers[label] = self._device.buffer(size)
        placed = {}
        for span in other.spans:
            buffer = self._buffers.get(f"{span.name} of the other") or self._buffers[span.name]
            placed[span.name] = Placed(buffer.pointer, span.shape, span.shape[-1], span.dtype)
        return placed

    def _shape(self, name: str) -> tuple[int, ...] | None:
        return next((span.shape for span in self.benchmark.spans if span.name == name and span.role == "scratch"), None)

    def buffer(self, name: str) -> Buffer:
        """The memory of an array."""
        return self._buffers[name]

    def wrong(self, oracle: Oracle) -> Wrong | None:
        """Compare the outputs as they lie there with the oracle, on some rows. Raises `OracleFault`."""
        rows = self._rows()
        case = self._shortened(len(rows)) if self.benchmark.rows else self.benchmark.case
        about = f"benchmark {case.name!r}: "
        arrays = tuple(self._array(span, rows) for span in self.benchmark.spans if span.role != "scratch")
        problem = solved(oracle, case, arrays, about)
        for span in self.benchmark.spans:
            if span.role != "out":
                continue
            whole = self._buffers[span.name].read().view(numerics.FORMATS[span.dtype].storage).reshape(span.shape)
            got = np.ascontiguousarray(whole[rows]) if span.along else whole
            try:
                found = compare(got, problem.outputs[span.name], span.dtype, problem.bounds[span.name])
            except BoundFault as fault:
                raise OracleFault(f"{about}{span.name}: {fault}") from None
            if found.first is not None:
                place = found.first.index
                if span.along:
                    place = (int(rows[place[0]]), *place[1:])
                index = ", ".join(map(str, place))
                return Wrong(
                    (
                        f"{span.name}[{index}]: got {found.first.got:.9g}, expected {found.first.expected:.9g}"
                        + (" (never written)" if found.first.unwritten else ""),
                        f"{found.differing} of the {found.elements} elements that were compared differ",
                    )
                )
        return None

    def _shortened(self, rows: int) -> Case:
        case = self.benchmark.case
        return replace(case, parameters={**case.parameters, self.benchmark.rows: rows})

    def _rows(self) -> NDArray[np.int64]:
        """Which rows are compared: the first, the last, and some between."""
        if not self.benchmark.rows:
            return np.arange(0)
        total = int(self.benchmark.case[self.benchmark.rows])
        width = max((math.prod(span.shape[1:]) for span in self.benchmark.spans if span.along), default=1)
        count = max(min(COMPARED // width, MOST_ROWS) - 2, 0)
        some = np.random.default_rng(5).integers(0, total, count)
        return np.unique(np.concatenate([np.array([0, total - 1]), some]))

    def _array(self, span: Span, rows: NDArray[np.int64]) -> Array:
        """What of an array is compared: these rows of it, or all; inputs with their data."""
        shape = (len(rows), *span.shape[1:]) if span.along else span.shape
        return Array(span.name, span.dtype, span.role, shape, self._input(span, rows) if span.role == "in" else None)

    def _input(self, span: Span, rows: NDArray[np.int64]) -> NDArray[Any]:
        width = math.prod(span.shape[1:])
        indices = rows[:, None] * width + np.arange(width) if span.along else np.arange(math.prod(span.shape))
        shape = (len(rows), *span.shape[1:]) if span.along else span.shape
        made = fills.bits(indices, span.dtype, fills.seed_of(span.name))
        stored: NDArray[Any] = made.view(numerics.FORMATS[span.dtype].storage).reshape(shape)
        return stored


def steps(oracle: Oracle, benchmark: Benchmark, placed: Mapping[str, Placed], module: Module) -> Sequence[Step]:
    """What the file's own rule launches. Raises `OracleFault`, `NoKernel`."""
    found: list[Step] = []
    for one in launches(oracle, benchmark.case, placed, oracle.blocks[0]):
        try:
            kernel = module.kernel(one.kernel)
        except BuildFault as fault:
            raise NoKernel(str(fault)) from None
        found.append((kernel, one.grid, one.block, one.arguments, one.shared))
    if not found:
        raise OracleFault(f"benchmark {benchmark.name!r}: it launches nothing")
    return found
