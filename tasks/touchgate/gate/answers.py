"""The whole answer of `touchgate gate`: which lanes run, or whether a workflow does, and how that is told."""

from __future__ import annotations

import contextlib

from touchgate.gate import forge, sources
from touchgate.gate.asked import UsageFault
from touchgate.gate.change import Judged
from touchgate.gate.check_declarations import COMMANDS
from touchgate.gate.declared import opened, read_both
from touchgate.gate.git import GitFault
from touchgate.gate.included import untold_in_words
from touchgate.gate.kinds import KnownKinds
from touchgate.gate.located import DeclarationError, did_you_mean
from touchgate.gate.meant import is_meant, meaning_nothing
from touchgate.gate.model import Change, Decision, LaneDecision, Nearest
from touchgate.gate.plan import plan
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from touchgate.gate import workflow
    from touchgate.gate.asked import Asked
    from touchgate.gate.git import Repository
    from touchgate.gate.model import Lane
    from touchgate.gate.sources import Sources

__all__ = ["Answer", "as_data", "decide", "in_words", "nothing_known", "opened", "unread"]

WORKFLOW_FOLDERS = (".github/workflows", ".forgejo/workflows", ".gitea/workflows")


class Answer(NamedTuple):
    """The whole decision. lanes, declared (as at head): None where it is a workflow that was asked about."""

    run: bool
    judged: Judged
    suite: str
    decisions: tuple[LaneDecision, ...]
    lanes: tuple[str, ...] | None
    notes: tuple[str, ...] = ()
    declared: Mapping[str, Lane] | None = None
    each: Mapping[str, dict[str, str]] | None = None
    """For a matrix: of the lanes that were made for a folder, which."""


def unread(asked: Asked, judged: Judged) -> Answer:
    """The open answer where no lane can be read: all that was asked for runs."""
    reason = judged.change.open_reason or judged.due or ""
    names = (asked.workflow,) if asked.workflow else asked.lanes
    decisions = tuple(LaneDecision(name, Decision.RUN, reason, asked.suite) for name in names)
    # Which lanes `*` stands for is not known, so that a matrix can't be made of them.
    known = None if any("*" in name for name in asked.lanes) else asked.lanes
    return Answer(True, judged, asked.suite, decisions, known or None)


def nothing_known(reason: str) -> Judged:
    """The judgement where git can't be asked at all."""
    return Judged(Change(None, None, None, "none", "unknown", "unknown", True, (), reason))


def decide(
    repo: Repository,
    judged: Judged,
    asked: Asked,
    start: str | Path,
    environ: Mapping[str, str],
    found: Sources | None = None,
    strictly: bool = False,
) -> Answer:
    """Decide about a change that is judged already. found: the lane files, where they were read already.

    strictly: lanes are declared as `doit` takes them, by kinds of checks that are known and by names that are free; else
    as lanes of the past may be. Raises UsageFault, DeclarationError and GitFault.
    """
    if asked.workflow:
        return _of_workflow(repo, judged, asked, start, environ)
    kinds, reserved = (KnownKinds(), COMMANDS) if strictly else (None, ())
    declared = read_both(repo, judged, kinds, reserved=reserved, found=found)
    judged, head, base = declared.judged, declared.head, declared.base
    if not head and not base and not declared.vacant:
        raise UsageFault(f"no lane is declared: there is no {sources.FOLDER}/*.yml\n`doit lanes init` writes a first one")
    made = plan(head, base, judged.change, asked.suite, due=judged.due, gained=declared.gained, included=declared.included)
    every = {**(base or {}), **head}
    if unknown := meaning_nothing(asked.lanes, every.values()):
        raise UsageFault("\n".join(unknown))
    decisions = tuple(
        lane for lane in made.lanes if not asked.lanes or any(is_meant(every[lane.lane], word) for word in asked.lanes)
    )
    running = tuple(lane.lane for lane in decisions if lane.decision is Decision.RUN)
    notes = [
        untold_in_words(lane.lane, declared.untold[lane.lane])
        for lane in decisions
        if lane.decision is Decision.SKIP and declared.untold.get(lane.lane)
    ]
    notes += declared.vacant
    return Answer(bool(running), judged, asked.suite, decisions, running, tuple(notes), head, _folders(every))


def _folders(lanes: Mapping[str, Lane]) -> dict[str, dict[str, str]]:
    return {
        name: {"group": lane.each.group, "name": lane.each.name, "path": lane.each.path}
        for name, lane in lanes.items()
        if lane.each
    }


# ---- one workflow's own list


def _of_workflow(repo: Repository, judged: Judged, asked: Asked, start: str | Path, environ: Mapping[str, str]) -> Answer:
    if asked.lanes:
        raise UsageFault("a workflow's own path list names no lanes: give either WORKFLOW or --lane")
    from touchgate.gate import workflow  # noqa: PLC0415 (lanes do without)

    tried = _places_of(str(asked.workflow), start, repo)
    found = _first_of(tried, sources.head_reader(repo, judged))
    if found is None:
        reason = _gone_because(repo, judged, tried)
        if not reason:
            hint = _near_workflow(repo, tried)
            raise UsageFault(f"there is no workflow {asked.workflow} at head (looked for {', '.join(tried)}){hint}")
        decision = LaneDecision(str(asked.workflow), Decision.RUN, reason, asked.suite)
        return Answer(True, opened(judged, reason), asked.suite, (decision,), None)
    file, text = found
    at_head = workflow.read_paths(text, file)
    name = _workflow_event(forge.read(environ))
    choice = workflow.choose(at_head, name)
    words = choice.words
    notes = [f"note: {problem}" for problem in at_head.faults]
    lists = [(at_head, "")]
    try:
        at_base = sources.base_reader(repo, judged)(file)
        if at_base is not None and at_base != text:
            lists.append((workflow.read_paths(at_base, file), " of the base branch's tip"))
    except (DeclarationError, GitFault) as error:
        first = str(error).partition("\n")[0]
        judged = opened(judged, f"the workflow at the base branch's tip can't be read: {first}")
    because = judged.change.open_reason or judged.due
    if because:
        decision = LaneDecision(file, Decision.RUN, because, asked.suite)
        return Answer(True, judged, asked.suite, (decision,), None, tuple(notes))
    touched = [path.path for path in judged.change.paths]
    decision = LaneDecision(file, Decision.SKIP, "", asked.suite)
    for paths, which in lists:
        answer = workflow.decide(paths, name, touched)
        if answer.run:
            reason = _match(answer) or (f"{answer.path} is not ignored by {words}" if answer.path else words)
            decision = LaneDecision(file, Decision.RUN, reason + which, asked.suite, answer.path, answer.pattern)
            break
        if not which:
            reason = workflow.skipped_because(answer, choice, len(touched))
            near = Nearest(answer.path, answer.pattern) if answer.path and answer.pattern else None
            decision = decision._replace(reason=reason, nearest=near)
    return Answer(decision.decision is Decision.RUN, judged, asked.suite, (decision,), None, tuple(notes))


def _match(answer: workflow.Answer) -> str:
    if answer.pattern is None or answer.path is None:
        return ""
    if answer.path.endswith("/"):
        return f"what differs below {answer.path} can't be told, and {answer.pattern.text} at {answer.pattern.at} may match it"
    return f"{answer.path} matches {answer.pattern.text} at {answer.pattern.at}"


def _workflow_event(event: forge.Event | None) -> str | None:
    """The event whose list counts; None (a dispatch, a local call): the workflow's first, pull requests before pushes.

    An event that could have a list but has none in this workflow is passed on: its answer is that everything touches.
    """
    from touchgate.gate import workflow  # noqa: PLC0415 (lanes do without)

    if event is None:
        return None
    if event.rule is forge.Rule.PULL_REQUEST and event.name not in workflow.FILTERED_EVENTS:
        return "pull_request"
    return event.name if event.name in workflow.FILTERED_EVENTS else None


def _places_of(asked: str, start: str | Path, repo: Repository) -> list[str]:
    """Where a workflow may be that was asked for by name, or by its path from the root or from here: paths from the root."""
    from pathlib import Path  # noqa: PLC0415 (slow to import, and lanes do without)

    tried = [Path(asked)]
    with contextlib.suppress(ValueError):
        # The file itself stays as it is named: a link must be seen.
        file = Path(start).resolve() / asked
        tried.append((file.parent.resolve() / file.name).relative_to(repo.root))
    if "/" not in asked:
        tried += [Path(folder, asked) for folder in WORKFLOW_FOLDERS]
    return list(dict.fromkeys(path.as_posix() for path in tried))


def _first_of(tried: Sequence[str], read: Callable[[str], bytes | None]) -> tuple[str, bytes] | None:
    """The first of the paths that is there, with its text."""
    for path in tried:
        text = None if path.startswith("/") or ".." in path.split("/") else read(path)
        if text is not None:
            return path, text
    return None


def _near_workflow(repo: Repository, tried: Sequence[str]) -> str:
    """The workflow of the checkout that may have been meant, as a clause; "" for none."""
    known = []
    for folder in () if repo.is_bare else WORKFLOW_FOLDERS:
        with contextlib.suppress(OSError):
            known += [file.name for file in (repo.root / folder).iterdir() if file.suffix in sources.ENDINGS]
    hint = did_you_mean(tried[0].rpartition("/")[2], known)
    return f"; {hint}" if hint else ""


def _gone_because(repo: Repository, judged: Judged, tried: Sequence[str]) -> str:
    """Why a workflow runs that head does not have; "" where the base branch's tip has none either."""
    try:
        found = _first_of(tried, sources.base_reader(repo, judged))
    except (DeclarationError, GitFault) as error:
        return (
            f"head has no such workflow, and that of the base branch's tip can't be read: {str(error).partition(chr(10))[0]}"
        )
    return f"head has no {found[0]} any more, only the base branch's tip does" if found else ""


# ---- telling


def in_words(answer: Answer) -> list[str]:
    """The reasons, line by line, safe to show on a terminal and in a forge's log."""
    change = answer.judged.change
    lines = [
        f"base        {change.base or 'unknown'}  ({change.base_from})",
        f"head        {change.head or 'unknown'}  ({change.head_from})",
        f"merge base  {', '.join(answer.judged.merge_bases) or change.merge_base or 'unknown'}  ({change.proof})",
        *answer.judged.notes,
    ]
    if change.open_reason:
        lines.append(f"everything runs: {change.open_reason}")
    elif answer.judged.due:
        lines.append(f"everything is due: {answer.judged.due}")
    else:
        lines.append(f"{len(change.paths)} path{'' if len(change.paths) == 1 else 's'} touched")
    width = max((len(lane.lane) for lane in answer.decisions), default=0)
    lines += [f"{lane.decision.value:4}  {lane.lane:{width}}  {lane.reason}" for lane in answer.decisions]
    return [_safe(line) for line in (*lines, *answer.notes)]


def _safe(line: str) -> str:
    """The line with unprintable characters as escapes: a file's name must not speak to a terminal or a forge."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


def as_data(answer: Answer) -> dict[str, Any]:
    """The stable machine form."""
    from touchgate.gate import told  # noqa: PLC0415 (a plain answer does without)

    data = told.of_change(answer.judged)
    data["notes"] += [note.removeprefix("note: ") for note in answer.notes]
    lanes = [{**told.of_decision(lane), "each": (answer.each or {}).get(lane.lane)} for lane in answer.decisions]
    return {"schema": 1, "run": answer.run, **data, "suite": answer.suite, "lanes": lanes}
