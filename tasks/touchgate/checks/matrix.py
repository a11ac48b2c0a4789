"""The matrix: the checks, in suite full, that decode a folder's vectors on other instruction sets and by hostile settings.

Each is a leg of its own, so that it has its own verdict, seconds and key: a tool that is missing makes one leg unmeasured.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.checks import CheckSpec, DeclarationFault, check_name
from touchgate.devices.settings import SETTINGS, compiler_of, flags_of
from touchgate.devices.targets import TARGETS

if TYPE_CHECKING:
    from touchgate.devices import Device
    from touchgate.gate.model import CheckDeclaration, Lane

LEG = "leg"
"""The option that holds a leg's name."""
LEGS = (*TARGETS, *SETTINGS)
OPTION = "legs"
"""The key of a declaration that chooses among them."""


def specs(lane: Lane, declaration: CheckDeclaration) -> Iterator[CheckSpec]:
    """The checks of the legs, named `<lane>:<leg>`: of all, or of those that `legs` lists. Raises `DeclarationFault`."""
    for leg in chosen(declaration.options.get(OPTION)):
        yield CheckSpec(
            name=check_name(lane, declaration, leg),
            lane=lane.name,
            kind=declaration.kind,
            about=f"{declaration.target} emulated, {about(leg)}",
            target=declaration.target,
            options={**declaration.options, LEG: leg},
            places=("emulated",),
            suites=("full",),
            timeout=lane.timeout * 60,
            env=lane.env,
            where=str(declaration.at),
        )


def chosen(value: object) -> tuple[str, ...]:
    """What `legs` says: names, in their order here; all for None, none for an empty list. Raises `DeclarationFault`."""
    if value is None:
        return LEGS
    if not isinstance(value, (list, tuple)):
        raise DeclarationFault(f"`{OPTION}` is a list of names, not {value!r}; there are {', '.join(LEGS)}")
    for name in value:
        if name not in LEGS:
            raise DeclarationFault(f"`{OPTION}`: {name!r} is none of {', '.join(LEGS)}")
    return tuple(leg for leg in LEGS if leg in value)


def about(leg: str) -> str:
    """What a leg is, for a person."""
    return SETTINGS[leg].about if leg in SETTINGS else f"on {leg}: {TARGETS[leg].about}"


def tools(leg: str) -> tuple[str, ...]:
    """The tools whose versions belong to a leg's key, by the names of `touchgate.results.tools`."""
    if leg in SETTINGS:
        return (SETTINGS[leg].program or "g++",)
    target = TARGETS[leg]
    return ("g++",) if target.is_here else (target.compiler, target.emulators[-1])


def facts(leg: str) -> dict[str, str]:
    """What more belongs to it: the processor, where it is compiled for that very one."""
    return {"processor": _processor()} if leg in SETTINGS and SETTINGS[leg].is_native else {}


@lru_cache(maxsize=1)
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    named = ("model name", "flags", "Features", "CPU part", "processor ", "cpu")
    return " | ".join(dict.fromkeys(line for line in lines if line.startswith(named) and not line.startswith("cpu MHz")))


def open_device(leg: str, build_dir: Path) -> Device:
    """The device of a leg. Raises `Unavailable` with the package to install."""
    from touchgate.devices import crossed, emulated  # noqa: PLC0415  numpy

    if leg in SETTINGS:
        setting = SETTINGS[leg]
        return emulated.open_device(build_dir, compiler=compiler_of(setting, os.environ), flags=flags_of(setting))
    target = TARGETS[leg]
    return emulated.open_device(build_dir) if target.is_here else crossed.open_device(build_dir, target)
