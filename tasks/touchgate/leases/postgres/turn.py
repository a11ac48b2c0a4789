"""One turn of the scheduler: a transaction in which something changes and everything that follows from it is granted.

The transaction-level advisory lock keeps turns apart, whichever host or pooler they come from, and ends with the
transaction. What a turn decides is `touchgate.leases.schedule.schedule` of the rows; nothing is granted anywhere else.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from touchgate.leases.postgres.connection import driver
from touchgate.leases.postgres.rows import Lease, View, load
from touchgate.leases.postgres.schema import LOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from touchgate.leases.model import Decision, Granted
    from touchgate.leases.postgres.connection import Connection

SPARED = """
state IN ('waiting', 'held') AND beat IS NOT NULL AND NOT spared AND clock_timestamp() - make_interval(secs => ttl / 2) >
    (SELECT max(beat) FROM touchgate.lease WHERE state IN ('waiting', 'held'))
"""
"""Whom silence proves nothing against: nobody at all was heard of, so the server was away, or its clock was set forward, or
all are dead. They get one more TTL, once. A beat from the future (the clock was set back) counts from now."""

SPARE = f"""
UPDATE touchgate.lease SET beat = clock_timestamp(), spared = true
WHERE {SPARED} OR (state <> 'ended' AND beat > clock_timestamp() + interval '1 second')
"""  # noqa: S608 - no value from outside

# One message, since each costs a wait. A client that is stopped in its turn would keep everybody: the server ends it. A
# commit that is not on disk before it is answered could grant one host twice after a crash.
BEGIN = f"""
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL idle_in_transaction_session_timeout = '5s';
SET LOCAL lock_timeout = '120s';
SET LOCAL statement_timeout = '150s';
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';
SELECT pg_advisory_xact_lock({LOCK});
{SPARE}
"""

GRANT = """
WITH granted AS (
    UPDATE touchgate.lease SET state = 'held', within = %(within)s, granted = clock_timestamp(),
        taken = CASE WHEN mark = %(own)s THEN clock_timestamp() END,
        until = CASE WHEN reserves THEN clock_timestamp() + make_interval(secs => coalesce(seconds, 0)) END,
        token = setval('touchgate.token', greatest(nextval('touchgate.token'),
            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    WHERE id = %(id)s RETURNING *),
shared AS (
    INSERT INTO touchgate.share (lease, host, gpu, reserves)
    SELECT granted.id, share.host, share.gpu, granted.reserves
    FROM granted, unnest(%(hosts)s::text[], %(gpus)s::text[]) AS share (host, gpu)),
logged AS (
    INSERT INTO touchgate.event (kind, lease, token, username, host, words)
    SELECT 'granted', id, token, username, host, %(words)s FROM granted)
SELECT token, extract(epoch FROM granted)::float8, extract(epoch FROM until)::float8,
    CASE WHEN taken IS NULL AND NOT reserves THEN pg_notify(%(channel)s, '') END
FROM granted
"""
"""Tokens come of a sequence and are not below the clock (microseconds), like those of a host's own lock file. Whoever waits
for it is woken once this is committed, and nobody else."""

END = """
WITH ended AS (
    UPDATE touchgate.lease SET state = 'ended', ended = clock_timestamp(), why = %(why)s
    WHERE {which} AND state <> 'ended' RETURNING *),
freed AS (DELETE FROM touchgate.share USING ended WHERE share.lease = ended.id)
INSERT INTO touchgate.event (kind, lease, token, username, host, words)
SELECT %(kind)s, id, token, username, host, %(why)s FROM ended
"""
END_ONE = END.format(which="id = %(id)s")
END_OWN = END.format(which="mark = %(mark)s AND token IS NOT DISTINCT FROM coalesce(%(token)s, token)")
"""By its mark, and with a token only the very grant."""

STILL_SILENT = """
SELECT 1 FROM touchgate.lease
WHERE id = %s AND state = 'held' AND beat + make_interval(secs => ttl) <= clock_timestamp() FOR UPDATE
"""
LOSE = """
UPDATE touchgate.lease SET state = 'lost', token = NULL, granted = NULL, taken = NULL, until = NULL, within = NULL
WHERE id = %s AND (state = 'held' AND taken IS NULL
    OR state = 'waiting' AND beat + make_interval(secs => ttl) <= clock_timestamp()) RETURNING id
"""
EVENT = "INSERT INTO touchgate.event (kind, lease, token, username, host, words) VALUES (%s, %s, %s, %s, %s, %s)"


@dataclass(frozen=True)
class Turn:
    """What a turn left behind. view: as it is after it. refused: why, by id. silent: those that counted as gone."""

    view: View
    decision: Decision
    refused: dict[int, str]
    silent: tuple[Lease, ...]


def turn(connection: Connection, change: Callable[[Connection], None] | None = None, own: str | None = None) -> Turn:
    """Change something (nothing: only time has passed), and grant what follows. own: the mark of whoever takes its turn."""
    try:
        connection.execute(BEGIN)
        done = _turn(connection, change, own)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(driver().Error):  # where the connection broke, the server does it
            connection.execute("ROLLBACK")
        raise
    return done


def _turn(connection: Connection, change: Callable[[Connection], None] | None, own: str | None) -> Turn:
    if change is not None:
        change(connection)
    view = load(connection)
    silent = [one for one in view.silent() if _silence(connection, one)]
    view = view.without({one.id for one in silent})
    decision = view.decide()
    after = _apply(connection, view, decision, own)
    return Turn(after, decision, {one.id: one.why for one in decision.refused}, tuple(silent))


def due(view: View) -> bool:
    """Whether a turn would do something now."""
    decision = view.decide()
    return bool(view.silent() or decision.granted or decision.refused or decision.ended)


def event(connection: Connection, kind: str, one: Lease, words: str) -> None:
    """Add to the log."""
    connection.execute(EVENT, (kind, one.id, one.token, one.username, one.host, words))


def wake(connection: Connection, number: int) -> None:
    """Wake the waiter of one request, and nobody else, once this transaction is committed."""
    connection.execute("SELECT pg_notify(%s, '')", (channel(number),))


def channel(number: int) -> str:
    """Where the waiter of a request listens."""
    return f"touchgate_{number}"


def end(connection: Connection, one: Lease, kind: str, why: str) -> None:
    """End a lease and free what it has."""
    connection.execute(END_ONE, {"id": one.id, "kind": kind, "why": why})


def end_own(connection: Connection, mark: str, kind: str, why: str, token: int | None = None) -> None:
    """The same for who asked itself. token: only the very grant."""
    connection.execute(END_OWN, {"mark": mark, "token": token, "kind": kind, "why": why})


def _silence(connection: Connection, one: Lease) -> bool:
    """A holder that is not heard of has lost its lease; a waiter keeps its place, and is passed over until it is heard of.

    False: it was heard of after all, since the rows were read; a beat takes no lock but its row's.
    """
    if one.state == "held" and one.taken:
        if connection.execute(STILL_SILENT, (one.id,)).fetchone():
            end(connection, one, "silent", f"nothing was heard of it for {one.ttl:g} s")
            return True
        return False
    found = connection.execute(LOSE, (one.id,)).fetchone()
    if found:
        connection.execute("DELETE FROM touchgate.share WHERE lease = %s", (one.id,))
        event(connection, "lost", one, "its waiter does not answer" if one.state == "held" else "its waiter is not heard of")
    return found is not None


def _apply(connection: Connection, view: View, decision: Decision, own: str | None) -> View:
    by_id = {one.id: one for one in view.leases}
    for number in decision.ended:
        end(connection, by_id[number], "ended", "its time is over")
    for refusal in decision.refused:
        end(connection, by_id[refusal.id], "refused", refusal.why)
        wake(connection, refusal.id)
    for one in decision.granted:
        by_id[one.id] = grant(connection, by_id[one.id], one, own)
    gone = {*decision.ended, *(refusal.id for refusal in decision.refused)}
    return replace(view, leases=tuple(by_id.values())).without(gone)


def grant(connection: Connection, one: Lease, granted: Granted, own: str | None) -> Lease:
    """Write what a request got; its row as it is then. Inside a turn only."""
    values = {
        "id": one.id,
        "within": granted.within,
        "own": own,
        "hosts": [share.host for share in granted.shares],
        "gpus": [share.gpu or "" for share in granted.shares],
        "words": ", ".join(map(str, granted.shares)),
        "channel": channel(one.id),
    }
    row = connection.execute(GRANT, values).fetchone()
    assert row is not None  # noqa: S101 - it was loaded under the lock, and rows are deleted long after their end only
    token, since, until, _ = row
    return replace(
        one,
        state="held",
        token=token,
        granted=since,
        until=until,
        within=granted.within,
        shares=granted.shares,
        taken=one.mark == own,
    )
