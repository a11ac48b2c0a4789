"""What the kinds that run a program share: the check they stand for, and a child whose output is the check's log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from touchgate.checks import CheckSpec, DeclarationFault, check_name
from touchgate.gate.dialect import literal_head
from touchgate.gate.listed import as_patterns, entries_of, is_pattern
from touchgate.gate.patterns import PatternList, list_faults

if TYPE_CHECKING:
    from touchgate.gate.model import CheckDeclaration, Lane

TAIL = 20
"""Lines of output that a report shows under a failure."""
LONGEST = 1 << 16
"""Bytes after which a line is taken as ended."""
GRACE = 2.0
"""Seconds that output may still come after the program's end; a process left in the background may hold the pipe."""

MOST_ENTRIES = 100_000
"""Files of a folder that is an input."""

FROM_OUTSIDE = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM})
"""Signals that say nothing about the program that they ended."""


def program_check(lane: Lane, declaration: CheckDeclaration, about: str) -> CheckSpec:
    """The check that runs a program: in a lane with a device on the GPU's host, under its lease, else anywhere."""
    minutes = declaration.options.get("timeout", lane.timeout)
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or minutes <= 0:
        raise DeclarationFault(f"`timeout` is a number of minutes above 0, not {minutes!r}")
    return CheckSpec(
        name=check_name(lane, declaration),
        lane=lane.name,
        kind=declaration.kind,
        about=about,
        target=declaration.target,
        options=declaration.options,
        places=("host",) if lane.device.kind == "any" else ("gpu",),
        suites=lane.suites,
        timeout=float(minutes) * 60,
        env=lane.env,
        where=str(declaration.at),
    )


def listed_paths(value: object, key: str) -> tuple[str, ...]:
    """An option that lists paths below the root, or patterns: as a list or, for one, a string. Raises `DeclarationFault`."""
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, (list, tuple)):
        raise DeclarationFault(f"`{key}` is a list of paths, not {value!r}")
    for entry in entries:
        if not isinstance(entry, str) or not entry:
            raise DeclarationFault(f"`{key}` is a list of paths; {entry!r} is none")
        if is_pattern(entry):
            continue
        path = PurePosixPath(entry)
        if path.is_absolute() or ".." in path.parts:
            raise DeclarationFault(f"`{key}`: {entry} is not below the repository's root; write it from there")
    if any(map(is_pattern, entries)):
        _refuse_faults(entries, key)
    return tuple(entry if is_pattern(entry) else str(PurePosixPath(entry)) for entry in entries)


def _refuse_faults(entries: Sequence[str], key: str) -> None:
    for _, fault in list_faults(as_patterns(entries)):
        raise DeclarationFault(f"`{key}` holds a pattern: {fault}")


def files_listed(root: Path, value: object) -> list[str]:
    """The files that an option like `inputs` stands for; patterns are those of `paths`, over all files that are there."""
    entries = listed_paths(value, "inputs")
    if not any(map(is_pattern, entries)):
        return files_below(root, entries)
    plain = [entry for entry in entries if not is_pattern(entry)]
    heads = [literal_head(entry) for entry in entries if is_pattern(entry) and not entry.startswith("!")]
    folders = dict.fromkeys([*plain, *(head.rpartition("/")[0] or "." for head in heads)])
    chosen = PatternList(as_patterns(entries))
    found = dict.fromkeys(files_below(root, list(folders)))
    # A folder that can't be listed stays, so that whoever reads it says so; an empty one that only patterns lead to does not.
    return [path for path in found if chosen.decides(path) is not None or _is_unlisted(root / path)]


def files_declared(lane: Lane, root: Path) -> list[str]:
    """The files that are in the keys of a lane's checks by their declarations alone, see `touchgate.gate.listed`."""
    found = []
    for check in lane.checks:
        entries = entries_of(check)
        found += files_listed(root, check.options.get("inputs", []))
        found += files_below(root, [entry.path for entry in entries if entry.is_whole])
        found += [entry.path for entry in entries if not entry.is_whole]
    return found


def _is_unlisted(path: Path) -> bool:
    try:
        return path.is_dir() and any(path.iterdir())
    except OSError:
        return True


def files_below(root: Path, paths: Sequence[str], suffix: str = "") -> list[str]:
    """The files that `paths` stand for: themselves, or for a folder all below it whose names end so.

    Hidden ones and those below a linked folder count; an empty folder stands for itself. Left out are `.git`, and the
    byte code in `__pycache__`, which running Python writes. A path that is missing stays: its absence is a state of its
    own. So does a folder that can't be read, or holds more than `MOST_ENTRIES`: whoever reads it will say so.
    """
    found: list[str] = []
    for path in paths:
        if (root / path).is_dir():
            below: list[str] = []
            whole = _walk(root / path, path, suffix, below, frozenset())
            found += sorted(below) if whole else [path]
        else:
            found.append(path)
    return found


def _walk(folder: Path, path: str, suffix: str, found: list[str], above: frozenset[tuple[int, int]]) -> bool:
    """Add the files below a folder to `found`; False where they can't all be listed."""
    try:
        seen = folder.stat()
        entries = [entry for entry in os.scandir(folder) if entry.name != ".git"]
        here = (seen.st_dev, seen.st_ino)
        if here in above:  # a link back up
            return True
        if not entries and not suffix:
            found.append(path)
        for entry in entries:
            inner = entry.name if path == "." else f"{path}/{entry.name}"
            if entry.is_dir():
                if not _walk(folder / entry.name, inner, suffix, found, above | {here}):
                    return False
            elif entry.name.endswith(suffix) and not (folder.name == "__pycache__" and entry.name.endswith(".pyc")):
                found.append(inner)
    except OSError:
        return False
    return len(found) <= MOST_ENTRIES


@dataclass(frozen=True)
class Ended:
    """How a program ended. status: as `subprocess` gives it, negative for a signal. tail: its last lines of output."""

    status: int
    tail: tuple[str, ...]
    matched: bool

    @property
    def signal(self) -> signal.Signals | None:
        """The signal that ended it, or that a shell says ended its last command (status 128 + n)."""
        number = -self.status if self.status < 0 else self.status - 128
        try:
            return signal.Signals(number)
        except ValueError:
            return None

    def words(self) -> str:
        """Its status or signal for a person."""
        if self.signal is None:
            return f"exit status {self.status}"
        return f"ended by {self.signal.name}" + (f" (exit status {self.status})" if self.status > 0 else "")


def run_logged(
    command: Sequence[str],
    *,
    cwd: Path,
    pass_fds: tuple[int, ...],
    expect: str | None = None,
    environ: Mapping[str, str] | None = None,
    hear: Callable[[str], None] | None = None,
) -> Ended:
    """Run a program, its output (both streams) into the check's log as it comes, and wait for its end.

    expect: a regular expression that is searched in each line of the output. environ: None for this process's. hear: is
    given each line, from another thread. Raises OSError where it can't be started.
    """
    reader = _Reader(re.compile(expect) if expect else None, hear)
    with subprocess.Popen(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=pass_fds,
        env=environ,
    ) as process:
        output = process.stdout
        if output is None:
            raise OSError("no pipe to the program")
        thread = threading.Thread(target=reader.read, args=(output,), daemon=True)
        thread.start()
        status = process.wait()
        thread.join(GRACE)
        if thread.is_alive():
            reader.left = True
            print("touchgate: a process that it left behind holds the output; the rest of it is not kept", flush=True)
            # Closing the pipe now would wait for the reader; the worker's end does it.
            process.stdout = None
    return Ended(status, tuple(reader.tail), reader.matched)


class _Reader:
    """Copies a pipe to the log, line by line, so that memory stays small however much comes."""

    def __init__(self, expected: re.Pattern[str] | None, hear: Callable[[str], None] | None) -> None:
        self.tail: deque[str] = deque(maxlen=TAIL)
        self.matched = expected is None
        self.left = False
        self._expected = expected
        self._hear = hear

    def read(self, pipe: BinaryIO) -> None:
        log: BinaryIO | None = sys.stdout.buffer
        while (line := pipe.readline(LONGEST)) and not self.left:
            if log is not None:
                try:
                    log.write(line)
                    log.flush()
                except OSError as error:
                    # Go on reading: the program would wait for room in the pipe.
                    log = None
                    line += f" (here the log ends: {error.strerror})".encode()
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            self.tail.append(text)
            if self._hear is not None:
                self._hear(text)
            if self._expected is not None and not self.matched:
                self.matched = self._expected.search(text) is not None
