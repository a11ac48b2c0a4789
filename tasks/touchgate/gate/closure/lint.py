"""What lists of patterns lack, as findings: files that sources include and that no pattern lets through.

What can't be told (a macro says what is included) and what is in the tree but in no declared folder are notes: no pattern
cures them, or none is needed.
"""

from __future__ import annotations

import posixpath
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from touchgate.gate import workflow
from touchgate.gate.closure.languages import VERBS
from touchgate.gate.closure.of_lanes import matching
from touchgate.gate.closure.references import Settings
from touchgate.gate.closure.tree import ClosureFault
from touchgate.gate.git import GitFault
from touchgate.gate.included import has_sources, untold_words, way_to
from touchgate.gate.lint import Finding
from touchgate.gate.model import At
from touchgate.gate.patterns import PatternList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from touchgate.gate.closure.graph import Closure, Unfound
    from touchgate.gate.closure.of_lanes import LaneClosures
    from touchgate.gate.model import Lane
    from touchgate.gate.workflow import WorkflowPaths

MANY = 3
"""More missing files of one folder than this are told as one, with a pattern for the folder."""


class Told(NamedTuple):
    """findings: what a pattern cures. notes: what is only good to know, one line each."""

    findings: list[Finding]
    notes: list[str]


def of_lanes(closures: LaneClosures, lanes: Iterable[Lane], tracked: Sequence[str]) -> Told:
    """What the lanes' patterns lack, by lane. tracked: all tracked paths."""
    told = Told([], [])
    index = _Endings(tracked)
    by_name = {lane.name: lane for lane in lanes}
    for lane in by_name.values():
        owner = f"lane '{lane.name}'"
        told.notes.extend(_of_words(closures, lane, owner))
        if not has_sources(lane):
            continue
        try:
            closure = closures.closure(lane)
        except (ClosureFault, GitFault) as fault:
            message = f"what the sources of {owner} include can't be told: {fault}"
            told.findings.append(Finding("closure-unread", lane.at, message))
            continue
        told.findings.extend(_unmatched(closures, lane))
        lists = [PatternList([pattern.text for pattern in one.paths]) for one in _with_needed(lane, by_name)]
        missing = _missing(closure, index.tracked, lambda path: any(held.decides(path) is not None for held in lists))  # noqa: B023
        told.findings.extend(_findings(closure, missing, owner, lane.closure.at if lane.closure else lane.at))
        told.notes.extend(_notes(closure, owner, index))
    return told


def of_workflow(
    closures: LaneClosures, paths: WorkflowPaths, sources: Sequence[str], settings: Settings, tracked: Sequence[str]
) -> Told:
    """What each path list of a workflow lacks, so that every file that the sources include can fire it."""
    told = Told([], [])
    index = _Endings(tracked)
    closure = closures.of_sources(matching(sources, closures.tree), settings)
    if not closure.files:
        at = At(paths.file, 1, 1)
        message = f"none of the sources {', '.join(sources)} is a file"
        return Told([Finding("closure-unread", at, message)], [])
    for event, lists in paths.events.items():
        if lists.is_filtered:
            missing = _missing(closure, index.tracked, lambda path: workflow.decide(paths, event, [path]).run)  # noqa: B023
            told.findings.extend(_findings(closure, missing, f"{event} of {paths.file}", lists.at))
    told.notes.extend(_notes(closure, paths.file, index))
    return told


def as_pattern(path: str) -> str:
    """The pattern that matches this one path."""
    return re.sub(r"([*?+\[\]\\]|\A!)", r"\\\1", path)


def _unmatched(closures: LaneClosures, lane: Lane) -> Iterator[Finding]:
    """The patterns of a lane's own list of sources that no file matches. Its `paths` are looked at elsewhere."""
    declared = lane.closure
    for pattern in (declared.sources or ()) if declared and declared.sources != lane.paths else ():
        if not pattern.text.startswith("!") and not any(map(closures.tree.at, matching([pattern.text], closures.tree))):
            message = f"'{pattern.text}' in the closure of lane '{lane.name}' matches no file: nothing is read for it"
            yield Finding("no-source", pattern.at, message)


def _with_needed(lane: Lane, by_name: Mapping[str, Lane]) -> list[Lane]:
    """A lane and those whose touch touches it with the whole suite: what they let through needs no pattern of its own."""
    found = {lane.name: lane}
    waiting = [lane]
    while waiting:
        for need in waiting.pop().needs:
            if need.suite is None and need.lane in by_name and need.lane not in found:
                found[need.lane] = by_name[need.lane]
                waiting.append(by_name[need.lane])
    return list(found.values())


def _missing(closure: Closure, tracked: frozenset[str], lets_through: Callable[[str], bool]) -> list[str]:
    return [path for path in closure.files if path in tracked and not lets_through(path)]


def _findings(closure: Closure, missing: Sequence[str], owner: str, at: At) -> Iterator[Finding]:
    by_folder: dict[str, list[str]] = {}
    for path in missing:
        by_folder.setdefault(posixpath.dirname(path), []).append(path)
    for folder, paths in by_folder.items():
        if folder and len(paths) > MANY:
            shown = f"{way_to(closure, paths[0])}, which no pattern of {owner} lets through, nor {len(paths) - 1} more there"
            yield Finding("not-gated", at, shown, f"add `{as_pattern(folder)}/**`")
            continue
        for path in paths:
            shown = f"{way_to(closure, path)}, which no pattern of {owner} lets through"
            yield Finding("not-gated", at, shown, f"add `{as_pattern(path)}`")


def _of_words(closures: LaneClosures, lane: Lane, owner: str) -> Iterator[str]:
    """The words of a lane's checks that can't be told."""

    def is_there(path: str) -> bool:
        return bool(closures.tree.at(path)) or closures.tree.folder(path) is not None

    for place in untold_words(lane, is_there):
        where, _, text = place.partition(" ")
        yield f"{where}: '{text}' can't be told ({owner}; name in `paths` or `closure: {{from: [...]}}` what it may mean)"


def _notes(closure: Closure, owner: str, index: _Endings) -> Iterator[str]:
    for one in closure.unresolved:
        yield f"{one.path}:{one.line}: '{one.text}' can't be told: {one.why} ({owner}; name in `paths` what it may mean)"
    seen: set[tuple[str, str]] = set()
    for unfound in closure.unfound:
        found = index.folder_of(unfound)
        if found is None or found in seen:
            continue
        seen.add(found)
        key, folder = found
        verb = VERBS.get(unfound.how, "names")
        yield (
            f"{unfound.path}:{unfound.line} {verb} {unfound.text}, which is not found, though {folder or 'the root'} holds "
            f"such a name ({owner}; if that is meant: `closure: {{{key}: [{folder or '.'}]}}`)"
        )


class _Endings:
    """Which folders a name could be looked up in, by the tracked paths."""

    def __init__(self, tracked: Sequence[str]) -> None:
        self.tracked = frozenset(tracked)
        self._by_name: Mapping[str, list[str]] | None = None

    def folder_of(self, unfound: Unfound) -> tuple[str, str] | None:
        """The key of `closure` and the folder that would make a name mean something, the shortest such; else None."""
        if unfound.how in ("quotes", "angles"):
            name = posixpath.normpath(unfound.text)
            # <string.h> is the system's wherever a file of that name lies.
            if unfound.how == "angles" and "/" not in name:
                return None
            folder = self._holding(name)
            return None if folder is None else ("include", folder)
        if unfound.how in ("import", "from") and not unfound.text.startswith("."):
            if unfound.text.partition(".")[0] in sys.stdlib_module_names:
                return None
            name = unfound.text.replace(".", "/")
            folders = (self._holding(f"{name}{end}", "__init__.py") for end in (".py", "/__init__.py"))
            folder = next((one for one in folders if one is not None), None)
            return None if folder is None else ("python", folder)
        return None

    def _holding(self, name: str, without: str = "") -> str | None:
        """The shortest folder that has the name, of those that lack a file: no import starts from within a package."""
        if name.startswith(("/", "../")):
            return None
        if self._by_name is None:
            by_name: dict[str, list[str]] = {}
            for path in self.tracked:
                by_name.setdefault(posixpath.basename(path), []).append(path)
            self._by_name = by_name
        ends = [path for path in self._by_name.get(posixpath.basename(name), ()) if path.endswith(f"/{name}")]
        folders = (path[: -len(name) - 1] for path in ends)
        starts = (folder for folder in folders if not without or f"{folder}/{without}" not in self.tracked)
        return min(starts, key=lambda folder: (len(folder), folder), default=None)
