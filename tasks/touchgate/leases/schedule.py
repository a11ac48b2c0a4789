"""Who gets what, and whom the others wait for: a function of values, the same for every engine.

The queue is walked in order, by priority class and then by request. What fits is granted at once and whole. What does
not fit yet claims everything that could serve it, so that nobody behind it takes a part away: two hosts at the head are
had together as soon as both are free, however many want one of them (kueue#6929: the cost is a host that idles
meanwhile). What can never fit is refused and keeps nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from touchgate.leases.model import Decision, Granted, Holding, Refused, Request, Share, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from touchgate.leases.model import Host, Want


UNDRAIN = "`doit lease undrain [HOST]` takes a drain back"


def in_order(requests: Iterable[Request]) -> list[Request]:
    """The queue: classes in order, inside a class by arrival."""
    return sorted(requests, key=lambda request: (request.priority, request.id))


def schedule(hosts: Sequence[Host], requests: Iterable[Request], holdings: Iterable[Holding], now: float) -> Decision:
    """Grant what fits. hosts: with their drains. holdings: those that still live, reservations among them.

    A reservation whose `until` has passed counts as ended; a run that is in it keeps its shares until it ends itself.
    """
    kept = [holding for holding in holdings if holding.until is None or holding.until > now]
    ended = tuple(holding.id for holding in holdings if holding.until is not None and holding.until <= now)
    table = _Table({host.name: host for host in hosts}, kept)
    granted: list[Granted] = []
    refused: list[Refused] = []
    listed = in_order(requests)
    for request in listed:
        why = _impossible(hosts, request, now)
        if why:
            refused.append(Refused(request.id, why))
            continue
        early = request.after is not None and request.after > now
        fitting = None if early else table.fitting(request)
        if fitting is None:
            table.claim(request)
            continue
        grant = Granted(request.id, *fitting)
        granted.append(grant)
        until = now + (request.seconds or 0) if request.reserves else None
        table.add(Holding(request.id, grant.shares, request.user, now, request.seconds, until, grant.within))
    waiting = table.waiting()
    times = [holding.until for holding in table.holdings if holding.until is not None]
    times += [time for one in listed for time in (one.deadline, one.after) if time is not None and time > now]
    return Decision(tuple(granted), tuple(refused), ended, waiting, min(times, default=None) if waiting else None)


def candidates(hosts: Iterable[Host], want: Want) -> list[Host]:
    """The hosts that may serve a request some day, in the order in which they are tried."""
    by_name = {host.name: host for host in hosts}
    named = [by_name[name] for name in dict.fromkeys(want.names) if name in by_name] if want.names else by_name.values()
    return [host for host in named if not host.drained and len(_usable(host, want)) >= want.gpus]


def _usable(host: Host, want: Want) -> list[str]:
    return [gpu for gpu in host.gpus if not want.among or gpu in want.among]


def _impossible(hosts: Sequence[Host], request: Request, now: float) -> str:
    """Why no release will ever serve a request, or ""."""
    if request.deadline is not None and request.deadline <= now:
        return "it was not granted in time"
    want = request.want
    if len(candidates(hosts, want)) >= max(want.hosts, 1):
        return ""
    known = {host.name: host for host in hosts}
    unknown = [name for name in want.names if name not in known]
    if unknown:
        return f"there is no host {', '.join(unknown)}; there is {', '.join(known) or 'none'}"
    named = [known[name] for name in want.names] or list(hosts)
    drained = [host for host in named if host.drained]
    if drained:
        return "; ".join([*(f"{host.name} is drained ({host.drained})" for host in drained), UNDRAIN])
    if want.hosts:
        return f"{want.hosts} hosts are wanted, and there {_is(len(named))}"
    most = max((len(_usable(host, want)) for host in named), default=0)
    return f"{want.gpus} GPUs of one host are wanted, and the most that one has is {most}"


def _is(number: int) -> str:
    return "is 1" if number == 1 else f"are {number}"


class _Claims:
    """Which request is the last that each share is kept for; a queue of hundreds is walked at every end of a lease."""

    def __init__(self) -> None:
        self._places: dict[Share, int] = {}
        self._on_host: dict[str, int] = {}

    def add(self, place: int, shares: Iterable[Share]) -> None:
        for share in shares:
            self._places[share] = self._on_host[share.host] = place

    def last(self, share: Share) -> int:
        """The place in the queue of the last request that a share is kept for, 0 where it is kept for none."""
        if share.gpu is None:
            return self._on_host.get(share.host, 0)
        return max(self._places.get(share, 0), self._places.get(Share(share.host), 0))


class _Table:
    """Who has, or is next for, what, while the queue is walked."""

    def __init__(self, hosts: dict[str, Host], holdings: list[Holding]) -> None:
        self.holdings = holdings
        self._hosts = hosts
        self._waiting: list[tuple[Request, tuple[Share, ...], int]] = []
        self._claims = _Claims()
        self._claims_of: dict[str, _Claims] = {}

    def add(self, holding: Holding) -> None:
        self.holdings.append(holding)

    def fitting(self, request: Request) -> tuple[tuple[Share, ...], int | None] | None:
        """What a request gets now and the reservation that it lies in; None: it must wait.

        Within a reservation of its user a run is kept by that user's runs alone: nobody else is next there.
        """
        wanted = self._wanted(request)
        if not request.reserves:
            claims = self._claims_of.get(request.user, _Claims())
            for own in self.holdings:
                if own.until is not None and own.user == request.user:
                    within = [[share for share in group if _covers(own, share)] for group in wanted]
                    shares = _chosen(request.want, [self._free(group, request, claims) for group in within])
                    if shares is not None:
                        return shares, own.id
        shares = _chosen(request.want, [self._free(group, request, self._claims) for group in wanted])
        return None if shares is None else (shares, None)

    def claim(self, request: Request) -> None:
        """Whatever could serve a request that must wait is kept for it from now on."""
        shares = tuple(share for group in self._wanted(request) for share in group)
        place = len(self._waiting) + 1
        self._waiting.append((request, shares, max(map(self._claims.last, shares), default=0)))
        self._claims.add(place, shares)
        if not request.reserves:  # the next reservation is no reason to stay out of the one that is running
            self._claims_of.setdefault(request.user, _Claims()).add(place, shares)

    def waiting(self) -> tuple[Waiting, ...]:
        """Those that must wait, in order, and who keeps each."""
        found = []
        for index, (request, shares, behind) in enumerate(self._waiting):
            holdings = tuple(one.id for one in self.holdings if any(_keeps(one, share, request) for share in shares))
            before = self._waiting[behind - 1][0].id if behind else None
            found.append(Waiting(request.id, index + 1, holdings, before, self._has_reserved(request, shares)))
        return tuple(found)

    def _has_reserved(self, request: Request, shares: Iterable[Share]) -> bool:
        own = [one for one in self.holdings if one.until is not None and one.user == request.user and not request.reserves]
        return any(_covers(one, share) for one in own for share in shares)

    def _wanted(self, request: Request) -> list[list[Share]]:
        """All shares that could serve a request, host by host."""
        want = request.want
        hosts = candidates(self._hosts.values(), want)
        if want.hosts:
            return [[Share(host.name)] for host in hosts]
        return [[Share(host.name, gpu) for gpu in _usable(host, want)] for host in hosts]

    def _free(self, shares: Iterable[Share], request: Request, claims: _Claims) -> list[Share]:
        """Those that nobody has and that are kept for nobody before."""
        return [
            share
            for share in shares
            if not claims.last(share) and not any(_keeps(holding, share, request) for holding in self.holdings)
        ]


def _chosen(want: Want, free: Iterable[list[Share]]) -> tuple[Share, ...] | None:
    """What serves a request of what is free, host by host: the first hosts; the GPUs of the host where fewest are left."""
    if want.hosts:
        hosts = [share for group in free for share in group][: want.hosts]
        return tuple(hosts) if len(hosts) == want.hosts else None
    enough = [group for group in free if len(group) >= want.gpus]
    return tuple(min(enough, key=len)[: want.gpus]) if enough else None


def _keeps(holding: Holding, share: Share, request: Request) -> bool:
    """Whether a holding keeps a request from a share.

    A reservation keeps others out; a run keeps everybody out but its own user's reservation, which may begin over it.
    """
    if not any(held.meets(share) for held in holding.shares):
        return False
    if holding.until is not None:
        return request.reserves or holding.user != request.user
    return not (request.reserves and holding.user == request.user)


def _covers(holding: Holding, share: Share) -> bool:
    return any(held.host == share.host and held.gpu in (None, share.gpu) for held in holding.shares)
