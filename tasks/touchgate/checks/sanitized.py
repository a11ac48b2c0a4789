"""The kernel check's small cases under the address and undefined-behaviour sanitizers, emulated, in a child process.

A child, since the sanitizer's library must be the first one that a process loads, and since it ends the process that it
finds a fault in. The arrays lie without red zones: the sanitizer watches the bytes around them, reading included.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.checks.measuring import measure
from touchgate.checks.oracles import source_of
from touchgate.devices import emulated
from touchgate.outcome import EMULATED, Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.checks import Context

_FINDING = re.compile(r"(ERROR: AddressSanitizer: .*|[^\s:]+:\d+:\d+: runtime error: .*)")
_FRAME = re.compile(r"#\d+ 0x[0-9a-f]+ in (?P<what>.*)")
FRAMES = 4
"""Stack frames of the sanitizer's report that are shown; the log has all."""


def run(target: str, context: Context) -> Outcome:
    """Start the child and report what it, or a sanitizer, found. Raises `Unavailable` without compiler or sanitizer."""
    environ = {**os.environ, **emulated.sanitizer_environment()}
    reply = context.temporary / "sanitized.json"
    request = {"root": str(context.root), "target": target, "build_dir": str(context.build_dir), "reply": str(reply)}
    done = subprocess.run(
        [sys.executable, "-m", "touchgate.checks.sanitized"],
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        cwd=context.root,
        env=environ,
        pass_fds=context.inherited_fds,
        check=False,
    )
    print(done.stdout, end="", flush=True)
    if reply.is_file():
        return Outcome.from_json(json.loads(reply.read_text(encoding="utf-8")))
    return judged(done.stdout, done.returncode, source_of(target))


def judged(output: str, status: int, source: str) -> Outcome:
    """What a child that ended without a reply came to, from its output: a sanitizer's finding, or an error of its own.

    The lines before the finding are the names of the cases, as they began.
    """
    found = _FINDING.search(output)
    if found is None:
        last = (output.rstrip().splitlines() or ["no output"])[-1]
        return Outcome(Verdict.ERROR, device=EMULATED, reason=f"the sanitized run ended with status {status}: {last}")
    before = [line for line in output[: found.start()].splitlines() if line and not line.startswith(("=", " "))]
    # A finding of the address sanitizer is preceded by "==pid==", on its own line's beginning.
    case = before[-1] if before else "no case yet"
    frames = [match["what"] for match in _FRAME.finditer(output, found.end())]
    ours = [frame for frame in frames if Path(source).name in frame] or frames
    return Outcome(
        Verdict.FAILED,
        device=EMULATED,
        reason=f"{case}: {found[1]}",
        detail=(found[1], f"case: {case}", *(f"in {frame}" for frame in ours[:FRAMES])),
    )


def main() -> None:
    """The child: measure, reply."""
    request = json.load(sys.stdin)
    device = emulated.open_device(Path(request["build_dir"]), sanitize=True)
    outcome = measure(Path(request["root"]), request["target"], EMULATED, device, small=True, zone=0)
    device.close()
    Path(request["reply"]).write_text(json.dumps(outcome.to_json()), encoding="utf-8")


if __name__ == "__main__":
    main()
