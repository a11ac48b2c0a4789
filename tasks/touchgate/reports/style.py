"""How text is made fit for where it goes: escaped, measured in columns, coloured, encodable."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import TextIO

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
"""ANSI's numbers for the styles that are used."""


def printable(text: str) -> str:
    r"""`text` on one line, with everything that a terminal or a reader could take for something else made visible.

    Control characters (an escape sequence in a file's name), direction marks and unassigned code points become
    backslash escapes; so do the lone surrogates that stand for bytes which are not UTF-8.

    >>> print(printable("a\x1b[2Jb\udcff"))
    a\x1b[2Jb\xff
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    number = ord(char)
    if 0xDC80 <= number <= 0xDCFF:  # noqa: PLR2004
        # What os.fsdecode makes of a byte that is not UTF-8: show the byte.
        return f"\\x{number - 0xDC00:02x}"
    if char in "\t\n\r":
        return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}[char]
    if number < 0x100:  # noqa: PLR2004
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"  # noqa: PLR2004


def cells(text: str) -> int:
    """How many columns of a terminal `text` takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, width: int, mark: str = "...") -> str:
    """`text` in at most `width` columns; `mark` ends it where something was cut."""
    if cells(text) <= width:
        return text
    if width <= cells(mark):
        return mark[: max(0, width)]
    room = width - cells(mark)
    kept = []
    for char in text:
        room -= _width(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + mark


def pad(text: str, width: int) -> str:
    """`text` filled up with spaces to `width` columns; never cut."""
    return text + " " * (width - cells(text))


def encodable(text: str, encoding: str | None) -> str:
    """`text` with what `encoding` cannot hold as backslash escapes."""
    if text.isascii():
        return text
    name = encoding or "ascii"
    try:
        return text.encode(name, "backslashreplace").decode(name)
    except LookupError:
        return text.encode("ascii", "backslashreplace").decode("ascii")


def can_hold(text: str, encoding: str | None) -> bool:
    """Whether `encoding` has every character of `text`."""
    return encodable(text, encoding) == text


def is_terminal(stream: TextIO) -> bool:
    """Whether a person may watch `stream`. A closed or home-made one is no terminal."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError, OSError):
        return False


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Non-empty NO_COLOR: no. Non-empty FORCE_COLOR: yes. Else: on a terminal that is not dumb."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and environ.get("TERM") != "dumb"


def wants_redraw(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a line may be redrawn in place: on a terminal that is not dumb, and never in CI, where logs are kept."""
    return is_terminal(stream) and environ.get("TERM") != "dumb" and not environ.get("CI")


def paint(text: str, *styles: str) -> str:
    """`text` in ANSI colours, reset at its end."""
    if not styles or not text:
        return text
    return f"\x1b[{';'.join(CODES[style] for style in styles)}m{text}\x1b[0m"
