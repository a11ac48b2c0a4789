"""Which lanes a change touches through what their sources include, though no pattern of theirs names it.

Asked only about lanes that no path touches directly. What their checks name is compared with the touched paths as it is
written; where none of it is a source that could include more, nothing is read, and the readers (`touchgate.gate.closure`)
are not even imported. What can't be read makes its lane run.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from touchgate.gate import listed
from touchgate.gate.git import GitFault
from touchgate.gate.model import Included
from touchgate.gate.named import of_lane, read_as, untold_of_check
from touchgate.gate.patterns import PatternList
from touchgate.gate.plan import ATTRIBUTES, is_attributes, untouched
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from touchgate.gate.change import Judged
    from touchgate.gate.closure.graph import Closure
    from touchgate.gate.closure.of_lanes import LaneClosures
    from touchgate.gate.git import Repository
    from touchgate.gate.model import Change, Lane
    from touchgate.gate.names import Name
    from touchgate.gate.objects import TreeEntry

MOST_SHOWN = 4
"""Steps of a way that a reason shows."""
MOST_UNTOLD = 3
"""Places that a note shows."""

_PATHS = frozenset(("word", "file", "source", "script", "python", "makefile"))
"""Kinds of names that are paths."""


class Inclusion(NamedTuple):
    """What closures say about lanes that no path touches directly.

    touched: lane -> what touches it at head or at the base branch's tip, or why that can't be told. untold: lane -> the
    places in its closure that nothing but a run can tell; they touch nothing, and whoever skips the lane says so.
    """

    touched: Mapping[str, Included] = {}
    untold: Mapping[str, tuple[str, ...]] = {}


def named(lane: Lane) -> tuple[Name, ...]:
    """What a lane's checks name; nothing where its closure is switched off."""
    if lane.closure is not None and lane.closure.sources == ():
        return ()
    return of_lane(lane)


def has_sources(lane: Lane) -> bool:
    """Whether a lane may have a closure at all."""
    if lane.closure is None or lane.closure.sources is None:
        return bool(named(lane))
    return bool(lane.closure.sources)


def taken_back(lane: Lane) -> Callable[[str], bool]:
    """Whether a path is one that the lane's own patterns name and a `!` takes back."""
    texts = [pattern.text for pattern in lane.paths]
    negatives = [text[1:] for text in texts if text.startswith("!")]
    if not negatives:
        return lambda _: False
    of_all, of_negatives = PatternList(texts), PatternList(negatives)
    return lambda path: of_all.decides(path) is None and of_negatives.decides(path) is not None


def included(repo: Repository, judged: Judged, head: Mapping[str, Lane], base: Mapping[str, Lane] | None) -> Inclusion:
    """What touches lanes through their closures at head or at the base branch's tip."""
    change = judged.change
    if change.open_reason or judged.due or not change.paths:
        return Inclusion()
    sides = [_Side(repo, change, head, "", None if change.head_is_worktree else change.head)]
    if base and judged.base_tip and (change.head_is_worktree or judged.base_tip != change.head):
        sides.append(_Side(repo, change, base, " (at the base branch's tip)", judged.base_tip))
    touched: dict[str, Included] = {}
    to_read = []
    for side in sides:
        if side is sides[0] or side.lanes is not head:
            found = listed.touches(side.lanes, change, side.which)
            for name, hit in (_named_touches(side.lanes, change, side.which) | found).items():
                touched.setdefault(name, hit)
        to_read.append([lane for lane in side.lanes.values() if lane.name not in touched and side.needs_reading(lane)])
    untold = {lane.name: untold_words(lane, sides[0].is_there) for lane in head.values() if lane.name not in touched}
    if not any(to_read):
        return _inclusion(touched, untold)
    # Only now: it matches all the patterns once more.
    open_ones = untouched(head, base if base and len(sides) > 1 else {}, change)
    read: dict[str, tuple[str, ...]] = {}
    for side, lanes in zip(sides, to_read, strict=True):
        wanted = {lane.name: lane for lane in lanes if lane.name in open_ones and lane.name not in touched}
        if wanted:
            _of_side(side, wanted, touched, read)
    for name, places in read.items():
        untold[name] = (*untold.get(name, ()), *places)
    return _inclusion(touched, untold)


def _inclusion(touched: dict[str, Included], untold: Mapping[str, tuple[str, ...]]) -> Inclusion:
    return Inclusion(touched, {name: places for name, places in untold.items() if places and name not in touched})


def untold_words(lane: Lane, is_there: Callable[[str], bool]) -> tuple[str, ...]:
    """The words of a lane's checks that can't be told, each with its place, where its sources are not declared instead."""
    if lane.closure is not None and lane.closure.sources is not None:
        return ()
    return tuple(
        f"{check.at.file}:{check.at.line} {one.text}"
        for check in lane.checks
        for one in untold_of_check(*read_as(check))
        if not any(path and is_there(path) for path in one.behind)
    )


class _Side:
    """The lanes of head or of the base branch's tip, and the tree that they are about. commit: None for the working tree."""

    def __init__(self, repo: Repository, change: Change, lanes: Mapping[str, Lane], which: str, commit: str | None) -> None:
        self.repo = repo
        self.change = change
        self.lanes = lanes
        self.which = which
        self.commit = commit
        self._folders: dict[str, Mapping[str, TreeEntry]] = {}
        self._linked: dict[str, bool] = {}

    def needs_reading(self, lane: Lane) -> bool:
        """Whether a lane's closure may hold more than what its checks name: whether a source, link or pattern is there."""
        if lane.closure is not None and lane.closure.sources is not None:
            return bool(lane.closure.sources)
        for name in named(lane):
            if name.kind in ("include", "pythonpath"):
                continue
            if name.is_pattern or name.kind not in _PATHS:
                return True
            if any(self._is_to_read(name.kind, path) for path in name.paths() if path):
                return True
        return False

    def is_linked(self, name: Name) -> bool:
        """Whether the files of a folder may lie elsewhere than its name says, or may be in several folders."""
        return name.is_pattern or any(
            self._lies_at(path) == "link" or self._holds_links(path) for path in name.paths() if path
        )

    def _holds_links(self, folder: str) -> bool:
        """Whether a link lies below a folder. One that came or went since the commit is a touched path in the folder."""
        commit = self.commit or self.change.head
        if commit and folder not in self._linked:
            waiting = [folder]
            self._linked[folder] = False
            while waiting:
                here = waiting.pop()
                for name, entry in (self.repo.folder(commit, here) or {}).items():
                    if stat.S_ISLNK(entry.mode):
                        self._linked[folder] = True
                        return True
                    if stat.S_ISDIR(entry.mode):
                        waiting.append(f"{here}/{name}")
        return self._linked.get(folder, False)

    def _is_to_read(self, kind: str, path: str) -> bool:
        try:
            there = self._lies_at(path)
            if there != "file":
                return there == "link" or (there == "folder" and kind == "word" and self._holds_links(path))
        except GitFault:
            return True  # it is told there
        from touchgate.gate.closure.languages import language_of  # noqa: PLC0415  most runs do without

        return kind in ("script", "python", "makefile") or language_of(path) is not None

    def is_there(self, path: str) -> bool:
        """Whether anything lies at a path; where that can't be told, no."""
        with suppress(GitFault):
            return bool(self._lies_at(path))
        return False

    def _lies_at(self, path: str) -> str:
        """What lies at a path: "file", "folder", "link" where one is on the way, or ""."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            mode = self._mode_of("/".join(parts[:end]))
            if mode is None:
                return ""
            if stat.S_ISLNK(mode):
                return "link"
            if not stat.S_ISDIR(mode):
                return "file" if end == len(parts) else ""
        return "folder"

    def _mode_of(self, path: str) -> int | None:
        commit = self.commit
        if commit is None:
            with suppress(OSError, ValueError):
                return os.lstat(f"{self.repo.root}/{path}").st_mode
            # A sparse checkout may leave it out.
            commit = self.change.head
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = (self.repo.folder(commit, folder) if commit else None) or {}
        entry = self._folders[folder].get(name)
        return entry.mode if entry else None


class _Places:
    """What the checks of lanes name as paths. Nothing is read to build it."""

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        self.lanes = lanes
        self.by_path: dict[str, dict[str, bool]] = {}
        """Path -> the lanes that name it, and whether as a folder it stands for all that is in it."""
        for lane in lanes.values():
            for name in named(lane):
                if name.kind in _PATHS and not name.is_pattern:
                    for path in name.paths():
                        known = self.by_path.setdefault(path, {})
                        known[lane.name] = known.get(lane.name, False) or name.kind == "word"
                elif name.kind in ("include", "pythonpath"):
                    self._add_folders(lane.name, name.paths())
            if lane.closure is not None:
                self._add_folders(lane.name, (*lane.closure.include, *lane.closure.python))
        self.by_path.pop("", None)
        self.within: dict[str, dict[str, bool]] = {}
        """Folder or submodule -> the lanes that name something in it."""
        for path, known in self.by_path.items():
            for folder in _above(path):
                self.within.setdefault(folder, {}).update(known)
        self.starts = {path.partition("/")[0] for path in self.by_path}
        self._outs: dict[str, Callable[[str], bool]] = {}
        self._around: dict[str, list[tuple[str, str]]] = {}
        """Folder -> the lanes that name it or one above it as a whole: touched paths lie together."""

    def _add_folders(self, lane: str, folders: Iterable[str]) -> None:
        """Folders to look names up in: only as links and submodules they touch a lane by themselves."""
        for folder in folders:
            self.by_path.setdefault(folder, {}).setdefault(lane, False)

    def touched_by(self, path: str) -> Iterator[tuple[str, str]]:
        """The lanes that a touched path touches, and the named folder that it is in, or ""."""
        if path.partition("/")[0] not in self.starts:
            return
        plain = path.rstrip("/")
        # A link or a submodule on the way to what is named.
        yield from ((lane, "") for lane in (*self.by_path.get(plain, ()), *self.within.get(plain, ())))
        parent = plain.rpartition("/")[0]
        if parent not in self._around:
            above = (parent, *_above(parent)) if parent else ()
            known = ((folder, self.by_path.get(folder, {})) for folder in above)
            self._around[parent] = [(lane, folder) for folder, lanes in known for lane, is_whole in lanes.items() if is_whole]
        for lane, folder in self._around[parent]:
            if not self._is_out(lane, path):
                yield lane, folder

    def _is_out(self, lane: str, path: str) -> bool:
        if lane not in self._outs:
            self._outs[lane] = taken_back(self.lanes[lane])
        return self._outs[lane](path)


def _named_touches(lanes: Mapping[str, Lane], change: Change, which: str) -> dict[str, Included]:
    """Lane -> a touched path that its checks name, or that lies in a folder which they name."""
    places = _Places(lanes)
    found: dict[str, Included] = {}
    for touched in change.paths if places.starts else ():
        for lane, folder in places.touched_by(touched.path):
            if lane not in found:
                how = f"is in {folder}, which a check of the lane names, and" if folder else "is a source of the lane,"
                lacks = "no pattern of it does" if folder else "which no pattern of the lane names"
                found[lane] = Included(touched.path, f"{touched.path} ({touched.status}) {how} {lacks}{which}")
    return found


def _above(path: str) -> Iterator[str]:
    """The folders above a path, without the root."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _of_side(side: _Side, lanes: Mapping[str, Lane], touched: dict[str, Included], untold: dict[str, tuple[str, ...]]) -> None:
    from touchgate.gate.closure.of_lanes import LaneClosures  # noqa: PLC0415  most runs do without
    from touchgate.gate.closure.tree import ClosureFault  # noqa: PLC0415

    try:
        closures = LaneClosures.of(side.repo, side.commit)
        with suppress(ClosureFault):  # each lane's own is told below
            touched |= _source_touches(closures, lanes, side)
            lanes = {name: lane for name, lane in lanes.items() if name not in touched}
            closures.explore(lanes.values())
    except Exception as fault:  # noqa: BLE001  not asked again lane by lane: git may take minutes to give up
        touched.update(dict.fromkeys(lanes, _fault_of(fault, side.which)))
        return
    for name, lane in lanes.items():
        try:
            closure = closures.closure(lane)
            hit = _touch(closure, side.change, side.which)
            untold.setdefault(name, closures.untold(lane, closure))
        except Exception as fault:  # noqa: BLE001  whatever it is, it must not skip the lane
            hit = _fault_of(fault, side.which)
        if hit is not None:
            touched[name] = hit


def _fault_of(fault: Exception, which: str) -> Included:
    return Included(None, f"what its sources include can't be told{which}: {_in_words(fault)}")


def _source_touches(closures: LaneClosures, lanes: Mapping[str, Lane], side: _Side) -> dict[str, Included]:
    """Lane -> a touched path that is a source of it, which can be told before any source is read."""
    from touchgate.gate.closure.tree import ClosureFault  # noqa: PLC0415  it is imported by now

    found = {}
    for lane in lanes.values():
        paths = dict.fromkeys((source.path for source in closures.sources(lane)), "")
        try:
            for path, folder in closures.linked(lane, side.is_linked):
                paths.setdefault(path, folder)
        except ClosureFault as fault:  # nothing below asks for the folders again
            found[lane.name] = _fault_of(fault, side.which)
            continue
        hit = next((one for one in side.change.paths if one.path in paths), None)
        if hit is not None:
            folder = paths[hit.path]
            how = f"comes with {folder}, which a check of the lane names, and" if folder else "is a source of the lane,"
            lacks = "no pattern of it does" if folder else "which no pattern of the lane names"
            found[lane.name] = Included(hit.path, f"{hit.path} ({hit.status}) {how} {lacks}{side.which}")
    return found


def untold_in_words(lane: str, places: Sequence[str]) -> str:
    """One line about what the closure of a skipped lane leaves open."""
    shown = ", ".join((*places[:MOST_UNTOLD], *(["..."] if len(places) > MOST_UNTOLD else ())))
    return f"note: {len(places)} place{'' if len(places) == 1 else 's'} of lane '{lane}' can't be told ({shown})"


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
            files = (*closures.closure(lane, whole=True).files, *closures.below(lane))
            found[lane.name] = _without_ignored(repo, dict.fromkeys(files)), ""
        except Exception as fault:  # noqa: BLE001  it must not let an old result stand
            found[lane.name] = (), _in_words(fault)
    return found


def _without_ignored(repo: Repository, files: Iterable[str]) -> tuple[str, ...]:
    """The files without what a command makes and git ignores: a program that it builds is no input of its own.

    Of a path along a link the link and its end are among the files too.
    """
    from touchgate.gate.closure.languages import language_of  # noqa: PLC0415  as above

    files = tuple(files)
    doubtful = [path for path in files if language_of(path) is None]
    if not doubtful:
        return files
    kept = {entry.path for entry in repo.tracked(doubtful)} | repo.changed_in_worktree(doubtful)
    return tuple(path for path in files if path in kept or language_of(path) is not None)


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
        if is_attributes(touched.path):
            folder = touched.path[: -len(ATTRIBUTES)]
            path = next((file for file in closure.files if file.startswith(folder)), None)
            if path is not None:
                how = f"{touched.path} ({touched.status}) can change what is checked out for {path}"
                return Included(touched.path, f"{how}, which the sources of the lane reach{which}")
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
