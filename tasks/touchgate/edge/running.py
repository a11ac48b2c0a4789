"""The three moments of a run: prepare (judge, plan, say so), tell (a check ended), conclude (report and exit code)."""

from __future__ import annotations

import stat
import sys
import time
from typing import TYPE_CHECKING, TextIO

from touchgate import places
from touchgate.edge import devices, recording
from touchgate.edge.planning import (
    Keyring,
    declare,
    plan_checks,
    plan_lanes,
    running_lanes,
    selected_lanes,
    verify_head,
)
from touchgate.edge.session import Finished, Session, lane_seconds
from touchgate.edge.usage import UsageFault
from touchgate.gate.located import did_you_mean
from touchgate.outcome import Verdict
from touchgate.reports import model
from touchgate.reports.terminal import Terminal
from touchgate.results.store import ResultStore, StoreFault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from touchgate.edge.loader import TouchgateLoader
    from touchgate.edge.options import RunOptions
    from touchgate.edge.planning import PlannedCheck
    from touchgate.edge.reporter import TouchgateReporter
    from touchgate.gate.change import Judged
    from touchgate.gate.declared import Declared
    from touchgate.gate.model import LaneDecision, Plan


def prepare(
    loader: TouchgateLoader, options: RunOptions, own: set[str], stream: TextIO, judged: Judged | None = None
) -> Session:
    """Everything up to the first check. `own`: names of the repository's own doit tasks. stream: where the report goes.

    judged: the change, where that was asked already.
    """
    repo = loader.repository
    if repo is None:
        raise UsageFault("no repository")
    declared = declare(
        repo,
        options.environ,
        base=options.base,
        head=options.head,
        reserved=loader.cmd_names,
        fetch=options.fetch,
        judged=judged,
    )
    for note in (*declared.judged.notes, *declared.vacant):
        print(note, file=sys.stderr)
    if not declared.head and not declared.vacant:
        raise UsageFault("no lane is declared: there is no tasks/*.yml; `doit lanes init` writes a first one")
    _refuse_clashes(declared, own)
    verify_head(repo, declared.judged.change, options)
    if options.topology == "pair" and not any(lane.device.kind == "hosts" for lane in declared.head.values()):
        raise UsageFault("--topology pair: no lane declares `device: {hosts: 2}`, so a second host would stand idle")
    lanes_named = tuple(name for name in options.names if name.partition(":")[0] not in own)
    options = options._replace(names=lanes_named)
    unknown = [name for name in lanes_named if not selected_lanes(declared.head, [name])]
    if unknown:
        if unknown[0].startswith("-"):
            raise UsageFault(f"'{unknown[0]}' stands behind a name: options come before names")
        hint = did_you_mean(unknown[0].partition(":")[0], declared.head)
        guess = f"; {hint}" if hint else ""
        raise UsageFault(f"'{unknown[0]}' is no lane, check or task of this repository{guess}; `doit list` shows all")
    plan = plan_lanes(declared, options)
    store = ResultStore(_own_folder(places.results_dir(options.environ)), str(repo.root))
    shadow = _shadowed(declared, plan, options)
    if running_lanes(declared, plan, shadow):
        from touchgate.results.contents import ContentsFault  # noqa: PLC0415

        keyring = Keyring(repo, declared.head, options.environ, devices.choose(options.device, options.environ), declared.base)
        try:
            checks = plan_checks(declared, plan, options, keyring, store, shadow)
        except ContentsFault as fault:
            raise UsageFault(str(fault)) from None
        _refuse_lease_settings(checks, options)
    else:
        checks = ()
        keyring = Keyring(repo, declared.head, options.environ, devices.DeviceChoice(None, "", gpu_only=False))
    terminal = Terminal(stream, options.environ, verbose=max(0, options.verbose - 1), workers=options.jobs)
    session = Session(
        declared,
        plan,
        checks,
        options=options,
        store=store,
        keyring=keyring,
        terminal=terminal,
        began=loader.began,
        shadow=shadow,
    )
    estimates = {check.spec.name: 0.0 if check.stored else store.estimate(check.spec.name) for check in checks}
    terminal.header(report_of(session)._replace(checks=()), estimates)
    return session


def _shadowed(declared: Declared, plan: Plan, options: RunOptions) -> frozenset[str]:
    """The lanes that run though they are skipped. Names leave lanes out for no reason that could be wrong."""
    if not options.shadow or options.names:
        return frozenset()
    from touchgate.edge import shadow  # noqa: PLC0415

    return shadow.choose(declared, plan, options.shadow)


def _refuse_lease_settings(checks: Sequence[PlannedCheck], options: RunOptions) -> None:
    """Before anything runs, where something will ask for a lease. Raises UsageFault."""
    if any(check.place == "gpu" and check.stored is None for check in checks):
        from touchgate.edge.leasing import settings_fault  # noqa: PLC0415  a GPU's run only

        mistaken = settings_fault(options.environ)
        if mistaken:
            raise UsageFault(mistaken)


def _own_folder(folder: Path) -> Path:
    """The folder, refused where anybody may write into it. Raises UsageFault."""
    try:
        seen = folder.stat()
    except OSError:
        return folder
    if seen.st_mode & stat.S_IWOTH:
        raise UsageFault(
            f"the results folder {folder} can be written by everybody, so results there could be forged: chmod o-w"
        )
    return folder


def _refuse_clashes(declared: Declared, own: set[str]) -> None:
    for lane in declared.head.values():
        for name in (lane.name, lane.each.group) if lane.each else (lane.name,):
            if name in own:
                raise UsageFault(f"{lane.at}: the lane '{name}' has the name of a task in dodo.py; rename one")


def tell(session: Session, name: str) -> None:
    """A check ended, or is up to date: print its line."""
    done = session.finished.get(name)
    if done is not None:
        session.terminal.finish(_check_report(session, done))


def conclude(session: Session, own: TouchgateReporter | None) -> int:
    """The report in all its forms, and the exit code. own: the reporter that saw the repository's own tasks."""
    session.close_lease()
    session.tell_leftovers()
    report = report_of(session)
    code = model.exit_code(
        report,
        require_device=session.options.require_device,
        interrupted=session.interrupted,
        lease_refused=bool(session.lease_refused),
        unfit=bool(session.unfit),
    )
    if own is not None and own.own_failures and code == 0:
        code = 2 if any(own.own_failures) else 1
    if code == model.NOT_MEASURED:
        # What went wrong is listed above; why nothing that went right is enough is not.
        causes = model.unproven(report, require_device=session.options.require_device)
        report = report._replace(notes=(*report.notes, *causes))
    report = report._replace(exit=code, interrupted=session.interrupted)
    unrecorded = recording.record(session, report)
    report = report._replace(notes=(*report.notes, *([unrecorded] if unrecorded else [])))
    report = report._replace(notes=(*report.notes, *_deliver(session, report)))
    session.terminal.summary(report)
    _remember(session, report)
    return code


def _deliver(session: Session, report: model.RunReport) -> list[str]:
    """Write the report's files and tell the forge; what can't be written is a note, not a failure of the run."""
    from touchgate.reports import forge  # noqa: PLC0415

    notes = []
    if session.options.report_dir is not None:
        from touchgate.reports import files  # noqa: PLC0415

        try:
            files.write(report, session.options.report_dir)
        except OSError as error:
            notes.append(f"the report could not be written to {session.options.report_dir}: {error.strerror}")
    if sys.stdout is not None:
        forge.annotate(report, sys.stdout, session.options.environ)
    note = forge.append_summary(report, session.options.environ)
    return [*notes, note] if note else notes


def _remember(session: Session, report: model.RunReport) -> None:
    """Keep the last run's ends for `doit results`. A run that touched nothing does not replace it."""
    if not report.checks:
        return
    from touchgate.reports.files import result_json  # noqa: PLC0415

    try:
        session.store.write_last_run(result_json(report))
    except StoreFault as fault:
        session.terminal.note(f"the run's summary could not be kept: {fault}")


# -- building the report ------------------------------------------------------------------------------------------------


def report_of(session: Session) -> model.RunReport:
    """The report as far as the run has come."""
    judged = session.declared.judged
    change = judged.change
    on_device = any(check.place != "host" for check in session.checks)
    done = [session.finished.get(check.spec.name) or Finished(check, None) for check in session.checks]
    return model.RunReport(
        base=change.base,
        head=change.head,
        merge_base=change.merge_base,
        proof=change.proof,
        base_from=change.base_from,
        head_from=change.head_from,
        open_reason=change.open_reason,
        due=judged.due,
        touched=len(change.paths),
        suite=session.plan.suite,
        lanes=lane_reports(session.declared, session.plan, session),
        checks=tuple(_check_report(session, one) for one in done),
        seconds=time.monotonic() - session.began,
        device=session.choice.line(session.options.environ) if on_device else "",
        lease=session.lease_words,
        reservation=session.options.reservation,
        notes=tuple(session.notes),
        interrupted=session.interrupted,
        shadow_rate=session.options.shadow,
        false_skips=_false_skips(session),
    )


def _false_skips(session: Session) -> tuple[model.FalseSkip, ...]:
    if not session.shadow:
        return ()
    from touchgate.edge import shadow  # noqa: PLC0415

    return shadow.false_skips(session)


def lane_reports(declared: Declared, plan: Plan, session: Session | None = None) -> tuple[model.LaneReport, ...]:
    """Every lane with its decision, in words; `doit lanes` shows the same."""

    def one(decision: LaneDecision) -> model.LaneReport:
        lane = declared.head.get(decision.lane)
        near = decision.nearest
        return model.LaneReport(
            name=decision.lane,
            decision=decision.decision.value,
            reason=decision.reason,
            path=decision.path,
            pattern=decision.pattern.text if decision.pattern else None,
            where=str(decision.pattern.at if decision.pattern else lane.at if lane else ""),
            nearest=near and model.Near(near.path, near.pattern.text, str(near.pattern.at)),
            minutes=lane.minutes if lane else 0.0,
            seconds=lane_seconds(session.of_lane(decision.lane)) if session else 0.0,
            shadow=session is not None and decision.lane in session.shadow,
        )

    return tuple(one(decision) for decision in plan.lanes)


def _check_report(session: Session, done: Finished) -> model.CheckReport:
    check: PlannedCheck = done.check
    outcome = done.outcome
    broken = outcome is not None and outcome.verdict not in (Verdict.PASSED, Verdict.UNMEASURED)
    base = model.CheckReport(
        name=check.spec.name,
        lane=check.spec.lane,
        kind=check.spec.kind,
        about=check.spec.about,
        verdict=outcome.verdict if outcome else None,
        cached=done.cached,
        reason=outcome.reason if outcome else done.reason,
        log=str(done.log) if done.log else None,
        where=check.spec.where,
        measured=done.measured,
        withheld=session.withheld(check) if broken else (),
        wants_gpu=check.wants_gpu,
        shadow=check.shadow,
    )
    if outcome is None:
        return base
    return base._replace(
        device=outcome.device,
        seconds=outcome.seconds,
        detail=outcome.detail,
        worst=outcome.worst,
        cases=outcome.cases,
        facts=outcome.facts,
    )
