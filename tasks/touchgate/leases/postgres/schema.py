"""The tables, made and brought up to date by numbered files of SQL, once each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from touchgate.leases.engine import LeaseRefused

if TYPE_CHECKING:
    from touchgate.leases.postgres.connection import Connection

FOLDER = Path(__file__).parent / "migrations"
LOCK = 0x746F756368676174
"""Of pg_advisory_xact_lock: the scheduler's. 64 bits that spell touchgat."""
MIGRATING = LOCK + 1


class Migration(NamedTuple):
    """One file. number: its place, from 1 without a gap."""

    number: int
    name: str
    sql: str


def migrations(folder: Path = FOLDER) -> list[Migration]:
    """All files, in order."""
    found: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", path.name)
        if match is None or int(match[1]) != len(found) + 1:
            raise ValueError(f"{path}: migrations are numbered 0001_, 0002_ and so on")
        found.append(Migration(int(match[1]), match[2], path.read_text(encoding="utf-8")))
    return found


def migrate(connection: Connection, folder: Path = FOLDER) -> list[int]:
    """Bring the schema up to date, in one transaction under a lock; what is new. Raises `LeaseRefused` for a newer schema."""
    known = migrations(folder)
    if _applied(connection) == len(known):
        return []
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))
        connection.execute("SET LOCAL client_min_messages = warning")
        applied = _applied(connection)
        if applied > len(known):
            raise LeaseRefused(
                f"the leases' tables are at version {applied}, and this touchgate knows up to {len(known)}: update touchgate"
            )
        if not applied:
            _begin(connection)
        for one in known[applied:]:
            connection.execute(one.sql.encode())
            connection.execute("INSERT INTO touchgate.migration (number, name) VALUES (%s, %s)", (one.number, one.name))
    return [one.number for one in known[applied:]]


def _applied(connection: Connection) -> int:
    """The newest migration that is applied, 0 without any."""
    # Not to_regclass: within a transaction it may remember that there was none before the lock was waited for.
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'touchgate' AND tablename = 'migration')"
    ).fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute("SELECT coalesce(max(number), 0) FROM touchgate.migration").fetchone()
    return row[0] if row else 0


def _begin(connection: Connection) -> None:
    # IF NOT EXISTS would ask for the right to make schemas even where an administrator has made this one.
    if connection.execute("SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'touchgate'").fetchone() is None:
        connection.execute("CREATE SCHEMA touchgate")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS touchgate.migration (number integer PRIMARY KEY, name text NOT NULL, "
        "applied timestamptz NOT NULL DEFAULT clock_timestamp())"
    )
