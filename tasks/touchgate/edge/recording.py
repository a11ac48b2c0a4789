"""One run as a line of the history, for `doit lanes stats`. An untouched run pays one small write for it, and no import."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from touchgate.gate.plan import in_suites_of_both, runs_in
from touchgate.outcome import Verdict
from touchgate.results import history
from touchgate.results.store import StoreFault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from touchgate.edge.options import RunOptions
    from touchgate.edge.session import Session
    from touchgate.gate.model import Lane
    from touchgate.reports.model import CheckReport, RunReport


def record(session: Session, report: RunReport) -> str | None:
    """Append the run to the history; None, or a note that says why it is not there."""
    lanes = in_suites_of_both(session.declared.head, session.declared.base)
    run = run_of(report, lanes, session.options, int(time.time()))
    try:
        history.append(session.store.make_own(), run)
    except (history.HistoryFault, StoreFault) as fault:
        return f"this run is not in the history for `doit lanes stats`: {fault}"
    return None


def run_of(report: RunReport, lanes: Mapping[str, Lane], options: RunOptions, now: int) -> history.Run:
    """What became of each lane of head. Left out are lanes that a name or the suite leaves out, or that measured nothing."""
    checks: dict[str, list[CheckReport]] = {}
    for check in report.checks:
        checks.setdefault(check.lane, []).append(check)
    ran: dict[str, float] = {}
    reused, skipped = [], []
    shadow = {}
    for lane in report.lanes:
        its = checks.get(lane.name, ())
        if lane.name not in lanes:
            continue
        if lane.shadow:
            shadow[lane.name] = history.Shadowed(lane.seconds, shadow_verdict(its))
        elif not lane.runs:
            if not lane.set_aside and runs_in(report.suite, lanes[lane.name].suites):
                skipped.append(lane.name)
        elif any(check.verdict not in (None, Verdict.UNMEASURED) and not check.cached for check in its):
            ran[lane.name] = lane.seconds
        elif any(check.reused for check in its):
            reused.append(lane.name)
    return history.Run(
        when=now,
        head=report.head,
        suite=report.suite,
        exit=report.exit,
        seconds=report.seconds,
        why=_why(report, options),
        ran=ran,
        reused=tuple(reused),
        skipped=tuple(skipped),
        shadow=shadow,
    )


def shadow_verdict(checks: Sequence[CheckReport]) -> str:
    """What a shadowed lane's checks say of its skip: a failure contradicts it, passes without an error agree."""
    if any(check.verdict is not None and check.verdict.is_failure for check in checks):
        return history.FALSE_SKIP
    whole = all(check.verdict in (Verdict.PASSED, Verdict.UNMEASURED) for check in checks)
    return history.AGREED if whole and any(check.passed for check in checks) else history.UNMEASURED


def _why(report: RunReport, options: RunOptions) -> str:
    if options.names:
        return "named"
    if options.all_lanes:
        return "all"
    if report.open_reason:
        return "open"
    return "due" if report.due else "touched"
