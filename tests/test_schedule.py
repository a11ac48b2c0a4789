"""Who gets what: tables for the sentences, and a machine that plays schedules against the invariants."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from touchgate.leases.estimate import estimates
from touchgate.leases.model import Decision, Granted, Holding, Host, Priority, Refused, Request, Share, Waiting, Want
from touchgate.leases.schedule import UNDRAIN, candidates, in_order, schedule

A, B, C = Host("a", ("a0", "a1")), Host("b", ("b0", "b1")), Host("c", ("c0", "c1", "c2", "c3"))
ONE, TWO = Want(hosts=1), Want(hosts=2)
GPU, GPUS = Want(gpus=1), Want(gpus=2)


def request(number: int, want: Want = ONE, user: str = "u", **more) -> Request:
    return Request(number, want, user, **more)


def holding(number: int, *shares: Share, user: str = "h", since: float = 0, **more) -> Holding:
    return Holding(number, shares, user, since, **more)


def reservation(number: int, want: Want = ONE, user: str = "dev", seconds: float = 100) -> Request:
    return Request(number, want, user, Priority.DEVELOPMENT, seconds, reserves=True)


WHOLE_A, WHOLE_B = Share("a"), Share("b")

TABLE = {
    # what: (hosts, requests, holdings, the whole decision at time 10)
    "a free host": ([A], [request(1)], [], Decision((Granted(1, (WHOLE_A,)),), (), (), (), None)),
    "a held host": (
        [A],
        [request(2)],
        [holding(1, WHOLE_A)],
        Decision((), (), (), (Waiting(2, 1, (1,)),), None),
    ),
    "the first comes first": (
        [A],
        [request(2), request(1)],
        [],
        Decision((Granted(1, (WHOLE_A,)),), (), (), (Waiting(2, 1, (1,)),), None),
    ),
    "a reservation comes before what was asked for earlier, and stops nobody": (
        [A],
        [request(2), reservation(3)],
        [holding(1, WHOLE_A)],
        Decision((), (), (), (Waiting(3, 1, (1,)), Waiting(2, 2, (1,), 3)), None),
    ),
    "a reservation begins when its host is free": (
        [A],
        [request(2), reservation(3)],
        [],
        Decision((Granted(3, (WHOLE_A,)),), (), (), (Waiting(2, 1, (3,)),), 110),
    ),
    "its user's runs get in, others' do not": (
        [A],
        [request(2, user="ci"), request(4, user="dev")],
        [holding(3, WHOLE_A, user="dev", until=110)],
        Decision((Granted(4, (WHOLE_A,), within=3),), (), (), (Waiting(2, 1, (3, 4)),), 110),
    ),
    "two runs of its user are kept apart": (
        [A],
        [request(5, user="dev")],
        [holding(3, WHOLE_A, user="dev", until=110), holding(4, WHOLE_A, user="dev", within=3)],
        Decision((), (), (), (Waiting(5, 1, (4,), reserved=True),), 110),
    ),
    "a reservation whose time is over keeps nobody, the run in it does": (
        [A],
        [request(5)],
        [holding(3, WHOLE_A, user="dev", until=10), holding(4, WHOLE_A, user="dev", within=3)],
        Decision((), (), (3,), (Waiting(5, 1, (4,)),), None),
    ),
    "the next reservation of its user keeps no run of theirs out of this one": (
        [A],
        [reservation(4), request(5, user="dev"), request(6, user="dev"), request(7, user="ci")],
        [holding(3, WHOLE_A, user="dev", until=110)],
        Decision(
            (Granted(5, (WHOLE_A,), within=3),),
            (),
            (),
            (Waiting(4, 1, (3,)), Waiting(6, 2, (5,), 4, reserved=True), Waiting(7, 3, (3, 5), 6)),
            110,
        ),
    ),
    "a reservation may begin over its user's own run": (
        [A],
        [reservation(5)],
        [holding(4, WHOLE_A, user="dev")],
        Decision((Granted(5, (WHOLE_A,)),), (), (), (), None),
    ),
    "a pair at the head keeps what is free": (
        [A, B],
        [request(2, TWO), request(3), request(4)],
        [holding(1, WHOLE_A)],
        Decision((), (), (), (Waiting(2, 1, (1,)), Waiting(3, 2, (1,), 2), Waiting(4, 3, (1,), 3)), None),
    ),
    "who wants another host is not kept by a pair": (
        [A, B, C],
        [request(2, Want(hosts=2, names=("a", "b"))), request(3, Want(hosts=1, names=("c",)))],
        [holding(1, WHOLE_A)],
        Decision((Granted(3, (Share("c"),)),), (), (), (Waiting(2, 1, (1,)),), None),
    ),
    "who may not have it yet keeps its place, but for a class before": (
        [A],
        [request(1, after=20.0), request(2), request(3, priority=Priority.DEVELOPMENT, after=9.0)],
        [],
        Decision(
            (Granted(3, (WHOLE_A,)),),
            (),
            (),
            (Waiting(1, 1, (3,)), Waiting(2, 2, (3,), 1)),
            20.0,
        ),
    ),
    "a drained host is refused and keeps nobody": (
        [replace(A, drained="fans"), B],
        [request(1, TWO), request(2, Want(hosts=1, names=("a",))), request(3)],
        [],
        Decision(
            (Granted(3, (WHOLE_B,)),),
            (Refused(1, f"a is drained (fans); {UNDRAIN}"), Refused(2, f"a is drained (fans); {UNDRAIN}")),
            (),
            (),
            None,
        ),
    ),
    "what there is not is refused": (
        [A, B],
        [
            request(1, Want(hosts=3)),
            request(2, Want(gpus=4)),
            request(3, Want(hosts=1, names=("x",))),
            request(4, Want(gpus=3, names=("a",))),
        ],
        [],
        Decision(
            (),
            (
                Refused(1, "3 hosts are wanted, and there are 2"),
                Refused(2, "4 GPUs of one host are wanted, and the most that one has is 2"),
                Refused(3, "there is no host x; there is a, b"),
                Refused(4, "3 GPUs of one host are wanted, and the most that one has is 2"),
            ),
            (),
            (),
            None,
        ),
    ),
    "a deadline that has passed": (
        [A],
        [request(1, deadline=10), request(2, deadline=11)],
        [holding(9, WHOLE_A)],
        Decision((), (Refused(1, "it was not granted in time"),), (), (Waiting(2, 1, (9,)),), 11),
    ),
    "GPUs of one host, the tightest fit": (
        [C, A],
        [request(1, GPUS), request(2, GPU)],
        [],
        Decision((Granted(1, (Share("a", "a0"), Share("a", "a1"))), Granted(2, (Share("c", "c0"),))), (), (), (), None),
    ),
    "two GPUs of two hosts are not two of one": (
        [A, B],
        [request(3, GPUS)],
        [holding(1, Share("a", "a0")), holding(2, Share("b", "b1"))],
        Decision((), (), (), (Waiting(3, 1, (1, 2)),), None),
    ),
    "a whole host waits for each of its GPUs, and who comes later gets none": (
        [A],
        [request(2, ONE), request(3, GPU)],
        [holding(1, Share("a", "a1"))],
        Decision((), (), (), (Waiting(2, 1, (1,)), Waiting(3, 2, (1,), 2)), None),
    ),
    "only those GPUs that the run can see": (
        [A],
        [request(2, Want(gpus=1, among=("a1",)))],
        [holding(1, Share("a", "a1"))],
        Decision((), (), (), (Waiting(2, 1, (1,)),), None),
    ),
}


@pytest.mark.parametrize("what", TABLE)
def test_table(what):
    hosts, requests, holdings, decision = TABLE[what]
    assert schedule(hosts, requests, holdings, 10) == decision


def test_what_a_waiter_is_told_of_is_the_last_before_it_else_who_holds():
    _, requests, holdings, _ = TABLE["a pair at the head keeps what is free"]
    assert [one.watch for one in schedule([A, B], requests, holdings, 10).waiting] == [(1,), (2,), (3,)]


@pytest.mark.parametrize(("hosts", "gpus"), [(0, 0), (1, 1), (-1, 0), (0, -1), (-1, 2)])
def test_a_want_that_means_nothing(hosts, gpus):
    with pytest.raises(ValueError, match="a lease is of hosts or of GPUs"):
        Want(hosts, gpus)


def test_estimates_play_the_future():
    requests = [request(2, seconds=30), request(3, TWO, seconds=5), request(4, seconds=None), request(5)]
    held = [holding(1, WHOLE_A, since=0, seconds=60), holding(9, WHOLE_B, since=0, seconds=20)]
    # At 20 b is free for 2 until 50; at 60 both are free for the pair until 65; then 4, of no known length, gets a and 5 b.
    assert estimates([A, B], requests, held, 10) == {2: 10, 3: 50, 4: 55, 5: 55}


def test_estimates_say_nothing_behind_one_of_unknown_length():
    assert estimates([A], [request(2)], [holding(1, WHOLE_A)], 10) == {}
    assert estimates([A], [request(2), request(3)], [holding(1, WHOLE_A, seconds=5)], 10) == {2: 0}


# -- the machine: what is true of every schedule ------------------------------------------------------------------------


class World:
    """Plays an engine: keeps requests and holdings as decisions say, and holds every decision against the sentences."""

    def __init__(self, hosts: list[Host]) -> None:
        self.hosts = hosts
        self.now = 0.0
        self.number = 0
        self.queue: list[Request] = []
        self.held: dict[int, Holding] = {}
        self.asked: dict[int, Request] = {}
        self.served: list[int] = []
        self.refusals: dict[int, str] = {}

    def ask(self, want: Want, user: str, **more) -> None:
        self.number += 1
        one = Request(self.number, want, user, **more)
        self.queue.append(one)
        self.asked[one.id] = one
        self.step()

    def release(self, number: int) -> None:
        del self.held[number]
        self.step()

    def step(self) -> Decision:
        before = dict(self.held)
        queue = list(self.queue)
        decision = schedule(self.hosts, queue, list(self.held.values()), self.now)
        self.check(queue, before, decision)
        for number in decision.ended:
            del self.held[number]
        for one in decision.refused:
            self.refusals[one.id] = one.why
        for grant in decision.granted:
            asked = self.asked[grant.id]
            until = self.now + (asked.seconds or 0) if asked.reserves else None
            self.held[grant.id] = Holding(grant.id, grant.shares, asked.user, self.now, asked.seconds, until, grant.within)
            self.served.append(grant.id)
        gone = {one.id for one in (*decision.granted, *decision.refused)}
        self.queue = [one for one in self.queue if one.id not in gone]
        self.overlaps()
        again = schedule(self.hosts, self.queue, list(self.held.values()), self.now)
        assert (again.granted, again.refused) == ((), ()), "one pass grants all that can be granted"
        return decision

    def check(self, queue: list[Request], before: dict[int, Holding], decision: Decision) -> None:
        told = [one.id for one in (*decision.granted, *decision.refused, *decision.waiting)]
        assert sorted(told) == sorted(one.id for one in queue), "each request has exactly one answer"
        for number in decision.ended:
            until = before[number].until
            assert until is not None, "no run is ended"
            assert until <= self.now, "no reservation is ended before its time"
        drained = {host.name for host in self.hosts if host.drained}
        for grant in decision.granted:
            want = self.asked[grant.id].want
            assert not {share.host for share in grant.shares} & drained, "a drained host grants nothing new"
            assert len(set(grant.shares)) == len(grant.shares) == (want.hosts or want.gpus), "all or nothing, and no more"
            assert len({share.host for share in grant.shares}) == (want.hosts or 1)
            assert {share.gpu is None for share in grant.shares} == {bool(want.hosts)}
            assert not want.names or all(share.host in want.names for share in grant.shares)
            assert not want.among or all(share.gpu in want.among for share in grant.shares)
        order = {one.id: place for place, one in enumerate(in_order(queue))}
        for one in decision.waiting:
            assert one.watch, "who waits, waits for somebody"
            assert one.behind is None or order[one.behind] < order[one.id]
            mine = self.asked[one.id]
            could = {
                Share(host.name, gpu)
                for host in candidates(self.hosts, mine.want)
                for gpu in ((None,) if mine.want.hosts else host.gpus)
                if gpu is None or not mine.want.among or gpu in mine.want.among
            }
            for grant in decision.granted:
                if order[grant.id] > order[one.id] and grant.within is None:
                    assert not any(share.meets(mine_) for share in grant.shares for mine_ in could), (
                        "nobody behind a waiter takes what could serve it"
                    )
        assert [one.position for one in decision.waiting] == list(range(1, len(decision.waiting) + 1))

    def overlaps(self) -> None:
        runs = [one for one in self.held.values() if one.until is None]
        for index, one in enumerate(runs):
            for other in runs[:index]:
                assert not any(a.meets(b) for a in one.shares for b in other.shares), "no two runs have the same"
        for reserved in (one for one in self.held.values() if one.until is not None):
            for one in self.held.values():
                if one.id > reserved.id and one is not reserved and one.user != reserved.user:
                    later = one.since >= reserved.since
                    assert not later or not any(a.meets(b) for a in one.shares for b in reserved.shares)


WANTS = st.one_of(
    st.builds(Want, hosts=st.integers(1, 3), names=st.sampled_from([(), ("a",), ("a", "b"), ("b", "c"), ("x",)])),
    st.builds(
        Want,
        gpus=st.integers(1, 4),
        names=st.sampled_from([(), ("a",), ("c", "a")]),
        among=st.sampled_from([(), ("a0", "c3")]),
    ),
)
USERS = st.sampled_from(["ann", "bob", "ci"])


class Schedules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World([A, B, C])

    @rule(want=WANTS, user=USERS, wait=st.none() | st.floats(0, 50), seconds=st.none() | st.floats(0, 50))
    def ask(self, want, user, wait, seconds):
        deadline = None if wait is None else self.world.now + wait
        self.world.ask(want, user, deadline=deadline, seconds=seconds)

    @rule(want=WANTS, user=USERS, seconds=st.floats(1, 50))
    def reserve(self, want, user, seconds):
        self.world.ask(want, user, seconds=seconds, priority=Priority.DEVELOPMENT, reserves=True)

    @precondition(lambda self: any(one.until is None for one in self.world.held.values()))
    @rule(data=st.data())
    def end(self, data):
        self.world.release(data.draw(st.sampled_from(sorted(n for n, one in self.world.held.items() if one.until is None))))

    @precondition(lambda self: self.world.queue)
    @rule(data=st.data())
    def cancel(self, data):
        gone = data.draw(st.sampled_from([one.id for one in self.world.queue]))
        held = set(self.world.held)
        self.world.queue = [one for one in self.world.queue if one.id != gone]
        self.world.step()
        assert held <= set(self.world.held) | {n for n in held if n not in self.world.held}, "a cancel ends no run"

    @rule(seconds=st.floats(0, 60))
    def time(self, seconds):
        self.world.now += seconds
        held = {number for number, one in self.world.held.items() if one.until is None}
        self.world.step()
        assert held <= set(self.world.held), "time ends no run"

    @rule(which=st.integers(0, 2), why=st.sampled_from(["", "fans"]))
    def drain(self, which, why):
        self.world.hosts[which] = replace(self.world.hosts[which], drained=why)
        held = set(self.world.held)
        self.world.step()
        assert {n for n in held if n in self.world.asked and not self.world.asked[n].reserves} <= set(self.world.held)

    @invariant()
    def nobody_waits_for_nothing(self):
        decision = schedule(self.world.hosts, self.world.queue, list(self.world.held.values()), self.world.now)
        known = {*self.world.held, *(one.id for one in self.world.queue)}
        for one in decision.waiting:
            assert set(one.watch) <= known

    def teardown(self):
        # No starvation: when everybody ends, everybody who can be served is, in order inside what they compete for.
        world = self.world
        world.hosts = [replace(host, drained="") for host in world.hosts]
        for _ in range(len(world.queue) + len(world.held) + 1):
            world.now += 60
            world.step()
            for number in [n for n, one in world.held.items() if one.until is None]:
                world.release(number)
        assert world.queue == []


Schedules.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestSchedules = Schedules.TestCase


def play(seed: int) -> None:
    """60 requests, a third of them pairs, over four hosts; holders end in random order."""
    chance = random.Random(seed)
    world = World([A, B, C, Host("d", ("d0",))])
    left = 60
    while left or world.queue or world.held:
        runs = [n for n, one in world.held.items() if one.until is None]
        if left and (not runs or chance.random() < 0.6):
            left -= 1
            pair = left % 3 == 0
            names = (
                chance.choice([(), (), ("a", "b"), ("a", "b", "c", "d")]) if pair else chance.choice([(), ("a",), ("c", "d")])
            )
            want = (
                Want(hosts=2, names=names)
                if pair
                else chance.choice([Want(hosts=1, names=names), Want(gpus=chance.randint(1, 2))])
            )
            development = chance.random() < 0.1
            world.ask(
                want,
                chance.choice(["ann", "bob", "ci"]),
                priority=Priority.DEVELOPMENT if development else Priority.CI,
                seconds=chance.uniform(1, 20),
                reserves=development,
            )
        elif runs:
            world.release(chance.choice(runs))
        else:
            world.now += 20
            world.step()
        world.now += chance.uniform(0, 1)
    assert sorted(world.served) == list(range(1, 61)), "no lost grant, nobody granted twice"
    assert world.refusals == {}
    singles = [n for n in world.served if world.asked[n].want == ONE and world.asked[n].priority is Priority.CI]
    by_user = {user: [n for n in singles if world.asked[n].user == user] for user in ("ann", "bob", "ci")}
    # Equal wants of one user in one class are served in the order of asking.
    assert all(numbers == sorted(numbers) for numbers in by_user.values())


def test_random_schedules():
    for seed in range(60):
        play(seed)


@pytest.mark.long
def test_ten_thousand_random_schedules():
    for seed in range(10_000):
        play(seed)
