"""How a request is made, waited for and taken back. A waiter sleeps on its connection's socket."""

from __future__ import annotations

import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from touchgate.leases.engine import LeaseCancelled, LeaseLost, LeaseRefused, LeaseTimeout, Place
from touchgate.leases.estimate import estimates
from touchgate.leases.postgres.connection import Away, Session, driver, elapsed, pooled
from touchgate.leases.postgres.rows import answer_within, iso, load, shares_of
from touchgate.leases.postgres.telling import holders
from touchgate.leases.postgres.turn import EVENT, SPARED, channel, due, end_own, turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from touchgate.leases.model import Share, Waiting, Want
    from touchgate.leases.postgres.connection import Connection
    from touchgate.leases.postgres.rows import View

BEATS = 3
"""Signs of life in a TTL."""
ASK_CANCELLED = 0.25
"""Seconds between two times of asking the caller's `cancelled`; asks nobody else."""
LOOK = 3.0
"""Seconds between two looks at the database behind a pooler that swallows notifications."""
AWAY = 600.0
"""Seconds for which a waiter looks for a database that went away."""
PATIENCE = 10.0
"""Seconds of the same for a run that only just asks."""
FAR = 40
"""Places from which on a waiter is told no estimate."""
WITHDRAW = 3.0
"""Seconds of the same for one that gives up."""

REGISTER = """
INSERT INTO touchgate.host (name, gpus) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET seen = clock_timestamp(),
    gpus = host.gpus || ARRAY(SELECT one FROM unnest(excluded.gpus) AS one WHERE one <> ALL (host.gpus))
"""
"""What a container does not see of its host is not gone: GPUs are only added."""
INSERT = """
INSERT INTO touchgate.lease (id, mark, state, hosts, gpus, names, among, priority, seconds, reserves, username, host, pid,
    what, url, sha, ttl, asked, beat)
SELECT nextval('touchgate.request'), %(mark)s, 'waiting', %(hosts)s, %(gpus)s, %(names)s, %(among)s, %(priority)s, %(seconds)s,
    %(reserves)s, %(user)s, %(host)s, %(pid)s, %(what)s, %(url)s, %(sha)s, %(ttl)s, clock_timestamp(),
    CASE WHEN NOT %(reserves)s THEN clock_timestamp() END
WHERE NOT EXISTS (SELECT FROM touchgate.lease WHERE mark = %(mark)s)
RETURNING id
"""
ANSWER = f"""
WITH others AS (UPDATE touchgate.lease SET beat = clock_timestamp(), spared = true WHERE {SPARED} AND mark <> %(mark)s)
UPDATE touchgate.lease SET beat = clock_timestamp(), spared = false,
    taken = CASE WHEN state = 'held' THEN coalesce(taken, clock_timestamp()) END,
    state = CASE state WHEN 'lost' THEN 'waiting' ELSE state END
WHERE mark = %(mark)s AND state <> 'ended'
RETURNING id, state, token, extract(epoch FROM granted)::float8
"""  # noqa: S608 - no value from outside
"""A sign of life, and the grant taken where there is one: both or neither, whatever a turn does meanwhile."""
SHARES = "SELECT host, gpu FROM touchgate.share WHERE lease = %s ORDER BY host, gpu"
"""A statement of its own: the one above may have waited for the grant, and sees other tables as they were before that."""


@dataclass(frozen=True)
class Asked:
    """A request as its row holds it."""

    mark: str
    want: Want
    user: str
    host: str
    pid: int | None
    what: str
    url: str | None
    priority: int
    seconds: float | None
    ttl: float
    gpus: tuple[str, ...] = ()
    """Those of the host that it comes from."""
    reserves: bool = False
    sha: str | None = None

    def insert(self, connection: Connection) -> None:
        """Its host and its row, where they are not there yet."""
        connection.execute(REGISTER, (self.host, list(self.gpus)))
        names = ("mark", "user", "host", "pid", "what", "url", "priority", "seconds", "reserves", "sha", "ttl")
        wanted = {
            "hosts": self.want.hosts,
            "gpus": self.want.gpus,
            "names": list(self.want.names),
            "among": list(self.want.among),
        }
        values = {name: getattr(self, name) for name in names} | wanted
        row = connection.execute(INSERT, values).fetchone()
        if row is not None:
            kind = "reserved" if self.reserves else "asked"
            connection.execute(EVENT, (kind, row[0], None, self.user, self.host, f"{self.want}: {self.what}"))


@dataclass(frozen=True)
class Taken:
    """What a waiter got."""

    id: int
    token: int
    since: str
    shares: tuple[Share, ...]


def taken_of(view: View, mark: str) -> Taken | None:
    """What a request has after the turn in which it was made, None where it waits."""
    own = view.find(mark)
    if own is None or own.token is None or own.granted is None:
        return None
    return Taken(own.id, own.token, iso(own.granted), own.shares)


class Waiter:
    """One request from asking to its grant."""

    def __init__(
        self,
        session: Session,
        direct: str | None,
        asked: Asked,
        timeout: float | None,
        on_wait: Callable[[Place], None],
        cancelled: Callable[[], bool] | None,
    ) -> None:
        self.notes: list[str] = []
        self.began: float | None = None
        """When it first had to wait."""
        self._session = session
        self._direct = direct
        self._asked = asked
        self._timeout = timeout
        self._on_wait = on_wait
        self._cancelled = cancelled
        self._told: tuple[object, ...] | None = None
        self._beat = 0.0
        self._look_again = 0.0
        self._listener: Session | None = None
        self._listening: Connection | None = None
        self._swallows = False
        self._notified = False

    def wait(self) -> Taken:
        """Ask, and sleep until it is granted. Raises `LeaseTimeout`, `LeaseCancelled`, `LeaseRefused`, `LeaseFault`."""
        done = self._session.run(lambda connection: turn(connection, self._asked.insert, self._asked.mark), PATIENCE)
        own = done.view.find(self._asked.mark)
        if own is None:
            raise LeaseRefused(f"{self._session.where} refuses it: {self._why(done.refused)}")
        taken = taken_of(done.view, self._asked.mark)
        if taken is not None:
            return taken
        self.began = self._beat = elapsed()
        self._tell(done.view)
        while True:
            try:
                self._give_up()
                self._listen(own.id)
                taken = self._step()
            except Away as fault:
                self._outlast(fault)
                continue
            if taken is not None:
                return taken
            self._sleep()

    def withdraw(self) -> None:
        """Take the request back, or what it was granted meanwhile. Raises `LeaseFault` where that can't be done."""

        def change(connection: Connection) -> None:
            end_own(connection, self._asked.mark, "withdrawn", "taken back by who asked")

        self._session.run(lambda connection: turn(connection, change), WITHDRAW)

    def close(self) -> None:
        """The connection past a pooler, where there is one."""
        if self._listener is not None and self._listener is not self._session:
            self._listener.drop()

    def _step(self) -> Taken | None:
        """One look at what became of it."""
        row = self._session.run(lambda connection: connection.execute(ANSWER, {"mark": self._asked.mark}).fetchone())
        if row is None:
            self._absent()
            return None
        number, state, token, granted = row
        if state == "held":
            shares = self._session.run(lambda connection: connection.execute(SHARES, (number,)).fetchall())
            return Taken(number, token, iso(granted), shares_of(shares))
        now = elapsed()
        if now >= self._look_again or now >= self._beat + self._asked.ttl / BEATS:
            self._beat = now
            view = self._session.run(load)
            if due(view):
                view = self._session.run(turn).view
                self._look_again = 0  # it may be its own grant that this turn made
            else:
                self._tell(view)
        return None

    def _absent(self) -> None:
        """Its row has ended, or the database never had it (a failover to an older copy): then it asks again."""
        found = self._session.run(
            lambda connection: connection.execute(
                "SELECT why FROM touchgate.lease WHERE mark = %s", (self._asked.mark,)
            ).fetchone()
        )
        if found is None:
            self._session.run(lambda connection: turn(connection, self._asked.insert))
            self._look_again, self._listening = 0, None
            return
        if found[0].startswith("cancelled"):
            raise LeaseCancelled(f"the request was {found[0]}")
        raise LeaseRefused(f"{self._session.where} refuses it: {found[0]}")

    def _why(self, refused: dict[int, str]) -> str:
        found = self._session.run(
            lambda connection: connection.execute(
                "SELECT id, why FROM touchgate.lease WHERE mark = %s", (self._asked.mark,)
            ).fetchone()
        )
        return refused.get(found[0], found[1]) if found else "it is gone"

    def _tell(self, view: View) -> None:
        """Say where it stands if that is news, and work out when time alone may change something."""
        decision = view.decide()
        own = view.find(self._asked.mark)
        waiting = next((one for one in decision.waiting if own is not None and one.id == own.id), None)
        self._look_again = elapsed() + self._asked.ttl
        if waiting is None:
            self._look_again = 0
            return
        runs = {one.id for one in view.leases if not one.reserves}
        # A reservation before it has no process that would look when its turn has come.
        if waiting.behind is None or runs.isdisjoint(one.id for one in decision.waiting[: waiting.position - 1]):
            self._look_again = elapsed() + _changes(view, waiting, decision.look_again)
        if self._told != (waiting.position, waiting.holdings):
            self._told = (waiting.position, waiting.holdings)
            others = tuple(each for one in view.leases if one.id in waiting.holdings for each in holders(one, view.now))
            self._on_wait(Place(waiting.position, others, _estimate(view, decision.waiting, waiting)))

    def _give_up(self) -> None:
        if self._cancelled is not None and self._cancelled():
            raise LeaseCancelled("the wait for the lease was cancelled")
        assert self.began is not None  # noqa: S101 - set before the first sleep
        waited = elapsed() - self.began
        if self._timeout is not None and waited >= self._timeout:
            raise LeaseTimeout(f"the lease was not granted in {waited:.0f} s by {self._session.where}")

    def _outlast(self, fault: Away) -> None:
        """The database went away while it was waited for: it is looked for, gently."""
        gone = elapsed()
        pause = 0.1
        while True:
            self._give_up()
            if elapsed() - gone > AWAY:
                raise LeaseLost(f"{fault}; it was away for {AWAY:.0f} s, so the request is given up") from fault
            try:
                self._session.run(lambda connection: connection.execute("SELECT 1"))
            except Away:
                time.sleep(pause)
                pause = min(2 * pause, ASK_CANCELLED if self._cancelled else 2)
            else:
                self._look_again = 0
                return

    def _listen(self, number: int) -> None:
        """Listen on a connection that notifications reach, before the look that a sleep relies on."""
        if self._swallows:
            return
        if self._listener is None:
            self._listener = self._choose()
            if self._listener is None:
                self._swallows = True
                self.notes.append(
                    f"{self._session.where} is reached through a pooler, which passes no notifications on: it was looked "
                    f"at every {LOOK:g} s; TOUCHGATE_POSTGRES_DIRECT may name it past the pooler"
                )
                return
        connection = self._listener.run(lambda connection: connection)
        if connection is not self._listening:
            self._listener.run(lambda connection: connection.execute(f'LISTEN "{channel(number)}"'))
            self._listening = self._listener.connection()
            # One that comes while another query is answered goes to the handler, not to the socket that is slept on.
            self._listening.add_notify_handler(self._came)

    def _came(self, _: object) -> None:
        self._notified = True

    def _choose(self) -> Session | None:
        if not self._session.run(pooled):
            return self._session
        if self._direct is None:
            return None
        made = Session(self._direct)
        if made.run(pooled):
            made.drop()
            return None
        return made

    def _sleep(self) -> None:
        """Until a notification, the next sign of life, a change that time makes, the end of its patience, or a fault."""
        assert self.began is not None  # noqa: S101 - set before the first sleep
        ends = min(self._look_again, self._beat + self._asked.ttl / BEATS)
        if self._timeout is not None:
            ends = min(ends, self.began + self._timeout)
        if self._swallows:
            ends = min(ends, elapsed() + min(LOOK, answer_within(self._asked.ttl) / 3))
        while True:
            left = ends - elapsed()
            if left <= 0 or self._woken(left if self._cancelled is None else min(left, ASK_CANCELLED)):
                return
            if self._cancelled is not None:
                self._give_up()

    def _woken(self, seconds: float) -> bool:
        """Sleep on the socket; whether something came, a broken connection included."""
        if self._listening is None or self._listener is None:
            time.sleep(seconds)
            return False
        if self._notified:
            self._notified = False
            return True
        wire = self._listening.pgconn
        try:
            poll = select.poll()
            poll.register(wire.socket, select.POLLIN)
            if not wire.notifies():
                if not poll.poll(max(1, round(seconds * 1000))):
                    return False
                wire.consume_input()
            came = False
            while wire.notifies():
                came = True
        except (driver().Error, OSError):
            self._listener.drop()
            self._listening = None
            return True
        return came


def _estimate(view: View, queue: tuple[Waiting, ...], waiting: Waiting) -> float | None:
    """Seconds until it is served, as far as can be guessed; nothing is said from far behind, where it costs too much."""
    if waiting.position > FAR:
        return None
    before = {one.id for one in queue[: waiting.position]}
    requests = [one for one in view.requests() if one.id in before]
    return estimates(view.hosts, requests, view.holdings(), view.now).get(waiting.id)


def _changes(view: View, waiting: Waiting, look_again: float | None) -> float:
    """Seconds until time alone may change something for who is kept by holders only: a reservation's end, a silence."""
    ends = [one.silent_at() for one in view.leases if one.id in waiting.holdings]
    times = [end for end in (*ends, look_again) if end is not None]
    return max(min(times, default=view.now + 3600) - view.now, 0) + 0.05
