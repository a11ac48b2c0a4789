"""A run's grant inside a reservation that was made for it, as a value: granted at once or refused, never queued."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from touchgate.leases import clock, telling
from touchgate.leases.engine import LeaseRefused
from touchgate.leases.schedule import schedule
from touchgate.leases.state import HELD, hold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from touchgate.leases.model import Share
    from touchgate.leases.state import Entry, State


def adopted(state: State, living: Iterable[int], reservation: int, wanted: Entry, sha: str | None, host: str) -> Entry:
    """The holding. living: the runs that hold something. Raises `LeaseRefused` with the reason."""
    made = state.entries.get(reservation)
    if made is None or not made.reserves:
        raise LeaseRefused(f"there is no reservation {reservation}; `doit lease status` lists them")
    now = clock.now()
    why = _unfit(made, wanted, sha, now, host)
    if why:
        raise LeaseRefused(f"reservation {reservation}: {why}")
    runs = [state.entries[number] for number in living]
    holdings = [one.holding() for one in (made, *runs)]
    alone = replace(state.host(), drained="")  # a drain grants nothing new; what a reservation has, it has
    decided = schedule([alone], [wanted.request()], holdings, now)
    if decided.refused:
        raise LeaseRefused(f"reservation {reservation}: {telling.why(decided.refused[0].why, host)}")
    if not decided.granted or decided.granted[0].within != reservation:
        keep = [one for one in runs if any(mine.meets(theirs) for mine in made.shares for theirs in one.shares)]
        who = "; ".join(telling.words(one) for run in keep for one in telling.holders(run, host))
        raise LeaseRefused(f"reservation {reservation}: another run has what it wants of it: {who or 'unknown'}")
    wall = clock.wall()
    token = max(state.token + 1, int(wall * 1_000_000))
    return hold(wanted, decided.granted[0].shares, token, now, clock.iso(wall), wall, reservation)


def _unfit(made: Entry, wanted: Entry, sha: str | None, now: float, host: str) -> str:
    """Why a run can't adopt a reservation, whoever else is there, or ""."""
    of = ", ".join(telling.name(share, host) for share in made.shares)
    if made.uid != wanted.uid:
        return f"it is {made.user}'s, not {wanted.user}'s"
    if made.state != HELD:
        return "it has not begun: the host is not free yet"
    if made.until is not None and made.until <= now:
        return f"it is over since {clock.iso(made.until_wall)}"
    if made.sha is not None and made.sha != sha:
        return f"it is for commit {made.sha}, and this run is of {sha or 'no known commit'}"
    if not _covers(made.shares, wanted):
        return f"it is of {of}, which does not cover {wanted.want}"
    return ""


def _covers(shares: tuple[Share, ...], wanted: Entry) -> bool:
    if any(share.gpu is None for share in shares):
        return wanted.hosts <= 1
    usable = [share for share in shares if not wanted.among or share.gpu in wanted.among]
    return not wanted.hosts and len(usable) >= wanted.wants
