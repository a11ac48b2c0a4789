"""Telling processes apart."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from touchgate.leases import process


def test_start_marks_tell_processes_apart():
    with subprocess.Popen(["sleep", "600"]) as child:
        mark = process.start_mark(child.pid)
        assert mark is not None
        assert process.start_mark(child.pid) == mark
        assert process.start_mark(os.getpid()) != mark or sys.platform != "linux"
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process.start_mark(child.pid) is None  # a zombie
    assert process.start_mark(child.pid) is None
    assert process.start_mark(0) is None


def test_start_marks_by_ps(monkeypatch):
    monkeypatch.setattr(process, "PROC", Path("/nothing here"))
    with subprocess.Popen(["sleep", "600"]) as child:
        assert process.start_mark(child.pid) == process.start_mark(child.pid) is not None
        child.kill()
    assert process.start_mark(child.pid) is None
    assert process.pid_namespace() == ""
    assert process.keepers(Path("/").stat()) == ()
    assert process.taker(Path("/").stat()) is None
    assert process.command(1) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_whoever_has_the_lock_is_seen(tmp_path):
    path = tmp_path / "lock"
    with path.open("w") as file, path.open("w") as bystander:
        assert process.keepers(path.stat()) == ()
        assert process.taker(path.stat()) is None
        fcntl.flock(file, fcntl.LOCK_EX)
        assert process.keepers(path.stat()) == (os.getpid(),)
        assert process.taker(path.stat()) == os.getpid()
        with subprocess.Popen(["sleep", "600"], pass_fds=[bystander.fileno()]) as child:
            # A descriptor of the same file without the lock does not count.
            assert process.keepers(path.stat()) == (os.getpid(),)
            child.kill()
        with subprocess.Popen(["sleep", "600"], pass_fds=[file.fileno()]) as child:
            assert process.keepers(path.stat()) == tuple(sorted((os.getpid(), child.pid)))
            child.kill()
