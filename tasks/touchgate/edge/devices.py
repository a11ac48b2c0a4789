"""Which device this run measures on, decided once, and what of it belongs into a key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from touchgate.gate.values import NamedTuple

if TYPE_CHECKING:
    from touchgate.devices.probe import Gpu


class DeviceChoice(NamedTuple):
    """gpu: the one to use, or None. reason: why there is none. gpu_only: emulation does not stand in (--device gpu).

    shown: all that CUDA_VISIBLE_DEVICES shows, gpu first. present: all of the host.
    """

    gpu: Gpu | None
    reason: str
    gpu_only: bool
    shown: tuple[Gpu, ...] = ()
    present: tuple[Gpu, ...] = ()

    @property
    def uuid(self) -> str | None:
        """The chosen GPU's UUID."""
        return self.gpu.uuid if self.gpu is not None else None

    def facts(self, place: str) -> Mapping[str, object]:
        """What of the device can change a result at `place`. A GPU's UUID is not in it: equal GPUs answer for each other."""
        import platform  # noqa: PLC0415  a run without checks asks for no facts

        machine = {"system": platform.system(), "machine": platform.machine()}
        if place == "gpu" and self.gpu is not None:
            return {**machine, **self.gpu.key_facts()}
        return machine

    def line(self, environ: Mapping[str, str]) -> str:
        """For the report's header: the GPU with driver and nvcc, or what stands in for it."""
        if self.gpu is not None:
            from touchgate.results.tools import versions  # noqa: PLC0415

            release = re.search(r"V(\d+(?:\.\d+)+)", versions(["nvcc"], environ)["nvcc"])
            return f"{self.gpu.line()}, nvcc {release[1]}" if release else self.gpu.line()
        return f"none: {self.reason}" if self.gpu_only else f"emulated ({self.reason})"


def choose(wish: str, environ: Mapping[str, str]) -> DeviceChoice:
    """The device for --device auto, gpu or emulated. Only here is a GPU looked for, and only when a lane runs."""
    from touchgate.devices import probe  # noqa: PLC0415  an untouched run does not look for a GPU

    if wish == "emulated":
        return DeviceChoice(None, "asked for with --device emulated", gpu_only=False)
    found = probe.choose(wish, environ)
    return DeviceChoice(found.gpu, found.reason, wish == "gpu", found.shown, found.present)
