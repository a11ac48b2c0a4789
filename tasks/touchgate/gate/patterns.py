r"""Path patterns in GitHub's dialect, matched in time linear in the path, whatever the pattern.

    text     stands for
    *        any number of characters but `/`
    **       any number of characters
    **/      nothing, or folders down to a `/`
    x?       x or nothing         (a `?` with nothing before it is itself)
    x+       x once or more often (so is a `+`)
    [a-z_]   one character out of these; ranges inside a-z, A-Z, 0-9 only
    \x       x itself
    !        at the start: takes back what earlier patterns of the list matched

A pattern matches the whole path, case counts, and of a list the last pattern that matches decides. Braces, a leading
`/` and `./` have no meaning of their own.

Matching is bit-parallel: every place inside every pattern is one bit of an integer, and reading a character is a few
operations on it (the extended Shift-And method: Navarro and Raffinot, "Flexible Pattern Matching in Strings", 2002,
chapter 4). Nothing backtracks. The integers met so far are kept as states of an automaton, so that most characters cost
a look-up.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LITERAL_HEAD = re.compile(r"[^*?+\[\\]*")
# No set of characters that a pattern can spell begins with a bracket.
_NOT_SLASH = "[^/]"
_ANY = "[any]"
_LONGEST = 4096
"""Characters of a pattern: what a path may have on Linux."""
_CACHE_BYTES = 32 << 20
"""About what one automaton may keep of the states it has met before it forgets them."""
_MANY = 200_000
"""Entries that a table of folders or outcomes may have before it is begun anew."""


class _Element(NamedTuple):
    """One piece of a pattern: a set of characters (or `_ANY`, `_NOT_SLASH`), or the group `**/`."""

    characters: str
    optional: bool = False
    repeated: bool = False
    is_folders: bool = False


class _Unreadable(Exception):
    """The text is not a pattern of this dialect: why, and what to write."""


class _Parser:
    """Reads one pattern, without its `!`, from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.elements: list[_Element] = []
        self.odd: list[str] = []
        """What can be read but is not meant: see `faults`."""

    def read(self) -> list[_Element]:
        """All elements. Raises `_Unreadable`."""
        signs = 0
        while self.position < len(self.text):
            character = self.text[self.position]
            if character in "?+" and self.position > 0:
                self._quantify(character, signs)
                signs += 1
                continue
            signs = int(character == "*")
            if character == "*":
                self._stars()
            elif character == "[":
                self._characters()
            elif character == "\\":
                self._escape()
            else:
                self._add(_Element(character), 1)
        return self.elements

    def _add(self, element: _Element, length: int) -> None:
        self.elements.append(element)
        self.position += length

    def _stars(self) -> None:
        rest = self.text[self.position : self.position + 3]
        if rest == "**/":
            self._add(_Element("/", optional=True, is_folders=True), 3)
        elif rest.startswith("**"):
            self._add(_Element(_ANY, optional=True, repeated=True), 2)
        else:
            self._add(_Element(_NOT_SLASH, optional=True, repeated=True), 1)

    def _quantify(self, sign: str, signs: int) -> None:
        """Read a `?` or `+`; `signs`: how many stand before it already (a `*` is one)."""
        before = self.text[self.position - 1]
        cure = f"for the character itself write `\\{sign}`"
        last = self.elements[-1]
        if signs > 1 or (signs and sign == "+"):
            raise _Unreadable(f"`{sign}` after `{before}` has nothing to repeat; {cure}")
        if signs:
            self.odd.append(f"`{sign}` after `{before}` does nothing; {cure}")
        else:
            if last.characters == "/":
                self.odd.append(f"`{sign}` applies to the `/` before it; {cure}")
            self.elements[-1] = last._replace(optional=sign == "?", repeated=sign == "+")
        self.position += 1

    def _escape(self) -> None:
        escaped = self.text[self.position + 1 : self.position + 2]
        if not escaped:
            raise _Unreadable("a `\\` at the end escapes nothing; write `\\\\` for a backslash, `/` between folders")
        if escaped.isalnum():
            self.odd.append(f"`\\{escaped}` is just `{escaped}`; folders are separated by `/`")
        self._add(_Element(escaped), 2)

    def _characters(self) -> None:
        end = self.text.find("]", self.position)
        if end < 0:
            raise _Unreadable("`[` is never closed; for the character itself write `\\[`")
        inside = self.text[self.position + 1 : end]
        if not inside:
            raise _Unreadable("`[]` holds no character; for the characters themselves write `\\[\\]`")
        if inside[0] in "!^":
            raise _Unreadable(f"`[{inside[0]}` does not negate here; list the characters that are meant")
        members = ""
        place = 0
        while place < len(inside):
            low = inside[place]
            if not (low.isascii() and (low.isalnum() or low == "_")):
                raise _Unreadable(f"`{low}` cannot stand in `[...]`: only letters, digits, `_` and ranges of them")
            high = low
            if inside[place + 1 : place + 2] == "-":
                high = inside[place + 2 : place + 3]
                if not any(first <= low <= high <= last for first, last in ("az", "AZ", "Az", "09") if high):
                    raise _Unreadable(f"`{low}-{high}` is no range; ranges lie inside a-z, A-Z or 0-9")
                place += 2
            members += "".join(map(chr, range(ord(low), ord(high) + 1)))
            place += 1
        self._add(_Element(members), end + 1 - self.position)


def _split(text: str) -> tuple[bool, str]:
    """Whether the pattern takes back, and the pattern itself."""
    return text.startswith("!"), text.removeprefix("!")


def _elements(body: str) -> list[_Element] | None:
    """The pattern's elements; None where the text is no pattern, which then matches nothing."""
    if not body or len(body) > _LONGEST:
        return None
    try:
        return _Parser(body).read()
    except _Unreadable:
        return None


def _literal_head(body: str) -> str:
    """What every path that matches begins with. May be shorter than it could be, never longer."""
    found = _LITERAL_HEAD.match(body)
    end = found.end() if found else 0
    if body[end : end + 1] in ("?", "+"):
        end -= 1
    return body[: max(end, 0)]


class _State(dict[str, "_State"]):
    """What has been read so far: which places of the patterns are reached. Maps a character to the next state."""

    __slots__ = ("automaton", "bits", "inert", "outcome")
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, automaton: _Automaton, bits: int) -> None:
        super().__init__()
        self.automaton = automaton
        self.bits = bits
        self.inert = automaton.is_inert(bits)
        self.outcome: _Outcome | None = None

    def __eq__(self, other: object) -> bool:
        return self is other

    def __missing__(self, character: str) -> _State:
        following = self.automaton.step(self.bits, character)
        self[character] = following
        return following

    def walk(self, text: str) -> _State:
        """The state after `text`."""
        state = self
        for character in text:
            state = state[character]
        return state


class _Masks:
    """The places where a character can be read, as integers with one bit a place."""

    def __init__(self, places: Mapping[str, Sequence[int]], size: int) -> None:
        masks = {characters: _mask(numbers, size) for characters, numbers in places.items()}
        self.always = masks.pop(_ANY, 0)
        self.other = masks.pop(_NOT_SLASH, 0) | self.always
        self.of = {
            character: mask | (self.always if character == "/" else self.other) for character, mask in masks.items()
        }
        self.of.setdefault("/", self.always)


def _mask(places: Iterable[int], size: int) -> int:
    """An integer with these bits set. Through bytes: adding bit after bit would copy the whole integer each time."""
    octets = bytearray(size // 8 + 1)
    for place in places:
        octets[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(octets, "little")


class _Automaton:
    """Several patterns as one machine. Each pattern has a bit for its start and one for each of its characters."""

    def __init__(self, patterns: Iterable[tuple[int, Sequence[_Element]]]) -> None:
        enter: dict[str, list[int]] = {}
        stay: dict[str, list[int]] = {}
        starts: list[int] = []
        # Runs of optional places: the place before each run, the last place of each run, all their places.
        before: list[int] = []
        ends: list[int] = []
        optional: list[int] = []
        # Places inside a `**/` before its slash: being there does not open what follows.
        inside: list[int] = []
        self._accepting: dict[int, int] = {}
        size = 0
        for number, elements in patterns:
            starts.append(size)
            in_run = False
            for element in elements:
                if element.optional != in_run:
                    (before if element.optional else ends).append(size)
                    in_run = element.optional
                if element.is_folders:
                    size += 1
                    inside.append(size)
                    enter.setdefault(_ANY, []).append(size)
                    stay.setdefault(_ANY, []).append(size)
                size += 1
                if in_run:
                    optional.append(size)
                # A set of characters is either one of the two wide ones or counts character by character.
                for key in (element.characters,) if element.characters in (_ANY, _NOT_SLASH) else element.characters:
                    enter.setdefault(key, []).append(size)
                    if element.repeated:
                        stay.setdefault(key, []).append(size)
            if in_run:
                ends.append(size)
            self._accepting[size] = number
            size += 1
        self._enter = _Masks(enter, size)
        self._stay = _Masks(stay, size)
        self._before_run, self._run_end = _mask(before, size), _mask(ends, size)
        self._optional, self._inside = _mask(optional, size), _mask(inside, size)
        self._entries = _mask(range(size), size) & ~_mask(starts, size)
        self._accepting_mask = _mask(self._accepting, size)
        self._states: dict[int, _State] = {}
        self._room = _CACHE_BYTES
        self.start = self._state(self._close(_mask(starts, size)))

    def _close(self, bits: int) -> int:
        """Also reach what lies behind optional places: in each run, all places above the lowest one reached.

        Subtracting the bit before a run borrows up to the lowest reached place of it; the bits above are those that the
        subtraction leaves alone. The run's last bit is set first, so that no borrow leaves the run.
        """
        if not self._before_run:
            return bits
        fenced = bits & ~self._inside | self._run_end
        return bits | self._optional & ~((fenced - self._before_run) ^ fenced)

    def step(self, bits: int, character: str) -> _State:
        """The state after one more character."""
        enter = self._enter.of.get(character, self._enter.other)
        stay = self._stay.of.get(character, self._stay.other)
        self._room -= 100
        return self._state(self._close((bits << 1) & enter | bits & stay))

    def _state(self, bits: int) -> _State:
        state = self._states.get(bits)
        if state is None:
            if self._room < 0:
                for old in self._states.values():
                    old.clear()
                self._states.clear()
                self._room = _CACHE_BYTES
            self._room -= 400 + bits.bit_length() // 8
            state = self._states[bits] = _State(self, bits)
        return state

    def is_inert(self, bits: int) -> bool:
        """Whether every further character leaves the state as it is: nothing can match, or nothing can change."""
        return bits & self._stay.always == bits and not (bits << 1) & self._entries

    def matching(self, bits: int) -> list[int]:
        """The numbers of the patterns that match what was read, rising."""
        found = []
        bits &= self._accepting_mask
        while bits:
            lowest = bits & -bits
            found.append(self._accepting[lowest.bit_length() - 1])
            bits ^= lowest
        return found


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
        self._automaton: _Automaton | None = None

    def __repr__(self) -> str:
        return f"PatternList({list(self.texts)!r})"

    def is_negative(self, index: int) -> bool:
        """Whether the pattern takes back."""
        return self.texts[index].startswith("!")

    def matching(self, path: str) -> list[int]:
        """The indexes of all patterns that match, rising, the negative ones by what stands behind their `!`."""
        if self._automaton is None:
            bodies = [(index, _elements(_split(text)[1])) for index, text in enumerate(self.texts)]
            self._automaton = _Automaton((index, read) for index, read in bodies if read is not None)
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

    live: tuple[_State, ...]
    settled: tuple[_State, ...]
    outcome: _Outcome | None


class Index:
    """Many lists, matched together: the cost grows with the paths and the patterns, not with their product.

    Patterns are grouped by the folder that they literally begin with, each group one automaton. A path meets the groups
    of the folders above it only, and paths of one folder share the walk down to it.
    """

    def __init__(self, lists: Mapping[str, PatternList]) -> None:
        self._names = list(lists)
        self._lists = list(lists.values())
        self._bodies: list[str] = []
        self._uses: list[list[tuple[int, int]]] = []
        """For each body, where it stands: (list, index)."""
        self._groups: dict[str, list[int]] = {}
        numbers: dict[str, int] = {}
        for number, patterns in enumerate(self._lists):
            for index, text in enumerate(patterns.texts):
                body = text.removeprefix("!")
                place = numbers.get(body)
                if place is None:
                    place = numbers[body] = len(self._bodies)
                    self._bodies.append(body)
                    self._uses.append([])
                    head = _literal_head(body)
                    self._groups.setdefault(head[: head.rfind("/") + 1], []).append(place)
                self._uses[place].append((number, index))
        self._starts: dict[str, _State] = {}
        self._folders: dict[str, _Folder] = {}
        self._outcomes: dict[tuple[_State, ...], _Outcome] = {}

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
            if end.outcome is None:
                end.outcome = self._outcome((end,))
            return end.outcome
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

    def _folder(self, states: tuple[_State, ...], folder: str) -> _Folder:
        """The folder with these states from above and, where patterns begin with it, their start."""
        if folder in self._groups:
            if folder not in self._starts:
                self._starts[folder] = self._compile(folder)
            states += (self._starts[folder],)
        live = tuple(state for state in states if not state.inert)
        settled = tuple(state for state in states if state.inert and state.bits)
        return _Folder(live, settled, None if live else self._outcome(settled))

    def _compile(self, folder: str) -> _State:
        """The automaton of the patterns that begin with a folder; it reads what follows the folder."""
        read = [(place, _elements(self._bodies[place])) for place in self._groups[folder]]
        return _Automaton((place, elements[len(folder) :]) for place, elements in read if elements is not None).start

    def _outcome(self, ends: tuple[_State, ...]) -> _Outcome:
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


def _common(left: str, right: str) -> int:
    """How many characters both begin with."""
    length = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        length += 1
    return length


def nearest(patterns: PatternList, path: str) -> int | None:
    """The positive pattern whose literal beginning agrees with the path for longest, the first of equals, or None."""
    found = nearest_of(patterns, (path,))
    return found[1] if found else None


def nearest_of(patterns: PatternList, ordered: Sequence[str]) -> tuple[str, int] | None:
    """Out of sorted paths, the one that comes closest to a pattern of the list, and that pattern's index."""
    best = 0
    found = None
    for index, text in enumerate(patterns.texts):
        if text.startswith("!"):
            continue
        head = _literal_head(text)
        if len(head) <= best:
            continue
        # In a sorted list the longest common beginning is with a neighbour.
        place = bisect_left(ordered, head)
        for path in ordered[max(place - 1, 0) : place + 1]:
            length = _common(head, path)
            if length > best:
                best, found = length, (path, index)
    return found


def faults(text: str) -> list[str]:
    """What is wrong with one pattern: it is unreadable, can never match, or can't mean what its writer thinks.

    One sentence each, with what to do; empty where all is well.
    """
    unreadable = unreadable_because(text)
    if unreadable:
        return [unreadable]
    _, body = _split(text)
    parser = _Parser(body)
    parser.read()
    found = parser.odd
    if body.startswith("/"):
        found.append(
            f"it begins with `/` and never matches; paths are relative to the root: write `{body.lstrip('/')}`"
        )
    elif body.startswith("./"):
        found.append(f"it begins with `./` and never matches; write `{body[2:]}`")
    elif "//" in body:
        found.append("it has two `/` in a row and never matches; write one")
    elif any(part in (".", "..") for part in body.split("/")):
        found.append("it has a folder `.` or `..` and never matches; write the path from the root")
    if body.endswith("/"):
        found.append(f"it ends in `/` and never matches, since only files are touched; write `{body}**`")
    if re.search(r"(?<!\\)[{}]", body):
        found.append("braces are plain characters here; write one pattern for each choice, or `\\{` for a brace")
    if body[0] == "?":
        found.append("`?` has nothing before it; it does not stand for any character: write `*`, or `\\?` for itself")
    if "\0" in body:
        found.append("no path holds a NUL character")
    return found


def unreadable_because(text: str) -> str | None:
    """Why the text is no pattern of the dialect at all, in one sentence; None where it is one."""
    _, body = _split(text)
    if not body:
        return "it is empty" if not text else "`!` alone takes nothing back; for the character itself write `\\!`"
    if len(body) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    try:
        _Parser(body).read()
    except _Unreadable as fault:
        return str(fault)
    return None


def list_faults(texts: Sequence[str]) -> list[tuple[int | None, str]]:
    """The faults of a `paths` list: (index, sentence), with None for one of the list as a whole."""
    found: list[tuple[int | None, str]] = [(index, fault) for index, text in enumerate(texts) for fault in faults(text)]
    if texts and all(text.startswith("!") for text in texts):
        found.append((None, "only patterns with `!` match nothing; put what they take back before them, such as `**`"))
    return found
