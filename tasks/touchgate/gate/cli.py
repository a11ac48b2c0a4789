"""`touchgate gate`: decides and nothing else.

The answer, `true` or `false`, is all that goes to standard output (with --json the whole decision); the reasons go to
standard error, and `run=` and `lanes=` to the file that $GITHUB_OUTPUT names. What can't be told is `true`.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys

from touchgate.gate import change as change_of
from touchgate.gate import forge, sources, workflow
from touchgate.gate.change import Judged
from touchgate.gate.declared import opened, read_both
from touchgate.gate.git import GitFault, Repository, find_top
from touchgate.gate.history import Fetch, wish
from touchgate.gate.located import DeclarationError, did_you_mean
from touchgate.gate.model import SUITES, Change, Decision, LaneDecision
from touchgate.gate.plan import plan
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any, NoReturn

    from touchgate.gate.model import Lane

DECIDED = 0
USAGE = 3
WORKFLOW_FOLDERS = (".github/workflows", ".forgejo/workflows", ".gitea/workflows")


class UsageFault(Exception):
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


class Answer(NamedTuple):
    """The whole decision. lanes, declared (as at head): None where it is a workflow that was asked about."""

    run: bool
    judged: Judged
    suite: str
    decisions: tuple[LaneDecision, ...]
    lanes: tuple[str, ...] | None
    notes: tuple[str, ...] = ()
    declared: Mapping[str, Lane] | None = None
    each: Mapping[str, dict[str, str]] | None = None
    """For a matrix: of the lanes that were made for a folder, which."""


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; returns the exit code: 0 decided, 3 bad declarations or usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        asked = _asked(words, environ)
        answer = answer_to(asked, _here(), environ)
        _tell(answer, as_json=asked.as_json)
        _append_outputs(answer, environ)
    except (UsageFault, DeclarationError) as fault:
        print(fault, file=sys.stderr)
        return USAGE
    except Exception as error:  # noqa: BLE001  a fault of the gate itself must not skip anything
        try:
            _tell(_failed(error), as_json="--json" in words)
            # No `lanes=`: a matrix made from nothing fails, and is seen.
            _append(environ, ["run=true"])
        except UsageFault as fault:
            print(fault, file=sys.stderr)
            return USAGE
    return DECIDED


def _failed(error: Exception) -> Answer:
    what = str(error).partition("\n")[0]
    reason = f"touchgate itself failed: {type(error).__name__}: {what}; please report it"
    return Answer(True, _nothing_known(reason), SUITES[0], (), None)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise UsageFault(f"the current folder is gone: {error.strerror}") from error


def answer_to(asked: Asked, start: str | Path, environ: Mapping[str, str]) -> Answer:
    """Decide. Raises UsageFault and DeclarationError; trouble with git makes the answer open instead."""
    root = None if asked.remote is not None else find_top(start)
    if root is None:
        return _answer_alone(asked, start, environ)
    with Repository(root, environ) as repo:
        try:
            judged = change_of.resolve(repo, base=asked.base, head=asked.head, environ=environ, fetch=asked.fetch)
            return decide(repo, judged, asked, start, environ)
        except GitFault as fault:
            # Nothing can be asked of git: the lanes of the checkout, and all of them.
            return decide(repo, _nothing_known(str(fault)), asked, start, environ)


def _answer_alone(asked: Asked, start: str | Path, environ: Mapping[str, str]) -> Answer:
    """Decide without a checkout, from what a remote gives."""
    from touchgate.gate import remote  # noqa: PLC0415 (a checkout does without)

    url = asked.remote or forge.clone_url(environ)
    if asked.remote is None and (not forge.is_job(environ) or not url):
        raise UsageFault(f"{start} is not inside a git repository; `touchgate gate` judges changes of one")
    if not url:
        raise UsageFault("--remote needs a URL here: the environment names no repository of a forge's")
    if _FOLDER.match(url):
        url = os.path.realpath(os.path.join(start, url))
    if asked.fetch is Fetch.NEVER:
        raise UsageFault("without a checkout all has to be fetched, and --no-fetch forbids it")
    try:
        with remote.alone(url, environ) as repo:
            judged = change_of.resolve(repo, base=asked.base, head=asked.head, environ=environ, fetch=Fetch.NEEDED)
            if judged.change.head is None:
                return _unread(asked, judged)
            try:
                return decide(repo, judged, asked, start, environ)
            except GitFault as fault:
                return _unread(asked, opened(judged, str(fault)))
    except GitFault as fault:
        return _unread(asked, _nothing_known(str(fault)))


def _unread(asked: Asked, judged: Judged) -> Answer:
    """The open answer where no lane can be read: all that was asked for runs."""
    reason = judged.change.open_reason or judged.due or ""
    names = (asked.workflow,) if asked.workflow else asked.lanes
    decisions = tuple(LaneDecision(name, Decision.RUN, reason, asked.suite) for name in names)
    return Answer(True, judged, asked.suite, decisions, asked.lanes or None)


def _nothing_known(reason: str) -> Judged:
    return Judged(Change(None, None, None, "none", "unknown", "unknown", True, (), reason))


def decide(repo: Repository, judged: Judged, asked: Asked, start: str | Path, environ: Mapping[str, str]) -> Answer:
    """Decide about a change that is judged already. Raises UsageFault, DeclarationError and GitFault."""
    if asked.workflow:
        return _of_workflow(repo, judged, asked, start, environ)
    found = read_both(repo, judged)
    judged, head, base = found.judged, found.head, found.base
    if not head and not base:
        raise UsageFault(f"no lane is declared: there is no {sources.FOLDER}/*.yml")
    made = plan(head, base, judged.change, asked.suite, due=judged.due, gained=found.gained, included=found.included)
    every = {**(base or {}), **head}
    groups = {lane.each.group for lane in every.values() if lane.each}
    unknown = [name for name in asked.lanes if name not in made.by_name and name not in groups]
    if unknown:
        raise UsageFault("\n".join(_unknown_lane(name, [*made.by_name, *groups]) for name in unknown))
    decisions = tuple(lane for lane in made.lanes if not asked.lanes or _is_asked_for(every[lane.lane], asked.lanes))
    running = tuple(lane.lane for lane in decisions if lane.decision is Decision.RUN)
    return Answer(bool(running), judged, asked.suite, decisions, running, declared=head, each=_folders(every))


def _is_asked_for(lane: Lane, names: Sequence[str]) -> bool:
    return lane.name in names or (lane.each is not None and lane.each.group in names)


def _folders(lanes: Mapping[str, Lane]) -> dict[str, dict[str, str]]:
    return {
        name: {"group": lane.each.group, "name": lane.each.name, "path": lane.each.path}
        for name, lane in lanes.items()
        if lane.each
    }


def _unknown_lane(name: str, known: Sequence[str]) -> str:
    hint = did_you_mean(name, known)
    return f"no lane '{name}'" + (f"; {hint}" if hint else "")


# ---- one workflow's own list


def _of_workflow(repo: Repository, judged: Judged, asked: Asked, start: str | Path, environ: Mapping[str, str]) -> Answer:
    if asked.lanes:
        raise UsageFault("a workflow's own path list names no lanes: give either WORKFLOW or --lane")
    file, text = _find_workflow(repo, judged, str(asked.workflow), start)
    at_head = workflow.read_paths(text, file)
    name = _workflow_event(forge.read(environ))
    choice = workflow.choose(at_head, name)
    words = choice.words
    notes = [f"note: {problem}" for problem in at_head.faults]
    lists = [(at_head, "")]
    try:
        at_base = sources.base_reader(repo, judged)(file)
        if at_base is not None and at_base != text:
            lists.append((workflow.read_paths(at_base, file), " of the base branch's tip"))
    except (DeclarationError, GitFault) as error:
        first = str(error).partition("\n")[0]
        judged = opened(judged, f"the workflow at the base branch's tip can't be read: {first}")
    because = judged.change.open_reason or judged.due
    if because:
        decision = LaneDecision(file, Decision.RUN, because, asked.suite)
        return Answer(True, judged, asked.suite, (decision,), None, tuple(notes))
    touched = [path.path for path in judged.change.paths]
    decision = LaneDecision(file, Decision.SKIP, "", asked.suite)
    for paths, which in lists:
        answer = workflow.decide(paths, name, touched)
        if answer.run:
            reason = _match(answer) or (f"{answer.path} is not ignored by {words}" if answer.path else words)
            decision = LaneDecision(file, Decision.RUN, reason + which, asked.suite, answer.path, answer.pattern)
            break
        if not which:
            reason = workflow.skipped_because(answer, choice, len(touched))
            decision = decision._replace(reason=reason, path=answer.path, pattern=answer.pattern)
    return Answer(decision.decision is Decision.RUN, judged, asked.suite, (decision,), None, tuple(notes))


def _match(answer: workflow.Answer) -> str:
    if answer.pattern is None or answer.path is None:
        return ""
    if answer.path.endswith("/"):
        return f"what differs below {answer.path} can't be told, and {answer.pattern.text} at {answer.pattern.at} may match it"
    return f"{answer.path} matches {answer.pattern.text} at {answer.pattern.at}"


def _workflow_event(event: forge.Event | None) -> str | None:
    """The event whose list counts; None (a dispatch, a local call): the workflow's first, pull requests before pushes.

    An event that could have a list but has none in this workflow is passed on: its answer is that everything touches.
    """
    if event is None:
        return None
    if event.rule is forge.Rule.PULL_REQUEST and event.name not in workflow.FILTERED_EVENTS:
        return "pull_request"
    return event.name if event.name in workflow.FILTERED_EVENTS else None


def _find_workflow(repo: Repository, judged: Judged, asked: str, start: str | Path) -> tuple[str, bytes]:
    """The workflow's path from the root and its text at head. Asked for by name, or path from the root or from here."""
    from pathlib import Path  # noqa: PLC0415 (slow to import, and lanes do without)

    read = sources.head_reader(repo, judged)
    tried = [Path(asked)]
    with contextlib.suppress(ValueError):
        # The file itself stays as it is named: a link must be seen.
        file = Path(start).resolve() / asked
        tried.append((file.parent.resolve() / file.name).relative_to(repo.root))
    if "/" not in asked:
        tried += [Path(folder, asked) for folder in WORKFLOW_FOLDERS]
    for path in tried:
        text = None if path.is_absolute() or ".." in path.parts else read(path.as_posix())
        if text is not None:
            return path.as_posix(), text
    raise UsageFault(f"there is no workflow {asked} at head (looked for {', '.join(dict.fromkeys(map(str, tried)))})")


# ---- telling


def _tell(answer: Answer, *, as_json: bool) -> None:
    for line in in_words(answer):
        print(line, file=sys.stderr)
    if as_json:
        import json  # noqa: PLC0415 (a plain answer does without)

        print(json.dumps(as_data(answer), indent=2))
    else:
        print(_word(answer))
    sys.stdout.flush()


def _word(answer: Answer) -> str:
    return "true" if answer.run else "false"


def in_words(answer: Answer) -> list[str]:
    """The reasons, line by line, safe to show on a terminal and in a forge's log."""
    change = answer.judged.change
    tree = " with what is uncommitted" if change.head_is_worktree and change.head else ""
    lines = [
        f"base        {change.base or 'unknown'}  ({change.base_from})",
        f"head        {change.head or 'unknown'}{tree}  ({change.head_from})",
        f"merge base  {', '.join(answer.judged.merge_bases) or change.merge_base or 'unknown'}  ({change.proof})",
        *answer.judged.notes,
    ]
    if change.open_reason:
        lines.append(f"everything runs: {change.open_reason}")
    elif answer.judged.due:
        lines.append(f"everything is due: {answer.judged.due}")
    else:
        lines.append(f"{len(change.paths)} path{'' if len(change.paths) == 1 else 's'} touched")
    width = max((len(lane.lane) for lane in answer.decisions), default=0)
    lines += [f"{lane.decision.value:4}  {lane.lane:{width}}  {lane.reason}" for lane in answer.decisions]
    return [_safe(line) for line in (*lines, *answer.notes)]


def _safe(line: str) -> str:
    """The line with unprintable characters as escapes: a file's name must not speak to a terminal or a forge."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


def as_data(answer: Answer) -> dict[str, Any]:
    """The stable machine form."""
    change = answer.judged.change
    return {
        "schema": 1,
        "run": answer.run,
        "base": change.base,
        "head": change.head,
        "merge_base": change.merge_base,
        "merge_bases": list(answer.judged.merge_bases),
        "proof": change.proof,
        "open_reason": change.open_reason,
        "due": answer.judged.due,
        "suite": answer.suite,
        "lanes": [
            {
                "name": lane.lane,
                "decision": lane.decision.value,
                "reason": lane.reason,
                "path": lane.path,
                "pattern": lane.pattern.text if lane.pattern else None,
                "where": str(lane.pattern.at) if lane.pattern else None,
                "each": (answer.each or {}).get(lane.lane),
            }
            for lane in answer.decisions
        ],
    }


def _append_outputs(answer: Answer, environ: Mapping[str, str]) -> None:
    lines = [f"run={_word(answer)}"]
    if answer.lanes is not None:
        # JSON, and compact; a lane's name holds nothing that would have to be escaped.
        names = ",".join(f'"{lane}"' for lane in answer.lanes)
        lines.append(f"lanes=[{names}]")
    _append(environ, lines)


def _append(environ: Mapping[str, str], lines: Sequence[str]) -> None:
    name = environ.get("GITHUB_OUTPUT")
    if not name:
        return
    try:
        # Not to wait for a reader, should it be a pipe.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
        with open(os.open(name, flags, 0o666), "a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    except OSError as error:
        # Without `run=` every later step that asks for it would be skipped, and the job be green.
        raise UsageFault(f"GITHUB_OUTPUT={name} can't be written: {error.strerror}") from error


# ---- the command line


def _parser() -> argparse.ArgumentParser:
    import argparse  # noqa: PLC0415 (named here so that the class below can fail our way)

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageFault(f"{message}\n{self.format_usage().rstrip()}")

    parser = Parser(
        prog="touchgate gate",
        usage="touchgate gate [WORKFLOW] [BASE HEAD] [--remote [URL]] [--fetch | --no-fetch] [--lane NAME]... "
        "[--suite SUITE] [--json]",
        description="Say whether a change touches any lane (true or false), and why.",
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", metavar="WORKFLOW BASE HEAD", help="a workflow's file, and two revisions")
    parser.add_argument("--lane", action="append", default=[], metavar="NAME", help="ask about this lane only (repeatable)")
    parser.add_argument("--suite", choices=SUITES, help="default: $TOUCHGATE_SUITE, else smoke")
    parser.add_argument("--json", action="store_true", help="print the whole decision as JSON")
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


def _asked(argv: Sequence[str], environ: Mapping[str, str]) -> Asked:
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
_FOLDER = re.compile(r"/|\.{1,2}(/|$)")
_URL = re.compile(r"[^-][^:]*:|" + _FOLDER.pattern)


def _is_workflow(word: str) -> bool:
    # By its name alone: a file may be named like a branch.
    return word.endswith((".yml", ".yaml"))
