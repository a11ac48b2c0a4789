"""The machines that a .cu file is emulated for, beside the one that runs: compilers that cross, programs that imitate.

Debian's names throughout; where another system has the same programs under the same names, they are taken likewise.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from touchgate.devices import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Target:
    """One instruction set.

    name: Debian's, or the common one. machines: what `platform.machine()` says on it. compiler: the C++ compiler for it.
    emulators: programs that run its programs; the first that is there is taken. about: how it differs from others.
    """

    name: str
    machines: tuple[str, ...]
    compiler: str
    emulators: tuple[str, ...]
    about: str

    @property
    def packages(self) -> str:
        """What to install in Debian."""
        return f"g++-{self.compiler.removesuffix('-g++').replace('_', '-')} qemu-user-static"

    @property
    def is_here(self) -> bool:
        """Whether this machine is of that kind."""
        return platform.machine() in self.machines


def _target(name: str, machines: str, triple: str, qemu: str, about: str) -> Target:
    return Target(name, tuple(machines.split()), f"{triple}-g++", (f"qemu-{qemu}-static", f"qemu-{qemu}"), about)


TARGETS = {
    target.name: target
    for target in (
        _target("x86_64", "x86_64 AMD64", "x86_64-linux-gnu", "x86_64", "64 bits, little-endian, signed char"),
        _target("aarch64", "aarch64 arm64", "aarch64-linux-gnu", "aarch64", "64 bits, little-endian, unsigned char"),
        _target("armhf", "armv7l", "arm-linux-gnueabihf", "arm", "32 bits, little-endian, unsigned char"),
        _target("riscv64", "riscv64", "riscv64-linux-gnu", "riscv64", "64 bits, little-endian, unsigned char"),
        _target("ppc64el", "ppc64le", "powerpc64le-linux-gnu", "ppc64le", "64 bits, little-endian, unsigned char"),
        _target("s390x", "s390x", "s390x-linux-gnu", "s390x", "64 bits, big-endian, unsigned char"),
    )
}
"""By name."""


def program_of(names: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> str | None:
    """The first of the programs that is in PATH: its absolute path."""
    path = environ.get("PATH", os.defpath)
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def tools_of(target: Target, environ: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """The compiler and the emulator of a target: absolute paths. Raises `Unavailable` with the packages to install."""
    compiler, emulator = program_of((target.compiler,), environ), program_of(target.emulators, environ)
    if compiler is None or emulator is None:
        missing = [name for name, found in ((target.compiler, compiler), (target.emulators[0], emulator)) if not found]
        raise Unavailable(f"no {' and no '.join(missing)} in PATH (Debian: apt-get install {target.packages})")
    return compiler, emulator


def version_of(program: str) -> str:
    """The first line that a program tells of its version; "" where it does not."""
    try:
        told = subprocess.run(
            [program, "--version"], capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout.partition("\n")[0].strip()
