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
_BLAMED = re.compile(r'^  File "(.+)", line (\d+), in ', re.MULTILINE)
FRAMES = 4
"""Stack frames of the sanitizer's report that are shown; the log has all."""


def run(target: str, context: Context) -> Outcome:
    """The small cases of an oracle file. Raises `Unavailable` without compiler or sanitizer."""
    return in_child("touchgate.checks.sanitized", target, source_of(target), context)


def in_child(module: str, target: str, source: str, context: Context) -> Outcome:
    """Run `python -m module` under the sanitizers and report what it, or a sanitizer, found.

    The child reads a JSON object from its standard input: root, target, build_dir, and reply, the file to write its
    outcome to as JSON. source: the .cu file whose stack frames matter. Raises `Unavailable` without compiler or
    sanitizer.
    """
    environ = {**os.environ, **emulated.sanitizer_environment()}
    reply = context.temporary / "sanitized.json"
    request = {"root": str(context.root), "target": target, "build_dir": str(context.build_dir), "reply": str(reply)}
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        # Not the checkout: a file there that is named like a library would be imported in its stead.
        cwd=context.temporary,
        env=environ,
        pass_fds=context.inherited_fds,
        check=False,
    )
    print(done.stdout, end="", flush=True)
    if reply.is_file():
        return Outcome.from_json(json.loads(reply.read_text(encoding="utf-8")))
    return judged(done.stdout, done.returncode, source, context.root)


def judged(output: str, status: int, source: str, root: Path = Path("/")) -> Outcome:
    """What a child that ended without a reply came to, from its output: a sanitizer's finding, or an error of its own.

    source: the .cu file, relative to `root`. The lines before the finding are the names of the cases, as they began.
    """
    found = _FINDING.search(output)
    if found is None:
        last = (output.rstrip().splitlines() or ["no output"])[-1]
        reason = f"the sanitized run ended with status {status}: {last}"
        blamed = [(Path(path), line) for path, line in _BLAMED.findall(output) if Path(path).is_relative_to(root)]
        if blamed:
            path, line = blamed[-1]
            reason = f"{path.relative_to(root)}:{line}: {last}"
        return Outcome(Verdict.ERROR, device=EMULATED, reason=reason)
    before = [line for line in output[: found.start()].splitlines() if line and not line.startswith(("=", " "))]
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
    os.chdir(request["root"])
    device = emulated.open_device(Path(request["build_dir"]), sanitize=True)
    outcome = measure(Path(request["root"]), request["target"], EMULATED, device, small=True, zone=0)
    device.close()
    Path(request["reply"]).write_text(json.dumps(outcome.to_json()), encoding="utf-8")


if __name__ == "__main__":
    main()
