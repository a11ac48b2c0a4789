r"""Path patterns in GitHub's dialect, read and judged.

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
"""

from __future__ import annotations

import re
from functools import lru_cache

from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# Most patterns: nothing but names, stars and plain sets between slashes. They need no closer look.
_SET = r"\[(?:[0-9]-9|a-z|A-Z|[A-Za-z0-9_](?!-))+\]"
_PLAIN = re.compile(rf"!?(?:[A-Za-z0-9_*-]|{_SET})[A-Za-z0-9_.*/-]*(?:{_SET}[A-Za-z0-9_.*/-]*)*")
_LITERAL_HEAD = re.compile(r"[^*?+\[\\]*")
# No set of characters that a pattern can spell begins with a bracket.
NOT_SLASH = "[^/]"
ANY = "[any]"
_LONGEST = 4096
"""Characters of a pattern: what a path may have on Linux."""


class Element(NamedTuple):
    """One piece of a pattern: a set of characters (or `ANY`, `NOT_SLASH`), or the group `**/`."""

    characters: str
    optional: bool = False
    repeated: bool = False
    is_folders: bool = False


@lru_cache(maxsize=1024)
def _plain(character: str) -> Element:
    return Element(character)


class _Unreadable(Exception):
    """The text is not a pattern of this dialect: why, and what to write."""


class _Parser:
    """Reads one pattern, without its `!`, from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.elements: list[Element] = []
        self.odd: list[str] = []
        """What can be read but is not meant: see `faults`."""

    def read(self) -> list[Element]:
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
                self._literal()
        return self.elements

    def _literal(self) -> None:
        """Read plain characters up to the next sign; at least one (a `?` or `+` at the start is itself)."""
        found = _LITERAL_HEAD.match(self.text, self.position)
        end = max(found.end() if found else 0, self.position + 1)
        self.elements += map(_plain, self.text[self.position : end])
        self.position = end

    def _add(self, element: Element, length: int) -> None:
        self.elements.append(element)
        self.position += length

    def _stars(self) -> None:
        rest = self.text[self.position : self.position + 3]
        if rest == "**/":
            self._add(Element("/", optional=True, is_folders=True), 3)
        elif rest.startswith("**"):
            self._add(Element(ANY, optional=True, repeated=True), 2)
        else:
            self._add(Element(NOT_SLASH, optional=True, repeated=True), 1)

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
        self._add(Element(escaped), 2)

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
        self._add(Element(members), end + 1 - self.position)


def elements_of(body: str) -> list[Element] | None:
    """The pattern's elements; None where the text is no pattern, which then matches nothing."""
    if not body or len(body) > _LONGEST:
        return None
    try:
        return _Parser(body).read()
    except _Unreadable:
        return None


@lru_cache(maxsize=1 << 16)
def literal_head(body: str) -> str:
    """What every path that matches begins with. May be shorter than it could be, never longer."""
    found = _LITERAL_HEAD.match(body)
    end = found.end() if found else 0
    if body[end : end + 1] in ("?", "+"):
        end -= 1
    return body[: max(end, 0)]


def faults(text: str) -> list[str]:
    """What is wrong with one pattern: it is unreadable, can never match, or can't mean what its writer thinks.

    One sentence each, with what to do; empty where all is well.
    """
    return [] if _is_plainly_fine(text) else _faults_at_a_closer_look(text)


def _is_plainly_fine(text: str) -> bool:
    if len(text) > _LONGEST or not _PLAIN.fullmatch(text):
        return False
    return not (text.endswith("/") or "//" in text or "/." in text)


def _faults_at_a_closer_look(text: str) -> list[str]:
    unreadable = unreadable_because(text)
    if unreadable:
        return [unreadable]
    body = text.removeprefix("!")
    parser = _Parser(body)
    parser.read()
    found = [*parser.odd, *_blank_faults(body), *_folder_faults(body)]
    if re.search(r"(?<!\\)[{}]", body):
        found.append("braces are plain characters here; write one pattern for each choice, or `\\{` for a brace")
    if body[0] == "?":
        found.append("`?` has nothing before it; it does not stand for any character: write `*`, or `\\?` for itself")
    if "\0" in body:
        found.append("no path holds a NUL character")
    return found


def _blank_faults(body: str) -> list[str]:
    """What a block of YAML (`|`, `>`) or a slip of the hand leaves around a pattern, and no path is meant to have."""
    if re.search(r"(?<!\\)[\n\r\t]", body):
        return [
            "it holds a line break or tab and never matches; write one plain entry for each pattern, not a `|` or `>` block"
        ]
    if body[0].isspace() or re.search(r"(?<!\\)\s\Z", body):
        return ["it begins or ends with a blank and never matches; take it away, or write `\\ ` for the blank itself"]
    return []


def _folder_faults(body: str) -> list[str]:
    """Why no path has folders like these: paths are relative to the root, with single slashes, and name files."""
    found = []
    if body.startswith("/"):
        found.append(f"it begins with `/` and never matches; paths are relative to the root: write `{body.lstrip('/')}`")
    elif body.startswith("./"):
        found.append(f"it begins with `./` and never matches; write `{body[2:]}`")
    elif "//" in body:
        found.append("it has two `/` in a row and never matches; write one")
    elif any(part in (".", "..") for part in body.split("/")):
        found.append("it has a folder `.` or `..` and never matches; write the path from the root")
    if body.endswith("/"):
        found.append(f"it ends in `/` and never matches, since only files are touched; write `{body}**`")
    return found


def unreadable_because(text: str) -> str | None:
    """Why the text is no pattern of the dialect at all, in one sentence; None where it is one."""
    body = text.removeprefix("!")
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
