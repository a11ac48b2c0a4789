"""One run while it happens: slots, the lease, the store, and the outcome of every check.

Checks arrive from doit's threads. Those without a device share `jobs` slots; those on a GPU take turns under one lease.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate import places
from touchgate.checks import Stopped
from touchgate.gate.git import GitFault
from touchgate.gate.model import Decision
from touchgate.gate.values import NamedTuple
from touchgate.outcome import Outcome, Verdict
from touchgate.results.store import ResultStore, StoreFault

if TYPE_CHECKING:
    from touchgate.checks.launcher import Launcher
    from touchgate.edge.devices import DeviceChoice
    from touchgate.edge.leasing import Lease
    from touchgate.edge.options import RunOptions
    from touchgate.edge.planning import Keyring, PlannedCheck
    from touchgate.gate.declared import Declared
    from touchgate.gate.model import DeviceWish, Plan
    from touchgate.reports.terminal import Terminal


SETTLING = 5.0
"""Seconds for the checks in flight to note how they ended, once nothing of them runs any more."""

SHELL_OWN = frozenset({"_", "OLDPWD", "PWD", "SHLVL"})


class Finished(NamedTuple):
    """What a check came to in this run. outcome None: it was never reached, `reason` says why."""

    check: PlannedCheck
    outcome: Outcome | None
    cached: bool = False
    reason: str = ""
    log: Path | None = None
    measured: str | None = None


class Session:
    """Everything that one run shares. `checks` is fixed at the start; `finished` grows."""

    def __init__(
        self,
        declared: Declared,
        plan: Plan,
        checks: Sequence[PlannedCheck],
        *,
        options: RunOptions,
        store: ResultStore,
        keyring: Keyring,
        terminal: Terminal,
        began: float,
        shadow: frozenset[str] = frozenset(),
    ) -> None:
        self.declared = declared
        self.plan = plan
        self.checks = tuple(checks)
        self.shadow = shadow
        self.options = options
        self.store = store
        self.keyring = keyring
        self.terminal = terminal
        self.finished: dict[str, Finished] = {}
        self.notes: list[str] = []
        self.began = began
        self.interrupted = False
        self.lease_refused = ""
        self.unfit = ""
        self.lease_words: str | None = None
        self._launcher: Launcher | None = None
        self._lock = threading.Lock()
        self._in_flight = 0
        self._quiet = threading.Condition()
        self._slots = threading.BoundedSemaphore(options.jobs)
        self._device_turn = threading.Lock()
        self._held: Lease | None = None
        self._had: Lease | None = None
        self._on_device = tuple(check for check in self.checks if check.place == "gpu" and check.stored is None)
        self._device_checks_left = len(self._on_device)

    @property
    def choice(self) -> DeviceChoice:
        """The device, by what is shown at first and by the lease once it is held."""
        return self.keyring.choice

    @property
    def launcher(self) -> Launcher:
        """Runs checks, each in a process of its own. Made by the first one: a run without checks does without."""
        with self._lock:
            if self._launcher is None:
                from touchgate.checks.launcher import Launcher  # noqa: PLC0415

                self._launcher = Launcher()
                if self.interrupted:
                    self._launcher.stop()
            return self._launcher

    # -- answering a check ------------------------------------------------------------------------------------------

    def reuse(self, check: PlannedCheck) -> bool:
        """Whether the check is answered by a stored result; then it is finished with it."""
        if check.stored is None:
            return False
        stored = check.stored
        self._finish(Finished(check, stored.outcome, cached=True, log=stored.log, measured=stored.when))
        return True

    def run(self, check: PlannedCheck) -> Finished:
        """Answer for a check, in the calling thread: run it, or find that another run just did."""
        with self._quiet:
            self._in_flight += 1
        try:
            return self._answer(check)
        finally:
            with self._quiet:
                self._in_flight -= 1
                self._quiet.notify_all()

    def _answer(self, check: PlannedCheck) -> Finished:
        if check.place is None:
            return self._finish(Finished(check, Outcome(Verdict.UNMEASURED, reason=check.why_not)))
        try:
            if check.place == "gpu":
                return self._run_on_gpu(check)
            with self._slots, self._key_lock(check):
                return self._run_unless_known(check, None)
        except Stopped:
            return self._finish(Finished(check, None, reason="interrupted"))
        except OSError as error:
            # No room for a log or a scratch folder, no process to be had: the check could not be run.
            where = f" ({error.filename})" if error.filename else ""
            reason = f"it could not be started: {error.strerror or error}{where}"
            return self._finish(Finished(check, Outcome(Verdict.ERROR, reason=reason)))

    def _run_on_gpu(self, check: PlannedCheck) -> Finished:
        with self._device_turn:
            try:
                held = self._lease()
                if held is None:
                    return self._finish(Finished(check, None, reason=self.unfit or self.lease_refused))
                return self._run_unless_known(check, held)
            finally:
                self._device_checks_left -= 1
                if self._device_checks_left <= 0:
                    # The host is free for others while checks without a device go on.
                    self.close_lease()

    def _run_unless_known(self, check: PlannedCheck, held: Lease | None) -> Finished:
        """After waiting for the lease or the key: look again, at what is on disk by now, then run."""
        from touchgate.results.contents import ContentsFault  # noqa: PLC0415
        from touchgate.results.keys import visible_environment  # noqa: PLC0415

        if self.interrupted:
            raise Stopped
        try:
            check = check._replace(key=self.keyring.keys([check])[check.spec.name])
        except (ContentsFault, GitFault) as fault:
            return self._finish(Finished(check, Outcome(Verdict.ERROR, reason=str(fault))))
        if not self.options.fresh and not check.shadow:
            stored = self.store.reusable(check.its_key.digest)
            if stored is not None:
                return self._finish(Finished(check, stored.outcome, cached=True, log=stored.log, measured=stored.when))
        self.terminal.start(check.spec.name)
        log = self._new_log(check)
        seen, _ = visible_environment(self.options.environ, check.spec.env)
        if held is not None:
            seen |= held.environment(self._wish(check))
        stamps = self.keyring.stamps(check.its_key)
        try:
            outcome = self.launcher.run(
                check.spec,
                place=str(check.place),
                root=self.keyring.root,
                build_dir=places.build_dir(self.options.environ),
                environ=seen,
                log=log,
                gpu=self.choice.uuid if check.place == "gpu" else None,
                fds=held.grant.descriptors if held is not None else (),
            )
        except Stopped:
            log.unlink(missing_ok=True)
            raise
        if check.place == "gpu" and outcome.device is None and outcome.verdict is not Verdict.UNMEASURED:
            # A command or a test suite opens the GPU itself; the worker saw no device.
            outcome = replace(outcome, device=self.choice.gpu.name if self.choice.gpu else None)
        return self._finish(self._keep(check, outcome, log, stamps))

    def _keep(self, check: PlannedCheck, outcome: Outcome, log: Path, stamps: Mapping[str, object]) -> Finished:
        """Store the result under its key, unless an input changed while the check ran."""
        from touchgate.results.contents import ContentsFault  # noqa: PLC0415

        try:
            now = self.keyring.keys([check])[check.spec.name].digest
        except (ContentsFault, GitFault) as fault:
            now = str(fault)
        if now != check.its_key.digest or self.keyring.stamps(check.its_key) != stamps:
            reason = "an input changed while it ran: the result is not kept"
            self.note(f"{check.spec.name}: {reason}")
            return Finished(check, outcome, log=log)
        try:
            stored = self.store.record(check.its_key, check.spec, outcome, log)
        except StoreFault as fault:
            self.note(f"{check.spec.name}: the result could not be kept: {fault}")
            return Finished(check, outcome, log=log)
        with contextlib.suppress(OSError):
            log.unlink()
        return Finished(check, outcome, log=stored.log, measured=stored.when)

    def _finish(self, finished: Finished) -> Finished:
        with self._lock:
            self.finished[finished.check.spec.name] = finished
        return finished

    def note(self, text: str) -> None:
        """Something a person should know beside the verdicts; printed now and kept for the report."""
        with self._lock:
            self.notes.append(text)
        self.terminal.note(text)

    def _new_log(self, check: PlannedCheck) -> Path:
        name = check.spec.name.replace("/", "_").replace(":", ".")
        import tempfile  # noqa: PLC0415

        descriptor, path = tempfile.mkstemp(prefix=f"touchgate-{name}-", suffix=".log")
        os.close(descriptor)
        return Path(path)

    @contextlib.contextmanager
    def _key_lock(self, check: PlannedCheck) -> Iterator[None]:
        """Two runs that want the same check wait for each other; without a writable store each does its own."""

        def waiting() -> None:
            self.terminal.waiting(f"{check.spec.name}: another run is measuring the same; its result will be reused")

        with self.store.key_lock(check.its_key.digest, on_wait=waiting, cancelled=lambda: self.interrupted):
            if self.interrupted:
                raise Stopped
            yield

    # -- the lease --------------------------------------------------------------------------------------------------

    def _lease(self) -> Lease | None:
        """The run's lease, asked for by the first check that needs it, and looked at before each. None: there is none."""
        if self.lease_refused or self.unfit:
            return None
        from touchgate.leases.engine import LeaseCancelled, LeaseFault, LeaseLost  # noqa: PLC0415  a GPU's run only

        try:
            if self._held is None:
                self._held = self._had = self._take()
            if self._held is not None:
                self._held.grant.check()
        except LeaseCancelled as fault:
            if self.interrupted:
                raise Stopped from None
            self.lease_refused = str(fault)
        except LeaseLost as fault:
            self.lease_refused = f"the lease is lost, so nothing more runs on the GPU: {fault}"
        except LeaseFault as fault:
            self.lease_refused = str(fault)
        if self.lease_refused:
            self.terminal.note(f"lease: {self.lease_refused}")
            self.close_lease()
        return self._held

    def _take(self) -> Lease | None:
        from touchgate.edge import leasing  # noqa: PLC0415

        host = leasing.this_host(self.options.environ)
        lanes = [self.declared.head[name] for name in dict.fromkeys(check.spec.lane for check in self._on_device)]
        wanted = leasing.Wanted(
            want=leasing.want_of([lane.device for lane in lanes], self.choice, host),
            what=" ".join(lane.name for lane in lanes),
            seconds=sum(lane.minutes for lane in lanes) * 60,
            timeout=self.options.lease_timeout * 60,
            url=leasing.job_url(self.options.environ),
            reservation=self.options.reservation,
            sha=self.declared.judged.change.head,
            hint="--lease-timeout 0 gives up at once",
        )
        try:
            lease = leasing.take(wanted, self.choice, self.options.environ, self.terminal, lambda: self.interrupted)
        except leasing.NotFit as finding:
            self.unfit = str(finding).partition("\n")[0]
            for line in str(finding).splitlines():
                self.note(line)
            return None
        if lease.gpus:
            self.keyring.choice = self.choice._replace(gpu=lease.gpus[0])
        for note in lease.notes:
            self.note(note)
        self.lease_words = lease.words
        self.terminal.note(f"lease: {lease.words}")
        return lease

    def _wish(self, check: PlannedCheck) -> DeviceWish:
        return self.declared.head[check.spec.lane].device

    def close_lease(self) -> None:
        """End this process's hold. Children that are still alive keep the host until they end."""
        held, self._held = self._held, None
        if held is not None:
            held.grant.close()

    def tell_leftovers(self) -> None:
        """What the run's lease finds still alive when everything is over."""
        if self._had is not None:
            from touchgate.edge import leasing  # noqa: PLC0415

            for line in leasing.left_behind(self._had):
                self.note(line)

    def interrupt(self) -> None:
        """Stop: no new check starts, live ones are ended with their children."""
        self.interrupted = True
        if self._launcher is not None:
            self._launcher.stop()
        with self._quiet:
            # A check that had just ended is being stored: it belongs in the report as what it came to.
            self._quiet.wait_for(lambda: self._in_flight == 0, SETTLING)

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes of head whose checks run: those that the plan runs, and those that shadow mode does."""
        names = (one.lane for one in self.plan.lanes if one.decision is Decision.RUN or one.lane in self.shadow)
        return tuple(name for name in names if name in self.declared.head)

    # -- afterwards -------------------------------------------------------------------------------------------------

    def withheld(self, check: PlannedCheck) -> tuple[str, ...]:
        """Names of the variables that the check did not see, a shell's own bookkeeping aside."""
        from touchgate.results.keys import visible_environment  # noqa: PLC0415

        names = visible_environment(self.options.environ, check.spec.env)[1]
        return tuple(name for name in names if name not in SHELL_OWN)

    def of_lane(self, lane: str) -> list[Finished]:
        """The finished checks of a lane."""
        return [done for done in self.finished.values() if done.check.spec.lane == lane]


def lane_seconds(finished: Sequence[Finished]) -> float:
    """What a lane's checks took, cached ones not counted."""
    return sum(done.outcome.seconds for done in finished if done.outcome is not None and not done.cached)
