"""The lease of one run: what it asks for, what it got, and what its checks see of that."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.edge.durations import seconds_of
from touchgate.edge.waiting import Waiter, held_by, line, rough
from touchgate.leases import choose
from touchgate.leases.engine import Ask, LeaseMistake, LeaseRefused, LeaseTimeout, LeaseUnfit
from touchgate.leases.holder import user_name
from touchgate.leases.inside import Inside, inside, to_children
from touchgate.leases.model import Want
from touchgate.reports.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from touchgate.devices.probe import Gpu
    from touchgate.edge.devices import DeviceChoice
    from touchgate.gate.model import DeviceWish
    from touchgate.leases.engine import Engine, Grant, Holder, Place
    from touchgate.leases.model import Share
    from touchgate.reports.terminal import Terminal

UNFIT_WAIT = "TOUCHGATE_UNFIT_WAIT"
FIRST_LOOK, LAST_LOOK, LOOK = 2.0, 60.0, 1.0
"""Seconds between two looks at a host that is not fit: each pause is twice the one before. And for one look."""
WHOLE = ("host", "hosts")
"""Wishes of a lane that GPUs alone do not serve."""


def want_of(wishes: Iterable[DeviceWish], choice: DeviceChoice, host: str) -> Want:
    """What serves every lane of a run: hosts before the whole host, that before GPUs; of GPUs the most that one lane wants.

    GPUs are asked for among those equal to the first that is shown, since a result's key names the kind of GPU; where there
    are too few equal ones, among all that are shown. A host with a GPU that has no UUID or is split (MIG) is had whole.
    """
    listed = list(wishes)
    hosts = [wish.count for wish in listed if wish.kind == "hosts"]
    if hosts:
        return Want(hosts=max(hosts))
    if any(wish.kind == "host" for wish in listed) or not _told_apart(choice):
        return Want(hosts=1, names=(host,))
    count = max((wish.count for wish in listed if wish.kind == "gpu"), default=1)
    equal = [gpu for gpu in choice.shown if choice.gpu is not None and gpu.key_facts() == choice.gpu.key_facts()]
    among = equal if len(equal) >= count else choice.shown
    return Want(gpus=count, names=(host,), among=tuple(gpu.uuid for gpu in among if gpu.uuid))


def _told_apart(choice: DeviceChoice) -> bool:
    gpus = choice.shown + choice.present
    return bool(gpus) and all(gpu.uuid and not gpu.mig for gpu in gpus)


def granted_gpus(shares: Iterable[Share], choice: DeviceChoice, host: str) -> tuple[Gpu, ...]:
    """The GPUs of this host that were granted, in the order in which they are shown; () where they can't be told apart."""
    if not _told_apart(choice):
        return ()
    here = [share for share in shares if share.host == host]
    if any(share.gpu is None for share in here):
        return choice.shown
    uuids = {share.gpu for share in here}
    return tuple(gpu for gpu in choice.shown if gpu.uuid in uuids)


def pinned(wish: DeviceWish, gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """The UUIDs that a lane's checks may see: as many as it wants; () leaves all visible, as for a whole host."""
    if wish.kind in WHOLE:
        return ()
    return tuple(str(gpu.uuid) for gpu in gpus[: wish.count])


def this_host(environ: Mapping[str, str]) -> str:
    """This host's name among those that leases are of."""
    return choose.chosen(environ).host


def job_url(environ: Mapping[str, str]) -> str | None:
    """Where a forge shows this job, from its own variables; None outside of CI."""
    if environ.get("CI_JOB_URL"):
        return environ["CI_JOB_URL"]
    server, repo, run = (environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"))
    return f"{server}/{repo}/actions/runs/{run}" if server and repo and run else None


@dataclass(frozen=True)
class Wanted:
    """A run's request. timeout: seconds. reservation: the id to adopt, None to ask for a lease. sha: the commit judged."""

    want: Want
    what: str
    seconds: float | None
    timeout: float | None
    url: str | None
    reservation: str | None = None
    sha: str | None = None
    hint: str = "--timeout 0 gives up at once"


class NotFit(Exception):
    """The host is not fit for what was granted, or not known to be. A line, then who is in the way."""


class NeverFit(NotFit):
    """The same, and another look will find it again: a mistake in the host's settings."""


@dataclass(frozen=True)
class Lease:
    """What a run has. gpus: those granted here, () where they can't be told apart. words: for the report.

    locks: the files that keep it, as far as /proc tells. notes: what a person should know of it.
    """

    grant: Grant
    gpus: tuple[Gpu, ...]
    words: str
    locks: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def environment(self, wish: DeviceWish) -> dict[str, str]:
        """What a check of a lane sees beside its own variables."""
        visible = pinned(wish, self.gpus)
        return {**to_children(self.grant), **({"CUDA_VISIBLE_DEVICES": ",".join(visible)} if visible else {})}


def take(
    wanted: Wanted,
    choice: DeviceChoice,
    environ: Mapping[str, str],
    terminal: Terminal,
    cancelled: Callable[[], bool] | None,
) -> Lease:
    """The lease: inside the one that this run was started under, adopted from a reservation, or waited for.

    Raises what `touchgate.leases.engine` names.
    """
    host = this_host(environ)
    unfit_wait(environ)  # a mistake in it is told before anything is asked for
    engine = choose.engine(environ, [gpu.uuid for gpu in choice.present if gpu.uuid])
    say = terminal.waiting if wanted.timeout else _nothing  # who does not wait has nothing to say of waiting
    waiter = Waiter(str(wanted.want), say, terminal.place, wanted.hint)
    asked = time.monotonic()
    try:
        grant = _granted(engine, wanted, environ, waiter, cancelled)
    except LeaseTimeout as fault:
        raise LeaseTimeout(_with_holders(str(fault), waiter.behind)) from None
    except LeaseUnfit as fault:
        raise NotFit(str(fault)) from None
    finally:
        terminal.place("", None)
    waited = time.monotonic() - asked
    shares = ", ".join(str(share) for share in grant.shares)
    if not any(share.host == host for share in grant.shares):
        grant.close()
        raise LeaseRefused(f"what was granted ({shares}) is not of this host, {host}; {choose.HOST} names this host")
    own = not isinstance(grant, Inside)
    noise: tuple[str, ...] = ()
    if own:  # under an outer lease the outer run has looked, and its other processes are no strangers
        looks = _Looks(wanted, choice, host, environ, terminal)
        grant, noise = looks.until_fit(grant, asked, cancelled)
    gpus = granted_gpus(grant.shares, choice, host)
    was = f" (was {waiter.behind[0].user}, pid {waiter.behind[0].pid})" if waiter.behind and waiter.behind[0].pid else ""
    after = f" after {duration(waited)}{was}" if waiter.waited else ""
    inside_of = f", inside reservation {wanted.reservation}" if wanted.reservation and own else ""
    words = f"{shares}, held{after}{inside_of}; {grant.where}"
    return Lease(grant, gpus, words, _locks(grant) if own else (), (*grant.notes, *noise))


def _nothing(_: str) -> None:
    pass


def _with_holders(text: str, holders: Sequence[Holder]) -> str:
    """What an engine says of a wait in vain, with who was in the way where it does not say that."""
    told = [f"{one.resource} is held by {held_by(one)}" for one in holders if one.user not in text]
    return "; ".join([text, *told])


class _Looks:
    """The looks at the host before the first check: one, and where somebody is on it and that is asked for, more."""

    def __init__(
        self, wanted: Wanted, choice: DeviceChoice, host: str, environ: Mapping[str, str], terminal: Terminal
    ) -> None:
        self._wanted, self._choice, self._host, self._environ, self._terminal = wanted, choice, host, environ, terminal
        self._said = ""

    def until_fit(self, grant: Grant, asked: float, cancelled: Callable[[], bool] | None) -> tuple[Grant, tuple[str, ...]]:
        """The grant of a fit host, and what is to be noted of that. Raises `NotFit`; the grant is closed then.

        asked: when the lease was asked for, on the monotonic clock. A grant of a host that is not fit goes back to the front
        of the queue between two looks, so that nobody overtakes it and a person's reservation still comes first.
        """
        patience = 0.0 if self._wanted.timeout == 0 else unfit_wait(self._environ)
        began, step = time.monotonic(), FIRST_LOOK
        while True:
            try:
                return grant, _preflight(granted_gpus(grant.shares, self._choice, self._host), _locks(grant), self._environ)
            except NeverFit:
                grant.close()
                raise
            except NotFit as finding:
                left = min(began + patience - time.monotonic(), self._left(asked) - LOOK)
                if left <= 0:
                    grant.close()
                    raise NotFit(_looked_for(finding, patience, time.monotonic() - began)) from None
                found = self._again(grant, str(finding), min(step, left), asked, cancelled)
                if found is None:
                    grant.close()
                    raise
                grant, step = found, min(2 * step, LAST_LOOK)
            except BaseException:
                grant.close()
                raise

    def _left(self, asked: float) -> float:
        timeout = self._wanted.timeout
        return float("inf") if timeout is None else asked + timeout - time.monotonic()

    def _again(
        self, grant: Grant, finding: str, pause: float, asked: float, cancelled: Callable[[], bool] | None
    ) -> Grant | None:
        back = getattr(grant, "again", None)
        if back is None:  # a lease of several hosts, or of a database
            return None
        if finding != self._said:
            self._said = finding
            who = "; ".join(text.strip() for text in finding.splitlines())
            self._terminal.waiting(f"waiting for a fit host, at the front of the queue: {who}")
        left = self._left(asked)
        found: Grant | None = back(pause, None if left == float("inf") else left, self._moved, cancelled)
        return found

    def _moved(self, place: Place) -> None:
        """A wait behind somebody who came before after all: a reservation."""
        if place.holders:
            self._terminal.waiting(line(str(self._wanted.want), place, self._wanted.hint))


def unfit_wait(environ: Mapping[str, str]) -> float:
    """Seconds that a run waits for a host to be fit, by `UNFIT_WAIT`. Raises `LeaseMistake`."""
    text = environ.get(UNFIT_WAIT) or "0"
    if text == "0":
        return 0.0
    try:
        return float(seconds_of(text))
    except ValueError as fault:
        raise LeaseMistake(f"{UNFIT_WAIT}: {fault}, or 0") from None


def _looked_for(finding: NotFit, patience: float, seconds: float) -> str:
    said = str(finding)
    return f"{said}\n   it was looked at again for {rough(seconds)}" if patience else said


def settings_fault(environ: Mapping[str, str]) -> str:
    """What can't be meant in the settings of leases, "" where all can. Asks no host and makes nothing."""
    try:
        choose.directory(environ, choose.chosen(environ))
        unfit_wait(environ)
    except LeaseMistake as fault:
        return str(fault)
    return ""


def _preflight(gpus: Sequence[Gpu], locks: Sequence[Path], environ: Mapping[str, str]) -> tuple[str, ...]:
    """What is to be noted of a fit host. Of this run are its processes and who has its locks. Raises `NotFit`."""
    from touchgate import processes  # noqa: PLC0415
    from touchgate.devices import preflight  # noqa: PLC0415
    from touchgate.gate.model import Refusal  # noqa: PLC0415
    from touchgate.leases import process  # noqa: PLC0415

    try:
        settings = preflight.host_settings(environ)
    except Refusal as fault:
        raise NeverFit(f"whether the host is fit can't be known: {fault}") from None
    uuids = [str(gpu.uuid) for gpu in gpus]

    def ours() -> frozenset[int]:
        kept = (pid for lock in locks if lock.exists() for pid in process.keepers(lock.stat()))
        return processes.family(os.getpid()).union(kept)

    found = preflight.examine(uuids, ours, settings, environ)
    if not found.fit:
        raise NotFit("\n".join(found.lines()))
    return (found.line(),) if found.noise or found.taken else ()


def _locks(grant: Grant) -> tuple[Path, ...]:
    """The files behind the grant's descriptors that nobody else has locked: who has one after the run is of the run.

    A lock that several runs share, as those of single GPUs do the host's, says nothing of whose a process is.
    """
    found = []
    for descriptor in grant.descriptors:
        with suppress(OSError):
            if " WRITE " in Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii", errors="replace"):
                found.append(Path(f"/proc/self/fd/{descriptor}").readlink())
    return tuple(found)


def left_behind(lease: Lease) -> tuple[str, ...]:
    """The processes of a run that is over which still use a GPU or have its lease, a line for each. None is ended."""
    if isinstance(lease.grant, Inside):
        return ()
    from touchgate.leases.leftovers import leftovers  # noqa: PLC0415

    return tuple(f"left over: {one}" for one in leftovers(lease.locks, lease.grant.token))


def _granted(
    engine: Engine, wanted: Wanted, environ: Mapping[str, str], waiter: Waiter, cancelled: Callable[[], bool] | None
) -> Grant:
    outer = inside(engine, environ, user_name(os.geteuid()), wanted.want)
    if outer is not None:
        return outer
    ask = Ask(wanted.want, wanted.what, timeout=wanted.timeout, seconds=wanted.seconds, url=wanted.url)
    if wanted.reservation is None:
        return engine.acquire(ask, on_wait=waiter, cancelled=cancelled)
    if not (wanted.reservation.isascii() and wanted.reservation.isdecimal()):
        raise LeaseRefused(f"there is no reservation {wanted.reservation}: one is named by its number")
    return engine.adopt(int(wanted.reservation), ask, wanted.sha)
