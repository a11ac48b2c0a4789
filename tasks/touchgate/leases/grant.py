"""What a run has: its ticket in the queue, and the locks beneath. Looked at before every device check, closed once."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from touchgate.leases import clock
from touchgate.leases.engine import LeaseLost, LeaseRefused, LeaseUntold
from touchgate.leases.queue import QueueUnavailable, content_of
from touchgate.leases.state import HELD, Event
from touchgate.leases.waiter import Patience, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from touchgate.leases.belt import Belt
    from touchgate.leases.engine import Place
    from touchgate.leases.model import Share
    from touchgate.leases.queue import Queue
    from touchgate.leases.state import Entry, State
    from touchgate.leases.tickets import Ticket


class FilesGrant:
    """A lease by files. A context manager; leaving it closes and does not unlock: children may still work."""

    def __init__(
        self,
        queue: Queue,
        entry: Entry,
        shares: tuple[Share, ...],
        ticket: Ticket | None,
        belt: Belt,
        where: str,
        renew: Callable[[Entry, Ticket, Belt], FilesGrant],
    ) -> None:
        """renew: the grant of the same request, granted again."""
        self.token = entry.token
        self.shares = shares
        self.since = entry.granted
        self.where = where
        self.notes: tuple[str, ...] = ()
        self._queue, self._entry, self._ticket, self._belt, self._renew = queue, entry, ticket, belt, renew
        self._process = os.getpid()
        self._open = True

    @property
    def descriptors(self) -> tuple[int, ...]:
        """To hand to children (`pass_fds`): the lease lasts as long as one of them has one."""
        return (*self._belt.descriptors, *(() if self._ticket is None else self._ticket.descriptors))

    def check(self) -> None:
        """Before every device check: raises `LeaseLost` where the lease is not this run's any more."""
        if not self._open:
            raise LeaseLost(f"the lease (token {self.token}) is closed")
        why = self._belt.lost(self.token) or self._given_away()
        if why:
            raise LeaseLost(f"the lease (token {self.token}) is lost: {why}")

    def _given_away(self) -> str:
        """To whom the queue gave what this run has, or ""."""
        if self._ticket is None:
            return ""
        try:
            state = self._queue.read()
        except LeaseRefused as newer:
            why = f"whether the lease (token {self.token}) was given to another run can't be told: {newer}"
            raise LeaseUntold(why) from None
        for other in () if state is None else state.entries.values():
            if other.state != HELD or other.reserves or other.id == self._entry.id:
                continue
            if any(mine.meets(theirs) for mine in self._entry.shares for theirs in other.shares):
                return f"the queue gave it to {other.user}, pid {other.pid} ({other.what}), token {other.token}"
        return ""

    def close(self) -> None:
        """This process has done with it. The lease ends once no child has it either."""
        if not self._open:
            return
        self._open = False
        if os.getpid() != self._process:  # a forked child's copies; the run is not over
            self._belt.close(ended=False)
            if self._ticket is not None:
                self._ticket.close()
            return
        try:
            if self._ticket is not None:
                # Whoever watches its end finds it dead, if this can't be done; a newer touchgate's queue is no reason
                # to say that what ran under the lease went wrong.
                with suppress(QueueUnavailable, LeaseRefused):
                    self._queue.change(self._leave)
        finally:
            self._belt.close(ended=True)
            if self._ticket is not None:
                self._ticket.close()

    def _leave(self, state: State) -> tuple[State, list[Event]]:
        assert self._ticket is not None  # noqa: S101 - asked by `close`
        number = self._entry.id
        self._belt.close(ended=True)
        self._ticket.let_go()
        own = state.entries.get(number)
        if self._queue.tickets.alive(number):  # a child has it
            return state, [Event("closed", own or self._entry, "a process of the run still has it")]
        return state.without([number]), [Event("released", own or self._entry)]

    def again(
        self, pause: float, timeout: float | None, on_wait: Callable[[Place], None], cancelled: Callable[[], bool] | None
    ) -> FilesGrant | None:
        """Give it back to the front of the queue, and have it again after `pause` seconds; nobody overtakes it meanwhile.

        For a host that is not fit yet: nothing was done under it, and no child has it. None: it has no place to go back to
        (it was had without the queue, or in a reservation), and is held as before. Raises what `Engine.acquire` does; then it
        is closed.
        """
        ticket, queue, host = self._ticket, self._queue, self.shares[0].host
        if ticket is None or not self._open or self._entry.within is not None:
            return None
        waiting = self._entry.waiting().but(after=clock.now() + pause)

        def back(state: State) -> tuple[State, list[Event]]:
            self._belt.close(ended=True)
            self._open = False
            own = state.entries.get(waiting.id)
            if own is not None and own.at != waiting.at:  # everything was lost, and the number is another's: it asks anew
                return state, []
            return state.put(waiting), [Event("not fit", waiting, "the host was not fit; it goes back to the front")]

        try:
            queue.change(back, own=waiting.id)
        except (QueueUnavailable, LeaseRefused) as fault:
            if self._open:
                return None
            ticket.close()
            raise LeaseRefused(f"the lease was given back and can't be had again: {fault}") from fault
        waiter = Waiter(queue, waiting, ticket, Patience(timeout, on_wait, cancelled, host))
        try:
            waiter.patience.begin()
            entry, taken = waiter.wait()
        except QueueUnavailable as fault:
            waiter.ticket.close()
            raise LeaseRefused(f"the lease was given back and can't be had again: {fault}") from fault
        except BaseException:
            waiter.withdraw()
            raise
        return self._renew(entry, waiter.ticket, taken)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def took(self) -> None:
        """Say so in the ticket, from which a lost queue is put together again. Raises nothing."""
        if self._ticket is not None:
            with suppress(OSError):
                self._ticket.write(content_of(self._entry.but(watch=(), taken=True)))
