"""The words of a shell's command line, told apart without running it.

Quotes, escapes, operators, comments and line ends are known; what a variable gives is not: it stands as `UNKNOWN` in its
word. Any text is read to its end, none raises.
"""

from __future__ import annotations

import re

from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

UNKNOWN = "\0"
"""In a word: what only the shell can tell."""

_PIECE = re.compile(
    r"""
      \\\n
    | \\(?P<escaped>[\s\S])
    | \$?'(?P<single>[^']*)'?
    | \$?"(?P<double>(?:[^"\\]|\\[\s\S])*)"?
    | (?P<variable>\$\{[^}\n]{0,300}\}|\$\w+|\$[$?!#*@<^+%-])
    | (?P<redirect>[0-9]?>&[0-9-]?|&?>>?|<<<|<<-?|<)
    | (?P<operator>\n|&&|\|\||;;|\$\(|[|&;()`])
    | (?P<blank>[ \t\r\f\v]+)
    | (?P<plain>[^\s\\'"$`|&;()<>]+)
    | (?P<other>[\s\S])
    """,
    re.VERBOSE,
)
_IN_QUOTES = re.compile(r"\\\n|\\(?P<escaped>[\"\\$`])|\$\((?:[^()]|\([^()]*\))*\)?|`[^`]*`?|\$\{[^}]*\}|\$\w+|\$[$?!#*@-]")
_SUBSTITUTED = re.compile(r"\$\(((?:[^()]|\([^()]*\))*)|`([^`]*)")
_PATTERN = re.compile(r"[*?\[{]")
_OWN_FOLDER = re.compile(r"\$(?:PWD\b|\{PWD\})/?")


class Word(NamedTuple):
    """One word. line: from 1. is_pattern: the shell puts matching files in its place. inner: commands within its quotes."""

    text: str
    line: int
    is_pattern: bool = False
    inner: tuple[str, ...] = ()


class _Made:
    """A word in the making."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.parts: list[str] = []
        self.inner: list[str] = []
        self.is_pattern = False

    def add(self, kind: str, piece: re.Match[str]) -> None:
        whole = piece.group()
        if kind == "double":
            quoted = piece.group(kind)
            self.inner += [found for pair in _SUBSTITUTED.findall(quoted) for found in pair if found.strip()]
            self.parts.append(_IN_QUOTES.sub(_in_quotes, _OWN_FOLDER.sub("./", quoted)))
        elif kind == "variable":
            self.parts.append("." if whole in ("$PWD", "${PWD}") else UNKNOWN)
        else:
            self.parts.append(piece.group(kind))
            self.is_pattern = self.is_pattern or (kind == "plain" and _PATTERN.search(whole) is not None)

    def word(self) -> Word:
        return Word("".join(self.parts), self.line, self.is_pattern, tuple(self.inner))


def tokens(text: str) -> Iterator[Word | str]:
    """The words, and between them the operators that end a command: a line end, "&&", "(", ")"..."""
    line = 1
    made: _Made | None = None
    place = 0
    while place < len(text):
        piece = _PIECE.match(text, place)
        if piece is None:  # it takes any character
            break
        kind, whole = piece.lastgroup, piece.group()
        place = piece.end()
        if kind == "plain" and whole.startswith("#") and made is None:
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
        elif kind in ("blank", "operator", "redirect"):
            if made is not None:
                yield made.word()
                made = None
            if kind == "operator":
                yield whole
        elif kind is not None:
            made = made or _Made(line)
            made.add(kind, piece)
        line += whole.count("\n")
    if made is not None:
        yield made.word()


def _in_quotes(match: re.Match[str]) -> str:
    if match.group() == "\\\n":
        return ""
    return match.group("escaped") or UNKNOWN
