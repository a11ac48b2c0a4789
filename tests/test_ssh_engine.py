"""Leases of two hosts by ssh: what is had, told and refused, through a real sshd."""

from __future__ import annotations

import json
import os

import pytest

from tests.ssh_server import Server, required
from touchgate.leases.engine import Ask, LeaseCancelled, LeaseRefused, LeaseTimeout, LeaseUnfit
from touchgate.leases.inside import inside, to_children
from touchgate.leases.model import Share, Want
from touchgate.leases.ssh import protocol
from touchgate.leases.ssh.engine import SshEngine

PAIR = Want(hosts=2)


@pytest.fixture
def server(tmp_path):
    required()
    server = Server(tmp_path / "s")
    server.start()
    yield server
    server.stop()


def silent(_place):
    raise AssertionError("nothing to wait for")


def take(engine, want=PAIR, timeout: float | None = 0, on_wait=silent, what="gemv:kernel", cancelled=None):
    return engine.acquire(Ask(want, what, timeout=timeout), on_wait=on_wait, cancelled=cancelled)


def free(server, *names) -> bool:
    """Whether nobody has them, by taking them."""
    for name in names:
        take(server.files(name), Want(hosts=1)).close()
    return True


def test_a_pair_is_had_looked_at_and_given_back(server):
    engine = server.engine("ab", local="a")
    with take(engine) as grant:
        assert grant.shares == (Share("a"), Share("b"))
        assert set(grant.halves) == {"a", "b"}
        assert grant.token == grant.halves["b"] > grant.halves["a"]
        assert grant.notes == ()
        assert f"; b: files in {server.leases('b')} (" in grant.where
        grant.check()
        grant.check()
        for name in "ab":
            with pytest.raises(LeaseTimeout, match=f"{name} is held by"):
                take(server.files(name), Want(hosts=1))
        status = engine.status()
        assert [(one.resource, one.token, one.id) for one in status.holders] == [
            ("a", grant.halves["a"], 101),
            ("b", grant.halves["b"], 102),
        ]
        assert f"gemv:kernel; for {status.holders[0].user}, pid {os.getpid()} on " in status.holders[1].what
        assert status.notes == ()
        first = grant.token
    assert free(server, "a", "b")
    with take(engine) as grant:
        assert grant.token > first
    assert engine.status().holders == ()


def test_a_run_inside_a_pair_has_the_pair(server):
    engine = server.engine("ab", local="a")
    with take(engine) as grant:
        environ = to_children(grant)
        assert environ["TOUCHGATE_LEASE_HALVES"] == f"a={grant.halves['a']},b={grant.halves['b']}"
        within = inside(engine, environ, "somebody", PAIR)
        assert within is not None
        assert set(within.shares) == set(grant.shares)
        within.check()
        grant._halves[1].close()
        with pytest.raises(Exception, match="has ended"):
            within.check()
    assert inside(engine, environ, "somebody", PAIR) is None


def test_far_hosts_alone_and_one_of_them(server):
    engine = server.engine("abc")
    with take(engine, Want(hosts=2, names=("c", "b"))) as grant:
        assert grant.shares == (Share("b"), Share("c"))
        with take(engine, Want(hosts=1)) as other:
            assert other.shares == (Share("a"),)
    with take(engine, Want(hosts=1, names=("c",))) as grant:
        assert grant.shares == (Share("c"),)
        grant.check()
        with take(engine, PAIR) as pair:
            assert pair.shares == (Share("a"), Share("b"))


def test_this_host_alone_is_had_without_ssh(server):
    engine = server.engine("ab", local="a", config=server.config("wrong", Port="1"))
    with take(engine, Want(hosts=1)) as grant:
        assert grant.shares == (Share("a"),)
        with pytest.raises(LeaseTimeout):
            take(engine, Want(hosts=1, names=("a",)))
    with pytest.raises(LeaseRefused, match=r"b: `ssh b` failed: .*Connection refused; is sshd running there"):
        take(engine)
    assert free(server, "a")


def test_who_holds_the_other_host_is_told_and_waited_for(server):
    engine = server.engine("ab", local="a")
    there = take(server.files("b"), Want(hosts=1), what="a run there")
    places = []

    def told(place):
        places.append(place)
        there.close()

    with take(engine, timeout=60, on_wait=told) as grant:
        grant.check()
    assert [(place.position, [(one.resource, one.what) for one in place.holders]) for place in places] == [
        (1, [("b", "a run there")])
    ]


@pytest.mark.parametrize("timeout", [0, 0.5])
def test_a_timeout_of_the_second_gives_the_first_back(server, timeout):
    engine = server.engine("ab", local="a")
    with take(server.files("b"), Want(hosts=1), what="a run there"):
        with pytest.raises(
            LeaseTimeout, match=r"b: the lease was not granted in .*b is held by .*; a was had and is given back"
        ):
            take(engine, timeout=timeout, on_wait=lambda _: None)
        assert free(server, "a")
        assert server.files("b").status().queue == ()


def test_a_wait_can_be_cancelled_here_and_there(server):
    engine = server.engine("ab", local="a")
    asked = []
    with take(server.files("b"), Want(hosts=1)):
        with pytest.raises(LeaseCancelled, match="by this run"):
            take(engine, timeout=60, on_wait=asked.append, cancelled=lambda: bool(asked))
        with pytest.raises(LeaseCancelled, match="b: the request was taken back by"):
            take(engine, timeout=60, on_wait=lambda _: engine.cancel(engine.status().queue[0].id))
        assert free(server, "a")


def test_what_people_do_on_other_hosts(server):
    engine = server.engine("ab", local="a")
    number = engine.reserve(Want(hosts=1, names=("b",)), 600, "mine")
    assert number == 102
    assert [(one.resource, one.id, one.note) for one in engine.status().holders] == [("b", 102, "a reservation")]
    assert engine.cancel(number).startswith("b: reservation 1 of ")
    own = engine.reserve(Want(hosts=1), 600, "mine")
    assert own == 101
    engine.adopt(own, Ask(Want(hosts=1), "x"), None).close()
    with pytest.raises(LeaseRefused, match="a alone"):
        engine.adopt(own, Ask(PAIR, "x"), None)
    with pytest.raises(LeaseRefused, match="reservation 102 is of b; a run adopts"):
        engine.adopt(102, Ask(PAIR, "x"), None)
    engine.cancel(own)
    with pytest.raises(LeaseRefused, match="of several at once it takes a database"):
        engine.reserve(PAIR, 600, "mine")
    with pytest.raises(LeaseRefused, match="b: there is no request 7"):
        engine.cancel(702)
    with pytest.raises(LeaseRefused, match="there is no request 7; the last two digits"):
        engine.cancel(7)
    engine.drain("b", "new disk")
    assert [(one.name, one.drained) for one in engine.status().hosts] == [("a", ""), ("b", "new disk")]
    with pytest.raises(LeaseRefused, match=r"b: .* is drained \(new disk\)"):
        take(engine)
    assert free(server, "a")
    engine.undrain("b")
    take(engine).close()
    with pytest.raises(LeaseRefused, match=r"there is no host c in .*; there is a, b"):
        engine.drain("c", "x")


def test_wants_that_can_never_be(server):
    outside = SshEngine(server.settings("ab"), server.files("laptop"), "laptop")
    with pytest.raises(LeaseRefused, match="of no use to this host, laptop, which is none of them"):
        take(outside)
    take(outside, Want(hosts=1, names=("laptop",))).close()
    engine = server.engine("ab", local="a")
    with pytest.raises(LeaseRefused, match=r"3 hosts are wanted, and .* has a, b"):
        take(engine, Want(hosts=3))
    with pytest.raises(LeaseRefused, match="there is no host z in"):
        take(engine, Want(hosts=2, names=("a", "z")))
    with pytest.raises(LeaseRefused, match="b: 2 GPUs of one host are wanted"):
        take(engine, Want(gpus=2, names=("b",)))


# ---- what is wrong with the other host


def refused(engine, match, kind=LeaseRefused):
    with pytest.raises(kind, match=match):
        take(engine)


def test_connections_that_come_to_nothing(server, monkeypatch):
    def reached(**changed):
        return server.engine("ab", local="a", config=server.config("other", **changed))

    with take(server.files("a"), Want(hosts=1)):  # the first host is not even asked for before the second is reached
        refused(
            reached(UserKnownHostsFile="/dev/null"),
            "b: `ssh b` failed: Host key verification failed.; run `ssh b` once by hand and compare the key",
        )
        refused(
            reached(IdentityFile=f"{server.folder}/other_key"),
            r"b: `ssh b` failed: .*Permission denied \(publickey.*\).; a key of this user must be accepted there",
        )
        refused(
            reached(HostName="nothing.invalid"), "b: `ssh b` failed: .*Could not resolve hostname .*; name its address with"
        )
        refused(reached(Port="1"), "b: `ssh b` failed: .*Connection refused; is sshd running there?")
        engine = reached()
        monkeypatch.setenv("PATH", "/nonexistent")
        refused(engine, "b: ssh can't be started .*; install openssh-client")
        assert engine.status().holders[0].resource == "a"
        assert engine.status().notes[0].startswith("not seen: b: ssh can't be started")


def greets(server, name, text, then="cat >/dev/null"):
    return server.program(name, before=f"{text}\n{then}\nexit")


def test_programs_there_that_are_no_touchgate(server, monkeypatch):
    from touchgate.leases.ssh import connection

    def there(program):
        return server.engine("ab", local="a", b=program)

    refused(
        there("/nowhere/touchgate"), "b: `/nowhere/touchgate lease-hold` by `ssh b` can't be run: .*; pip install touchgate"
    )
    older = greets(server, "older", "echo \"touchgate: there is no command 'lease-hold'\" >&2", "exit 3")
    refused(there(older), "b: .* ended with 3: touchgate: there is no command 'lease-hold'; bring touchgate up to date there")
    newer = greets(server, "newer", f"echo '{json.dumps({protocol.MARK: 2, 'event': 'hello', 'version': '9.1'})}'")
    refused(there(newer), "b: touchgate 9.1 there speaks protocol 2 and touchgate .* here 1; the newer one is there")
    refused(there(greets(server, "dies", "kill -9 $$")), "b: .* failed|b: .* ended with")
    refused(there(greets(server, "floods", "yes", "")), "b: more than 4194304 bytes of something else were said")
    monkeypatch.setattr(connection, "GREETING", 1.0)
    refused(there(greets(server, "hangs", "echo hello")), "b: .* said nothing in 1 s")
    assert free(server, "a")


def test_a_shell_that_greets(server):
    greeting = 'echo "Welcome to b"; echo \'{"event": "hello"}\'; echo "disk is full" >&2; printf "no end of line"'
    engine = server.engine("ab", local="a", b=server.program("greets", before=greeting))
    with take(engine) as grant:
        grant.check()


def test_a_key_that_may_do_nothing_else(server):
    engine = server.engine("ab", local="a", b="whatever")
    keys = server.folder / "authorized_keys"
    keys.write_text(f'restrict,command="{server.program()} lease-hold" {keys.read_text()}')
    with take(engine) as grant:
        grant.check()


def test_a_look_at_the_far_host_may_take_longer_than_the_wait(server, monkeypatch):
    from touchgate.leases.ssh import engine as module

    monkeypatch.setattr(module, "LATE", 0.5)
    slow = "import time\nfrom touchgate.edge.lease_hold import ThisHost\nThisHost.unfit = lambda *_: time.sleep(1.5) or ''"
    with take(server.engine("ab", local="a", b=server.program("slow", code=slow))) as grant:
        grant.check()


def test_a_far_host_that_is_not_fit(server):
    program = server.program(
        "unfit",
        code="from touchgate.edge.lease_hold import ThisHost\nThisHost.unfit = lambda *_: 'GPU 0: eve, pid 7\\nand so on'",
    )
    refused(server.engine("ab", local="a", b=program), "b: GPU 0: eve, pid 7", LeaseUnfit)
    assert free(server, "a", "b")


@pytest.mark.parametrize(
    "said",
    [
        '"event": "granted"',
        '"event": "granted", "token": "x"',
        '"event": "waiting", "position": 1, "holders": [{"resource": 7}]',
        '"event": "waiting", "position": 1, "holders": 3',
    ],
)
def test_a_far_side_that_talks_nonsense(server, said):
    lines = f'echo \'{{"{protocol.MARK}": 1, "event": "hello"}}\'; echo \'{{"{protocol.MARK}": 1, {said}}}\''
    refused(server.engine("ab", local="a", b=greets(server, "odd", lines)), "b: what its touchgate said can't be understood")
    assert free(server, "a")
