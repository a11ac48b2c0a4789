"""Random schedules of 60 requests, a third of them pairs of hosts, by real processes: nobody meets, nobody is forgotten."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgres_schedule import GPUS
from tests.postgres_server import Server, served
from tests.test_postgres_engine import engine, sql

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = 6
REQUESTS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    yield from served()


def schedule(seed: int) -> list[list[Any]]:
    """Requests: from which host, what, which class, after how many seconds, for how many seconds."""
    chance = random.Random(seed)
    found = []
    for index in range(REQUESTS):
        if index % 3 == 0:
            pair = chance.sample(sorted(GPUS), 2)
            want: dict[str, Any] = {"hosts": 2, "names": sorted(pair)} if chance.random() < 0.8 else {"hosts": 2}
        else:
            want = chance.choice([{"hosts": 1}, {"gpus": 1}, {"gpus": 1}, {"gpus": 2}])
        priority = 0 if chance.random() < 0.15 else 1
        found.append([chance.choice(sorted(GPUS)), want, priority, chance.random() * 0.3, chance.random() * 0.004])
    chance.shuffle(found)
    return found


def play(server: Server, folder: Path, schedules: dict[str, list[list[Any]]]) -> None:
    with ExitStack() as stack:
        command = [sys.executable, "-m", "tests.postgres_schedule", str(folder)]
        runs = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT))
            for _ in range(PROCESSES)
        ]
        for name, requests in schedules.items():
            dsn = server.database(name)
            for host in GPUS:  # all are known from the start
                engine(dsn, host, GPUS[host]).acquire(engine_ask(), on_wait=print).close()
            for index, run in enumerate(runs):
                assert run.stdin is not None
                run.stdin.write(json.dumps([dsn, requests[index::PROCESSES]]) + "\n")
                run.stdin.flush()
            tokens: list[int] = []
            for run in runs:
                assert run.stdout is not None
                tokens += json.loads(run.stdout.readline())
            judge(dsn, name, tokens, len(requests))
            assert list(folder.iterdir()) == []
            sql(server.dsn, f'DROP DATABASE "{name}" WITH (FORCE)')
        for run in runs:
            assert run.stdin is not None
            run.stdin.close()


def engine_ask() -> Any:
    from touchgate.leases.engine import Ask
    from touchgate.leases.model import Want

    return Ask(Want(hosts=1), "registers", 0)


def judge(dsn: str, name: str, tokens: list[Any], number: int) -> None:
    faults = [token for token in tokens if not isinstance(token, int)]
    assert faults == [], name
    assert len(set(tokens)) == number, name
    log = sql(dsn, "SELECT kind, lease, token FROM touchgate.event ORDER BY number")
    granted = [(lease, token) for kind, lease, token in log if kind == "granted"]
    assert len(granted) == len({lease for lease, _ in granted}) == number + len(GPUS), name  # each once
    assert [token for _, token in granted] == sorted({token for _, token in granted}), name  # strictly growing
    assert {kind for kind, _, _ in log} == {"asked", "granted", "released"}, name
    rows = sql(dsn, "SELECT hosts, gpus, names, among, priority, id FROM touchgate.lease ORDER BY token")
    alike: dict[Any, list[int]] = {}
    for hosts, gpus, names, among, priority, request in rows:
        alike.setdefault((hosts, gpus, tuple(names), tuple(among), priority), []).append(request)
    for ids in alike.values():  # who wants the same and asked earlier has it earlier
        assert ids == sorted(ids), name
    assert sql(dsn, "SELECT count(*) FROM touchgate.share") == [(0,)]


def test_a_few(server: Server, tmp_path: Path) -> None:
    play(server, tmp_path, {f"schedule{seed}": schedule(seed) for seed in range(2)})


@pytest.mark.long
@pytest.mark.parametrize("first", range(2, 202, 20))
def test_two_hundred(server: Server, tmp_path: Path, first: int) -> None:
    play(server, tmp_path, {f"schedule{seed}": schedule(seed) for seed in range(first, first + 20)})


@pytest.mark.slow
def test_two_hundred_waiters_have_one_host_in_order(server: Server, tmp_path: Path) -> None:
    play(server, tmp_path, {"waiters": [["a", {"hosts": 1}, 1, 0, 0.002] for _ in range(200)]})


def test_the_canary_sings(tmp_path: Path) -> None:
    """Two that meet on one GPU would be seen."""
    from tests.postgres_schedule import canaries
    from touchgate.leases.model import Share

    (tmp_path / "a1").touch()
    assert [path.exists() for path in canaries(tmp_path, (Share("a"),))] == [False, True]
    assert canaries(tmp_path, (Share("a", "a0"), Share("b"))) == [tmp_path / name for name in ("a0", "b0", "b1")]
