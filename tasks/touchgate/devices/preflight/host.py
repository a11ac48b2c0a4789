"""What of a host is told by its files: which driver is loaded, who has a GPU's file open, memory, load."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from enum import Enum
from pathlib import Path

from touchgate import processes
from touchgate.devices.preflight.values import Listed

ROOT = Path("/")
FIRST_NAMESPACE = "pid:[4026531836]"
"""The namespace of process ids that the host booted with (Linux: PROC_PID_INIT_INO)."""
TEGRA_FILE = re.compile(r"/dev/(nvhost-.+|nvmap|nvgpu(/.+)?)")
LARGEST_PID = 1 << 22
"""Linux's own limit, where /proc does not name a smaller one."""


class Driver(Enum):
    """Which NVIDIA driver is loaded."""

    NVIDIA = "nvidia"
    TEGRA = "tegra"
    """A Jetson's own."""
    WSL = "wsl"
    """Windows's, seen through /dev/dxg."""


def driver(root: Path = ROOT) -> Driver | None:
    """None: no NVIDIA driver is loaded, so there is nobody to be in the way of."""
    if sys.platform != "linux":
        return None
    if (root / "dev" / "dxg").exists():
        return Driver.WSL
    if any((root / "dev" / name).exists() for name in ("nvmap", "nvhost-gpu", "nvhost-ctrl", "nvgpu")):
        return Driver.TEGRA
    names = ("proc/driver/nvidia/version", "dev/nvidiactl", "dev/nvidia0")
    return Driver.NVIDIA if any((root / name).exists() for name in names) else None


def in_first_namespace(root: Path = ROOT) -> bool:
    """Whether a process id means here what it means to the driver."""
    with suppress(OSError):
        return str((root / "proc" / "self" / "ns" / "pid").readlink()) == FIRST_NAMESPACE
    return False


def largest_pid(root: Path = ROOT) -> int:
    """The largest process id that the driver may name; in a container it names those of the host."""
    with suppress(OSError, ValueError):
        if in_first_namespace(root):
            return int((root / "proc" / "sys" / "kernel" / "pid_max").read_text(encoding="ascii"))
    return LARGEST_PID


def openers(gpu: str, root: Path = ROOT) -> tuple[tuple[Listed, ...], int]:
    """Who has a Jetson's GPU files open, and how many processes of other users could not be looked at."""
    proc, found, hidden = root / "proc", [], 0
    for pid in processes.every(proc):
        uses = processes.uses_gpu(pid, proc, TEGRA_FILE)
        if uses is None:
            process = processes.look(pid, proc)
            hidden += process is not None and not processes.is_kernel_thread(pid, proc)
        elif uses:
            found.append(Listed(gpu, pid, "open", None, processes.look(pid, proc), uses=True))
    return tuple(found), hidden


def available_memory(root: Path = ROOT) -> int | None:
    """Bytes that can be had without swapping (MemAvailable)."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", _text(root / "proc" / "meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def load(root: Path = ROOT) -> float | None:
    """Processes that ran or waited to, over the last minute, for each processor."""
    with suppress(ValueError, IndexError):
        return float(_text(root / "proc" / "loadavg").split()[0]) / (os.cpu_count() or 1)
    return None


def memory_pressure(root: Path = ROOT) -> float | None:
    """Percent of the last ten seconds in which something waited for memory; None where the kernel does not count it."""
    found = re.search(r"^some avg10=(\d+(?:\.\d+)?) ", _text(root / "proc" / "pressure" / "memory"), re.MULTILINE)
    return float(found[1]) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
