"""Taking samples: warm-ups, what is thrown away, and base and head in turn."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from touchgate.benchmarks.verdicts import Block

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from touchgate.devices.stopwatch import Conditions, Stopwatch, Work

BLOCKS = 16
"""Of four samples each, base against head."""


class Rule(NamedTuple):
    """How much is measured. A sample is the median of `repetitions`, each from a cold cache.

    retakes: throttled samples that one key may throw away.
    """

    warmups: int = 2
    samples: int = 5
    repetitions: int = 10
    blocks: int = BLOCKS
    retakes: int = 10


class Throttled(Exception):
    """The GPU kept on throttling. The text names the reasons."""


class Sample(NamedTuple):
    """One sample with the GPU's state before and after. kept: whether it counts; seconds: the median repetition."""

    seconds: float
    repetitions: tuple[float, ...]
    before: Conditions
    after: Conditions
    kept: bool = True


class Sampler:
    """Takes samples of one key and keeps them all, also those that do not count."""

    def __init__(self, watch: Stopwatch, rule: Rule) -> None:
        self._watch = watch
        self._rule = rule
        self._thrown = 0
        self._state: Conditions | None = None
        self.taken: list[Sample] = []

    def samples(self, work: Work) -> list[float]:
        """Seconds of the samples that count, after the warm-ups. Raises `Throttled`."""
        for _ in range(self._rule.warmups):
            self._watch.timed(work, self._rule.repetitions)
        return [self.sample(work) for _ in range(self._rule.samples)]

    def sample(self, work: Work) -> float:
        """One sample that counts. Raises `Throttled` when too many did not."""
        while True:
            # What was read after the sample before this one is still so: nothing ran in between.
            before = self._state or self._watch.conditions()
            times = self._watch.timed(work, self._rule.repetitions)
            after = self._state = self._watch.conditions()
            reasons = tuple(dict.fromkeys((*before.throttled, *after.throttled)))
            seconds = statistics.median(times)
            self.taken.append(Sample(seconds, tuple(times), before, after, not reasons))
            if not reasons:
                return seconds
            self._thrown += 1
            if self._thrown > self._rule.retakes:
                raise Throttled(f"the GPU throttles ({', '.join(reasons)}): {self._thrown} samples were thrown away")

    def blocks(self, base: Work, head: Work, random: Random) -> list[Block]:
        """Base and head as ABBA or BAAB, half of each in random order. Raises `Throttled`."""
        for work in (base, head):
            for _ in range(self._rule.warmups):
                self._watch.timed(work, self._rule.repetitions)
        orders = [number % 2 == 0 for number in range(self._rule.blocks)]
        random.shuffle(orders)
        return [self._block(base, head, begins_with_base=order) for order in orders]

    def _block(self, base: Work, head: Work, *, begins_with_base: bool) -> Block:
        outer, inner = (base, head) if begins_with_base else (head, base)
        first, second, third, fourth = (self.sample(work) for work in (outer, inner, inner, outer))
        if begins_with_base:
            return Block(base=(first, fourth), head=(second, third))
        return Block(base=(second, third), head=(first, fourth))


def clocks(samples: Sequence[Sample]) -> dict[str, int | None]:
    """The lowest and highest clock of the multiprocessors during the samples, MHz; None where unknown."""
    seen = [state.sm_clock for sample in samples for state in (sample.before, sample.after) if state.sm_clock is not None]
    return {"lowest": min(seen, default=None), "highest": max(seen, default=None)}
