"""Reads what compute-sanitizer wrote: the faults with kernel, line and thread, the totals, and all that is neither.

Pure: text in, `Report` out. A fault is a line that begins behind the prefix, and the indented lines under it. What is
not understood is kept, so that a report which says more than "0 errors" never counts as clean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

PREFIX = "========="
HEADER = "COMPUTE-SANITIZER"

_FAULT = re.compile(
    r"""(?P<memory>(?:Potential\ )?[Ii]nvalid\ __\w+__\ .+ | Misaligned\ .+ | Stack\ overflow.* | Malloc/Free\ error.*
                  | Leaked\ .+)
      | (?P<race>(?:(?:Error|ERROR|Warning|WARNING|WARN|Info|INFO):\s*)
                 (?:\(.+?\)\s*)? (?:Race\ reported\ between\ .+ | Potential\ \w+\ hazard\ detected\ .+))
      | (?P<init>Uninitialized\ __\w+__\ memory\ .+ | Host\ API\ memory\ access\ error\ .+)
      | (?P<sync>.*\berror\ detected\.\ .+ | (?:Barrier|Syncwarp)\ called\ by\ .+ | Deadlock\ detected\ .+)
      | (?P<api>Program\ hit\ .+\ on\ CUDA\ API\ call\b.*)""",
    re.VERBOSE,
)
_TRIPLE = r"\(\s*(\d+),\s*(\d+),\s*(\d+)\s*\)"
_THREAD = re.compile(rf"\b[Tt]hreads? (?:starting at )?{_TRIPLE}")
_BLOCK = re.compile(rf"\bin block {_TRIPLE}")
_PLACE = re.compile(
    # function+0x70 in file.cu:12 and, of releases before 2023, 0x70 in file.cu:12:function
    r"\bat (?:0x[0-9a-f]+ in (?P<old_file>[^:]+):(?P<old_line>\d+):(?P<old>.+?)"
    r"|0x[0-9a-f]+ in (?P<bare>.+?)"
    r"|(?P<new>.+?)[+:]0x[0-9a-f]+(?: in (?P<file>.+?):(?P<line>\d+))?)"
    r"(?: \[(?P<hazards>[\d,]+) hazards?\])?$"
)
_FRAME = re.compile(
    r"Device Frame:\s*(?:(?P<new>.+?)\+0x[0-9a-f]+(?: in (?P<file>.+?):(?P<line>\d+))?"
    r"|(?P<old_file>[^:\[]+):(?P<old_line>\d+):(?P<old>.+?))(?: \[0x[0-9a-f]+\])?$"
)
_BAD_ADDRESS = re.compile(r"\bis (out of bounds|misaligned)")
_TOTAL = re.compile(r"ERROR SUMMARY: ([\d,]+) (?:errors|(?<= 1 )error)$")
_RACES = re.compile(r"RACECHECK SUMMARY: ([\d,]+) hazards? displayed \(([\d,]+) errors?, ([\d,]+) warnings?\)$")
_MORE = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: [\d,]+ (?:errors|hazards) were (?:not printed|skipped)\b.*")


@dataclass(frozen=True)
class Place:
    """Where in a source. file: as the tool writes it, "" where it knows none; line: 0 then."""

    function: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "no line known"


@dataclass(frozen=True)
class Finding:
    """A fault, `count` times. kind: "memory", "race", "init", "sync" or "api". what: the tool's first line of it.

    kernel: the outermost device function, "" where none is named. place: of the instruction; other: a race's second one.
    thread, block: of the first occurrence, "(1,0,0)". more: what else the tool says of that.
    """

    kind: str
    what: str
    kernel: str = ""
    place: Place = Place()
    other: Place | None = None
    thread: str = ""
    block: str = ""
    count: int = 1
    more: tuple[str, ...] = ()

    def line(self) -> str:
        """For a person."""
        where = f"{self.kernel or 'no kernel named'}, {self.place}"
        if self.other is not None:
            where += f" and {self.other}"
        who = ", ".join(f"{name} {at}" for name, at in (("thread", self.thread), ("block", self.block)) if at)
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        return f"{self.what}: {where}{f', {who}' if who else ''}{times}"


@dataclass(frozen=True)
class Report:
    """headed: whether the tool began at all. total: the faults that it counted, None where its last line is missing.

    notices: lines that are no fault and no part of a clean report.
    """

    headed: bool
    findings: tuple[Finding, ...]
    total: int | None
    notices: tuple[str, ...]


def read(text: str) -> Report:
    """What a report says. Findings in the order of the first occurrence, equal ones folded."""
    findings: list[Finding] = []
    notices: list[str] = []
    totals: list[int] = []
    headed = False
    for head, *under in _records(text, notices):
        if head == HEADER:
            headed = True
            notices += under
        elif total := _TOTAL.match(head) or _RACES.match(head):
            totals.append(_number(total[1]))
            notices += under
        elif _MORE.match(head):
            continue
        elif fault := _FAULT.match(head):
            findings += _findings(str(fault.lastgroup), head, under)
        else:
            notices += [head, *under]
    return Report(headed, _folded(findings), sum(totals) if totals else None, tuple(notices))


def _records(text: str, stray: list[str]) -> Iterator[list[str]]:
    """The lines behind the prefix, each with the indented ones that follow it. stray: gets the lines without a prefix."""
    record: list[str] = []
    for raw in text.splitlines():
        line = raw.strip()
        if not line.startswith(PREFIX):
            if line:
                stray.append(line)
            continue
        said = line[len(PREFIX) :]
        words = said.strip()
        if record and not (words and said.startswith("    ")):
            yield record
            record = []
        if words:
            record.append(words)
    if record:
        yield record


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def _findings(kind: str, head: str, under: list[str]) -> Iterable[Finding]:
    """One record's faults: a race between an access and several others is several."""
    places = [one for line in (head, *under) if (one := _place(line)) is not None]
    # The innermost function stands first, the kernel last.
    frames = [_placed(match) for line in under if (match := _FRAME.search(line))]
    first = places[0][0] if places else frames[0] if frames else Place()
    kernel = _name((frames[-1] if frames else first).function)
    thread, block = _first(_THREAD, [*under, head]), _first(_BLOCK, [*under, head])
    more = tuple(line for line in under if "Device Frame" not in line and not line.startswith(("at ", "by thread")))
    what = re.split(r" (?:between|at|called by) ", re.sub(r"^\w+:\s*", "", head) if kind == "race" else head)[0].rstrip(" .:")
    bad = next((match[1] for line in under if (match := _BAD_ADDRESS.search(line))), "")
    finding = Finding(kind, f"{what}, {bad}" if bad else what, kernel, first, None, thread, block, 1, more)
    if kind != "race":
        return [finding]
    if "between" in head:
        what = (
            "race between " + " and ".join(re.findall(r"\b(Read|Write|Atomic) access", " ".join([head, *under]))[:2]).lower()
        )
    pairs = [replace(finding, what=what, other=place, count=hazards, more=()) for place, hazards in places[1:]]
    return pairs or [finding]


def _place(line: str) -> tuple[Place, int] | None:
    """Where a line says that an instruction stands, and the number of hazards behind it (1 where there is none)."""
    match = None if "Frame:" in line else _PLACE.search(line)
    if match is None:
        return None
    return _placed(match), _number(match["hazards"]) if match["hazards"] else 1


def _placed(match: re.Match[str]) -> Place:
    found = match.groupdict()
    file, line = found.get("file") or found.get("old_file") or "", found.get("line") or found.get("old_line") or "0"
    return Place(found.get("new") or found.get("old") or found.get("bare") or "", file, int(line))


def _name(function: str) -> str:
    """A function's name without return type, arguments and template arguments."""
    plain = re.sub(r"\[clone [^\]]*\]\s*", "", function)
    return re.split(r"[(<]", plain)[0].split(" ")[-1].strip()


def _first(pattern: re.Pattern[str], lines: Iterable[str]) -> str:
    for line in lines:
        match = pattern.search(line)
        if match is not None:
            return f"({match[1]},{match[2]},{match[3]})"
    return ""


def _folded(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Equal faults as one, counted. Of a race, single hazards and the tool's own analysis of them are one fault."""
    found: dict[object, Finding] = {}
    analysed: dict[object, int] = {}
    for one in findings:
        places = frozenset((one.place, one.other or one.place)) if one.kind == "race" else one.place
        key = one.kind, one.kernel, places, "" if one.kind == "race" else one.what
        is_analysis = one.kind == "race" and one.what.startswith("race between")
        if is_analysis:
            analysed[key] = analysed.get(key, 0) + one.count
        former = found.get(key)
        if former is None:
            found[key] = replace(one, count=0 if is_analysis else one.count)
        elif not is_analysis:
            # A single hazard names thread and block, the analysis doesn't.
            found[key] = (
                replace(one, count=former.count + one.count)
                if not former.thread
                else replace(former, count=former.count + one.count)
            )
    return tuple(replace(one, count=max(one.count, analysed.get(key, 0))) for key, one in found.items())
