"""Who a process is, for people; on real processes and on a /proc of files."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.fake_host import FakeHost
from touchgate import processes
from touchgate.processes import Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def test_a_real_process():
    environ = {**os.environ, "TOUCHGATE_LEASE_TOKEN": "1796000000000001"}
    child = subprocess.Popen(["sleep", "600"], env=environ)
    try:
        deadline = time.monotonic() + 10  # between fork and exec it is still this program, or has no command line yet
        while (seen := processes.look(child.pid)) is not None and seen.command != "sleep 600" and time.monotonic() < deadline:
            time.sleep(0.01)
        user = processes.user_name(os.getuid())
        assert seen == Process(child.pid, user, "sleep", "sleep 600", seen.started, 1796000000000001)
        assert abs(seen.started - time.time()) < 60
        assert {child.pid, os.getpid()} <= processes.family(os.getpid())
        assert os.getpid() not in processes.family(child.pid)
        assert child.pid in processes.every()
        assert processes.uses_gpu(child.pid) is False
    finally:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        zombie = processes.look(child.pid)
        child.wait()
    assert zombie is None
    assert processes.look(child.pid) is None
    assert processes.look(0) is None
    assert processes.uses_gpu(child.pid) is None


@pytest.mark.parametrize(
    ("words", "comm", "name", "command"),
    [
        (["/usr/bin/python3", "train.py", "--token", "secret"], "python3", "python3", "python3 train.py"),
        (["python", "-m", "torch.distributed.run", "--secret"], "python", "python", "python -m torch.distributed.run"),
        (["python", "-c", "print('secret')"], "python", "python", "python"),
        (["./a.out", "password=secret"], "a.out", "a.out", "a.out"),
        (["sshd: ada [priv]"], "sshd", "sshd", "sshd"),
        (["/opt/bin/"], "odd", "odd", "odd"),
        ([], "kworker/0:1", "kworker/0:1", "kworker/0:1"),
        (["x\x1b[31m"], "x", "x?[31m", "x?[31m"),
        (["p", "y" * 999], "p", "p", "p " + "y" * 158),
    ],
)
def test_what_is_shown_of_a_command_line(tmp_path, words, comm, name, command):
    host = FakeHost(tmp_path)
    host.process(7, *words, comm=comm)
    seen = processes.look(7, host.proc)
    assert (seen.name, seen.command) == (name, command)


def test_as_people_read_it(tmp_path):
    host = FakeHost(tmp_path)
    host.process(7, "python", "a.py", uid=4_000_000_000, seconds=100)
    assert str(processes.look(7, host.proc)) == "pid 7 (uid 4000000000) python a.py, since 2026-11-30T00:55:00Z"
    (host.proc / "stat").unlink()
    assert str(processes.look(7, host.proc)) == "pid 7 (uid 4000000000) python a.py"
    (host.proc / "7" / "status").unlink()
    assert str(processes.look(7, host.proc)) == "pid 7 (somebody) python a.py"


def test_a_family(tmp_path):
    host = FakeHost(tmp_path)
    for pid, parent in ((1, 0), (7, 1), (8, 7), (9, 8), (10, 1)):
        host.process(pid, "x", parent=parent)
    assert processes.family(7, host.proc) == {7, 8, 9}
    assert processes.family(99, host.proc) == {99}
    assert processes.family(1, host.proc / "nothing") == {1}


@pytest.mark.parametrize(
    ("opened", "uses"),
    [
        ("/dev/nvidia0", True),
        ("/dev/nvidia15", True),
        ("/dev/nvidia-uvm", True),
        ("/dev/nvidia-caps/nvidia-cap1", True),
        ("/dev/nvmap", True),
        ("/dev/nvhost-gpu", True),
        ("/dev/nvgpu/igpu0/ctrl", True),
        ("/dev/dxg", True),
        ("/dev/nvidiactl", False),
        ("/dev/nvidia-modeset", False),
        ("/dev/nvme0", False),
        ("/home/ada/dev/nvidia0", False),
    ],
)
def test_what_counts_as_using_a_gpu(tmp_path, opened, uses):
    host = FakeHost(tmp_path)
    host.process(7, "x", opened=("/dev/null", opened))
    host.process(8, "x", readable=False)
    assert processes.uses_gpu(7, host.proc) is uses
    assert processes.uses_gpu(8, host.proc) is None


def test_the_kernels_own_threads(tmp_path):
    host = FakeHost(tmp_path)
    host.process(2, comm="kthreadd", flags=0x00208040)
    host.process(7, "x", flags=0x00400000)
    assert [processes.is_kernel_thread(pid, host.proc) for pid in (2, 7, 8)] == [True, False, False]


def test_tokens_that_are_none(tmp_path):
    host = FakeHost(tmp_path)
    for pid, environ in enumerate(("TOUCHGATE_LEASE_TOKEN=x", "TOUCHGATE_LEASE_TOKEN=", "A=TOUCHGATE_LEASE_TOKEN=3", ""), 1):
        host.process(pid, "x", environ=environ + "\0B=1\0")
        assert processes.look(pid, host.proc).token is None
