"""Leases of one host by files that its users share: `queue.json` says whose turn it is, the kernel's locks who lives.

See docs/lease.md. Three belts lie one below the other: the queue (order, reservations, drains), a ticket for each request
(its life is that of the processes that have it), and the locks that exclude whatever becomes of the queue.
"""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from touchgate.leases import audit, belt, clock, holder, process, record, telling
from touchgate.leases.adopting import adopted
from touchgate.leases.directory import LeaseDirectory, absent, lease_directory, prepare, unfit, unseen
from touchgate.leases.engine import HostState, LeaseCancelled, LeaseLost, LeaseRefused, LeaseTimeout, Status
from touchgate.leases.grant import FilesGrant
from touchgate.leases.holder import user_name
from touchgate.leases.model import Priority, Share
from touchgate.leases.queue import Queue, QueueUnavailable, content_of, ghosts
from touchgate.leases.shared import modes
from touchgate.leases.state import CANCELLED, HELD, HOST, WAITING, Entry, Event, State
from touchgate.leases.unordered import unordered
from touchgate.leases.waiter import Patience, Waiter, passed_over

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from touchgate.leases.belt import Belt
    from touchgate.leases.engine import Ask, Grant, Holder, Place
    from touchgate.leases.model import Want
    from touchgate.leases.state import Turn
    from touchgate.leases.tickets import Ticket

__all__ = ["FilesEngine", "LeaseCancelled", "LeaseDirectory", "LeaseLost", "LeaseRefused", "LeaseTimeout", "lease_directory"]

TRIES = 1000
"""Numbers to try for a ticket, in a queue that was lost while its tickets lived."""


class FilesEngine:
    """Keeps the leases of one host in one folder. No daemon: whoever changes the queue takes the scheduler's turn."""

    def __init__(self, directory: LeaseDirectory, *, host: str | None = None, gpus: Sequence[str] = ()) -> None:
        """host: what this host is called by those who ask here. gpus: UUIDs of all its GPUs, as far as known."""
        self.directory = directory
        self._host = host or socket.gethostname()
        self._gpus = tuple(dict.fromkeys(gpus))
        self.where = f"files in {directory.path} ({directory.why})"

    def acquire(self, ask: Ask, *, on_wait: Callable[[Place], None], cancelled: Callable[[], bool] | None = None) -> Grant:
        """Wait for a grant: see `touchgate.leases.engine.Engine`."""
        return self._acquire(ask, 0, on_wait, cancelled)

    def below(
        self, ask: Ask, token: int, *, on_wait: Callable[[Place], None], cancelled: Callable[[], bool] | None = None
    ) -> Grant:
        """The same beneath another engine's grant, whose token is `token`: that of this one is larger."""
        return self._acquire(ask, token, on_wait, cancelled)

    def _acquire(
        self, ask: Ask, above: int, on_wait: Callable[[Place], None], cancelled: Callable[[], bool] | None
    ) -> FilesGrant:
        queue = self._ready()
        patience = Patience(ask.timeout, on_wait, cancelled, self._host)
        wanted = self._entry(ask.want, ask.what, ask.seconds, ask.priority, ask.url)
        waiter: Waiter | None = None
        try:
            waiter = self._asked(queue, wanted, ask.timeout, above, patience)
            if ask.timeout == 0 and waiter.entry.state == WAITING:
                state = queue.read()
                raise patience.late(telling.place(state or State(""), waiter.entry, self._host))  # noqa: TRY301 - it is withdrawn
            patience.begin()
            entry, taken = waiter.wait()
        except QueueUnavailable as fault:
            if waiter is not None:
                waiter.ticket.close()
            return self._beside(queue, wanted, above, patience, str(fault))
        except BaseException:
            if waiter is not None:
                waiter.withdraw()
            raise
        return self._grant(queue, entry, waiter.ticket, taken)

    def _asked(self, queue: Queue, wanted: Entry, timeout: float | None, above: int, patience: Patience) -> Waiter:
        """The request in the queue, with a ticket. It may be granted by now."""
        made: list[tuple[Entry, Ticket]] = []

        def enter(state: State) -> tuple[State, list[Event]]:
            state, events = ghosts(self._known(state), queue.tickets)
            state, events = passed_over(queue, state, events)
            deadline = wanted.at + timeout if timeout else None
            entry, ticket = self._ticket(queue, wanted.but(id=state.next, deadline=deadline))
            made.append((entry, ticket))
            return replace(state.put(entry), token=max(state.token, above)), [*events, Event("asked", entry)]

        try:
            state = queue.change(enter, own=-1, between=patience.ask).state
        except BaseException:
            for entry, ticket in made:
                ticket.close()
                queue.tickets.remove(entry.id)
            raise
        entry, ticket = made[0]
        return Waiter(queue, state.entries.get(entry.id, entry), ticket, patience)

    def _ticket(self, queue: Queue, entry: Entry) -> tuple[Entry, Ticket]:
        """With the next number that no living ticket has."""
        try:
            for number in range(entry.id, entry.id + TRIES):
                entry = entry.but(id=number)
                ticket = queue.tickets.make(number, content_of(entry))
                if ticket is not None:
                    return entry, ticket
        except OSError as fault:
            raise QueueUnavailable(f"a ticket in {queue.tickets.folder} can't be made: {fault.strerror}") from fault
        raise QueueUnavailable(f"the tickets in {queue.tickets.folder} are not those of this queue")

    def _known(self, state: State) -> State:
        """With the GPUs that this run sees."""
        new = [gpu for gpu in self._gpus if gpu not in state.gpus]
        return replace(state, gpus=(*state.gpus, *new)) if new else state

    def _grant(self, queue: Queue, entry: Entry, ticket: Ticket | None, taken: Belt, note: str = "") -> FilesGrant:
        shares = tuple(Share(self._host, share.gpu) for share in entry.shares)
        grant = FilesGrant(queue, entry, shares, ticket, taken, self.where, partial(self._grant, queue))
        fault = taken.write(
            record.Record(
                resource=HOST,
                user=entry.user,
                pid=entry.pid or 0,
                started=entry.started,
                namespace=entry.namespace,
                host=socket.gethostname(),
                what=entry.what,
                since=entry.granted,
                token=entry.token,
                inode=0,
                url=entry.url,
            )
        )
        grant.notes = tuple(filter(None, (self.directory.alone, note, fault)))
        grant.took()
        return grant

    def _beside(self, queue: Queue, wanted: Entry, above: int, patience: Patience, why: str) -> FilesGrant:
        """Where the queue can't be changed: the locks alone, in no order."""
        entry, taken = unordered(queue, wanted, self._known(queue.read() or State("")), above, patience)
        audit.append(
            queue.folder, queue.modes, [audit.line(Event("unordered", entry, why), audit.now(), wanted.user, self._host)]
        )
        return self._grant(queue, entry, None, taken, f"{why}; the lease was had without order among those who wait")

    def status(self) -> Status:
        """Who holds what, and who waits. Takes no lock."""
        path = self.directory.path
        if absent(path):
            return Status(self.where, (HostState(self._host, self._gpus),))
        hidden = unseen(path)
        if hidden is not None:
            raise LeaseRefused(hidden)
        notes = [fault for fault in (unfit(path),) if fault]
        queue = self._queue()
        state = queue.read()
        if state is None:
            state = State("")
            if os.path.lexists(path / "queue.json"):
                notes.append(f"the queue {path / 'queue.json'} can't be read; the next run that asks makes it anew")
        state = self._known(state)
        living: dict[int, bool] = {}

        def alive(one: Entry) -> bool:
            if one.id not in living:
                living[one.id] = queue.tickets.alive(one.id) or self._locked(one)
            return living[one.id]

        def note(one: Entry) -> str:
            if not alive(one):
                return "killed; whoever asks next finds its lease free"
            return _fate(queue, one) if queue.tickets.alive(one.id) else "its ticket was deleted while it held it"

        found = telling.held(state, self._host, alive, note)
        gone = [one.id for one in state.entries.values() if one.state == WAITING and one.runs and not alive(one)]
        state = state.without(gone)
        return Status(
            where=self.where,
            hosts=(HostState(self._host, state.gpus, state.drained),),
            holders=(*found, *self._beneath(found)),
            queue=telling.queued(state),
            notes=tuple(notes),
        )

    def _locked(self, one: Entry) -> bool:
        """Whether a holder whose ticket is gone still has what excludes: then nobody else can have that."""
        if one.state != HELD:
            return False
        names = (lock.stem for lock, exclusive in belt.paths(self.directory.path, one.shares) if exclusive)
        seen = [told for name in names for told in holder.status(self.directory.path, name)]
        return any(told.alive and told.token == one.token for told in seen)

    def _beneath(self, found: list[Holder]) -> list[Holder]:
        """Who has a lock that the queue knows nothing of."""
        path = self.directory.path
        known = {one.token for one in found if one.token is not None}
        busy = {one.resource for one in found if one.token is not None}
        listed = []
        for name in ["host", *sorted(lock.stem for lock in path.glob("gpu-*.lock"))]:
            for one in holder.status(path, name):
                told = telling.named(one, self._host)
                if told.token not in known and not (told.token is None and told.resource in busy):
                    listed.append(told)
        shared = None if any(one.alive for one in (*found, *listed)) else holder.sharer(path)
        return listed if shared is None else [*listed, telling.named(shared, self._host)]

    def reserve(self, want: Want, seconds: float, why: str, sha: str | None = None) -> int:
        """Be next for `seconds`, from when it is free; the reservation's id. It holds by the clock, without a process."""
        if not 0 < seconds < float("inf"):
            raise LeaseRefused("a reservation is for some time, longer than 0 s")
        made: list[int] = []
        wanted = replace(self._entry(want, why, float(seconds), Priority.DEVELOPMENT, None), reserves=True, pid=None, sha=sha)

        def enter(state: State) -> tuple[State, list[Event]]:
            state, events = ghosts(self._known(state), queue.tickets)
            entry = replace(wanted, id=state.next)
            made[:] = [entry.id]
            state = state.put(entry)
            refused = [one.id for one in state.decide(clock.now()).refused]
            told = [] if entry.id in refused else [Event("reserved", entry)]  # the turn tells of a refusal
            return state, [*events, *told]

        queue = self._ready()
        done = self._change(queue, enter)
        refused = {one.id: one.why for one in done.decision.refused}
        if made[0] in refused:
            raise LeaseRefused(telling.why(refused[made[0]], self._host))
        return made[0]

    def adopt(self, reservation: int, ask: Ask, sha: str | None) -> Grant:
        """A run's grant inside a reservation: see `touchgate.leases.engine.Engine`."""
        queue = self._ready()
        wanted = self._entry(ask.want, ask.what, ask.seconds, ask.priority, ask.url)
        made: list[tuple[Entry, Ticket]] = []

        def enter(state: State) -> tuple[State, list[Event]]:
            state, events = ghosts(self._known(state), queue.tickets)
            living = [
                one.id for one in state.entries.values() if one.state == HELD and one.runs and queue.tickets.alive(one.id)
            ]
            entry = adopted(state, living, reservation, replace(wanted, id=state.next), sha, self._host)
            entry, ticket = self._ticket(queue, entry)
            made.append((entry, ticket))
            return replace(state.put(entry), token=entry.token), [*events, Event("adopted", entry)]

        waiter: Waiter | None = None
        try:
            self._change(queue, enter)
            waiter = Waiter(queue, made[0][0], made[0][1], Patience(1.0, lambda _: None, None, self._host))
            waiter.patience.begin()
            entry, taken = waiter.wait()
        except BaseException as fault:
            if waiter is not None:
                waiter.withdraw()
            else:
                for _, ticket in made:
                    ticket.close()
            if isinstance(fault, LeaseTimeout):
                raise LeaseRefused(f"reservation {reservation}: another program has this host's lock: {fault}") from fault
            raise
        return self._grant(queue, entry, waiter.ticket, taken)

    def cancel(self, request: int) -> str:
        """Take back a request that waits, or end a reservation; in words what was. A run that holds is never ended."""
        said: list[str] = []
        queue = self._ready()
        user = user_name(os.geteuid())

        def take_back(state: State) -> tuple[State, list[Event]]:
            one = state.entries.get(request)
            if one is None or one.state not in (WAITING, HELD) or (one.runs and not queue.tickets.alive(request)):
                raise LeaseRefused(f"there is no request {request} that waits or holds; `doit lease status` lists them")
            whose = f"{record.printable(one.user)} ({record.printable(one.what)})"
            if one.runs and one.state == HELD:
                shares = ", ".join(telling.name(share, self._host) for share in one.shares)
                raise LeaseRefused(f"request {request} of {whose} holds {shares}; a run is never ended")
            if os.geteuid() not in (0, one.uid):
                raise LeaseRefused(f"request {request} is of {whose}; only they and root can take it back")
            why = f"the request was taken back by {user}, pid {os.getpid()}"
            said[:] = [f"{'reservation' if one.reserves else 'request'} {request} of {whose} is taken back"]
            if one.reserves:
                return state.without([request]), [Event("cancelled", one, why)]
            over = replace(one, state=CANCELLED, why=why, watch=())
            return replace(state.put(over), wakes=(request,)), [Event("cancelled", over, why)]

        self._change(queue, take_back)
        return said[0]

    def drain(self, host: str, why: str) -> None:
        """Grant nothing new on this host; who holds it goes on, who waits is refused."""
        self._drain(host, record.printable(why) or "drained", "drained")

    def undrain(self, host: str) -> None:
        """Take a drain back; of a host that is not drained nothing is changed."""
        self._drain(host, "", "undrained")

    def _drain(self, host: str, why: str, kind: str) -> None:
        if host != self._host:
            raise LeaseRefused(self._no_host(host))

        def change(state: State) -> tuple[State, list[Event]]:
            events = [Event(kind, None, why)] if why or state.drained else []
            return replace(state, drained=why), events

        self._change(self._ready(), change)

    def _change(self, queue: Queue, change: Callable[[State], tuple[State, list[Event]]]) -> Turn:
        """A person's change: on disk before it is told of."""
        try:
            return queue.change(change, durable=True)
        except QueueUnavailable as fault:
            raise LeaseRefused(f"{fault}; nothing was changed") from fault

    def _no_host(self, names: str) -> str:
        return f"there is no host {names}; there is {self._host}, as TOUCHGATE_HOST or the system calls it"

    def _ready(self) -> Queue:
        prepare(self.directory)
        return self._queue()

    def _queue(self) -> Queue:
        path = self.directory.path
        return Queue(path, modes(path), user_name(os.geteuid()), self._host)

    def _entry(self, want: Want, what: str, seconds: float | None, priority: Priority, url: str | None) -> Entry:
        """A request of this process, its id still to be given. Raises `LeaseRefused` where it names other hosts."""
        strange = [name for name in want.names if name != self._host]
        if want.names and self._host not in want.names:
            raise LeaseRefused(self._no_host(", ".join(strange)))
        pid = os.getpid()
        # A run can use the GPUs that it sees, not others that the queue has heard of.
        among = want.among or (self._gpus if want.gpus else ())
        return Entry(
            id=1,
            user=user_name(os.geteuid()),
            uid=os.geteuid(),
            at=clock.now(),
            asked=clock.iso(),
            what=record.printable(what),
            url=record.printable(url) if url else None,
            pid=pid,
            started=_started(pid),
            namespace=_namespace(pid),
            hosts=want.hosts,
            wants=want.gpus,
            among=tuple(among),
            priority=int(priority),
            seconds=None if seconds is None else float(seconds),
        )


@lru_cache(maxsize=2)
def _started(pid: int) -> str:
    """The mark of this process; a fork of it has another number."""
    return process.start_mark(pid) or ""


@lru_cache(maxsize=2)
def _namespace(_pid: int) -> str:
    return process.pid_namespace()


def _fate(queue: Queue, one: Entry) -> str:
    """What became of a run whose ticket lives, "" where it goes on."""
    if one.pid is None or one.namespace != process.pid_namespace() or process.start_mark(one.pid) == one.started:
        return ""
    try:
        lock = os.stat(queue.tickets.lock_path(one.id))  # noqa: PTH116
    except OSError:
        return ""
    return f"the run has ended; {holder.kept_by(process.keepers(lock))}"
