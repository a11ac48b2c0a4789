"""One change of the past, judged as the gate would have judged it, and what that took."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from touchgate.gate import answers
from touchgate.gate import change as change_of
from touchgate.gate.asked import Asked, UsageFault
from touchgate.gate.git import GitFault
from touchgate.gate.located import DeclarationError
from touchgate.gate.plan import runs_in

if TYPE_CHECKING:
    from pathlib import Path

    from touchgate.gate.git import Repository
    from touchgate.gate.model import LaneDecision
    from touchgate.replay.history import Merge


@dataclass(frozen=True)
class Played:
    """A change and what the gate says of it.

    decisions: empty where everything runs because the lanes can't be read, or where `nothing` says why there is nothing
    to decide (no lane was declared then). open_reason: why everything runs, or None. paths: how many are touched.
    minutes: of each lane of head that names it, its target. aside: the lanes that belong to larger suites only. seconds: of
    the decision, without the start of a process.
    """

    merge: Merge
    decisions: tuple[LaneDecision, ...] = ()
    open_reason: str | None = None
    nothing: str = ""
    paths: int = 0
    merge_base: str | None = None
    seconds: float = 0.0
    minutes: tuple[tuple[str, float], ...] = ()
    aside: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def play(repo: Repository, merge: Merge, asked: Asked, start: Path, *, today: bool) -> Played:
    """Judge a change. today: by the lanes (or the workflow) of the checkout in place of those that its head declared.

    What can't be told or read is open, with the reason.
    """
    began = time.perf_counter()
    found = _ask(repo, merge, asked, start, today=today)
    return replace(found, seconds=time.perf_counter() - began)


def _ask(repo: Repository, merge: Merge, asked: Asked, start: Path, *, today: bool) -> Played:
    # Nothing of the environment: neither an event nor a variable of today says anything about then.
    try:
        judged = change_of.resolve(repo, base=merge.base, head=merge.head, environ={})
    except GitFault as fault:
        return Played(merge, open_reason=str(fault))
    change = judged.change
    seen = Played(merge, open_reason=change.open_reason, paths=len(change.paths), merge_base=change.merge_base)
    if today:
        judged = judged._replace(base_tip=None, change=change._replace(head_is_worktree=True))
    try:
        answer = answers.decide(repo, judged, asked, start, {})
    except UsageFault as fault:
        return replace(seen, nothing=str(fault).partition("\n")[0])
    except (DeclarationError, GitFault) as fault:
        return replace(seen, open_reason=seen.open_reason or str(fault).partition("\n")[0])
    lanes = (answer.declared or {}).values()
    aside = frozenset(lane.name for lane in lanes if not runs_in(asked.suite, lane.suites))
    return replace(
        seen,
        decisions=answer.decisions,
        open_reason=answer.judged.change.open_reason,
        minutes=tuple((lane.name, lane.minutes) for lane in lanes if lane.names_minutes),
        aside=aside,
        notes=answer.notes,
    )
