"""What every lease engine can do, and what it says: files on one host, two hosts over ssh, PostgreSQL for a fleet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from touchgate.leases.model import Priority

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from touchgate.leases.model import Share, Want


class LeaseFault(Exception):
    """A lease that is not to be had, or not any more, in words: what and what to do. Exit 75 unless a subclass says more."""


class LeaseRefused(LeaseFault):
    """It can't be granted here: an unsafe folder, a drained host, more GPUs than there are."""


class LeaseMistake(LeaseRefused):
    """Settings that can't be meant: a lease folder that is no whole path, a faulty file of hosts. Exit 3."""


class LeaseUnfit(LeaseFault):
    """Another host that was granted is not fit, or not known to be: a line, then who is in the way. Exit 69."""


class LeaseTimeout(LeaseFault):
    """It was not granted in time."""


class LeaseCancelled(LeaseFault):
    """Somebody took the request back: this run itself, or `doit lease cancel`."""


class LeaseLost(LeaseFault):
    """It was granted and is not this run's any more: a newer token, a lock file replaced, a connection cut."""


class LeaseUntold(LeaseLost):
    """What excludes others is this run's still, and a queue of a newer touchgate may say more than can be read."""


@dataclass(frozen=True)
class Ask:
    """One request. what: for people, for example the lanes. timeout: seconds to wait, None for ever, 0 not at all.

    seconds: how long it is meant to be held (the lanes' minutes), for the estimates of those behind it.
    """

    want: Want
    what: str
    timeout: float | None = None
    seconds: float | None = None
    priority: Priority = Priority.CI
    url: str | None = None


@dataclass(frozen=True)
class Holder:
    """Who holds something. since: ISO 8601, UTC. until: the same, of a reservation. alive: the lock is really held now.

    Not alive: the run is gone without having said so. Unknown is None. note: in words, what else is known.
    """

    resource: str
    user: str
    pid: int | None
    since: str | None
    what: str
    url: str | None = None
    token: int | None = None
    until: str | None = None
    alive: bool = True
    note: str = ""
    id: int | None = None


@dataclass(frozen=True)
class Queued:
    """Who waits. position: 1 is next. estimate: seconds until it is served, None where that can't be guessed."""

    id: int
    position: int
    user: str
    pid: int | None
    wants: str
    since: str
    priority: str
    estimate: float | None
    what: str = ""
    url: str | None = None
    reserves: bool = False


@dataclass(frozen=True)
class HostState:
    """A host as the engine knows it. drained: why, "" where it is not."""

    name: str
    gpus: tuple[str, ...] = ()
    drained: str = ""


@dataclass(frozen=True)
class Status:
    """All that is to be seen. where: in words, what keeps these leases. notes: what is wrong with it."""

    where: str
    hosts: tuple[HostState, ...] = ()
    holders: tuple[Holder, ...] = ()
    queue: tuple[Queued, ...] = ()
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Place:
    """Where a waiter stands, told when it first has to wait and when that changes.

    position 0: it is next, and waits for what no queue knows (a lock that another program took). holders: who is in the way.
    """

    position: int
    holders: tuple[Holder, ...]
    estimate: float | None = None


class Grant(Protocol):
    """What was granted. A context manager; leaving it closes."""

    token: int
    """Larger than that of every earlier grant."""
    shares: tuple[Share, ...]
    since: str
    """ISO 8601, UTC."""
    where: str
    """In words, what keeps it."""
    notes: tuple[str, ...]
    """What a person should know of it (a record that could not be written)."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """To hand to children (`pass_fds`): the lease lasts as long as one of them has one."""

    def check(self) -> None:
        """Before every device check: raises `LeaseLost` where the grant is not this run's any more."""

    def close(self) -> None:
        """This process has done with it; never an unlock. Again is nothing."""

    def __enter__(self) -> Self:
        """The grant itself."""

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""


class Engine(Protocol):
    """Asks for leases and tells of them. Each raises `LeaseRefused` where it can't be used here."""

    def acquire(self, ask: Ask, *, on_wait: Callable[[Place], None], cancelled: Callable[[], bool] | None = None) -> Grant:
        """Wait for a grant. Raises `LeaseTimeout`, `LeaseCancelled`, `LeaseRefused`.

        on_wait: when it first has to wait, and again when its place changes. cancelled: asked at least four times a second
        where given.
        """

    def status(self) -> Status:
        """Who holds what, and who waits. Disturbs nobody."""

    def reserve(self, want: Want, seconds: float, why: str, sha: str | None = None) -> int:
        """Be next: the shares are this user's for `seconds` from when they are free. The reservation's id.

        sha: the only commit that a run may adopt it for, None any.
        """

    def adopt(self, reservation: int, ask: Ask, sha: str | None) -> Grant:
        """A run's grant inside a reservation that somebody made for it; never waits, and `ask.timeout` means nothing.

        Raises `LeaseRefused`, saying which, where there is no such reservation, it is another user's, it has not begun or is
        over, it is of another host, made for another commit than `sha`, or does not cover `ask.want`; or where another run
        has the shares.
        """

    def cancel(self, request: int) -> str:
        """Take back a request that waits, or end a reservation; in words what was. A run that holds is never ended."""

    def drain(self, host: str, why: str) -> None:
        """Grant nothing new on a host; who holds it goes on."""

    def undrain(self, host: str) -> None:
        """Take a drain back."""
