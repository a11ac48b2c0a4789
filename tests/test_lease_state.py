"""The queue's file as a value: it comes back as it was written, and what a turn makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.leases.model import Share
from touchgate.leases.state import (
    HELD,
    HOST,
    LATE,
    REFUSED,
    WAITING,
    Entry,
    State,
    after_boot,
    dump,
    hold,
    own_of,
    parse,
    turn,
)

words = st.text(max_size=8)
entries = st.builds(
    Entry,
    id=st.integers(1, 99),
    user=words,
    uid=st.integers(0),
    at=st.floats(0, 1e9),
    asked=words,
    what=words,
    url=st.none() | words,
    hosts=st.just(1),
    among=st.lists(words, max_size=2).map(tuple),
    priority=st.integers(0, 1),
    seconds=st.none() | st.floats(0, 1e9),
    reserves=st.booleans(),
    state=st.sampled_from((WAITING, REFUSED, LATE)),
    watch=st.lists(st.integers(1, 99), max_size=3).map(tuple),
)


@given(st.lists(entries, max_size=5), words, st.integers(0), st.lists(st.integers(1), max_size=3).map(tuple))
def test_what_is_written_is_read(listed, drained, token, wakes):
    made = {entry.id: entry for entry in listed}
    state = State("boot", made, next=100, token=token, seq=7, wakes=wakes, gpus=("a",), drained=drained)
    assert parse(dump(state)) == state
    for number, entry in made.items():
        assert own_of(dump(state), number) == entry
    assert own_of(dump(state), 100) is None


@given(st.binary(max_size=200))
def test_noise_is_no_queue(content):
    with pytest.raises(ValueError, match=r"."):
        parse(content)
    assert own_of(content, 1) is None


def request(number: int, **more) -> Entry:
    return Entry(id=number, user="u", uid=1, at=0.0, asked="", **{"hosts": 1, **more})


def played(state: State, *dead: int, now: float = 10.0):
    return turn(state, now, "then", 1000.0, lambda one: one.id not in dead, lambda last: last + 1)


def queue(*listed: Entry, **more) -> State:
    return State("boot", {entry.id: entry for entry in listed}, next=50, **more)


HELD_BY_1 = hold(request(1), (Share(HOST),), 5, 1.0, "", 1.0)


def test_a_turn_grants_the_first_and_wakes_it_alone():
    first = played(queue(HELD_BY_1, request(2), request(3), token=5))
    assert [first.state.entries[number].watch for number in (2, 3)] == [(1,), (2,)]
    assert first.state.wakes == (2, 3)
    after = played(replace(first.state, wakes=()), 1)
    assert (after.state.entries[2].state, after.state.entries[2].token) == (HELD, 6)
    assert after.state.wakes == (2,)
    assert [event.kind for event in after.events] == ["died", "granted"]


def test_a_dead_waiter_is_granted_nothing():
    done = played(queue(request(2), request(3)), 2)
    assert list(done.state.entries) == [3]
    assert done.state.entries[3].state == HELD


def test_who_does_not_answer_is_passed_over_and_who_was_late_hears_it():
    done = played(queue(HELD_BY_1, request(2, asleep=True), request(3), request(4, deadline=9.0)))
    assert done.state.entries[3].watch == (1,)
    assert done.state.entries[4].state == LATE
    assert done.state.wakes == (3, 4)


def test_of_an_earlier_boot_only_reservations_are_left_for_what_is_left_of_them():
    kept = hold(request(2, reserves=True, seconds=600.0), (Share(HOST),), 0, 1.0, "", 1000.0)
    state = queue(HELD_BY_1, kept, request(3), token=5, gpus=("a",))
    assert after_boot(state, "boot", 0.0, 1100.0) is state
    after = after_boot(state, "another", 3.0, 1100.0)
    assert list(after.entries) == [2]
    assert after.entries[2].until == 503.0
    assert after.token == 5
    assert after_boot(replace(state, boot=""), "", 0.0, 1100.0).entries.keys() == {1, 2, 3}
    late = replace(state, boot="", entries={1: replace(HELD_BY_1, since=9.0)})
    assert after_boot(late, "", 0.0, 1100.0).entries == {}


def test_behind_a_reservation_that_waits_somebody_watches_whom_it_waits_for():
    # 1 holds by the clock, 2 is the next reservation, and neither has a process that would look when 1's time is over.
    held = queue(request(1, reserves=True, pid=None, seconds=4.0, priority=0))
    first = played(held).state
    second = request(2, reserves=True, pid=None, seconds=3.0, priority=0).but(user="b")
    waiting = first.put(second).put(request(3).but(user="c"))
    after = played(waiting, now=11.0).state
    assert {number: after.entries[number].watch for number in (2, 3)} == {2: (1,), 3: (1,)}
    then = played(after, now=14.5).state
    assert (sorted(then.entries), then.entries[2].state, then.entries[3].watch) == ([2, 3], HELD, (2,))
    assert played(then, now=17.6).state.entries[3].state == HELD
