"""How long kernels take on a GPU: CUDA events around each repetition, a cold L2 before it, and the GPU's own state.

Before every repetition a kernel reads a buffer of several times the L2's size: it leaves nothing of the inputs there and
no line that would have to be written back within the measured time. While it runs, the events and launches of the
repetition are queued behind it; a repetition whose beginning the GPU reached before all was queued would hold the CPU's time
too, so it is left out and taken again.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from touchgate.devices.stopwatch import Conditions, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from touchgate.devices.cuda import CudaDevice, CudaKernel

TIMES_L2 = 4
"""How much larger than the L2 what is read before a repetition is: caches do not drop the oldest line first."""
LEAST_FLUSH = 64 << 20
"""Bytes, so that the CPU has time to queue a repetition."""
UNKNOWN_FLUSH = 512 << 20
"""Bytes where the L2's size is unknown."""
ROUNDS = 4
"""How often late repetitions are taken again."""
THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
}
"""NVML's clocks event reasons that are a throttling; idle and clocks that were set are none."""


class CudaStopwatch:
    """Times what runs on a GPU. `late`: repetitions that were left out because the CPU was too slow."""

    def __init__(self, device: CudaDevice, flush: Path) -> None:
        """`flush`: the .cu file with the kernel read_4(const uint4*, unsigned*, long long)."""
        self._device = device
        driver = device.driver
        attribute, gpu = driver.device_attribute, driver.Context.get_device()
        self.l2: int | None = _known(gpu, attribute, "L2_CACHE_SIZE")
        clock, width = (_known(gpu, attribute, name) for name in ("MEMORY_CLOCK_RATE", "GLOBAL_MEMORY_BUS_WIDTH"))
        # kHz and bits; memory moves data at both edges of its clock.
        self.bandwidth: float | None = 2.0 * clock * 1e3 * width / 8 if clock and width else None
        self.late = 0
        size = max(TIMES_L2 * self.l2, LEAST_FLUSH) if self.l2 else UNKNOWN_FLUSH
        self._buffer = device.buffer(size)
        self._buffer.write(np.random.default_rng(1).integers(0, 256, size, np.uint8))
        self._sink = device.buffer(16)
        count, threads, packs = size // 16, 512, 4
        kernel = device.module(flush).kernel("read_4")
        grid = (-(-count // (threads * packs)), 1, 1)
        arguments = [self._buffer.pointer, self._sink.pointer, np.int64(count)]
        self._flush = self.prepared([(kernel, grid, (threads, 1, 1), arguments, 0)])
        self._nvml = _nvml_handle(device.facts.get("uuid"))

    def prepared(self, steps: Sequence[Step]) -> Callable[[], None]:
        """Launches, made ready to be queued together."""
        starts = [
            cast("CudaKernel", kernel).prepared(grid, block, arguments, shared)
            for kernel, grid, block, arguments, shared in steps
        ]
        if len(starts) == 1:
            return starts[0]

        def start() -> None:
            for one in starts:
                one()

        return start

    def timed(self, work: Callable[[], None], repetitions: int) -> list[float]:
        """Seconds of each repetition. Raises `LaunchFault`."""
        found: list[float] = self._device.guarded("timing", lambda: self._timed(work, repetitions), fatal=True)
        return found

    def _timed(self, work: Callable[[], None], repetitions: int) -> list[float]:
        event = self._device.driver.Event
        self.reset_persisting()
        found: list[float] = []
        late: list[float] = []
        for _ in range(ROUNDS):
            pairs = []
            for _ in range(repetitions - len(found)):
                begin, end = event(), event()
                self._flush()
                begin.record()
                work()
                end.record()
                pairs.append((begin, end, begin.query()))
            self._device.context.synchronize()
            for begin, end, was_late in pairs:
                (late if was_late else found).append(begin.time_till(end) * 1e-3)
            if len(found) == repetitions:
                break
        self.late += len(late)
        return found or late

    def conditions(self) -> Conditions:
        """The GPU's clocks, throttle reasons, temperature and power, as far as NVML tells them."""
        if self._nvml is None:
            return Conditions()
        nvml, handle = self._nvml
        reasons = _told(nvml, lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if reasons is None:
            reasons = _told(nvml, lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        power = _told(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        return Conditions(
            sm_clock=_told(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            memory_clock=_told(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            throttled=tuple(name for bit, name in THROTTLES.items() if (reasons or 0) & bit),
            temperature=_told(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            power=power / 1000 if power is not None else None,
        )

    def strangers(self) -> tuple[str, ...]:
        """Other processes that compute on this GPU, as NVML lists them.

        None where this process is not in the list: then its numbers are not those that are valid here.
        """
        if self._nvml is None:
            return ()
        nvml, handle = self._nvml
        listed = {int(one.pid) for one in _told(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or ()}
        if os.getpid() not in listed:
            return ()
        return tuple(f"{_name(pid)} (pid {pid}) on the GPU" for pid in sorted(listed - {os.getpid()}))

    def reset_persisting(self) -> None:
        """Take back what any kernel set aside in the L2 for itself: with it a card seemed four times as fast as it is."""
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache()


def _known(gpu: Any, attribute: Any, name: str) -> int | None:
    """An attribute, None where this PyCUDA or GPU has none, or says 0."""
    try:
        return int(gpu.get_attribute(getattr(attribute, name))) or None
    except Exception:  # noqa: BLE001  PyCUDA's own error class is only known to it; any failure means unknown
        return None


def _nvml_handle(uuid: object) -> tuple[Any, Any] | None:
    if not isinstance(uuid, str) or importlib.util.find_spec("pynvml") is None:
        return None
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
        return nvml, nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError:
        return None


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "a process"


def _told(nvml: Any, question: Callable[[], Any]) -> Any:
    """None where this GPU, driver or binding has no answer."""
    try:
        return question()
    except (nvml.NVMLError, AttributeError):
        return None
