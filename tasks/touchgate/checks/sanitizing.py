"""Runs a kernel's cases under compute-sanitizer in a child process, and judges what the tool, the child and both statuses say.

Nothing is a pass that only looks clean: the tool's report must be whole and say nothing beside "0 errors", its exit status
must agree, and the child must have been watched and have launched kernels.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.checks import sanitizer_text
from touchgate.checks.oracles import source_of
from touchgate.checks.sanitizers import FOUND, options_of
from touchgate.devices import BuildFault, Unavailable, nvcc, probe, sanitizer
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.checks import Context
    from touchgate.checks.sanitizer_text import Finding, Report
    from touchgate.devices.sanitizer import Tool

CHILD = "touchgate.checks.sanitizer_child"
DETAIL = 20
"""Faults that a report shows; the log has the tool's whole text."""
KEPT = 50
"""Lines of the child's output that are kept to tell what went wrong."""
_UNFIT = re.compile(
    r"unsupported driver version|device not supported|driver is incompatible|not supported on (?:this|the current) ",
    re.IGNORECASE,
)
"""What the tool says where driver or GPU are none that it can watch."""
_ENDED_BADLY = re.compile(r"process didn't terminate successfully|Target application returned an error")
"""What the tool says where the program failed as well: its own status is not due then."""
_NO_PROGRAM = re.compile(r"before first instrumented|No attachable process|[Cc]ould not connect to target|no CUDA ")


@dataclass(frozen=True)
class Ended:
    """How a run under the tool ended. status: the tool's own. text: its report. said: the last lines of all other output.

    reply: what the child found, None where it wrote nothing.
    """

    status: int
    text: str
    said: Sequence[str]
    reply: Outcome | None


def run(target: str, tool: str, context: Context) -> Outcome:
    """The selected cases of an oracle file under a tool. Raises `Unavailable` where it is missing, or of another CUDA."""
    found = sanitizer.fitting()
    _build_first(context.root / source_of(target), context)
    ended = start(found, tool, target, context)
    outcome = judged(tool, ended, lambda file: shown(file, source_of(target), context.root))
    facts = {**outcome.facts, "tool": tool, "sanitizer": found.version, "options": " ".join(options_of(tool))}
    device = outcome.device or (ended.reply.device if ended.reply is not None else None)
    return replace(outcome, facts=facts, device=device)


def _build_first(source: Path, context: Context) -> None:
    """Compile for the GPU that will be used, where it tells what it is: below the tool nvcc would load its libraries."""
    wanted = (context.gpu or "").lower()
    for gpu in probe.look(os.environ).shown:
        if gpu.capability and (gpu.uuid or "").lower().startswith(wanted):
            # What is wrong with the source, or with nvcc, the child says.
            with suppress(BuildFault, Unavailable):
                nvcc.build_cubin(source, f"sm_{gpu.capability.replace('.', '')}", context.build_dir)
            return


def start(found: Tool, tool: str, target: str, context: Context) -> Ended:
    """Run the child under the tool, in this process's group and with the lease. What either prints is the log."""
    reply, report = context.temporary / f"{tool}.json", context.temporary / f"{tool}.txt"
    request = context.temporary / f"{tool}.request"
    asked = {
        "root": str(context.root),
        "target": target,
        "tool": tool,
        "build_dir": str(context.build_dir),
        "gpu": context.gpu,
        "reply": str(reply),
    }
    request.write_text(json.dumps(asked), encoding="utf-8")
    command = [str(found.path), *options_of(tool), "--log-file", str(report), *_program(context.root), str(request)]
    said: deque[str] = deque(maxlen=KEPT)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            cwd=context.temporary,
            pass_fds=context.inherited_fds,
        )
    except OSError as error:
        raise Unavailable(f"{found.path} does not start: {error}") from error
    with process:
        # To the end of the pipe, not of the tool: the program that it watched may outlive it, and is on the GPU then.
        for line in process.stdout or ():
            print(line, end="", flush=True)
            said.append(line.rstrip())
    text = report.read_text(encoding="utf-8", errors="replace") if report.is_file() else ""
    print(text, end="" if text.endswith("\n") or not text else "\n", flush=True)
    return Ended(process.returncode, text, tuple(said), _read(reply))


def _program(root: Path) -> list[str]:
    # Not `-m`: what is imported is what is imported here, and nothing that lies in the checkout.
    path = [entry for entry in sys.path if entry and Path(entry).absolute() != root.absolute()]
    code = f"import sys; sys.path[:] = {path!r}; from {CHILD} import main; main(sys.argv[1])"
    return [sys.executable, "-c", code]


def _read(reply: Path) -> Outcome | None:
    try:
        return Outcome.from_json(json.loads(reply.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def shown(file: str, source: str, root: Path) -> str:
    """A file as the tool names it, relative to the root where it is of the repository.

    A compiled kernel may come from another checkout's cache, and some releases write names without folders.
    """
    parts = posixpath.normpath(file).strip("/").split("/")
    for first in range(len(parts)):
        candidate = "/".join(parts[first:])
        if (root / candidate).is_file():
            return candidate
    return source if parts[-1] == posixpath.basename(source) else file


def judged(tool: str, ended: Ended, named: Callable[[str], str] = str) -> Outcome:
    """What a run came to. named: gives the name of a file for a person."""
    report = sanitizer_text.read(ended.text)
    # What the program prints is not the tool's word, unless that wrote no report at all.
    said = report.notices if report.headed else ended.said
    unfit = next((line for line in said if _UNFIT.search(line)), None)
    if unfit is not None and not report.findings:
        # Some releases count that as a fault, and the program meets errors that are none of its own.
        reason = f"compute-sanitizer can't watch this GPU with this driver: {unfit}"
        return Outcome(Verdict.UNMEASURED, reason=reason)
    if report.findings or report.total:
        return _failed(tool, ended, report, named)
    if ended.status == FOUND:
        reason = f"{tool} exits with {FOUND}, which says that it found faults, but reports none: they must agree"
        return Outcome(Verdict.FAILED, reason=reason, detail=_words(report, ended))
    if ended.reply is not None and ended.reply.verdict in (Verdict.UNMEASURED, Verdict.ERROR):
        return ended.reply
    doubt = _doubt(tool, ended, report)
    if doubt:
        return Outcome(Verdict.ERROR, reason=doubt, detail=_words(report, ended))
    reply = ended.reply
    if reply is None:  # told by `_doubt`
        raise AssertionError(doubt)
    if reply.verdict is not Verdict.PASSED:
        return replace(reply, reason=f"under {tool}: {reply.reason}")
    # How close the answers came is the kernel check's to say.
    return replace(reply, worst=None)


def _failed(tool: str, ended: Ended, report: Report, named: Callable[[str], str]) -> Outcome:
    findings = [_named(one, named) for one in report.findings]
    lines = [f"{tool}: {one.line()}" for one in findings]
    more = [] if report.total is not None else ["the report is cut off: it has no last line"]
    if not lines:
        lines = [f"{tool} counts {report.total} faults, in words that are not understood; the log has them"]
    reason = lines[0]
    agrees = ended.status == FOUND or (ended.status != 0 and any(map(_ENDED_BADLY.search, report.notices)))
    if not agrees or report.total == 0:
        counted = "nothing" if report.total is None else report.total
        reason = (
            f"{tool} reports {len(findings)} faults, counts {counted} and exits with {ended.status} (faults: {FOUND}): "
            f"they must agree; {lines[0]}"
        )
    first = [f"   {line}" for one in findings[:1] for line in one.more]
    detail = [lines[0], *first, *lines[1:DETAIL], *report.notices[:DETAIL], *more]
    if len(lines) > DETAIL:
        detail.append(f"and {len(lines) - DETAIL} more")
    reply = ended.reply
    if reply is not None and reply.verdict is Verdict.FAILED:
        detail += ["the launch that failed of it:", *reply.detail[:2]]
    facts = {"findings": [asdict(one) for one in findings[:DETAIL]]}
    cases = reply.cases if reply is not None else None
    return Outcome(Verdict.FAILED, reason=reason, detail=tuple(detail), cases=cases, facts=facts)


def _named(one: Finding, named: Callable[[str], str]) -> Finding:
    other = replace(one.other, file=named(one.other.file)) if one.other is not None else None
    return replace(one, place=replace(one.place, file=named(one.place.file)), other=other)


def _doubt(tool: str, ended: Ended, report: Report) -> str:
    """Why a run without faults proves nothing; "" where it does."""
    last = next((line for line in reversed(ended.said) if line.strip()), "no output")
    if not report.headed:
        return f"{tool} wrote no report and ended with status {ended.status}: {last}"
    for line in report.notices:
        if _NO_PROGRAM.search(line):
            return f"{tool} found no CUDA program to watch (status {ended.status}): {line}"
    if report.notices:
        return f"{tool} says more than a clean report does (status {ended.status}): {report.notices[0]}"
    if report.total is None:
        return f"{tool}'s report is cut off: it has no last line (status {ended.status})"
    if ended.status != 0:
        return f"{tool} counts no faults, but ended with status {ended.status}: {last}"
    if ended.reply is None:
        return f"{tool} counts no faults, but the program under it left no result: {last}"
    if not ended.reply.facts.get("watched"):
        return f"{tool} counts no faults, but was not loaded into the program that it should watch"
    if not ended.reply.facts.get("launches"):
        return f"{tool} counts no faults, but no kernel was launched"
    return ""


def _words(report: Report, ended: Ended) -> tuple[str, ...]:
    """What was said, for the report: the tool's own lines, else the last ones of the program."""
    return (report.notices or tuple(line for line in ended.said if line.strip())[-DETAIL:])[:DETAIL]
