"""What is asked of a device that can time what runs on it. `timing` answers for a GPU; tests play it with scripted times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from touchgate.devices import Argument, Kernel

Step = tuple["Kernel", tuple[int, int, int], tuple[int, int, int], "Sequence[Argument]", int]
"""A launch: kernel, grid, block, arguments, bytes of shared memory."""
Work = Any
"""Launches made ready, in whatever form the stopwatch likes."""


class Conditions(NamedTuple):
    """What the GPU says about itself. Clocks in MHz, temperature in Celsius, power in W; None: it does not say.

    throttled: the names of the reasons for which its clock is below what it would be.
    """

    sm_clock: int | None = None
    memory_clock: int | None = None
    throttled: tuple[str, ...] = ()
    temperature: int | None = None
    power: float | None = None


class Stopwatch(Protocol):
    """A device that can time what runs on it."""

    l2: int | None
    """Bytes of its L2 cache."""
    bandwidth: float | None
    """Bytes a second that its memory's clock and width come to."""

    def prepared(self, steps: Sequence[Step]) -> Work:
        """Launches, made ready to be started together. Raises `LaunchFault`."""

    def timed(self, work: Work, repetitions: int) -> list[float]:
        """Seconds of each repetition on the device, from a cold cache. Raises `LaunchFault`."""

    def conditions(self) -> Conditions:
        """As it is now."""

    def strangers(self) -> tuple[str, ...]:
        """Other processes that compute on the device, in words; none where that can't be told."""
