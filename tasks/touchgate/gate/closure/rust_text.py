"""Rust's comments and literals: what is code, and what a string literal says.

Read as the Rust Reference describes them (chapters "Comments" and "Tokens"): block comments nest, raw strings end at a
quote with as many `#` as they began with, `'a` is a lifetime and `'a'` a character.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import NamedTuple

IDENTIFIER = r"(?:[^\W\d]|[^\x00-\x7f\x85\u200e\u200f\u2028\u2029])(?:\w|[^\x00-\x7f\x85\u200e\u200f\u2028\u2029])*"

_BEGINS = re.compile(r"""//|/\*|(?<!\w)(?<!r\#)[bc]?r(?P<hashes>\#*)"|"|'""")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_STRING_MARK = re.compile(r'["\\]')
_CHARACTER = re.compile(r"'(?:\\.[^'\n]*|[^\\'\n])'", re.DOTALL)
_LIFETIME = re.compile(rf"'(?:r\#)?(?:{IDENTIFIER})?")
_SHEBANG = re.compile(r"\ufeff?\#!(?!\s*\[)[^\n]*")
_LITERAL = re.compile(r'(?:[bc]?r(?P<hashes>\#*)|[bc])?"')
_ESCAPE = re.compile(r"\\(?:u\{([0-9A-Fa-f_]{1,12})\}|x([0-9A-Fa-f]{2})|\n\s*|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


class Code(NamedTuple):
    """A Rust file as text, and the same with comments, characters and what strings hold blanked: every offset is kept.

    unclosed: where a comment or string begins that never ends, or None.
    """

    text: str
    blanked: str
    unclosed: int | None


def decoded(content: bytes) -> str:
    """As paths are decoded: any bytes, and none is lost."""
    return content.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def blank(text: str) -> Code:
    """Tell the code from the rest. Linear in the text's length, whatever it holds."""
    pieces: list[str] = []
    done = 0  # up to here the text is in `pieces`
    position = 0
    unclosed = None
    shebang = _SHEBANG.match(text)
    if shebang:
        pieces.append(" " * shebang.end())
        done = position = shebang.end()
    while begin := _BEGINS.search(text, position):
        keep, mark = begin.start(), begin[0]
        if mark == "'":
            character = _CHARACTER.match(text, keep)
            if not character:
                lifetime = _LIFETIME.match(text, keep)
                position = lifetime.end() if lifetime else begin.end()
                continue
            end: int | None = character.end()
        elif mark == "//":
            end = text.find("\n", begin.end())
            end = len(text) if end < 0 else end
        elif mark == "/*":
            end = _end_of_comment(text, begin.end())
        else:
            end = _end_of_string(text, begin.end(), begin["hashes"])
        if end is None:
            unclosed = keep
            end = len(text)
        if mark.endswith('"'):
            keep = begin.end()  # the quote stays: a literal begins here
        pieces.append(text[done:keep])
        pieces.append(" " * (end - keep))
        done = position = end
    pieces.append(text[done:])
    return Code(text, "".join(pieces), unclosed)


def _end_of_comment(text: str, position: int) -> int | None:
    depth = 1
    for mark in _COMMENT_MARK.finditer(text, position):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return None


def _end_of_string(text: str, position: int, hashes: str | None) -> int | None:
    """hashes: of a raw string, else None."""
    if hashes is not None:
        end = text.find('"' + hashes, position)
        return None if end < 0 else end + 1 + len(hashes)
    while mark := _STRING_MARK.search(text, position):
        if mark[0] == '"':
            return mark.end()
        position = mark.end() + 1
    return None


def literal_at(text: str, position: int) -> tuple[str, int] | None:
    """What the string literal at an offset says, and where it ends; None where there is none."""
    begin = _LITERAL.match(text, position)
    if not begin:
        return None
    hashes = begin["hashes"]
    end = _end_of_string(text, begin.end(), hashes)
    if end is None:
        return None
    if hashes is not None:
        return text[begin.end() : end - 1 - len(hashes)], end
    return _ESCAPE.sub(_unescaped, text[begin.end() : end - 1]), end


def is_character(number: int) -> bool:
    """Whether Unicode has a character of that number: all but the surrogates."""
    return number <= sys.maxunicode and unicodedata.category(chr(number)) != "Cs"


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    if code:
        number = int(code.replace("_", "") or "0", 16)
        return chr(number) if is_character(number) else escape[0]
    return _SIMPLE.get(escape[3], escape[3]) if escape[3] else ""
