"""Path filters of other tools, said in GitHub's dialect.

dorny/paths-filter and tj-actions/changed-files match with picomatch or micromatch, where `*` and `?` stay inside a
folder, `**` means folders only where it stands alone between slashes, braces list alternatives, and a list is an "or" of
its patterns, also of those with `!`. What means the same is translated; for the rest it is said why not.
"""

from __future__ import annotations

import re
from itertools import product

from touchgate.gate.dialect import unreadable_because

_EXTENDED = re.compile(r"[@!?+*]\(|[()|]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST = 100
"""Patterns that one may be spelt out into."""


class Untranslatable(Exception):
    """The pattern or the list means something that GitHub's dialect can't say: what."""


def translated(patterns: list[str], *, every: bool = False) -> list[str]:
    """The list in GitHub's dialect. every: a path must match all of them (`predicate-quantifier: every`)."""
    negative = [pattern for pattern in patterns if pattern.startswith("!")]
    positive = [pattern for pattern in patterns if not pattern.startswith("!")]
    if every and len(positive) > 1:
        raise Untranslatable("`every` asks for paths that match several patterns at once")
    if negative and not every and len(patterns) > 1:
        meant = "touches every path that it does not name there, and takes back in GitHub's dialect"
        raise Untranslatable(f"'{negative[0]}' beside other patterns {meant}")
    found = [text for pattern in positive for text in one(pattern)]
    if negative:
        found = found or ["**"]
        found += [f"!{text}" for pattern in negative for text in one(pattern[1:])]
    return found


def one(pattern: str) -> list[str]:
    """One pattern without its `!`, as the patterns that together mean the same."""
    if not pattern or pattern != pattern.strip():
        raise Untranslatable(f"'{pattern}' is empty or has blanks around it")
    if _EXTENDED.search(pattern):
        raise Untranslatable(f"'{pattern}' holds an extended glob")
    if pattern.startswith(("/", "./", "../", "#")) or "//" in pattern:
        raise Untranslatable(f"'{pattern}' is not a path from the root")
    if pattern.endswith("/"):
        raise Untranslatable(f"'{pattern}' ends in a slash, which no path does")
    return [_plain(text) for text in _spelt_out(pattern)]


def _spelt_out(pattern: str) -> list[str]:
    """Every alternative of its braces."""
    parts: list[list[str]] = []
    position = 0
    for found in _BRACES.finditer(pattern):
        inside = found[1]
        if "," not in inside or ".." in inside or "\\" in inside or pattern[max(found.start() - 1, 0)] in "\\$":
            raise Untranslatable(f"'{pattern}' holds braces that are no plain list")
        parts += [[pattern[position : found.start()]], inside.split(",")]
        position = found.end()
    parts.append([pattern[position:]])
    spelt = ["".join(choice) for choice in product(*parts)] if _count(parts) <= _MOST else []
    if not spelt or any(sign in text for text in spelt for sign in "{}"):
        raise Untranslatable(f"'{pattern}' holds braces within braces, or too many")
    return spelt


def _count(parts: list[list[str]]) -> int:
    count = 1
    for part in parts:
        count *= len(part)
    return count


def _plain(pattern: str) -> str:
    if "?" in pattern:
        raise Untranslatable(f"'{pattern}': `?` is one character there, and makes the one before optional in GitHub's dialect")
    if re.search(r"\[[!^]|\[:|\[[^\]]*[^A-Za-z0-9_\-\]]", pattern):
        raise Untranslatable(f"'{pattern}' holds a set of characters that GitHub's dialect can't spell")
    for segment in pattern.split("/"):
        if "**" in segment and segment != "**":
            raise Untranslatable(f"'{pattern}': `**` beside other characters stays in its folder there, and does not here")
    text = pattern.replace("+", "\\+")
    because = unreadable_because(text)
    if because:
        raise Untranslatable(f"'{pattern}': {because}")
    return text
