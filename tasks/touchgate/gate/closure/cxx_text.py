"""The text of a C, C++ or CUDA file after the first phases of translation, and the way back to what is written.

A backslash at a line's end joins two lines, also within a word; trigraphs stand for one character. Neither counts within a
raw string. What compilers do not agree about (trigraphs, a lone carriage return as a line's end) is read in every way.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPLICE = re.compile(r"\\[ \t\f\v]*\n")
_SPLICE_OR_TRIGRAPH = re.compile(r"(?:\\|\?\?/)[ \t\f\v]*\n|\?\?[=/'()!<>-]")
_TRIGRAPHS = dict(zip("=/'()!<>-", "#\\^[]|{}~", strict=True))
_TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]")
_LONE_RETURN = re.compile(r"\r(?!\n)")
_RAW_END = re.compile(r'\)(?=[^()\\\s"]{0,16}")')
_LONGEST_FENCE = 16
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def decoded(content: bytes) -> Iterator[str]:
    """The text in each encoding that a compiler may read it in: UTF-8, or UTF-16 as its first bytes say."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            yield content[len(mark) :].decode(name, "surrogateescape" if name == "utf-8" else "replace")
            return
    yield content.decode("utf-8", "surrogateescape")
    first = content[:2]
    if len(first) > 1 and (first[0] == 0) != (first[1] == 0):
        yield content.decode("utf-16-be" if first[0] == 0 else "utf-16-le", "replace")


def readings(text: str) -> Iterator[Joined]:
    """The text as compilers may read it, the most usual way first."""
    text = text.replace("\r\n", "\n")
    for ends in (text, _LONE_RETURN.sub("\n", text)) if "\r" in text else (text,):
        yield Joined(ends, _SPLICE)
        if _TRIGRAPH.search(ends):
            yield Joined(ends, _SPLICE_OR_TRIGRAPH)


class Joined:
    """A text whose lines are joined. text: the result; written: what it was made of."""

    def __init__(self, written: str, joints: re.Pattern[str]) -> None:
        self.written = written
        self._at = [0]
        """Places in `text`, ascending, where what follows lies elsewhere in `written`: at `_from`."""
        self._from = [0]
        self._ends: list[int] | None = None
        self._raw_ends: dict[str, list[int]] | None = None
        pieces = []
        done = length = 0
        for joint in joints.finditer(written):
            piece = written[done : joint.start()] + _TRIGRAPHS.get(joint[0][2:], "")
            pieces.append(piece)
            length += len(piece)
            done = joint.end()
            self._at.append(length)
            self._from.append(done)
        pieces.append(written[done:])
        self.text = "".join(pieces)

    def line(self, at: int) -> int:
        """The line, from 1, of a place in `text`."""
        if self._ends is None:
            self._ends = [match.start() for match in re.finditer("\n", self.written)]
        return 1 + bisect_left(self._ends, self._place(at))

    def end_of_raw(self, fence: str, start: int) -> int:
        """Where the raw string ends whose body begins at a place of `text`; -1 for nowhere.

        All ends of all raw strings are looked for once: a text with many beginnings has to be read in one go, too.
        """
        if self._raw_ends is None:
            self._raw_ends = {}
            for match in _RAW_END.finditer(self.written):
                place = match.end()
                for end in range(place, min(place + _LONGEST_FENCE + 1, len(self.written))):
                    if self.written[end] in "()\\ \t\n\f\v":
                        break
                    if self.written[end] == '"':
                        self._raw_ends.setdefault(self.written[place:end], []).append(end + 1)
        ends = self._raw_ends.get(fence, [])
        first = bisect_left(ends, self._place(start) + len(fence) + 2)
        return self._back(ends[first]) if first < len(ends) else -1

    def lines_between(self, start: int, end: int) -> bool:
        """Whether a line ends, as written, between two places of `text`."""
        return self.written.find("\n", self._place(start), self._place(end)) >= 0

    def _place(self, at: int) -> int:
        """The place in `written` of one in `text`."""
        index = bisect_right(self._at, at) - 1
        return self._from[index] + at - self._at[index]

    def _back(self, place: int) -> int:
        """The place in `text` of one in `written`, which lies in no joint."""
        index = bisect_right(self._from, place) - 1
        return self._at[index] + place - self._from[index]
