"""The conformance check emulated under the address and undefined-behaviour sanitizers, in a child process.

A child, since the sanitizer's library must be the first one that a process loads, and since it ends the process that it
finds a fault in.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.checks import conformance, sanitized
from touchgate.devices import emulated

if TYPE_CHECKING:
    from touchgate.checks import Context
    from touchgate.outcome import Outcome


def run(target: str, kernel: str, context: Context) -> Outcome:
    """Start the child and report what it, or a sanitizer, found. Raises `Unavailable` without compiler or sanitizer."""
    return sanitized.in_child("touchgate.checks.sanitized_vectors", target, kernel, context)


def main() -> None:
    """The child: measure, reply."""
    request = json.load(sys.stdin)
    device = emulated.open_device(Path(request["build_dir"]), sanitize=True)
    outcome = conformance.measure(Path(request["root"]), request["target"], device)
    device.close()
    Path(request["reply"]).write_text(json.dumps(outcome.to_json()), encoding="utf-8")


if __name__ == "__main__":
    main()
