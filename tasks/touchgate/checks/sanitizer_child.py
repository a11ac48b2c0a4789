"""The process that compute-sanitizer watches: a few cases of an oracle file on the GPU, in this process alone.

The request is a JSON file: root, target, tool, build_dir, gpu (a UUID or null), and reply, the file that the outcome is
written to. The arrays lie without red zones: the tool watches the bytes around them, reading included.
"""

from __future__ import annotations

import json
import os
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate.checks.measuring import measure
from touchgate.checks.selection import in_turns, selected, untouched
from touchgate.devices import Unavailable, cuda
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.devices import Device

MAPS = Path("/proc/self/maps")


def watched(maps: Path = MAPS) -> bool:
    """Whether a library of the tool is loaded here: it must be, after the driver was called."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    names = (line.rpartition("/")[2] for line in lines)
    return any("sanitizer" in name.lower() and ".so" in name for name in names)


def on_device(device: Device, request: dict[str, Any]) -> Outcome:
    """Run the cases, and say how that was watched."""
    root, target = Path(request["root"]), request["target"]
    # What is written before the launch could not be seen to be read too early.
    ways = untouched if request["tool"] == "initcheck" else in_turns
    outcome = measure(root, target, "gpu", device, zone=0, choose=selected, ways=ways)
    return replace(outcome, facts={**outcome.facts, "watched": watched(), "device": dict(device.facts)})


def main(path: str) -> None:
    """Read the request from this file, measure, reply."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    os.chdir(request["root"])
    device = None
    try:
        device = cuda.open_device(Path(request["build_dir"]), uuid=request["gpu"])
        outcome = on_device(device, request)
    except Unavailable as missing:
        outcome = Outcome(Verdict.UNMEASURED, reason=str(missing))
    except Exception as error:  # noqa: BLE001  the boundary: the reply is all that is known of this process
        traceback.print_exc()
        outcome = Outcome(Verdict.ERROR, reason=f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
    reply = Path(request["reply"])
    half = reply.with_suffix(".half")
    half.write_text(json.dumps(outcome.to_json()), encoding="utf-8")
    half.replace(reply)
    if device is not None:
        device.close()
