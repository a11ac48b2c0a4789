"""Which files a .cu file includes, directly or not, read without a compiler; and what can't be told so.

Every branch counts, also those that the preprocessor would leave out: one file too many in a key costs a repeated check,
one too few a stale result. What can't be told without a compiler (`#include MACRO`, an include folder that a variable
names) makes the result one that is never reused.
"""

from __future__ import annotations

import os
import posixpath
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from touchgate.checks import Inputs

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
_TEXT = re.compile(
    rf"""
      (?:\A|(?<=\n)) {_BLANK} (?:\#|%{_S}:) {_BLANK} (?P<directive>{_KEYWORD}) (?![\w]) {_BLANK}
          (?: "(?P<name>[^"\n]+)" | <(?P<system>[^>\n]+)> | (?P<computed>[^\n]*) )
    | (?P<has>{_word("__has_")}{_S}(?:{_word("include_next")}|{_word("include")}|{_word("embed")})(?:{_S}_{_S}_)?) (?!\w)
          (?P<called> {_BLANK} \( {_BLANK} (?: "(?P<asked>[^"\n]+)" | <(?P<asked_system>[^>\n]+)> | (?P<asked_computed>) ) )?
    | /{_S}/[^\n]*
    | {_COMMENT}
    | (?P<raw>(?:u{_S}8|[uUL])?{_S}R{_S}") (?P<whole>(?P<fence>[^()\\\s]{{0,16}})\(.*?\)(?P=fence)"{_SUFFIX})?
    | "(?:\\{_S}[^\n]|[^"\\\n])*(?:"{_SUFFIX})?
    | '(?:\\{_S}[^\n]|[^'\\\n])*(?:'{_SUFFIX})?
    | \.?[0-9](?:'?[\w.{_SPLICE}])*
    | {_NAME}
    """,
    re.VERBOSE | re.DOTALL,
)
_HIDDEN = re.compile(r"\r(?!\n)|\.incbin\b")
"""A lone carriage return, which compilers do not agree about; a file that the assembler reads."""

FOLDER_VARIABLES = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH"),
    *("CCC_OVERRIDE_OPTIONS", "CCC_ADD_ARGS"),
)
"""Variables by which compilers find headers, or arguments, beside their command line."""
ARGUMENT_VARIABLES = {"emulated": ("CXX",), "other": ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")}
"""By place: the variables that hold arguments of the compiler."""
_NAMES_FILES = re.compile(
    r"""(?:^|[\s,='"])(?:
      -[IB] | @ | -i(?:nclude|macros|system|quote|dirafter|prefix|withprefix|sysroot|dp) | -optf | -Xclang
      | --?(?:include|imacros|system-include|pre-include|options-file|sysroot|specs|fplugin|fmodule|embed-dir|config)
      | -f[\w-]+=[^\s]*/
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Scan:
    """What one text names. names: within quotes, in order, each once. unresolved: line (from 1) -> what stands there."""

    names: tuple[str, ...]
    unresolved: Mapping[int, str]


@dataclass(frozen=True)
class Reach:
    """All that a file reaches. files: paths below the root. unresolved: "file:line" -> what can't be told."""

    files: tuple[str, ...]
    unresolved: Mapping[str, str]


def scan(text: str) -> Scan:
    """Return the names in `#include "..."`, `#import`, `#embed`, `__has_include("...")`, and what is computed.

    Names in <...> are the compiler's own headers, or of folders that the command line names (see `unresolved_arguments`).
    """
    text = text.removeprefix("\ufeff")
    unresolved = {_line(text, match.start()): match[0].strip() or "a carriage return" for match in _HIDDEN.finditer(text)}
    joined = re.sub(r"\\[ \t\f\v]*\r?\n", _SPLICE, text.replace(_SPLICE, " ").replace("\r\n", "\n"))
    names: dict[str, None] = {}
    for match in _TEXT.finditer(joined):
        name = (match["name"] or match["asked"] or "").replace(_SPLICE, "")
        if "\0" not in name and name:
            names[name] = None
        elif match["raw"]:
            # Where they end, compilers do not agree about.
            directive = {"#", "%"} & set(_line_before(joined, match.start())) and "\n" in match[0]
            if not match["whole"] or directive:
                unresolved[_line(joined, match.start())] = "a raw string"
        elif match["computed"] is not None:
            unresolved[_line(joined, match.start("directive"))] = _plain(f"#{match['directive']} {match['computed']}")
        elif match["asked_computed"] is not None or (match["has"] and not match["called"] and not _asks(joined, match)):
            unresolved[_line(joined, match.start())] = _plain(match[0])
    return Scan(tuple(names), unresolved)


def _line(text: str, at: int) -> int:
    """The line of the file: a splice ends one too."""
    return 1 + text.count("\n", 0, at) + text.count(_SPLICE, 0, at)


def _plain(text: str) -> str:
    return " ".join(text.replace(_SPLICE, "").split())


def _asks(text: str, match: re.Match[str]) -> bool:
    """Whether `__has_include` stands in `defined(__has_include)` or the like, which asks about no file."""
    line = _line_before(text, match.start())
    return bool(re.search(rf"(?:{_word('defined')}|{_word('def')})[\s({_SPLICE}]*\Z", line))


def _line_before(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 : at]


def reach(source: str, root: Path) -> Reach:
    """Return `source` and all that it includes: paths below `root` with "/", in the order found.

    A name is looked up beside the file that includes it, as compilers do first. A missing file is listed too: it may
    appear later. `root` is the repository's root; names that lead out of it keep their "..".
    """
    waiting = [posixpath.normpath(source)]
    found: dict[str, None] = {}
    unresolved: dict[str, str] = {}
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        found[path] = None
        file = root / path
        if not file.is_file():
            if file.is_dir():  # no compiler reads it
                del found[path]
            continue
        try:
            text = file.read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            continue
        scanned = scan(text)
        unresolved |= {f"{path}:{line}": what for line, what in scanned.unresolved.items()}
        for name in scanned.names:
            waiting += _beside(path, name, root)
    return Reach(tuple(found), unresolved)


def _beside(path: str, name: str, root: Path) -> list[str]:
    """The path of `name` beside `path`, and where "..", after a link to a folder, leads elsewhere, that one too."""
    spelled = posixpath.join(posixpath.dirname(path), name)
    plain = posixpath.normpath(spelled)
    if ".." not in name.split("/"):
        return [plain]
    try:
        real = os.path.realpath(root / spelled)
        if real == os.path.realpath(root / plain):
            return [plain]
        return [plain, posixpath.relpath(real, os.path.realpath(root))]
    except (OSError, ValueError):
        return [plain]


def unresolved_arguments(place: str, environ: Mapping[str, str], declared: Collection[str]) -> dict[str, str]:
    """Return the variables by which the compiler of `place` reads files that no source names, with what they hold.

    declared: the further variables that the check sees.
    """
    found = {}
    for name in ARGUMENT_VARIABLES["emulated" if place == "emulated" else "other"]:
        if _NAMES_FILES.search(environ.get(name, "")):
            found[name] = environ[name]
    for name in FOLDER_VARIABLES:
        if name in declared and name in environ:
            found[name] = environ[name]
    return found


def with_includes(
    inputs: Inputs, source: str | None, root: Path, place: str, environ: Mapping[str, str], declared: Collection[str]
) -> Inputs:
    """Return `inputs` with all that the .cu file `source` reaches; never the same again where that can't be told."""
    found = reach(source, root) if source is not None else Reach((), {})
    extra = {f"unresolved include {where}": f"{what} {_never()}" for where, what in found.unresolved.items()}
    for name, value in unresolved_arguments(place, environ, declared).items():
        extra[f"unresolved includes of {name}"] = f"{value} {_never()}"
    return Inputs(tuple(sorted({*inputs.files, *found.files})), inputs.tools, {**inputs.extra, **extra})


@cache
def _never() -> str:
    """A value that no other process has. One a process: a key must be the same before and after its check."""
    return secrets.token_hex(16)
