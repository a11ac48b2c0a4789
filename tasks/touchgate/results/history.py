"""What became of every lane in every run of a checkout: a file that only grows, one line of JSON for each run.

history.jsonl lies beside the last run in `repositories/<digest>/`. A line is appended by one write, so runs at the same
time do not mix theirs. A full file becomes history.1.jsonl, in place of an earlier one: two files at most.
"""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SCHEMA = 1
NAME = "history.jsonl"
OLDER = "history.1.jsonl"
LARGEST = 4 << 20
"""Bytes of one file."""

AGREED, FALSE_SKIP, UNMEASURED = "agreed", "false skip", "unmeasured"
REASONS = ("touched", "open", "due", "all", "named")


class HistoryFault(Exception):
    """A run can't be added to the history: what and where, one line."""


class Shadowed(NamedTuple):
    """A lane that was skipped and run all the same. verdict: AGREED, FALSE_SKIP or UNMEASURED."""

    seconds: float
    verdict: str


class Run(NamedTuple):
    """One run. when: seconds since 1970. why: one of REASONS. ran: seconds by lane; reused: answered by stored results."""

    when: int
    head: str | None
    suite: str
    exit: int
    seconds: float
    why: str
    ran: Mapping[str, float]
    reused: tuple[str, ...]
    skipped: tuple[str, ...]
    shadow: Mapping[str, Shadowed]


def append(folder: Path, run: Run) -> None:
    """Add a run to the history in `folder`, which is there. Raises HistoryFault."""
    path = folder / NAME
    try:
        if _append(path, _line(run)) > LARGEST:
            path.replace(folder / OLDER)
    except OSError as fault:
        raise HistoryFault(f"{path} can't be written: {fault.strerror}") from fault


def _line(run: Run) -> bytes:
    data = {
        "schema": SCHEMA,
        "when": run.when,
        "head": run.head,
        "suite": run.suite,
        "exit": run.exit,
        "seconds": round(run.seconds, 3),
        "why": run.why,
        "ran": {name: round(seconds, 3) for name, seconds in run.ran.items()},
        "reused": run.reused,
        "skipped": run.skipped,
        "shadow": {name: {"seconds": round(one.seconds, 3), "verdict": one.verdict} for name, one in run.shadow.items()},
    }
    return json.dumps(data, separators=(",", ":")).encode("ascii") + b"\n"


def _append(path: Path, line: bytes) -> int:
    """One write at the end; returns the file's size. A line that an earlier write left unfinished is ended first."""
    # Not to wait for a reader should it be a pipe, and not to follow a link that somebody put there.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(0, "not a file")
        if seen.st_size and os.pread(descriptor, 1, seen.st_size - 1) != b"\n":
            line = b"\n" + line
        written = os.write(descriptor, line)
        if written < len(line):
            raise OSError(0, "the disk is full")
        return seen.st_size + written
    finally:
        os.close(descriptor)


def read(folder: Path) -> tuple[list[Run], int]:
    """The runs in the history, the oldest first, and how many lines can't be read. Raises HistoryFault."""
    runs, lost = [], 0
    for line in _lines(folder):
        try:
            runs.append(_run(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            lost += 1
    return sorted(runs, key=lambda run: run.when), lost


def _lines(folder: Path) -> Iterator[bytes]:
    for name in (OLDER, NAME):
        path = folder / name
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise HistoryFault(f"{path} is not a file")
            with path.open("rb") as file:
                # A line without end is one that is being written, or was cut off.
                yield from (line for line in file.read(2 * LARGEST).split(b"\n") if line.strip())
        except FileNotFoundError:
            continue
        except OSError as fault:
            raise HistoryFault(f"{path} can't be read: {fault.strerror}") from fault


def _run(data: dict[str, Any]) -> Run:
    """A run out of its line. Raises ValueError, KeyError, TypeError or AttributeError for what is none."""
    if data["schema"] != SCHEMA:
        raise ValueError("another version's")
    shadow = {_text(name): Shadowed(_number(one["seconds"]), _text(one["verdict"])) for name, one in data["shadow"].items()}
    head = data["head"]
    return Run(
        when=int(_number(data["when"])),
        head=None if head is None else _text(head),
        suite=_text(data["suite"]),
        exit=int(_number(data["exit"])),
        seconds=_number(data["seconds"]),
        why=_text(data["why"]),
        ran={_text(name): _number(seconds) for name, seconds in data["ran"].items()},
        reused=tuple(map(_text, data["reused"])),
        skipped=tuple(map(_text, data["skipped"])),
        shadow=shadow,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e11:  # noqa: PLR2004
        raise ValueError("not a number of ours")
    return value
