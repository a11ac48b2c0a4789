"""What a C, C++ or CUDA file includes, read without a compiler; and what can't be told so.

Every branch counts, also those that the preprocessor would leave out. A name in quotes is looked up beside the file that
includes it, then in the include folders, as compilers do; every place where a file is counts, not only the first.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from touchgate.gate.closure.references import Found, Reference, Unresolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from touchgate.gate.closure.references import Settings
    from touchgate.gate.closure.tree import Tree

VERSION = 1
FOLDERS = ("", "include")
"""Include folders beside the declared ones."""

_SPLICE = "\x01"
"""Stands for a backslash and line end while a text is read: within raw strings they are no splice, elsewhere nothing."""
_S = f"{_SPLICE}*"
# In one way only: what a search may try in many ways takes it long where there are many comments.
_COMMENT = rf"/{_S}\*[^*]*(?:\*(?!{_S}/)[^*]*)*(?:\*{_S}/|\Z)"
_BLANK = rf"(?:[ \t\f\v{_SPLICE}]|{_COMMENT})*"


def _word(text: str) -> str:
    return _S.join(text)


_KEYWORD = "|".join(_word(text) for text in ("include_next", "include", "import", "embed"))
_NAME = rf"[^\W\d][\w{_SPLICE}]*"
_SUFFIX = rf"(?:{_S}{_NAME})?"
_START = rf"(?:\A|(?<=\n)) {_BLANK}"
_TEXT = re.compile(
    rf"""
      {_START} (?:\#|%{_S}:) {_BLANK} (?P<directive>{_KEYWORD}) (?![\w]) {_BLANK}
          (?: "(?P<name>[^"\n]+)" | <(?P<system>[^>\n]+)> | (?P<computed>[^\n]*) )
    | {_START} (?:{_word("export")} {_BLANK})? (?P<unit>{_word("import")}) {_BLANK}
          (?: "(?P<unit_name>[^"\n]+)" | <(?P<unit_system>[^>\n]+)> | (?P<module>{_NAME}(?:\.{_NAME})*) {_BLANK} ; )
    | (?P<has>{_word("__has_")}{_S}(?:{_word("include_next")}|{_word("include")}|{_word("embed")})(?:{_S}_{_S}_)?) (?!\w)
          (?P<called> {_BLANK} \( {_BLANK} (?: "(?P<asked>[^"\n]+)" | <(?P<asked_system>[^>\n]+)> | (?P<asked_computed>) ) )?
    | /{_S}/[^\n]*
    | {_COMMENT}
    | (?P<raw>(?:u{_S}8|[uUL])?{_S}R{_S}") (?P<open>(?P<fence>[^()\\\s]{{0,16}})\()?
    | "(?:\\{_S}[^\n]|[^"\\\n])*(?:"{_SUFFIX})?
    | '(?:\\{_S}[^\n]|[^'\\\n])*(?:'{_SUFFIX})?
    | \.?[0-9](?:'?[\w.{_SPLICE}])*
    | {_NAME}
    """,
    re.VERBOSE | re.DOTALL,
)
_AFTER_RAW = re.compile(_SUFFIX)
_LINE_END = re.compile(f"[\n{_SPLICE}]")
_NEAR = 300
"""Characters before a word where `defined` is looked for."""
_LONGEST_LINE = 10_000
_HIDDEN = re.compile(r"\r(?!\n)|\.incbin\b")
"""A lone carriage return, which compilers do not agree about; a file that the assembler reads."""


def read(text: bytes) -> Found:
    """All that the content includes."""
    return scan(text.decode("utf-8", "surrogateescape"))


def scan(text: str) -> Found:
    """The names in `#include`, `#import`, `#embed`, `__has_include` and imports of header units; and what is computed."""
    text = text.removeprefix("\ufeff")
    unresolved = [
        Unresolved(
            1 + text.count("\n", 0, match.start()),
            match[0].strip() or "a carriage return",
            _ASSEMBLER if match[0].strip() else _ENDS,
        )
        for match in _HIDDEN.finditer(text)
    ]
    joined = re.sub(r"\\[ \t\f\v]*\r?\n", _SPLICE, text.replace(_SPLICE, " ").replace("\r\n", "\n"))
    lines = _Lines(joined)
    references: dict[tuple[str, str], Reference] = {}
    for match, end in _matches(joined):
        named = _named(match)
        if named is not None:
            if named not in references:
                references[named] = Reference(*named, lines.of(match.start(str(match.lastgroup))))
        elif (trouble := _trouble(joined, match, end, lines)) is not None:
            unresolved.append(trouble)
    return Found(tuple(references.values()), tuple(unresolved))


def _matches(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """What there is, with its end; -1 for a raw string that never ends, of which only the beginning is passed over.

    The end of a raw string is looked for here: in a pattern it would be looked for up to the text's end each time.
    """
    place = 0
    endless: set[str] = set()
    while match := _TEXT.search(text, place):
        end = place = match.end()
        if match["raw"]:
            close = f'){match["fence"]}"' if match["open"] else ""
            end = -1 if not close or close in endless else text.find(close, place)
            if end >= 0:
                suffix = _AFTER_RAW.match(text, end + len(close))
                end = place = suffix.end() if suffix else end + len(close)
            else:
                endless.add(close)
                place = match.end("raw")
        yield match, end


_ASSEMBLER = "the assembler reads a file"
_ENDS = "compilers do not agree whether it ends a line"
_MACRO = "a macro says what"
_KINDS = (
    *(("name", "quotes"), ("system", "angles"), ("unit_name", "quotes"), ("unit_system", "angles")),
    *(("asked", "quotes"), ("asked_system", "angles")),
)


def _named(match: re.Match[str]) -> tuple[str, str] | None:
    """How a file is named, and its name; None where the match names none."""
    for group, how in _KINDS:
        if match[group] is not None:
            name = match[group].replace(_SPLICE, "")
            if "\0" in name or not name:
                return None
            return ("bytes" if _is_embed(match) else how), (f"<{name}>" if _is_embed(match) and how == "angles" else name)
    return None


def _is_embed(match: re.Match[str]) -> bool:
    return "embed" in (match["directive"] or match["has"] or "").replace(_SPLICE, "")


def _trouble(text: str, match: re.Match[str], end: int, lines: _Lines) -> Unresolved | None:
    """What can't be told at a match that names no file."""
    line = lines.of
    if match["raw"]:
        # Where they end, compilers do not agree about.
        if end < 0 or ("\n" in text[match.start() : end] and {"#", "%"} & set(_line_before(text, match.start()))):
            return Unresolved(line(match.start()), "a raw string", "compilers do not agree where it ends")
    elif match["computed"] is not None:
        written = _plain(f"#{match['directive']} {match['computed']}")
        return Unresolved(line(match.start("directive")), written, _MACRO)
    elif match["module"] is not None:
        return Unresolved(line(match.start("unit")), _plain(f"import {match['module']}"), "a module's file has any name")
    elif match["asked_computed"] is not None or (match["has"] and not match["called"] and not _asks(text, match)):
        return Unresolved(line(match.start()), _plain(match[0]), _MACRO)
    return None


class _Lines:
    """The lines of the file by places in the text: a splice ends one too."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] | None = None

    def of(self, at: int) -> int:
        """The line of a place."""
        if self._ends is None:
            self._ends = [match.start() for match in _LINE_END.finditer(self._text)]
        return 1 + bisect_left(self._ends, at)


def _plain(text: str) -> str:
    return " ".join(text.replace(_SPLICE, "").split())


def _asks(text: str, match: re.Match[str]) -> bool:
    """Whether `__has_include` stands in `defined(__has_include)` or the like, which asks about no file."""
    line = _line_before(text, match.start())[-_NEAR:]
    return bool(re.search(rf"(?:{_word('defined')}|{_word('def')})[\s({_SPLICE}]*\Z", line))


def _line_before(text: str, at: int) -> str:
    return text[text.rfind("\n", max(0, at - _LONGEST_LINE), at) + 1 : at]


def resolve(reference: Reference, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:
    """The files that a name may mean: beside the file that includes it, and in each include folder."""
    name = reference.text
    beside: tuple[str, ...] = (posixpath.dirname(path),)
    if reference.how == "angles":
        beside = ()
    elif name.startswith("<"):
        name, beside = name[1:-1], ()
    found: dict[str, None] = {}
    for folder in (*beside, *settings.include, *FOLDERS):
        found.update(dict.fromkeys(tree.at(posixpath.join(folder, name))))
    return tuple(found)


def implied(path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:  # noqa: ARG001 (of the contract)
    """No other file comes with one."""
    return ()
