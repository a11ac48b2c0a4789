"""What the argument of `include!` says, as far as it can be told without a compiler."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from touchgate.gate.closure.rust_text import IDENTIFIER, literal_at

if TYPE_CHECKING:
    from touchgate.gate.closure.rust_text import Code

_SPACE = re.compile(r"\s*")
_CALL = re.compile(rf"(?:::\s*)?(?:{IDENTIFIER}\s*::\s*)*(?P<name>{IDENTIFIER})\s*!\s*(?P<bracket>[(\[{{])")
_PLAIN = re.compile(r"(?P<number>[0-9]+)(?![\w.])|(?P<word>true|false)(?!\w)")
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_DEEPEST = 32
_LONGEST = 1 << 16
"""Characters of an argument."""


class Unknown(Exception):
    """Only the compiler can tell: why, a clause."""


class _FolderOfTheCrate(str):
    __slots__ = ()


def argument(code: Code, start: int, end: int) -> tuple[str, str]:
    """Where a path begins ("here" or "crate"), and the path. start, end: what is in the brackets.

    Raises `Unknown`.
    """
    if end - start > _LONGEST:
        raise Unknown(f"its argument is longer than {_LONGEST} characters")
    parts, position = _expression(code, start, 0)
    position = _skip(code, position)
    if code.blanked[position : position + 1] == ",":
        position = _skip(code, position + 1)
    if position < end:
        raise Unknown(_why(code, position))
    if parts and isinstance(parts[0], _FolderOfTheCrate):
        rest = "".join(parts[1:])
        if any(isinstance(part, _FolderOfTheCrate) for part in parts[1:]) or rest[:1] not in ("", "/"):
            raise Unknown("it is put together from the crate's folder in an unusual way")
        return "crate", rest.lstrip("/")
    if any(isinstance(part, _FolderOfTheCrate) for part in parts):
        raise Unknown("it is put together from the crate's folder in an unusual way")
    return "here", "".join(parts)


def _skip(code: Code, position: int) -> int:
    space = _SPACE.match(code.blanked, position)
    return space.end() if space else position


def _expression(code: Code, position: int, depth: int) -> tuple[list[str], int]:
    """The parts of a text, and where its expression ends."""
    position = _skip(code, position)
    literal = literal_at(code.text, position)
    if literal:
        return [literal[0]], literal[1]
    call = _CALL.match(code.blanked, position)
    if call and depth < _DEEPEST and call["name"] in ("concat", "env"):
        close = _CLOSES[call["bracket"]]
        if call["name"] == "concat":
            return _list(code, call.end(), close, depth)
        names, end = _list(code, call.end(), close, _DEEPEST)
        name = names[0] if names else ""
        if name != "CARGO_MANIFEST_DIR":
            raise Unknown("a build script's output" if name == "OUT_DIR" else "a variable of the environment says where")
        return [_FolderOfTheCrate()], end
    plain = _PLAIN.match(code.blanked, position) if depth else None
    if plain:
        return [str(int(plain[0])) if plain["number"] else plain[0]], plain.end()
    raise Unknown(_why(code, position))


def _list(code: Code, position: int, close: str, depth: int) -> tuple[list[str], int]:
    """Expressions with commas between, up to the bracket that closes them."""
    parts: list[str] = []
    while True:
        position = _skip(code, position)
        if code.blanked[position : position + 1] == close:
            return parts, position + 1
        more, position = _expression(code, position, depth + 1)
        parts += more
        position = _skip(code, position)
        if code.blanked[position : position + 1] == ",":
            position += 1
        elif code.blanked[position : position + 1] != close:
            raise Unknown(_why(code, position))


def _why(code: Code, position: int) -> str:
    if code.blanked[position : position + 1] == "$":
        return "a variable of a macro says where"
    return "its argument is no string literal"
