"""The closures of lanes in one tree: their sources by their declarations, and all that these reach."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from touchgate.gate.closure import naming
from touchgate.gate.closure.cache import Cache, default_folder
from touchgate.gate.closure.graph import UNREAD, Closure, Graph, Source
from touchgate.gate.closure.references import Settings
from touchgate.gate.closure.tree import CommitTree, Tree, WorkTree
from touchgate.gate.dialect import literal_head
from touchgate.gate.included import named, taken_back
from touchgate.gate.patterns import PatternList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from touchgate.gate.git import Repository
    from touchgate.gate.model import Lane
    from touchgate.gate.names import Name

MANIFEST = "manifest.json"
"""Of a folder of vectors: it names the decoder and its kernel."""
_ONLY_SOURCES = ("cargo", "code", "testpaths", "vectors")
"""Kinds of names that stand for no word of a check: not counted where the sources are declared."""
_NAMED_IN_MANIFEST = re.compile(rb'"([^"\\\n]+\.(?:py|cu))"')


class LaneClosures:
    """All closures in one tree. Raises ClosureFault and GitFault."""

    def __init__(self, tree: Tree, cache: Cache) -> None:
        self.tree = tree
        self._graph = Graph(tree, cache)

    @classmethod
    def of(cls, repo: Repository, commit: str | None) -> LaneClosures:
        """Those of a commit; None: of the working tree."""
        tree = WorkTree(repo) if commit is None else CommitTree(repo, commit)
        return cls(tree, Cache(default_folder(repo.environ)))

    def closure(self, lane: Lane, *, whole: bool = False) -> Closure:
        """What a lane's sources reach. whole: also by what its `!` patterns take out of the folders that its checks name."""
        return self._closure(lambda settings: self.sources(lane, settings, whole=whole), self.settings(lane))

    def of_sources(self, sources: Iterable[str], settings: Settings) -> Closure:
        """What sources reach that no lane declares."""
        return self._graph.closure(sources, settings)

    def _closure(self, sources: Callable[[Settings], Iterable[Source]], settings: Settings) -> Closure:
        """The closure with the folders that scripts in it name: these may make more of it be found."""
        while True:
            found = self._graph.closure((*sources(settings), *self._submodules(settings)), settings)
            more = _with_folders(settings, found)
            if more == settings:
                return found
            settings = more

    def _submodules(self, settings: Settings) -> list[Source]:
        """The submodules that names are looked up in: what they hold is not known."""
        folders = (*settings.include, *settings.python)
        return [Source(link) for folder in folders if folder and (link := self.tree.gitlink(folder))]

    def sources(self, lane: Lane, settings: Settings | None = None, *, whole: bool = False) -> list[Source]:
        """A lane's sources: what its declaration lets through, beside it unread what its checks name. whole: as above."""
        settings = self.settings(lane) if settings is None else settings
        is_declared = lane.closure is not None and lane.closure.sources is not None
        is_out = (lambda _: False) if whole else taken_back(lane)
        found: dict[Source, None] = dict.fromkeys(map(Source, self.declared(lane) if is_declared else ()))
        for name in named(lane):
            if is_declared and name.kind in _ONLY_SOURCES:
                continue
            if name.kind == "vectors":
                found.update(dict.fromkeys(map(Source, self._of_vectors(name))))
                continue
            for meant in naming.files(name, self.tree, settings):
                if not meant.is_below or not is_out(meant.path):
                    found[Source(meant.path, UNREAD if is_declared else meant.read_as)] = None
        return list(found)

    def declared(self, lane: Lane) -> list[str]:
        """What the lane's own list of sources lets through: files, and names without wildcards that may be none."""
        patterns = lane.closure.sources if lane.closure else None
        return matching([pattern.text for pattern in patterns or ()], self.tree)

    def below(self, lane: Lane) -> list[str]:
        """All files of the folders that a lane's checks name as a whole."""
        return [path for name in named(lane) for folder in naming.folders(name, self.tree) for path in self.tree.below(folder)]

    def linked(self, lane: Lane, is_wanted: Callable[[Name], bool]) -> Iterator[tuple[str, str]]:
        """What is below the folders that a lane's checks name, with the links on the way and their ends: (path, folder)."""
        is_out = taken_back(lane)
        for name in named(lane):
            for folder in naming.folders(name, self.tree) if name.kind == "word" and is_wanted(name) else ():
                for path in self.tree.below(folder):
                    if not is_out(path):
                        yield from ((one, folder) for one in (path, *self.tree.behind(path)))

    def untold(self, lane: Lane, closure: Closure) -> tuple[str, ...]:
        """What a lane's closure leaves open, each with its place: a name that only a run can tell, a list that is empty."""
        found = [f"{one.path}:{one.line} {one.text}" for one in closure.unresolved]
        if self.is_empty(lane) and lane.closure is not None:
            found.append(f"{lane.closure.at} no file matches its sources")
        return tuple(found)

    def is_empty(self, lane: Lane) -> bool:
        """Whether a lane declares sources, and none of them is a file."""
        if lane.closure is None or not lane.closure.sources:
            return False
        return not any(self.tree.at(path) for path in self.declared(lane))

    def _of_vectors(self, name: Name) -> Iterable[str]:
        for folder in name.paths():
            manifest = posixpath.join(folder, MANIFEST)
            content = self.tree.read([manifest])[manifest]
            yield from (one.decode("utf-8", "surrogateescape") for one in _NAMED_IN_MANIFEST.findall(content or b""))

    def settings(self, lane: Lane) -> Settings:
        """The folders that a lane declares, and those that its checks' commands name."""
        declared = Settings(lane.closure.include, lane.closure.python) if lane.closure else Settings()
        found: dict[str, list[str]] = {"include": [], "pythonpath": []}
        for name in named(lane):
            if name.kind in found:
                found[name.kind] += name.paths()
            elif name.kind == "pytest":
                found["pythonpath"] += naming.set_folders(name, self.tree)
        here = (folder for name in named(lane) if name.kind in ("script", "makefile") for folder in name.folders if folder)
        return _added(declared._replace(here=tuple(dict.fromkeys(here))), found["include"], found["pythonpath"])

    def explore(self, lanes: Iterable[Lane]) -> None:
        """Read what the lanes reach, all together: in a clone without contents that is one request a wave."""
        by_settings: dict[Settings, list[Source]] = {}
        for lane in lanes:
            settings = self.settings(lane)
            by_settings.setdefault(settings, []).extend(self.sources(lane, settings))
        for settings, sources in by_settings.items():
            self._graph.closure(sources, settings)


def _with_folders(settings: Settings, closure: Closure) -> Settings:
    """The settings with what scripts say about where names are looked up."""
    include: list[str] = []
    python: list[str] = []
    for one in closure.unfound:
        if one.how in ("include", "pythonpath"):
            from touchgate.gate.closure.shell import folders_of  # noqa: PLC0415  by now it is imported

            (include if one.how == "include" else python).extend(folders_of(one.path, one.text))
    return _added(settings, include, python)


def _added(settings: Settings, include: Iterable[str], python: Iterable[str]) -> Settings:
    return settings._replace(
        include=tuple(dict.fromkeys((*settings.include, *include))), python=tuple(dict.fromkeys((*settings.python, *python)))
    )


def matching(patterns: Sequence[str], tree: Tree) -> list[str]:
    """The files that a list lets through. Only the folders are listed that patterns with wildcards begin with."""
    plain = [text for text in patterns if literal_head(text) == text and not text.startswith("!")]
    heads = {literal_head(text) for text in patterns if literal_head(text) != text and not text.startswith("!")}
    folders = sorted({head[: head.rfind("/")] if "/" in head else "" for head in heads})
    listed: dict[str, None] = dict.fromkeys(plain)
    for index, folder in enumerate(folders):
        if not any(_is_below(folder, other) for other in folders[:index]):
            listed.update(dict.fromkeys(tree.below(folder)))
    chosen = PatternList(patterns)
    whole = [link for folder in folders if folder and (link := tree.gitlink(folder))]
    deep = {head for text in patterns if (head := literal_head(text)) in heads and re.search(r"/|\*\*", text[len(head) :])}
    found = [path for path in listed if chosen.decides(path) is not None or _may_hold(path, deep, tree)]
    return list(dict.fromkeys((*whole, *found)))


def _may_hold(path: str, heads: Iterable[str], tree: Tree) -> bool:
    """Whether a path is a submodule that a pattern reaches into: what it holds is not known."""
    return tree.gitlink(path) == path and any(f"{path}/".startswith(head) or head.startswith(f"{path}/") for head in heads)


def _is_below(folder: str, other: str) -> bool:
    return not other or folder.startswith(f"{other}/")
