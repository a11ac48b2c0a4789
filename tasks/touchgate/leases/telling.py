"""What people are told of a queue: who holds, who waits, where one stands. Values of a state, nothing of its files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from touchgate.leases import clock
from touchgate.leases.engine import Holder, Place, Queued
from touchgate.leases.estimate import estimates
from touchgate.leases.holder import RESOURCE
from touchgate.leases.model import Priority
from touchgate.leases.record import printable
from touchgate.leases.state import HELD, HOST, WAITING

if TYPE_CHECKING:
    from collections.abc import Callable

    from touchgate.leases.model import Share
    from touchgate.leases.state import Entry, State

GUESSED = 20
"""Waiters behind this place are given no estimate while they wait: it plays the future of all before them."""


def name(share: Share, host: str) -> str:
    """A share in the words of whoever asks, who may call this host by another name."""
    return host if share.gpu is None else f"{host}/{share.gpu}"


def named(holder: Holder, host: str) -> Holder:
    """What a lock file's record tells of, in the same words."""
    resource = holder.resource
    if resource == RESOURCE:
        return replace(holder, resource=host)
    return replace(holder, resource=f"{host}/{resource.removeprefix('gpu-')}")


def why(reason: str, host: str) -> str:
    """A refusal of the scheduler, with this host's name and the cure."""
    return reason.replace(HOST, host, 1) if reason.startswith(HOST) else reason


def words(holder: Holder) -> str:
    """For example "ada, pid 4121, since 2026-11-30T14:02:11Z (gemv:kernel)"."""
    parts = [holder.user]
    if holder.pid is not None:
        parts.append(f"pid {holder.pid}")
    if holder.since is not None:
        parts.append(f"since {holder.since}")
    if holder.until is not None:
        parts.append(f"until {holder.until}")
    text = ", ".join(parts)
    for more in (holder.what, holder.url, holder.note):
        text += f" ({more})" if more else ""
    return text


def holders(entry: Entry, host: str, *, alive: bool = True, note: str = "") -> list[Holder]:
    """Who holds each share of an entry."""
    until = clock.iso(entry.until_wall) if entry.until_wall is not None else None
    return [
        Holder(
            resource=name(share, host),
            user=printable(entry.user),
            pid=entry.pid if entry.runs else None,
            since=entry.granted,
            what=printable(entry.what),
            url=printable(entry.url) if entry.url else None,
            token=entry.token if entry.runs else None,
            until=until,
            alive=alive,
            note=note or ("a reservation" if entry.reserves else ""),
            id=entry.id,
        )
        for share in entry.shares
    ]


def place(state: State, own: Entry, host: str, *, estimated: bool = False) -> Place:
    """Where a request stands, and who holds what it could be served with."""
    now = clock.now()
    state = state.put(replace(own, deadline=None, asleep=False))  # where it stands when it gives up is told, too
    found = next((one for one in state.decide(now).waiting if one.id == own.id), None)
    if found is None:  # it is granted by now, or passed over
        return Place(1, ())
    keep = [state.entries[number] for number in found.holdings if number in state.entries]
    estimate = None
    if estimated and found.position <= GUESSED:
        ahead = [one for one in state.requests() if (one.priority, one.id) <= (own.priority, own.id)]
        estimate = estimates([state.host()], ahead, state.holdings(), now).get(own.id)
    return Place(found.position, tuple(holder for one in keep for holder in holders(one, host)), estimate)


def queued(state: State) -> tuple[Queued, ...]:
    """Who waits, in order; those that are passed over last."""
    now = clock.now()
    guesses = estimates([state.host()], state.requests(), state.holdings(), now)
    order = [one.id for one in state.decide(now).waiting]
    asleep = [one.id for one in state.entries.values() if one.state == WAITING and one.asleep]
    return tuple(
        Queued(
            id=number,
            position=index + 1,
            user=printable(one.user),
            pid=one.pid if one.runs else None,
            wants=str(one.want),
            since=one.asked,
            priority=Priority(one.priority).name.lower(),
            estimate=guesses.get(number),
            what=printable(one.what) + _apart(one),
            url=printable(one.url) if one.url else None,
            reserves=one.reserves,
        )
        for index, number in enumerate([*order, *asleep])
        for one in [state.entries[number]]
    )


def _apart(one: Entry) -> str:
    """What else is to be said of one that waits."""
    if one.asleep:
        return " (does not answer, passed over)"
    return " (the host was not fit; it looks again)" if one.after is not None else ""


def held(state: State, host: str, alive: Callable[[Entry], bool], note: Callable[[Entry], str]) -> list[Holder]:
    """Who holds what, by the queue. alive, note: asked of each run."""
    found: list[Holder] = []
    for one in state.entries.values():
        if one.state == HELD:
            living = one.reserves or alive(one)
            found += holders(one, host, alive=living, note=note(one) if one.runs else "")
    return found
