"""GPUs as NVML describes them, through nvidia-ml-py: the only module of the preflight that imports pynvml.

Called in a process of its own (see `reading`), because a broken driver may not answer. Integrated GPUs leave out much,
containers and WSL more, and old drivers hand out lists that make no sense: each question may go unanswered alone.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate import processes
from touchgate.devices.preflight.values import GpuReading, Listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SLOWED = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x200: "board limit",
    0x400: "reliability voltage",
}
"""NVML's clock event reasons that spoil a measurement. Idle, and clocks that somebody set, do not."""

_LISTS = (
    ("compute", "nvmlDeviceGetComputeRunningProcesses"),
    ("graphics", "nvmlDeviceGetGraphicsRunningProcesses"),
    ("mps", "nvmlDeviceGetMPSComputeRunningProcesses"),
)
_DRIVER_FILE = re.compile(r"/dev/nvidia.*|/dev/nv(map|host-.+|gpu(/.+)?)|/dev/dxg")
_MISMATCH = "driver and NVML library are of two versions (updated under a running driver?): restart the host"


@dataclass(frozen=True)
class Asked:
    """What NVML said. broken: why it said nothing at all. missing: there is no NVML to ask.

    files_tell: while NVML was open, this very process was seen to have the driver's files open. Some sandboxes don't show
    that of anybody.
    """

    gpus: tuple[GpuReading, ...] = ()
    driver: str | None = None
    broken: str = ""
    missing: bool = False
    shared_memory: bool = False
    files_tell: bool = False


@dataclass
class _Questions:
    """One GPU's questions: an answer, or None and, where one was due, a note."""

    pynvml: Any
    unasked: list[str] = field(default_factory=list)
    unsupported: set[str] = field(default_factory=set)
    unusable: str = ""

    def ask(self, what: str, question: Callable[[], Any]) -> Any:
        """What is not supported is no news; any other refusal is."""
        try:
            return question()
        except self.pynvml.NVMLError as error:
            kind = type(error).__name__
            if kind in ("NVMLError_NotSupported", "NVMLError_FunctionNotFound"):
                self.unsupported.add(what)
            elif kind in ("NVMLError_GpuIsLost", "NVMLError_ResetRequired"):
                self.unusable = f"{error}; the host has to be restarted"
            else:
                self.unasked.append(f"{what}: {error}")
        except AttributeError:
            self.unsupported.add(what)
        except Exception as error:  # noqa: BLE001 - NVMLLibraryMismatchError, and what a struct of another size makes of ctypes
            self.unasked.append(f"{what}: {error or type(error).__name__}")
        return None


def ask(uuids: Sequence[str], largest_pid: int, pynvml: Any = None, proc: Path = processes.PROC) -> Asked:
    """Every GPU or MIG device of `uuids`, or all that there are. largest_pid: above it no process id makes sense."""
    if pynvml is None:
        try:
            import pynvml as installed  # noqa: PLC0415  only where a driver is there, and in this process only
        except ImportError:
            return Asked(broken="nvidia-ml-py is not installed: pip install 'touchgate[cuda]'", missing=True)
        pynvml = installed
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _not_begun(error)
    except (AttributeError, OSError) as error:
        return Asked(broken=f"no NVML: {error}", missing=True)
    try:
        return _all(pynvml, uuids, largest_pid, proc)
    except pynvml.NVMLError as error:
        return Asked(broken=f"the NVIDIA driver does not answer: {error}")
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _not_begun(error: Exception) -> Asked:
    kind = type(error).__name__
    if kind == "NVMLError_LibraryNotFound":
        return Asked(broken="no NVML: libnvidia-ml.so.1 is not installed here", missing=True)
    if kind == "NVMLError_LibRmVersionMismatch":
        return Asked(broken=f"no NVML: {_MISMATCH}")
    return Asked(broken=f"no NVML: {error}")


def _all(pynvml: Any, uuids: Sequence[str], largest_pid: int, proc: Path) -> Asked:
    driver = _Questions(pynvml).ask("driver", pynvml.nvmlSystemGetDriverVersion)
    gpus: list[GpuReading] = []
    shared: list[bool] = []
    for uuid, handle in _handles(pynvml, uuids):
        if handle is None:
            gpus.append(GpuReading(uuid, "", unusable="the driver does not show this GPU"))
            continue
        gpu, integrated = _gpu(pynvml, handle, uuid, largest_pid)
        gpus.append(gpu)
        shared.append(integrated)
    files_tell = processes.uses_gpu("self", proc, _DRIVER_FILE) is True
    return Asked(tuple(gpus), _text(driver), shared_memory=bool(shared) and all(shared), files_tell=files_tell)


def _handles(pynvml: Any, uuids: Sequence[str]) -> Iterator[tuple[str, Any]]:
    if not uuids:
        for index in range(int(pynvml.nvmlDeviceGetCount())):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            yield _text(_Questions(pynvml).ask("uuid", lambda: pynvml.nvmlDeviceGetUUID(handle))) or f"GPU {index}", handle  # noqa: B023
        return
    for uuid in uuids:
        try:
            yield uuid, pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError as error:
            if type(error).__name__ not in ("NVMLError_NotFound", "NVMLError_InvalidArgument", "NVMLError_GpuNotFound"):
                raise
            yield uuid, None


def _gpu(pynvml: Any, handle: Any, uuid: str, largest_pid: int) -> tuple[GpuReading, bool]:
    """One GPU, and whether it has no memory of its own."""
    questions = _Questions(pynvml)
    whole = handle
    if uuid.startswith("MIG-"):
        # Errors and clocks are the whole GPU's.
        whole = questions.ask("its GPU", lambda: pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)) or handle
        parts = [(uuid, handle)]
    else:
        parts = _parts(pynvml, handle, uuid, questions)
    listed, garbage = _processes(pynvml, parts, questions, largest_pid)
    aside = _Questions(pynvml)  # what decides nothing by itself
    memory = aside.ask("memory", lambda: _memory(pynvml, handle))
    integrated = "memory" in aside.unsupported or (memory is not None and not memory.total)  # some drivers say 0 instead
    if integrated:
        memory = None
    volatile = getattr(pynvml, "NVML_VOLATILE_ECC", 0), getattr(pynvml, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", 1)
    errors = questions.ask("ECC errors", lambda: pynvml.nvmlDeviceGetTotalEccErrors(whole, volatile[1], volatile[0]))
    reasons = aside.ask("clocks", lambda: _clock_reasons(pynvml, whole)) or 0
    reading = GpuReading(
        uuid=uuid,
        name=_text(aside.ask("name", lambda: pynvml.nvmlDeviceGetName(whole))) or "a GPU without a name",
        listed=listed,
        garbage=garbage,
        uncorrected=None if errors is None else int(errors),
        throttled=tuple(word for bit, word in SLOWED.items() if reasons & bit),
        free=None if memory is None else int(memory.free),
        used=None if memory is None else int(memory.used),
        unusable=questions.unusable or aside.unusable,
        unasked=tuple(questions.unasked),
        unclear=tuple(note for note in aside.unasked if note.startswith("clocks")),
    )
    return reading, integrated


def _parts(pynvml: Any, handle: Any, uuid: str, questions: _Questions) -> list[tuple[str, Any]]:
    """The handles whose processes are a GPU's: itself, and where MIG is on its MIG devices."""
    mode = questions.ask("MIG mode", lambda: pynvml.nvmlDeviceGetMigMode(handle))
    if not mode or not mode[0]:
        return [(uuid, handle)]
    most = questions.ask("MIG devices", lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0
    parts = []
    for index in range(int(most)):
        try:
            part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError as error:
            if type(error).__name__ != "NVMLError_NotFound":  # no device is at that place
                questions.unasked.append(f"MIG device {index}: {error}")
            continue
        name = _text(questions.ask("uuid", lambda: pynvml.nvmlDeviceGetUUID(part)))  # noqa: B023
        parts.append((name or f"{uuid} MIG {index}", part))
    return parts


def _processes(
    pynvml: Any, parts: Sequence[tuple[str, Any]], questions: _Questions, largest_pid: int
) -> tuple[tuple[Listed, ...] | None, int]:
    """All that are listed, and how many records make no sense. None: one of the parts lists no compute processes."""
    found: list[Listed] = []
    garbage, whole = 0, True
    for uuid, handle in parts:
        memory = _Questions(pynvml).ask("memory", lambda: _memory(pynvml, handle))  # noqa: B023
        for kind, function in _LISTS:
            records = questions.ask(f"{kind} processes", lambda: _list(pynvml, function, handle))  # noqa: B023
            if records is None:
                # Not every GPU draws or knows MPS; every GPU computes.
                whole = whole and kind != "compute"
                continue
            for record in records:
                entry = _record(record, uuid, kind, largest_pid, memory.total if memory is not None else 0)
                if entry is None:
                    garbage += 1
                else:
                    found.append(entry)
    if found and not whole:
        questions.unasked.append("its driver lists a part of its processes only")
    return (tuple(found) if whole or found else None), garbage


def _list(pynvml: Any, function: str, handle: Any) -> Sequence[Any]:
    try:
        return list(getattr(pynvml, function)(handle))
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError) as error:
        older = getattr(pynvml, f"{function}_v2", None)
        if older is None or type(error).__name__ not in ("NVMLError_FunctionNotFound", "NVMLLibraryMismatchError"):
            raise
        return list(older(handle))


def _record(record: Any, uuid: str, kind: str, largest_pid: int, total: int) -> Listed | None:
    """None where a field can't be what it is said to be: a struct that driver and library read differently."""
    pid, memory = getattr(record, "pid", None), getattr(record, "usedGpuMemory", None)
    if not isinstance(pid, int) or not 0 < pid <= largest_pid:
        return None
    if memory is not None and (not isinstance(memory, int) or memory < 0 or (total and memory > total)):
        return None
    return Listed(uuid, pid, kind, memory)


def _memory(pynvml: Any, handle: Any) -> Any:
    """The second version leaves out of `used` what the driver reserves for itself."""
    version = getattr(pynvml, "nvmlMemory_v2", None)
    if version is not None:
        with suppress(pynvml.NVMLError, TypeError):
            return pynvml.nvmlDeviceGetMemoryInfo(handle, version=version)
    return pynvml.nvmlDeviceGetMemoryInfo(handle)


def _clock_reasons(pynvml: Any, handle: Any) -> int:
    try:
        return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except (pynvml.NVMLError, AttributeError):  # before release 535
        return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _text(value: object) -> str | None:
    """NVML's texts are bytes in old releases of its binding."""
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
