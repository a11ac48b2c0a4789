"""A lease where the queue can't be changed (a full disk): the locks beneath alone, as before there was a queue, in no order.

What can be read of the queue is kept to: a drain refuses, another user's reservation is waited for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from touchgate.leases import belt, clock, telling
from touchgate.leases.engine import LeaseRefused, Place
from touchgate.leases.model import Share
from touchgate.leases.schedule import schedule
from touchgate.leases.state import HELD, HOST, hold
from touchgate.leases.wake import Watch

if TYPE_CHECKING:
    from touchgate.leases.belt import Belt
    from touchgate.leases.queue import Queue
    from touchgate.leases.state import Entry, State
    from touchgate.leases.waiter import Patience

LOOK = 1.0


def unordered(queue: Queue, wanted: Entry, state: State, above: int, patience: Patience) -> tuple[Entry, Belt]:
    """The holding and its locks. state: with the GPUs that this run sees. Raises what `Engine.acquire` does."""
    began = False
    while True:
        gpus = state.gpus
        state = replace(queue.read() or state, gpus=gpus)
        shares, place = _shares(queue, wanted, state, patience)
        replaced = False
        with Watch(belt.paths(queue.folder, shares or (Share(HOST),))[-1][0]) as watch:
            while True:
                if shares:
                    found = belt.take(queue.folder, queue.modes, shares)
                    if not isinstance(found, belt.Busy):
                        return _entry(wanted, shares, state, found, above), found
                    if patience.told != 0 or patience.over():
                        place = Place(0, (telling.named(found.holder, patience.host),))
                    replaced = found.replaced
                if patience.timeout == 0:
                    raise patience.late(place)
                if not began:
                    began = True
                    patience.begin()
                if patience.over():
                    raise patience.late(place)
                patience.tell(place)
                patience.ask()
                if watch.sleep(min(LOOK, patience.slice())) or not shares or wanted.wants or replaced:
                    break


def _shares(queue: Queue, wanted: Entry, state: State, patience: Patience) -> tuple[tuple[Share, ...], Place]:
    """What to lock; () where only time helps, and who is in the way."""
    now = clock.now()
    kept = [one for one in state.entries.values() if one.state == HELD and one.reserves]
    busy = [gpu for gpu in state.gpus if belt.seen_token(queue.folder, (Share(HOST, gpu),)) is not None]
    free = replace(wanted, among=tuple(gpu for gpu in wanted.among or state.gpus if gpu not in busy) or wanted.among)
    for one in (free, wanted):
        decided = schedule([state.host()], [one.request()], [held.holding() for held in kept], now)
        if decided.granted:
            return decided.granted[0].shares, Place(0, ())
    if decided.refused:
        raise LeaseRefused(telling.why(decided.refused[0].why, patience.host))
    return (), Place(1, tuple(holder for one in kept for holder in telling.holders(one, patience.host)))


def _entry(wanted: Entry, shares: tuple[Share, ...], state: State, taken: Belt, above: int) -> Entry:
    token = max(taken.last_token() + 1, state.token + 1, above + 1, int(clock.wall() * 1_000_000))
    wall = clock.wall()
    return hold(wanted, shares, token, clock.now(), clock.iso(wall), wall)
