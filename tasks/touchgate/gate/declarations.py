"""Lane files (tasks/*.yml) to lanes, with every mistake of every file reported at once.

    lanes:
      gemv:
        about: matrix-vector products
        paths: [kernels/gemv/**, "!**/*.md"]
        needs: [common, {lite: [docs]}]
        suites: [smoke, performance, full]
        device: gpu
        minutes: 30
        timeout: 60
        env: [HF_HOME]
        checks:
          - kernel: kernels/gemv/gemv.py

`paths` and `checks` must be there. With `each` beside them the lane stands for one lane a folder (`touchgate.gate.each`).
Top-level keys that begin with `x-` are left alone: a place for anchors.
"""

from __future__ import annotations

import re

from touchgate.gate import located
from touchgate.gate.check_declarations import LONGEST_MINUTES, NAME, NAME_CURE, CheckReader
from touchgate.gate.located import DeclarationError, Mapping_, Node, Problem, Scalar, Sequence, did_you_mean, words
from touchgate.gate.model import SUITES, At, ClosureDeclaration, DeviceWish, Each, Lane, Need, PathPattern
from touchgate.gate.patterns import list_faults
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from collections.abc import Sequence as ListOf

LANE_KEYS = ("about", "each", "paths", "needs", "suites", "device", "minutes", "timeout", "env", "closure", "checks")
DEFAULT_MINUTES = 30.0
MOST_DEVICES = 1024
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"


def read_lanes(
    sources: Mapping[str, bytes],
    kinds: Mapping[str, Collection[str]] | None = None,
    *,
    read_file: Callable[[str], bytes | None] | None = None,
    folders: Callable[[str], Iterable[str]] | None = None,
    reserved: Collection[str] = (),
    may_be_empty: Callable[[str, ListOf[str]], bool] = lambda _file, _patterns: False,
) -> dict[str, Lane]:
    """All lanes, by name, ordered by file and by their place in it. Raises DeclarationError with every mistake.

    sources: file, relative to the root -> content. kinds: kind of check -> the further keys that it takes; None: any
    kind with any keys. read_file: the content of another file of the same tree (a workflow), None where there is none.
    folders: the names of the folders directly in a folder of that tree ("" is the root), none where it is not there.
    reserved: names that a lane can't have. may_be_empty: whether an `each`, by its file and patterns, may match no folder.
    """
    reader = _Reader(kinds, read_file or (lambda _: None), folders or (lambda _: ()), frozenset(reserved), may_be_empty)
    for file in sorted(sources):
        reader.file(file, sources[file])
    reader.needs()
    if reader.problems:
        raise DeclarationError(reader.problems, {**sources, **reader.workflows})
    return reader.lanes


class _Reader:
    def __init__(
        self,
        kinds: Mapping[str, Collection[str]] | None,
        read_file: Callable[[str], bytes | None],
        folders: Callable[[str], Iterable[str]],
        reserved: frozenset[str],
        may_be_empty: Callable[[str, ListOf[str]], bool],
    ) -> None:
        self.read_file = read_file
        self.folders = folders
        self.reserved = reserved
        self.may_be_empty = may_be_empty
        self.problems: list[Problem] = []
        self.checks = CheckReader(kinds, self.problems)
        self.lanes: dict[str, Lane] = {}
        self.names: dict[str, At] = {}
        """Every name that is declared, also those of lanes with mistakes: their needs are known."""
        self.wanted: dict[str, tuple[Need, ...]] = {}
        self.groups: dict[str, list[str]] = {}
        """The lanes that one with `each` stands for, by its name as declared."""
        self.unmade: list[str] = []
        """How names begin that could not be made from a mistaken `each`."""
        self.workflows: dict[str, bytes] = {}

    def problem(self, at: At, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(at, message, hint))

    # files and lanes

    def file(self, file: str, content: bytes) -> None:
        document = located.read(content, file)
        self.problems += document.problems
        root = document.root
        if root is None:
            if not document.problems:
                self.problem(At(file, 1, 1), "the file declares nothing", "write `lanes:` with a lane, or remove the file")
            return
        if not isinstance(root, Mapping_):
            self.problem(root.at, f"a lane file is a mapping with the key 'lanes', not {located.kind_of(root)}")
            return
        for name, key in root.keys.items():
            if name != "lanes" and not name.startswith("x-"):
                hint = did_you_mean(name, ["lanes"]) or "it takes 'lanes'"
                self.problem(key.at, f"unknown key '{name}' in a lane file", hint)
        if "lanes" in root.keys:
            self.lane_mapping(root.keys["lanes"], root.entries["lanes"])
        elif not any(did_you_mean(name, ["lanes"]) for name in root.keys):
            self.problem(root.at, "there is no 'lanes' in this file", "write `lanes:` with a lane, or remove the file")

    def lane_mapping(self, key: Scalar, lanes: Node) -> None:
        if not isinstance(lanes, Mapping_) or not lanes.entries:
            self.problem(key.at, "'lanes' must be a mapping from names to lanes", "write a lane below it")
            return
        for name, node in lanes.entries.items():
            if isinstance(node, Mapping_) and "each" in node.entries:
                self.group(lanes.keys[name], node)
            else:
                self.lane(lanes.keys[name], node, self.lane_name(lanes.keys[name]))

    def lane_name(self, key: Scalar, *, may_hold_fields: bool = False) -> bool:
        """Whether the lane is the first of a name that can be spelt; mistakes in the name are noted."""
        name = located.text(key, "a lane's name", self.problems)
        if name is None:
            return False
        if not re.fullmatch(NAME, name) and not may_hold_fields:
            cure = "'{name}' in it takes an 'each' below" if "{name}" in name else NAME_CURE
            self.problem(key.at, f"'{name}' can't name a lane", cure)
        elif name in self.reserved:
            self.problem(key.at, f"'{name}' can't name a lane: it is a command of doit", "take another name")
        if name in self.names:
            self.problem(key.at, f"lane '{name}' is declared twice", f"the first is at {self.names[name]}")
            return False
        self.names[name] = key.at
        return True

    def group(self, key: Scalar, node: Mapping_) -> None:
        """The lanes that one with `each` stands for. A mistake in its fields is told once, not for every folder."""
        from touchgate.gate import each  # noqa: PLC0415  most lane files do without

        before = len(self.problems)
        is_first = self.lane_name(key, may_hold_fields=each.has_field(key.text)) and len(self.problems) == before
        made = each.lanes_of(key, node, self.folders, self.problems, lambda patterns: self.may_be_empty(key.at.file, patterns))
        if is_first:
            kept = each.nameable(made, self.names, self.reserved, self.problems)
            self.names |= {name: one.at for name, one, _ in kept}
            self.groups[key.text] = [name for name, _, _ in kept]
            if not made and len(self.problems) > before:
                self.unmade.append(key.text.partition("{")[0])
            for name, one, fields in kept:
                if len(self.problems) > before:
                    break
                self.lane(Scalar(key.at, name, plain=False), fields, is_first=True, each=one)

    def lane(self, key: Scalar, node: Node, is_first: bool, each: Each | None = None) -> None:
        name = key.text
        if not isinstance(node, Mapping_) or not node.entries:
            empty = isinstance(node, Mapping_) or located.is_empty(node)
            found = "empty" if empty else located.kind_of(node)
            self.problem(key.at, f"lane '{name}' is {found}", "it takes at least 'paths' and 'checks'")
            return
        for entry, place in node.keys.items():
            if entry not in LANE_KEYS:
                hint = did_you_mean(entry, LANE_KEYS) or f"a lane takes {words(LANE_KEYS)}"
                self.problem(place.at, f"unknown key '{entry}' in lane '{name}'", hint)
        get = node.entries.get
        for required in ("paths", "checks"):
            if required in node.entries:
                continue
            hint = f"did you mean '{required}'?"
            if not any(did_you_mean(entry, LANE_KEYS) == hint for entry in node.keys if entry not in LANE_KEYS):
                self.problem(key.at, f"lane '{name}' has no '{required}'")
        about = get("about")
        paths = get("paths")
        checks = get("checks")
        needs = get("needs")
        closure = get("closure")
        own_paths = () if paths is None else self.paths(paths)
        minutes = self.minutes(get("minutes"), "'minutes'")
        timeout = self.minutes(get("timeout"), "'timeout'")
        device = get("device")
        wanted = self.need_list(name, needs) if needs is not None else ()
        if is_first:
            self.wanted[name] = wanted
        lane = Lane(
            name=name,
            about="" if about is None else located.text(about, "'about'", self.problems) or "",
            paths=own_paths,
            needs=wanted,
            suites=self.suites(get("suites")),
            device=DeviceWish() if device is None else self.device(device),
            minutes=minutes or DEFAULT_MINUTES,
            timeout=timeout or 2 * (minutes or DEFAULT_MINUTES),
            env=tuple(text for text, _ in self.texts(get("env"), "'env'", VARIABLE, "the name of a variable")),
            checks=() if checks is None else self.checks.read(node.keys["checks"], name, checks),
            at=key.at,
            each=each,
            closure=None if closure is None else self.closure(closure, name, own_paths),
            names_minutes=minutes is not None,
        )
        if is_first:
            # With any mistake anywhere no lane is handed out.
            self.lanes[name] = lane

    # small things

    def minutes(self, node: Node | None, what: str) -> float | None:
        if node is None:
            return None
        return located.number(node, what, self.problems, largest=LONGEST_MINUTES)

    def texts(self, node: Node | None, what: str, shape: str, noun: str) -> list[tuple[str, At]]:
        """A list of different texts of a shape."""
        if node is None:
            return []
        if not isinstance(node, Sequence):
            self.problem(node.at, f"{what} must be a list, not {located.kind_of(node)}", "write it in [ ]")
            return []
        found: dict[str, At] = {}
        for item in node.items:
            text = located.text(item, f"an entry of {what}", self.problems)
            if text is None:
                continue
            if not re.fullmatch(shape, text):
                self.problem(item.at, f"'{text}' in {what} is not {noun}")
            elif text in found:
                self.problem(item.at, f"'{text}' stands twice in {what}")
            else:
                found[text] = item.at
        return list(found.items())

    def suites(self, node: Node | None) -> tuple[str, ...]:
        if node is None:
            return SUITES
        if isinstance(node, Sequence) and not node.items:
            self.problem(node.at, "'suites' is empty", "leave the key out for all of them")
        chosen = []
        for suite, at in self.texts(node, "'suites'", ".*", "a suite"):
            if suite in SUITES:
                chosen.append(suite)
            else:
                self.problem(at, f"unknown suite '{suite}'", did_you_mean(suite, SUITES) or f"suites are {words(SUITES)}")
        return tuple(suite for suite in SUITES if suite in chosen)

    def device(self, node: Node) -> DeviceWish:
        shapes = "any, gpu, host, {gpus: 2} or {hosts: 2}"
        if isinstance(node, Mapping_) and len(node.entries) == 1:
            ((key, value),) = node.entries.items()
            if key in ("gpus", "hosts"):
                count = located.number(value, f"'{key}'", self.problems, largest=MOST_DEVICES, whole=True)
                return DeviceWish("gpu" if key == "gpus" else "hosts", int(count or 1))
        elif isinstance(node, Scalar):
            text = located.text(node, "'device'", self.problems)
            if text is None or text in ("any", "gpu", "host"):
                return DeviceWish(text or "any")
            hint = did_you_mean(text, ["any", "gpu", "host"]) or f"it takes {shapes}"
            self.problem(node.at, f"unknown device '{text}'", hint)
            return DeviceWish()
        self.problem(node.at, f"'device' takes {shapes}")
        return DeviceWish()

    def closure(self, node: Node, lane: str, paths: tuple[PathPattern, ...]) -> ClosureDeclaration | None:
        from touchgate.gate.closure_declarations import read_closure  # noqa: PLC0415  most lane files do without

        return read_closure(node, lane, paths, self.problems)

    # paths

    def paths(self, node: Node) -> tuple[PathPattern, ...]:
        if isinstance(node, Mapping_):
            return self.workflow_paths(node)
        if not isinstance(node, Sequence):
            self.problem(node.at, f"'paths' must be a list of patterns, not {located.kind_of(node)}", "write it in [ ]")
            return ()
        if not node.items:
            self.problem(node.at, "'paths' is empty: nothing would ever touch the lane", "write `**` for every path")
            return ()
        found: list[PathPattern] = []
        for item in node.items:
            if isinstance(item, Sequence):
                self.problem(item.at, "a list inside 'paths'", "write its patterns into the list itself")
                continue
            text = located.text(item, "a pattern", self.problems)
            if text is not None:
                found.append(PathPattern(text, item.at))
        for index, fault in list_faults([pattern.text for pattern in found]):
            if index is None:
                self.problem(node.at, f"'paths': {fault}")
            else:
                self.problem(found[index].at, f"pattern '{found[index].text}': {fault}")
        return tuple(found)

    def workflow_paths(self, node: Mapping_) -> tuple[PathPattern, ...]:
        """The patterns of a workflow's own lists: of several that differ, what any of them matches."""
        file_node = node.entries.get("workflow")
        if file_node is None or len(node.entries) > 1:
            self.problem(node.at, "'paths' is a list of patterns, or {workflow: FILE}")
            return ()
        file = located.text(file_node, "'workflow'", self.problems)
        if file is None:
            return ()
        # Few lanes read a workflow.
        from pathlib import PurePosixPath  # noqa: PLC0415

        from touchgate.gate import workflow  # noqa: PLC0415

        if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
            self.problem(file_node.at, f"'{file}' is not a path from the repository's root")
            return ()
        # As git writes it: without `./` and doubled slashes, so that the file's own change touches the lane.
        file = PurePosixPath(file).as_posix()
        try:
            content = self.read_file(file)
        except DeclarationError as refused:
            self.problems += [Problem(file_node.at, problem.message) for problem in refused.problems]
            return ()
        if content is None:
            self.problem(file_node.at, f"there is no workflow {file}")
            return ()
        self.workflows[file] = content
        try:
            read = workflow.read_paths(content, file)
            found = workflow.as_patterns(read)
        except DeclarationError as fault:
            self.problems += fault.problems
            return ()
        self.problems += read.faults
        return found

    # needs

    def need_list(self, lane: str, node: Node) -> tuple[Need, ...]:
        """`[a, b]`, `{lite: [c]}`, or a list that holds both."""
        found: list[Need] = []
        if not isinstance(node, Sequence | Mapping_):
            self.problem(node.at, f"'needs' must be a list of lanes, not {located.kind_of(node)}", "write it in [ ]")
            return ()
        for part in node.items if isinstance(node, Sequence) else [node]:
            if not isinstance(part, Mapping_):
                name = located.text(part, "an entry of 'needs'", self.problems)
                if name is not None:
                    found.append(Need(name, None, part.at))
            elif list(part.entries) != ["lite"]:
                self.problem(part.at, "'needs' takes names of lanes and {lite: [names]}")
            else:
                names = self.texts(part.entries["lite"], "'lite'", ".*", "a lane")
                found += [Need(name, SUITES[0], at) for name, at in names]
        seen: set[str] = set()
        for need in found:
            if need.lane in seen:
                self.problem(need.at, f"lane '{lane}' needs '{need.lane}' twice", "keep one")
            seen.add(need.lane)
        return tuple(found)

    def needs(self) -> None:
        """Report needs that no file declares, and lanes that need each other in a circle; a group is all of its lanes."""
        told: set[At] = set()
        for lane, wanted in self.wanted.items():
            for need in wanted:
                if need.lane not in self.names and need.at not in told and not need.lane.startswith(tuple(self.unmade)):
                    told.add(need.at)
                    hint = did_you_mean(need.lane, [name for name in self.names if name != lane])
                    self.problem(need.at, f"lane '{lane}' needs '{need.lane}', which no file declares", hint)
        if self.groups:
            self.wanted = {lane: self.each_of(wanted) for lane, wanted in self.wanted.items()}
            self.lanes = {
                name: lane if lane.needs == self.wanted[name] else lane._replace(needs=self.wanted[name])
                for name, lane in self.lanes.items()
            }
        for circle in _circles({lane: [need.lane for need in wanted] for lane, wanted in self.wanted.items()}):
            along = [self.need_of(lane, needed) for lane, needed in zip(circle, [*circle[1:], circle[0]], strict=True)]
            if along[-1].at in told:
                continue
            told.add(along[-1].at)
            way = " -> ".join([circle[0], *(f"{need.lane} ({need.at})" for need in along)])
            self.problem(along[-1].at, f"lanes need each other in a circle: {way}", "take one of these needs out")

    def need_of(self, lane: str, needed: str) -> Need:
        return next(need for need in self.wanted[lane] if need.lane == needed)

    def each_of(self, wanted: tuple[Need, ...]) -> tuple[Need, ...]:
        """The needs, with those of a group as needs of its lanes. Where one is needed twice, more than lite counts."""
        found: dict[str, Need] = {}
        for need in wanted:
            for name in self.groups.get(need.lane, (need.lane,)):
                if name not in found or (found[name].suite and not need.suite):
                    found[name] = need if name == need.lane else Need(name, need.suite, need.at)
        return tuple(found.values())


def _circles(edges: Mapping[str, list[str]]) -> list[list[str]]:
    """Circles such that no lane is left in one once each of these is broken at its last edge.

    A depth-first walk with a stack of its own; each edge that leads back into the walk closes a circle.
    """
    done: set[str] = set()
    circles = []
    for root in edges:
        if root in done:
            continue
        way = [root]
        on_way = {root}
        ahead = [iter(edges[root])]
        while way:
            following = next(ahead[-1], None)
            if following is None:
                on_way.discard(way[-1])
                done.add(way.pop())
                ahead.pop()
            elif following in on_way:
                circles.append(way[way.index(following) :])
            elif following in edges and following not in done:
                way.append(following)
                on_way.add(following)
                ahead.append(iter(edges[following]))
    return circles
