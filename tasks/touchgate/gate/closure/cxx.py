"""What a C, C++ or CUDA file includes, read without a compiler; and what can't be told so.

Every branch counts, also those that the preprocessor would leave out. A name in quotes is looked up beside the file that
includes it, then in the include folders, as compilers do; every place where a file is counts, not only the first.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from touchgate.gate.closure.cxx_text import decoded, readings
from touchgate.gate.closure.references import Found, Reference, Unresolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from touchgate.gate.closure.cxx_text import Joined
    from touchgate.gate.closure.references import Settings
    from touchgate.gate.closure.tree import Tree

VERSION = 2
FOLDERS = ("", "include")
"""Include folders beside the declared ones."""

# In one way only: what a search may try in many ways takes it long where there are many comments.
_COMMENT = r"/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/|\Z)"
_BLANK = rf"(?:[ \t\f\v\0]|{_COMMENT})*"
_NAME = r"[^\W\d]\w*"
_SUFFIX = rf"(?:{_NAME})?"
_START = rf"(?:\A|(?<=\n)) {_BLANK}"
_PRAGMA = rf"""
    (?: (?:GCC|clang) {_BLANK} )? (?P<PREFIXdepends>dependency|pch_preprocess) (?!\w) {_BLANK}
          (?: "(?P<PREFIXfile>[^"\n]+)" | <(?P<PREFIXsystem>[^>\n]+)> | )
    | include_alias {_BLANK} \( {_BLANK} (?:"[^"\n]+"|<[^>\n]+>) {_BLANK} , {_BLANK}
          (?: "(?P<PREFIXalias>[^"\n]+)" | <(?P<PREFIXalias_system>[^>\n]+)> )
    | comment {_BLANK} \( {_BLANK} lib {_BLANK} , {_BLANK} "(?P<PREFIXlibrary>[^"\n]+)"
    | (?P<PREFIXmodule>clang {_BLANK} module {_BLANK} (?:import|load) (?!\w) [^\n]*)
"""
_TEXT = re.compile(
    rf"""
      {_START} (?:\#|%:) {_BLANK} (?: (?P<directive>include_next|include|import|embed) (?!\w) {_BLANK}
            (?: "(?P<name>[^"\n]+)" | <(?P<system>[^>\n]+)> | (?=(?P<computed>[^\n]*)) )
          | pragma (?!\w) {_BLANK} (?:{_PRAGMA.replace("PREFIX", "in_")}) )
    | {_START} (?:export {_BLANK})? (?P<unit>import) {_BLANK}
          (?: "(?P<unit_name>[^"\n]+)" | <(?P<unit_system>[^>\n]+)>
            | (?P<module>:?{_BLANK}{_NAME}(?:[.:]{_NAME})*) {_BLANK} [;\[] )
    | {_START} (?P<part>module) (?!\w) {_BLANK} (?P<whole>{_NAME}(?:\.{_NAME})*) {_BLANK} ;
    | (?P<has>__has_(?:include_next|include|embed)(?:__)?) (?!\w)
          (?P<called> {_BLANK} \( {_BLANK} (?: "(?P<asked>[^"\n]+)" | <(?P<asked_system>[^>\n]+)> | (?P<asked_computed>) ) )?
    | (?:_Pragma|__pragma) {_BLANK} \( {_BLANK}
          (?: (?:u8|[uUL])? "(?P<said>(?:\\.|[^"\\\n])*)" | (?P<said_raw>(?:u8|[uUL])?R(?="))
          | (?:{_PRAGMA.replace("PREFIX", "of_")}) )
    | //[^\n]*
    | {_COMMENT}
    | (?P<raw>(?:u8|[uUL])?R") (?P<open>(?P<fence>[^()\\\s]{{0,16}})\()?
    | "(?:\\.|[^"\\\n])*(?:"{_SUFFIX})?
    | '(?:\\.|[^'\\\n])*(?:'{_SUFFIX})?
    | \.?[0-9](?:'?[\w.])*
    | {_NAME}
    """,
    re.VERBOSE | re.DOTALL,
)
_AFTER_RAW = re.compile(_SUFFIX)
_ASSEMBLED = re.compile(
    r"""(?P<binary>\.incbin) \b [ \t]* (?: \\" (?P<told>[^"\\\n]+) \\" | " (?P<bare>[^"\\\n]+) " )?
      | (?:(?<=\\[nt])|(?<![\w)\]])) \.include \b [ \t]*
          (?: \\" (?P<told_source>[^"\\\n]+) \\" | " (?P<bare_source>[^"\\\n]+) " | (?=\\?") )""",
    re.VERBOSE | re.IGNORECASE,
)
"""What the assembler reads, in its own files and in strings for it."""
_NEAR = 300
"""Characters before a word where `defined` is looked for."""
_LONGEST_LINE = 10_000
_LONGEST_TEXT = 200


def read(text: bytes) -> Found:
    """All that the content includes, in whatever encoding."""
    found = [scan(one) for one in decoded(text)]
    return found[0] if len(found) == 1 else _together(found)


def scan(text: str) -> Found:
    """The names in `#include`, `#import`, `#embed`, `__has_include`, pragmas, the assembler's directives and imports of
    header units; and what is computed.
    """  # noqa: D205 (one sentence)
    found = [_scan(joined) for joined in readings(text.removeprefix("\ufeff"))]
    return found[0] if len(found) == 1 else _together(found)


def _together(found: list[Found]) -> Found:
    references: dict[tuple[str, str], Reference] = {}
    for one in found:
        for reference in one.references:
            references.setdefault(reference[:2], reference)
    return Found(tuple(references.values()), tuple(dict.fromkeys(trouble for one in found for trouble in one.unresolved)))


def _scan(joined: Joined) -> Found:
    references: dict[tuple[str, str], Reference] = {}
    unresolved = []
    for match, end in _matches(joined):
        said = match["said"] is not None and _TEXT.match(f"#pragma {_destringized(match['said'])}")
        named = _named(said or match)
        if named is not None:
            if named not in references:
                references[named] = Reference(*named, joined.line(match.start(str(match.lastgroup))))
        elif (why := _trouble(joined.text, said or match, end, joined)) is not None:
            unresolved.append(why)
    for match in _ASSEMBLED.finditer(joined.text):
        name = next((name for name in match.groups()[1:] if name is not None), None)
        if name is not None and "\0" not in name:
            named = ("bytes" if match["binary"] else "quotes"), name
            references.setdefault(named, Reference(*named, joined.line(match.start())))
        if name is None or (match["told"] is match["told_source"] is None and _in_string(joined.text, match.start())):
            unresolved.append(Unresolved(joined.line(match.start()), match[0].partition('"')[0].rstrip("\\ \t"), _ASSEMBLER))
    return Found(tuple(references.values()), tuple(unresolved))


def _matches(joined: Joined) -> Iterator[tuple[re.Match[str], int]]:
    """What there is, with its end; -1 for a raw string that never ends, of which only the beginning is passed over."""
    place = 0
    text = joined.text
    while match := _TEXT.search(text, place):
        end = place = match.end()
        if match["raw"]:
            end = joined.end_of_raw(match["fence"], match.end()) if match["open"] else -1
            if end >= 0:
                suffix = _AFTER_RAW.match(text, end)
                end = place = suffix.end() if suffix else end
            else:
                place = match.end("raw")
        yield match, end


_ASSEMBLER = "the assembler reads a file"
_MACRO = "a macro says what"
_MODULE = "a module's file has any name"
_PRAGMAS = (("file", "bytes"), ("system", "bytes"), ("alias", "quotes"), ("alias_system", "angles"), ("library", "bytes"))
_KINDS = (
    *(("name", "quotes"), ("system", "angles"), ("unit_name", "quotes"), ("unit_system", "angles")),
    *(("asked", "quotes"), ("asked_system", "angles")),
    *((f"{where}_{group}", how) for where in ("in", "of") for group, how in _PRAGMAS),
)


def _named(match: re.Match[str]) -> tuple[str, str] | None:
    """How a file is named, and its name; None where the match names none."""
    for group, how in _KINDS:
        name = match[group]
        if name is not None:
            if "\0" in name:
                return None
            is_bytes = how == "bytes" or "embed" in (match["directive"] or match["has"] or "")
            return ("bytes" if is_bytes else how), (f"<{name}>" if is_bytes and group.endswith("system") else name)
    return None


def _trouble(text: str, match: re.Match[str], end: int, joined: Joined) -> Unresolved | None:
    """What can't be told at a match that names no file."""
    start, found = match.start(), None
    if match["raw"]:
        # Where they end, compilers do not agree about.
        if end < 0 or (joined.lines_between(start, end) and {"#", "%"} & set(_line_before(text, start))):
            found = start, "a raw string", "compilers do not agree where it ends"
    elif match["computed"] is not None:
        found = match.start("directive"), f"#{match['directive']} {match['computed']}", _MACRO
    elif match["module"] is not None:
        found = match.start("unit"), f"import {match['module']}", _MODULE
    elif match["whole"] is not None:
        found = match.start("part"), f"module {match['whole']}", _MODULE
    elif match["in_depends"] or match["of_depends"] or match["said_raw"]:
        found = start, match[0], _MACRO
    elif match["in_module"] or match["of_module"]:
        found = start, match[0], _MODULE
    elif match["asked_computed"] is not None or (match["has"] and not match["called"] and not _asks(text, match)):
        found = start, match[0], _MACRO
    return None if found is None else Unresolved(joined.line(found[0]), " ".join(found[1].split())[:_LONGEST_TEXT], found[2])


def _destringized(literal: str) -> str:
    return literal.replace('\\"', '"').replace("\\\\", "\\")


def _asks(text: str, match: re.Match[str]) -> bool:
    """Whether `__has_include` stands in `defined(__has_include)` or the like, which asks about no file."""
    return bool(re.search(r"(?:defined|def)[\s(]*\Z", _line_before(text, match.start())[-_NEAR:]))


def _in_string(text: str, at: int) -> bool:
    """Whether an odd number of quotes stands before a place in its line: then the next ends a string."""
    line = _line_before(text, at)
    return len(line) >= _LONGEST_LINE or bool((line.count('"') - line.count('\\"')) % 2)


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
