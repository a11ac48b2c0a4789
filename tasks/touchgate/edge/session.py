"""One run while it happens: slots, the lease, the store, and the outcome of every check.

Checks arrive from doit's threads. Those without a device share `jobs` slots; those on a GPU take turns under one lease.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
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
    from touchgate.edge.options import RunOptions
    from touchgate.edge.planning import Keyring, PlannedCheck
    from touchgate.gate.declared import Declared
    from touchgate.gate.model import Plan
    from touchgate.leases.files import Held, Holder
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
        self.choice = keyring.choice
        self.store = store
        self.keyring = keyring
        self.terminal = terminal
        self.finished: dict[str, Finished] = {}
        self.notes: list[str] = []
        self.began = began
        self.interrupted = False
        self.lease_refused = ""
        self.lease_words: str | None = None
        self._launcher: Launcher | None = None
        self._lock = threading.Lock()
        self._in_flight = 0
        self._quiet = threading.Condition()
        self._slots = threading.BoundedSemaphore(options.jobs)
        self._device_turn = threading.Lock()
        self._held: Held | None = None
        self._device_checks_left = sum(1 for check in self.checks if check.place == "gpu" and check.stored is None)

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
                return self._run_unless_known(check, ())
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
                    return self._finish(Finished(check, None, reason=self.lease_refused))
                if not held.still_ours():
                    self.lease_refused = "the lease's lock file was removed or replaced while it was held"
                    return self._finish(Finished(check, None, reason=self.lease_refused))
                return self._run_unless_known(check, (held.fileno(),))
            finally:
                self._device_checks_left -= 1
                if self._device_checks_left <= 0:
                    # The host is free for others while checks without a device go on.
                    self.close_lease()

    def _run_unless_known(self, check: PlannedCheck, fds: tuple[int, ...]) -> Finished:
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
                fds=fds,
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

    def _lease(self) -> Held | None:
        """The host's lease, asked for by the first check that needs it. None when it was refused."""
        if self._held is not None or self.lease_refused:
            return self._held
        from touchgate.leases import files  # noqa: PLC0415  only a run that reaches a GPU takes a lease
        from touchgate.leases.directory import LeaseRefused  # noqa: PLC0415

        directory = files.lease_directory(self.options.environ)
        asked = time.monotonic()
        blocker: list[str] = []

        def on_wait(holder: Holder) -> None:
            blocker.append(f"{holder.user}, pid {holder.pid}")
            self.terminal.waiting(f"waiting for the lease of this host: {holder}; --lease-timeout 0 gives up at once")

        what = " ".join(self.lanes)
        try:
            self._held = files.acquire(
                directory,
                what=what,
                timeout=self.options.lease_timeout * 60,
                on_wait=on_wait,
                job_url=job_url(self.options.environ),
                cancelled=lambda: self.interrupted,
            )
        except files.LeaseCancelled:
            raise Stopped from None
        except (files.LeaseTimeout, LeaseRefused) as refusal:
            self.lease_refused = str(refusal)
            self.terminal.note(f"lease: {refusal}")
            return None
        if self._held.record_fault:
            self.note(f"the lease is held, but nobody can see by whom: {self._held.record_fault}")
        waited = time.monotonic() - asked
        after = f" after {waited:.1f} s (was {blocker[-1]})" if blocker else ""
        self.lease_words = f"held{after}, kept in {directory.path} ({directory.why})"
        self.terminal.note(f"the lease of this host is {self.lease_words}")
        return self._held

    def close_lease(self) -> None:
        """End this process's hold. Children that are still alive keep the host until they end."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

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


def job_url(environ: Mapping[str, str]) -> str | None:
    """Where a forge shows this job, from its own variables; None outside of CI."""
    if environ.get("CI_JOB_URL"):
        return environ["CI_JOB_URL"]
    server, repo, run = (environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"))
    return f"{server}/{repo}/actions/runs/{run}" if server and repo and run else None


def lane_seconds(finished: Sequence[Finished]) -> float:
    """What a lane's checks took, cached ones not counted."""
    return sum(done.outcome.seconds for done in finished if done.outcome is not None and not done.cached)
