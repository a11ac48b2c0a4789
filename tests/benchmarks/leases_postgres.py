"""Leases in PostgreSQL on loopback: a free one taken and given back, the look before a check, and from a release to the
next holder that runs, in another process. `python -m tests.benchmarks.leases_postgres [ROUNDS]`
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.postgres_server import Server, binaries

from touchgate.leases.engine import Ask
from touchgate.leases.model import Want
from touchgate.leases.postgres import PostgresEngine

if TYPE_CHECKING:
    from collections.abc import Callable

ASK = Ask(Want(hosts=1), "benchmark", timeout=60)


def second(dsn: str) -> None:
    """The other process: a line says when it was granted, and a line that comes gives it back."""
    engine = PostgresEngine(dsn, host="a")
    while sys.stdin.readline():
        with engine.acquire(ASK, on_wait=lambda _: None):
            print(time.monotonic_ns(), flush=True)
            sys.stdin.readline()
        print("given back", flush=True)


def said(name: str, times: list[float]) -> str:
    """A line of the table, milliseconds."""
    ordered = sorted(times)
    return f"{name:34} p50 {statistics.median(ordered):6.2f}   p90 {ordered[int(0.9 * len(ordered))]:6.2f}   of {len(ordered)}"


def milliseconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def handed_over(dsn: str, rounds: int) -> list[float]:
    """From before the release until the next holder runs."""
    import psycopg

    engine, times = PostgresEngine(dsn, host="a"), []
    command = [sys.executable, "-m", "tests.benchmarks.leases_postgres", "second"]
    environ = {**os.environ, "TOUCHGATE_POSTGRES": dsn}
    with (
        psycopg.connect(dsn, autocommit=True) as seen,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as other,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        for _ in range(rounds):
            grant = engine.acquire(ASK, on_wait=lambda _: None)
            other.stdin.write("ask\n")
            other.stdin.flush()
            while not seen.execute("SELECT 1 FROM touchgate.lease WHERE state = 'waiting'").fetchone():
                time.sleep(0.01)
            time.sleep(0.1)  # it listens, and sleeps
            began = time.monotonic_ns()
            grant.close()
            times.append((int(other.stdout.readline()) - began) / 1e6)
            other.stdin.write("give back\n")
            other.stdin.flush()
            other.stdout.readline()
        other.stdin.close()
    return times


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    if binaries() is None:
        sys.exit("the package postgresql is not installed")
    with tempfile.TemporaryDirectory(prefix="touchgate-postgres-") as folder:
        server = Server(Path(folder))
        server.make()
        server.start()
        try:
            dsn = server.database("leases")
            engine = PostgresEngine(dsn, host="a")
            engine.acquire(ASK, on_wait=lambda _: None).close()  # makes the tables
            taken, looked, given = [], [], []
            for _ in range(rounds):
                began = time.perf_counter()
                grant = engine.acquire(ASK, on_wait=lambda _: None)
                taken.append((time.perf_counter() - began) * 1000)
                looked.append(milliseconds(grant.check))
                given.append(milliseconds(grant.close))
            print(said("a free lease, connecting included", taken))
            print(said("the look before a check", looked))
            print(said("giving back", given))
            print(said("release to next holder running", handed_over(dsn, rounds)))
        finally:
            server.stop("immediate")


if __name__ == "__main__":
    if sys.argv[1:] == ["second"]:
        second(os.environ["TOUCHGATE_POSTGRES"])
    else:
        main()
