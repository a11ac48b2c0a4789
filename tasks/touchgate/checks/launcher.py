"""Starts a check's worker process, waits for it, and turns whatever happens to it into an outcome.

The worker leads a process group of its own: a timeout or an interrupt ends the whole group, the check's children included.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from touchgate.checks import CheckSpec, Stopped
from touchgate.outcome import Outcome, Verdict

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""

KERNEL_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
"""Signals by which the code under test ends its own process: that code failed. Others came from outside."""

LOG_TAIL = 20


class Launcher:
    """Runs workers, from any number of threads, until `stop` is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: set[subprocess.Popen[bytes]] = set()
        self._stopping = False

    def stop(self) -> None:
        """End every live worker's group; no new one starts. Returns when all are gone."""
        with self._lock:
            self._stopping = True
            live = list(self._live)
        for process in live:
            _signal_group(process, signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        for process in live:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _signal_group(process, signal.SIGKILL)
        for process in live:
            # A member that ignores SIGTERM may outlive the group's leader.
            _signal_group(process, signal.SIGKILL)

    def run(
        self,
        spec: CheckSpec,
        *,
        place: str,
        root: Path,
        build_dir: Path,
        environ: Mapping[str, str],
        log: Path,
        gpu: str | None = None,
        fds: tuple[int, ...] = (),
    ) -> Outcome:
        """Run one check in a worker and wait. Raises `Stopped` when the run is stopped meanwhile.

        environ: exactly what the check sees. log: where its output goes. fds: the lease's descriptors, which the worker
        inherits and hands on. gpu: the UUID to use.
        """
        temporary = Path(tempfile.mkdtemp(prefix="touchgate-check-"))
        try:
            scratch = temporary / "scratch"
            scratch.mkdir()
            request = {
                "spec": {**asdict(spec), "options": dict(spec.options)},
                "place": place,
                "root": str(root),
                "build_dir": str(build_dir),
                "temporary": str(scratch),
                "reply": str(temporary / "reply.json"),
                "gpu": gpu,
                "fds": list(fds),
                "parent": os.getpid(),
            }
            return self._wait(spec, request, environ, log, fds)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _wait(
        self, spec: CheckSpec, request: dict[str, Any], environ: Mapping[str, str], log: Path, fds: tuple[int, ...]
    ) -> Outcome:
        began = time.monotonic()
        with log.open("wb") as output:
            with self._lock:
                if self._stopping:
                    raise Stopped
                process = subprocess.Popen(
                    _command(),
                    cwd=request["root"],
                    env=dict(environ),
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=fds,
                    start_new_session=True,
                )
                self._live.add(process)
            timed_out = False
            try:
                process.communicate(json.dumps(request).encode(), timeout=spec.timeout)
            except subprocess.TimeoutExpired:
                timed_out = True
                _end_group(process)
            finally:
                with self._lock:
                    self._live.discard(process)
        seconds = time.monotonic() - began
        if self._stopping and process.returncode != 0:
            raise Stopped
        if timed_out:
            # What the check started must not outlive it; the group was ended.
            reason = f"stopped after {spec.timeout / 60:g} minutes; its lane's `timeout:` sets the limit ({spec.where})"
            return Outcome(Verdict.TIMED_OUT, seconds=seconds, reason=reason, detail=log_tail(log))
        return _outcome(request, process.returncode, seconds, log)


def _command() -> list[str]:
    # Not `-m`: that puts the checkout first on sys.path, where a file named like a library would be imported in its stead.
    path = [str(Path(entry).absolute()) for entry in sys.path if entry and Path(entry) != Path.cwd()]
    code = f"import sys; sys.path[:] = {path!r}; from touchgate.checks.worker import main; main()"
    return [sys.executable, "-c", code]


def _outcome(request: dict[str, Any], status: int, seconds: float, log: Path) -> Outcome:
    try:
        return Outcome.from_json(json.loads(Path(request["reply"]).read_text(encoding="utf-8")))
    except FileNotFoundError:
        # No reply: how the worker ended tells what happened.
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Outcome(Verdict.ERROR, seconds=seconds, reason=f"the worker's reply can't be read: {error}")
    if status < 0:
        name = signal.Signals(-status).name
        crashed = -status in KERNEL_FAULTS and request["place"] != "host"
        verdict = Verdict.FAILED if crashed else Verdict.ERROR
        reason = f"the code under test crashed: {name}" if crashed else f"the worker was ended by {name}"
        return Outcome(verdict, seconds=seconds, reason=reason, detail=log_tail(log))
    reason = f"the worker ended with status {status} and no result"
    return Outcome(Verdict.ERROR, seconds=seconds, reason=reason, detail=log_tail(log))


def log_tail(log: Path, lines: int = LOG_TAIL) -> tuple[str, ...]:
    """The last lines of a log, for the report; reads at most 64 KiB."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65536))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-lines:])


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        # Gone already; on macOS a group of zombies answers EPERM.
        return


def _end_group(process: subprocess.Popen[bytes]) -> None:
    _signal_group(process, signal.SIGTERM)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        _signal_group(process, signal.SIGKILL)
        process.wait()
    _signal_group(process, signal.SIGKILL)
