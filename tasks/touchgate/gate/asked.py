"""The command line of `touchgate gate`, read."""

from __future__ import annotations

import re

from touchgate.gate.history import Fetch, wish
from touchgate.gate.model import SUITES, Refusal
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import NoReturn


class UsageFault(Refusal):
    """What was asked for can't be answered: one line or more for a person."""


class Asked(NamedTuple):
    """The command line."""

    workflow: str | None
    base: str | None
    head: str | None
    lanes: tuple[str, ...]
    suite: str
    as_json: bool
    fetch: Fetch = Fetch.NEVER
    remote: str | None = None
    """A URL, or "" for the event's own repository; None: the checkout around the current folder."""


_ABOUT = """\
Say whether a change touches any lane of tasks/*.yml, or a workflow's own path lists: `true` or `false` on standard output,
the reasons on standard error. In a workflow it also writes `run=` and `lanes=` to $GITHUB_OUTPUT."""
_MORE = """\
Exit codes:
  0  decided; what can't be told is `true`, with the reason
  3  bad declarations or usage, or the answer can't be written

Examples:
  touchgate gate                                   the checkout, or what the forge's event is about
  touchgate gate ci.yml origin/main HEAD           in place of a gate script
  touchgate gate --remote https://forge/me/x.git main topic    without a checkout

More: docs/gate.md. `doit lanes why LANE` explains one answer, `doit lanes check` finds patterns that do nothing, `touchgate
replay` plays the last merges, and `doit --shadow 1%` runs some of what is skipped, to test the gate."""


def _parser() -> argparse.ArgumentParser:
    import argparse  # noqa: PLC0415 (named here so that the class below can fail our way)

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageFault(f"{message}\n{self.format_usage().rstrip()}")

    parser = Parser(
        prog="touchgate gate",
        usage="touchgate gate [WORKFLOW] [BASE HEAD] [--remote [URL]] [--fetch | --no-fetch] [--lane NAME]... "
        "[--suite SUITE] [--json]",
        description=_ABOUT,
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORKFLOW BASE HEAD",
        help="a workflow's file, whose own path lists decide in place of lanes; and two revisions. Without them: the forge's "
        "event, else the working tree against the default branch",
    )
    parser.add_argument(
        "--lane",
        action="append",
        default=[],
        metavar="NAME",
        help="ask about this lane only (repeatable): its name, that of a group (`each: crates/*` makes a lane for every "
        "folder), or a pattern such as 'crate-*'",
    )
    parser.add_argument("--suite", choices=SUITES, help="default: $TOUCHGATE_SUITE, else smoke")
    parser.add_argument("--json", action="store_true", help="print the whole decision as JSON, with all that the reasons say")
    fetch = parser.add_mutually_exclusive_group()
    fetch.add_argument("--fetch", action="store_true", help="fetch the base branch's tip, and what the proof needs")
    fetch.add_argument("--no-fetch", action="store_true", help="fetch nothing, also in a forge's job")
    parser.add_argument("--remote", metavar="URL", help="judge without a checkout; no URL: the event's own repository")
    return parser


class _Options(NamedTuple):
    """What the parser finds."""

    words: Sequence[str]
    lane: Sequence[str] = ()
    suite: str | None = None
    json: bool = False
    fetch: bool = False
    no_fetch: bool = False
    remote: str | None = None


def _options(argv: Sequence[str]) -> _Options:
    if not any(word.startswith("-") for word in argv):
        # The parser takes longer to import than git to answer, and there is nothing for it to do.
        return _Options(argv)
    return _Options(**vars(_parser().parse_intermixed_args(_with_remote(argv))))


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Asked:
    """What the words ask for. Raises UsageFault."""
    options = _options(argv)
    words = list(options.words)
    named = None
    if len(words) in (1, 3) or (words and _is_workflow(words[0])):
        named = words.pop(0)
        if not _is_workflow(named):
            raise UsageFault(f"{named!r} is no workflow: its name ends in neither .yml nor .yaml; revisions come as BASE HEAD")
    if len(words) not in (0, 2):
        raise UsageFault("revisions come in twos, BASE and HEAD; to judge the working tree set TOUCHGATE_BASE alone")
    if any(not word for word in words):
        raise UsageFault("BASE or HEAD is empty; leave both away to take them from the event")
    suite = options.suite or environ.get("TOUCHGATE_SUITE") or SUITES[0]
    if suite not in SUITES:
        raise UsageFault(f"TOUCHGATE_SUITE={suite}: there is no such suite; suites are {', '.join(SUITES)}")
    base, head = words or (None, None)
    return Asked(named, base, head, tuple(options.lane), suite, options.json, _fetch(options, environ), options.remote)


def _fetch(options: _Options, environ: Mapping[str, str]) -> Fetch:
    asked = True if options.fetch else False if options.no_fetch else None
    found = wish(asked, environ)
    return Fetch.NEEDED if asked is None and options.remote is not None else found


def _with_remote(argv: Sequence[str]) -> list[str]:
    """The words, with `--remote` made `--remote=` where no URL follows it: what follows is a revision or a workflow."""
    words = list(argv)
    for at, word in enumerate(words):
        if word == "--":
            break
        following = words[at + 1] if at + 1 < len(words) else ""
        if word == "--remote" and not _URL.match(following):
            words[at] = "--remote="
    return words


# No branch's name holds a colon, or begins with a slash or a dot.
FOLDER = re.compile(r"/|\.{1,2}(/|$)")
_URL = re.compile(r"[^-][^:]*:|" + FOLDER.pattern)


def _is_workflow(word: str) -> bool:
    # By its name alone: a file may be named like a branch.
    return word.endswith((".yml", ".yaml"))
