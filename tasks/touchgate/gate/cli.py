"""`touchgate gate`: decides and nothing else.

The answer, `true` or `false`, is all that goes to standard output (with --json the whole decision); the reasons go to
standard error, and `run=` and `lanes=` to the file that $GITHUB_OUTPUT names. What can't be told is `true`.
"""

from __future__ import annotations

import gc
import os
import sys

from touchgate.gate import change as change_of
from touchgate.gate import forge, sources
from touchgate.gate.ahead import importing
from touchgate.gate.asked import FOLDER, Asked, UsageFault, parse
from touchgate.gate.git import GitFault, Repository, find_top
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
        _tell(answer, as_json=asked.as_json)
        _append_outputs(answer, environ)
    except Refusal as fault:
        print(fault, file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  a fault of the gate itself must not skip anything
        try:
            _tell_failure(error, as_json="--json" in words)
            # No `lanes=`: a matrix made from nothing fails, and is seen.
            _append(environ, ["run=true"])
        except UsageFault as fault:
            print(fault, file=sys.stderr)
            return USAGE
    return DECIDED


def _tell_failure(error: Exception, *, as_json: bool) -> None:
    """The open answer where the gate itself failed: with nothing of what may have failed, such as what reads YAML."""
    what = str(error).partition("\n")[0]
    reason = f"touchgate itself failed: {type(error).__name__}: {what}; please report it"
    print(f"everything runs: {reason}".encode("ascii", "backslashreplace").decode("ascii"), file=sys.stderr)
    if as_json:
        import json  # noqa: PLC0415 (a plain answer does without)

        known = dict.fromkeys(("base", "head", "merge_base", "due"))
        open_answer = {"merge_bases": [], "proof": "none", "open_reason": reason, "suite": SUITES[0], "lanes": []}
        _say(json.dumps({"schema": 1, "run": True, **known, **open_answer}, indent=2))
    else:
        _say("true")


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
    with Repository(root, environ) as repo:
        try:
            judged = change_of.resolve(repo, base=asked.base, head=asked.head, environ=environ, fetch=asked.fetch)
            found = None if asked.workflow else _read(repo, judged)
            from touchgate.gate import answers  # noqa: PLC0415 (by now the other thread is through with it)

            return answers.decide(repo, judged, asked, start, environ, found)
        except GitFault as fault:
            from touchgate.gate import answers  # noqa: PLC0415

            # Nothing can be asked of git: the lanes of the checkout, and all of them.
            return answers.decide(repo, answers.nothing_known(str(fault)), asked, start, environ)


def _read(repo: Repository, judged: Judged) -> sources.Sources | None:
    """The lane files, before what reads YAML is here. None for any trouble: it comes up again where it is told."""
    try:
        return sources.read(repo, judged)
    except (GitFault, Refusal):
        return None


def _answer_alone(asked: Asked, start: str | Path, environ: Mapping[str, str]) -> Answer:
    """Decide without a checkout, from what a remote gives."""
    from touchgate.gate import answers, remote  # noqa: PLC0415 (a checkout does without)

    url = asked.remote or forge.clone_url(environ)
    if asked.remote is None and (not forge.is_job(environ) or not url):
        raise UsageFault(f"{start} is not inside a git repository; `touchgate gate` judges changes of one")
    if not url:
        raise UsageFault("--remote needs a URL here: the environment names no repository of a forge's")
    if FOLDER.match(url):
        url = os.path.realpath(os.path.join(start, url))
    if asked.fetch is Fetch.NEVER:
        raise UsageFault("without a checkout all has to be fetched, and --no-fetch forbids it")
    try:
        with remote.alone(url, environ) as repo:
            judged = change_of.resolve(repo, base=asked.base, head=asked.head, environ=environ, fetch=Fetch.NEEDED)
            if judged.change.head is None:
                return answers.unread(asked, judged)
            try:
                return answers.decide(repo, judged, asked, start, environ)
            except GitFault as fault:
                return answers.unread(asked, answers.opened(judged, str(fault)))
    except GitFault as fault:
        return answers.unread(asked, answers.nothing_known(str(fault)))


def _tell(answer: Answer, *, as_json: bool) -> None:
    from touchgate.gate import answers  # noqa: PLC0415 (late, as in answer_to)

    for line in answers.in_words(answer):
        print(line, file=sys.stderr)
    if as_json:
        import json  # noqa: PLC0415 (a plain answer does without)

        _say(json.dumps(answers.as_data(answer), indent=2))
    else:
        _say(_word(answer))


def _say(text: str) -> None:
    """Write the answer. A standard output that was closed wants none."""
    if sys.stdout is None:
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
