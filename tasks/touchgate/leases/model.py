"""The values that every lease engine shares: what there is, what is asked for, who has what. Nothing here does anything.

Times are seconds on one clock that the engine names (a host's time since boot, a database's own), never compared with
another engine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Priority(IntEnum):
    """Classes, served in this order; inside a class the earlier request is first."""

    DEVELOPMENT = 0
    CI = 1


@dataclass(frozen=True)
class Share:
    """A whole host (gpu None), which nobody shares, or one GPU of it by UUID."""

    host: str
    gpu: str | None = None

    def meets(self, other: Share) -> bool:
        """Whether both can't be had at once."""
        return self.host == other.host and (self.gpu is None or other.gpu is None or self.gpu == other.gpu)

    def __str__(self) -> str:
        """As people read it: spark-1, or spark-1/GPU-5f3c."""
        return self.host if self.gpu is None else f"{self.host}/{self.gpu}"


@dataclass(frozen=True)
class Host:
    """A host and the UUIDs of its GPUs as far as known. drained: why nothing new is granted there, "" where it is."""

    name: str
    gpus: tuple[str, ...] = ()
    drained: str = ""


@dataclass(frozen=True)
class Want:
    """`hosts` whole hosts at once, or `gpus` GPUs of one host; exactly one of the two is above 0.

    names: hosts that will do, () any. among: UUIDs that will do, () any.
    """

    hosts: int = 0
    gpus: int = 0
    names: tuple[str, ...] = ()
    among: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if (self.hosts > 0) == (self.gpus > 0) or min(self.hosts, self.gpus) < 0:
            raise ValueError("a lease is of hosts or of GPUs, at least one")

    def __str__(self) -> str:
        """As people read it: 1 host; 2 GPUs of one host; 2 hosts of a, b."""
        one = "1 host" if self.hosts == 1 else f"{self.hosts} hosts"
        if self.gpus:
            one = "1 GPU" if self.gpus == 1 else f"{self.gpus} GPUs of one host"
        return one + (f" of {', '.join(self.names)}" if self.names else "")


@dataclass(frozen=True)
class Request:
    """One that waits. id: grows in the order of asking. deadline: when it gives up, None never.

    seconds: how long it means to hold what it gets, None unknown. reserves: it is a person's reservation, which holds
    by the clock instead of by a process. after: it is granted nothing before that time, and what could serve it is kept for it
    meanwhile; None at once.
    """

    id: int
    want: Want
    user: str
    priority: Priority = Priority.CI
    seconds: float | None = None
    deadline: float | None = None
    reserves: bool = False
    after: float | None = None


@dataclass(frozen=True)
class Holding:
    """One that has its shares. id: its request's. until: when a reservation ends, None for a run, which ends by itself.

    within: the id of its user's reservation that it runs in, None otherwise.
    """

    id: int
    shares: tuple[Share, ...]
    user: str
    since: float
    seconds: float | None = None
    until: float | None = None
    within: int | None = None


@dataclass(frozen=True)
class Granted:
    """What a request gets now."""

    id: int
    shares: tuple[Share, ...]
    within: int | None = None


@dataclass(frozen=True)
class Refused:
    """A request that no release will ever satisfy, and why."""

    id: int
    why: str


@dataclass(frozen=True)
class Waiting:
    """A request that waits. position: 1 is next. holdings: the ids of those that keep it.

    behind: the last request before it that something of what could serve it is kept for, None where there is none.
    reserved: a running reservation of its user may serve it whoever else is before it.
    """

    id: int
    position: int
    holdings: tuple[int, ...]
    behind: int | None = None
    reserved: bool = False

    @property
    def watch(self) -> tuple[int, ...]:
        """Whose end it must be told of.

        While a request before it keeps it, nothing changes for it until that one is served or gone; the last such one
        is enough. So an end wakes those whom it may serve, not everybody.
        """
        if self.behind is None:
            return self.holdings
        return (*(self.holdings if self.reserved else ()), self.behind)


@dataclass(frozen=True)
class Decision:
    """What the scheduler says. ended: reservations whose time is over. look_again: when time alone changes something."""

    granted: tuple[Granted, ...]
    refused: tuple[Refused, ...]
    ended: tuple[int, ...]
    waiting: tuple[Waiting, ...]
    look_again: float | None
