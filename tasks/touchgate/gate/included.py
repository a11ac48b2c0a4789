"""Which lanes a change touches through what their sources include, though no pattern of theirs names it.

Asked only about lanes that no path touches directly; where no such lane has a source, nothing is read, and the readers
(`touchgate.gate.closure`) are not even imported. What can't be read makes its lane run.
"""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress

from touchgate.gate.git import GitFault
from touchgate.gate.model import Included
from touchgate.gate.plan import untouched
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from touchgate.gate.change import Judged
    from touchgate.gate.closure.graph import Closure
    from touchgate.gate.git import Repository
    from touchgate.gate.model import Change, CheckDeclaration, Lane

MOST_SHOWN = 4
"""Steps of a way that a reason shows."""

_BESIDE = ("kernel", "benchmark")
"""Kinds whose target is an oracle with its kernel beside it."""
_WORD = r"[^\s'\"`;&|<>()=,$]+"
_SOURCE = (".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".rs")


def named_sources(lane: Lane) -> tuple[str, ...]:
    """The sources that a lane's checks name, without looking whether they exist. A folder of vectors ends in "/"."""
    return tuple(dict.fromkeys(source for check in lane.checks for source in _of_check(check)))


def _of_check(check: CheckDeclaration) -> Iterator[str]:
    target = check.target
    if check.kind == "vectors":
        yield target.rstrip("/") + "/"
    elif check.kind in ("pytest", "command"):
        for word in re.findall(_WORD, target):
            path = posixpath.normpath(word.partition("::")[0])
            if path.endswith(_SOURCE):
                yield path
                if check.kind == "pytest":
                    yield from _conftests(path)
    elif target.endswith(_SOURCE):
        yield posixpath.normpath(target)
        if check.kind in _BESIDE:
            yield posixpath.normpath(f"{posixpath.splitext(target)[0]}.cu")


def _conftests(path: str) -> Iterator[str]:
    """What pytest loads with a test, whatever the test is named."""
    while path:
        path = posixpath.dirname(path)
        yield posixpath.join(path, "conftest.py")


def has_sources(lane: Lane) -> bool:
    """Whether a lane has a closure at all."""
    if lane.closure is None or lane.closure.sources is None:
        return bool(named_sources(lane))
    return bool(lane.closure.sources)


def included(
    repo: Repository, judged: Judged, head: Mapping[str, Lane], base: Mapping[str, Lane] | None
) -> dict[str, Included]:
    """Lane -> what touches it through its closure at head or at the base branch's tip, or why that can't be told."""
    change = judged.change
    if change.open_reason or judged.due or not change.paths:
        return {}
    sides = [_Side(head, "", None if change.head_is_worktree else change.head)]
    if base and judged.base_tip and (change.head_is_worktree or judged.base_tip != change.head):
        sides.append(_Side(base, " (at the base branch's tip)", judged.base_tip))
    with_sources = [{name: lane for name, lane in side.lanes.items() if has_sources(lane)} for side in sides]
    if not any(with_sources):
        return {}
    open_ones = untouched(with_sources[0], with_sources[1] if len(sides) > 1 else {}, change)
    found: dict[str, Included] = {}
    for side, lanes in zip(sides, with_sources, strict=True):
        wanted = {name: lanes[name] for name in open_ones if name in lanes and name not in found}
        if wanted:
            found |= _of_side(repo, change, side, wanted)
    return found


class _Side:
    def __init__(self, lanes: Mapping[str, Lane], which: str, commit: str | None) -> None:
        self.lanes = lanes
        self.which = which
        self.commit = commit


def _of_side(repo: Repository, change: Change, side: _Side, lanes: Mapping[str, Lane]) -> dict[str, Included]:
    from touchgate.gate.closure.of_lanes import LaneClosures  # noqa: PLC0415  most runs do without
    from touchgate.gate.closure.tree import ClosureFault  # noqa: PLC0415

    def untold(fault: Exception) -> Included:
        return Included(None, f"what its sources include can't be told{side.which}: {_in_words(fault)}")

    found = {}
    try:
        closures = LaneClosures.of(repo, side.commit)
        with suppress(ClosureFault):  # each lane's own is told below
            closures.explore(lanes.values())
    except Exception as fault:  # noqa: BLE001  not asked again lane by lane: git may take minutes to give up
        return dict.fromkeys(lanes, untold(fault))
    for name, lane in lanes.items():
        try:
            hit = _touch(closures.closure(lane), change, side.which)
        except Exception as fault:  # noqa: BLE001  whatever it is, it must not skip the lane
            hit = untold(fault)
        if hit is not None:
            found[name] = hit
    return found


def files_of(repo: Repository, lanes: Iterable[Lane]) -> dict[str, tuple[tuple[str, ...], str]]:
    """For each lane that has sources, the files of the working tree that they reach, and why that can't be told or ""."""
    wanted = [lane for lane in lanes if has_sources(lane)]
    if not wanted:
        return {}
    from touchgate.gate.closure.of_lanes import LaneClosures  # noqa: PLC0415  as above

    closures = LaneClosures.of(repo, None)
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for lane in wanted:
        try:
            found[lane.name] = tuple(closures.closure(lane).files), ""
        except Exception as fault:  # noqa: BLE001  it must not let an old result stand
            found[lane.name] = (), _in_words(fault)
    return found


def _in_words(fault: Exception) -> str:
    from touchgate.gate.closure.tree import ClosureFault  # noqa: PLC0415  it is imported by now

    first = str(fault).partition("\n")[0]
    if isinstance(fault, (GitFault, ClosureFault)):
        return first
    return f"touchgate itself failed: {type(fault).__name__}: {first}; please report it"


def _touch(closure: Closure, change: Change, which: str) -> Included | None:
    for touched in change.paths:
        path = _reached(closure, touched.path)
        if path is not None:
            return Included(
                touched.path, f"{way_to(closure, path, touched.status)}, which no pattern of the lane names{which}"
            )
    return None


def _reached(closure: Closure, path: str) -> str | None:
    """The file of the closure that a touched path is, or may be."""
    if path in closure.files:
        return path
    for link in closure.gitlinks:
        if path.startswith(f"{link}/"):
            return link
    if path.endswith("/"):
        # A submodule that is not checked out: what differs inside can't be told.
        return next((file for file in closure.files if f"{file}/".startswith(path)), None)
    return None


def way_to(closure: Closure, path: str, status: str = "") -> str:
    """How the sources lead to a file: "a.cu:3 includes b.cuh, which at line 7 includes c.cuh (M)"."""
    letter = f" ({status})" if status else ""
    steps = closure.way_to(path)
    if not steps:
        return f"{path}{letter} is a source of the lane"
    words = []
    for place, (step, end) in enumerate(steps):
        if place and step.line:
            words.append(f"which at line {step.line} {step.verb} {end}")
        elif place:
            words.append(f"which {step.verb} {end}")
        else:
            words.append(f"{step.path}{f':{step.line}' if step.line else ''} {step.verb} {end}")
    if len(words) > MOST_SHOWN:
        words[2:-1] = [f"... {len(words) - 3} more ..."]
        words[-1] = f"{steps[-1][0].path}:{steps[-1][0].line} {steps[-1][0].verb} {path}"
    return ", ".join(words) + letter
