"""What is left after a run is told and not ended: on real processes, and for GPUs on a /proc of files."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time

import pytest

from tests.conftest import ended
from tests.fake_host import FakeHost
from touchgate import processes
from touchgate.leases import process
from touchgate.leases.leftovers import Leftover, leftovers, span
from touchgate.processes import Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

NOBODY = ()


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "host.lock"
    path.touch()
    return path


def run_that_ends(lock, code: str, **environ: str) -> int:
    """A run that takes the lock and starts a process of that Python text, which it leaves behind; its id."""
    run = f"""
import fcntl, os, subprocess, sys
lock = os.open({str(lock)!r}, os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
os.environ.update({environ!r})
left = subprocess.Popen(
    [sys.executable, "-c", {code!r}],
    pass_fds=[lock], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
)
left.stdout.readline()
print(left.pid, flush=True)
os.close(lock)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


READY = "import sys, time; print('ready', flush=True); time.sleep(600)"


def test_nothing_is_left(lock, tmp_path):
    assert leftovers([lock, tmp_path / "gone"], 1796) == NOBODY
    assert leftovers([], None) == NOBODY


def test_who_still_has_the_lease_is_named_and_lives(lock):
    pid = run_that_ends(lock, READY)
    try:
        (found,) = leftovers([lock], None)
        assert (found.process.pid, found.uses_gpu, found.has_lease) == (pid, False, True)
        assert found.process.user == processes.user_name(os.getuid())
        assert 0 <= found.age < 60
        assert str(found).endswith(": still has the lease; it was not ended")
        assert found.to_json() == {
            "pid": pid,
            "user": found.process.user,
            "command": found.process.command,
            "age": found.age,
            "uses_gpu": False,
            "has_lease": True,
        }
        assert not ended(pid, 0.1)
    finally:
        os.kill(pid, 9)
    assert ended(pid)
    assert leftovers([lock], None) == NOBODY


def test_this_process_is_not_left(lock):
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert leftovers([lock], None) == NOBODY


def test_who_goes_in_the_next_moment_is_not_left(lock):
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        child = subprocess.Popen(["sleep", "600"], pass_fds=[held.fileno()])
    looks = iter(range(9))

    def pauses():
        for _ in looks:
            yield 0.0
            child.kill()
            child.wait()

    assert leftovers([lock], None, settle=pauses()) == NOBODY
    assert next(looks) < 4


def test_a_child_that_neither_computes_nor_has_the_lease(lock):
    with subprocess.Popen(["sleep", "20"]) as child:
        assert leftovers([lock], None, settle=()) == NOBODY
        child.kill()


def test_whose_process_it_is(tmp_path, lock):
    """By descent and by the token in its environment; others on the GPU are not of this run."""
    host = FakeHost(tmp_path / "host")
    gpu = ("/dev/nvidiactl", "/dev/nvidia0")
    own = os.getpid()
    host.process(own, "doit", opened=gpu)
    host.process(21, "python", "left.py", parent=own, opened=gpu)
    host.process(22, "python", "orphan.py", environ="TOUCHGATE_LEASE_TOKEN=41\0", opened=gpu)
    host.process(23, "python", "earlier.py", environ="TOUCHGATE_LEASE_TOKEN=40\0", opened=gpu)
    host.process(24, "python", "foreign.py", opened=gpu)
    host.process(25, "python", "quiet.py", environ="TOUCHGATE_LEASE_TOKEN=41\0")
    host.process(26, "python", "unreadable.py", parent=own, readable=False)
    host.process(27, "python", "zombie.py", parent=own, opened=gpu, state="Z")

    def left(token):
        return [
            (one.process.command, one.uses_gpu, one.has_lease) for one in leftovers([lock], token, proc=host.proc, settle=())
        ]

    assert left(41) == [("python left.py", True, False), ("python orphan.py", True, False)]
    assert left(None) == [("python left.py", True, False)]
    assert left(99) == [("python left.py", True, False)]


def test_where_there_is_no_proc(lock, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "PROC", tmp_path / "nothing")
    assert leftovers([lock], 41, proc=tmp_path / "nothing", settle=()) == NOBODY


def test_as_people_read_it():
    one = Process(4121, "ada", "python", "python serve.py", time.time())
    assert str(Leftover(one, uses_gpu=True, has_lease=True, age=200.0)) == (
        "pid 4121 (ada) python serve.py, running for 3 min: still uses a GPU and still has the lease; it was not ended"
    )
    assert str(Leftover(one, uses_gpu=True, has_lease=False, age=None)) == (
        "pid 4121 (ada) python serve.py: still uses a GPU; it was not ended"
    )
    assert [span(seconds) for seconds in (0, 59.4, 60, 3599, 3600, 7500)] == [
        "0 s",
        "59 s",
        "1 min",
        "59 min",
        "1 h 0 min",
        "2 h 5 min",
    ]
