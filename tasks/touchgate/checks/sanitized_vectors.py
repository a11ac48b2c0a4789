"""The conformance check emulated under the address and undefined-behaviour sanitizers, in a child process.

A child, since the sanitizer's library must be the first one that a process loads, and since it ends the process that it
finds a fault in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.checks import conformance, sanitized
from touchgate.devices import emulated
from touchgate.outcome import Outcome

if TYPE_CHECKING:
    from touchgate.checks import Context


def run(target: str, kernel: str, context: Context) -> Outcome:
    """Start the child and report what it, or a sanitizer, found. Raises `Unavailable` without compiler or sanitizer."""
    environ = {**os.environ, **emulated.sanitizer_environment()}
    reply = context.temporary / "sanitized.json"
    request = {"root": str(context.root), "target": target, "build_dir": str(context.build_dir), "reply": str(reply)}
    done = subprocess.run(
        [sys.executable, "-m", "touchgate.checks.sanitized_vectors"],
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
    return sanitized.judged(done.stdout, done.returncode, kernel)


def main() -> None:
    """The child: measure, reply."""
    request = json.load(sys.stdin)
    device = emulated.open_device(Path(request["build_dir"]), sanitize=True)
    outcome = conformance.measure(Path(request["root"]), request["target"], device)
    device.close()
    Path(request["reply"]).write_text(json.dumps(outcome.to_json()), encoding="utf-8")


if __name__ == "__main__":
    main()
