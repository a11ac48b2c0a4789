"""Leases of hosts that have no server in common: each host's own by files, the others' kept through one ssh connection each.

Hosts are taken one after the other in the order of their names, so two runs that want the same two can't wait for each
other; a run that can't have all gives back what it has. A request's number is its host's own and two digits for the host.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from touchgate.leases import clock
from touchgate.leases.engine import (
    HostState,
    LeaseCancelled,
    LeaseFault,
    LeaseLost,
    LeaseRefused,
    LeaseTimeout,
    LeaseUnfit,
    Status,
)
from touchgate.leases.holder import user_name
from touchgate.leases.model import Priority, Share, Want
from touchgate.leases.record import printable
from touchgate.leases.ssh import protocol
from touchgate.leases.ssh.connection import Broken, Connection
from touchgate.leases.ssh.grant import FarHalf, SshGrant, close_all
from touchgate.leases.ssh.protocol import Garbled, text, texts, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from touchgate.leases.engine import Ask, Grant, Place
    from touchgate.leases.files import FilesEngine
    from touchgate.leases.ssh.settings import Hosts

LATE = 30.0
"""Seconds that the far side may be late with saying that it was not granted in time: it looks for its GPUs first."""
STEP = protocol.PULSE
"""Seconds between two looks at what is had already, while the rest is waited for."""


class SshEngine:
    """Fulfils `touchgate.leases.engine.Engine`."""

    def __init__(self, settings: Hosts, files: FilesEngine | None = None, local: str = "") -> None:
        """files: this host's own leases. local: what it is called there, by default as in the settings.

        A host that the settings do not name has its own leases beside; several hosts are always of those named.
        """
        self._hosts, self._files = settings, files
        self._local = (local or settings.local) if files is not None else ""
        outside = (self._local,) if self._local and self._local not in settings.names else ()
        self._names = (*settings.names, *outside)
        self.where = f"the hosts of {settings.file}, by ssh"

    def acquire(self, ask: Ask, *, on_wait: Callable[[Place], None], cancelled: Callable[[], bool] | None = None) -> Grant:
        """Wait for a grant: see `touchgate.leases.engine.Engine`. Raises `LeaseUnfit` where another host is not fit."""
        names = self._could(ask.want)
        if self._files is not None and names[: ask.want.hosts or 1] == [self._local]:
            return self._files.acquire(replace(ask, want=replace(ask.want, names=())), on_wait=on_wait, cancelled=cancelled)
        deadline = None if ask.timeout is None else time.monotonic() + ask.timeout
        connections: dict[str, Connection] = {}
        halves: list[Grant | FarHalf] = []
        try:
            self._connect(names, connections, cancelled)
            chosen = self._chosen(ask.want, names, connections)
            for name in [name for name in connections if name not in chosen]:
                connections.pop(name).close()
            for name in sorted(chosen):
                left = None if deadline is None else max(0.0, deadline - time.monotonic()) if ask.timeout else 0.0
                want = Want(hosts=min(ask.want.hosts, 1), gpus=ask.want.gpus, among=ask.want.among)
                above = max((half.token for half in halves), default=0)
                one = replace(ask, want=want, timeout=left)
                halves.append(self._half(name, one, above, connections, on_wait, _Watch(halves, name, cancelled)))
            return SshGrant(halves)
        except BaseException as fault:
            close_all([*connections.values(), *halves])
            if isinstance(fault, LeaseTimeout) and halves:
                had = ", ".join(str(share) for half in halves for share in half.shares)
                raise LeaseTimeout(f"{fault}; {had} was had and is given back") from None
            raise

    def _could(self, want: Want) -> list[str]:
        """The hosts that may serve it, the local one first. Raises `LeaseRefused`."""
        known = self._names if want.hosts <= 1 else self._hosts.names
        strange = [name for name in want.names if name not in known]
        if strange:
            raise LeaseRefused(f"there is no host {', '.join(strange)} in {self._hosts.file}; there is {', '.join(known)}")
        if want.hosts <= 1 and not want.names and self._local:
            return [self._local]
        if self._local and self._local not in self._hosts.names and not want.names:
            raise LeaseRefused(
                f"{want} of {self._hosts.file} are of no use to this host, {self._local}, which is none of them; "
                "'local:' in the file, or TOUCHGATE_HOST, says which one it is"
            )
        listed = sorted(set(want.names or known), key=lambda name: (name != self._local, name))
        if want.hosts > len(listed):
            raise LeaseRefused(f"{want.hosts} hosts are wanted, and {self._hosts.file} has {', '.join(listed)}")
        return listed

    def _connect(self, names: list[str], connections: dict[str, Connection], cancelled: Callable[[], bool] | None) -> None:
        """To all of them at once, before anything is taken, so that whoever can't be reached keeps nobody waiting."""
        for name in names:
            if name != self._local:
                connections[name] = Connection(self._hosts, self._hosts.named(name))
        for connection in connections.values():
            connection.hello(cancelled)

    def _chosen(self, want: Want, names: list[str], connections: dict[str, Connection]) -> list[str]:
        """As many as are wanted: the local one, then those where fewest hold or wait, and none is drained."""
        count = max(want.hosts, 1)
        if count == len(names):
            return names
        found = {name: self._status(connections[name]) for name in names if name in connections}
        if self._files is not None and self._local in names:
            found[self._local] = self._files.status()

        def rank(name: str) -> tuple[bool, bool, int, str]:
            state = found[name]
            drained = any(host.drained for host in state.hosts)
            return drained, name != self._local, len(state.queue) + sum(one.alive for one in state.holders), name

        return sorted(names, key=rank)[:count]

    def _half(
        self,
        name: str,
        ask: Ask,
        above: int,
        connections: dict[str, Connection],
        on_wait: Callable[[Place], None],
        cancelled: Callable[[], bool],
    ) -> Grant | FarHalf:
        if self._files is not None and name == self._local:
            return self._files.below(ask, above, on_wait=on_wait, cancelled=cancelled)
        connection = connections[name]
        connection.send(do="acquire", above=above, of=_whose(), **self._of(name), **protocol.of_ask(ask))
        end = None if ask.timeout is None else time.monotonic() + ask.timeout + LATE
        try:
            while True:
                said = self._next(connection, end, cancelled)
                if said.get("event") == "granted":
                    return _granted(connection, said)
                if said.get("event") == "waiting":
                    on_wait(protocol.place_of(said))
                elif said.get("event") == "looking":  # granted; how long its preflight may take is its own to say
                    end = None
        except Broken as fault:
            raise LeaseRefused(f"{fault}; the request for {name} ended with it") from None
        except Garbled as fault:
            raise LeaseRefused(f"{name}: what its touchgate said can't be understood: {fault}") from None

    def _next(self, connection: Connection, end: float | None, cancelled: Callable[[], bool] | None) -> dict[str, Any]:
        """What comes next, unless it is a fault. The far side gives a sign of life while it waits."""
        name = connection.host.name
        while True:
            until = time.monotonic() + STEP
            said = connection.event(until if end is None else min(until, end), cancelled)
            if said is not None:
                _raise(name, said)
                return said
            if end is not None and time.monotonic() >= end:
                raise LeaseTimeout(f"{name}: no answer in time, as from a touchgate there that was stopped")
            if connection.silent() > protocol.SILENCE:
                raise Broken(
                    f"{name}: no sign of life for {protocol.SILENCE:.0f} s, as from a touchgate there that was stopped"
                )

    def _of(self, name: str) -> dict[str, str]:
        return {"host": name, "directory": self._hosts.named(name).lease_dir}

    def _asked(self, connection: Connection, do: str, event: str, **content: Any) -> dict[str, Any]:
        """The answer to one question. Raises `LeaseRefused` and what the far side says."""
        name = connection.host.name
        connection.send(do=do, **self._of(name), **content)
        try:
            said = self._next(connection, time.monotonic() + protocol.ANSWER, None)
        except (Broken, LeaseTimeout) as fault:
            raise LeaseRefused(str(fault)) from None
        if said.get("event") != event:
            raise LeaseRefused(f"{name}: what its touchgate said can't be understood: {printable(str(said.get('event')), 40)}")
        return said

    def _status(self, connection: Connection) -> Status:
        said = self._asked(connection, "status", "status").get("status")
        try:
            return protocol.status_of(said if isinstance(said, dict) else {})
        except Garbled as fault:
            raise LeaseRefused(f"{connection.host.name}: what its touchgate said can't be understood: {fault}") from None

    def status(self) -> Status:
        """Who holds what on all hosts, and who waits. A host that can't be reached is a note."""
        return self.status_of(self._names)

    def status_of(self, names: Iterable[str]) -> Status:
        """The same of this host and of `names`."""
        wanted = {self._local, *names}
        connections: dict[str, Connection] = {}
        found: dict[str, Status] = {}
        notes = []
        try:
            for name in self._names:
                if name in wanted and name != self._local:
                    try:
                        connections[name] = Connection(self._hosts, self._hosts.named(name))
                    except LeaseFault as fault:
                        notes.append(f"not seen: {fault}")
            if self._files is not None and self._local:
                try:
                    found[self._local] = self._files.status()
                except LeaseFault as fault:
                    notes.append(f"not seen: {self._local}: {fault}")
            for name, connection in connections.items():
                try:
                    connection.hello()
                    found[name] = self._status(connection)
                except LeaseFault as fault:
                    notes.append(f"not seen: {fault}")
        finally:
            close_all(list(connections.values()))
        listed = [(name, found[name]) for name in self._names if name in found]
        return Status(
            where=self.where + "".join(f"; {name}: {one.where}" for name, one in listed),
            hosts=tuple(HostState(name, host.gpus, host.drained) for name, one in listed for host in one.hosts),
            holders=tuple(self._numbered(name, holder) for name, one in listed for holder in one.holders),
            queue=tuple(replace(queued, id=self._number(name, queued.id)) for name, one in listed for queued in one.queue),
            notes=(*(f"{name}: {note}" for name, one in listed for note in one.notes), *notes),
        )

    def _numbered(self, name: str, holder: Any) -> Any:
        return holder if holder.id is None else replace(holder, id=self._number(name, holder.id))

    def _number(self, name: str, own: int) -> int:
        return own * 100 + self._names.index(name) + 1

    def _named(self, number: int) -> tuple[str, int]:
        """The host that a number tells of, and its own number there. Raises `LeaseRefused`."""
        own, place = divmod(number, 100)
        if not 0 < place <= len(self._names) or own < 1:
            raise LeaseRefused(
                f"there is no request {number}; the last two digits of one are its host's, 01 to {len(self._names):02}"
            )
        return self._names[place - 1], own

    def reserve(self, want: Want, seconds: float, why: str, sha: str | None = None) -> int:
        """Be next on one host: see `touchgate.leases.engine.Engine`. Of several at once it is refused."""
        names = self._could(want)
        if max(want.hosts, 1) > 1 or len(names) > 1:
            raise LeaseRefused(
                "a reservation is of one host here, named: of several at once it takes a database that they share "
                f"(docs/fleet.md). There is {', '.join(names)}"
            )
        name = names[0]
        want = replace(want, names=())
        if self._files is not None and name == self._local:
            return self._number(name, self._files.reserve(want, seconds, why, sha))
        asked = protocol.of_ask(_reserving(want, seconds, why))
        said = self._person(name, "reserve", sha=sha or "", **asked)
        try:
            return self._number(name, whole(said, "said"))
        except Garbled as fault:
            raise LeaseRefused(f"{name}: what its touchgate said can't be understood: {fault}") from None

    def adopt(self, reservation: int, ask: Ask, sha: str | None) -> Grant:
        """A run's grant inside a reservation of this host: see `touchgate.leases.engine.Engine`."""
        name, own = self._named(reservation)
        if self._files is None or name != self._local:
            raise LeaseRefused(f"reservation {reservation} is of {name}; a run adopts one of the host that it runs on")
        if ask.want.hosts > 1:
            raise LeaseRefused(f"reservation {reservation} is of {name} alone, and the run wants {ask.want}")
        return self._files.adopt(own, replace(ask, want=replace(ask.want, names=())), sha)

    def cancel(self, request: int) -> str:
        """Take back a request that waits, or end a reservation, on its host; in words what was."""
        name, own = self._named(request)
        if self._files is not None and name == self._local:
            return f"{name}: {self._files.cancel(own)}"
        return f"{name}: {printable(text(self._person(name, 'cancel', number=own), 'said'))}"

    def drain(self, host: str, why: str) -> None:
        """Grant nothing new on a host; who holds it goes on, who waits is refused."""
        self._could(Want(hosts=1, names=(host,)))
        if self._files is not None and host == self._local:
            self._files.drain(host, why)
        else:
            self._person(host, "drain", why=why)

    def undrain(self, host: str) -> None:
        """Take a drain back."""
        self._could(Want(hosts=1, names=(host,)))
        if self._files is not None and host == self._local:
            self._files.undrain(host)
        else:
            self._person(host, "undrain")

    def _person(self, name: str, do: str, **content: Any) -> dict[str, Any]:
        connection = Connection(self._hosts, self._hosts.named(name))
        try:
            connection.hello()
            return self._asked(connection, do, "done", **content)
        finally:
            connection.close()


class _Watch:
    """Whether a wait is cancelled. What is had already is looked at meanwhile: without it there is nothing to wait for."""

    def __init__(self, halves: Sequence[Grant | FarHalf], name: str, cancelled: Callable[[], bool] | None) -> None:
        self._halves, self._name, self._cancelled = tuple(halves), name, cancelled
        self._looked = time.monotonic()

    def __call__(self) -> bool:
        """Raises `LeaseRefused`."""
        if time.monotonic() - self._looked >= STEP:
            self._looked = time.monotonic()
            try:
                for half in self._halves:
                    half.check()
            except LeaseLost as fault:
                raise LeaseRefused(f"{fault}; the wait for {self._name} ended with it") from None
        return self._cancelled is not None and self._cancelled()


def _reserving(want: Want, seconds: float, why: str) -> Ask:
    from touchgate.leases.engine import Ask  # noqa: PLC0415

    return Ask(want, why, seconds=seconds, priority=Priority.DEVELOPMENT)


def _whose() -> str:
    """For those who look at the other host, where the lease is an account's that several may use."""
    return f"for {user_name(os.geteuid())}, pid {os.getpid()} on {socket.gethostname()}"


def _granted(connection: Connection, said: dict[str, Any]) -> FarHalf:
    name = connection.host.name
    gpus = texts(said, "gpus")
    shares = tuple(Share(name, printable(gpu)) for gpu in gpus) or (Share(name),)
    notes = tuple(f"{name}: {printable(note)}" for note in texts(said, "notes"))
    since = printable(text(said, "since"), 40) or clock.iso()
    half = FarHalf(connection, shares, whole(said, "token"), since, f"{name}: {printable(text(said, 'where'))}", notes)
    connection.keeps = True
    return half


def _raise(name: str, said: dict[str, Any]) -> None:
    """What the far side says that ends a request."""
    why = f"{name}: {printable(text(said, 'why'), 2000)}"
    kinds: dict[object, type[LeaseFault]] = {
        "refused": LeaseRefused,
        "timeout": LeaseTimeout,
        "cancelled": LeaseCancelled,
        "unfit": LeaseUnfit,
    }
    kind = kinds.get(said.get("event"))
    if kind is not None:
        raise kind(why)
