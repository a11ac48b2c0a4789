"""How the database is reached and spoken of: settings, words, no password anywhere; and its tables, by number."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.postgres_server import Server, served
from tests.test_postgres_engine import engine, in_threads, sql, take
from touchgate.leases.engine import LeaseFault, LeaseRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("psycopg", reason="the package psycopg is not installed", exc_type=ImportError)
SECRET = "hunter2"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    yield from served()


@pytest.fixture
def dsn(server: Server) -> str:
    return server.database(uuid.uuid4().hex)


@pytest.fixture(autouse=True)
def _nothing_of_the_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGDATABASE", "PGUSER", "PGSERVICE", "PGPASSWORD", "PGCONNECT_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        ("postgresql://me:hunter2@db1.example.org/leases", "the PostgreSQL database leases at db1.example.org"),
        ("host=db1 dbname=leases password=hunter2", "the PostgreSQL database leases at db1"),
        ("user=me", "the PostgreSQL database me at this host"),
        ("service=leases", "the PostgreSQL database of service leases"),
        ("", "the PostgreSQL database of this user's name at this host"),
    ],
)
def test_a_database_is_named_by_its_host_and_name(dsn: str, place: str) -> None:
    assert engine(dsn).where == place


@pytest.mark.parametrize(
    "dsn", ["hunter2", "postgresql://me:hunter2%zz@db1/leases", "host=db1 hunter2", "host=db1 password='hunter2"]
)
def test_what_is_no_connection_string_is_not_quoted(dsn: str) -> None:
    with pytest.raises(LeaseRefused, match="TOUCHGATE_POSTGRES is not a connection string") as caught:
        engine(dsn)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_what_the_string_says_wins_over_our_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from touchgate.leases.postgres.connection import SETTINGS, keywords

    assert keywords("") == SETTINGS
    assert keywords("connect_timeout=9 keepalives=0") == {**SETTINGS, "connect_timeout": "9", "keepalives": "0"}
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    assert "connect_timeout" not in keywords("")


def test_a_wrong_password_is_told_at_once_and_not_shown(server: Server, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("touchgate.leases.postgres.waiting.PATIENCE", 3600)
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    sql(dsn, "CREATE ROLE guarded LOGIN PASSWORD 'other'")
    try:
        rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{before}")
        sql(dsn, "SELECT pg_reload_conf()")
        with pytest.raises(LeaseRefused, match="password authentication failed") as caught:
            take(engine(dsn.replace("user=lease", f"user=guarded password={SECRET}")))
        assert SECRET not in str(caught.value)
    finally:
        rules.write_text(before)
        sql(dsn, "SELECT pg_reload_conf()")


def test_a_database_that_is_not_there(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("touchgate.leases.postgres.engine.PATIENCE", 0)
    monkeypatch.setattr("touchgate.leases.postgres.waiting.PATIENCE", 0)
    with pytest.raises(LeaseRefused, match=r'the PostgreSQL database nowhere at 127.0.0.1: .*"nowhere" does not exist'):
        take(engine(server.dsn.replace("dbname=postgres", "dbname=nowhere")))
    with pytest.raises(LeaseFault, match=r"the PostgreSQL database x at 127.0.0.1: .*refused"):
        take(engine("host=127.0.0.1 port=1 dbname=x password=hunter2")).close()


def test_no_right_to_make_the_tables_is_told_with_the_cure(dsn: str) -> None:
    sql(dsn, "DO $$ BEGIN CREATE ROLE poor LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    poor = dsn.replace("user=lease", "user=poor")
    with pytest.raises(LeaseRefused, match=r"permission denied .* CREATE SCHEMA touchgate AUTHORIZATION"):
        take(engine(poor))
    sql(dsn, "CREATE SCHEMA touchgate AUTHORIZATION poor")
    take(engine(poor)).close()


def test_a_read_only_copy_is_told(dsn: str) -> None:
    take(engine(dsn)).close()
    name = dsn.rpartition("dbname=")[2].split()[0]
    sql(dsn, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    with pytest.raises(LeaseRefused, match="is read-only"):
        take(engine(dsn))


def test_a_commit_is_on_disk_whatever_the_servers_default_is(dsn: str) -> None:
    from touchgate.leases.postgres.connection import Session
    from touchgate.leases.postgres.turn import turn

    name = dsn.rpartition("dbname=")[2].split()[0]
    take(engine(dsn)).close()
    sql(dsn, f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    sql(dsn, f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
    seen: list[object] = []
    session = Session(dsn)
    shown = "SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation')"
    session.run(lambda connection: turn(connection, lambda inner: seen.append(inner.execute(shown).fetchone())))
    session.drop()
    assert seen == [("on", "read committed")]


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(LeaseRefused, match=r"pip install 'touchgate\[postgres\]'"):
        engine("dbname=x")


# The tables.


def test_migrations_are_applied_once_by_whoever_comes_first(dsn: str) -> None:
    import psycopg

    from touchgate.leases.postgres.schema import migrate, migrations

    done: list[int] = []

    def work() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            done.extend(migrate(connection))

    in_threads(work, 8)
    assert done == [one.number for one in migrations()]
    assert sql(dsn, "SELECT number, name FROM touchgate.migration") == [(1, "leases")]


def test_a_new_migration_is_added_to_what_is_there(dsn: str, tmp_path: Path) -> None:
    import psycopg

    from touchgate.leases.postgres.schema import FOLDER, migrate

    for path in FOLDER.glob("*.sql"):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "0002_more.sql").write_text("ALTER TABLE touchgate.host ADD COLUMN more text;")
    take(engine(dsn)).close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert migrate(connection, tmp_path) == [2]
        assert migrate(connection, tmp_path) == []
    log = sql(dsn, "SELECT count(*) FROM touchgate.event")
    with pytest.raises(LeaseRefused, match=r"tables are at version 2, and this touchgate knows up to 1: update touchgate"):
        take(engine(dsn))
    assert sql(dsn, "SELECT count(*) FROM touchgate.event") == log


def test_a_migration_that_fails_leaves_nothing(dsn: str, tmp_path: Path) -> None:
    import psycopg

    from touchgate.leases.postgres.schema import migrate

    (tmp_path / "0001_one.sql").write_text("CREATE TABLE touchgate.one (); SELECT 1 / 0;")
    with psycopg.connect(dsn, autocommit=True) as connection, pytest.raises(psycopg.errors.DivisionByZero):
        migrate(connection, tmp_path)
    assert sql(dsn, "SELECT count(*) FROM pg_namespace WHERE nspname = 'touchgate'") == [(0,)]


@pytest.mark.parametrize("names", [["0002_a.sql"], ["0001_a.sql", "0003_b.sql"], ["one.sql"]])
def test_migrations_are_numbered_without_a_gap(tmp_path: Path, names: list[str]) -> None:
    from touchgate.leases.postgres.schema import migrations

    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match="migrations are numbered"):
        migrations(tmp_path)


def test_the_operators_command(dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from touchgate.leases.postgres.__main__ import main

    monkeypatch.delenv("TOUCHGATE_POSTGRES", raising=False)
    assert main(["after-failover", "why"]) == 3
    monkeypatch.setenv("TOUCHGATE_POSTGRES", dsn)
    assert main(["after-failover"]) == 3
    capsys.readouterr()
    grant = take(engine(dsn))
    assert main(["after-failover", "the disk"]) == 0
    assert capsys.readouterr().out.startswith("tokens go on higher; ended: a of ")
    with pytest.raises(LeaseFault, match="after a failover: the disk"):
        grant.check()
    grant.close()
    monkeypatch.setenv("TOUCHGATE_POSTGRES", "hunter2")
    assert main(["after-failover", "the disk"]) == 75
    assert SECRET not in capsys.readouterr().err
