"""The process that one check runs in.

It reads a request (JSON) from standard input, runs the check, and writes the outcome (JSON) to the file that the request
names. What the check prints is its log. A process of its own means that a crash, a poisoned CUDA context or a leak ends
with the check.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate.checks import CheckSpec
from touchgate.checks.registry import kind
from touchgate.outcome import EMULATED, Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.devices import Device

PR_SET_PDEATHSIG = 1
ORPHANS_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for what a killed run leaves behind."""


class WorkerContext:
    """The `Context` of a check that runs here."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.root = Path(request["root"])
        self.place: str = request["place"]
        self.build_dir = Path(request["build_dir"])
        self.temporary = Path(request["temporary"])
        self.inherited_fds: tuple[int, ...] = tuple(request["fds"])
        self.gpu: str | None = request["gpu"]
        self._device: Device | None = None

    def device(self) -> Device:
        """The device of `place`, opened on first use. Raises `touchgate.devices.Unavailable`."""
        if self._device is None:
            if self.place == "gpu":
                from touchgate.devices import cuda  # noqa: PLC0415  imports numpy and PyCUDA

                self._device = cuda.open_device(self.build_dir, uuid=self.gpu)
            else:
                from touchgate.devices import emulated  # noqa: PLC0415  imports numpy

                self._device = emulated.open_device(self.build_dir)
        return self._device

    def device_name(self) -> str | None:
        """What the result was measured on: None where no device was opened."""
        if self._device is None:
            return EMULATED if self.place == "emulated" else None
        return self._device.name

    def close(self) -> None:
        """Release the device."""
        if self._device is not None:
            self._device.close()


def _spec(data: dict[str, Any]) -> CheckSpec:
    tuples = {name: tuple(data[name]) for name in ("places", "suites", "env")}
    return CheckSpec(**{**data, **tuples})


def _blamed_line(error: BaseException, root: Path) -> str:
    """file:line of the deepest frame inside the repository, where the person who reads it can do something."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(root)]
    frame = (inside or frames)[-1]
    path = Path(frame.filename)
    return f"{path.relative_to(root) if inside else path}:{frame.lineno}"


def run(request: dict[str, Any]) -> Outcome:
    """Run the check of a request. Every exception becomes an outcome: `unmeasured` for what is missing, else `error`."""
    from touchgate.devices import Unavailable  # noqa: PLC0415

    spec = _spec(request["spec"])
    context = WorkerContext(request)
    began = time.monotonic()
    try:
        found = kind(spec.kind)
        if found is None:
            return Outcome(Verdict.ERROR, reason=f"no installed package brings the check kind '{spec.kind}'")
        outcome = found.run(spec, context)
    except Unavailable as missing:
        outcome = Outcome(Verdict.UNMEASURED, reason=str(missing))
    except Exception as error:  # noqa: BLE001  the boundary: whatever a check's own code raises is that check's error
        traceback.print_exc()
        text = str(error).partition("\n")[0]
        reason = f"{_blamed_line(error, context.root)}: {type(error).__name__}: {text}"
        outcome = Outcome(Verdict.ERROR, reason=reason)
    reason, _, more = outcome.reason.partition("\n")
    outcome = replace(outcome, reason=reason, detail=(*more.splitlines(), *outcome.detail))
    device = outcome.device or (context.device_name() if outcome.verdict is not Verdict.UNMEASURED else None)
    facts = dict(outcome.facts)
    opened = context._device  # noqa: SLF001
    if opened is not None:
        facts.setdefault("device", dict(opened.facts))
    context.close()
    return replace(outcome, seconds=time.monotonic() - began, device=device, facts=facts)


def _end_with(parent: int) -> None:
    """End this process group when the run that started it is killed: nobody would read the result.

    Linux only (prctl(2), PR_SET_PDEATHSIG); elsewhere the check goes on to its end and holds the lease as long.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415

    def orphaned(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        time.sleep(ORPHANS_GRACE)
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGHUP, orphaned)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGHUP)
    if os.getppid() != parent:
        orphaned()


def main() -> None:
    """Read the request, run, reply."""
    request = json.loads(sys.stdin.buffer.read())
    sys.stdin.close()
    _end_with(request["parent"])
    os.chdir(request["root"])
    outcome = run(request)
    sys.stdout.flush()
    reply = Path(request["reply"])
    half = reply.with_suffix(".half")
    half.write_text(json.dumps(outcome.to_json()), encoding="utf-8")
    half.replace(reply)
