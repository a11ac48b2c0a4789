"""What the memory can do: plain kernels of the same bytes in the same ratio, in many shapes, of which the best counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from touchgate.benchmarks import fills
from touchgate.devices.stopwatch import Stopwatch, Work

if TYPE_CHECKING:
    from touchgate.devices import Argument, Buffer, Device, Pointer

SOURCE = Path(__file__).with_name("traffic.cu")
PACK = 16
SHAPES = tuple(
    (packs, hint, threads)
    for packs in (1, 2, 4, 8)
    for hint in ("", "_streaming")
    for threads in (256, 512, 1024)
    if packs * threads < 8 * 1024
)
"""Packs a thread, cache hint, threads a block. 8 packs take 80 registers a thread: 1024 such threads are no block."""
TIMES_L2 = 4
LEAST_PROBE = 64 << 20
"""Bytes that the probe copies, read and written together: this many times the L2, and at least so many."""
WARM_UP = 200
"""Repetitions before the first probe."""
LOOKS = 8
"""Of a probe, at most; the best counts."""
PAUSE = 0.03
"""Seconds between two looks. Work on gigabytes slows the memory for a moment after its end: by 9 % on an H200, measured."""
AT_REST = 1.02
"""A look that takes no longer than this times the best so far needs no second one."""
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

    def __init__(self, device: Device, watch: Stopwatch) -> None:
        self._device = device
        self._watch = watch
        self._module = device.module(SOURCE)
        self._filler = device.module(fills.SOURCE)
        self._sink = device.buffer(PACK)
        self._known: dict[tuple[str, int], Ceiling] = {}
        size = max(TIMES_L2 * (watch.l2 or 0), LEAST_PROBE)
        self._probed = self._filled(size)
        ((_, self._probe),) = self._works(self._probed, COPY, size, ((4, "", 512),))
        # An idle GPU's clocks take a while to rise, and the first probe would seem slow.
        watch.timed(self._probe, WARM_UP)
        self._at_best = 0.0  # so that the first probe takes all its looks

    def free(self) -> None:
        """Give the memory back."""
        self._probed.free()
        self._sink.free()

    def probe(self) -> float:
        """Seconds that a short copy takes now: longer than before, and somebody else uses the memory.

        The best of a few looks with pauses: a moment's delay is no sharing, nor is what our own work did just before.
        """
        taken = float("inf")
        for look in range(LOOKS):
            if look:
                time.sleep(PAUSE)
            taken = min(taken, statistics.median(self._watch.timed(self._probe, FIRST_LOOK)))
            if taken <= self._at_best * AT_REST:
                break
        self._at_best = min(self._at_best or taken, taken)
        return taken

    def ceiling(self, read: int, written: int, repetitions: int = 20) -> Ceiling:
        """The best of all shapes at these bytes. Raises `LaunchFault` where they do not fit into the memory."""
        mix = mix_of(read, written)
        key = mix.name, read + written
        if key not in self._known:
            buffer = self._filled(read + written)
            try:
                self._known[key] = self._measured(buffer, mix, read + written, repetitions)
            finally:
                buffer.free()
        return self._known[key]

    def _filled(self, size: int) -> Buffer:
        # A part is a whole number of packs, so what the parts come to may be a little more than `size`.
        buffer = self._device.buffer(size + len(MIXES) * PACK)
        fills.fill(self._filler, buffer.pointer, buffer.size // 4, "int32", fills.seed_of("traffic"))
        return buffer

    def _measured(self, buffer: Buffer, mix: Mix, size: int, repetitions: int) -> Ceiling:
        found = [
            (statistics.median(self._watch.timed(work, FIRST_LOOK)), name, work)
            for name, work in self._works(buffer, mix, size, SHAPES)
        ]
        best = sorted(found, key=lambda one: one[0])[:3]
        again = [(statistics.median(self._watch.timed(work, repetitions)), name) for _, name, work in best]
        seconds, name = min(again)
        return Ceiling(mix.name, _count(mix, size) * mix.parts * PACK, seconds, name)

    def _works(
        self, buffer: Buffer, mix: Mix, size: int, shapes: tuple[tuple[int, str, int], ...]
    ) -> Iterator[tuple[str, Work]]:
        count = _count(mix, size)
        parts: list[Pointer] = [buffer.pointer.offset(number * count * PACK) for number in range(mix.parts)]
        arguments: list[Argument] = [*parts, *(() if mix.writes else (self._sink.pointer,)), np.int64(count)]
        for packs, hint, threads in shapes:
            kernel = self._module.kernel(f"{mix.name}_{packs}{hint}")
            blocks = -(-count // (packs * threads))
            work = self._watch.prepared([(kernel, (blocks, 1, 1), (threads, 1, 1), arguments, 0)])
            yield f"{mix.name}, {packs} packs a thread{hint.replace('_', ', ')}, {threads} threads", work


def _count(mix: Mix, size: int) -> int:
    """Packs in each part; at least one."""
    return max(size // (mix.parts * PACK), 1)
