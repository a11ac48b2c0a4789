"""What is killed, stopped or cut off while two hosts are leased by ssh: no half is left over, no run goes on without both."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.conftest import ended
from tests.ssh_server import PATIENCE, SOURCES, Server, below, required
from touchgate.leases.engine import Ask, LeaseLost, LeaseRefused, LeaseTimeout
from touchgate.leases.model import Want
from touchgate.leases.ssh import connection, engine, protocol

PAIR, ONE = Want(hosts=2), Want(hosts=1)
SHORT = "from touchgate.leases.ssh import protocol\nprotocol.SILENCE = 1.5"

RUN = """
import sys
from pathlib import Path
from touchgate.leases.engine import *
from touchgate.leases.files import FilesEngine, LeaseDirectory
from touchgate.leases.model import Want
from touchgate.leases.ssh.engine import SshEngine
from touchgate.leases.ssh.settings import parse
file, local = Path(sys.argv[1]), sys.argv[2]
hosts = parse(file.read_bytes(), str(file), local)
files = FilesEngine(LeaseDirectory(Path(hosts.folder_of(local)), False, "a test"), host=local) if local else None
engine = SshEngine(hosts, files)
def say(*words): print(*words, flush=True)
def take(what, timeout=None):
    return engine.acquire(Ask(Want(hosts=2), what, timeout=timeout), on_wait=lambda place: say("waits", place.position))
def heard(): return sys.stdin.readline()
"""


class Run:
    """A run in a process of its own. It talks in lines and is told by a line."""

    def __init__(self, settings, local: str, text: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN + textwrap.dedent(text), settings.file, local],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": SOURCES},
            bufsize=1,
        )

    def heard(self) -> str:
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "the process said nothing"
        return self.process.stdout.readline().strip()

    def tell(self) -> None:
        self.process.stdin.write("go\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture
def server(tmp_path):
    required()
    server = Server(tmp_path / "s")
    server.start()
    yield server
    server.stop()


def take(of, want=PAIR, timeout: float | None = 0, on_wait=lambda _: None):
    return of.acquire(Ask(want, "x", timeout=timeout), on_wait=on_wait)


def comes_free(server, *names, seconds: float = PATIENCE) -> None:
    """Soon nobody has them."""
    for name in names:
        take(server.files(name), ONE, seconds).close()


def far_holder(server, name: str) -> int:
    return server.files(name).status().holders[0].pid


def sshd_of(pid: int) -> int:
    """The sshd that a far process runs under."""
    while True:
        said = subprocess.run(["ps", "-o", "ppid=,comm=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
        parent, command = said.split(None, 1)
        if command.strip().rpartition("/")[2].startswith("sshd"):
            return pid
        pid = int(parent)


KILLS = {
    "ssh": lambda server, grant: grant._halves[1]._connection._ssh.pid,
    "keeper": lambda server, grant: grant._halves[1]._connection._keeper.pid,
    "far holder": lambda server, grant: far_holder(server, "b"),
    "sshd's child": lambda server, grant: sshd_of(far_holder(server, "b")),
}


@pytest.mark.parametrize("which", KILLS)
def test_one_process_between_is_killed(server, which):
    of = server.engine("ab", local="a")
    with take(of) as grant:
        grant.check()
        os.kill(KILLS[which](server, grant), signal.SIGKILL)
        comes_free(server, "b")
        with pytest.raises(LeaseLost, match=r"the lease of b \(token \d+\) is lost with its connection: b: "):
            grant.check()
        with pytest.raises(LeaseTimeout):
            take(server.files("a"), ONE)  # the other half is still this run's
    comes_free(server, "a", "b")


def test_the_far_lock_is_taken_away(server):
    with take(server.engine("ab", local="a")) as grant:
        (server.leases("b") / "host.lock").unlink()
        with pytest.raises(LeaseLost, match=r"the lease of b \(token \d+\) is lost: .*host.lock was deleted or replaced"):
            grant.check()


def test_the_run_is_killed(server):
    with Run(server.settings("ab"), "a", "grant = take('x')\nsay('held')\nheard()") as run:
        assert run.heard() == "held"
        helpers = below(run.process.pid)
        run.process.kill()
        comes_free(server, "a", "b")
        assert all(ended(pid) for pid in helpers)


def test_the_run_is_killed_while_it_waits(server):
    with take(server.files("b"), ONE), Run(server.settings("ab"), "a", "take('x')") as run:
        assert run.heard() == "waits 1"
        run.process.kill()
        comes_free(server, "a")
    comes_free(server, "b")


def test_a_child_keeps_both_halves_of_a_killed_run(server):
    text = """
    import subprocess
    from touchgate.leases.ssh import protocol
    protocol.PULSE = 0.3
    grant = take('x')
    child = subprocess.Popen(['sleep', '1000'], pass_fds=grant.descriptors, stdout=subprocess.DEVNULL)
    say(child.pid)
    heard()
    """
    with Run(server.settings("ab", b=server.program(code=SHORT)), "a", text) as run:
        child = int(run.heard())
        run.process.kill()
        run.process.wait()
        time.sleep(2 * 1.5)  # longer than a silence is borne: there is none
        for name in "ab":
            with pytest.raises(LeaseTimeout):
                take(server.files(name), ONE)
        os.kill(child, signal.SIGKILL)
        comes_free(server, "a", "b")


def test_a_stopped_run_keeps_both(server):
    settings = server.settings("ab", b=server.program(code=SHORT))
    text = """
    from touchgate.leases.ssh import protocol
    protocol.PULSE = 0.3
    grant = take('x')
    say('held')
    heard()
    grant.check()
    say('still')
    """
    with Run(settings, "a", text) as run:
        assert run.heard() == "held"
        run.process.send_signal(signal.SIGSTOP)
        time.sleep(2 * 1.5)
        for name in "ab":
            with pytest.raises(LeaseTimeout):
                take(server.files(name), ONE)
        run.process.send_signal(signal.SIGCONT)
        run.tell()
        assert run.heard() == "still"


def test_without_a_sign_of_life_the_far_host_gives_the_lease_back(server):
    with take(server.engine("ab", local="a", b=server.program(code=SHORT))) as grant:
        keeper = grant._halves[1]._connection._keeper.pid
        os.kill(keeper, signal.SIGSTOP)
        try:
            comes_free(server, "b")
            with pytest.raises(LeaseLost, match=r"the lease of b .* is lost"):
                grant.check()
        finally:
            os.kill(keeper, signal.SIGCONT)


def test_a_far_side_that_is_stopped_is_not_believed_in(server, monkeypatch):
    monkeypatch.setattr(protocol, "ANSWER", 1.0)
    monkeypatch.setattr(connection, "GIVING_BACK", 0.1)
    with take(server.engine("ab", local="a")) as grant:
        holder = far_holder(server, "b")
        os.kill(holder, signal.SIGSTOP)
        try:
            with pytest.raises(LeaseLost, match=r"whether the lease of b .* can't be told: no answer in 1 s"):
                grant.check()
        finally:
            os.kill(holder, signal.SIGCONT)
    comes_free(server, "a", "b")


@pytest.mark.parametrize(
    ("timeout", "kind", "match"),
    [
        (5.0, LeaseTimeout, "b: no answer in time, as from a touchgate there that was stopped; a was had and is given back"),
        (None, LeaseRefused, "b: no sign of life for 2 s, as from a touchgate there that was stopped"),
    ],
)
def test_a_far_side_that_is_stopped_while_it_waits(server, monkeypatch, timeout, kind, match):
    monkeypatch.setattr(engine, "LATE", 0.5)
    monkeypatch.setattr(engine, "STEP", 0.5)
    monkeypatch.setattr(protocol, "SILENCE", 2.0 if timeout is None else 60.0)
    monkeypatch.setattr(protocol, "PULSE", 0.5)
    monkeypatch.setattr(connection, "GIVING_BACK", 0.1)
    stopped = []

    def stop(_place):
        stopped.append(server.files("b").status().queue[0].pid)
        os.kill(stopped[0], signal.SIGSTOP)

    with take(server.files("b"), ONE):
        try:
            with pytest.raises(kind, match=match):
                take(server.engine("ab", local="a"), timeout=timeout, on_wait=stop)
        finally:
            os.kill(stopped[0], signal.SIGCONT)
        comes_free(server, "a")
    comes_free(server, "b")


def test_a_connection_that_ends_while_it_waits(server):
    def cut(_place):
        os.kill(sshd_of(server.files("b").status().queue[0].pid), signal.SIGKILL)

    with take(server.files("b"), ONE):
        with pytest.raises(LeaseRefused, match=r"b: `ssh b` failed.*; the request for b ended with it"):
            take(server.engine("ab", local="a"), timeout=60, on_wait=cut)
        comes_free(server, "a")
    comes_free(server, "b")


@pytest.mark.parametrize("waited_for", ["b", "c"])
def test_what_is_had_is_lost_while_the_rest_is_waited_for(server, monkeypatch, waited_for):
    """The first is another host's, the second this host's or a third's."""
    monkeypatch.setattr(engine, "STEP", 0.3)
    of = server.engine("abc", local="b")

    def cut(_place):
        os.kill(far_holder(server, "a"), signal.SIGKILL)

    with take(server.files(waited_for), ONE):
        with pytest.raises(LeaseRefused, match=rf"the lease of a .* is lost .*; the wait for {waited_for} ended with it"):
            take(of, Want(hosts=2, names=("a", waited_for)), timeout=60, on_wait=cut)
        comes_free(server, "a")
    comes_free(server, waited_for)


def test_a_far_side_whose_session_is_hung_up_gives_back(server):
    with take(server.engine("ab", local="a")) as grant:
        os.kill(far_holder(server, "b"), signal.SIGHUP)
        comes_free(server, "b")
        with pytest.raises(LeaseLost, match=r"ended with 129"):
            grant.check()


def test_a_network_that_stands_still_is_noticed(server, monkeypatch):
    """The sshd below both is stopped: nothing is said any more, by nobody."""
    monkeypatch.setattr(protocol, "PULSE", 1.0)
    with take(server.engine("ab", local="a")) as grant:
        sshd = sshd_of(far_holder(server, "b"))
        os.kill(sshd, signal.SIGSTOP)
        try:
            with pytest.raises(LeaseLost, match=r"b: `ssh b` failed: .*not responding"):
                grant.check()
        finally:
            os.kill(sshd, signal.SIGCONT)
    comes_free(server, "a", "b")
