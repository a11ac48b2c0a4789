"""What goes wrong, with real processes on a real server: killed, stopped, cut off, restarted, behind a pooler.

A time to live is seconds here. Where a test needs a holder to live, it has a minute.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgres_run import Run
from tests.postgres_server import Server, free_port, served, unprivileged
from tests.test_postgres_engine import engine, sql, take

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT = 3
"""Seconds to live, where somebody is to die."""
STOPPED = "SELECT count(*) FROM touchgate.lease WHERE state = %s"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    yield from served()


@pytest.fixture
def dsn(server: Server) -> str:
    return server.database(uuid.uuid4().hex)


def until(dsn: str, state: str, number: int = 1, seconds: float = 30) -> None:
    """Wait until so many requests are in a state."""
    ends = time.monotonic() + seconds
    while sql(dsn, STOPPED, state) != [(number,)]:
        assert time.monotonic() < ends, (state, sql(dsn, "SELECT id, state, why FROM touchgate.lease ORDER BY id"))
        time.sleep(0.02)


def in_order(dsn: str, *runs: Run) -> list[Run]:
    """Some runs as they asked."""
    ids = dict(sql(dsn, "SELECT pid, id FROM touchgate.lease"))
    return sorted(runs, key=lambda run: ids[run.process.pid])


def test_a_killed_holder_is_gone_after_its_time(dsn: str) -> None:
    with Run(dsn, ttl=SHORT) as holder, Run(dsn, ttl=SHORT) as waiter:
        first = holder.hear("granted")
        waiter.hear("waits")
        holder.kill()
        second = waiter.hear("granted")
        assert second["token"] > first["token"]
        (row,) = sql(dsn, "SELECT why FROM touchgate.lease WHERE token = %s", first["token"])
        assert row == ("nothing was heard of it for 3 s",)
        waiter.close()


def test_a_killed_waiter_keeps_nobody_for_long(dsn: str) -> None:
    with Run(dsn) as holder, Run(dsn, ttl=SHORT) as killed, Run(dsn, ttl=SHORT) as waiter:
        holder.hear("granted")
        killed.hear("waits")
        assert waiter.hear("waits")["position"] in (1, 2)
        killed.kill()
        holder.close()
        waiter.hear("granted")
        waiter.close()


def test_a_holder_stopped_past_its_time_finds_out_when_it_wakes(dsn: str) -> None:
    with Run(dsn, ttl=SHORT) as holder, Run(dsn, ttl=SHORT) as waiter:
        first = holder.hear("granted")
        waiter.hear("waits")
        holder.signal(signal.SIGSTOP)
        second = waiter.hear("granted")
        holder.signal(signal.SIGCONT)
        words = holder.check("LeaseLost")["words"]
        assert f"the lease with token {first['token']} is not this run's any more" in words
        assert words.endswith(f"nothing was heard of it for 3 s; the newest token is {second['token']}")
        waiter.check()
        holder.close()
        waiter.check()
        waiter.close()


def test_a_holder_stopped_for_less_goes_on(dsn: str) -> None:
    with Run(dsn) as holder, Run(dsn) as waiter:
        holder.hear("granted")
        waiter.hear("waits")
        holder.signal(signal.SIGSTOP)
        time.sleep(1)
        holder.signal(signal.SIGCONT)
        holder.check()
        assert waiter.quiet(0.2)
        holder.close()
        waiter.hear("granted")
        waiter.close()


def test_a_stopped_waiter_is_passed_over_and_keeps_its_place(dsn: str) -> None:
    """A lock that returns although its waiter had expired meanwhile would be held twice here."""
    with Run(dsn) as holder, Run(dsn, ttl=SHORT) as stopped, Run(dsn, ttl=12) as second, Run(dsn, ttl=12) as third:
        holder.hear("granted")
        stopped.hear("waits")
        stopped.signal(signal.SIGSTOP)
        second.hear("waits")
        third.hear("waits")
        until(dsn, "waiting", 3)
        holder.close()
        served_first, other = in_order(dsn, second, third)
        served_first.hear("granted")
        stopped.signal(signal.SIGCONT)
        assert stopped.quiet(1)
        served_first.close()
        stopped.hear("granted")
        assert other.quiet(0.2)
        stopped.close()
        other.hear("granted")
        other.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_restarts_loses_no_lease_and_no_waiter(server: Server, dsn: str, mode: str) -> None:
    with Run(dsn) as holder, Run(dsn) as first, Run(dsn) as second:
        held = holder.hear("granted")
        first.hear("waits")
        second.hear("waits")
        server.restart(mode)
        holder.check()
        (row,) = sql(dsn, "SELECT token FROM touchgate.lease WHERE state = 'held'")
        assert row == (held["token"],)
        holder.close()
        one, other = in_order(dsn, first, second)
        assert one.hear("granted")["token"] > held["token"]
        server.restart(mode)
        one.close()
        other.hear("granted")
        other.close()


def test_a_server_that_goes_while_a_lease_is_given_back(server: Server, dsn: str) -> None:
    """The end of a run waits for it a little; who waits gets in."""
    with Run(dsn) as holder, Run(dsn) as waiter:
        holder.hear("granted")
        waiter.hear("waits")
        server.stop("immediate")
        holder.tell("close")
        server.start()
        holder.hear("closed")
        waiter.hear("granted")
        waiter.close()


def test_a_server_that_is_away_for_longer_than_the_time_to_live(server: Server, dsn: str) -> None:
    with Run(dsn, ttl=SHORT) as holder, Run(dsn, ttl=SHORT) as waiter:
        holder.hear("granted")
        waiter.hear("waits")
        server.stop("fast")
        try:
            holder.check()  # not for long enough yet
            time.sleep(SHORT + 0.5)
            words = holder.check("LeaseLost")["words"]
        finally:
            server.start()
        assert "nothing was heard of the PostgreSQL database" in words
        assert "after 3 s it may be another's" in words
        # Nobody was heard of meanwhile, so nobody is gone: the holder, which lives, is spared.
        ends = time.monotonic() + 30
        while time.monotonic() < ends and holder.check_any()["event"] != "checked":
            time.sleep(0.1)
        holder.check()
        assert waiter.quiet(0.2)
        holder.close()
        waiter.hear("granted")
        waiter.close()


CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'touchgate' AND datname = current_database()
"""


def test_connections_that_are_cut_are_made_again(dsn: str) -> None:
    with Run(dsn) as holder, Run(dsn) as waiter:
        held = holder.hear("granted")
        waiter.hear("waits")
        for _ in range(3):
            assert len(sql(dsn, CUT)) >= 1
            holder.check()
        assert sql(dsn, "SELECT token FROM touchgate.lease WHERE state = 'held'") == [(held["token"],)]
        sql(dsn, CUT)
        holder.close()
        waiter.hear("granted")
        sql(dsn, CUT)
        waiter.check()
        waiter.close()


def test_who_stops_in_the_schedulers_turn_keeps_nobody_for_long(dsn: str) -> None:
    """A client that sleeps in its transaction has the lock; the server ends it."""
    import psycopg

    from touchgate.leases.postgres.turn import BEGIN

    take(engine(dsn)).close()
    asleep = psycopg.connect(dsn)
    try:
        asleep.execute(BEGIN)
        take(engine(dsn)).close()
        with pytest.raises(psycopg.Error):
            asleep.execute("SELECT 1")
    finally:
        asleep.close()


def test_a_process_stopped_anywhere_in_a_turn(dsn: str) -> None:
    """Twelve that ask and give back, stopped and woken at random: the others go on."""
    import random

    chance = random.Random(4)
    with Run(dsn) as holder:
        holder.hear("granted")
        runs = [Run(dsn) for _ in range(6)]
        try:
            pids = [one.process.pid for one in runs]
            assert len(set(pids)) == len(runs)
            for _ in range(15):
                one = chance.choice(runs)
                one.signal(signal.SIGSTOP)
                time.sleep(chance.random() / 20)
                one.signal(signal.SIGCONT)
            for one in runs:
                one.hear("waits")
            holder.close()
            for _ in runs:
                until(dsn, "held")
                ((pid,),) = sql(dsn, "SELECT pid FROM touchgate.lease WHERE state = 'held'")
                one = next(one for one in runs if one.process.pid == pid)
                one.hear("granted")
                one.close()
        finally:
            for one in runs:
                one.__exit__()


@pytest.fixture(scope="module")
def pooler(server: Server) -> Iterator[int]:
    """The port of pgbouncer in transaction mode."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("the package pgbouncer is not installed")
    port = free_port()
    settings = Path(server.folder) / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.port} user=lease\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 3\nunix_socket_dir =\n"
        "max_client_conn = 200\n"
    )
    command = [program, str(settings)]
    if os.geteuid() == 0:
        settings.chmod(0o644)
        command = ["setpriv", f"--reuid={unprivileged()}", "--clear-groups", *command]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/") as process:
        try:
            for _ in range(100):
                try:
                    sql(server.dsn.replace(f"port={server.port}", f"port={port}"), "SELECT 1")
                except Exception:  # noqa: BLE001 - not there yet
                    time.sleep(0.1)
                else:
                    break
            yield port
        finally:
            process.terminate()


@pytest.mark.parametrize("direct", [False, True], ids=["alone", "past it"])
def test_behind_a_pooler_in_transaction_mode(server: Server, dsn: str, pooler: int, direct: bool) -> None:
    through = dsn.replace(f"port={server.port}", f"port={pooler}")
    more: dict[str, Any] = {"direct": dsn} if direct else {}
    with Run(through) as holder:
        held = holder.hear("granted")
        runs = [Run(through, **more) for _ in range(6)]  # more than the pool has connections
        try:
            until(dsn, "waiting", len([one.process for one in runs]))
            holder.check()
            holder.close()
            tokens = [held["token"]]
            for _ in runs:
                until(dsn, "held")
                ((pid,),) = sql(dsn, "SELECT pid FROM touchgate.lease WHERE state = 'held'")
                one = next(one for one in runs if one.process.pid == pid)
                granted = one.hear("granted")
                assert ("reached through a pooler" in " ".join(granted["notes"])) is not direct
                tokens.append(granted["token"])
                one.close()
            assert tokens == sorted(set(tokens))
        finally:
            for one in runs:
                one.__exit__()
    assert any("through a pooler" in note for note in engine(through).status().notes)
