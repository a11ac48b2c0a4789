"""Which lanes run for a change, and why: a function of values."""

from __future__ import annotations

from collections import deque

from touchgate.gate.located import did_you_mean
from touchgate.gate.model import SUITES, Change, Decision, Included, Lane, LaneDecision, Nearest, Need, PathPattern, Plan
from touchgate.gate.patterns import Index, PatternList, nearest_of
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


ATTRIBUTES = ".gitattributes"
"""Git's file that says how those beside it and below are checked out: with which line ends, through which filters."""


class UnknownName(Exception):
    """A lane or suite was asked for that is not there: one line for a person."""


def is_attributes(path: str) -> bool:
    """Whether a path is such a file."""
    return path == ATTRIBUTES or path.endswith(f"/{ATTRIBUTES}")


def runs_in(asked: str, suites: Collection[str]) -> bool:
    """Whether something that belongs to these suites runs when one is asked for: suites grow from smoke to full."""
    return any(suite in suites for suite in SUITES[: SUITES.index(asked) + 1])


class _Touch(NamedTuple):
    """Why a lane is touched. reason: a clause; path, pattern: what fired, here or in a needed lane."""

    reason: str
    path: str | None
    pattern: PathPattern | None


class _Seen(NamedTuple):
    """The touched paths, in the change's order, with git's letters."""

    statuses: Mapping[str, str]

    @classmethod
    def of(cls, change: Change) -> _Seen:
        return cls({touched.path: touched.status for touched in change.paths})

    def shown(self, path: str) -> str:
        return f"{path} ({self.statuses[path]})"


def in_suites_of_both(head: Mapping[str, Lane], base: Mapping[str, Lane] | None) -> Mapping[str, Lane]:
    """Head's lanes, each also in the suites where the base branch's tip has it.

    A change that narrows a lane's suites is judged once more with the wider ones, as one that takes a pattern away is.
    """
    wider = {
        name: tuple(suite for suite in SUITES if suite in lane.suites or suite in base[name].suites)
        for name, lane in head.items()
        if base and head is not base and name in base and not set(base[name].suites) <= set(lane.suites)
    }
    return {name: lane._replace(suites=wider.get(name, lane.suites)) for name, lane in head.items()} if wider else head


def plan(
    head: Mapping[str, Lane],
    base: Mapping[str, Lane] | None,
    change: Change,
    suite: str = "smoke",
    names: Sequence[str] = (),
    everything: bool = False,
    due: str | None = None,
    gained: Collection[str] = (),
    included: Mapping[str, Included] | None = None,
) -> Plan:
    """What becomes of every lane of head, and of those that only the base branch's tip declares.

    base: the lanes at the base branch's tip; None: unknown, or the same as head's. names: lanes, or checks as
    "lane:check": these and no others run. everything: all lanes run because that was asked for. due: a sentence why
    everything is due. gained: the lanes that only the base declares because head left its branch before they came.
    included: what touches lanes through what their sources include. Raises UnknownName.

    A lane is touched by a path that its patterns at head or at the base branch's tip let through, by a change of the file
    that declares it, by git's attributes for what its patterns may match, and by a touch of a lane that it needs. A lane
    that head removed is skipped; one of `gained` that is touched runs, though that takes merging the base branch first:
    skipping it would hide that nothing was run.
    A lane belongs to the suites that head or the base branch's tip gives it.
    """
    if suite not in SUITES:
        raise UnknownName(f"no suite '{suite}'; suites are {', '.join(SUITES)}")
    base = base or {}
    declared, head = head, in_suites_of_both(head, base)
    made = _plan(head, base, change, suite, names, everything, due, gained, included or {})
    if head is declared:
        return made
    return made._replace(lanes=tuple(_told_of_suites(one, declared.get(one.lane)) for one in made.lanes))


def _told_of_suites(one: LaneDecision, lane: Lane | None) -> LaneDecision:
    """The decision, with a word where the suite that runs is one of the base branch's tip alone."""
    if lane is None or one.decision is Decision.SKIP or runs_in(one.suite, lane.suites):
        return one
    only = f"in the suite {one.suite} by the base branch's tip alone: head keeps the lane for {', '.join(lane.suites)}"
    return one._replace(reason=f"{one.reason} ({only})")


def _plan(
    head: Mapping[str, Lane],
    base: Mapping[str, Lane],
    change: Change,
    suite: str,
    names: Sequence[str],
    everything: bool,
    due: str | None,
    gained: Collection[str],
    included: Mapping[str, Included],
) -> Plan:
    if names:
        return Plan(change, suite, _named(head, base, suite, names))
    all_because = "asked for with --all" if everything else change.open_reason or due
    gone = {name: lane for name, lane in base.items() if name not in head}
    if not all_because:
        return Plan(change, suite, tuple(_decide_by_touch(head, base, change, suite, gained, included)))
    decisions = [_decide_all(lane, suite, all_because) for lane in head.values()]
    everything_gone = _Touch(all_because, None, None) if change.open_reason else None
    decisions += [_gone(lane, everything_gone if name in gained else None, suite, gained) for name, lane in gone.items()]
    return Plan(change, suite, tuple(decisions))


def untouched(head: Mapping[str, Lane], base: Mapping[str, Lane], change: Change) -> frozenset[str]:
    """The lanes that no path touches directly."""
    return frozenset({*head, *base}.difference(_touches(head, base, _Seen.of(change), {}).touches))


def touched_but_gone(
    head: Mapping[str, Lane], base: Mapping[str, Lane], change: Change, included: Mapping[str, Included] | None = None
) -> frozenset[str]:
    """The lanes that the change touches and that only the base branch's tip declares."""
    if base.keys() <= head.keys() or change.open_reason:
        return frozenset()
    whole, lite = _spread(_touches(head, base, _Seen.of(change), included or {}).touches, _needs(head, base))
    return frozenset({*whole, *lite}).difference(head)


# the ways to decide


def _in_order(head: Mapping[str, Lane], base: Mapping[str, Lane]) -> list[tuple[str, Lane]]:
    """All lanes by name: those of head, then those that only the base declares."""
    return [*head.items(), *((name, lane) for name, lane in base.items() if name not in head)]


def _named(head: Mapping[str, Lane], base: Mapping[str, Lane], suite: str, names: Sequence[str]) -> tuple[LaneDecision, ...]:
    asked = {name.partition(":")[0] for name in names}
    for name in sorted(asked):
        if name not in head:
            hint = did_you_mean(name, head)
            raise UnknownName(f"no lane '{name}'" + (f"; {hint}" if hint else ""))
    found = []
    for name, lane in _in_order(head, base):
        if name in asked:
            found.append(LaneDecision(name, Decision.RUN, "named on the command line", _suite_of(lane, suite)))
        else:
            found.append(LaneDecision(name, Decision.SKIP, "not named", suite))
    return tuple(found)


def _suite_of(lane: Lane, asked: str) -> str:
    """The suite asked for, or the next one up that the lane belongs to: what is named is run."""
    larger = SUITES[SUITES.index(asked) :]
    return next((suite for suite in larger if runs_in(suite, lane.suites)), asked)


def _outside(lane: Lane, suite: str) -> str:
    return f"not in the suite {suite}; it belongs to {', '.join(lane.suites)}"


def _decide_all(lane: Lane, suite: str, reason: str) -> LaneDecision:
    if runs_in(suite, lane.suites):
        return LaneDecision(lane.name, Decision.RUN, reason, suite)
    return LaneDecision(lane.name, Decision.SKIP, _outside(lane, suite), suite)


def _gone(lane: Lane, fired: _Touch | None, suite: str, gained: Collection[str]) -> LaneDecision:
    """What becomes of a lane that only the base declares. suite: what would be run of it."""
    if fired is None:
        return LaneDecision(lane.name, Decision.SKIP, "only the base branch's tip declares it", suite)
    if lane.name not in gained:
        return LaneDecision(
            lane.name, Decision.SKIP, f"{fired.reason}, but head removed the lane", suite, fired.path, fired.pattern
        )
    if not runs_in(suite, lane.suites):
        reason = f"{_outside(lane, suite)} (touched: {fired.reason})"
        return LaneDecision(lane.name, Decision.SKIP, reason, suite, fired.path, fired.pattern)
    reason = f"{fired.reason}, but head does not declare the lane yet: merge the base branch to run it"
    return LaneDecision(lane.name, Decision.RUN, reason, suite, fired.path, fired.pattern)


def _decide_by_touch(
    head: Mapping[str, Lane],
    base: Mapping[str, Lane],
    change: Change,
    suite: str,
    gained: Collection[str],
    included: Mapping[str, Included],
) -> list[LaneDecision]:
    seen = _Seen.of(change)
    direct = _touches(head, base, seen, included)
    whole, lite = _spread(direct.touches, _needs(head, base))
    ordered = sorted(seen.statuses)
    found = []
    for name, lane in _in_order(head, base):
        touch = whole.get(name) or lite.get(name)
        effective = suite if name in whole else SUITES[0]
        if name not in head:
            found.append(_gone(lane, touch, effective if touch else suite, gained))
        elif touch is None:
            found.append(_untouched(lane, suite, ordered, seen, direct.taken_back.get(name)))
        elif runs_in(effective, lane.suites):
            found.append(LaneDecision(name, Decision.RUN, touch.reason, effective, touch.path, touch.pattern))
        else:
            reason = f"{_outside(lane, effective)} (touched: {touch.reason})"
            found.append(LaneDecision(name, Decision.SKIP, reason, effective, touch.path, touch.pattern))
    return found


def _untouched(
    lane: Lane, suite: str, ordered: Sequence[str], seen: _Seen, taken_back: tuple[str, int, int] | None
) -> LaneDecision:
    """A skip with its proof: how many paths were looked at, and what came nearest."""
    if not ordered:
        return LaneDecision(lane.name, Decision.SKIP, "no path is touched", suite)
    many = len(ordered) > 1
    reason = f"none of {len(ordered)} touched paths matches" if many else "the one touched path does not match"
    if taken_back:
        path, index, by = taken_back
        pattern, against = lane.paths[index], lane.paths[by]
        reason += f"; {seen.shown(path)} matches {pattern.text} ({pattern.at}) but {against.text} ({against.at}) takes it back"
        return LaneDecision(lane.name, Decision.SKIP, reason, suite, nearest=Nearest(path, against))
    near = nearest_of(_list(lane), ordered)
    if near is None:
        return LaneDecision(lane.name, Decision.SKIP, reason, suite)
    path, index = near
    pattern = lane.paths[index]
    reason += f"; nearest: {pattern.text} ({pattern.at})"
    return LaneDecision(lane.name, Decision.SKIP, reason, suite, nearest=Nearest(path, pattern))


# touches


def _list(lane: Lane) -> PatternList:
    return PatternList([pattern.text for pattern in lane.paths])


def _lists(lanes: Mapping[str, Lane]) -> dict[str, PatternList]:
    return {name: _list(lane) for name, lane in lanes.items()}


class _Direct(NamedTuple):
    """The lanes that paths touch, and those of head whose patterns matched a path and took it back."""

    touches: Mapping[str, _Touch]
    taken_back: Mapping[str, tuple[str, int, int]]


def _touches(head: Mapping[str, Lane], base: Mapping[str, Lane], seen: _Seen, included: Mapping[str, Included]) -> _Direct:
    """What touches lanes directly: head's patterns, the base tip's, a change of the file that declares them, a closure."""
    look = Index(_lists(head), seen.statuses).look(seen.statuses)
    found = {name: _matched(head[name], index, path, seen) for name, (path, index) in look.touched.items()}
    # Most lanes are the same on both sides: these need no second look.
    differing = {
        name: lane
        for name, lane in base.items()
        if name not in found
        and head.get(name) is not lane
        and (name not in head or _list(head[name]).texts != _list(lane).texts)
    }
    for name, (path, index) in Index(_lists(differing), seen.statuses).touched(seen.statuses).items():
        found[name] = _matched(base[name], index, path, seen, " of the base branch's tip")
    for name, lane in (*head.items(), *base.items()):
        if name in found:
            continue
        declared_in = [lane.at.file, *(pattern.at.file for pattern in lane.paths)]
        file = next((file for file in declared_in if file in seen.statuses), None)
        if file is not None:
            found[name] = _Touch(f"{seen.shown(file)} declares the lane at {lane.at}", file, None)
    _touch_folders(found, (*head.items(), *base.items()), seen)
    for name, hit in included.items():
        found.setdefault(name, _Touch(hit.reason, hit.path, None))
    return _Direct(found, look.taken_back)


def _touch_folders(found: dict[str, _Touch], lanes: Sequence[tuple[str, Lane]], seen: _Seen) -> None:
    """Add the lanes that may have files where a touched path stands for all that lies there."""
    for path in seen.statuses:
        if path.endswith("/"):
            # A submodule that is not checked out.
            folder, what, verb = path, f"what differs below {path} can't be told, and", "may match it"
        elif is_attributes(path):
            folder, what, verb = path[: -len(ATTRIBUTES)], f"{seen.shown(path)} can change what is checked out for", ""
        else:
            continue
        for name, lane in lanes:
            may = None if name in found else _list(lane).may_touch_below(folder)
            if may is not None:
                pattern = lane.paths[may]
                found[name] = _Touch(f"{what} {pattern.text} at {pattern.at} {verb}".rstrip(), path, pattern)


def _matched(lane: Lane, index: int, path: str, seen: _Seen, which: str = "") -> _Touch:
    pattern = lane.paths[index]
    return _Touch(f"{seen.shown(path)} matches {pattern.text} at {pattern.at}{which}", path, pattern)


def _needs(head: Mapping[str, Lane], base: Mapping[str, Lane]) -> dict[str, list[tuple[str, Need]]]:
    """Needed lane -> the lanes that need it, at head or at the base branch's tip."""
    found: dict[str, list[tuple[str, Need]]] = {}
    for lanes in (head, base):
        for name, lane in lanes.items():
            for need in lane.needs:
                found.setdefault(need.lane, []).append((name, need))
    return found


def _spread(
    direct: Mapping[str, _Touch], needed_by: Mapping[str, Sequence[tuple[str, Need]]]
) -> tuple[dict[str, _Touch], dict[str, _Touch]]:
    """The lanes touched with the whole suite asked for, and those touched for smoke only: breadth first along needs.

    Each lane is reached by a shortest way, so its reason names the fewest lanes between it and the path.
    """
    whole = dict(direct)
    lite: dict[str, _Touch] = {}
    ahead = deque(whole)
    while ahead:
        needed = ahead.popleft()
        for name, need in needed_by.get(needed, ()):
            if need.suite is None and name not in whole:
                whole[name] = _through(need, whole[needed], "")
                ahead.append(name)
    ahead = deque(whole)
    while ahead:
        needed = ahead.popleft()
        touch = whole.get(needed) or lite[needed]
        for name, need in needed_by.get(needed, ()):
            if name not in whole and name not in lite:
                lite[name] = _through(need, touch, " for smoke only" if need.suite else "")
                ahead.append(name)
    return whole, lite


def _through(need: Need, touch: _Touch, limit: str) -> _Touch:
    joint = ", which " if touch.reason.startswith("needs ") else ": "
    return _Touch(f"needs {need.lane}{limit} ({need.at}){joint}{touch.reason}", touch.path, touch.pattern)
