"""What the memory can do: plain kernels of the same bytes in the same ratio, in many shapes, of which the best counts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from touchgate.benchmarks import fills
from touchgate.devices.stopwatch import Stopwatch, Work

if TYPE_CHECKING:
    from touchgate.devices import Argument, Device, Pointer

SOURCE = Path(__file__).with_name("traffic.cu")
PACK = 16
SHAPES = tuple((packs, hint, threads) for packs in (1, 2, 4, 8) for hint in ("", "_streaming") for threads in (256, 512, 1024))
"""Packs a thread, cache hint, threads a block."""
FIRST_LOOK = 5
"""Repetitions that choose the best shape; it is then timed anew, since the best of many is too good."""


class Mix(NamedTuple):
    """A kernel of traffic.cu: how many of its equal parts are read and written."""

    name: str
    reads: int
    writes: int

    @property
    def parts(self) -> int:
        """All of them."""
        return self.reads + self.writes


READ, STREAM, COPY = Mix("read", 1, 0), Mix("stream", 2, 1), Mix("copy", 1, 1)
MIXES = (READ, STREAM, COPY)


def mix_of(read: int, written: int) -> Mix:
    """The mix whose share of written bytes is nearest; the one that writes more where two are."""
    share = written / (read + written)
    return min(reversed(MIXES), key=lambda mix: abs(mix.writes / mix.parts - share))


class Ceiling(NamedTuple):
    """The best that the memory did. bytes: read and written. shape: the kernel that did it."""

    mix: str
    bytes: int
    seconds: float
    shape: str

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds


class Memory:
    """A device's memory under plain traffic. Each (mix, bytes) is measured once."""

    def __init__(self, device: Device, watch: Stopwatch, most: int) -> None:
        """`most`: the most bytes that will be asked for, read and written."""
        self._watch = watch
        self._module = device.module(SOURCE)
        self._buffer = device.buffer(-(-most // PACK) * PACK + len(MIXES) * PACK)
        self._sink = device.buffer(PACK)
        fills.fill(
            device.module(fills.SOURCE), self._buffer.pointer, self._buffer.size // 4, "int32", fills.seed_of("traffic")
        )
        self._known: dict[tuple[str, int], Ceiling] = {}

    def free(self) -> None:
        """Give the memory back."""
        self._buffer.free()
        self._sink.free()

    def ceiling(self, read: int, written: int, repetitions: int = 20) -> Ceiling:
        """The best of all shapes at these bytes."""
        mix = mix_of(read, written)
        key = mix.name, read + written
        if key not in self._known:
            self._known[key] = self._measured(mix, read + written, repetitions)
        return self._known[key]

    def probe(self, size: int) -> Callable[[], float]:
        """A short copy of `size` bytes read and written: seconds at every call."""
        ((_, work),) = self._works(COPY, size, ((4, "", 512),))
        return lambda: statistics.median(self._watch.timed(work, FIRST_LOOK))

    def _measured(self, mix: Mix, size: int, repetitions: int) -> Ceiling:
        found = [
            (statistics.median(self._watch.timed(work, FIRST_LOOK)), name, work)
            for name, work in self._works(mix, size, SHAPES)
        ]
        best = sorted(found, key=lambda one: one[0])[:3]
        again = [(statistics.median(self._watch.timed(work, repetitions)), name) for _, name, work in best]
        seconds, name = min(again)
        count = _count(mix, size)
        return Ceiling(mix.name, count * mix.parts * PACK, seconds, name)

    def _works(self, mix: Mix, size: int, shapes: tuple[tuple[int, str, int], ...]) -> Iterator[tuple[str, Work]]:
        count = _count(mix, size)
        parts: list[Pointer] = [self._buffer.pointer.offset(number * count * PACK) for number in range(mix.parts)]
        arguments: list[Argument] = [*parts, *(() if mix.writes else (self._sink.pointer,)), np.int64(count)]
        for packs, hint, threads in shapes:
            kernel = self._module.kernel(f"{mix.name}_{packs}{hint}")
            blocks = -(-count // (packs * threads))
            work = self._watch.prepared([(kernel, (blocks, 1, 1), (threads, 1, 1), arguments, 0)])
            yield f"{mix.name}, {packs} packs a thread{hint.replace('_', ', ')}, {threads} threads", work


def _count(mix: Mix, size: int) -> int:
    """Packs in each part; at least one."""
    return max(size // (mix.parts * PACK), 1)
