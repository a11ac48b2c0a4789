"""Leases of a fleet's hosts and GPUs in a PostgreSQL database (`touchgate.leases.engine.Engine`)."""

from __future__ import annotations

import os
import pwd
import socket
import uuid
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from touchgate.leases.engine import LeaseCancelled, LeaseFault, LeaseLost, LeaseRefused, LeaseTimeout
from touchgate.leases.model import Priority, Want
from touchgate.leases.postgres import telling
from touchgate.leases.postgres.adopting import adopt
from touchgate.leases.postgres.connection import DIRECT, Session, elapsed, pooled
from touchgate.leases.postgres.grant import PostgresGrant
from touchgate.leases.postgres.rows import load
from touchgate.leases.postgres.schema import migrate
from touchgate.leases.postgres.turn import EVENT, end, turn, wake
from touchgate.leases.postgres.waiting import BEATS, PATIENCE, Asked, Waiter, taken_of
from touchgate.leases.record import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from touchgate.leases.engine import Ask, Grant, Place, Status
    from touchgate.leases.postgres.connection import Connection

TTL = 60.0
"""Seconds after which a run of which nothing is heard has lost its lease."""
SETTLE = 1.0
"""Seconds that an adopted grant gives whoever is just leaving this host's own lease."""
KEPT = "90 days"
"""How long ended leases and the log are kept."""
BUMP = 1_000_000_000
"""By how much tokens and requests jump after a failover: more than the lost tail of the log can have had."""


class Below(Protocol):
    """Takes this host's own file lease for what was granted here: `ask.want` names this host and the GPUs."""

    def __call__(
        self, ask: Ask, token: int, *, on_wait: Callable[[Place], None], cancelled: Callable[[], bool] | None
    ) -> Grant:
        """Wait for it as `Engine.acquire` does. token: of the grant that it lies below."""


class PostgresEngine:
    """Asks a database. Every process that uses it may take the scheduler's turn; no daemon is needed."""

    def __init__(
        self,
        dsn: str,
        *,
        host: str | None = None,
        gpus: Sequence[str] = (),
        below: Below | None = None,
        direct: str | None = None,
        ttl: float = TTL,
    ) -> None:
        """dsn: of libpq. direct: the same database past a pooler, for LISTEN; else TOUCHGATE_POSTGRES_DIRECT.

        host, gpus: this host's name and the UUIDs that are seen here. below: takes the host's file lease underneath.
        """
        self._dsn = dsn
        self._direct = direct or os.environ.get(DIRECT) or None
        self._host = host or socket.gethostname()
        self._gpus = tuple(gpus)
        self._below = below
        self._ttl = ttl
        self.where = Session(dsn).where

    def acquire(self, ask: Ask, *, on_wait: Callable[[Place], None], cancelled: Callable[[], bool] | None = None) -> Grant:
        """Wait for a grant: see `touchgate.leases.engine.Engine`. One host, or GPUs, without a name are this host's."""
        session = self._session()
        asked = self._asked(ask.want, ask.what, ask.seconds, ask.priority, ask.url)
        waiter = Waiter(session, self._direct, asked, ask.timeout, on_wait, cancelled)
        try:
            taken = waiter.wait()
        except BaseException:
            with suppress(LeaseFault):  # a database that is away: its time to live ends the request
                waiter.withdraw()
            session.drop()
            raise
        finally:
            waiter.close()
        grant = PostgresGrant(session, self._dsn, asked.mark, taken, self._ttl, self._ttl / BEATS)
        grant.notes += tuple(waiter.notes)
        try:
            self._stand(grant, ask, waiter.began, on_wait, cancelled)
        except BaseException:
            grant.close()
            raise
        return grant

    def _stand(
        self,
        grant: PostgresGrant,
        ask: Ask,
        began: float | None,
        on_wait: Callable[[Place], None],
        cancelled: Callable[[], bool] | None,
    ) -> None:
        """Take the host's own lease below a grant, for the part of it that is here."""
        local = [share for share in grant.shares if share.host == self._host]
        if self._below is None or not local:
            return
        uuids = tuple(share.gpu for share in local if share.gpu is not None)
        want = Want(gpus=len(uuids), names=(self._host,), among=uuids) if uuids else Want(hosts=1, names=(self._host,))
        left = ask.timeout
        if left is not None and began is not None:
            left = max(left - (elapsed() - began), 0)
        try:
            under = self._below(
                replace(ask, want=want, timeout=left),
                grant.token,
                on_wait=on_wait,
                cancelled=lambda: bool(grant.pulse.lost) or (cancelled is not None and cancelled()),
            )
        except LeaseCancelled as fault:
            if grant.pulse.lost:
                raise LeaseLost(grant.pulse.lost) from fault
            raise
        grant.stand_on(under)

    def status(self) -> Status:
        """Who holds what, and who waits."""
        session = self._session()
        try:
            view = session.run(load)
            notes = session.run(_notes)
            if session.run(pooled):
                notes.append("reached through a pooler; who waits looks at it now and then unless it is named past that too")
        finally:
            session.drop()
        return telling.status(view, self.where, tuple(notes))

    def reserve(self, want: Want, seconds: float, why: str, sha: str | None = None) -> int:
        """Be next for `seconds`; the reservation's id. It holds by the server's clock, without a process."""
        if not 0 < seconds < float("inf"):
            raise LeaseRefused("a reservation is for some time, longer than 0 s")
        asked = replace(self._asked(want, why, seconds, Priority.DEVELOPMENT, None), reserves=True, pid=None, sha=sha)
        session = self._session()
        try:
            done = session.run(lambda connection: turn(connection, asked.insert, asked.mark), PATIENCE)
            own = done.view.find(asked.mark)
        finally:
            session.drop()
        if own is None:
            raise LeaseRefused(f"{self.where} refuses it: {'; '.join(done.refused.values()) or 'it is gone'}")
        return own.id

    def adopt(self, reservation: int, ask: Ask, sha: str | None) -> Grant:
        """A run's grant inside a reservation: see `touchgate.leases.engine.Engine`."""
        session = self._session()
        asked = self._asked(ask.want, ask.what, ask.seconds, ask.priority, ask.url)
        if not ask.want.names:
            asked = replace(asked, want=replace(asked.want, names=()))
        try:
            session.run(turn, PATIENCE)  # whoever is gone no longer is in the way
            done = session.run(
                lambda connection: turn(connection, lambda inner: adopt(inner, reservation, asked, sha), asked.mark), PATIENCE
            )
            taken = taken_of(done.view, asked.mark)
        except BaseException:
            session.drop()
            raise
        if taken is None:
            raise LeaseLost(f"the grant in reservation {reservation} was taken back at once")
        grant = PostgresGrant(session, self._dsn, asked.mark, taken, self._ttl, self._ttl / BEATS)
        try:
            self._stand(grant, replace(ask, timeout=SETTLE), None, lambda _: None, None)
        except LeaseTimeout as fault:
            grant.close()
            raise LeaseRefused(f"reservation {reservation}: another run has this host's own lease: {fault}") from fault
        except BaseException:
            grant.close()
            raise
        return grant

    def cancel(self, request: int) -> str:
        """Take back a request that waits, or end a reservation; in words what was. A run that holds is never ended."""
        user = user_name()
        said: list[str] = []

        def change(connection: Connection) -> None:
            one = next((one for one in load(connection).leases if one.id == request), None)
            said.clear()
            if one is None:
                raise LeaseRefused(f"there is no request {request} that waits or holds; `doit lease status` lists them")
            whose = f"{printable(one.username)} ({printable(one.what)})"
            if one.state == "held" and not one.reserves:
                raise LeaseRefused(
                    f"request {request} of {whose} holds {', '.join(map(str, one.shares))}; a run is never ended"
                )
            what = "reservation" if one.reserves else "request"
            said.append(f"{what} {request} of {whose} is taken back")
            end(connection, one, "cancelled", f"cancelled by {user} at {self._host}")
            wake(connection, request)

        self._change(change)
        return said[0]

    def drain(self, host: str, why: str) -> None:
        """Grant nothing new on a host; who holds it goes on."""
        self._drain(host, printable(why) or "drained", "drained")

    def undrain(self, host: str) -> None:
        """Take a drain back."""
        self._drain(host, "", "undrained")

    def _drain(self, host: str, why: str, kind: str) -> None:
        def change(connection: Connection) -> None:
            done = connection.execute("UPDATE touchgate.host SET drained = %s WHERE name = %s", (_text(why), _text(host)))
            if not done.rowcount:
                known = ", ".join(one.name for one in load(connection).hosts)
                raise LeaseRefused(
                    f"there is no host {host}; there is {known or 'none yet: a host registers when a run asks'}"
                )
            connection.execute(EVENT, (kind, None, None, user_name(), _text(host), _text(why)))

        self._change(change)

    def after_failover(self, why: str) -> str:
        """An older copy of the database took over: no run that held may go on, and no token may come twice. In words what was.

        What the copy lacks was granted and is held somewhere. So every holder is ended here (it stops before its next
        device check), tokens and requests jump, and those that wait stay, or ask again by themselves.
        """
        ended: list[str] = []

        def change(connection: Connection) -> None:
            ended.clear()
            connection.execute(
                "SELECT setval('touchgate.token', greatest(nextval('touchgate.token') + %(by)s, "
                "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint)), "
                "setval('touchgate.request', nextval('touchgate.request') + %(by)s)",
                {"by": BUMP},
            )
            for one in load(connection).leases:
                if one.state == "held" and not one.reserves:
                    end(
                        connection,
                        one,
                        "invalidated",
                        f"every lease was ended by {user_name()} after a failover: {_text(why)}",
                    )
                    ended.append(f"{', '.join(map(str, one.shares))} of {printable(one.username)}")

        self._change(change)
        return f"tokens go on higher; ended: {'; '.join(ended) or 'no lease was held'}"

    def _change(self, change: Callable[[Connection], None]) -> None:
        session = self._session()
        try:
            session.run(lambda connection: turn(connection, change), PATIENCE)
        finally:
            session.drop()

    def _session(self) -> Session:
        return Session(self._dsn, _ready)

    def _asked(self, want: Want, what: str, seconds: float | None, priority: Priority, url: str | None) -> Asked:
        if not want.names and want.hosts <= 1:
            want = replace(want, names=(self._host,))
        if want.gpus and not want.among and want.names == (self._host,):
            want = replace(want, among=self._gpus)  # others of this host may be in the tables, and this run can't see them
        return Asked(
            mark=uuid.uuid4().hex,
            want=want,
            user=user_name(),
            host=_text(self._host),
            pid=os.getpid(),
            what=printable(what),
            url=printable(url) if url else None,
            priority=int(priority),
            seconds=seconds,
            ttl=self._ttl,
            gpus=self._gpus,
        )


def user_name() -> str:
    """The effective user's name, or its number."""
    try:
        return _text(pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:
        return str(os.geteuid())


def _text(words: str) -> str:
    """What a text column takes: no NUL, no lone surrogates."""
    return words.replace("\0", "").encode("utf-8", "replace").decode()


def _ready(connection: Connection) -> None:
    """Of every new connection: the tables are there, and what is old enough is gone once in a while."""
    if migrate(connection):
        return
    connection.execute(
        f"DELETE FROM touchgate.event WHERE number IN (SELECT number FROM touchgate.event "  # noqa: S608
        f"WHERE at < clock_timestamp() - interval '{KEPT}' ORDER BY at LIMIT 100)"
    )
    connection.execute(
        f"DELETE FROM touchgate.lease WHERE id IN (SELECT id FROM touchgate.lease "  # noqa: S608
        f"WHERE state = 'ended' AND ended < clock_timestamp() - interval '{KEPT}' ORDER BY ended LIMIT 100)"
    )


def _notes(connection: Connection) -> list[str]:
    """What is wrong with the server, for people."""
    row = connection.execute("SELECT current_setting('fsync'), current_setting('full_page_writes')").fetchone()
    off = [name for name, value in zip(("fsync", "full_page_writes"), row or (), strict=True) if value == "off"]
    return [f"the server runs with {' and '.join(off)} off: after a crash a lease may be granted twice"] if off else []
