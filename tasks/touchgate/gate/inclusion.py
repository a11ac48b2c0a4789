"""Whether every path that one pattern matches is matched by others, decided exactly, over all paths there could be.

Both sides are read as automata side by side, one representative for all characters that no pattern tells apart. How many
pairs of states are looked at is bounded: beyond that the answer is None, and something else must decide.
"""

from __future__ import annotations

from touchgate.gate.automaton import Automaton, State
from touchgate.gate.dialect import ANY, NOT_SLASH, elements_of, literal_head
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from touchgate.gate.dialect import Element

MOST_PAIRS = 5_000
"""Pairs of states; patterns that people write need some hundreds."""


def covered(body: str, others: Sequence[str]) -> bool | None:
    """Whether every path that `body` matches is matched by one of the others; None: that would take too long to tell.

    Patterns come without their `!`; what is no pattern matches nothing.
    """
    for one, other in _ends(body, others, stop_when_all=True):
        if one is None:
            return None
        if not other:
            return False
    return True


def meet(body: str, others: Sequence[str]) -> bool | None:
    """Whether some path is matched by `body` and by one of the others; None: that would take too long to tell."""
    for one, other in _ends(body, others, stop_when_all=False):
        if one is None:
            return None
        if other:
            return True
    return False


def _ends(body: str, others: Sequence[str], *, stop_when_all: bool) -> Iterator[tuple[bool | None, bool]]:
    """(True, whether an other one matches too) for every kind of path that `body` matches; (None, False) for giving up.

    stop_when_all: not to read on where the others match whatever follows; else where they can match no more.
    """
    read = elements_of(body)
    if read is None:
        return
    against = [elements for other in others if (elements := elements_of(other)) is not None]
    ours, theirs = Automaton([(0, read)]), Automaton(enumerate(against))
    letters = _representatives([read, *against])
    # What every such path begins with is read at once; then all that can follow.
    head = literal_head(body)
    if head.startswith("/") or "//" in head:
        return
    begun = (ours.start.walk(head), theirs.start.walk(head))
    # At the start and behind a slash no slash can follow, and no path ends there.
    ahead: list[tuple[State, State, bool]] = [(*begun, not head or head.endswith("/"))]
    seen = {(begun[0].bits, begun[1].bits, ahead[0][2])}
    while ahead:
        one, other, behind_slash = ahead.pop()
        matches = bool(theirs.matching(other.bits))
        if not behind_slash and ours.matching(one.bits):
            yield True, matches
        if (stop_when_all and matches and other.inert) or (not stop_when_all and not other.bits):
            continue
        for letter in letters:
            if behind_slash and letter == "/":
                continue
            pair = (one[letter], other[letter], letter == "/")
            key = (pair[0].bits, pair[1].bits, pair[2])
            if not pair[0].bits or key in seen:
                continue
            if len(seen) >= MOST_PAIRS:
                yield None, False
                return
            seen.add(key)
            ahead.append(pair)


def _representatives(patterns: Sequence[Sequence[Element]]) -> list[str]:
    """One character for each kind that the patterns tell apart: the slash, those they spell, and any other."""
    sets = {element.characters for elements in patterns for element in elements} - {ANY, NOT_SLASH}
    spelt = sorted({character for characters in sets for character in characters} - {"/"})
    kinds = {tuple(character in characters for characters in sets): character for character in spelt}
    other = next(character for number in range(1, 1 << 20) if (character := chr(number)) not in {*spelt, "/"})
    return ["/", other, *kinds.values()]
