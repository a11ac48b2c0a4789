"""Which files a .cu file includes by name, directly or not, read without a compiler.

Only `#include "..."` counts, also in branches that the preprocessor would leave out: one file too many in a key costs a
repeated check, one too few a stale result.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_TEXT = re.compile(
    r"""
      (?:\A|(?<=\n)) (?:[ \t]|/\*.*?\*/)* \# (?:[ \t]|/\*.*?\*/)* include (?:_next)?
          (?:[ \t]|/\*.*?\*/)* "(?P<name>[^"\n]+)"
    | __has_include (?:_next)? \s* \( \s* "(?P<asked>[^"\n]+)"
    | //[^\n]*
    | /\*.*?(?:\*/|\Z)
    | (?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"
    | "(?:\\.|[^"\\\n])*"
    | \b[0-9][\w.]*(?:'[\w.]+)*
    | '(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE | re.DOTALL,
)


def included(text: str) -> list[str]:
    """Return the names in `#include "..."` and `__has_include("...")`, in order, each once."""
    joined = re.sub(r"\\[ \t]*\r?\n", "", text.replace("\r\n", "\n"))
    names = (match["name"] or match["asked"] for match in _TEXT.finditer(joined))
    return list(dict.fromkeys(name for name in names if name))


def closure(source: str, root: Path) -> list[str]:
    """Return `source` and all that it includes: paths below `root` with "/", in the order found.

    A name is looked up beside the file that includes it, as compilers do first. A missing file is listed too: it may
    appear later. `root` is the repository's root; names that lead out of it keep their "..".
    """
    waiting = [posixpath.normpath(source)]
    found: dict[str, None] = {}
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        found[path] = None
        try:
            text = (root / path).read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            continue
        folder = posixpath.dirname(path)
        waiting.extend(posixpath.normpath(posixpath.join(folder, name)) for name in included(text))
    return list(found)
