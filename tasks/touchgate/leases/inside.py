"""A run inside a lease that its own tree already holds: it must not wait for itself.

Whoever runs under a lease has TOUCHGATE_LEASE_TOKEN in its environment. If that token is still held by this user, and this
process has the lease's descriptors or is a descendant of the holder, it works inside its lease. Nobody is kept apart here
from others of the same tree.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from touchgate.leases import process
from touchgate.leases.engine import LeaseLost, LeaseRefused
from touchgate.leases.model import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from touchgate.leases.engine import Engine, Grant, Holder, Status
    from touchgate.leases.model import Want

TOKEN = "TOUCHGATE_LEASE_TOKEN"  # noqa: S105 - a number that everybody may see
DESCRIPTORS = "TOUCHGATE_LEASE_FDS"
HALVES = "TOUCHGATE_LEASE_HALVES"
"""Of a lease of several hosts without a server, whose token is the greatest of theirs: `spark-1=17,spark-2=18`."""


def to_children(grant: Grant) -> dict[str, str]:
    """The variables that tell a child which lease it works under, and which descriptors keep it."""
    kept = ",".join(_mark(descriptor) for descriptor in grant.descriptors)
    halves = ",".join(f"{host}={token}" for host, token in getattr(grant, "halves", {}).items())
    return {TOKEN: str(grant.token), **({DESCRIPTORS: kept} if kept else {}), **({HALVES: halves} if halves else {})}


def _mark(descriptor: int) -> str:
    seen = os.fstat(descriptor)
    return f"{descriptor}:{seen.st_dev}:{seen.st_ino}"


def inherited(environ: Mapping[str, str]) -> tuple[int, ...]:
    """The lease's descriptors that this process really has: a program in between may have closed them."""
    found = []
    for mark in filter(None, environ.get(DESCRIPTORS, "").split(",")):
        number = mark.partition(":")[0]
        try:
            if number.isdecimal() and _mark(int(number)) == mark:
                found.append(int(number))
        except (OSError, OverflowError):  # closed
            continue
    return tuple(found)


def held_already(engine: Engine, environ: Mapping[str, str], user: str) -> list[Holder]:
    """What the lease holds that the environment tells of, if it still lives and is this user's."""
    token = environ.get(TOKEN, "")
    if not token.isdecimal():
        return []
    # Another host's half is held there by the account that ssh logs in as.
    halves = set(filter(None, environ.get(HALVES, "").split(",")))
    return [
        one
        for one in _status(engine, halves).holders
        if one.alive and (f"{one.resource}={one.token}" in halves or (one.token == int(token) and one.user == user))
    ]


def _status(engine: Engine, halves: Iterable[str]) -> Status:
    """What matters of it: to ask hosts of which the lease has nothing may take long."""
    of = getattr(engine, "status_of", None)
    if of is None:
        return engine.status()
    seen: Status = of([half.partition("=")[0] for half in halves])
    return seen


def covers(held: Iterable[Share], want: Want) -> bool:
    """Whether what is held is enough for `want`."""
    shares = [share for share in held if not want.names or share.host in want.names]
    whole = {share.host for share in shares if share.gpu is None}
    if want.hosts:
        return len(whole) >= want.hosts
    per_host = Counter(share.host for share in shares if share.gpu is not None and (not want.among or share.gpu in want.among))
    return bool(whole) or max(per_host.values(), default=0) >= want.gpus


class Inside:
    """The grant of a run inside its tree's own lease. Closing it ends nothing: the lease is the outer run's."""

    def __init__(self, engine: Engine, environ: Mapping[str, str], user: str, held: Sequence[Holder]) -> None:
        self._engine, self._environ, self._user = engine, environ, user
        self.token = int(environ[TOKEN])
        self.shares = tuple(share_of(one.resource) for one in held)
        self.since = held[0].since or ""
        self.where = f"inside the lease of {held[0].user}, pid {held[0].pid}, that this run was started under"
        self.notes: tuple[str, ...] = ()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Those inherited."""
        return inherited(self._environ)

    def check(self) -> None:
        """Raises `LeaseLost` where the outer lease has ended."""
        held = {share_of(one.resource) for one in held_already(self._engine, self._environ, self._user)}
        if not held.issuperset(self.shares):
            raise LeaseLost(f"the lease that this run was started under (token {self.token}) has ended")

    def close(self) -> None:
        """Nothing of its own to end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _above(pid: int | None) -> bool:
    """Whether a process is this one or above it. A token alone lets nobody in: everybody may see it."""
    mine = os.getpid()
    while mine > 1:
        if mine == pid:
            return True
        mine = process.parent(mine)
    return False


def share_of(resource: str) -> Share:
    """A share from its words (`str(Share)`)."""
    host, _, gpu = resource.partition("/")
    return Share(host, gpu or None)


def inside(engine: Engine, environ: Mapping[str, str], user: str, want: Want) -> Inside | None:
    """The grant of a run that works under a living lease of its own tree; None where it has to ask for one.

    Raises `LeaseRefused` where that lease holds less than `want`: waiting for the rest would be waiting for itself.
    """
    held = held_already(engine, environ, user)
    if not held or not (environ.get(HALVES) or inherited(environ) or any(_above(one.pid) for one in held)):
        return None
    grant = Inside(engine, environ, user, held)
    if not covers(grant.shares, want):
        has = ", ".join(str(share) for share in grant.shares)
        raise LeaseRefused(
            f"this runs under a lease of {has} (token {grant.token}), which does not cover {want}; ask for that outside, "
            "since waiting for it here would be waiting for itself"
        )
    return grant
