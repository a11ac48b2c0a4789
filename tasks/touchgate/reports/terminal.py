"""What a person reads while a run goes on, and at its end.

With one worker on a pipe a check's name comes first, flushed, and the result behind it, so that a log that stops shows
where. With several that would tear lines apart, so each line is written whole when its check ends (`-v 2` adds one when
it starts). On a terminal the names of what runs are in the live line below, redrawn in place and gone at the end.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TextIO

from touchgate.outcome import Verdict
from touchgate.reports import progress, words
from touchgate.reports.model import CheckReport, LaneReport, RunReport, repeat
from touchgate.reports.style import (
    can_hold,
    cells,
    clip,
    encodable,
    pad,
    paint,
    printable,
    wants_colour,
    wants_redraw,
)

TICK = 0.25
"""Seconds between two drawings of the live line."""
NAME_WIDTH = 48
"""Names longer than this don't widen the column for all others."""
COLUMNS = 80
"""Of a terminal that does not say."""
DETAIL_LINES = 40
HINT = 60
"""Columns for the reason of a failure on its line."""
FACT_WIDTH = 200
MANY_NAMES = 30

STYLES = {
    "passed": ("green",),
    "FAILED": ("bold", "red"),
    "ERROR": ("bold", "red"),
    "TIMED OUT": ("bold", "red"),
    "unmeasured": ("yellow",),
    "cached": ("cyan",),
    "never reached": ("yellow",),
}


class Terminal:
    """Writes a run to `stream`; every method may be called from any thread.

    verbose: 1 lists untouched lanes and what a check's run measured. width: columns, None for the terminal's own,
    asked again at each drawing, so that a resize is followed. workers: how many checks run at once. A stream that is
    closed by its reader ends the output, not the run.
    """

    def __init__(
        self,
        stream: TextIO,
        environ: Mapping[str, str],
        *,
        verbose: int = 0,
        width: int | None = None,
        workers: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "ascii"
        self._verbose = verbose
        self._width = width
        self._workers = workers
        self._clock = clock
        self._colour = wants_colour(stream, environ)
        self._live = wants_redraw(stream, environ)
        self._names_first = workers == 1 and not self._live
        self._inert = bool(environ.get("GITHUB_ACTIONS"))
        self._symbols = progress.BLOCKS if can_hold("".join(progress.BLOCKS), self._encoding) else progress.ASCII
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._broken = False
        self._estimates: dict[str, float | None] = {}
        self._started: dict[str, float] = {}
        self._finished: set[str] = set()
        self._said: set[str] = set()
        self._wait: tuple[str, float, float | None] | None = None
        self._drawn = ""
        self._open = ""
        self._name_width = 0
        self._word_width = len("unmeasured")
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None

    # What stays.

    def header(self, report: RunReport, estimates: Mapping[str, float | None] | None = None) -> None:
        """What is judged, the lanes and why they run, the device. `report` needs no checks yet.

        estimates: every check that is to come, with the seconds that it took before: 0 where a stored result stands for
        it, None where that is not known. The column of names, the bar and the time left are made from it.
        """
        with self._lock:
            self._estimates = dict(estimates or {})
            self._name_width = max((self._column(name) for name in self._estimates), default=0)
            added = ["emulated"] if report.device.startswith("emulated") else []
            added += ["shadow"] if report.shadowed else []
            if added:
                self._word_width = len(f"passed ({', '.join(added)})")
            self._lines(self._judged(report) + self._lanes(report) + self._hosts(report))

    def waiting(self, text: str) -> None:
        """Who holds what this run waits for. Said once."""
        self._once(f"waiting for {text}" if not text.startswith("waiting") else text, "yellow")

    def place(self, words: str, seconds: float | None) -> None:
        """The place in the queue for the live line, and the seconds until it is served, if known; "" ends the wait."""
        with self._lock:
            now = self._clock()
            since = self._wait[1] if self._wait else now
            self._wait = (words, since, None if seconds is None else now + seconds) if words else None
            if self._live and self._alive:
                self._draw()
                self._tick()
            elif self._drawn:
                self._write("\r\x1b[K")
                self._drawn = ""

    def note(self, text: str) -> None:
        """Something that a person should know. Said once, and not again in the summary."""
        self._once(f"note: {text}", "yellow")

    def start(self, name: str) -> None:
        """A check begins."""
        with self._lock:
            self._started[name] = self._clock()
            if self._live:
                self._draw()
                self._tick()
            elif self._names_first:
                self._close_line()
                self._write(self._guard(self._name_cell(name, ".")))
                self._open = name
            elif self._verbose:
                self._lines([f"   {pad(printable(name), self._name_width)}   started"])

    def finish(self, check: CheckReport) -> None:
        """A check has ended, or an earlier result stands for it."""
        with self._lock:
            self._started.pop(check.name, None)
            self._finished.add(check.name)
            rest = self._result(check)
            if self._open == check.name and self._open:
                self._open = ""
                self._write(rest + "\n")
                self._lines(self._facts(check))
            else:
                self._lines([self._name_cell(check.name, "--" if check.reused else ".") + rest, *self._facts(check)])

    def summary(self, report: RunReport) -> None:
        """Failures once, what was not measured, targets missed, notes, and the line that says what the run came to."""
        with self._lock:
            self.close()
            lines: list[str] = []
            for check in report.checks:
                if check.broken:
                    lines += ["", *self._failure(check, report)]
            for one in report.false_skips:
                title, *why = words.false_skip(one, report)
                lines += ["", self._paint(printable(title), "bold", "red"), *(f"   {printable(line)}" for line in why)]
            rest = self._unmeasured(report) + self._missed(report)
            rest += [self._paint(f"note: {printable(note)}", "yellow") for note in report.notes if note not in self._said]
            if lines or (rest and report.checks):
                lines.append("")
            style = "green" if report.exit == 0 else "red"
            lines += [*rest, self._paint(printable(words.last_line(report)), "bold", style)]
            self._lines(lines)

    def close(self) -> None:
        """Wipe the live line and stop redrawing. `summary` does it; call it where there is none."""
        with self._lock:
            self._ended.set()
            self._close_line()
            self._wait = None
            if self._drawn:
                self._write("\r\x1b[K")
                self._drawn = ""
            self._live = False
        ticker = self._ticker
        if ticker is not None and ticker is not threading.current_thread():
            self._ticker = None

    # The parts of it.

    def _judged(self, report: RunReport) -> list[str]:
        commits = (("base", report.base), ("head", report.head), ("merge base", report.merge_base))
        line = "  ".join(f"{name} {printable(words.short(commit))}" for name, commit in commits)
        if report.open_reason is None:
            line += f"  {words.plural(report.touched, 'path')} touched"
        known = words.known_from(report)
        lines = [self._paint(line, "bold"), *([f"   {printable(known)}"] if known else [])]
        if report.open_reason is not None:
            lines.append(self._paint(f"EVERYTHING RUNS: {printable(report.open_reason)}", "bold", "yellow"))
        elif report.due:
            lines.append(f"everything is due: {printable(report.due)}")
        return lines

    def _lanes(self, report: RunReport) -> list[str]:
        listed = report.lanes if self._verbose else report.running
        column = max((self._column(lane.name) for lane in listed), default=0)
        lines = [self._lane(lane, column) for lane in listed if lane.runs and (self._verbose or lane.path is not None)]
        if not self._verbose:
            # What runs for no path of its own runs for a reason that many lanes share: say it once.
            for reason, names in words.by_reason(lane for lane in report.running if lane.path is None).items():
                verb = "runs" if len(names) == 1 else "run"
                said = "" if reason in (report.due, report.open_reason) else f": {reason}"
                lines.append(printable(f"{words.plural(len(names), 'lane')} {verb}{said} ({words.some(names)})"))
        untouched = [lane for lane in report.untouched if not lane.set_aside]
        if report.shadowed and not self._verbose:
            shadowed = words.some([lane.name for lane in report.shadowed])
            are = f"{words.plural(len(report.shadowed), 'lane')} untouched, and run all the same to test that (shadow)"
            lines.append(f"{are}: {printable(shadowed)}")
        if not self._verbose:
            aside = [lane for lane in report.untouched if lane.set_aside]
            for reason, names in words.by_reason(
                lane._replace(reason=lane.reason.partition(";")[0]) for lane in aside
            ).items():
                lines.append(printable(f"{words.plural(len(names), 'lane')} {reason}: {words.some(names)}"))
        if not untouched and not (self._verbose and report.shadowed):
            return lines
        head = f"{words.plural(len(untouched), 'lane')} untouched"
        if self._verbose:
            return [*lines, *(self._lane(lane, column) for lane in (*report.shadowed, *report.untouched))]
        if len(untouched) <= words.FEW:
            return [*lines, f"{head}: {', '.join(printable(lane.name) for lane in untouched)}"]
        return [*lines, f"{head} (-v 2 lists them)"]

    def _lane(self, lane: LaneReport, column: int) -> str:
        idle = "shadow" if lane.shadow else "not run" if lane.set_aside else "untouched"
        word = ("affected" if lane.path is not None else "runs") if lane.runs else idle
        parts = [
            pad(printable(lane.name), column),
            pad(word, len("untouched")),
            printable(lane.reason),
            # A reason that names its pattern names the place too.
            "" if lane.where in lane.reason else printable(lane.where),
        ]
        line = "   ".join(part for part in parts if part).rstrip()
        return line if lane.runs or lane.shadow else self._paint(line, "dim")

    def _hosts(self, report: RunReport) -> list[str]:
        if not report.running and not report.shadowed:
            return []
        pairs = (("device", report.device), ("lease", report.lease), ("reservation", report.reservation))
        return [f"{name}   {printable(value)}" for name, value in pairs if value]

    def _name_cell(self, name: str, prefix: str) -> str:
        return f"{prefix:<3}{pad(printable(name), self._name_width)}   "

    def _result(self, check: CheckReport) -> str:
        word = check.word
        seconds = "" if check.reused or check.seconds is None or check.verdict is Verdict.UNMEASURED else check.seconds
        took = seconds if isinstance(seconds, str) else words.duration(seconds)
        styled = self._paint(word, *STYLES[word.partition(" (")[0]]) + " " * (self._word_width - cells(word))
        remark = words.remark(check)
        if check.broken and check.detail:
            remark = clip(remark, HINT)  # whole in the summary
        tail = f"   {took:>6}   {printable(remark)}".rstrip()
        return (styled + tail) if tail else styled.rstrip()

    def _facts(self, check: CheckReport) -> list[str]:
        if not self._verbose:
            return []
        facts = sorted(check.facts.items())
        texts = [f"{key}: {json.dumps(value, ensure_ascii=False, default=str)}" for key, value in facts]
        return [self._paint(f"     {clip(printable(text), FACT_WIDTH)}", "dim") for text in texts]

    def _failure(self, check: CheckReport, report: RunReport) -> list[str]:
        why = words.remark(check)
        if any(line and line in why for line in check.detail):
            # The detail says it, and the line above did.
            why = ""
        title = (
            self._paint(check.word, *STYLES[check.word.partition(" (")[0]])
            + f"  {printable(check.name)}"
            + (f"   {printable(why)}" if why else "")
        )
        lines = [title, *(f"   | {printable(line)}" for line in check.detail[:DETAIL_LINES])]
        if len(check.detail) > DETAIL_LINES:
            lines.append(f"   | and {words.plural(len(check.detail) - DETAIL_LINES, 'line')} more")
        if check.where:
            lines.append(f"   declared: {printable(check.where)}")
        if check.log:
            lines.append(f"   log: {printable(check.log)}")
        if check.withheld:
            lines.append(f"   variables it was not given (`env:` of its lane gives them): {_some(check.withheld)}")
        lines.append(f"   repeat: {printable(repeat(check.name, report.suite))}")
        return lines

    def _unmeasured(self, report: RunReport) -> list[str]:
        lines = []
        groups = words.by_reason(check for check in report.checks if check.verdict is Verdict.UNMEASURED)
        for reason, names in groups.items():
            lines.append(self._paint("unmeasured", "yellow") + f": {_some(names)}: {printable(reason)}")
        missed = [check.name for check in report.checks if check.verdict is None]
        if missed:
            lines.append(self._paint("never reached", "yellow") + f": {_some(missed)}")
        return lines

    def _missed(self, report: RunReport) -> list[str]:
        return [self._paint(printable(words.over_target(lane)), "yellow") for lane in report.lanes if lane.over_target]

    def _column(self, name: str) -> int:
        return min(NAME_WIDTH, cells(printable(name)))

    def _paint(self, text: str, *styles: str) -> str:
        return paint(text, *styles) if self._colour else text

    # The one place that writes.

    def _once(self, text: str, style: str) -> None:
        with self._lock:
            said = text.removeprefix("note: ")
            if said not in self._said:
                self._said.add(said)
                self._lines([self._paint(printable(text), style)])

    def _lines(self, lines: Iterable[str]) -> None:
        """Lines that stay, above the live line."""
        text = "".join(f"{self._guard(line)}\n" for line in lines)
        if not text:
            return
        self._close_line()
        wipe = "\r\x1b[K" if self._drawn else ""
        self._drawn = ""
        self._write(wipe + text + (self._live_text() if self._live and self._alive else ""))

    def _guard(self, line: str) -> str:
        """In a job of GitHub's kind, keep a line that a check or a file's name made from being read as a command."""
        if not self._inert:
            return line
        line = line.replace("##[", "# #[")
        return f"' {line}" if line.lstrip().startswith("::") else line

    def _close_line(self) -> None:
        if self._open:
            self._open = ""
            self._write("\n")

    def _draw(self) -> None:
        before = self._drawn
        text = self._live_text()
        if self._drawn != before:
            self._write("\r\x1b[K" + text)

    @property
    def _alive(self) -> bool:
        """Whether the live line has anything to say."""
        return bool(self._started) or self._wait is not None

    def _live_text(self) -> str:
        now = self._clock()
        running = {name: now - since for name, since in self._started.items()}
        if self._wait is not None:
            words, since, until = self._wait
            left = None if until is None else max(0.0, until - now)
            line = progress.waiting_line(
                waited=now - since, words=words, left=left, running=running, width=self._columns() - 1
            )
            self._drawn = encodable(line, self._encoding)
            return self._drawn
        line = progress.live_line(
            done=len(self._finished),
            total=len(self._estimates.keys() | self._finished | running.keys()) if self._estimates else 0,
            running=running,
            left=progress.time_left(self._estimates, self._finished, running, self._workers),
            # The last column stays free: some terminals wrap as soon as it is filled.
            width=self._columns() - 1,
            symbols=self._symbols,
        )
        self._drawn = encodable(line, self._encoding)
        return self._drawn

    def _columns(self) -> int:
        if self._width is not None:
            return max(2, self._width)
        try:
            return max(2, os.get_terminal_size(self._stream.fileno()).columns or COLUMNS)
        except (OSError, ValueError):
            return COLUMNS

    def _tick(self) -> None:
        if self._ticker is None and not self._ended.is_set():
            self._ticker = threading.Thread(target=self._keep_drawing, name="touchgate-terminal", daemon=True)
            self._ticker.start()

    def _keep_drawing(self) -> None:
        while not self._ended.wait(TICK):
            with self._lock:
                if self._live and self._alive:
                    self._draw()

    def _write(self, text: str) -> None:
        # A forked child has a copy of this object, and of a lock in an unknown state; the terminal is its parent's.
        if self._broken or os.getpid() != self._pid:
            return
        try:
            self._stream.write(encodable(text, self._encoding))
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._broken = True
            _give_up(self._stream, error)


def _some(names: Iterable[str]) -> str:
    listed = [printable(name) for name in names]
    more = len(listed) - MANY_NAMES
    return ", ".join(listed[:MANY_NAMES]) + (f" and {more} more" if more > 0 else "")


def _give_up(stream: TextIO, error: Exception) -> None:
    """Keep the interpreter's own last flush from failing too; say what happened unless the reader just went away."""
    if not isinstance(error, OSError):
        return
    with suppress(OSError, ValueError):  # a stream without a descriptor has nothing to redirect
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    if error.errno not in (errno.EPIPE, errno.EIO):
        print(f"touchgate: the output ends here: {error.strerror}", file=sys.stderr)
