"""A lease that a run holds: kept alive by a thread's signs of life, looked at before every device check, given back once."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from touchgate.leases.engine import LeaseFault, LeaseLost
from touchgate.leases.postgres.connection import Session, driver, elapsed
from touchgate.leases.postgres.turn import SPARED, end_own, turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from touchgate.leases.engine import Grant
    from touchgate.leases.model import Share
    from touchgate.leases.postgres.connection import Connection
    from touchgate.leases.postgres.waiting import Taken

ANSWER_WITHIN = 5.0
"""Seconds that a look before a device check waits for the database before it counts as away."""
TRY_AGAIN = 1.0
"""Seconds between two tries to reach a database that is away."""
GIVE_BACK = 30.0
"""Seconds for which the end of a run tries to give back what it holds: a server that crashed takes that long to come back."""

BEAT = f"""
WITH others AS (UPDATE touchgate.lease SET beat = clock_timestamp(), spared = true WHERE {SPARED} AND mark <> %(mark)s)
UPDATE touchgate.lease SET beat = clock_timestamp(), spared = false
WHERE mark = %(mark)s AND token = %(token)s AND state = 'held' RETURNING id
"""  # noqa: S608 - no value from outside


class Pulse:
    """The signs of life of one grant. The thread alone uses the connection; others ask it for a beat and wait."""

    def __init__(self, session: Session, mark: str, taken: Taken, ttl: float, every: float) -> None:
        self.lost = ""
        """Why the grant is not ours any more, "" while it is."""
        self._session = session
        self._mark = mark
        self._taken = taken
        self._ttl = ttl
        self._every = every
        self._last = elapsed()
        self._fault = ""
        self._changed = threading.Condition()
        self._asked = 0
        self._answered = 0
        self._over = False
        self._thread = threading.Thread(target=self._live, name="touchgate-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """A beat now. Raises `LeaseLost` where the database says so, or is away for longer than the TTL."""
        with self._changed:
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answered >= mine or bool(self.lost), ANSWER_WITHIN)
        if self.lost:
            raise LeaseLost(self.lost)
        away = elapsed() - self._last
        if away > self._ttl:
            raise LeaseLost(
                f"the lease with token {self._taken.token} can't be told to be this run's any more: nothing was heard of "
                f"{self._session.where} for {away:.0f} s, and after {self._ttl:g} s it may be another's"
                + (f" ({self._fault})" if self._fault else "")
            )

    def stop(self) -> Session | None:
        """No more beats; the connection, None where the thread is still busy with it."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._thread.join(ANSWER_WITHIN)
        return None if self._thread.is_alive() else self._session

    def _live(self) -> None:
        while True:
            with self._changed:
                pause = min(self._every, TRY_AGAIN) if self._fault else self._every
                self._changed.wait_for(lambda: self._over or self._asked > self._answered, pause)
                if self._over or self.lost:
                    return
                asked = self._asked
            self._beat()
            with self._changed:
                self._answered = asked
                self._changed.notify_all()

    def _beat(self) -> None:
        sent = elapsed()  # before it is sent: it counts from then at the earliest
        try:
            alive = self._session.run(beat(self._mark, self._taken.token))
            why = "" if alive else self._session.run(self._why)
        except LeaseFault as fault:
            self._fault = str(fault)
            return
        except Exception as fault:  # noqa: BLE001 - told by the next check; a thread has nobody to raise to
            self._fault = f"{type(fault).__name__}: {fault}"
            return
        self._fault = ""
        if alive:
            self._last = sent
        else:
            self.lost = why

    def _why(self, connection: Connection) -> str:
        return lost(connection, self._mark, self._taken.token, self._session.where)


def beat(mark: str, token: int) -> Callable[[Connection], bool]:
    """A sign of life; whether the grant still is in the table."""
    return lambda connection: connection.execute(BEAT, {"mark": mark, "token": token}).fetchone() is not None


def lost(connection: Connection, mark: str, token: int, where: str) -> str:
    """What became of a grant that is not in the table any more."""
    row = connection.execute(
        "SELECT why, (SELECT max(token) FROM touchgate.lease) FROM touchgate.lease WHERE mark = %s", (mark,)
    )
    found = row.fetchone()
    if found is None:
        return f"the lease with token {token} is not in {where} any more (an older copy of it took over?)"
    newer = f"; the newest token is {found[1]}" if found[1] and found[1] > token else ""
    return f"the lease with token {token} is not this run's any more, says {where}: {found[0] or 'it was given on'}{newer}"


class PostgresGrant:
    """What was granted (`touchgate.leases.engine.Grant`)."""

    def __init__(self, session: Session, dsn: str, mark: str, taken: Taken, ttl: float, every: float) -> None:
        self.token = taken.token
        self.shares: tuple[Share, ...] = taken.shares
        self.since = taken.since
        self.where = session.where
        self.notes: tuple[str, ...] = ()
        self.id = taken.id
        self._dsn = dsn
        self._mark = mark
        self._process = os.getpid()
        self._under: Grant | None = None
        self._closed = False
        self.pulse = Pulse(session, mark, taken, ttl, every)

    def stand_on(self, under: Grant) -> None:
        """The host's own lease is held below this one from now on."""
        self._under = under
        self.where += f", and {under.where}"
        self.notes += under.notes

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Those of the host's own lease; a row in a database has none."""
        return self._under.descriptors if self._under is not None else ()

    def check(self) -> None:
        """Before every device check. Raises `LeaseLost`."""
        if self._closed:
            raise LeaseLost(f"the lease with token {self.token} was given back")
        if self._under is not None:
            self._under.check()
        if os.getpid() == self._process:
            self.pulse.check()
        else:
            self._check_in_child()

    def _check_in_child(self) -> None:
        """A forked child has neither the thread nor a right to its connection."""
        session = Session(self._dsn)
        try:
            alive = session.run(beat(self._mark, self.token), ANSWER_WITHIN)
            why = "" if alive else session.run(lambda connection: lost(connection, self._mark, self.token, session.where))
        except LeaseFault as fault:
            raise LeaseLost(f"whether the lease is still this run's can't be told: {fault}") from fault
        finally:
            session.drop()
        if why:
            raise LeaseLost(why)

    def close(self) -> None:
        """Give it back: the host's own lease first, so that the next holder finds it free. In a forked child nothing ends."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._under is not None:
                self._under.close()
        finally:
            if os.getpid() == self._process:
                self._give_back()

    def _give_back(self) -> None:
        session = self.pulse.stop() or Session(self._dsn)
        try:
            session.run(lambda connection: turn(connection, self._end), GIVE_BACK)
        except (LeaseFault, driver().Error) as fault:
            self.notes += (f"the lease could not be given back and ends with its time to live: {fault}",)
        finally:
            session.drop()

    def _end(self, connection: Connection) -> None:
        end_own(connection, self._mark, "released", "given back", self.token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
