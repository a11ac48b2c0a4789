"""The PostgreSQL engine against a real server: what it grants, refuses and tells."""

from __future__ import annotations

import os
import re
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgres_server import Server, served
from touchgate.leases.engine import (
    Ask,
    Grant,
    LeaseCancelled,
    LeaseFault,
    LeaseLost,
    LeaseRefused,
    LeaseTimeout,
    Place,
)
from touchgate.leases.model import Priority, Share, Want

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from touchgate.leases.postgres import PostgresEngine

ONE, TWO, GPU = Want(hosts=1), Want(hosts=2, names=("a", "b")), Want(gpus=1)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    yield from served()


@pytest.fixture
def dsn(server: Server) -> str:
    return server.database(uuid.uuid4().hex)


def engine(dsn: str, host: str = "a", gpus: tuple[str, ...] = ("g0", "g1"), **more: Any) -> PostgresEngine:
    from touchgate.leases.postgres import PostgresEngine

    return PostgresEngine(dsn, host=host, gpus=gpus, **more)


def take(one: PostgresEngine, want: Want = ONE, timeout: float | None = 0, **more: Any) -> Grant:
    return one.acquire(Ask(want, "kernels", timeout, **more), on_wait=lambda _: None)


def sql(dsn: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        done = connection.execute(statement, values or None)
        return done.fetchall() if done.description else []


class Waits:
    """A request that waits in a thread."""

    def __init__(self, one: PostgresEngine, want: Want = ONE, timeout: float | None = 60, **more: Any) -> None:
        self.places: list[Place] = []
        self.grant: Grant | None = None
        self.fault: BaseException | None = None
        self._placed = threading.Event()
        cancelled = more.pop("cancelled", None)

        def work() -> None:
            try:
                self.grant = one.acquire(Ask(want, "kernels", timeout, **more), on_wait=self._on, cancelled=cancelled)
            except LeaseFault as fault:
                self.fault = fault

        self.thread = threading.Thread(target=work)
        self.thread.start()

    def _on(self, place: Place) -> None:
        self.places.append(place)
        self._placed.set()

    def placed(self) -> Place:
        assert self._placed.wait(30)
        return self.places[-1]

    def granted(self) -> Grant:
        self.thread.join(60)
        assert self.grant is not None, self.fault
        return self.grant

    def refused(self) -> BaseException:
        self.thread.join(60)
        assert self.fault is not None
        return self.fault


def test_a_free_host_is_granted_and_given_back(dsn: str) -> None:
    with take(engine(dsn)) as first:
        assert first.shares == (Share("a"),)
        assert first.where == f"the PostgreSQL database {dsn.rpartition('dbname=')[2].split()[0]} at 127.0.0.1"
        assert first.descriptors == ()
        first.check()
        (holder,) = engine(dsn).status().holders
        assert (holder.resource, holder.pid, holder.token, holder.since) == ("a", os.getpid(), first.token, first.since)
        assert holder.alive
    with pytest.raises(LeaseLost, match="was given back"):
        first.check()
    assert engine(dsn).status().holders == ()
    with take(engine(dsn)) as second:
        assert second.token > first.token


def test_a_held_host_is_not_waited_for_without_time(dsn: str) -> None:
    with take(engine(dsn)), pytest.raises(LeaseTimeout, match=r"not granted in 0 s by the PostgreSQL database"):
        take(engine(dsn))
    assert engine(dsn).status().queue == ()


def test_gpus_of_a_host_are_had_beside_each_other(dsn: str) -> None:
    with take(engine(dsn), GPU) as first, take(engine(dsn), GPU) as second:
        assert {first.shares, second.shares} == {(Share("a", "g0"),), (Share("a", "g1"),)}
        with pytest.raises(LeaseTimeout):
            take(engine(dsn), GPU)
        with pytest.raises(LeaseTimeout):
            take(engine(dsn))


def test_a_run_gets_only_gpus_that_it_sees(dsn: str) -> None:
    """Another container of the same host has registered others."""
    take(engine(dsn, gpus=("g0", "g1"))).close()
    with take(engine(dsn, gpus=("g1",)), GPU) as grant:
        assert grant.shares == (Share("a", "g1"),)
    assert [host.gpus for host in engine(dsn).status().hosts] == [("g0", "g1")]


def test_the_first_in_line_is_woken_by_the_release(dsn: str) -> None:
    held = take(engine(dsn))
    first = Waits(engine(dsn))
    assert (first.placed().position, [one.resource for one in first.placed().holders]) == (1, ["a"])
    second = Waits(engine(dsn))
    assert second.placed().position == 2
    queue = engine(dsn).status().queue
    assert [(one.position, one.wants, one.priority) for one in queue] == [(1, "1 host of a", "ci"), (2, "1 host of a", "ci")]
    held.close()
    got = first.granted()
    assert got.token > held.token
    assert second.thread.is_alive()
    got.close()
    second.granted().close()


def test_development_comes_before_ci(dsn: str) -> None:
    held = take(engine(dsn))
    ci = Waits(engine(dsn))
    ci.placed()
    person = Waits(engine(dsn), priority=Priority.DEVELOPMENT)
    assert person.placed().position == 1
    held.close()
    person.granted().close()
    ci.granted().close()


def test_two_hosts_are_had_together_and_not_starved(dsn: str) -> None:
    take(engine(dsn, "b")).close()
    on_a = take(engine(dsn, "a"))
    pair = Waits(engine(dsn), TWO)
    pair.placed()
    single = Waits(engine(dsn, "b"))
    single.placed()  # b is free, and kept for the pair
    on_a.close()
    both = pair.granted()
    assert set(both.shares) == {Share("a"), Share("b")}
    assert [(one.resource, one.token) for one in engine(dsn).status().holders] == [("a", both.token), ("b", both.token)]
    both.close()
    single.granted().close()


@pytest.mark.parametrize(
    ("want", "words"),
    [
        (Want(hosts=2), r"2 hosts are wanted, and there is 1"),
        (Want(gpus=3), r"3 GPUs of one host are wanted, and the most that one has is 2"),
        (Want(hosts=1, names=("x",)), r"there is no host x; there is a"),
    ],
    ids=["hosts", "gpus", "name"],
)
def test_what_there_is_not_is_refused(dsn: str, want: Want, words: str) -> None:
    with pytest.raises(LeaseRefused, match=words):
        take(engine(dsn), want, None)
    assert engine(dsn).status().queue == ()


def test_a_time_limit_ends_the_wait(dsn: str) -> None:
    with take(engine(dsn)):
        assert isinstance(Waits(engine(dsn), timeout=0.3).refused(), LeaseTimeout)
        assert engine(dsn).status().queue == ()


def test_who_waits_may_give_up(dsn: str) -> None:
    enough = threading.Event()
    with take(engine(dsn)):
        waiter = Waits(engine(dsn), cancelled=enough.is_set)
        waiter.placed()
        enough.set()
        assert isinstance(waiter.refused(), LeaseCancelled)
        assert engine(dsn).status().queue == ()


def test_a_pair_that_gives_up_lets_those_behind_it_in(dsn: str) -> None:
    take(engine(dsn, "b")).close()
    enough = threading.Event()
    with take(engine(dsn)):
        pair = Waits(engine(dsn), TWO, cancelled=enough.is_set)
        pair.placed()
        single = Waits(engine(dsn, "b"))
        single.placed()
        enough.set()
        assert isinstance(pair.refused(), LeaseCancelled)
        single.granted().close()


def test_a_request_is_cancelled_and_a_run_is_not(dsn: str) -> None:
    with take(engine(dsn)) as held:
        waiter = Waits(engine(dsn))
        waiter.placed()
        (queued,) = engine(dsn).status().queue
        assert engine(dsn).cancel(queued.id) == f"request {queued.id} of {queued.user} (kernels) is taken back"
        assert re.search(rf"cancelled by {queued.user} at a", str(waiter.refused()))
        (holder,) = engine(dsn).status().holders
        assert holder.id is not None
        with pytest.raises(LeaseRefused, match=r"holds a; a run is never ended"):
            engine(dsn).cancel(holder.id)
        held.check()
    with pytest.raises(LeaseRefused, match=r"there is no request 999 that waits or holds"):
        engine(dsn).cancel(999)


def test_a_drained_host_is_refused_and_its_holder_goes_on(dsn: str) -> None:
    with pytest.raises(LeaseRefused, match=r"there is no host a; there is none yet"):
        engine(dsn).drain("a", "fans")
    with take(engine(dsn)) as held:
        waiter = Waits(engine(dsn))
        waiter.placed()
        engine(dsn).drain("a", "fans")
        cure = "`doit lease undrain [HOST]` takes a drain back"
        assert str(waiter.refused()).endswith(f"refuses it: a is drained (fans); {cure}")
        with pytest.raises(LeaseRefused, match=r"a is drained \(fans\)"):
            take(engine(dsn), timeout=None)
        held.check()
        assert [host.drained for host in engine(dsn).status().hosts] == ["fans"]
    engine(dsn).undrain("a")
    take(engine(dsn)).close()


def test_a_reservation_is_next_and_its_users_runs_get_in(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("touchgate.leases.postgres.engine.user_name", lambda: "somebody")
    held = take(engine(dsn))
    monkeypatch.undo()
    number = engine(dsn).reserve(ONE, 3600, "debugging")
    with pytest.raises(LeaseRefused, match=f"reservation {number}: it has not begun"):
        engine(dsn).adopt(number, Ask(ONE, "mine"), None)
    held.close()
    (holder,) = engine(dsn).status().holders
    assert (holder.id, holder.pid, holder.what, holder.alive) == (number, None, "debugging", True)
    assert holder.until is not None
    take(engine(dsn)).close()  # the same user's
    assert engine(dsn).cancel(number).startswith(f"reservation {number} of ")
    assert engine(dsn).status().holders == ()


def test_a_reservation_ends_by_the_clock_and_wakes_who_waits(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = engine(dsn)
    monkeypatch.setattr("touchgate.leases.postgres.engine.user_name", lambda: "somebody")
    one.reserve(ONE, 1.5, "a short one")
    monkeypatch.undo()
    Waits(one).granted().close()


def test_a_reservation_is_adopted_by_the_run_that_it_was_made_for(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = engine(dsn)
    number = one.reserve(GPU, 3600, "for the pull request", sha="abc")
    for want, sha, words in (
        (GPU, "abd", "is for commit abc, and this run is of abd"),
        (GPU, None, "of no known commit"),
        (ONE, "abc", "which does not cover 1 host"),
        (Want(gpus=2), "abc", "which does not cover 2 GPUs"),
    ):
        with pytest.raises(LeaseRefused, match=words):
            one.adopt(number, Ask(want, "run"), sha)
    with pytest.raises(LeaseRefused, match=r"it is of a/g0, and this is b"):
        engine(dsn, "b").adopt(number, Ask(GPU, "run"), "abc")
    monkeypatch.setattr("touchgate.leases.postgres.engine.user_name", lambda: "somebody")
    with pytest.raises(LeaseRefused, match=r"'s, not somebody's"):
        one.adopt(number, Ask(GPU, "run"), "abc")
    monkeypatch.undo()
    with one.adopt(number, Ask(GPU, "run"), "abc") as grant:
        assert grant.shares == (Share("a", "g0"),)
        grant.check()
        with pytest.raises(LeaseRefused, match=r"another run has what it wants of it: \w+, pid \d+ \(run\)"):
            one.adopt(number, Ask(GPU, "run"), "abc")
    one.adopt(number, Ask(GPU, "run"), "abc").close()
    one.cancel(number)
    with pytest.raises(LeaseRefused, match=rf"reservation {number} ended at .*: cancelled by"):
        one.adopt(number, Ask(GPU, "run"), "abc")
    with pytest.raises(LeaseRefused, match=r"there is no reservation 999"):
        one.adopt(999, Ask(GPU, "run"), "abc")


class Under:
    """A host's own lease."""

    def __init__(self, fault: LeaseFault | None = None) -> None:
        self.fault = fault
        self.events: list[object] = []
        self.token, self.shares, self.since, self.where, self.notes = 7, (), "", "a file", ("a note",)
        self.descriptors = (11,)

    def __call__(self, ask: Ask, token: int, **_: object) -> Under:
        self.events.append((ask.want, token))
        if self.fault:
            raise self.fault
        return self

    def check(self) -> None:
        self.events.append("check")

    def close(self) -> None:
        self.events.append("close")


@pytest.mark.parametrize(
    ("want", "below"),
    [
        (ONE, Want(hosts=1, names=("a",))),
        (TWO, Want(hosts=1, names=("a",))),
        (GPU, Want(gpus=1, names=("a",), among=("g0",))),
    ],
    ids=["host", "pair", "gpu"],
)
def test_the_hosts_own_lease_lies_below(dsn: str, want: Want, below: Want) -> None:
    take(engine(dsn, "b")).close()
    under = Under()
    with take(engine(dsn, below=under), want) as grant:
        grant.check()
        assert grant.descriptors == (11,)
        assert grant.notes == ("a note",)
        assert grant.where.endswith(", and a file")
    assert under.events == [(below, grant.token), "check", "close"]


def test_a_real_lease_of_the_host_keeps_out_who_never_asked_the_database(dsn: str, tmp_path: Path) -> None:
    from touchgate.leases.directory import LeaseDirectory
    from touchgate.leases.files import FilesEngine

    files = FilesEngine(LeaseDirectory(tmp_path / "leases", shared=False, why="a test"), host="a", gpus=("g0", "g1"))
    with take(engine(dsn, below=files.below)) as grant:
        assert grant.descriptors
        grant.check()
        with pytest.raises(LeaseTimeout):
            files.acquire(Ask(ONE, "files only", 0), on_wait=lambda _: None)
    with files.acquire(Ask(ONE, "files only", 0), on_wait=lambda _: None):
        with pytest.raises(LeaseTimeout):
            take(engine(dsn, below=files.below))
        assert engine(dsn).status().holders == ()
    take(engine(dsn, below=files.below)).close()


def test_no_lease_of_its_own_host_no_file(dsn: str) -> None:
    take(engine(dsn, "b")).close()
    under = Under()
    take(engine(dsn, below=under), Want(hosts=1, names=("b",))).close()
    assert under.events == []


def test_without_the_hosts_own_lease_nothing_is_kept(dsn: str) -> None:
    with pytest.raises(LeaseTimeout, match="left over"):
        take(engine(dsn, below=Under(LeaseTimeout("left over"))))
    assert engine(dsn).status().holders == ()


def test_a_forked_child_looks_by_itself_and_ends_nothing(dsn: str) -> None:
    with take(engine(dsn)) as grant:
        child = os.fork()
        if not child:
            try:
                grant.check()
                grant.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        grant.check()
        assert len(engine(dsn).status().holders) == 1


def test_the_log_says_what_happened(dsn: str) -> None:
    grant = take(engine(dsn))
    grant.close()
    number = engine(dsn).reserve(ONE, 60, "why")
    engine(dsn).cancel(number)
    engine(dsn).drain("a", "fans")
    rows = sql(dsn, "SELECT kind, token IS NOT NULL, words FROM touchgate.event ORDER BY number")
    (user,) = sql(dsn, "SELECT DISTINCT username FROM touchgate.event")
    assert rows == [
        ("asked", False, "1 host of a: kernels"),
        ("granted", True, "a"),
        ("released", True, "given back"),
        ("reserved", False, "1 host of a: why"),
        ("granted", True, "a"),
        ("cancelled", True, f"cancelled by {user[0]} at a"),
        ("drained", False, "fans"),
    ]


def test_old_rows_go(dsn: str) -> None:
    take(engine(dsn)).close()
    sql(dsn, "UPDATE touchgate.lease SET ended = ended - interval '91 days'")
    sql(dsn, "UPDATE touchgate.event SET at = at - interval '91 days'")
    engine(dsn).status()
    assert sql(dsn, "SELECT (SELECT count(*) FROM touchgate.lease), (SELECT count(*) FROM touchgate.event)") == [(0, 0)]


def test_a_second_belt_below_the_scheduler(dsn: str) -> None:
    """The table itself does not take one GPU twice."""
    import psycopg

    with take(engine(dsn), GPU), pytest.raises(psycopg.errors.UniqueViolation):
        sql(dsn, "INSERT INTO touchgate.share SELECT id, 'a', 'g0', false FROM touchgate.lease")


STEPS = {"an hour ahead": "- interval '1 hour'", "an hour back": "+ interval '1 hour'"}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_clock_that_is_set_ends_no_lease(dsn: str, step: str) -> None:
    """Every time in the table is an hour off, as after a step of the server's clock."""
    with take(engine(dsn)) as held:
        waiter = Waits(engine(dsn))
        waiter.placed()
        sql(dsn, f"UPDATE touchgate.lease SET beat = beat {step}, granted = granted {step}, asked = asked {step}")
        with pytest.raises(LeaseTimeout):
            take(engine(dsn))
        held.check()
        assert waiter.thread.is_alive()
    waiter.granted().close()


def test_a_dead_holder_is_spared_once_after_a_silence(dsn: str) -> None:
    """Requests that come and go by themselves do not keep it alive."""
    from touchgate.leases.postgres.connection import Session
    from touchgate.leases.postgres.turn import turn

    grant = take(engine(dsn))
    grant.pulse.stop().drop()
    past = "UPDATE touchgate.lease SET beat = beat - interval '1 hour'"
    sql(dsn, past)
    with pytest.raises(LeaseTimeout):
        take(engine(dsn))
    sql(dsn, past)
    take(engine(dsn)).close()
    session = Session(dsn)
    assert session.run(turn).view.leases == ()
    session.drop()


def test_after_a_failover_no_holder_goes_on_and_no_token_comes_twice(dsn: str) -> None:
    first, second = engine(dsn), engine(dsn, "b")
    known, unknown = take(first), take(second)
    waiter = Waits(first)
    waiter.placed()
    # The copy that took over is older: it has never heard of the second grant, nor of the waiter.
    sql(dsn, "DELETE FROM touchgate.lease WHERE token = %s OR state = 'waiting'", unknown.token)
    sql(dsn, "SELECT setval('touchgate.token', 1), setval('touchgate.request', 1)")
    said = first.after_failover("the disk of db1")
    assert re.fullmatch(r"tokens go on higher; ended: a of \w+", said)
    with pytest.raises(LeaseLost, match=r"every lease was ended by \w+ after a failover: the disk of db1"):
        known.check()
    with pytest.raises(LeaseLost, match=r"is not in the PostgreSQL database .* any more"):
        unknown.check()
    known.close()
    unknown.close()
    with take(second) as grant:
        assert grant.token > max(known.token, unknown.token)
    # What wakes it now is what it waits for; its next sign of life would find the same: that nobody knows of it.
    sql(dsn, "NOTIFY touchgate_3")
    waiter.granted().close()


def test_ids_that_come_again_are_not_taken_for_ones_own(dsn: str) -> None:
    held = take(engine(dsn))
    sql(dsn, "DELETE FROM touchgate.lease")
    sql(dsn, "SELECT setval('touchgate.request', 1, false)")
    with take(engine(dsn)):
        with pytest.raises(LeaseLost):
            held.check()
        held.close()
        assert len(engine(dsn).status().holders) == 1


def test_notes_tell_of_a_server_that_forgets(dsn: str) -> None:
    from touchgate.leases.postgres.connection import Session
    from touchgate.leases.postgres.engine import _notes

    session = Session(dsn)
    session.run(lambda connection: connection.execute("SELECT 1"))
    assert session.run(_notes) == []
    assert engine(dsn).status().notes == ()
    session.drop()


def in_threads(work: Callable[[], None], number: int) -> None:
    faults: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as fault:  # noqa: BLE001
            faults.append(fault)

    threads = [threading.Thread(target=guarded) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_many_at_once_are_served_one_by_one_in_order(dsn: str) -> None:
    """Two schedulers, and twenty, at once."""
    inside = threading.Lock()

    def work() -> None:
        with take(engine(dsn), timeout=None):
            assert inside.acquire(blocking=False)
            inside.release()

    in_threads(work, 20)
    rows = sql(dsn, "SELECT id FROM touchgate.lease WHERE state = 'ended' ORDER BY token")
    assert rows == sorted(rows)
    assert len(rows) == 20
