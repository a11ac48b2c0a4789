"""Which lanes a word of a person's means: a lane, the declaration that made one for every folder, or `*` over these."""

from __future__ import annotations

from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from touchgate.gate.model import Lane


def called(lane: Lane) -> tuple[str, ...]:
    """The names that a lane answers to: its own, and that of the declaration which made one for every folder."""
    return (lane.name, lane.each.group) if lane.each else (lane.name,)


def is_meant(lane: Lane, word: str) -> bool:
    """Whether the word means this lane, maybe among others."""
    return any(matches(word, name) for name in called(lane))


def matches(word: str, name: str) -> bool:
    """Whether a word is this name, or a pattern with `*` that matches it."""
    if word == name or "*" not in word:
        return word == name
    from fnmatch import fnmatchcase  # noqa: PLC0415 (most words are names)

    return fnmatchcase(name, word)


def meaning_nothing(words: Iterable[str], lanes: Iterable[Lane]) -> list[str]:
    """For each word that means no lane a sentence that says so, with the name that may have been meant."""
    known = list(lanes)
    return [_nothing(word, known) for word in words if not any(is_meant(lane, word) for lane in known)]


def _nothing(word: str, lanes: list[Lane]) -> str:
    from touchgate.gate.located import did_you_mean  # noqa: PLC0415 (reads YAML; most words mean something)

    hint = did_you_mean(word, dict.fromkeys(name for lane in lanes for name in called(lane)))
    return f"no lane {'matches ' if '*' in word else ''}'{word}'" + (f"; {hint}" if hint else "")
