"""Many runs that want both of two hosts, from both sides, by ssh."""

from __future__ import annotations

import contextlib
import random
import time

import pytest

from tests.ssh_server import Server, required
from tests.test_ssh_faults import Run, comes_free

WORK = """
import fcntl, os, time
from pathlib import Path
canaries = Path(sys.argv[1]).parent / "canaries"
heard()
for _ in range(TIMES):
    with take('x', 120) as grant:
        kept = [os.open(canaries / share.host, os.O_CREAT | os.O_WRONLY) for share in grant.shares]
        for canary in kept:
            fcntl.flock(canary, fcntl.LOCK_EX | fcntl.LOCK_NB)  # somebody is in there: this fails
        assert sorted(share.host for share in grant.shares) == ['a', 'b']
        grant.check()
        time.sleep(0.02)
        for canary in kept:
            os.close(canary)
        tokens = grant.halves
    say('had', tokens['a'], tokens['b'])
"""


@pytest.fixture
def server(tmp_path):
    required()
    server = Server(tmp_path / "s")
    server.start()
    (server.folder / "canaries").mkdir()
    yield server
    server.stop()


def pairs(server, runs, times: int) -> list[tuple[int, int]]:
    """Every pair of tokens that the runs had."""
    found = []
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(Run(*one, WORK.replace("TIMES", str(times)))) for one in runs]
        for run in started:
            run.tell()
        for run in started:
            had = 0
            while had < times:
                said = run.heard().split()
                if said[:1] == ["waits"]:
                    continue
                assert said[:1] == ["had"], said
                found.append((int(said[1]), int(said[2])))
                had += 1
    comes_free(server, "a", "b")
    return found


def test_opposite_orders_in_two_files_do_not_block_each_other(server):
    one, other = server.settings("ab"), server.settings("ba")
    found = pairs(server, [(one, "a"), (other, "b"), (one, ""), (other, "")], 2)
    assert len(found) == 8


@pytest.mark.slow
def test_twenty_pairs_do_not_overlap(server):
    settings = server.settings("ab")
    found = pairs(server, [(settings, ("a", "b", "")[number % 3]) for number in range(10)], 2)
    assert len(found) == 20
    # Each host's tokens grow in one and the same order: nobody was between two halves.
    assert sorted(found) == sorted(found, key=lambda pair: pair[1])
    assert len({token for pair in found for token in pair}) == 40


@pytest.mark.slow
def test_runs_that_are_killed_at_any_moment_keep_nobody(server):
    settings = server.settings("ab")
    chance = random.Random(7)
    with contextlib.ExitStack() as stack:
        runs = [
            stack.enter_context(Run(settings, ("a", "b", "")[number % 3], WORK.replace("TIMES", "3"))) for number in range(9)
        ]
        for run in runs:
            run.tell()
        for run in runs[:4]:
            time.sleep(chance.uniform(0.2, 1.5))
            run.process.kill()
        for run in runs[4:]:
            said: list[list[str]] = []
            while said.count(["had"]) < 3:
                said.append(run.heard().split()[:1])
                assert said[-1] in (["had"], ["waits"]), said
    comes_free(server, "a", "b")
