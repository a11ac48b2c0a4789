"""What a run came to, as frozen values, and the exit code that follows from it.

Everything here is decided by others and told here; the one decision that lives here is `exit_code`, a pure function.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from touchgate.gate.values import NamedTuple
from touchgate.outcome import EMULATED, Verdict

INTERRUPTED = 130
BAD_USAGE = 3
"""Never answered by `exit_code`: a run with bad declarations or usage has no report."""
UNFIT = 69
NOT_GRANTED = 75
FAILED = 1
NOT_MEASURED = 2
PASSED = 0

WORDS = {
    Verdict.PASSED: "passed",
    Verdict.FAILED: "FAILED",
    Verdict.ERROR: "ERROR",
    Verdict.TIMED_OUT: "TIMED OUT",
    Verdict.UNMEASURED: "unmeasured",
}
"""The word for each verdict. What failed is in capitals, so that it is found without colour."""

NEVER_REACHED = "never reached"
SHADOW = "shadow"


class CheckReport(NamedTuple):
    """One check of a lane that runs.

    verdict: None for one never reached. cached: the verdict is an earlier run's. device: None, "emulated" or the GPU's
    name. seconds: wall time of the run that measured it. reason, detail, worst, cases, facts: as in
    `touchgate.outcome.Outcome`. log: path of the log. where: file:line:column of the declaration. measured: ISO time at
    which a cached result was measured. withheld: names of the variables that the check was not given. wants_gpu: a GPU
    is among the places where it can be measured. shadow: its lane was to be skipped, and was run to test the gate.
    """

    name: str
    lane: str
    kind: str
    about: str = ""
    verdict: Verdict | None = None
    cached: bool = False
    device: str | None = None
    seconds: float | None = None
    reason: str = ""
    detail: tuple[str, ...] = ()
    worst: Mapping[str, Any] | None = None
    cases: int | None = None
    facts: Mapping[str, Any] = MappingProxyType({})
    log: str | None = None
    where: str = ""
    measured: str | None = None
    withheld: tuple[str, ...] = ()
    wants_gpu: bool = False
    shadow: bool = False

    @property
    def passed(self) -> bool:
        """Whether it passed, now or earlier."""
        return self.verdict is Verdict.PASSED

    @property
    def reused(self) -> bool:
        """Whether an earlier pass stands for it."""
        return self.cached and self.passed

    @property
    def broken(self) -> bool:
        """Whether it failed, timed out or ended in an error."""
        return self.verdict in (Verdict.FAILED, Verdict.TIMED_OUT, Verdict.ERROR)

    @property
    def emulated(self) -> bool:
        """Whether the CPU stood in for the GPU."""
        return self.device == EMULATED

    @property
    def word(self) -> str:
        """The result in a word or two. An emulated pass says so, reused or not."""
        if self.verdict is None:
            return NEVER_REACHED
        word = "cached" if self.reused else WORDS[self.verdict]
        added = [EMULATED] if self.emulated and self.verdict is not Verdict.UNMEASURED else []
        added += [SHADOW] if self.shadow else []
        return f"{word} ({', '.join(added)})" if added else word


class Near(NamedTuple):
    """A touched path, the pattern that came nearest to it or took it back, and the file:line that declares that."""

    path: str
    pattern: str
    where: str


class LaneReport(NamedTuple):
    """One lane.

    decision: "run" or "skip". path, pattern, where: what fired, and the file:line that declares it, or the lane where nothing
    did. nearest: what came nearest then. minutes: its target. seconds: wall time that its checks took in this run. shadow: it
    is skipped by the decision, and run all the same to test it.
    """

    name: str
    decision: str
    reason: str
    path: str | None = None
    pattern: str | None = None
    where: str = ""
    minutes: float = 0.0
    seconds: float = 0.0
    shadow: bool = False
    nearest: Near | None = None

    @property
    def runs(self) -> bool:
        """Whether its checks run."""
        return self.decision == "run"

    @property
    def set_aside(self) -> bool:
        """Whether it was left out by what was asked for (names, a suite), not by what is touched."""
        return not self.runs and self.reason.startswith("not ")

    @property
    def over_target(self) -> bool:
        """Whether it took longer than the minutes it is meant to take."""
        return self.runs and 0 < self.minutes < self.seconds / 60


class Suspect(NamedTuple):
    """A touched path that may be what no pattern of a lane covers. why: what speaks for it, or "".

    pattern: the entry of `paths` that would cover it, as it stands in a lane file; None where YAML can't spell the name.
    """

    path: str
    why: str
    pattern: str | None


class FalseSkip(NamedTuple):
    """A check that failed in a lane that was to be skipped.

    where: file:line:column of the lane's declaration. suspects: likeliest first; all of the first rank, or all touched
    paths where nothing speaks for any. touched: how many paths are touched. earlier: ISO time at which the check passed
    under the same key, or None.
    """

    lane: str
    check: str
    where: str
    suspects: tuple[Suspect, ...]
    touched: int
    earlier: str | None = None


class RunReport(NamedTuple):
    """A whole run; before it starts, the same value without checks is what `Terminal.header` shows.

    base, head, merge_base, proof, base_from, head_from, open_reason: as in `touchgate.gate.model.Change`. due: why
    every lane is due although the change can be told (a schedule, the default branch), or None. touched: how many
    paths. device: a line such as "emulated: no NVIDIA driver". lease: what is held, or None. seconds: wall time.
    shadow_rate: the fraction of skipped lanes that was asked to run all the same.
    """

    base: str | None
    head: str | None
    merge_base: str | None
    proof: str
    base_from: str
    head_from: str
    open_reason: str | None
    due: str | None
    touched: int
    suite: str
    lanes: tuple[LaneReport, ...]
    checks: tuple[CheckReport, ...] = ()
    exit: int = 0
    seconds: float = 0.0
    device: str = ""
    lease: str | None = None
    reservation: str | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    shadow_rate: float = 0.0
    false_skips: tuple[FalseSkip, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many checks ended how, each counted once: a reused pass is under `cached`, not under `passed`."""
        counts = dict.fromkeys((*(verdict.value for verdict in Verdict), "cached", "never_reached"), 0)
        for check in self.checks:
            if check.verdict is None:
                counts["never_reached"] += 1
            else:
                counts["cached" if check.reused else check.verdict.value] += 1
        return counts

    @property
    def running(self) -> tuple[LaneReport, ...]:
        """The lanes that run."""
        return tuple(lane for lane in self.lanes if lane.runs)

    @property
    def untouched(self) -> tuple[LaneReport, ...]:
        """The lanes that don't, not even to test the decision."""
        return tuple(lane for lane in self.lanes if not lane.runs and not lane.shadow)

    @property
    def shadowed(self) -> tuple[LaneReport, ...]:
        """The lanes that are skipped, and run all the same to test that decision."""
        return tuple(lane for lane in self.lanes if lane.shadow)


class Judged(Protocol):
    """What `exit_code` looks at; a `RunReport` is one."""

    @property
    def lanes(self) -> Sequence[LaneReport]:
        """Every lane."""

    @property
    def checks(self) -> Sequence[CheckReport]:
        """Every check of the lanes that run."""


def unproven(report: Judged, *, require_device: bool) -> tuple[str, ...]:
    """Why a run that failed nothing is still no pass (exit 2): one sentence for each cause, none for a pass."""
    causes = [f"{check.name}: could not be run" for check in report.checks if check.verdict is Verdict.ERROR]
    causes += [f"{check.name}: never reached" for check in report.checks if check.verdict is None]
    passed = {check.lane for check in report.checks if check.passed}
    present = {check.lane for check in report.checks}
    for lane in report.lanes:
        if lane.runs and lane.name not in passed:
            none = "none of its checks passed" if lane.name in present else "no check of it was run"
            causes.append(f"lane {lane.name}: it runs, but {none}")
    if require_device:
        for check in report.checks:
            if check.verdict is Verdict.UNMEASURED:
                causes.append(f"{check.name}: unmeasured, and --require-device asks for a measurement")
            elif check.passed and check.wants_gpu and check.emulated:
                causes.append(f"{check.name}: passed emulated only, and --require-device asks for the GPU")
    return tuple(causes)


def exit_code(
    report: Judged,
    *,
    require_device: bool = False,
    interrupted: bool = False,
    lease_refused: bool = False,
    unfit: bool = False,
) -> int:
    """The exit code of a run, the first that applies: 130, 69, 75, 1, 2, 0.

    interrupted: by a signal. unfit: someone else owns the GPU. lease_refused: the lease was not granted in time.
    3 (bad declarations or usage) is given where these are found, before there is a run.
    """
    if interrupted:
        return INTERRUPTED
    if unfit:
        return UNFIT
    if lease_refused:
        return NOT_GRANTED
    if any(check.verdict is not None and check.verdict.is_failure for check in report.checks):
        return FAILED
    if unproven(report, require_device=require_device):
        return NOT_MEASURED
    return PASSED


def repeat(name: str, suite: str) -> str:
    """The one command that runs a check again, whatever is stored or touched."""
    option = "" if suite == "smoke" else f" --suite {shlex.quote(suite)}"
    return f"doit --fresh{option} {shlex.quote(name)}"
