"""Many runs that want both of two hosts, from both sides, by ssh."""

from __future__ import annotations

import contextlib

import pytest

from tests.ssh_server import Server, required
from tests.test_ssh_faults import Run, comes_free

WORK = """
import os, time
from pathlib import Path
canaries = Path(sys.argv[1]).parent / "canaries"
heard()
for _ in range(TIMES):
    with take('x', 120) as grant:
        kept = [canaries / share.host for share in grant.shares]
        for canary in kept:
            os.close(os.open(canary, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # somebody is in there: this fails
        assert sorted(share.host for share in grant.shares) == ['a', 'b']
        grant.check()
        time.sleep(0.02)
        for canary in kept:
            canary.unlink()
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
