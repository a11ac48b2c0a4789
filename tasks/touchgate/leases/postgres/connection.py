"""Connections to the database: how they are opened, what is said of them, and which faults pass by themselves."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from touchgate.leases.engine import LeaseFault, LeaseRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    Connection = psycopg.Connection[Any]

T = TypeVar("T")

DSN = "TOUCHGATE_POSTGRES"
"""A connection string or URI of libpq; what it leaves out, libpq's own PG* variables and files say."""
DIRECT = "TOUCHGATE_POSTGRES_DIRECT"
"""The same database past a pooler, for LISTEN."""

SETTINGS: dict[str, str | int] = {
    "application_name": "touchgate",
    "client_encoding": "UTF8",
    "connect_timeout": 5,
    # A network that swallows packets is noticed in ten seconds instead of two hours.
    "tcp_user_timeout": 10_000,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}
"""Where the connection string says nothing else. Seconds; tcp_user_timeout in milliseconds."""
_PASSES = frozenset({"53300", "57P01", "57P02", "57P03", "57P05", "57014", "55P03", "40001", "40P01", "25P03", "25P02"})
"""SQLSTATEs after which another try may do: too many connections, the server goes or comes, no lock, a session ended."""
_STARTS = (
    "starting up",
    "shutting down",
    "recovery",
    "refused",
    "too many",
    "no more connections",
    "no such file",
    "no server",
)
"""Parts of libpq's words (which have no SQLSTATE) for a server that is about to come back."""


class Away(LeaseFault):
    """The database can't be reached, or not now."""


def elapsed() -> float:
    """Seconds on a clock of this machine that nobody sets, and that goes on while it is suspended where there is such."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def keywords(dsn: str) -> dict[str, Any]:
    """A connection string with our settings. Raises `LeaseRefused`, without a word of it, where it is none."""
    psycopg = driver()
    try:
        said = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        # Its words quote the string, and the password is in that.
        raise LeaseRefused(
            f"{DSN} is not a connection string of libpq; it looks like postgresql://USER@HOST/DATABASE, "
            "and the password is better kept in ~/.pgpass"
        ) from None
    settings = dict(SETTINGS)
    if os.environ.get("PGCONNECT_TIMEOUT"):
        del settings["connect_timeout"]
    return {**settings, **said}


def place(dsn: str) -> str:
    """The database as people read it: its name and its host, nothing else of the connection string."""
    said = keywords(dsn)
    service = said.get("service") or os.environ.get("PGSERVICE")
    host = said.get("host") or said.get("hostaddr") or os.environ.get("PGHOST")
    name = said.get("dbname") or os.environ.get("PGDATABASE")
    if service and not (host and name):
        return f"the PostgreSQL database of service {service}"
    name = name or said.get("user") or os.environ.get("PGUSER") or "of this user's name"
    return f"the PostgreSQL database {name} at {host or 'this host'}"


def driver() -> Any:
    """The package psycopg. Late: only a run that asks a database for a lease pays for it."""
    try:
        import psycopg  # noqa: PLC0415
        import psycopg.conninfo  # noqa: PLC0415
    except ImportError as fault:
        raise LeaseRefused(
            f"leases in PostgreSQL need psycopg 3 ({fault}); install it with: pip install 'touchgate[postgres]'"
        ) from fault
    return psycopg


def passes(fault: BaseException) -> bool:
    """Whether the same may work with a new connection, or a little later."""
    psycopg = driver()
    state = getattr(fault, "sqlstate", None)
    if state is not None:
        return state in _PASSES or state.startswith("08")
    return isinstance(fault, (psycopg.OperationalError, psycopg.InterfaceError))


class Session:
    """One connection, opened when it is first needed and again when it broke. For one thread at a time."""

    def __init__(self, dsn: str, opened: Callable[[Connection], None] | None = None) -> None:
        """opened: called with each new connection, for example to bring the schema up to date."""
        self.where = place(dsn)
        self._keywords = keywords(dsn)
        self._opened = opened
        self._connection: Connection | None = None
        self._process = os.getpid()
        self._known = False

    def run(self, work: Callable[[Connection], T], patience: float = 0) -> T:
        """What `work` says, with a new connection where the old one broke, again and again for `patience` seconds.

        `work` must bear being done twice: a connection may break after a commit and before its answer. Raises `Away`, or
        `LeaseRefused` where no other try helps.
        """
        ends = elapsed() + patience
        pause, used = 0.05, self._connection is not None
        while True:
            try:
                return work(self.connection())
            except driver().Error as fault:
                again = passes(fault)
                self.drop()
                if not again:
                    raise LeaseRefused(self.words(fault)) from fault
                if not used and elapsed() + pause > ends:
                    raise Away(self.words(fault)) from fault
                if used:  # a connection that broke while nobody used it says nothing about the server
                    used = False
                    continue
            time.sleep(pause)
            pause = min(2 * pause, 2)

    def connection(self) -> Connection:
        """An open connection in autocommit mode, READ COMMITTED, without prepared statements (poolers)."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        psycopg = driver()
        try:
            made: Connection = psycopg.Connection.connect(**self._keywords, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as fault:
            text = str(fault).lower()
            if not self._known and getattr(fault, "sqlstate", None) is None and not any(part in text for part in _STARTS):
                raise LeaseRefused(self.words(fault)) from fault
            raise
        made.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        try:
            if self._opened is not None:
                self._opened(made)
        except BaseException:
            made.close()  # tables of a newer touchgate: nothing else may be done there
            raise
        self._connection = made
        self._known = True
        return made

    def drop(self) -> None:
        """Close the connection. In a forked child it is the parent's: left as it is."""
        made, self._connection = self._connection, None
        if made is not None and os.getpid() == self._process:
            with suppress(driver().Error):
                made.close()

    def words(self, fault: BaseException) -> str:
        """What is wrong, in one line that holds no password."""
        psycopg = driver()
        message = getattr(getattr(fault, "diag", None), "message_primary", None) or str(fault)
        said = " ".join(message.split())
        password = self._keywords.get("password") or os.environ.get("PGPASSWORD")
        if password:
            said = said.replace(str(password), "***")
        if isinstance(fault, psycopg.errors.InsufficientPrivilege):
            return f"{self.where}: {said}; let its owner run: CREATE SCHEMA touchgate AUTHORIZATION the role of the runs"
        if isinstance(fault, psycopg.errors.ReadOnlySqlTransaction):
            return f"{self.where} is read-only (a standby?): {said}; name the primary, or target_session_attrs=read-write"
        return f"{self.where}: {said}"


def pooled(connection: Connection) -> bool:
    """Whether a pooler stands between: the process that serves us is not the one that the greeting named.

    pgbouncer makes up the greeting's process id. Behind one in transaction mode LISTEN is taken and nothing ever comes.
    """
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is None or row[0] != connection.info.backend_pid
