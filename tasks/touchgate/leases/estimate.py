"""When a request will be served, by what those before it are expected to take. A guess, for people."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from touchgate.leases.model import Holding
from touchgate.leases.schedule import schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from touchgate.leases.model import Host, Request


def estimates(hosts: Sequence[Host], requests: Iterable[Request], holdings: Iterable[Holding], now: float) -> dict[int, float]:
    """Request id -> seconds from now until it is served, for those of which that can be guessed.

    The future is played with the scheduler itself: who holds ends after its `seconds`, at once where these are over.
    Where one in the way has no `seconds`, nothing is said about those behind it.
    """
    waiting = [replace(request, deadline=None) for request in requests]
    held = list(holdings)
    found: dict[int, float] = {}
    clock = now
    while waiting:
        decision = schedule(hosts, waiting, held, clock)
        gone = {grant.id for grant in decision.granted} | {refusal.id for refusal in decision.refused}
        by_id = {request.id: request for request in waiting}
        held = [one for one in held if one.id not in decision.ended]
        for grant in decision.granted:
            request = by_id[grant.id]
            found[grant.id] = clock - now
            until = clock + (request.seconds or 0) if request.reserves else None
            held.append(Holding(grant.id, grant.shares, request.user, clock, request.seconds, until, grant.within))
        waiting = [request for request in waiting if request.id not in gone]
        ends = [(max(_end(one), clock), one.id) for one in held if _end(one) != float("inf")]
        if not ends or not waiting:
            break
        clock = min(ends)[0]
        held = [one for one in held if max(_end(one), now) > clock]
    return found


def _end(holding: Holding) -> float:
    if holding.until is not None:
        return holding.until
    return float("inf") if holding.seconds is None else holding.since + holding.seconds
