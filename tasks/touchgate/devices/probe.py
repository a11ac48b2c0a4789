"""Which GPU there is, asked cheaply and without PyCUDA: a machine without a driver pays for a few file names only."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate.devices import nvcc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NO_DRIVER = "no NVIDIA driver on this machine"
NO_PYCUDA = "PyCUDA is not installed: pip install 'touchgate[cuda]'"
NO_DEVICE = "the NVIDIA driver shows no GPU"

_QUERY = "uuid,name,driver_version,compute_cap,ecc.mode.current,mig.mode.current,memory.total,index"


@dataclass(frozen=True)
class Gpu:
    """One GPU, as the driver describes it. None: it does not say (integrated GPUs leave out much).

    index: its number among all GPUs of the host. capability: for example "9.0". memory: bytes.
    """

    name: str
    uuid: str | None = None
    index: int = 0
    driver: str | None = None
    capability: str | None = None
    ecc: bool | None = None
    mig: bool | None = None
    memory: int | None = None

    def key_facts(self) -> dict[str, object]:
        """Return what of it can change a result. The UUID can't: equal GPUs answer for each other."""
        return {
            "name": self.name,
            "capability": self.capability,
            "driver": self.driver,
            "ecc": self.ecc,
            "mig": self.mig,
            "memory": self.memory,
        }

    def line(self) -> str:
        """For a report's header."""
        known = [f"sm_{self.capability.replace('.', '')}" if self.capability else "", self._driver_words()]
        inside = ", ".join(word for word in known if word)
        return f"{self.name} ({inside})" if inside else self.name

    def _driver_words(self) -> str:
        return f"driver {self.driver}" if self.driver else ""


@dataclass(frozen=True)
class Choice:
    """The GPU to use, or None, and why. shown: all that CUDA_VISIBLE_DEVICES shows, gpu first. present: all of the host."""

    gpu: Gpu | None
    reason: str
    shown: tuple[Gpu, ...] = ()
    present: tuple[Gpu, ...] = ()


def choose(wish: str, environ: Mapping[str, str] = os.environ) -> Choice:
    """`wish`: "auto" or "gpu" (look for one), or "emulated" (don't)."""
    if wish == "emulated":
        return Choice(None, "emulation was asked for")
    found = look(environ)
    missing = found.reason or _missing_tool(environ)
    if missing:
        return Choice(None, missing)
    first = found.shown[0]
    return Choice(first, f"{first.name} is there", found.shown, found.present)


@dataclass(frozen=True)
class Seen:
    """The GPUs that CUDA_VISIBLE_DEVICES shows, all of the host, and why none is shown ("" where one is)."""

    shown: tuple[Gpu, ...]
    present: tuple[Gpu, ...]
    reason: str = ""


def look(environ: Mapping[str, str] = os.environ) -> Seen:
    """Find the host's GPUs; what measuring on them takes beside (PyCUDA, nvcc) is not asked for."""
    if not _driver_present(environ):
        return Seen((), (), NO_DRIVER)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and not _tokens(visible):
        return Seen((), (), f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU")
    gpus = _ask(environ)
    if isinstance(gpus, str):
        return Seen((), (), gpus)
    shown = visible_of(gpus, visible)
    none = f"CUDA_VISIBLE_DEVICES={visible!r} names no GPU of this host" if gpus else NO_DEVICE
    return Seen(tuple(shown), tuple(gpus), "" if shown else none)


def _missing_tool(environ: Mapping[str, str]) -> str:
    """Say what a GPU is of no use without; empty where nothing is missing."""
    if importlib.util.find_spec("pycuda") is None:
        return NO_PYCUDA
    return nvcc.MISSING if nvcc.find(environ) is None else ""


def driver_version() -> str | None:
    """Return the driver's version, such as "580.65.06", where NVML tells it."""
    gpus = _ask_nvml() if importlib.util.find_spec("pynvml") is not None else ""
    return gpus[0].driver if isinstance(gpus, list) and gpus else None


def visible_of(gpus: Sequence[Gpu], visible: str | None) -> list[Gpu]:
    """Return what CUDA shows of `gpus` under a value of CUDA_VISIBLE_DEVICES.

    Entries are numbers or beginnings of UUIDs; the first that names no GPU ends the list. Numbers count as NVML does:
    CUDA does so too under CUDA_DEVICE_ORDER=PCI_BUS_ID, and where all GPUs are equal.
    """
    if visible is None:
        return list(gpus)
    shown: list[Gpu] = []
    for token in _tokens(visible):
        if token.isdecimal():
            match = next((gpu for gpu in gpus if gpu.index == int(token)), None)
        else:
            starting = [gpu for gpu in gpus if gpu.uuid is not None and gpu.uuid.lower().startswith(token.lower())]
            match = starting[0] if len(starting) == 1 else None
        if match is None or match in shown:
            break
        shown.append(match)
    return shown


def _tokens(visible: str) -> list[str]:
    """Return the entries up to the first that is empty or negative."""
    tokens: list[str] = []
    for token in (part.strip() for part in visible.split(",")):
        if not token or token.startswith("-"):
            break
        tokens.append(token)
    return tokens


def _driver_present(environ: Mapping[str, str]) -> bool:
    """Whether anything of the driver lies on this machine. Tells nothing about whether it works."""
    if sys.platform == "darwin":
        return False
    devices = (
        "/dev/nvidiactl",
        "/dev/nvidia0",
        "/dev/nvgpu",
        "/dev/nvhost-gpu",
        "/dev/dxg",
        "/proc/driver/nvidia/version",
    )
    return any(Path(path).exists() for path in devices) or _nvidia_smi(environ) is not None


def _nvidia_smi(environ: Mapping[str, str]) -> str | None:
    return shutil.which("nvidia-smi", path=environ.get("PATH", os.defpath))


def _ask(environ: Mapping[str, str]) -> list[Gpu] | str:
    """Every GPU of the host, through NVML, else through nvidia-smi."""
    if importlib.util.find_spec("pynvml") is not None:
        answer = _ask_nvml()
        if isinstance(answer, list):
            return answer
    else:
        answer = "nvidia-ml-py is not installed: pip install 'touchgate[cuda]'"
    program = _nvidia_smi(environ)
    return _ask_nvidia_smi(program, environ) if program is not None else answer


def _ask_nvml() -> list[Gpu] | str:
    import pynvml  # noqa: PLC0415  only where a driver is there

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"the NVIDIA driver does not answer: {error}"
    try:
        driver = _asked(pynvml, pynvml.nvmlSystemGetDriverVersion)
        count = int(pynvml.nvmlDeviceGetCount())
        return [_nvml_gpu(pynvml, index, _text(driver)) for index in range(count)]
    except pynvml.NVMLError as error:
        return f"the NVIDIA driver does not answer: {error}"
    finally:
        pynvml.nvmlShutdown()


def _nvml_gpu(pynvml: Any, index: int, driver: str | None) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    capability = _asked(pynvml, lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    ecc = _asked(pynvml, lambda: pynvml.nvmlDeviceGetEccMode(handle)[0])
    mig = _asked(pynvml, lambda: pynvml.nvmlDeviceGetMigMode(handle)[0])
    memory = _asked(pynvml, lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    return Gpu(
        name=_text(_asked(pynvml, lambda: pynvml.nvmlDeviceGetName(handle))) or "a GPU without a name",
        uuid=_text(_asked(pynvml, lambda: pynvml.nvmlDeviceGetUUID(handle))),
        index=index,
        driver=driver,
        capability=f"{capability[0]}.{capability[1]}" if capability else None,
        ecc=None if ecc is None else bool(ecc),
        mig=None if mig is None else bool(mig),
        # Integrated GPUs share the host's memory and say 0, or nothing.
        memory=int(memory) if memory else None,
    )


def _asked(pynvml: Any, question: Callable[[], Any]) -> Any:
    """None where this GPU or driver has no answer."""
    try:
        return question()
    except (pynvml.NVMLError, AttributeError):
        return None


def _text(value: object) -> str | None:
    """NVML's texts are bytes in old releases of its binding."""
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _ask_nvidia_smi(program: str, environ: Mapping[str, str]) -> list[Gpu] | str:
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
            env={**environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nvidia-smi does not answer: {error}"
    if answer.returncode != 0:
        told = (answer.stdout.strip() or answer.stderr.strip() or f"exit {answer.returncode}").splitlines()[0]
        return f"nvidia-smi: {told}"
    return parse_nvidia_smi(answer.stdout)


def parse_nvidia_smi(text: str) -> list[Gpu]:
    """Read the rows of `nvidia-smi --query-gpu`. What it does not know is None."""
    gpus: list[Gpu] = []
    for line in text.splitlines():
        fields: list[str | None] = [_known(field) for field in line.split(",")]
        if len(fields) != len(_QUERY.split(",")):
            continue
        uuid, name, driver, capability, ecc, mig, memory, index = fields
        gpus.append(
            Gpu(
                name=name or "a GPU without a name",
                uuid=uuid,
                index=int(index) if index and index.isdecimal() else len(gpus),
                driver=driver,
                capability=capability,
                ecc=None if ecc is None else ecc == "Enabled",
                mig=None if mig is None else mig == "Enabled",
                memory=int(memory) * 1024 * 1024 if memory and memory.isdecimal() and int(memory) else None,
            )
        )
    return gpus


def _known(field: str) -> str | None:
    """Nvidia-smi writes [N/A], [Not Supported] and the like."""
    field = field.strip()
    return None if not field or field.startswith("[") or field == "N/A" else field
