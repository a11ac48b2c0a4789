"""The digest ladder: a decoder tells as it goes, one line a stage, and two tellings are held against each other.

    ladder FAMILY VECTOR STAGE FRAME PLANE SHA256

docs/ladder.md has the protocol. Here are the line, a text of them, and what tells two reports apart; nothing is decoded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

WORD = "ladder"
VALUES = "values"
"""The stage of a decoder that has but one."""
END = "end"
"""The stage that every vector ends with: SHA-256 of the status, an ASCII word."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_RUNG = re.compile(rf"(?:^|\s){WORD} ({_NAME}) ({_NAME}) ({_NAME}) (0|[1-9][0-9]{{0,8}}) ({_NAME}) ([0-9a-f]{{64}})$")
_MEANT = re.compile(rf"^{WORD}(?:\s|$)|\s{WORD}(?:\s+\S+){{2,6}}\s+[0-9a-fA-F]{{32,}}$")
"""A line that is meant as one: it begins with the word, or has it with some words and a long digest behind it."""
SHOWN = 100


class LadderFault(Exception):
    """A line is meant as a rung and is none, or a report can't be read: one line."""


class Place(NamedTuple):
    """Where on the ladder. frame: from 0. plane: a name or a number; "0" where there is one."""

    family: str
    vector: str
    stage: str
    frame: int
    plane: str

    def words(self) -> str:
        """The rung without family and vector, for a person."""
        return f"stage {self.stage}, frame {self.frame}, plane {self.plane}"


def line(place: Place, sha256: str) -> str:
    """One line of the protocol, without its end."""
    return " ".join((WORD, *map(str, place), sha256))


def end_digest(status: str) -> str:
    """What the stage `end` of a vector says."""
    return hashlib.sha256(status.encode("ascii", "backslashreplace")).hexdigest()


def heard(text: str) -> tuple[Place, str] | None:
    """The rung of a line of any program's output, or None where it is about something else.

    What stands before the word is left alone: test runners begin lines of their own. Raises `LadderFault`.
    """
    stripped = text.strip()
    found = _RUNG.search(stripped)
    if found:
        family, vector, stage, frame, plane, sha256 = found.groups()
        return Place(family, vector, stage, int(frame), plane), sha256
    if _MEANT.search(stripped):
        raise LadderFault(f"'{stripped[:SHOWN]}' is no rung: wanted is {WORD} FAMILY VECTOR STAGE FRAME PLANE SHA256")
    return None


def read(text: str) -> dict[Place, str]:
    """The rungs of a text that holds nothing else, in its order. Raises `LadderFault` with the line's number."""
    found: dict[Place, str] = {}
    for number, one in enumerate(text.splitlines(), 1):
        try:
            rung = heard(one)
        except LadderFault as fault:
            raise LadderFault(f"line {number}: {fault}") from None
        if rung is None:
            raise LadderFault(f"line {number}: '{one[:SHOWN]}' is no rung")
        if rung[0] in found:
            raise LadderFault(f"line {number}: {' '.join(map(str, rung[0]))} is there twice")
        found[rung[0]] = rung[1]
    return found


def write(rungs: Mapping[Place, str]) -> str:
    """The text of rungs, in the order given."""
    return "".join(f"{line(place, sha256)}\n" for place, sha256 in rungs.items())


def digest(rungs: Mapping[Place, str]) -> str:
    """One digest of a whole ladder: of its text."""
    return hashlib.sha256(write(rungs).encode()).hexdigest()


# ---- two reports

Told = dict[Place, dict[str, list[str]]]
"""A report: by place and digest, who says so. Those who tell one place differently are apart already."""


def told(parts: Iterable[tuple[str, Mapping[Place, str]]]) -> Told:
    """A report of several tellers, each with its name, in the order given."""
    found: Told = {}
    for who, rungs in parts:
        for place, sha256 in rungs.items():
            found.setdefault(place, {}).setdefault(sha256, []).append(who)
    return found


class Parting(NamedTuple):
    """A place where two reports do not say one and the same. one, other: digest -> who; {} where nobody says anything."""

    place: Place
    one: Mapping[str, list[str]]
    other: Mapping[str, list[str]]

    @property
    def is_missing(self) -> bool:
        """Whether one of the two says nothing of it."""
        return not (self.one and self.other)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        sides = {name: [{"sha256": key, "legs": legs} for key, legs in side.items()] for name, side in self._sides()}
        return {**self.place._asdict(), **sides}

    def _sides(self) -> tuple[tuple[str, Mapping[str, list[str]]], ...]:
        return ("a", self.one), ("b", self.other)


def compare(one: Told, other: Told) -> list[Parting]:
    """Every place where two reports part, or only one speaks; in the order of the first, then of the second."""
    places = dict.fromkeys([*one, *other])
    sides = ((place, one.get(place, {}), other.get(place, {})) for place in places)
    return [Parting(*side) for side in sides if len({*side[1], *side[2]}) > 1 or not (side[1] and side[2])]
