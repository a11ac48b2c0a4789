"""Compilers' settings that a kernel of integers must not notice: no optimisation, all of it, another compiler."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

from touchgate.devices import Unavailable, compilers
from touchgate.devices.targets import program_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from touchgate.devices.compilers import Compiler

NATIVE = {"x86_64": "-march=native", "s390x": "-march=native"}
"""By machine, the option for the processor that compiles; `-mcpu=native` elsewhere."""
_NEITHER = ("riscv64", "armv7l")
"""Machines whose compilers may know no such option."""


@dataclass(frozen=True)
class Setting:
    """One way to compile for this machine.

    name: of its leg. flags: behind all others. is_native: for this very processor. program: the compiler, or "" for the one
    that is taken anyway. package: what brings it in Debian.
    """

    name: str
    flags: tuple[str, ...] = ()
    is_native: bool = False
    program: str = ""
    package: str = "g++"
    about: str = ""


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("O0", ("-O0",), about="without optimisation"),
        Setting("O3-fast-math", ("-O3", "-ffast-math"), is_native=True, about="with -O3 -ffast-math -march=native"),
        Setting("clang", program="clang++", package="clang", about="by clang++"),
    )
}
"""By name."""


def flags_of(setting: Setting, machine: str = "") -> tuple[str, ...]:
    """The flags of a setting on a machine (this one)."""
    machine = machine or platform.machine()
    native = () if machine in _NEITHER else (NATIVE.get(machine, "-mcpu=native"),)
    return (*setting.flags, *(native if setting.is_native else ()))


def compiler_of(setting: Setting, environ: Mapping[str, str] = os.environ) -> Compiler:
    """The compiler of a setting. Raises `Unavailable` with the package that brings it."""
    if not setting.program:
        return compilers.find(environ)
    program = program_of((setting.program,), environ)
    if program is None:
        raise Unavailable(f"no {setting.program} in PATH (Debian: apt-get install {setting.package})")
    return compilers.named(program, environ)
