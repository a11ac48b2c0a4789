"""Where two gates disagree about a change, and what the changes played come to: functions of values."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from touchgate.gate.model import Decision, LaneDecision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from touchgate.replay.judging import Played
    from touchgate.replay.theirs import Theirs


class Kind(str, Enum):
    """In the order of what they cost: a break merged as green, a run for nothing."""

    FALSE_SKIP = "false_skip"
    UNTOLD = "untold"
    THEY_RUN = "they_run"


@dataclass(frozen=True)
class Disagreement:
    """About one lane (or workflow). decision: ours, with its proof; None where our lanes could not be read."""

    kind: Kind
    decision: LaneDecision | None


@dataclass(frozen=True)
class Pair:
    """A change with both answers. theirs None: no other gate was asked."""

    ours: Played
    theirs: Theirs | None = None

    @property
    def disagreements(self) -> tuple[Disagreement, ...]:
        """Where they disagree, what costs most first."""
        return compare(self.ours, self.theirs) if self.theirs else ()

    @property
    def worst(self) -> Kind | None:
        """The kind of the first disagreement."""
        found = self.disagreements
        return found[0].kind if found else None


def compare(ours: Played, theirs: Theirs) -> tuple[Disagreement, ...]:
    """Where the other gate says otherwise.

    FALSE_SKIP: it skips what the change touches. UNTOLD: it skips where we can't tell and so run. THEY_RUN: it runs what
    the change does not touch. A gate that answers for all at once disagrees only where nothing, or anything, runs.
    """
    if theirs.run is None or ours.nothing:
        return ()
    if not ours.decisions:
        return () if theirs.run else (Disagreement(Kind.UNTOLD, None),)
    running = {one.lane for one in ours.decisions if one.decision is Decision.RUN}
    if theirs.lanes is not None and len(ours.decisions) > 1:
        said = {one.lane: one.lane in theirs.lanes for one in ours.decisions}
    elif theirs.run == bool(running):
        return ()
    else:
        said = {one.lane: theirs.run for one in ours.decisions}
    found = []
    for one in ours.decisions:
        if one.lane in running and not said[one.lane]:
            found.append(Disagreement(Kind.UNTOLD if ours.open_reason else Kind.FALSE_SKIP, one))
        elif one.lane not in running and said[one.lane]:
            found.append(Disagreement(Kind.THEY_RUN, one))
    order = list(Kind)
    return tuple(sorted(found, key=lambda one: order.index(one.kind)))


@dataclass(frozen=True)
class LaneTotal:
    """How often a lane ran and was skipped as untouched.

    minutes: its targets, added up over those skips; None where it never named one.
    """

    name: str
    ran: int
    skipped: int
    minutes: float | None


@dataclass(frozen=True)
class Totals:
    """All changes together. judged: those with a decision. seconds: median and 95th percentile of a decision."""

    played: int
    judged: int
    open: int
    untouched: int
    lanes: tuple[LaneTotal, ...]
    median: float
    p95: float
    disagreeing: tuple[tuple[Kind, int], ...]
    troubles: int

    @property
    def minutes_saved(self) -> float:
        """Of all lanes that name their minutes."""
        return sum(lane.minutes or 0.0 for lane in self.lanes)

    @property
    def without_minutes(self) -> int:
        """The lanes that were skipped, and of which nothing says how long they take."""
        return sum(lane.minutes is None and lane.skipped > 0 for lane in self.lanes)


def totals(pairs: Sequence[Pair]) -> Totals:
    """Add up. A lane that another suite is for counts neither as run nor as skipped."""
    ran: dict[str, int] = {}
    skipped: dict[str, int] = {}
    saved: dict[str, float] = {}
    named: set[str] = set()
    for pair in pairs:
        minutes = dict(pair.ours.minutes)
        named.update(minutes)
        for one in pair.ours.decisions:
            ran.setdefault(one.lane, 0)
            skipped.setdefault(one.lane, 0)
            if one.decision is Decision.RUN:
                ran[one.lane] += 1
            elif one.lane not in pair.ours.aside and is_untouched(one):
                skipped[one.lane] += 1
                saved[one.lane] = saved.get(one.lane, 0.0) + minutes.get(one.lane, 0.0)
    judged = [pair for pair in pairs if not pair.ours.nothing]
    seconds = sorted(pair.ours.seconds for pair in judged)
    return Totals(
        played=len(pairs),
        judged=len(judged),
        open=sum(pair.ours.open_reason is not None for pair in judged),
        untouched=sum(not runs(pair.ours) for pair in judged),
        lanes=tuple(
            LaneTotal(name, ran[name], skipped[name], saved.get(name, 0.0) if name in named else None)
            for name in ran
            if ran[name] + skipped[name]
        ),
        median=statistics.median(seconds) if seconds else 0.0,
        p95=seconds[math.ceil(0.95 * len(seconds)) - 1] if seconds else 0.0,
        disagreeing=tuple((kind, sum(any(d.kind is kind for d in p.disagreements) for p in pairs)) for kind in Kind),
        troubles=sum(bool(pair.theirs and pair.theirs.trouble) for pair in pairs),
    )


def runs(ours: Played) -> bool:
    """Whether anything runs for a change."""
    return any(one.decision is Decision.RUN for one in ours.decisions) or (not ours.decisions and not ours.nothing)


def is_untouched(one: LaneDecision) -> bool:
    """Whether a lane is skipped for what is touched, and not for the suite or because head has it no more."""
    aside = ("not ", "only the base branch's tip")
    return one.decision is Decision.SKIP and not one.reason.startswith(aside) and not one.reason.endswith("removed the lane")
