"""What the expressions of a Python file say, as far as they are literal: texts, and paths put together from the file's own."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

from touchgate.gate.closure.python_text import Token

if TYPE_CHECKING:
    from collections.abc import Sequence

END = Token("end", "", 0)
HERE = "here:"
"""Before a path from the folder of the file that says it."""
CWD = "cwd:"
"""Before a path from wherever the program is started."""

_DEEPEST = 20
_LONGEST = 120
"""Tokens of an expression that begins with a path."""
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_SAME = {"abspath", "realpath", "normpath", "normcase", "fspath", "str", "Path", "PurePath", "PosixPath", "PurePosixPath"}
_SAME_METHODS = {"resolve", "absolute", "as_posix", "expanduser", "__str__", "__fspath__"}
_WORDS = {"pardir": "..", "curdir": ".", "sep": "/"}
_SELF = "\1"
"""Stands for the file's own name, of which only the folder matters."""


class Argument(NamedTuple):
    """One of a call's: its tokens from start to end. keyword: its name, "*" where more than one may be meant, or ""."""

    keyword: str
    start: int
    end: int


class _Path(NamedTuple):
    """anchor: HERE or CWD."""

    anchor: str
    path: str

    def joined(self, other: _Path) -> _Path:
        if other.anchor == HERE or other.path.startswith("/"):
            return other
        return _Path(self.anchor, posixpath.normpath(posixpath.join(self.path, other.path)))

    def parent(self) -> _Path:
        return self.joined(_Path(CWD, ".."))


class Expressions:
    """The tokens of a file, each bracket with the one that closes it. A question costs no more than the tokens asked about."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self._closing: dict[int, int] | None = None
        self._inside: list[bool] | None = None
        self._lenient = False
        """Whether a path ends where something stands that is not known."""
        self.known: dict[str, str] = {}
        """Variable -> the path that it stands for."""

    def token(self, at: int) -> Token:
        """The token at a place; END beyond the last."""
        return self.tokens[at] if 0 <= at < len(self.tokens) else END

    def skip(self, at: int) -> int:
        """The first place from `at` on that is no line end."""
        tokens, end = self.tokens, len(self.tokens)
        while at < end and tokens[at].kind == "newline":
            at += 1
        return at

    def closing(self, at: int) -> int:
        """The place of the bracket that closes the one at `at`; -1 for none."""
        if self._closing is None:
            self._closing = _brackets(self.tokens)
        return self._closing.get(at, -1)

    def is_inside(self, at: int) -> bool:
        """Whether a token stands between brackets."""
        if self._inside is None:
            if self._closing is None:
                self._closing = _brackets(self.tokens)
            self._inside = [False] * len(self.tokens)
            over = -1
            for start, end in sorted(self._closing.items()):
                if start > over:
                    self._inside[start : end + 1] = [True] * (end + 1 - start)
                    over = end
        return at < len(self._inside) and self._inside[at]

    def arguments(self, at: int) -> list[Argument]:
        """Those between the bracket at a place and the one that closes it, as far as all is closed that is opened."""
        found = []
        at = start = at + 1
        while True:
            token = self.token(at)
            over = at
            if token.text in _CLOSES and token.kind == "other":
                over = self.closing(at)
            ends = token is END or over < 0 or (token.kind == "other" and token.text in ")]}")
            if ends or (token.kind == "other" and token.text == ","):
                if self.skip(start) < at:
                    found.append(self._argument(self.skip(start), at))
                if ends:
                    return found
                start = at + 1
            at = over + 1

    def _argument(self, start: int, end: int) -> Argument:
        first = self.token(start)
        after = self.skip(start + 1)
        if first.kind == "name" and self.token(after).text == "=" and self.token(after + 1).text != "=":
            return Argument(first.text, self.skip(after + 1), end)
        if first.text == "*":
            return Argument("*", start, end)
        return Argument("", start, end)

    def text(self, start: int, end: int) -> str | None:
        """The value of a string, of several in a row or with + between; None for anything else."""
        start, end = self._stripped(start, end)
        parts: list[str] = []
        for at in range(start, end):
            token = self.token(at)
            if token.kind == "string" and token.value is not None:
                parts.append(token.value)
            elif token.kind != "newline" and not (token.text == "+" and parts):
                return None
        return "".join(parts) if parts else None

    def texts(self, start: int, end: int) -> tuple[list[str], bool]:
        """The strings of a list or tuple, or the one string; and whether there is more than that."""
        single = self.text(start, end)
        if single is not None:
            return [single], False
        start = self.skip(start)
        if self.token(start).text not in _CLOSES or self.skip(self.closing(start) + 1) < end:
            return [], True
        told = [self.text(part.start, part.end) for part in self.arguments(start)]
        return [text for text in told if text is not None], None in told

    def _stripped(self, start: int, end: int) -> tuple[int, int]:
        """Without the brackets around the whole."""
        start = self.skip(start)
        while end > start and self.token(end - 1).kind == "newline":
            end -= 1
        while self.token(start).text == "(" and self.closing(start) == end - 1:
            start, end = self.skip(start + 1), end - 1
        return start, end

    def place(self, start: int, end: int) -> str | None:
        """The path that an expression says, after HERE or CWD; None where it is computed from more than `__file__`."""
        found, at = self._sum(self.skip(start), end, 0)
        if found is None or self.skip(at) < end:
            return None
        return found.anchor + found.path.replace(_SELF, ".")

    def prefix(self, start: int) -> tuple[str | None, int]:
        """The path that an expression begins with, as `place` gives it, and where the first token is that it leaves out."""
        self._lenient = True
        end, last = start, min(start + _LONGEST, len(self.tokens))
        while end < last and (self.tokens[end].kind != "newline" or self.is_inside(end)):
            end += 1
        try:
            found, at = self._sum(start, end, 0)
        finally:
            self._lenient = False
        return (None if found is None else found.anchor + found.path.replace(_SELF, ".")), at

    def _sum(self, at: int, end: int, depth: int) -> tuple[_Path | None, int]:
        """`a / b + c`, and where it ends."""
        found, at = self._term(at, end, depth)
        while found is not None and (at if self._lenient and not depth else self.skip(at)) < end:
            if self._lenient and not depth and self.token(at).kind == "newline" and not self.is_inside(at):
                break
            sign = self.token(self.skip(at)).text
            if sign not in ("/", "+"):
                break
            before = at
            other, at = self._term(self.skip(self.skip(at) + 1), end, depth)
            if other is None:
                return (found, self.skip(before)) if self._lenient else (None, at)
            found = found.joined(other) if sign == "/" else _added(found, other)
        return found, at

    def _term(self, at: int, end: int, depth: int) -> tuple[_Path | None, int]:
        token = self.token(at)
        if depth > _DEEPEST or at >= end:
            return None, at
        found: _Path | None
        if token.kind == "string":
            last = following = at
            while following < end and self.token(following).kind == "string":
                last = following + 1
                following = self.skip(last)
            text = self.text(at, last)
            found, at = (None if text is None else _Path(CWD, text)), last
        elif token.text == "(":
            found, inner = self._sum(self.skip(at + 1), end, depth + 1)
            if self.skip(inner) != self.closing(at):
                return None, at
            at = self.closing(at) + 1
        elif token.kind == "name":
            found, at = self._name(at, end, depth)
        else:
            return None, at
        return self._methods(found, at, end, depth)

    def _name(self, at: int, end: int, depth: int) -> tuple[_Path | None, int]:
        """`__file__`, `os.path.join(...)`, `Path(...)` and the like."""
        own = ("__file__", *self.known)
        while self.token(at + 1).text == "." and self.token(at + 2).kind == "name" and self.token(at).text not in own:
            at += 2
        name = self.token(at).text
        if self.token(at + 1).text != "(":
            if name == "__file__":
                return _Path(HERE, _SELF), at + 1
            if name in self.known:
                anchor, _, path = self.known[name].partition(":")
                return _Path(f"{anchor}:", path), at + 1
            return (_Path(CWD, _WORDS[name]) if name in _WORDS else None), at + 1
        after = self.closing(at + 1) + 1
        if not 0 < after <= end:
            return None, at
        if name in ("getcwd", "cwd") and after == at + 3:
            return _Path(CWD, "."), after
        parts = self._parts(at + 1, depth)
        if parts is None or not (parts or name == "Path"):
            return None, after
        if name == "dirname" and len(parts) == 1:
            return parts[0].parent(), after
        if name in ("join", "Path", "PurePath") or (name in _SAME and len(parts) == 1):
            return _joined(_Path(CWD, ".") if not parts else parts[0], parts[1:]), after
        return None, after

    def _parts(self, at: int, depth: int) -> list[_Path] | None:
        """The paths that a call is given; None where one is computed."""
        parts = []
        for argument in self.arguments(at):
            found, inner = self._sum(argument.start, argument.end, depth + 1)
            if found is None or argument.keyword or self.skip(inner) < argument.end:
                return None
            parts.append(found)
        return parts

    def _methods(self, found: _Path | None, at: int, end: int, depth: int) -> tuple[_Path | None, int]:
        """`.parent`, `.parents[1]`, `.joinpath(...)` after a path."""
        while found is not None and self.token(self.skip(at)).text == "." and self.skip(at) < end:
            before = at
            at = self.skip(at) + 1
            name, after = self.token(at).text, self.token(at + 1).text
            if name == "parent":
                found, at = found.parent(), at + 1
            elif name == "parents" and after == "[" and self.token(at + 3).text == "]" and self.token(at + 2).text.isdecimal():
                for _ in range(min(int(self.token(at + 2).text[:3]), 99) + 1):
                    found = found.parent()
                at += 4
            elif after == "(" and 0 < self.closing(at + 1) < end:
                parts = self._parts(at + 1, depth)
                if parts is None or name not in {*_SAME_METHODS, "joinpath", "with_name"}:
                    return (found, before) if self._lenient else (None, at)
                found = found.parent() if name == "with_name" else found
                found = found if name in _SAME_METHODS else _joined(found, parts)
                at = self.closing(at + 1) + 1
            else:
                return (found, before) if self._lenient else (None, at)
        return found, at


def _joined(start: _Path, parts: Sequence[_Path]) -> _Path:
    for part in parts:
        start = start.joined(part)
    return start


def _added(one: _Path, other: _Path) -> _Path | None:
    """`dirname(__file__) + "/x"`."""
    if other.anchor == HERE or _SELF in one.path:
        return None
    if one.anchor == HERE and one.path == ".":
        return one.joined(_Path(CWD, other.path[1:])) if other.path.startswith("/") else None
    return _Path(one.anchor, one.path + other.path)


def _brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Each bracket's place with that of the one that closes it; those that none closes are left out."""
    found: dict[int, int] = {}
    open_: list[int] = []
    waiting = dict.fromkeys(")]}", 0)
    for at, token in enumerate(tokens):
        if token.kind != "other":
            continue
        if token.text in _CLOSES:
            open_.append(at)
            waiting[_CLOSES[token.text]] += 1
        elif waiting.get(token.text):
            while True:
                last = open_.pop()
                waiting[_CLOSES[tokens[last].text]] -= 1
                if _CLOSES[tokens[last].text] == token.text:
                    found[last] = at
                    break
    return found
