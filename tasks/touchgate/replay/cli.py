"""`touchgate replay`: the last merges once more, and where another gate disagrees.

Exit codes: 0 played, whatever was found; 2 the other gate never answered; 3 bad usage, or nothing to play.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from touchgate.gate.asked import Asked, UsageFault
from touchgate.gate.git import GitFault, Repository, find_bare, find_root
from touchgate.gate.model import SUITES
from touchgate.replay import history as history_of
from touchgate.replay import telling
from touchgate.replay.comparing import Pair
from touchgate.replay.judging import Played, play
from touchgate.replay.theirs import Gate, way_to_answer
from touchgate.reports.style import encodable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

PLAYED, NO_ANSWER, USAGE = 0, 2, 3
LAST = 50
MOST = 100_000


@dataclass(frozen=True)
class Wish:
    """The command line. timeout: seconds."""

    asked: Asked
    last: int
    gate: Gate | None
    branch: str | None
    commits: bool
    today: bool


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; returns the exit code."""
    try:
        wish = _wish(list(sys.argv[1:] if argv is None else argv))
        found = replay(wish, _here(), environ)
    except (UsageFault, GitFault, history_of.NoHistory) as fault:
        print(f"touchgate replay: {fault}", file=sys.stderr)
        return USAGE
    if wish.asked.as_json:
        print(json.dumps(telling.as_data(found), indent=1))
    else:
        print(encodable("\n".join(telling.in_words(found)), sys.stdout.encoding))
    sys.stdout.flush()
    return NO_ANSWER if wish.gate and telling.is_lost(found.pairs) else PLAYED


def replay(wish: Wish, start: Path, environ: Mapping[str, str]) -> telling.Replay:
    """Play. Raises UsageFault, GitFault and NoHistory."""
    root = find_root(start)
    if root is None and (bare := find_bare(start)):
        raise UsageFault(f"{bare} is a bare repository; a replay needs a checkout, such as `git clone {bare}` makes")
    if root is None:
        raise UsageFault(f"{start} is not inside a git repository; `touchgate replay` plays the merges of one")
    with Repository(root, environ) as repo:
        history = history_of.read(repo, wish.last, branch=wish.branch, commits=wish.commits)
        today, notes = wish.today, []
        played = [play(repo, merge, wish.asked, start, today=today) for merge in history.merges]
        if not today and all(one.nothing for one in played):
            today = True
            notes.append(f"none of them could be decided by what it declared itself ({played[0].nothing})")
            played = [play(repo, merge, wish.asked, start, today=True) for merge in history.merges]
        if today and all(one.nothing for one in played):
            raise UsageFault(f"neither the checkout nor these changes declare anything to decide: {played[0].nothing}")
        missing = sum(bool(one.nothing) for one in played)
        if missing and not today:
            notes.append(f"{missing} of {len(played)} declared nothing to decide; --lanes-now judges all by today's lanes")
        notes += list(dict.fromkeys(note.removeprefix("note: ") for one in played for note in one.notes))
    pairs = tuple(_against(wish, played, root, environ))
    return telling.Replay(
        history,
        pairs,
        wish.asked.suite,
        workflow=wish.asked.workflow,
        command=wish.gate.command if wish.gate else None,
        today=today,
        notes=tuple(notes),
    )


def _against(wish: Wish, played: Sequence[Played], root: Path, environ: Mapping[str, str]) -> list[Pair]:
    """Each change with the other gate's answer, where there is one."""
    if wish.gate is None:
        return [Pair(one) for one in played]
    pairs = []
    with _ended_by_signals():
        for at, one in enumerate(played):
            if sys.stderr.isatty():
                print(f"\r\x1b[Kasking their gate, {at + 1} of {len(played)}", end="", file=sys.stderr, flush=True)
            known = [decision.lane for decision in one.decisions]
            pairs.append(Pair(one, wish.gate.ask(root, one.merge.base, one.merge.head, known, environ)))
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return pairs


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end us as SIGINT does, so that the other gate does not outlive us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:  # noqa: ARG001  the handler's signature
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageFault(f"the current folder is gone: {error.strerror}") from error


# ---- the command line


_ABOUT = """\
Play the last merges once more: what the gate would have run for each, how long the decision took, and where another gate says
otherwise, false skips first. It reads commits and writes nothing."""
_MORE = """\
Exit codes:
  0  played, whatever was found
  2  CMD never answered
  3  bad usage, or nothing to play

Examples:
  touchgate replay --last 20
  touchgate replay --last 20 --lanes-now           by the lanes of the checkout, before they are committed
  touchgate replay --against 'ci/gate.sh' --answer exit    beside the gate in use

More: docs/replay.md."""


def _parser() -> argparse.ArgumentParser:
    import argparse  # noqa: PLC0415 (named here so that the class below can fail our way)

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageFault(f"{message}\n{self.format_usage().rstrip()}")

    parser = Parser(
        prog="touchgate replay",
        usage="touchgate replay [WORKFLOW] [--last N] [--against CMD [--answer HOW] [--timeout SECONDS]] [--lanes-now]\n"
        "                        [--branch REV] [--commits] [--lane NAME]... [--suite SUITE] [--json]",
        description=_ABOUT,
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("workflow", nargs="?", metavar="WORKFLOW", help="judge by this workflow's own path list")
    parser.add_argument("--last", type=int, default=LAST, metavar="N", help="so many changes [default: %(default)s]")
    parser.add_argument("--against", metavar="CMD", help="the other gate: a shell command, called with BASE and HEAD")
    parser.add_argument(
        "--answer",
        metavar="HOW",
        help="how it answers: stdout (true, false, or the lanes), exit (0 runs, 1 skips), or output:NAME, the value of NAME "
        "in $GITHUB_OUTPUT [default: stdout]",
    )
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for each answer [default: 60]")
    parser.add_argument("--branch", metavar="REV", help="whose merges [default: the default branch]")
    parser.add_argument("--commits", action="store_true", help="play every commit along first parents, not merges only")
    parser.add_argument("--lanes-now", action="store_true", help="judge by the lanes of the checkout, not of each change")
    parser.add_argument("--lane", action="append", default=[], metavar="NAME", help="this lane only (repeatable)")
    parser.add_argument("--suite", choices=SUITES, default=SUITES[0], help="default: smoke")
    parser.add_argument("--json", action="store_true", help="print JSON, for a program")
    return parser


def _wish(words: list[str]) -> Wish:
    given = _parser().parse_intermixed_args(words)
    if not 1 <= given.last <= MOST:
        raise UsageFault(f"--last {given.last}: it is a number from 1 to {MOST}")
    for option, value in (("--answer", given.answer), ("--timeout", given.timeout)):
        if value is not None and given.against is None:
            raise UsageFault(f"{option} is about the gate that --against asks: give --against, too")
    timeout = 60.0 if given.timeout is None else given.timeout
    if not 0 < timeout < float("inf"):
        raise UsageFault(f"--timeout {timeout:g}: it is a number of seconds above 0")
    if given.against is not None and not given.against.strip():
        raise UsageFault("--against '': there is no command in it")
    if given.workflow is not None and not given.workflow.endswith((".yml", ".yaml")):
        raise UsageFault(f"{given.workflow!r} is no workflow: its name ends in neither .yml nor .yaml; --last gives a number")
    if given.workflow is not None and given.lane:
        raise UsageFault("a workflow's own path list names no lanes: give either WORKFLOW or --lane")
    try:
        answer = way_to_answer("stdout" if given.answer is None else given.answer)
    except ValueError as error:
        raise UsageFault(str(error)) from None
    asked = Asked(given.workflow, None, None, tuple(given.lane), given.suite, given.json)
    gate = Gate(given.against, answer, timeout) if given.against else None
    return Wish(asked, given.last, gate, given.branch, given.commits, given.lanes_now)
