"""Many patterns as one machine that reads a path once, in time linear in the path, whatever the patterns.

Matching is bit-parallel: every place inside every pattern is one bit of an integer, and reading a character is a few
operations on it (the extended Shift-And method: Navarro and Raffinot, "Flexible Pattern Matching in Strings", 2002,
chapter 4). Nothing backtracks. The integers met so far are kept as states of an automaton, so that most characters cost
a look-up.
"""

from __future__ import annotations

from touchgate.gate.dialect import ANY, NOT_SLASH, Element
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

_CACHE_BYTES = 32 << 20
"""About what one automaton may keep of the states it has met before it forgets them."""


class State(dict[str, "State"]):
    """What has been read so far: which places of the patterns are reached. Maps a character to the next state."""

    __slots__ = ("automaton", "bits", "inert", "outcome")
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, automaton: Automaton, bits: int) -> None:
        super().__init__()
        self.automaton = automaton
        self.bits = bits
        self.inert = automaton.is_inert(bits)
        self.outcome: Any = None
        """For whoever walks: what it made of a path that ends here."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __missing__(self, character: str) -> State:
        following = self.automaton.step(self.bits, character)
        self[character] = following
        return following

    def walk(self, text: str) -> State:
        """The state after `text`."""
        state = self
        for character in text:
            state = state[character]
        return state


class _Masks:
    """The places where a character can be read, as integers with one bit a place."""

    def __init__(self, places: Mapping[str, Sequence[int]], size: int) -> None:
        masks = {characters: _mask(numbers, size) for characters, numbers in places.items()}
        self.always = masks.pop(ANY, 0)
        self.other = masks.pop(NOT_SLASH, 0) | self.always
        self.of = {character: mask | (self.always if character == "/" else self.other) for character, mask in masks.items()}
        self.of.setdefault("/", self.always)


def _mask(places: Iterable[int], size: int) -> int:
    """An integer with these bits set. Through bytes: adding bit after bit would copy the whole integer each time."""
    octets = bytearray(size // 8 + 1)
    for place in places:
        octets[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(octets, "little")


class Automaton:
    """Several patterns as one machine. Each pattern has a bit for its start and one for each of its characters."""

    def __init__(self, patterns: Iterable[tuple[int, Sequence[Element]]]) -> None:
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
                    enter.setdefault(ANY, []).append(size)
                    stay.setdefault(ANY, []).append(size)
                size += 1
                if in_run:
                    optional.append(size)
                # A set of characters is either one of the two wide ones or counts character by character.
                for key in (element.characters,) if element.characters in (ANY, NOT_SLASH) else element.characters:
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
        self._states: dict[int, State] = {}
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

    def step(self, bits: int, character: str) -> State:
        """The state after one more character."""
        enter = self._enter.of.get(character, self._enter.other)
        stay = self._stay.of.get(character, self._stay.other)
        self._room -= 100
        return self._state(self._close((bits << 1) & enter | bits & stay))

    def _state(self, bits: int) -> State:
        state = self._states.get(bits)
        if state is None:
            if self._room < 0:
                for old in self._states.values():
                    old.clear()
                self._states.clear()
                self._room = _CACHE_BYTES
            self._room -= 400 + bits.bit_length() // 8
            state = self._states[bits] = State(self, bits)
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
