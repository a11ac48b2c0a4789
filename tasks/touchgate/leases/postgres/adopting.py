"""A run's grant inside a reservation that was made for it: granted at once or refused, never queued."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from touchgate.leases.engine import LeaseRefused
from touchgate.leases.inside import covers
from touchgate.leases.postgres.rows import iso, load
from touchgate.leases.postgres.turn import grant
from touchgate.leases.record import printable
from touchgate.leases.schedule import schedule

if TYPE_CHECKING:
    from touchgate.leases.model import Holding, Want
    from touchgate.leases.postgres.connection import Connection
    from touchgate.leases.postgres.rows import Lease, View
    from touchgate.leases.postgres.waiting import Asked


def adopt(connection: Connection, reservation: int, asked: Asked, sha: str | None) -> None:
    """Inside a turn: the row of the run, and its grant. Raises `LeaseRefused` with the reason."""
    view = load(connection)
    if view.find(asked.mark) is not None:
        return  # the turn before this one was committed, and its answer was lost
    made = next((one for one in view.leases if one.id == reservation and one.reserves), None)
    if made is None:
        raise LeaseRefused(_gone(connection, reservation))
    why = unfit(made, asked, sha, view.now)
    if why:
        raise LeaseRefused(f"reservation {reservation}: {why}")
    asked = replace(asked, want=within(made, asked.want))
    asked.insert(connection)
    view = load(connection)
    own = view.find(asked.mark)
    assert own is not None  # noqa: S101 - inserted above, under the scheduler's lock
    decided = schedule(view.hosts, [one for one in view.requests() if one.id == own.id], _others(view, made), view.now)
    if decided.refused:
        raise LeaseRefused(f"reservation {reservation}: {decided.refused[0].why}")
    if not decided.granted or decided.granted[0].within != reservation:
        raise LeaseRefused(f"reservation {reservation}: {_in_the_way(view, made)}")
    grant(connection, own, decided.granted[0], asked.mark)


def unfit(made: Lease, asked: Asked, sha: str | None, now: float) -> str:
    """Why a run can't adopt a reservation, whoever else is there, or ""."""
    if made.username != asked.user:
        return f"it is {printable(made.username)}'s, not {asked.user}'s"
    if made.state != "held":
        return "it has not begun: the hosts are not free yet"
    if made.until is not None and made.until <= now:
        return f"it is over since {iso(made.until)}"
    if made.sha is not None and made.sha != sha:
        return f"it is for commit {printable(made.sha)}, and this run is of {sha or 'no known commit'}"
    if asked.host not in {share.host for share in made.shares}:
        return f"it is of {', '.join(map(str, made.shares))}, and this is {asked.host}"
    if not covers(made.shares, asked.want) or not set(asked.want.names) <= {share.host for share in made.shares}:
        return f"it is of {', '.join(map(str, made.shares))}, which does not cover {asked.want}"
    return ""


def within(made: Lease, want: Want) -> Want:
    """The same want, of what the reservation has alone."""
    hosts = tuple(dict.fromkeys(share.host for share in made.shares))
    return want if want.names else replace(want, names=hosts)


def _others(view: View, made: Lease) -> list[Holding]:
    """Who holds, without its user's other reservations, which it might land in."""
    mine = {one.id for one in view.leases if one.reserves and one.username == made.username} - {made.id}
    return [holding for holding in view.holdings() if holding.id not in mine]


def _gone(connection: Connection, reservation: int) -> str:
    row = connection.execute(
        "SELECT why, extract(epoch FROM ended)::float8 FROM touchgate.lease WHERE id = %s AND reserves AND state = 'ended'",
        (reservation,),
    ).fetchone()
    if row is None:
        return f"there is no reservation {reservation}"
    return f"reservation {reservation} ended at {iso(row[1])}: {row[0]}"


def _in_the_way(view: View, made: Lease) -> str:
    runs = [one for one in view.leases if one.state == "held" and not one.reserves]
    keep = [one for one in runs if any(mine.meets(theirs) for mine in made.shares for theirs in one.shares)]
    who = "; ".join(f"{printable(one.username)}, pid {one.pid} ({printable(one.what)})" for one in keep)
    return f"another run has what it wants of it: {who or 'unknown'}"
