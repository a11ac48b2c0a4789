"""Reads the host once, in a process of its own: a call into a broken driver may never come back."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate import processes
from touchgate.devices.preflight import apart, host, nvml
from touchgate.devices.preflight.host import Driver
from touchgate.devices.preflight.values import GpuReading, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SETTLE = (0.3, 0.7, 1.5)
"""Seconds to the next looks while somebody is listed who is gone or ending.

A process gives up a lease before the driver has taken down what it had on the GPU.
"""
_MARK = "touchgate-reading:"


def read(uuids: Sequence[str], *, pynvml: Any = None, root: Path = host.ROOT, settle: Sequence[float] = SETTLE) -> Reading:
    """The GPUs or MIG devices of `uuids` (none: all), and their host. Asks the driver in this very process.

    pynvml, root: for tests, a module in its place and a folder in the place of /.
    """
    found = _once(uuids, pynvml, root)
    for pause in settle:
        listed = [entry.process for gpu in found.gpus for entry in gpu.listed or ()]
        if not any(process is None or process.ending for process in listed):
            break
        time.sleep(pause)
        found = _once(uuids, pynvml, root)
    return found


def _once(uuids: Sequence[str], pynvml: Any, root: Path) -> Reading:
    kind = host.driver(root)
    asked = nvml.ask(uuids, host.largest_pid(root), pynvml, root / "proc")
    gpus = tuple(_named(gpu, root, asked.files_tell) for gpu in asked.gpus)
    unseen: list[str] = []
    if asked.broken and not (kind is Driver.TEGRA and asked.missing):
        unseen.append(asked.broken)
    if kind is Driver.TEGRA and (asked.missing or any(gpu.listed is None for gpu in gpus)):
        gpus, hidden = _by_open_files(gpus, root)
        if hidden:
            unseen.append(f"whether other users' processes ({hidden} of them) have the GPU open: only root sees that")
    if kind is Driver.WSL:
        # Its list is empty whoever computes.
        unseen.append("which processes use the GPU: Windows does not show them to WSL")
    return Reading(
        gpus=gpus,
        driver=asked.driver,
        unified=asked.shared_memory or kind is Driver.TEGRA,
        first_namespace=host.in_first_namespace(root),
        available=host.available_memory(root),
        load=host.load(root),
        pressure=host.memory_pressure(root),
        unseen=tuple(unseen),
    )


def _named(gpu: GpuReading, root: Path, files_tell: bool) -> GpuReading:
    """With who each process is."""
    if gpu.listed is None:
        return gpu
    proc = root / "proc"
    return replace(
        gpu,
        listed=tuple(
            replace(entry, process=processes.look(entry.pid, proc), uses=_uses(entry.pid, proc, files_tell))
            for entry in gpu.listed
        ),
    )


def _uses(pid: int, proc: Path, files_tell: bool) -> bool | None:
    """Where open files are not shown at all, seeing none is no news."""
    uses = processes.uses_gpu(pid, proc)
    return uses if uses or files_tell else None


def _by_open_files(gpus: Sequence[GpuReading], root: Path) -> tuple[tuple[GpuReading, ...], int]:
    """A Jetson has one GPU, and whoever uses it has its files open."""
    known = gpus or (GpuReading("the Jetson's GPU", "Jetson", listed=None),)
    listed, hidden = host.openers(known[0].uuid, root)
    return tuple(replace(gpu, listed=listed) if gpu.listed is None else gpu for gpu in known), hidden


def read_apart(
    uuids: Sequence[str],
    seconds: float,
    environ: Mapping[str, str] = os.environ,
    cancelled: Callable[[], bool] | None = None,
) -> Reading:
    """`read` in a child that is given so many seconds. One that does not answer leaves all unknown."""
    ended = apart.run(_command(uuids), seconds, environ, cancelled=cancelled)
    if ended.status is None:
        hangs = f"; the process that asked, pid {ended.pid}, hangs in it and can't be ended" if ended.hangs else ""
        return Reading(unseen=(f"the NVIDIA driver does not answer within {seconds:g} s{hangs}",))
    lines = ended.out.decode("utf-8", "replace").splitlines()
    answer = next((line for line in reversed(lines) if line.startswith(_MARK)), "")
    if ended.status == 0 and answer:
        with suppress(ValueError, KeyError, TypeError):
            return Reading.from_json(json.loads(answer[len(_MARK) :]))
    return Reading(unseen=(f"asking the NVIDIA driver failed: {_words(ended.status, ended.err)}",))


def _words(status: int, err: bytes) -> str:
    if status < 0:
        with suppress(ValueError):
            return f"the process that asked was ended by {signal.Signals(-status).name}"
    said = err.decode("utf-8", "replace").strip().splitlines()
    return said[-1] if said else f"the process that asked ended with status {status} and no answer"


def _command(uuids: Sequence[str]) -> list[str]:
    # Not `-m`: that puts the working folder first on sys.path, where a file named like a library would be imported instead.
    path = [str(Path(entry).absolute()) for entry in sys.path if entry and Path(entry) != Path.cwd()]
    code = f"import sys; sys.path[:] = {path!r}; from touchgate.devices.preflight.reading import main; main(sys.argv[1:])"
    return [sys.executable, "-c", code, *uuids]


def main(uuids: Sequence[str]) -> None:
    """The child: the reading as one marked line, since a driver's library may print of its own."""
    print(f"\n{_MARK}{json.dumps(read(uuids).to_json())}", flush=True)
