"""The host's own preflight command: exit 0 fit, 69 not fit with its output as the reason, anything else unknown."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from touchgate.devices.preflight.values import NOT_FIT_EXIT, Answer, Finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LINES = 5
"""Of its output, that are told."""
_LONGEST = 300


def run(command: Sequence[str], seconds: float, uuids: Sequence[str], environ: Mapping[str, str] = os.environ) -> Finding:
    """What the command answers within so many seconds; then its whole group is ended.

    It sees TOUCHGATE_GPUS, the UUIDs apart by commas (empty: all), and else the run's environment.
    """
    words = command[0]
    # A file, not a pipe: a process that the command leaves behind would hold a pipe open.
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(
                command,
                env={**environ, "TOUCHGATE_GPUS": ",".join(uuids)},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as fault:
            return _unknown(f"the host's preflight command {words} can't be started: {fault.strerror}")
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            return _unknown(f"the host's preflight command {words} did not end within {seconds:g} s")
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        said = _said(output.read(64 * 1024))
    if status == 0:
        return Finding(Answer.FIT)
    if status == NOT_FIT_EXIT:
        return Finding(Answer.NOT_FIT, reasons=(f"{words}: {said or 'it gives no reason'}",))
    ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return _unknown(f"the host's preflight command {words} {ended}{f': {said}' if said else ''}")


def _unknown(what: str) -> Finding:
    return Finding(Answer.UNKNOWN, unknown=(what,))


def _said(output: bytes) -> str:
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    text = "; ".join(lines[:LINES])
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST])
