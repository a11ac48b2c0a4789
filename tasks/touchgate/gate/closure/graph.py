"""From a lane's sources to every file that they include, import or name, directly or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from touchgate.gate.closure.languages import READ_AS, VERBS, language_of, module
from touchgate.gate.closure.tree import ClosureFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from touchgate.gate.closure.cache import Cache
    from touchgate.gate.closure.references import Found, Reference, Settings
    from touchgate.gate.closure.tree import Tree

UNREAD = "unread"
"""How a source is read that counts, and whose own names do not."""
MOST_FILES = 200_000
"""Files of one closure: beyond that something else is wrong."""


class Source(NamedTuple):
    """A file to start from. read_as: a language, where the file's name does not tell it."""

    path: str
    read_as: str = ""


class Step(NamedTuple):
    """What leads to a file. line: 0 where it comes with `path` unnamed. verb: "includes", "imports"..."""

    path: str
    line: int
    verb: str


class Unknown(NamedTuple):
    """A place where it can't be told what is named."""

    path: str
    line: int
    text: str
    why: str


class Unfound(NamedTuple):
    """A name that stands for nothing in the tree: a system header, a library, or a folder that is not declared."""

    path: str
    line: int
    text: str
    how: str


class Closure(NamedTuple):
    """All files that sources reach, with what leads to each (None: a source itself). gitlinks: those that are submodules."""

    files: Mapping[str, Step | None]
    gitlinks: frozenset[str]
    unresolved: tuple[Unknown, ...]
    unfound: tuple[Unfound, ...]

    def way_to(self, path: str) -> list[tuple[Step, str]]:
        """The steps from a source to a file, each with the file that it leads to."""
        steps = []
        step = self.files[path]
        while step is not None:
            steps.append((step, path))
            path = step.path
            step = self.files[path]
        return steps[::-1]


class _Node(NamedTuple):
    path: str
    language: str


class _Edges(NamedTuple):
    """What one file leads to. targets: (path, the languages to read it as, step)."""

    targets: tuple[tuple[str, tuple[str, ...], Step], ...]
    unresolved: tuple[Unknown, ...]
    unfound: tuple[Unfound, ...]


class Graph:
    """The closures in one tree. Readings are shared by all of them, and what names mean by those of equal settings.

    Its methods raise ClosureFault and GitFault.
    """

    def __init__(self, tree: Tree, cache: Cache) -> None:
        self.tree = tree
        self._cache = cache
        self._found: dict[_Node, Found | None] = {}
        self._edges: dict[tuple[_Node, Settings], _Edges] = {}

    def closure(self, sources: Iterable[Source | str], settings: Settings) -> Closure:
        """All that the sources reach, each a path or more. Those that are no files of the tree are passed over."""
        walk = _Walk(self.tree)
        for source in dict.fromkeys(Source(one) if isinstance(one, str) else one for one in sources):
            for path in self.tree.at(source.path):
                language = None if source.read_as == UNREAD else source.read_as or language_of(path)
                walk.reach(path, (language,) if language else (), None)
        unresolved: dict[Unknown, None] = {}
        unfound: dict[Unfound, None] = {}
        while level := walk.next_level():
            self._read(level)
            for node in level:
                edges = self._of(node, settings)
                unresolved.update(dict.fromkeys(edges.unresolved))
                unfound.update(dict.fromkeys(edges.unfound))
                for path, languages, step in edges.targets:
                    walk.reach(path, languages, step)
        gitlinks = frozenset(path for path in walk.files if self.tree.gitlink(path) == path)
        return Closure(walk.files, gitlinks, tuple(unresolved), tuple(unfound))

    def _read(self, nodes: Iterable[_Node]) -> None:
        """Read all that is not read yet: from the cache, the rest together from the tree."""
        missing: dict[str, list[tuple[_Node, str]]] = {}
        for node in nodes:
            if node in self._found:
                continue
            blob = self.tree.blob_id(node.path)
            if blob is None:  # a submodule
                self._found[node] = None
                continue
            found = self._cache.get(node.language, blob)
            if found is None:
                missing.setdefault(node.path, []).append((node, blob))
            else:
                self._found[node] = found
        for path, content in self.tree.read(list(missing)).items():
            for node, blob in missing[path]:
                if content is None:
                    self._found[node] = None
                    continue
                found = self._found[node] = module(node.language).read(content)
                self._cache.put(node.language, blob, found)

    def _of(self, node: _Node, settings: Settings) -> _Edges:
        key = (node, settings)
        if key not in self._edges:
            self._edges[key] = self._edges_of(node, settings)
        return self._edges[key]

    def _edges_of(self, node: _Node, settings: Settings) -> _Edges:
        found = self._found[node]
        if found is None:
            return _Edges((), (), ())
        language = module(node.language)
        targets = []
        unfound = []
        for reference in found.references:
            paths = language.resolve(reference, node.path, self.tree, settings)
            if not paths and reference.how != "all":
                unfound.append(Unfound(node.path, reference.line, reference.text, reference.how))
            step = Step(node.path, reference.line, VERBS.get(reference.how, "names"))
            targets += [(path, _languages(path, node, reference), step) for path in paths]
        step = Step(node.path, 0, VERBS[""])
        for path in language.implied(node.path, self.tree, settings):
            own = language_of(path)
            targets.append((path, (own,) if own else (), step))
        unresolved = tuple(Unknown(node.path, *one) for one in found.unresolved)
        return _Edges(tuple(targets), unresolved, tuple(unfound))


class _Walk:
    """Breadth first: each file is reached by a shortest way."""

    def __init__(self, tree: Tree) -> None:
        self.files: dict[str, Step | None] = {}
        self._tree = tree
        self._seen: set[_Node] = set()
        self._wave: list[_Node] = []

    def reach(self, path: str, languages: Iterable[str], step: Step | None) -> None:
        """Note a file, the links that lead to it, and that it is to be read: as it is named, and as what a link leads to.

        Python looks beside the file that a link leads to, a compiler beside the link.
        """
        self.files.setdefault(path, step)
        behind = self._tree.behind(path)
        for one in behind:
            self.files.setdefault(one, Step(path, 0, "leads to"))
        ends = (path, behind[-1]) if behind and behind[-1] != path else (path,)
        for language in languages:
            for end in ends:
                node = _Node(end, language)
                if node not in self._seen:
                    self._seen.add(node)
                    self._wave.append(node)

    def next_level(self) -> list[_Node]:
        """What was noted since the last call."""
        if len(self.files) > MOST_FILES:
            raise ClosureFault(f"more than {MOST_FILES} files are reached")
        level, self._wave = self._wave, []
        return level


def _languages(path: str, node: _Node, reference: Reference) -> tuple[str, ...]:
    """What a named file is read as: what its name tells, and what names it."""
    if reference.how == "bytes":
        return ()
    own = language_of(path)
    if reference.how == "source":
        return (own,) if own else ()
    if reference.how in READ_AS:
        return (own or READ_AS[reference.how],)
    return (node.language,) if own in (None, node.language) else (own, node.language)
