"""What is wrong with patterns that can be read: those that do nothing, lanes that are twins, files that no lane gates.

Functions of lanes (or of a workflow's lists) and the tracked paths to findings; nothing is read or printed here.
"""

from __future__ import annotations

from touchgate.gate.dialect import literal_head
from touchgate.gate.inclusion import covered, meet
from touchgate.gate.listed import is_pattern
from touchgate.gate.model import At, Lane, PathPattern
from touchgate.gate.patterns import Index, PatternList
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from touchgate.gate.workflow import EventPaths, WorkflowPaths

RULES = {
    "matches-nothing": "a pattern that matches no tracked file",
    "unreachable": "a pattern whose every path a later pattern decides, so that it changes nothing",
    "takes-nothing-back": "a `!` pattern that no pattern before it has anything in common with",
    "mistaken": "a pattern that never matches, or can't mean what its writer thinks (a workflow's; a lane's is refused)",
    "equal-paths": "two lanes with the same paths",
    "drift": "two events of a workflow with different lists",
    "missing-input": "an input of a check that does not exist",
    "not-gated": "a file that the sources include, import or name, and no pattern of the lane or workflow lets through",
    "no-source": "a pattern of a closure's own sources that matches no file",
    "closure-unread": "a lane or workflow whose sources can't be read",
    "ungated": "a tracked file under a root that should be gated, and no lane gates it",
}


class Finding(NamedTuple):
    """rule: a key of `RULES`. where: a place in a declaration, or a file or folder that is at fault for lack of one."""

    rule: str
    where: At | str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f"; {self.hint}" if self.hint else "")


class _Listed(NamedTuple):
    """One list of patterns. owner: in words, whose."""

    owner: str
    patterns: tuple[PathPattern, ...]


def of_lanes(
    lanes: Iterable[Lane], tracked: Sequence[str], roots: Sequence[str] = (), exists: Callable[[str], bool] = lambda _: True
) -> list[Finding]:
    """Everything that is wrong with lanes, by place.

    tracked: all tracked paths. roots: folders ("." for all) whose every tracked file some lane should gate. exists:
    whether there is a file or folder of that path from the root.
    """
    lanes = list(lanes)
    lists = [_Listed(f"lane '{lane.name}'", lane.paths) for lane in lanes]
    return sorted(
        [
            *_idle_patterns(lists, tracked),
            *_twins(lanes),
            *_missing_inputs(lanes, exists),
            *_ungated(lanes, tracked, roots),
        ],
        key=_place,
    )


def of_workflow(workflow: WorkflowPaths, tracked: Sequence[str]) -> list[Finding]:
    """Everything that is wrong with a workflow's own lists, by place."""
    events = workflow.events.values()
    lists = [_Listed(f"'paths' of {event.event}", event.paths) for event in events if event.paths]
    ignored = [_Listed(f"'paths-ignore' of {event.event}", event.ignore) for event in events if event.ignore]
    mistaken = [Finding("mistaken", fault.at, fault.message, fault.hint) for fault in workflow.faults]
    known = {fault.at for fault in workflow.faults}
    idle = [*_idle_patterns(lists, tracked), *_dead(ignored, tracked, "nothing is ignored by it")]
    return sorted([*mistaken, *(one for one in idle if one.where not in known), *_drift(list(events))], key=_place)


def _place(finding: Finding) -> tuple[str, int, int, str]:
    at = finding.where
    return (at.file, at.line, at.column, finding.message) if isinstance(at, At) else (at, 0, 0, finding.message)


# ---- patterns that do nothing


def _idle_patterns(lists: Sequence[_Listed], tracked: Sequence[str]) -> list[Finding]:
    """One finding a pattern. What is written once and used in several lists is at fault where it is idle in all."""
    unreachable = _unreachable(lists, tracked)
    known = {finding.where for finding in unreachable}
    return [*unreachable, *(dead for dead in _dead(lists, tracked) if dead.where not in known)]


def _dead(lists: Sequence[_Listed], tracked: Sequence[str], hint: str | None = None) -> list[Finding]:
    uses = [(pattern, listed.owner) for listed in lists for pattern in listed.patterns]
    # A list of its own for each, so that one reading of the paths answers for all.
    alone = {body: PatternList([_as_positive(body)]) for body in {_body(pattern) for pattern, _ in uses}}
    alive = Index(alone).touched(tracked)
    living = {pattern.at for pattern, _ in uses if _body(pattern) in alive}
    found: dict[At, Finding] = {}
    for pattern, owner in uses:
        if pattern.at not in living and pattern.at not in found:
            message = f"'{pattern.text}' of {owner} matches no tracked file"
            found[pattern.at] = Finding("matches-nothing", pattern.at, message, hint)
    return list(found.values())


def _unreachable(lists: Sequence[_Listed], tracked: Sequence[str]) -> list[Finding]:
    found: dict[At, Finding] = {}
    useful: set[At] = set()
    for listed in lists:
        for index, pattern in enumerate(listed.patterns):
            if pattern.at in useful:
                continue
            finding = _idle(listed, index, tracked)
            if finding is None:
                useful.add(pattern.at)
                found.pop(pattern.at, None)
            else:
                found.setdefault(pattern.at, finding)
    return list(found.values())


def _idle(listed: _Listed, index: int, tracked: Sequence[str]) -> Finding | None:
    """Why one pattern of a list changes nothing, whatever is touched."""
    pattern = listed.patterns[index]
    later = [other for other in listed.patterns[index + 1 :] if _may_meet(pattern, other)]
    whole = _all_decided(pattern, later, tracked)
    if whole:
        alone = next((other for other in later if covered(_body(pattern), [_body(other)])), None)
        if alone is None:
            by = "patterns behind it decide every path that it matches"
        elif alone.text == pattern.text:
            by = f"the same pattern stands behind it, at {alone.at}"
        elif _is_negative(alone) and not _is_negative(pattern):
            by = f"{alone.text} at {alone.at} takes back every path that it matches"
        else:
            by = f"{alone.text} at {alone.at} decides every path that it matches"
        message = f"'{pattern.text}' of {listed.owner} can't be reached: {by}{'' if whole == 'all' else whole}"
        return Finding("unreachable", pattern.at, message, "take it out, or move it behind")
    if not _is_negative(pattern):
        return None
    earlier = [other for other in listed.patterns[:index] if not _is_negative(other) and _may_meet(pattern, other)]
    if meet(_body(pattern), [_body(other) for other in earlier]) is False:
        message = f"'{pattern.text}' of {listed.owner} takes nothing back: no pattern before it matches any such path"
        return Finding("takes-nothing-back", pattern.at, message, "put it behind what it should take back, or take it out")
    return None


def _all_decided(pattern: PathPattern, later: Sequence[PathPattern], tracked: Sequence[str]) -> str:
    """The word "all" where later patterns match every path that it does; else "", or words for what that is true of."""
    if not later:
        return ""
    exactly = covered(_body(pattern), [_body(other) for other in later])
    if exactly is not None:
        return "all" if exactly else ""
    ours = PatternList([_as_positive(_body(pattern))])
    theirs = PatternList([_as_positive(_body(other)) for other in later])
    matched = [path for path in tracked if ours.matching(path)]
    return " (of the tracked files)" if matched and all(theirs.matching(path) for path in matched) else ""


def _may_meet(one: PathPattern, other: PathPattern) -> bool:
    """Whether the literal beginnings allow a path that both match."""
    ours, theirs = literal_head(_body(one)), literal_head(_body(other))
    return ours.startswith(theirs) or theirs.startswith(ours)


def _is_negative(pattern: PathPattern) -> bool:
    return pattern.text.startswith("!")


def _body(pattern: PathPattern) -> str:
    return pattern.text.removeprefix("!")


def _as_positive(body: str) -> str:
    return "\\" + body if body.startswith("!") else body


# ---- lanes


def _twins(lanes: Sequence[Lane]) -> Iterator[Finding]:
    by_paths: dict[tuple[str, ...], Lane] = {}
    told: set[At] = set()
    for lane in lanes:
        texts = [pattern.text for pattern in lane.paths]
        # Without `!` the order means nothing.
        twin = by_paths.setdefault(tuple(texts if any(map(_is_negative, lane.paths)) else sorted(set(texts))), lane)
        if twin is lane or lane.at in told:
            continue
        told.add(lane.at)
        if lane.each and twin.each and lane.each.group == twin.each.group:
            message = f"the lanes of '{lane.each.group}' all have the same paths"
            yield Finding("equal-paths", lane.at, message, 'write "{path}/**" among them')
        else:
            yield Finding("equal-paths", lane.at, f"lane '{lane.name}' has the same paths as '{twin.name}' at {twin.at}")


def _missing_inputs(lanes: Sequence[Lane], exists: Callable[[str], bool]) -> Iterator[Finding]:
    for lane in lanes:
        for check in lane.checks:
            named = check.options.get("inputs")
            for name in named if isinstance(named, list | tuple) else ():
                if not is_pattern(str(name)) and not exists(str(name)):
                    yield Finding("missing-input", check.at, f"input '{name}' of a check of lane '{lane.name}' does not exist")


def _ungated(lanes: Sequence[Lane], tracked: Sequence[str], roots: Sequence[str]) -> Iterator[Finding]:
    if not roots:
        return
    index = Index({lane.name: PatternList([pattern.text for pattern in lane.paths]) for lane in lanes})
    # The change of such a file touches its lanes.
    files = {at.file for lane in lanes for at in (lane.at, *(pattern.at for pattern in lane.paths))}
    found: dict[str, int] = {}
    for root in dict.fromkeys(_folder(root) for root in roots):
        inside = [path for path in tracked if path.startswith(root)]
        if not inside:
            yield Finding("ungated", root or ".", "there is no tracked file under this root", "correct the setting")
        missed = {path for path in inside if path not in files and not index.look([path]).touched}
        found |= _widest(root, inside, missed)
    for where, count in found.items():
        if where.endswith("/") or not where:
            yield Finding("ungated", where or ".", f"no lane gates the {count} tracked file{'s' * (count > 1)} here")
        else:
            yield Finding("ungated", where, "no lane gates this file")


def _folder(root: str) -> str:
    name = root.removeprefix("./").strip("/")
    return "" if name in ("", ".") else f"{name}/"


def _widest(root: str, inside: Sequence[str], missed: set[str]) -> dict[str, int]:
    """The missed paths by the widest folder below (or at) the root of which all is missed, else each by itself."""
    whole: dict[str, int] = {}
    lacking: dict[str, int] = {}
    for path in inside:
        for folder in _folders(root, path):
            whole[folder] = whole.get(folder, 0) + 1
            lacking[folder] = lacking.get(folder, 0) + (path in missed)
    found: dict[str, int] = {}
    for path in sorted(missed):
        where = next((folder for folder in _folders(root, path) if lacking[folder] == whole[folder]), path)
        found[where] = found.get(where, 0) + 1
    return found


def _folders(root: str, path: str) -> Iterator[str]:
    """The folders from the root down to the path, each with its `/`."""
    yield root
    end = path.find("/", len(root))
    while end >= 0:
        yield path[: end + 1]
        end = path.find("/", end + 1)


# ---- workflows


def _drift(events: Sequence[EventPaths]) -> Iterator[Finding]:
    """Where two events have lists of one kind that differ: each pattern that only one has, or the order."""
    for kind in ("paths", "ignore"):
        lists = [(event, patterns) for event in events if (patterns := getattr(event, kind))]
        for event, patterns in lists[1:]:
            first, against = lists[0]
            ours, theirs = _by_text(patterns), _by_text(against)
            if [pattern.text for pattern in patterns] == [pattern.text for pattern in against]:
                continue
            for text, at in [*ours.items(), *theirs.items()]:
                has, lacks = (event, first) if text in ours else (first, event)
                if text not in ours or text not in theirs:
                    message = f"'{text}' is in the list of {has.event} only; that of {lacks.event} at {lacks.at} lacks it"
                    yield Finding("drift", at, message, "one list for both: `paths: &paths [...]`, then `paths: *paths`")
            if ours.keys() == theirs.keys():
                message = f"the list of {event.event} has the patterns of {first.event} at {first.at} in another order"
                yield Finding("drift", event.at, message, "with `!` the order decides")


def _by_text(patterns: Sequence[PathPattern]) -> Mapping[str, At]:
    return {pattern.text: pattern.at for pattern in patterns}
