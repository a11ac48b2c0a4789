"""The check kind `compile`: a .cu file compiles for each listed architecture; registers and spills are kept.

It needs nvcc and no GPU. Other kinds add it for their kernels through `compile_specs`.
"""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from touchgate.checks import CheckSpec, DeclarationFault, Inputs, check_name
from touchgate.checks.includes import with_includes
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from touchgate.checks import Context
    from touchgate.devices.nvcc import Cubin
    from touchgate.gate.model import CheckDeclaration, Lane

ARCHITECTURES = ("87", "90", "121")
"""Jetson Orin, Hopper, DGX Spark: what suite smoke compiles for."""
ALL_ARCHITECTURES = ("75", "80", "86", "87", "89", "90", "100", "110", "120", "121")
"""What suite full compiles for."""

_OPTION = "a list of compute capabilities without the dot, such as [87, 90, 121]"
ARCHITECTURES_OPTION = f"{_OPTION}; default {', '.join(ARCHITECTURES)}"
"""What the option is, wherever a kind takes it."""
_ARCHITECTURE = re.compile(r"(?:sm_)?([1-9][0-9]{1,2}[af]?)")
_LINES = 40


def compile_specs(
    lane: Lane, declaration: CheckDeclaration, source: str, suites: Sequence[str] | None = None
) -> list[CheckSpec]:
    """Return the checks `<lane>:compile` and `<lane>:compile-full` of a .cu file.

    The first compiles for the default or declared architectures in `suites` (the lane's, if None), the second for all
    of them in suite full. `source`: relative to the root. Raises `DeclarationFault` for a bad `architectures` option.
    """
    chosen = architectures_of(declaration.options.get("architectures"))
    specs = []
    for suffix, listed, where in (
        ("compile", chosen or ARCHITECTURES, tuple(lane.suites if suites is None else suites)),
        ("compile-full", ALL_ARCHITECTURES, ("full",)),
    ):
        specs.append(
            CheckSpec(
                name=check_name(lane, declaration, suffix),
                lane=lane.name,
                kind="compile",
                about=f"{source} compiles for sm_{', sm_'.join(listed)}",
                target=source,
                # `declared`: the settings' architectures do not replace what a declaration asks for.
                options={"architectures": list(listed), "declared": bool(chosen) or suffix != "compile"},
                places=("host",),
                suites=where,
                timeout=lane.timeout * 60,
                env=lane.env,
                where=str(declaration.at),
            )
        )
    return specs


def architectures_of(value: object) -> tuple[str, ...]:
    """Return what `architectures` says, without "sm_"; nothing for None. Raises `DeclarationFault`."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not value:
        raise DeclarationFault(f"architectures: {value!r} is not {_OPTION}")
    found = []
    for entry in value:
        match = _ARCHITECTURE.fullmatch(str(entry)) if isinstance(entry, (int, str)) else None
        if match is None or isinstance(entry, bool):
            raise DeclarationFault(f"architectures: {entry!r} is no compute capability: give {_OPTION}")
        found.append(match[1])
    return tuple(dict.fromkeys(found))


class CompileKind:
    """`compile: kernels/gemv/gemv.cu`."""

    name = "compile"
    options: Mapping[str, str] = MappingProxyType({"architectures": ARCHITECTURES_OPTION})

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:
        """Two checks, see `compile_specs`."""
        target = declaration.target
        if not target.endswith(".cu"):
            raise DeclarationFault(f"`compile`: '{target}' is no .cu file")
        if target.startswith("/") or posixpath.normpath(target).startswith(".."):
            raise DeclarationFault(f"`compile`: '{target}' is not below the repository's root")
        if not (root / target).is_file():
            raise DeclarationFault(f"`compile`: there is no file '{target}'")
        return compile_specs(lane, declaration, target)

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:
        """Return the .cu file with what it includes, nvcc, and what nvcc reads from the environment."""
        from touchgate.devices import nvcc  # noqa: PLC0415  only checks of this kind need it

        extra = {name: os.environ[name] for name in nvcc.VARIABLES if os.environ.get(name)}
        extra["architectures"] = ",".join(_listed(spec))
        return with_includes(Inputs((), ("nvcc",), extra), spec.target, root, place, os.environ, spec.env)

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Compile for every architecture; the log has each kernel's registers, shared memory and spills."""
        from touchgate.devices import nvcc  # noqa: PLC0415

        begin = monotonic()
        program = nvcc.find()
        if program is None:
            return Outcome(Verdict.UNMEASURED, reason=nvcc.MISSING)
        attempts = _compile_all(context.root / spec.target, _listed(spec), context.build_dir)
        for attempt in attempts:
            print(attempt.lines())
        facts = {"nvcc": nvcc.version(program), "architectures": {a.architecture: a.facts() for a in attempts}}
        verdict, reason, detail = _judged(spec.target, attempts)
        return Outcome(verdict, seconds=monotonic() - begin, reason=reason, detail=detail, cases=len(attempts), facts=facts)


@dataclass(frozen=True)
class _Attempt:
    """One architecture: the cubin, or the message, or why it could not be tried."""

    architecture: str
    cubin: Cubin | None = None
    message: str = ""
    missing: str = ""

    def facts(self) -> dict[str, Any]:
        """Each kernel's resources, plain data."""
        if self.cubin is None:
            return {}
        return {
            name: {
                "registers": r.registers,
                "shared": r.shared,
                "stack": r.stack,
                "spill_stores": r.spill_stores,
                "spill_loads": r.spill_loads,
            }
            for name, r in self.cubin.resources.items()
        }

    def spilling(self) -> list[str]:
        """Return the kernels that spill registers."""
        return [name for name, r in self.cubin.resources.items() if r.spills] if self.cubin else []

    def lines(self) -> str:
        """For the log."""
        head = f"sm_{self.architecture}:"
        if self.cubin is None:
            return f"{head} {self.missing or self.message}"
        rows = [
            f"  {name}: {r.registers} registers, {r.shared} bytes shared, "
            f"spills {r.spill_stores} bytes stored, {r.spill_loads} loaded"
            for name, r in self.cubin.resources.items()
        ]
        return "\n".join([f"{head} compiled", *rows])


def _listed(spec: CheckSpec) -> tuple[str, ...]:
    return architectures_of(spec.options.get("architectures")) or ARCHITECTURES


def _compile_all(source: Path, architectures: Sequence[str], build_dir: Path) -> list[_Attempt]:
    """In the order given, two at a time: a check of its own may run beside this one."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    with ThreadPoolExecutor(min(2, len(architectures))) as pool:
        return list(pool.map(lambda architecture: _attempt(source, architecture, build_dir), architectures))


def _attempt(source: Path, architecture: str, build_dir: Path) -> _Attempt:
    from touchgate.devices import BuildFault, Unavailable, nvcc  # noqa: PLC0415

    try:
        return _Attempt(architecture, cubin=nvcc.build_cubin(source, f"sm_{architecture}", build_dir))
    except nvcc.UnknownArchitecture as fault:
        return _Attempt(architecture, missing=str(fault).splitlines()[0])
    except Unavailable as fault:
        return _Attempt(architecture, missing=str(fault))
    except BuildFault as fault:
        return _Attempt(architecture, message=str(fault))


def _judged(source: str, attempts: Sequence[_Attempt]) -> tuple[Verdict, str, tuple[str, ...]]:
    """Verdict, reason and detail. A failure outranks what could not be tried; spills are named and fail nothing."""
    failed = [attempt for attempt in attempts if attempt.message]
    if failed:
        names = ", ".join(f"sm_{attempt.architecture}" for attempt in failed)
        lines = failed[0].message.splitlines()
        more = [f"... {len(lines) - _LINES} more lines in the log"] if len(lines) > _LINES else []
        return Verdict.FAILED, f"{source} does not compile for {names}", (*lines[:_LINES], *more)
    missing = [attempt for attempt in attempts if attempt.missing]
    if missing:
        names = ", ".join(f"sm_{attempt.architecture}" for attempt in missing)
        return Verdict.UNMEASURED, f"not compiled for {names}: {missing[0].missing}", ()
    spilling = [f"{name} on sm_{attempt.architecture}" for attempt in attempts for name in attempt.spilling()]
    return Verdict.PASSED, f"registers spill: {', '.join(spilling)}" if spilling else "", ()


KIND = CompileKind()
