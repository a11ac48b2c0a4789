"""Rows of the tables as values, and what their times mean. All times are seconds of the server's clock since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from touchgate.leases.model import Decision, Holding, Host, Priority, Request, Share, Want
from touchgate.leases.schedule import schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from touchgate.leases.postgres.connection import Connection

LOAD = """
SELECT json_build_object(
    'now', extract(epoch FROM clock_timestamp())::float8,
    'hosts', (SELECT coalesce(json_agg(json_build_array(name, gpus, drained) ORDER BY name), '[]') FROM touchgate.host),
    'leases', (SELECT coalesce(json_agg(live ORDER BY id), '[]') FROM (
        SELECT id, mark, state, hosts, gpus, names, among, priority, seconds, reserves, username, host, pid, what, url, sha,
            ttl, extract(epoch FROM asked)::float8 AS asked, extract(epoch FROM beat)::float8 AS beat, token,
            extract(epoch FROM granted)::float8 AS granted, taken IS NOT NULL AS taken,
            extract(epoch FROM until)::float8 AS until, within,
            (SELECT coalesce(json_agg(json_build_array(share.host, share.gpu) ORDER BY share.host, share.gpu), '[]')
                FROM touchgate.share WHERE share.lease = lease.id) AS shares
        FROM touchgate.lease WHERE state <> 'ended') AS live))
"""
"""Everything that lives, in one statement, so of one moment."""


@dataclass(frozen=True)
class Lease:
    """One row that has not ended; see the table."""

    id: int
    mark: str
    state: str
    hosts: int
    gpus: int
    names: tuple[str, ...]
    among: tuple[str, ...]
    priority: int
    seconds: float | None
    reserves: bool
    username: str
    host: str
    pid: int | None
    what: str
    url: str | None
    sha: str | None
    ttl: float
    asked: float
    beat: float | None
    token: int | None
    granted: float | None
    taken: bool
    until: float | None
    within: int | None
    shares: tuple[Share, ...]

    @property
    def want(self) -> Want:
        """What it asked for."""
        return Want(self.hosts, self.gpus, self.names, self.among)

    def silent_at(self) -> float | None:
        """When it counts as gone if nothing more is heard of it, None for a reservation.

        What was granted must be taken soon, or somebody who died in the queue keeps everybody for a whole TTL.
        """
        if self.beat is None:
            return None
        if self.state == "held" and not self.taken and self.granted is not None:
            return self.granted + answer_within(self.ttl)
        return self.beat + self.ttl


def answer_within(ttl: float) -> float:
    """Seconds in which a waiter takes what it is granted, before it is passed over until it is heard of again."""
    return min(ttl, max(ttl / 4, 5))


@dataclass(frozen=True)
class View:
    """What the tables say at one moment."""

    now: float
    hosts: tuple[Host, ...]
    leases: tuple[Lease, ...]

    def requests(self) -> list[Request]:
        """Those that wait and are heard of. A waiter's time limit is its own affair, by its own clock."""
        return [
            Request(one.id, one.want, one.username, Priority(one.priority), one.seconds, None, one.reserves)
            for one in self.leases
            if one.state == "waiting"
        ]

    def holdings(self) -> list[Holding]:
        """Those that have something."""
        return [
            Holding(one.id, one.shares, one.username, one.granted or self.now, one.seconds, one.until, one.within)
            for one in self.leases
            if one.state == "held"
        ]

    def silent(self) -> list[Lease]:
        """Those that wait or hold and were not heard of for too long."""
        live = [(one, one.silent_at()) for one in self.leases if one.state in ("waiting", "held")]
        return [one for one, end in live if end is not None and end <= self.now]

    def without(self, gone: set[int]) -> View:
        """The same without some leases."""
        return replace(self, leases=tuple(one for one in self.leases if one.id not in gone))

    def decide(self) -> Decision:
        """What the scheduler says."""
        return schedule(self.hosts, self.requests(), self.holdings(), self.now)

    def find(self, mark: str) -> Lease | None:
        """A lease by its mark."""
        return next((one for one in self.leases if one.mark == mark), None)


def load(connection: Connection) -> View:
    """Read what lives. One statement, no lock."""
    row = connection.execute(LOAD).fetchone()
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    return view_of(row[0])


def view_of(found: dict[str, Any]) -> View:
    """The value of what `LOAD` says."""
    hosts = tuple(Host(name, tuple(gpus), drained) for name, gpus, drained in found["hosts"])
    return View(found["now"], hosts, tuple(_lease(one) for one in found["leases"]))


def _lease(row: dict[str, Any]) -> Lease:
    lists = {"names": tuple(row["names"]), "among": tuple(row["among"]), "shares": shares_of(row["shares"])}
    return Lease(**{**row, **lists})


def shares_of(pairs: Iterable[Sequence[str]]) -> tuple[Share, ...]:
    """Shares from (host, GPU or "")."""
    return tuple(Share(host, gpu or None) for host, gpu in pairs)


def iso(seconds: float) -> str:
    """ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
