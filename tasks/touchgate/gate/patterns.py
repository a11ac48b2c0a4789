"""Lists of path patterns, and many lists at once, against paths. What a pattern means: `touchgate.gate.dialect`.

Paths are `str` as `os.fsdecode` gives them; an undecodable byte is one character.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from touchgate.gate.automaton import Automaton, State
from touchgate.gate.dialect import elements_of, faults, list_faults, literal_head, unreadable_because
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Index", "Look", "PatternList", "faults", "list_faults", "nearest", "nearest_of", "unreadable_because"]

# The folders that a pattern literally begins with; a sign behind a slash applies to that slash.
_LITERAL_FOLDER = re.compile(r"!?([^*?+\[\\]*/(?![?+]))?")
_MANY = 200_000
"""Entries that a table of folders or outcomes may have before it is begun anew."""


class _Outcome(NamedTuple):
    """What a path that ends in a state means.

    fires: (list, index) for each list that the path touches. taken_back: (list, index, by) where a pattern matched and
    a later one took the path back.
    """

    fires: tuple[tuple[int, int], ...]
    taken_back: tuple[tuple[int, int, int], ...]


_NOTHING = _Outcome((), ())


class PatternList:
    """An ordered list of patterns. Texts that are no patterns match nothing: ask `list_faults` first."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self._automaton: Automaton | None = None

    def __repr__(self) -> str:
        return f"PatternList({list(self.texts)!r})"

    def is_negative(self, index: int) -> bool:
        """Whether the pattern takes back."""
        return self.texts[index].startswith("!")

    def matching(self, path: str) -> list[int]:
        """The indexes of all patterns that match, rising, the negative ones by what stands behind their `!`."""
        if self._automaton is None:
            bodies = [(index, elements_of(text.removeprefix("!"))) for index, text in enumerate(self.texts)]
            self._automaton = Automaton((index, read) for index, read in bodies if read is not None)
        state = self._automaton.start.walk(path)
        return self._automaton.matching(state.bits)

    def decides(self, path: str) -> int | None:
        """The index of the last pattern that matches, where that one is positive; else None."""
        matching = self.matching(path)
        return matching[-1] if matching and not self.is_negative(matching[-1]) else None

    def touches(self, paths: Iterable[str]) -> tuple[str, int] | None:
        """The first path that the list, read as `paths:`, lets through, and the index of the pattern that decides."""
        for path in paths:
            index = self.decides(path)
            if index is not None:
                return path, index
        return None

    def may_touch_below(self, folder: str) -> int | None:
        """The index of a positive pattern that may match something below `folder` ("a/b/"), whatever lies there.

        Errs on the side of yes: negative patterns take nothing back from what is not known.
        """
        for index, text in enumerate(self.texts):
            head = literal_head(text)
            if not self.is_negative(index) and (head.startswith(folder) or folder.startswith(head)):
                return index
        return None

    def ignores(self, path: str) -> bool:
        """Whether the list, read as `paths-ignore:`, ignores the path: any entry holds (`!x`: x does not match)."""
        matching = set(self.matching(path))
        return any((index in matching) != self.is_negative(index) for index in range(len(self.texts)))


class Look(NamedTuple):
    """What `Index.look` saw. Indexes are those of the list's patterns.

    touched: list name -> the first path that fires it, and the pattern that decides. taken_back: list name -> the first
    path that one pattern matched and a later one took back, with both.
    """

    touched: dict[str, tuple[str, int]]
    taken_back: dict[str, tuple[str, int, int]]


class _Folder(NamedTuple):
    """How far the patterns are where the names of one folder begin.

    live: states that a name can still change; settled: those that it can't. outcome: where no state is live.
    """

    live: tuple[State, ...]
    settled: tuple[State, ...]
    outcome: _Outcome | None


def _folders_above(paths: Iterable[str]) -> set[str]:
    """Every folder that a path lies in, ending in `/`, and "" for the root."""
    found = {""}
    for path in paths:
        folder = path[: path.rfind("/") + 1]
        while folder not in found:
            found.add(folder)
            folder = folder[: folder.rfind("/", 0, -1) + 1]
    return found


class Index:
    """Many lists, matched together: the cost grows with the paths and the patterns, not with their product.

    Patterns are grouped by the folder that they literally begin with, each group one automaton. A path meets the groups
    of the folders above it only, and paths of one folder share the walk down to it.
    """

    def __init__(self, lists: Mapping[str, PatternList], paths: Iterable[str] | None = None) -> None:
        """paths: those that will be asked about, where they are known: patterns for other folders are left out."""
        self._names = list(lists)
        self._lists = list(lists.values())
        self._bodies: list[str] = []
        self._uses: list[list[tuple[int, int]]] = []
        """For each body, where it stands: (list, index)."""
        self._groups: dict[str, list[int]] = {}
        wanted = None if paths is None or not lists else _folders_above(paths)
        numbers: dict[str, int] = {}
        for number, patterns in enumerate(self._lists):
            for index, text in enumerate(patterns.texts):
                found = _LITERAL_FOLDER.match(text)
                folder = found.group(1) or "" if found else ""
                if wanted is not None and folder not in wanted:
                    continue
                body = text.removeprefix("!")
                place = numbers.get(body)
                if place is None:
                    place = numbers[body] = len(self._bodies)
                    self._bodies.append(body)
                    self._uses.append([])
                    self._groups.setdefault(folder, []).append(place)
                self._uses[place].append((number, index))
        self._starts: dict[str, State] = {}
        self._folders: dict[str, _Folder] = {}
        self._outcomes: dict[tuple[State, ...], _Outcome] = {}

    def touched(self, paths: Iterable[str]) -> dict[str, tuple[str, int]]:
        """For each list that a path touches: the first such path, and the index of the pattern that decides."""
        return self.look(paths).touched

    def look(self, paths: Iterable[str]) -> Look:
        """`touched`, and what was taken back. Stops reading once every list is touched."""
        touched: dict[int, tuple[str, int]] = {}
        taken_back: dict[int, tuple[str, int, int]] = {}
        folders = self._folders
        for path in paths if self._lists else ():
            cut = path.rfind("/") + 1
            folder = folders.get(path[:cut])
            if folder is None:
                folder = self._enter(path[:cut])
            outcome = folder.outcome
            if outcome is None:
                outcome = self._read(folder, path[cut:])
            if outcome is _NOTHING:
                continue
            for number, index, by in outcome.taken_back:
                taken_back.setdefault(number, (path, index, by))
            for number, index in outcome.fires:
                touched.setdefault(number, (path, index))
            if len(touched) == len(self._lists):
                break
        names = self._names
        return Look(
            {names[number]: touched[number] for number in sorted(touched)},
            {names[number]: taken_back[number] for number in sorted(taken_back) if number not in touched},
        )

    def _read(self, folder: _Folder, name: str) -> _Outcome:
        """What the path `name` in the folder means."""
        if len(folder.live) == 1 and not folder.settled:
            end = folder.live[0]
            for character in name:
                end = end[character]
            outcome: _Outcome | None = end.outcome
            if outcome is None:
                outcome = end.outcome = self._outcome((end,))
            return outcome
        ends = (*[state.walk(name) for state in folder.live], *folder.settled)
        outcome = self._outcomes.get(ends)
        if outcome is None:
            if len(self._outcomes) > _MANY:
                self._outcomes.clear()
            outcome = self._outcomes[ends] = self._outcome(ends)
        return outcome

    def _enter(self, folder: str) -> _Folder:
        """Walk down to a folder (ending in `/`, or empty), from the nearest one above it that is known."""
        if len(self._folders) > _MANY:
            self._folders.clear()
        above = folder
        while above and above not in self._folders:
            above = above[: above.rfind("/", 0, -1) + 1]
        known = self._folders.get(above)
        if known is None:
            known = self._folders[above] = self._folder((), above)
        while above != folder:
            end = folder.index("/", len(above)) + 1
            step = folder[len(above) : end]
            above = folder[:end]
            states = (*[state.walk(step) for state in known.live], *known.settled)
            known = self._folders[above] = self._folder(states, above)
        return known

    def _folder(self, states: tuple[State, ...], folder: str) -> _Folder:
        """The folder with these states from above and, where patterns begin with it, their start."""
        if folder in self._groups:
            if folder not in self._starts:
                self._starts[folder] = self._compile(folder)
            states += (self._starts[folder],)
        live = tuple(state for state in states if not state.inert)
        settled = tuple(state for state in states if state.inert and state.bits)
        return _Folder(live, settled, None if live else self._outcome(settled))

    def _compile(self, folder: str) -> State:
        """The automaton of the patterns that begin with a folder; it reads what follows the folder."""
        read = [(place, elements_of(self._bodies[place])) for place in self._groups[folder]]
        return Automaton((place, elements[len(folder) :]) for place, elements in read if elements is not None).start

    def _outcome(self, ends: tuple[State, ...]) -> _Outcome:
        matched: dict[int, list[int]] = {}
        for state in ends:
            for place in state.automaton.matching(state.bits):
                for number, index in self._uses[place]:
                    matched.setdefault(number, []).append(index)
        fires = []
        taken_back = []
        for number, indexes in sorted(matched.items()):
            patterns = self._lists[number]
            last = max(indexes)
            if not patterns.is_negative(last):
                fires.append((number, last))
                continue
            positive = [index for index in indexes if not patterns.is_negative(index)]
            if positive:
                taken_back.append((number, max(positive), last))
        return _Outcome(tuple(fires), tuple(taken_back)) if fires or taken_back else _NOTHING


def _common(left: str, right: str) -> tuple[int, int]:
    """How long the folders are that both begin with, their `/` included, and how many characters are the same at all."""
    length = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        length += 1
    return left.rfind("/", 0, length) + 1, length


def nearest(patterns: PatternList, path: str) -> int | None:
    """The positive pattern that lies with the path in the deepest folder, the first of equals; None: not even in one."""
    found = nearest_of(patterns, (path,))
    return found[1] if found else None


def nearest_of(patterns: PatternList, ordered: Sequence[str]) -> tuple[str, int] | None:
    """Out of sorted paths, the one that comes closest to a pattern of the list, and that pattern's index.

    What counts is the folders that both begin with, and only among equals how far their names are the same.
    """
    best = (0, 0)
    found = None
    # Often all paths lie in one folder; then most patterns have nothing in common with any.
    first = ordered[0][: _common(ordered[0], ordered[-1])[0]] if ordered else ""
    top = first[: first.find("/") + 1]
    for index, text in enumerate(patterns.texts):
        if text.startswith("!") or not (text.startswith(top) or text == top[:-1]):
            continue
        head = literal_head(text)
        if head == text:
            # A folder's name, written without what lies in it, is near to that.
            head += "/"
        if "/" not in head or len(head) < best[0]:
            continue
        # In a sorted list the longest common beginning is with a neighbour.
        place = bisect_left(ordered, head)
        for path in ordered[max(place - 1, 0) : place + 1]:
            common = _common(head, path)
            if common[0] and common > best:
                best, found = common, (path, index)
    return found
