"""What a run has on several hosts: a lease of each, looked at and given back together."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from touchgate.leases.engine import LeaseLost
from touchgate.leases.model import Share
from touchgate.leases.record import printable
from touchgate.leases.ssh import protocol
from touchgate.leases.ssh.connection import Broken

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self

    from touchgate.leases.engine import Grant
    from touchgate.leases.ssh.connection import Connection


class FarHalf:
    """The lease of another host, kept by its own touchgate as long as somebody here has the life line."""

    def __init__(
        self, connection: Connection, shares: tuple[Share, ...], token: int, since: str, where: str, notes: tuple[str, ...]
    ) -> None:
        self.token, self.shares, self.since, self.where, self.notes = token, shares, since, where, notes
        self._connection = connection
        self._asked = 0
        self._lock = threading.Lock()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The life line, to hand to children."""
        lifeline = self._connection.lifeline
        return () if lifeline < 0 else (lifeline,)

    def ask(self) -> None:
        """Let the far side look whether the lease is still its own."""
        self._asked += 1
        self._connection.send(do="check", number=self._asked)

    def answer(self) -> None:
        """What it says. Raises `LeaseLost`."""
        name = self._connection.host.name
        until = time.monotonic() + protocol.ANSWER
        try:
            while (said := self._connection.event(until)) is not None:
                if said.get("event") == "lost":
                    raise LeaseLost(
                        f"the lease of {name} (token {self.token}) is lost: {printable(protocol.text(said, 'why'))}"
                    )
                if said.get("event") == "held" and said.get("number") == self._asked:
                    return
        except Broken as fault:
            raise LeaseLost(f"the lease of {name} (token {self.token}) is lost with its connection: {fault}") from None
        raise LeaseLost(
            f"whether the lease of {name} (token {self.token}) is held can't be told: no answer in {protocol.ANSWER:.0f} s"
        )

    def check(self) -> None:
        """Raises `LeaseLost`."""
        with self._lock:
            self.ask()
            self.answer()

    def close(self) -> None:
        """Let go of the life line."""
        self._connection.close()


class SshGrant:
    """Leases of hosts, in the order in which they were taken. Its token is the greatest; each keeps its own."""

    def __init__(self, halves: Sequence[Grant | FarHalf]) -> None:
        self._halves = tuple(halves)
        self._open = True
        self.token = max(one.token for one in halves)
        self.shares: tuple[Share, ...] = tuple(share for one in halves for share in one.shares)
        self.since = max(one.since for one in halves)
        self.where = "; ".join(dict.fromkeys(one.where for one in halves))
        self.notes: tuple[str, ...] = tuple(note for one in halves for note in one.notes)
        self.halves = {share.host: one.token for one in halves for share in one.shares}
        """The token of each host."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """To hand to children: of the host's own lease, and the life lines of the others."""
        return tuple(descriptor for one in self._halves for descriptor in one.descriptors)

    def check(self) -> None:
        """Before every device check: raises `LeaseLost` where one of the leases is not this run's any more."""
        if not self._open:
            raise LeaseLost(f"the lease (token {self.token}) is closed")
        for one in self._halves:
            one.check()

    def close(self) -> None:
        """This process has done with it, all of it, the last taken first. Again is nothing."""
        if not self._open:
            return
        self._open = False
        close_all(self._halves)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def close_all(closing: Sequence[Grant | FarHalf | Connection]) -> None:
    """Close each, the last first, whatever one of them raises."""
    if closing:
        try:
            closing[-1].close()
        finally:
            close_all(closing[:-1])
