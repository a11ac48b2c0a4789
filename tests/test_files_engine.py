"""The embedded engine: order, wake-ups and deaths, on real processes and real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from tests.lease_runs import GPUS, HOLD, HOST, PATIENCE, engine, gone, silent, started, take, until
from touchgate.leases import audit
from touchgate.leases.engine import Ask, Holder, LeaseCancelled, LeaseRefused, LeaseTimeout, LeaseUntold
from touchgate.leases.holder import user_name
from touchgate.leases.model import Share, Want

QUICK = "from touchgate.leases import waiter; waiter.LOOK = waiter.TAKE = 0.5\n"
WAIT = "held = take(); say('got', held.token); heard()"
GPU = Want(gpus=1)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "leases"


def token_of(words: str) -> int:
    assert words.split(maxsplit=1)[0] in ("held", "got"), words
    return int(words.split()[1])


def queue_of(folder) -> list[int | None]:
    return [one.pid for one in engine(folder).status().queue]


# ---- one holder


def test_a_free_lease_is_had_at_once_and_told_of(folder):
    with take(folder, "gemv:kernel", url="https://forge/job/7") as grant:
        assert grant.shares == (Share(HOST),)
        assert grant.notes == ()
        grant.check()
        status = engine(folder).status()
        assert status.queue == ()
        assert status.holders == (
            Holder(
                HOST,
                user_name(os.geteuid()),
                os.getpid(),
                grant.since,
                "gemv:kernel",
                "https://forge/job/7",
                grant.token,
                id=1,
            ),
        )
        assert json.loads((folder / "host.json").read_text())["token"] == grant.token
    assert engine(folder).status().holders == ()
    assert list((folder / "tickets").iterdir()) == []


def test_two_gpus_are_had_by_two_and_the_whole_host_by_neither(folder):
    with take(folder, want=GPU) as one, take(folder, want=GPU) as two:
        assert {share.gpu for share in (*one.shares, *two.shares)} == set(GPUS)
        one.check()
        two.check()
        with pytest.raises(LeaseTimeout):
            take(folder, want=GPU)
        with pytest.raises(LeaseTimeout):
            take(folder)
    with take(folder), pytest.raises(LeaseTimeout, match=f"here is held by .*pid {os.getpid()}"):
        take(folder, want=GPU)


@pytest.mark.parametrize(
    ("want", "why"),
    [
        (Want(hosts=2), "2 hosts are wanted, and there is 1"),
        (Want(gpus=3), "3 GPUs of one host are wanted, and the most that one has is 2"),
        (Want(hosts=1, names=("there",)), "there is no host there; there is here, as TOUCHGATE_HOST or the system calls it"),
    ],
)
def test_what_can_never_be_is_refused(folder, want, why):
    with pytest.raises(LeaseRefused) as caught:
        take(folder, want=want, timeout=None)
    assert str(caught.value) == why
    assert engine(folder).status().queue == ()


# ---- order


def test_those_who_wait_are_served_in_order(folder):
    with started(folder, HOLD) as first:
        runs = []
        try:
            for place in range(1, 5):
                runs.append(started(folder, WAIT))
                assert runs[-1].first == f"waits at {place} behind {first.pid}"
            assert queue_of(folder) == [run.pid for run in runs]
            first.tell()
            last = 0
            for run in runs:
                token = token_of(run.granted())
                assert token > last
                last = token
                assert [one.pid for one in engine(folder).status().holders] == [run.pid]
                run.tell()
        finally:
            for run in runs:
                run.__exit__()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_waiter_that_ends_lets_those_behind_it_on(folder, number):
    with started(folder, HOLD) as first, started(folder, WAIT, stderr=subprocess.DEVNULL) as second:
        third = started(folder, WAIT)
        with third:
            second.signal(number)
            second.end()
            first.tell()
            assert token_of(third.granted())


def test_a_killed_holder_is_followed_at_once(folder):
    with started(folder, HOLD) as first, started(folder, WAIT) as second:
        token = token_of(first.first)
        first.kill()
        assert token_of(second.granted()) > token


def test_two_killed_at_once_hold_nobody_up(folder):
    with started(folder, HOLD) as first, started(folder, WAIT) as second, started(folder, WAIT) as third:
        second.process.kill()
        first.process.kill()
        assert token_of(third.granted())


def test_children_keep_the_lease_whatever_becomes_of_the_run(folder):
    keep = """
        held = take("parent", 0)
        child = subprocess.Popen(["sleep", "600"], pass_fds=held.descriptors)
        say(child.pid)
        heard()
        held.close()
        say("closed")
        heard()
    """
    for killed in (True, False):
        with started(folder, keep) as other:
            child = int(other.first)
            try:
                if killed:
                    other.kill()
                else:
                    other.tell()
                    assert other.heard() == "closed"
                    other.tell()
                    other.end()
                with pytest.raises(LeaseTimeout):
                    take(folder)
                (seen,) = engine(folder).status().holders
                assert (seen.what, seen.alive) == ("parent", True)
                assert seen.note == f"the run has ended; the lock is kept by pid {child} sleep"
                with started(folder, WAIT) as waiting:
                    os.kill(child, signal.SIGKILL)
                    assert token_of(waiting.granted())
            finally:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        gone(child)
        take(folder).close()


def test_a_stopped_waiter_holds_nobody_up_and_keeps_its_place(folder):
    with started(folder, HOLD) as first, started(folder, WAIT) as stopped, started(folder, QUICK + WAIT) as third:
        stopped.signal(signal.SIGSTOP)
        first.tell()
        assert token_of(third.granted())
        assert queue_of(folder) == [stopped.pid]
        with started(folder, WAIT) as fourth:
            stopped.signal(signal.SIGCONT)
            until(lambda: queue_of(folder) == [stopped.pid, fourth.pid])
            third.tell()
            assert token_of(stopped.granted())
            stopped.tell()
            assert token_of(fourth.granted())


def test_a_wait_ends_in_time_and_can_be_cancelled(folder):
    with started(folder, HOLD) as other:
        told = []
        with pytest.raises(LeaseTimeout, match=f"pid {other.pid}"):
            take(folder, timeout=0.2, on_wait=told.append)
        assert [place.position for place in told] == [1]
        asked = iter([False, False, True])
        with pytest.raises(LeaseCancelled, match="by this run"):
            take(folder, timeout=None, on_wait=told.append, cancelled=lambda: next(asked))
        assert queue_of(folder) == []


def test_a_request_is_taken_back_by_its_user(folder):
    wait = """
        try:
            take()
        except LeaseCancelled as fault:
            say(fault)
    """
    with started(folder, HOLD), started(folder, wait) as waiting:
        (one,) = engine(folder).status().queue
        me = user_name(os.geteuid())
        assert engine(folder).cancel(one.id) == f"request {one.id} of {me} (other) is taken back"
        assert waiting.heard() == f"the request was taken back by {me}, pid {os.getpid()}"
        (holder,) = engine(folder).status().holders
        with pytest.raises(LeaseRefused, match="a run is never ended"):
            engine(folder).cancel(holder.id)
        with pytest.raises(LeaseRefused, match="there is no request 99"):
            engine(folder).cancel(99)


# ---- reservations and drains


def test_a_reservation_is_next_keeps_others_out_and_lets_its_user_in(folder, monkeypatch):
    monkeypatch.setattr("touchgate.leases.files.user_name", lambda _uid: "dev")
    with started(folder, HOLD) as other:
        number = engine(folder).reserve(Want(hosts=1), 600, "debugging")
        (one,) = engine(folder).status().queue
        assert (one.id, one.priority, one.reserves) == (number, "development", True)
        other.tell()
        assert other.heard() == "closed"
    (held,) = engine(folder).status().holders
    assert (held.id, held.until is not None, held.token) == (number, True, None)
    with take(folder, timeout=0) as grant:
        grant.check()
        with pytest.raises(LeaseTimeout):
            take(folder)
    assert engine(folder).cancel(number).startswith(f"reservation {number} of")
    assert engine(folder).status().holders == ()


def test_the_end_of_a_reservation_is_slept_for(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("touchgate.leases.files.user_name", lambda _uid: "somebody-else")
        engine(folder).reserve(Want(hosts=1), 1.0, "short")
    told = []
    with take(folder, timeout=PATIENCE, on_wait=told.append):
        (place,) = told
        assert [one.user for one in place.holders] == ["somebody-else"]


def test_who_waits_behind_a_reservation_sleeps_and_is_woken_when_it_is_taken_back(folder, monkeypatch):
    counted = "from touchgate.leases import queue\nreal, turns = queue.Queue.change, []\n"
    counted += "def change(*a, **k): turns.append(1); return real(*a, **k)\nqueue.Queue.change = change\n"
    with monkeypatch.context() as patch:
        patch.setattr("touchgate.leases.files.user_name", lambda _uid: "somebody-else")
        number = engine(folder).reserve(Want(hosts=1), 600, "short")
    with started(folder, counted + "held = take(); say('got', held.token, len(turns)); heard()") as waiting:
        assert waiting.first == "waits at 1 behind None"
        time.sleep(2.5)
        engine(folder).cancel(number)
        assert waiting.granted().split()[2] == "1"


def test_a_drain_grants_nothing_new_and_ends_nothing(folder):
    with take(folder) as grant:
        engine(folder).drain(HOST, "fans")
        with pytest.raises(
            LeaseRefused, match=r"^here is drained \(fans\); `doit lease undrain \[HOST\]` takes a drain back$"
        ):
            take(folder, timeout=None)
        grant.check()
    assert engine(folder).status().hosts[0].drained == "fans"
    engine(folder).undrain(HOST)
    take(folder).close()
    engine(folder).undrain(HOST)
    told = [one["event"] for one in audit.last(folder, 100) if one["event"] in ("drained", "undrained")]
    assert told == ["drained", "undrained"]


def test_a_reservation_that_is_refused_is_logged_as_that(folder):
    engine(folder).drain(HOST, "fans")
    with pytest.raises(LeaseRefused, match=r"^here is drained \(fans\)"):
        engine(folder).reserve(Want(hosts=1), 60.0, "memory test")
    assert [one["event"] for one in audit.last(folder, 100)] == ["drained", "refused"]


@pytest.mark.parametrize("what", ["deleted", "emptied", "torn"])
def test_a_lost_queue_is_put_together_again(folder, what):
    path = folder / "queue.json"
    with started(folder, HOLD) as first, started(folder, WAIT) as second:
        token = token_of(first.first)
        if what == "deleted":
            path.unlink()
        else:
            path.write_bytes(b"" if what == "emptied" else path.read_bytes()[:-20])
        with started(folder, WAIT) as third:
            assert queue_of(folder) == [second.pid, third.pid]
            assert [one.token for one in engine(folder).status().holders] == [token]
            first.tell()
            assert token_of(second.granted()) > token
            second.tell()
            assert token_of(third.granted())


def test_a_newer_queue_under_a_holder_is_left_to_whoever_wrote_it(folder):
    with take(folder) as grant:
        (folder / "queue.json").write_text('{"schema": 2}')
        with pytest.raises(LeaseUntold, match=r"given to another run can't be told: .* is of a newer touchgate"):
            grant.check()
    assert (folder / "queue.json").read_text() == '{"schema": 2}'
    assert "ended" in json.loads((folder / "host.json").read_text())


def test_a_newer_queue_is_refused_in_words(folder):
    take(folder).close()
    (folder / "queue.json").write_text('{"schema": 2}')
    with pytest.raises(LeaseRefused, match=r"is of a newer touchgate \(schema 2\); bring touchgate up to date here"):
        take(folder, on_wait=silent)


# ---- adopted, and beneath another engine


def test_a_reservation_is_adopted_by_a_run_of_its_user(folder):
    me, sha = engine(folder), "a" * 40
    number = me.reserve(Want(hosts=1), 600, "a controller's", sha)
    ask = Ask(Want(gpus=1), "the run")
    with me.adopt(number, ask, sha) as grant:
        grant.check()
        assert len(grant.shares) == 1
        with me.adopt(number, ask, sha) as other:
            assert other.shares != grant.shares
            with pytest.raises(LeaseRefused, match=f"reservation {number}: another run has what it wants of it: .*the run"):
                me.adopt(number, ask, sha)
        grant.check()
    for refused, why in (
        (lambda: me.adopt(99, ask, sha), "there is no reservation 99"),
        (lambda: me.adopt(number, ask, "b" * 40), f"it is for commit {sha}, and this run is of {'b' * 40}"),
        (
            lambda: me.adopt(number, Ask(Want(gpus=3), "x"), sha),
            "3 GPUs of one host are wanted, and the most that one has is 2",
        ),
    ):
        with pytest.raises(LeaseRefused, match=why):
            refused()
    queue = json.loads((folder / "queue.json").read_text())
    queue["entries"][0] |= {"uid": os.geteuid() + 1, "user": "ada"}
    (folder / "queue.json").write_text(json.dumps(queue))
    with pytest.raises(LeaseRefused, match=f"reservation {number}: it is ada's, not {user_name(os.geteuid())}'s"):
        me.adopt(number, ask, sha)


def test_a_reservation_that_has_not_begun_is_not_adopted(folder, monkeypatch):
    with started(folder, HOLD):
        monkeypatch.setattr("touchgate.leases.files.user_name", lambda _uid: "dev")
        number = engine(folder).reserve(Want(hosts=1), 600, "later")
        with pytest.raises(LeaseRefused, match="it has not begun: the host is not free yet"):
            engine(folder).adopt(number, Ask(Want(hosts=1), "the run"), None)


def test_a_lease_beneath_another_engines_has_a_larger_token(folder):
    above = 10**17
    with engine(folder).below(Ask(Want(hosts=1), "below"), above, on_wait=silent, cancelled=None) as grant:
        assert grant.token > above
        grant.check()
    with take(folder) as after:
        assert after.token > grant.token


# ---- given back to the front, because the host was not fit

AGAIN = """
held = take("again", 0)
say("held", held.token)
heard()
held = held.again(1.0, 60.0, waits, None)
say("got", held.token)
heard()
"""


def test_what_is_given_back_to_the_front_is_overtaken_by_nobody_behind(folder):
    with started(folder, AGAIN) as first, started(folder, WAIT) as second:
        first.tell()
        until(lambda: queue_of(folder) == [first.pid, second.pid])
        status = engine(folder).status()
        assert [one.what for one in status.queue] == ["again (the host was not fit; it looks again)", "other"]
        assert status.holders == ()
        again = first.granted()
        assert token_of(again) > token_of(first.first)
        assert [(one.pid, one.token) for one in engine(folder).status().holders] == [(first.pid, token_of(again))]
        first.kill()
        assert token_of(second.granted()) > token_of(again)
    told = [one["event"] for one in audit.last(folder, 100) if one.get("pid") == first.pid]
    assert told == ["asked", "granted", "not fit", "granted", "died"]


def test_a_reservation_comes_before_what_was_given_back(folder):
    with started(folder, AGAIN) as first:
        number = engine(folder).reserve(Want(hosts=1), 2.0, "memory test")
        first.tell()
        until(lambda: [one.id for one in engine(folder).status().holders] == [number])
        assert queue_of(folder) == [first.pid]
        assert first.granted().startswith("got")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_who_dies_or_stops_while_it_pauses_holds_nobody_up(folder, number):
    with started(folder, AGAIN) as first, started(folder, QUICK + WAIT) as second:
        first.tell()
        until(lambda: queue_of(folder) == [first.pid, second.pid])
        first.signal(number)
        assert second.granted().startswith("got")


def test_what_was_given_back_can_be_cancelled_or_come_too_late(folder):
    grant = take(folder)
    with pytest.raises(LeaseTimeout):
        grant.again(60.0, 0.2, lambda _place: None, None)
    assert queue_of(folder) == []
    with pytest.raises(LeaseCancelled):
        take(folder).again(60.0, None, lambda _place: None, lambda: True)
    assert queue_of(folder) == []
    take(folder).close()


def test_a_lease_without_a_place_in_the_queue_is_not_given_back(folder):
    number = engine(folder).reserve(Want(hosts=1), 60.0, "memory test")
    with take(folder) as grant:
        assert grant.again(0.0, None, silent, None) is None
        grant.check()
    assert [one.id for one in engine(folder).status().holders] == [number]
