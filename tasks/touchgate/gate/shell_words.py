"""The words of a shell's command line, told apart without running it.

Quotes, escapes, operators, comments and line ends are known, and the variables that the caller tells; what another one or
a command gives stands as `UNKNOWN` in its word. Any text is read to its end, none raises.
"""

from __future__ import annotations

import re

from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

UNKNOWN = "\0"
"""In a word: what only the shell can tell."""

_PIECE = re.compile(
    r"""
      \\\n
    | \\(?P<escaped>[\s\S])
    | \$?'(?P<single>[^']*)'?
    | \$?"(?P<double>(?:[^"\\]|\\[\s\S])*)"?
    | (?P<variable>\$\{[^}\n]{0,300}\}|\$\w+|\$[$?!#*@<^+%-])
    | (?P<command>\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`)
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
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::?-(?P<default>[^}$`]*))?\}|(?P<plain>\w+))")
_OWN_FOLDER = re.compile(r"\$(?:PWD\b|\{PWD\})/?")


class Word(NamedTuple):
    """One word. line: from 1. is_pattern: the shell puts matching files in its place.

    inner: commands within it, whose output takes their place. written: as it stands, with quotes and variables.
    """

    text: str
    line: int
    is_pattern: bool = False
    inner: tuple[str, ...] = ()
    written: str = ""


class _Made:
    """A word in the making."""

    def __init__(self, line: int, start: int, variables: Mapping[str, Sequence[str]]) -> None:
        self.line = line
        self.start = start
        self.parts: list[str] = []
        self.inner: list[str] = []
        self.is_pattern = False
        self._variables = variables

    def add(self, kind: str, piece: re.Match[str]) -> None:
        whole = piece.group()
        if kind == "double":
            quoted = piece.group(kind)
            self.inner += [found for pair in _SUBSTITUTED.findall(quoted) for found in pair if found.strip()]
            self.parts.append(_IN_QUOTES.sub(self._in_quotes, _OWN_FOLDER.sub("./", quoted)))
        elif kind == "command":
            self.inner += [found for pair in _SUBSTITUTED.findall(whole) for found in pair if found.strip()]
            self.parts.append(UNKNOWN)
        elif kind == "variable":
            self.parts.append("." if whole in ("$PWD", "${PWD}") else self.value(whole))
        else:
            self.parts.append(piece.group(kind))
            self.is_pattern = self.is_pattern or (kind == "plain" and _PATTERN.search(whole) is not None)

    def value(self, written: str) -> str:
        """What a variable gives, of several values a pattern for them; UNKNOWN where that is not told."""
        match = _VARIABLE.fullmatch(written)
        if match is None:
            return UNKNOWN
        values = self._variables.get(match["braced"] or match["plain"])
        if values is None:
            return (match["default"] or "").strip("\"'") or UNKNOWN
        value = values[0] if len(values) == 1 else f"{{{','.join(values)}}}"
        self.is_pattern = self.is_pattern or _PATTERN.search(value) is not None
        return value

    def _in_quotes(self, match: re.Match[str]) -> str:
        whole = match.group()
        return "" if whole == "\\\n" else match.group("escaped") or self.value(whole)

    def split(self, text: str, end: int) -> Iterator[Word]:
        """Out of quotes, what a variable gives is words again: all but the last one."""
        *before, self.parts[-1] = self.parts[-1].split() or [""]
        for part in before:
            yield self.word(text, end)._replace(text="".join((*self.parts[:-1], part)))
            self.parts[:-1] = []

    def word(self, text: str, end: int) -> Word:
        return Word("".join(self.parts), self.line, self.is_pattern, tuple(self.inner), text[self.start : end])


def tokens(text: str, variables: Mapping[str, Sequence[str]] | None = None) -> Iterator[Word | str]:
    """The words, and between them the operators that end a command: a line end, "&&", "(", ")"...

    variables: what those give that are known, each at least one text; it may change while the words are taken.
    """
    known = {} if variables is None else variables
    line = 1
    made: _Made | None = None
    place = 0
    while place < len(text):
        piece = _PIECE.match(text, place)
        if piece is None:  # it takes any character
            break
        kind, whole, start = piece.lastgroup, piece.group(), place
        place = piece.end()
        if kind == "plain" and whole.startswith("#") and made is None:
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
        elif kind in ("blank", "operator", "redirect"):
            if made is not None:
                yield made.word(text, start)
                made = None
            if kind == "operator":
                yield whole
        elif kind is not None:
            made = made or _Made(line, start, known)
            made.add(kind, piece)
            if kind == "variable":
                yield from made.split(text, place)
        line += whole.count("\n")
    if made is not None:
        yield made.word(text, len(text))


def known(text: str) -> str:
    """A word as far as it is known: a path behind a variable is taken from the root. "" where nothing is."""
    if UNKNOWN not in text:
        return text
    behind = text.rpartition(UNKNOWN)[2].lstrip(")}\"'")
    return behind.lstrip("/") if behind.startswith("/") else ""
