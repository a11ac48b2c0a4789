r"""Python's text as tokens, of any version of the language: enough to tell imports from strings and comments.

Strings of every prefix, f-strings with what is nested in them (3.12), line joining, `\r` as a line end. In an f-string
the replacement fields are code: their tokens stand before the string's own. Any bytes are read to their end.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple


class Token(NamedTuple):
    """kind: "name", "string", "newline", "other" or "end". line: from 1. value: a string's, None where it is computed."""

    kind: str
    text: str
    line: int
    value: str | None = None


_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PART = re.compile(
    r"""
      (?P<space>[ \t\f]+|\\\r?\n|\\\r|\#[^\r\n]*)
    | (?P<newline>\r?\n|\r)
    | (?P<prefix>[rRuUbBfFtT]{0,3})(?P<quote>'{3}|"{3}|'|")
    | (?P<name>[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)
    | (?P<number>[0-9][\w.]*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BODY = {
    quote: re.compile(rf"(?:[^\\\r\n{quote}]|\\\r\n|\\.)*", re.DOTALL)
    if len(quote) == 1
    else re.compile(rf"(?:[^\\{quote[0]}]|\\.|{quote[0]}(?!{quote[0]}{quote[0]}))*", re.DOTALL)
    for quote in ("'", '"', "'''", '"""')
}
_FORMATTED = re.compile(r"[^\\{}'\"\r\n]+|\\N\{[^}\r\n]*\}|\\\r\n|\\[^{}]|\r\n|.", re.DOTALL)
_FORMATTED_RAW = re.compile(r"[^\\{}'\"\r\n]+|\\\r\n|\\[^{}]|\r\n|.", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:\r\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|.)", re.DOTALL)
_SIMPLE = dict(zip("\\'\"abfnrtv", "\\'\"\a\b\f\n\r\t\v", strict=True))


def tokens(text: bytes) -> tuple[list[Token], str]:
    """The tokens, and what is wrong with the declared encoding ("" for nothing)."""
    decoded, trouble = _decode(text)
    lexer = _Lexer(decoded)
    lexer.run()
    return lexer.tokens, trouble


def _decode(text: bytes) -> tuple[str, str]:
    if text.startswith(codecs.BOM_UTF8):
        return text[3:].decode("utf-8", "surrogateescape"), ""
    first, _, rest = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").partition(b"\n")
    cookie = _COOKIE.match(first)
    if cookie is None and not re.sub(rb"#.*", b"", first).strip():
        cookie = _COOKIE.match(rest.partition(b"\n")[0])
    name = cookie[1].decode("ascii", "replace") if cookie else "utf-8"
    try:
        plain = codecs.lookup(name).name == "utf-8"
        return text.decode(name, "surrogateescape" if plain else "replace"), ""
    except (LookupError, UnicodeError, ValueError):
        return text.decode("latin-1"), f"the encoding {name}"


class _Frame:
    """Where the lexer is inside an f-string. kind: "string", "field" or "spec" (the format of a field)."""

    __slots__ = ("depth", "kind", "line", "quote", "raw", "value")

    def __init__(self, kind: str, quote: str, line: int, *, raw: bool) -> None:
        self.kind = kind
        self.quote = quote
        self.raw = raw
        self.line = line
        self.depth = 0
        self.value: list[str] | None = []


class _Lexer:
    """Reads to the end. Its stack of frames is its own: no nesting exhausts Python's."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.tokens: list[Token] = []
        self.frames: list[_Frame] = []

    def run(self) -> None:
        text, end = self.text, len(self.text)
        while self.at < end:
            frame = self.frames[-1] if self.frames else None
            if frame and frame.kind != "field":
                self.formatted(frame)
                continue
            match = _PART.match(text, self.at)
            assert match  # noqa: S101 (its last alternative takes anything)
            self.at = match.end()
            kind, part = match.lastgroup, match[0]
            if kind == "space":
                self.line += part[0] == "\\"
            elif kind == "name":
                self.tokens.append(Token("name", part, self.line))
            elif kind == "newline":
                self.tokens.append(Token("newline", "", self.line))
                self.line += 1
            elif kind == "quote":
                self.string(match["prefix"].lower(), match["quote"])
            elif not (frame and kind == "other" and self.ends_field(frame, part)):
                self.tokens.append(Token("other", part, self.line))
        while self.frames:
            self.end_string()

    def ends_field(self, frame: _Frame, part: str) -> bool:
        """Whether a character ends a replacement field, or begins its format."""
        if part in "([{":
            frame.depth += 1
        elif part in ")]}" and frame.depth:
            frame.depth -= 1
        elif part == "}":
            self.frames.pop()
            return True
        elif part == ":" and not frame.depth:
            frame.kind = "spec"
            return True
        return False

    def string(self, prefix: str, quote: str) -> None:
        if "f" in prefix or "t" in prefix:
            self.frames.append(_Frame("string", quote, self.line, raw="r" in prefix))
            return
        body = _BODY[quote].match(self.text, self.at)
        inner = body[0] if body else ""
        self.at += len(inner)
        if self.text.startswith(quote, self.at):
            self.at += len(quote)
        value = inner if "r" in prefix or "\\" not in inner else _ESCAPE.sub(_unescaped, inner)
        self.tokens.append(Token("string", f"{quote}{inner}{quote}", self.line, value))
        self.line += _lines(inner)

    def formatted(self, frame: _Frame) -> None:
        """Read on in the text of an f-string, or in a field's format."""
        if self.text.startswith(frame.quote, self.at):
            if frame.kind == "spec":  # no such string is valid
                self.frames.pop()
                return
            self.at += len(frame.quote)
            self.end_string()
            return
        match = (_FORMATTED_RAW if frame.raw else _FORMATTED).match(self.text, self.at)
        assert match  # noqa: S101 (its last alternative takes anything)
        part = match[0]
        if part[0] in "\r\n" and len(frame.quote) == 1:  # unfinished
            self.frames.pop() if frame.kind == "spec" else self.end_string()
            return
        self.at = match.end()
        self.line += _lines(part)
        if part == "{" and frame.kind == "string" and self.text.startswith("{", self.at):
            self.at += 1
        elif part == "{":
            self.frames.append(_Frame("field", frame.quote, self.line, raw=frame.raw))
            frame.value = None
        elif part == "}" and frame.kind == "spec":
            self.frames.pop()
        elif part == "}" and self.text.startswith("}", self.at):
            self.at += 1
        if frame.value is not None:
            frame.value.append(part if frame.raw or part[0] != "\\" else _ESCAPE.sub(_unescaped, part))

    def end_string(self) -> None:
        frame = self.frames.pop()
        if frame.kind == "string":
            value = None if frame.value is None else "".join(frame.value)
            self.tokens.append(Token("string", f"{frame.quote}...{frame.quote}", frame.line, value))


def _lines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _unescaped(match: re.Match[str]) -> str:
    body = match[0][1:]
    if body[0] in "\r\n":
        return ""
    if body[0] in "xuU" and len(body) > 1:
        number = int(body[1:], 16)
        return chr(number) if number < 0x110000 else ""  # noqa: PLR2004 (the end of Unicode)
    if body[0] in "01234567":
        return chr(int(body, 8))
    return _SIMPLE.get(body, match[0])
