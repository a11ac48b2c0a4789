"""A program in a session of its own, with a limit: whatever it does, this run goes on, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GRACE = 1.0
"""Seconds that a killed program may take to end."""
LOOK = 0.25
"""Seconds between two looks whether the run was interrupted."""
LARGEST = 1 << 22
"""Bytes of its output that are read."""


@dataclass(frozen=True)
class Ended:
    """How it ended. status: negative for a signal; None: not in time, or the run was interrupted. hangs: no signal ends it."""

    pid: int
    status: int | None
    out: bytes
    err: bytes = b""
    hangs: bool = False


def run(
    command: Sequence[str],
    seconds: float,
    environ: Mapping[str, str],
    *,
    cancelled: Callable[[], bool] | None = None,
    together: bool = False,
) -> Ended:
    """Run it in /, for so many seconds; then its whole group is killed. together: both outputs as one.

    No descriptor goes with it, the lease's neither: a program that hangs in the driver must not keep the host. Raises
    OSError where it can't be started.
    """
    # Files, not pipes: a process that it leaves behind would hold a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(
            command,
            env=dict(environ),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT if together else err,
            start_new_session=True,
        )
        hangs = True
        try:
            status = _wait(child, seconds, cancelled)
        finally:
            hangs = _end(child)
        return Ended(child.pid, status, _all(out), _all(err), hangs)


def _wait(child: subprocess.Popen[bytes], seconds: float, cancelled: Callable[[], bool] | None) -> int | None:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and not (cancelled is not None and cancelled()):
        with suppress(subprocess.TimeoutExpired):
            return child.wait(left if cancelled is None else min(left, LOOK))
    return None


def _end(child: subprocess.Popen[bytes]) -> bool:
    """Kill the group; whether its leader hangs where no signal reaches it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        # Somebody has to wait for it, should it ever end.
        threading.Thread(target=child.wait, daemon=True).start()
        return True
    return False


def _all(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(LARGEST)
