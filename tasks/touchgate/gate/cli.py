"""`touchgate gate`: decides and nothing else.

The answer, `true` or `false`, is all that goes to standard output (with --json the whole decision); the reasons go to
standard error, and `run=` and `lanes=` to the file that $GITHUB_OUTPUT names. What can't be told is `true`.
"""

from __future__ import annotations

import gc
import os
import sys
from enum import Enum

from touchgate.gate import change as change_of
from touchgate.gate import forge, sides, sources
from touchgate.gate.ahead import importing
from touchgate.gate.aside import aside
from touchgate.gate.asked import FOLDER, Asked, UsageFault, parse
from touchgate.gate.git import GitFault, Repository, find_bare, find_top
from touchgate.gate.history import Fetch
from touchgate.gate.model import SUITES, Refusal
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from touchgate.gate.answers import Answer
    from touchgate.gate.change import Judged

DECIDED = 0
USAGE = 3


class Standing(Enum):
    """What a checkout is to the event of a job."""

    THE_EVENTS = "the event's own, or what was asked for"
    LEFT_OVER = "what an earlier job left"
    OTHER = "something else, maybe made by this job: what is touched can't be told by it"


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; returns the exit code: 0 decided, 3 bad declarations or usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    # One decision, then the process ends: looking for garbage would only take time.
    gc.disable()
    try:
        return _main(words, environ)
    finally:
        gc.enable()


def _main(words: Sequence[str], environ: Mapping[str, str]) -> int:
    try:
        asked = parse(words, environ)
        answer = answer_to(asked, _here(), environ)
        _tell(answer, environ, as_json=asked.as_json)
        _append_outputs(answer, environ)
    except Refusal as fault:
        aside(str(fault))
        return USAGE
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  a fault of the gate itself must not skip anything
        try:
            _tell_failure(error, environ, as_json="--json" in words)
            # No `lanes=`: a matrix made from nothing fails, and is seen.
            _append(environ, ["run=true"])
        except UsageFault as fault:
            aside(str(fault))
            return USAGE
    return DECIDED


def _tell_failure(error: Exception, environ: Mapping[str, str], *, as_json: bool) -> None:
    """The open answer where the gate itself failed: with nothing of what may have failed, such as what reads YAML."""
    what = str(error).partition("\n")[0]
    reason = f"touchgate itself failed: {type(error).__name__}: {what}; please report it"
    aside(f"everything runs: {reason}".encode("ascii", "backslashreplace").decode("ascii"))
    if as_json:
        import json  # noqa: PLC0415 (a plain answer does without)

        known: dict[str, object] = {
            **dict.fromkeys(("base", "head", "merge_base")),
            "merge_bases": [],
            "base_from": "unknown",
            "head_from": "unknown",
            "head_is_worktree": False,
            "proof": "none",
            "looked_at": None,
            "open_reason": reason,
            "due": None,
            "notes": [],
            "suite": SUITES[0],
            "lanes": [],
        }
        _say(json.dumps({"schema": 1, "run": True, **known}, indent=2), environ)
    else:
        _say("true", environ)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise UsageFault(f"the current folder is gone: {error.strerror}") from error


def answer_to(asked: Asked, start: str | Path, environ: Mapping[str, str]) -> Answer:
    """Decide. Raises UsageFault and DeclarationError; trouble with git makes the answer open instead."""
    with importing("touchgate.gate.answers"):
        return _answer_to(asked, start, environ)


def _answer_to(asked: Asked, start: str | Path, environ: Mapping[str, str]) -> Answer:
    root = None if asked.remote is not None else find_top(start)
    if root is None:
        return _answer_alone(asked, start, environ)
    standing = _standing(asked, root, environ)
    if standing is Standing.LEFT_OVER and asked.fetch is not Fetch.NEVER and forge.clone_url(environ):
        return _answer_alone(asked, start, environ, passed_over=root)
    with Repository(root, environ) as repo:
        try:
            judged = change_of.resolve(repo, base=asked.base, head=asked.head, environ=environ, fetch=asked.fetch)
            found = None if asked.workflow else _read(repo, judged)
            from touchgate.gate import answers  # noqa: PLC0415 (by now the other thread is through with it)

            if standing is not Standing.THE_EVENTS:
                judged = answers.opened(judged, f"the checkout in {root} is not of this event's commit")
            return answers.decide(repo, judged, asked, start, environ, found, strictly=True)
        except GitFault as fault:
            from touchgate.gate import answers  # noqa: PLC0415

            # Nothing can be asked of git: the lanes of the checkout, and all of them.
            return answers.decide(repo, answers.nothing_known(str(fault)), asked, start, environ, strictly=True)


def _standing(asked: Asked, root: str, environ: Mapping[str, str]) -> Standing:
    """What the checkout around the job's own folder is to the event; elsewhere it is what a person means."""
    folder = forge.workspace(environ) if forge.is_job(environ) else None
    # A checkout below that folder was put there by this job, whatever it is of.
    if not folder or not f"{os.path.realpath(folder)}/".startswith(f"{root}/"):
        return Standing.THE_EVENTS
    base, head = asked.base or environ.get("TOUCHGATE_BASE"), asked.head or environ.get("TOUCHGATE_HEAD")
    event = forge.read(environ)
    if event is None or event.checkout is None:
        # The event names no commit. A base alone would be measured against whatever is here.
        return Standing.OTHER if base and not head else Standing.THE_EVENTS
    try:
        with Repository(root, environ) as repo:
            # A full id means the same everywhere; HEAD and branches are what an earlier job made of them.
            if base and head and sides.are_ids(repo, (base, head)):
                return Standing.THE_EVENTS
            if sides.is_left_over(repo, event):
                return Standing.LEFT_OVER
            return Standing.THE_EVENTS if sides.is_of_event(repo, event) else Standing.OTHER
    except GitFault:
        return Standing.THE_EVENTS


def _read(repo: Repository, judged: Judged) -> sources.Sources | None:
    """The lane files, before what reads YAML is here. None for any trouble: it comes up again where it is told."""
    try:
        return sources.read(repo, judged)
    except (GitFault, Refusal):
        return None


def _answer_alone(asked: Asked, start: str | Path, environ: Mapping[str, str], passed_over: str | None = None) -> Answer:
    """Decide without a checkout, from what a remote gives. passed_over: a checkout that does not count."""
    from touchgate.gate import answers, remote  # noqa: PLC0415 (a checkout does without)

    url = asked.remote or forge.clone_url(environ)
    if asked.remote is None and (not forge.is_job(environ) or not url):
        bare = find_bare(start)
        if bare:
            raise UsageFault(f"{bare} is a bare repository: `touchgate gate --remote {bare} BASE HEAD` judges it")
        raise UsageFault(f"{start} is not inside a git repository; `touchgate gate` judges changes of one")
    if not url:
        raise UsageFault("--remote needs a URL here: the environment names no repository of a forge's")
    if FOLDER.match(url):
        url = os.path.realpath(os.path.join(start, url))
    if asked.fetch is Fetch.NEVER:
        raise UsageFault("without a checkout all has to be fetched, and --no-fetch forbids it")
    note = f"the checkout in {passed_over} is not of this event's commit: passed over, the event alone decides"
    notes = (note,) if passed_over else ()
    try:
        with remote.alone(url, environ) as repo:
            judged = change_of.resolve(repo, base=asked.base, head=asked.head, environ=environ, fetch=Fetch.NEEDED)
            judged = judged._replace(notes=(*notes, *judged.notes))
            if judged.change.head is None:
                return answers.unread(asked, judged)
            try:
                return answers.decide(repo, judged, asked, start, environ, strictly=True)
            except GitFault as fault:
                return answers.unread(asked, answers.opened(judged, str(fault)))
    except GitFault as fault:
        return answers.unread(asked, answers.nothing_known(str(fault))._replace(notes=notes))


def _tell(answer: Answer, environ: Mapping[str, str], *, as_json: bool) -> None:
    from touchgate.gate import answers  # noqa: PLC0415 (late, as in answer_to)

    for line in answers.in_words(answer):
        aside(line)
    if as_json:
        import json  # noqa: PLC0415 (a plain answer does without)

        _say(json.dumps(answers.as_data(answer), indent=2), environ)
    else:
        _say(_word(answer), environ)


def _say(text: str, environ: Mapping[str, str]) -> None:
    """Write the answer. A standard output that was closed wants none, where a forge reads it elsewhere."""
    if sys.stdout is None:
        if not environ.get("GITHUB_OUTPUT"):
            raise UsageFault("the answer can't be written: standard output is closed")
        return
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageFault(f"the answer can't be written to standard output: {error.strerror}") from error


def _word(answer: Answer) -> str:
    return "true" if answer.run else "false"


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
