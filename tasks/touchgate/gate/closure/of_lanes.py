"""The closures of lanes in one tree: their sources by their declarations, and all that these reach."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from touchgate.gate.closure.cache import Cache, default_folder
from touchgate.gate.closure.graph import Closure, Graph
from touchgate.gate.closure.references import Settings
from touchgate.gate.closure.tree import CommitTree, Tree, WorkTree
from touchgate.gate.dialect import literal_head
from touchgate.gate.included import named_sources
from touchgate.gate.patterns import PatternList

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from touchgate.gate.git import Repository
    from touchgate.gate.model import Lane

MANIFEST = "manifest.json"
"""Of a folder of vectors: it names the decoder and its kernel."""
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

    def closure(self, lane: Lane) -> Closure:
        """What a lane's sources reach."""
        return self._graph.closure(self.sources(lane), _settings(lane))

    def of_sources(self, sources: Iterable[str], settings: Settings) -> Closure:
        """What sources reach that no lane declares."""
        return self._graph.closure(sources, settings)

    def sources(self, lane: Lane) -> list[str]:
        """A lane's sources: what its declaration lets through, else what its checks name."""
        declared = lane.closure
        if declared is not None and declared.sources is not None:
            return matching([pattern.text for pattern in declared.sources], self.tree)
        found: list[str] = []
        for source in named_sources(lane):
            found += self._of_vectors(source) if source.endswith("/") else [source]
        return found

    def _of_vectors(self, folder: str) -> Iterable[str]:
        manifest = folder + MANIFEST
        content = self.tree.read([manifest])[manifest]
        return [name.decode("utf-8", "surrogateescape") for name in _NAMED_IN_MANIFEST.findall(content or b"")]

    def explore(self, lanes: Iterable[Lane]) -> None:
        """Read what the lanes reach, all together: in a clone without contents that is one request a wave."""
        by_settings: dict[Settings, list[str]] = {}
        for lane in lanes:
            by_settings.setdefault(_settings(lane), []).extend(self.sources(lane))
        for settings, sources in by_settings.items():
            self._graph.closure(sources, settings)


def _settings(lane: Lane) -> Settings:
    return Settings(lane.closure.include, lane.closure.python) if lane.closure else Settings()


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
    return [path for path in listed if chosen.decides(path) is not None]


def _is_below(folder: str, other: str) -> bool:
    return not other or folder.startswith(f"{other}/")
