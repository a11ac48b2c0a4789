"""A run's way from its request to its grant: it sleeps until it is told of a change, looks, and takes what it was granted."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from touchgate.leases import belt, clock, telling
from touchgate.leases.engine import LeaseCancelled, LeaseRefused, LeaseTimeout, Place
from touchgate.leases.queue import QueueUnavailable, content_of, ghosts
from touchgate.leases.state import CANCELLED, HELD, LATE, OVER, REFUSED, WAITING, Event
from touchgate.leases.tickets import Watching
from touchgate.leases.wake import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from touchgate.leases.belt import Belt, Busy
    from touchgate.leases.queue import Queue
    from touchgate.leases.state import Entry, State
    from touchgate.leases.tickets import Ticket

LOOK = 15.0
"""Seconds between two looks for people's sake, which also find a queue or a ticket that was deleted."""
FAR = 60.0
"""The same for those far behind."""
BLIND = 1.0
"""Seconds between two looks at one whose end nothing tells."""
TOLD = sys.platform == "linux"
"""Whether the end of a pipe's last writer is told to whoever polls it, whatever else it does."""
ASK_CANCELLED = 0.25
TAKE = 3.0
"""Seconds that a run has to take what it was granted. One that was stopped is passed over, until it goes on."""
SOON = (0.001, 0.02, 0.05, 0.1, 0.2)
"""Seconds between looks at a lock beneath the queue after it was let go: whoever closes it may not be done by then."""


@dataclass
class Patience:
    """How long, and whom to tell meanwhile. host: what shares are called."""

    timeout: float | None
    on_wait: Callable[[Place], None]
    cancelled: Callable[[], bool] | None
    host: str
    deadline: float | None = None
    told: int | None = None

    def begin(self) -> None:
        """The first look is not part of the wait, however slow the host is."""
        if self.deadline is None and self.timeout is not None:
            self.deadline = clock.now() + self.timeout

    def over(self) -> bool:
        """Whether it waited long enough."""
        return self.deadline is not None and clock.now() >= self.deadline

    def ask(self) -> None:
        """Raises `LeaseCancelled` where the caller says so."""
        if self.cancelled is not None and self.cancelled():
            raise LeaseCancelled("the wait for the lease was cancelled by this run")

    def slice(self) -> float:
        """The longest sleep."""
        longest = LOOK if self.cancelled is None else ASK_CANCELLED
        return longest if self.deadline is None else max(0.0, min(longest, self.deadline - clock.now()))

    def tell(self, place: Place) -> None:
        """The place, where it is news."""
        if place.position != self.told:
            self.told = place.position
            self.on_wait(place)

    def late(self, place: Place) -> LeaseTimeout:
        """The fault of having waited long enough."""
        who = "; ".join(f"{one.resource} is held by {telling.words(one)}" for one in place.holders)
        return LeaseTimeout(f"the lease was not granted in {self.timeout or 0:.0f} s" + (f": {who}" if who else ""))


class Waiter:
    """One request of this process."""

    def __init__(self, queue: Queue, entry: Entry, ticket: Ticket, patience: Patience) -> None:
        self.queue, self.entry, self.ticket, self.patience = queue, entry, ticket, patience
        self._looked = 0.0

    def wait(self) -> tuple[Entry, Belt]:
        """Until it is granted and taken. Raises `LeaseTimeout`, `LeaseCancelled`, `LeaseRefused`, `QueueUnavailable`."""
        while True:
            if self.entry.state != HELD:
                self._until_granted()
            taken = self._take()
            if taken is not None:
                return self.entry, taken
            self.entry = self._fresh()

    def withdraw(self) -> None:
        """Take the request back, granted or not."""

        def leave(state: State) -> tuple[State, list[Event]]:
            own = state.entries.get(self.entry.id)
            told = [Event("withdrawn", own)] if own is not None and own.state not in OVER else []
            self.ticket.let_go()
            return state.without([self.entry.id]), told

        try:
            # It is dead all the same, and whoever watches it is told; a newer touchgate's queue is that one's to tidy.
            with suppress(QueueUnavailable, LeaseRefused):
                self.queue.change(leave)
        finally:
            self.ticket.close()

    def _until_granted(self) -> None:
        watching = Watching(self.queue.tickets, self.ticket)
        try:
            while True:
                own = self.queue.own(self.entry.id)  # as a rule it was woken because it was granted what it wants
                if own is not None and own.at == self.entry.at and own.state == HELD and self.ticket.there():
                    self.entry = own
                    return
                state = self._look()
                if self.entry.state == HELD:
                    return
                self._end(state)
                if watching.ticket is not self.ticket:
                    watching.close()
                    watching = Watching(self.queue.tickets, self.ticket)
                # A reservation has no process: its time, or a turn, ends it.
                dead = watching.watch(one for one in self.entry.watch if one not in state.entries or state.entries[one].runs)
                if not dead:
                    self._tell(state)
                    dead = self._sleep(watching, state)
                if dead:
                    self._bury(dead)
        finally:
            watching.close()

    def _look(self) -> State:
        """Read the queue; be in it again where it was lost, and awake where it passed this one over."""
        state = self.queue.read()
        own = None if state is None else state.entries.get(self.entry.id)
        if state is None or own is None or own.at != self.entry.at or _set_back(own) or not self.ticket.there():
            state = self.queue.change(self._enter_again, own=self.entry.id, between=self.patience.ask).state
            own = state.entries[self.entry.id]
        self.entry = own
        self._looked = clock.now()
        return state

    def _enter_again(self, state: State) -> tuple[State, list[Event]]:
        own, events = state.entries.get(self.entry.id), []
        if own is not None and own.at != self.entry.at:  # everything was lost, and the number is another's by now
            own, self.entry = None, replace(self.entry, id=state.next)
        if self.entry.id != self.ticket.number or not self.ticket.there():
            try:
                made = self.queue.tickets.make(self.entry.id, content_of(self._fresh()))
                if made is None:
                    self.entry, own = replace(self.entry, id=state.next), None
                    made = self.queue.tickets.make(self.entry.id, content_of(self._fresh()))
            except OSError as fault:
                raise QueueUnavailable(f"the ticket can't be made anew: {fault.strerror}") from fault
            if made is None:
                raise QueueUnavailable("the ticket was lost, and its number is another's")
            self.ticket.close()
            self.ticket = made
        if own is None:
            own = self._fresh()
            events.append(Event("again", own))
        after = own.after if own.after is not None and own.after > clock.now() else None
        return state.put(replace(own, asleep=False, after=after)), events

    def _fresh(self) -> Entry:
        return self.entry.waiting()

    def _end(self, state: State) -> None:
        """Raise what the queue or the clock says."""
        own = self.entry
        if own.state == CANCELLED:
            raise LeaseCancelled(own.why)
        if own.state == REFUSED:
            raise LeaseRefused(telling.why(own.why, self.patience.host))
        if own.state == LATE or self.patience.over():
            raise self.patience.late(telling.place(state, own, self.patience.host))
        self.patience.ask()

    def _tell(self, state: State) -> None:
        self.patience.tell(telling.place(state, self.entry, self.patience.host, estimated=True))

    def _sleep(self, watching: Watching, state: State) -> list[int]:
        """Until something may have changed; those that may have ended."""
        far = (self.patience.told or 0) > telling.GUESSED
        until = self._looked + (BLIND if watching.blind or not TOLD else FAR if far else LOOK)
        for number in self.entry.watch:
            until = min(until, _due(state, number, self._looked))
        if self.entry.after is not None:
            until = min(until, self.entry.after)
        while True:
            left = until - clock.now()
            if left <= 0:
                return self._overdue(watching, state)
            woken, ended = watching.sleep(min(left, self.patience.slice()))
            if woken or ended:
                return [] if woken else ended
            self.patience.ask()
            if self.patience.over():
                return []

    def _overdue(self, watching: Watching, state: State) -> list[int]:
        """Those whose time has come, so that the queue must be looked at by the scheduler; [] where a look of ours will do."""
        timed = [number for number in self.entry.watch if _due(state, number, self._looked) <= clock.now()]
        return timed or watching.dead()

    def _bury(self, numbers: list[int]) -> None:
        """Let the scheduler see that some are gone, or that their time is over."""
        tickets = self.queue.tickets
        if all(number in _ids(self.queue.read()) and tickets.settled_alive(number) for number in numbers):
            numbers = [number for number in numbers if self._time_over(number)]
            if not numbers:
                return

        def change(state: State) -> tuple[State, list[Event]]:
            state, events = ghosts(state, tickets, numbers)
            return passed_over(self.queue, state, events)

        self.queue.change(change, own=self.entry.id, between=self.patience.ask)

    def _time_over(self, number: int) -> bool:
        state = self.queue.read()
        return state is None or _due(state, number, self._looked) <= clock.now()

    def _take(self) -> Belt | None:
        """The locks of what was granted, None where the grant was taken back meanwhile."""
        soon: list[float] = []
        while True:
            found = belt.take(self.queue.folder, self.queue.modes, self.entry.shares)
            if not isinstance(found, belt.Busy):
                return self._taken(found)
            if found.replaced:
                continue
            with Watch(found.path) as watch:
                while True:
                    busy = belt.take(self.queue.folder, self.queue.modes, self.entry.shares, settle=(0.0,))
                    if not isinstance(busy, belt.Busy):
                        return self._taken(busy)
                    if busy.path != found.path or busy.replaced or not self._still_granted():
                        break
                    self._behind(busy)
                    if watch.sleep(min([self.patience.slice(), BLIND, *soon])):
                        soon = list(SOON)
                    elif soon:
                        soon.pop(0)
            if not self._still_granted():
                return None

    def _behind(self, busy: Busy) -> None:
        self.patience.begin()
        if self.patience.told != 0 or self.patience.over():
            place = Place(0, (telling.named(busy.holder, self.patience.host),))
            if self.patience.timeout != 0:
                self.patience.tell(place)
            if self.patience.over():
                raise self.patience.late(place)
        self.patience.ask()

    def _still_granted(self) -> bool:
        state = self.queue.read()
        own = None if state is None else state.entries.get(self.entry.id)
        return own is not None and own.state == HELD and own.token == self.entry.token and not own.asleep

    def _taken(self, taken: Belt) -> Belt | None:
        """Ours, if the queue still says so now that it is locked; with a token above that of whoever passed the queue by."""
        try:
            # Nobody takes back what was granted this moment; the queue need not be read again.
            if clock.now() < self.entry.since + TAKE / 2 or self._still_granted():
                last = taken.last_token()
                if last >= self.entry.token:
                    self._renumber(last)
                if last < self.entry.token:
                    return taken
        except BaseException:
            taken.give_back()
            raise
        taken.give_back()
        return None

    def _renumber(self, last: int) -> None:
        def change(state: State) -> tuple[State, list[Event]]:
            own = state.entries.get(self.entry.id)
            if own is None or own.state != HELD:
                return state, []
            token = max(state.token, last) + 1
            return replace(state.put(replace(own, token=token)), token=token), []

        state = self.queue.change(change, own=self.entry.id).state
        self.entry = state.entries.get(self.entry.id, self.entry)


def passed_over(queue: Queue, state: State, events: list[Event]) -> tuple[State, list[Event]]:
    """Whoever was granted something and does not take it waits again, behind everybody until it looks."""
    now = clock.now()
    for one in list(state.entries.values()):
        if one.state != HELD or one.reserves or one.taken or now - one.since < TAKE:
            continue
        seen = belt.seen_token(queue.folder, one.shares)
        if seen is None:
            back = replace(one, state=WAITING, whole=False, gpus=(), token=0, granted="", within=None, asleep=True)
            state = state.put(back)
            events = [*events, Event("passed over", back, "its run does not answer")]
        elif seen == one.token:
            state = state.put(replace(one, taken=True))
    return state, events


def _set_back(own: Entry) -> bool:
    """Whether it is served only once it says that it is there: it was passed over, or its pause is over."""
    return own.asleep or (own.after is not None and own.after <= clock.now())


def _ids(state: State | None) -> set[int]:
    return set() if state is None else set(state.entries)


def _due(state: State, number: int, looked: float) -> float:
    """When time alone changes something about one that keeps us."""
    one = state.entries.get(number)
    if one is None:
        return looked
    if one.state == WAITING:
        return min((time for time in (one.deadline, one.after) if time is not None), default=float("inf"))
    if one.until is not None:
        return one.until
    return float("inf") if one.taken else max(one.since, looked) + TAKE
