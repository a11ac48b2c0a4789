"""Random schedules and random deaths on one lease folder: nobody overlaps, nobody is lost, tokens only grow."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lease_runs import SOURCES, engine, started, take, until
from touchgate.leases import audit

STORM = Path(__file__).with_name("lease_storm.py")

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to tell who lives")


def storm(folder: Path, seed: int, schedules: int, runs: int, kills: int) -> list[str]:
    """The lines that it says."""
    command = [sys.executable, str(STORM), str(folder), *map(str, (seed, schedules, runs, kills))]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": SOURCES}, capture_output=True, text=True, check=False, timeout=3000
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("kills", [0, 3])
def test_ten_random_schedules(tmp_path, kills):
    said = storm(tmp_path, seed=kills, schedules=10, runs=6, kills=kills)
    assert len(said) == 1, said
    assert int(said[0].split()[1]) > 20


@pytest.mark.long
@pytest.mark.parametrize("kills", [0, 5])
def test_250_random_schedules(tmp_path, kills):
    said = storm(tmp_path, seed=100 + kills, schedules=250, runs=10, kills=kills)
    assert len(said) == 1, said


CHANGING = """
say("ready")
while True:
    take("busy", None).close()
"""


def killed_in_a_loop(folder: Path, times: int) -> None:
    """Processes that do nothing but ask and let go, killed at random moments; who asks meanwhile is always served."""
    chance = random.Random(7)
    runs = [started(folder, CHANGING) for _ in range(2)]
    last = 0
    try:
        for count in range(times):
            time.sleep(chance.random() * 0.02)
            victim = count % 2
            runs[victim].process.send_signal(signal.SIGKILL)
            with take(folder, "between", timeout=30, on_wait=lambda _place: None) as grant:
                grant.check()
                assert grant.token > last
                last = grant.token
            runs[victim].__exit__()
            runs[victim] = started(folder, CHANGING)
    finally:
        for run in runs:
            run.__exit__()
    until(lambda: not [one for one in engine(folder).status().holders if one.alive])
    with take(folder, on_wait=lambda _place: None) as grant:
        assert grant.notes == ()
    # What the killed left behind does not add up.
    assert len(list((folder / "tickets").iterdir())) < 20


def test_kill_9_at_random_moments(tmp_path):
    killed_in_a_loop(tmp_path / "leases", 8)


@pytest.mark.long
def test_kill_9_at_200_random_moments(tmp_path):
    killed_in_a_loop(tmp_path / "leases", 200)


@pytest.mark.parametrize("where", ["_write", "_unlink", "_rename", "audit", "wake", "done"])
def test_kill_9_in_the_middle_of_a_change(tmp_path, where):
    """Who grants is killed in the middle: who was granted, or is next, has it all the same."""
    folder = tmp_path / "leases"
    cut = {
        "_write": "queue.Queue._write = lambda *a, **k: die()",
        "_unlink": "real = os.unlink\ndef cut(path): real(path); die(path.endswith('queue.json'))\nqueue.os.unlink = cut",
        "_rename": "real = os.rename\ndef cut(*a): real(*a); die(a[1].endswith('queue.json'))\nqueue.os.rename = cut",
        "audit": "queue.audit.append = lambda *a: die()",
        "wake": "tickets.Tickets.wake = lambda *a: die()",
        "done": "real = os.pwrite\ndef cut(f, data, at): die(len(data) == 20)\nqueue.os.pwrite = cut",
    }[where]
    dying = f"""
held = take("holding", 0)
say("held")
heard()
from touchgate.leases import queue, tickets
def die(true=True):
    if true: os.kill(os.getpid(), signal.SIGKILL)
{cut}
held.close()
say("closed")
"""
    wait = "held = take()\nsay('got', held.token)\nheard()\nheld.close()"
    with started(folder, dying) as first, started(folder, wait) as second, started(folder, wait) as third:
        first.tell()
        assert first.end() == -signal.SIGKILL
        assert second.granted().startswith("got")
        second.tell()
        assert third.granted().startswith("got")
        third.tell()
        assert third.end() == 0
    with take(folder) as grant:
        grant.check()


CROWD = """
import itertools
pids = []
def ask():
    with take("crowd", 200):
        time.sleep(0.002)
    os._exit(0)
first = os.fork()
if first == 0:
    with take("first", 0):
        os.kill(os.getppid(), signal.SIGUSR1)
        signal.sigwait({signal.SIGTERM})
    os._exit(0)
signal.sigwait({signal.SIGUSR1})
for number in range(COUNT):
    pid = os.fork()
    if pid == 0:
        ask()
    pids.append(pid)
while len(engine.status().queue) < COUNT:
    time.sleep(0.05)
os.kill(first, signal.SIGTERM)
for pid in (first, *pids):
    assert os.waitpid(pid, 0)[1] == 0
say("done")
"""


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_crowd_is_served_in_the_order_of_asking(tmp_path, count):
    folder = tmp_path / "leases"
    head = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})\nwaits = lambda place: None\n"
    with started(folder, f"{head}COUNT = {count}\n{CROWD}") as crowd:
        assert crowd.first == "done"
    granted = [one["id"] for one in audit.last(folder, 10 * count) if one["event"] == "granted"]
    assert granted == list(range(1, count + 2))
