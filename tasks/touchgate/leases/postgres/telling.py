"""What people are told of the rows: who holds, who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from touchgate.leases.engine import Holder, HostState, Queued, Status
from touchgate.leases.estimate import estimates
from touchgate.leases.model import Priority
from touchgate.leases.postgres.rows import iso
from touchgate.leases.record import printable

if TYPE_CHECKING:
    from touchgate.leases.postgres.rows import Lease, View


def holders(one: Lease, now: float) -> list[Holder]:
    """Who has something, once for each share."""
    end = one.silent_at()
    note = ""
    if one.beat is not None and now - one.beat > one.ttl / 2:
        note = f"not heard of for {now - one.beat:.0f} s, counts as gone after {one.ttl:g} s"
    return [
        Holder(
            resource=str(share),
            user=printable(one.username),
            pid=one.pid,
            since=iso(one.granted) if one.granted is not None else None,
            what=printable(one.what),
            url=printable(one.url) if one.url else None,
            token=one.token,
            until=iso(one.until) if one.until is not None else None,
            alive=end is None or end > now,
            note="; ".join(filter(None, (note, "" if one.host == share.host else f"asked from {printable(one.host)}"))),
            id=one.id,
        )
        for share in one.shares
    ]


def status(view: View, where: str, notes: tuple[str, ...]) -> Status:
    """All that is to be seen."""
    decision = view.decide()
    guess = estimates(view.hosts, view.requests(), view.holdings(), view.now)
    by_id = {one.id: one for one in view.leases}
    queue = [
        Queued(
            id=place.id,
            position=place.position,
            user=printable(one.username),
            pid=one.pid,
            wants=str(one.want),
            since=iso(one.asked),
            priority=Priority(one.priority).name.lower(),
            estimate=guess.get(place.id),
            what=printable(one.what),
            url=printable(one.url) if one.url else None,
            reserves=one.reserves,
        )
        for place in decision.waiting
        for one in (by_id[place.id],)
    ]
    lost = sum(one.state == "lost" for one in view.leases)
    if lost:
        notes += (f"{lost} who asked {'is' if lost == 1 else 'are'} not heard of and passed over until then",)
    hosts = tuple(HostState(one.name, one.gpus, one.drained) for one in view.hosts)
    held = tuple(each for one in view.leases if one.state == "held" for each in holders(one, view.now))
    return Status(where, hosts, held, tuple(queue), notes)
