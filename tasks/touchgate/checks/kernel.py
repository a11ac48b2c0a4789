"""The check kind `kernel`: the kernels of a .cu file against the oracle file beside it.

One declaration stands for several checks: the comparison itself, on the GPU or emulated; the same small cases emulated under
the address and undefined-behaviour sanitizers (suite full); and the compilation for the architectures of the settings.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from touchgate.checks import CheckSpec, DeclarationFault, Inputs, check_name
from touchgate.checks.compile import compile_specs
from touchgate.checks.includes import closure
from touchgate.outcome import EMULATED, Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.checks import Context
    from touchgate.checks.trials import Tally
    from touchgate.devices import Device
    from touchgate.gate.model import CheckDeclaration, Lane

SANITIZE = "sanitize"
"""The option, set by `expand` alone, that makes a spec the sanitizer's."""


@dataclass(frozen=True)
class KernelKind:
    """See the module."""

    name: str = "kernel"
    options: Mapping[str, str] = field(default_factory=dict)

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:
        """The comparison, its sanitized twin, and the compile checks of the .cu file."""
        target = declaration.target
        if not target.endswith(".py"):
            raise DeclarationFault(f"kernel: '{target}' is not an oracle file: its name must end in .py")
        source = source_of(target)
        for path, what in ((target, "oracle file"), (source, "kernel file beside the oracle file")):
            if not (root / path).is_file():
                raise DeclarationFault(f"kernel: there is no {what} '{path}'")
        common: dict[str, Any] = {
            "lane": lane.name,
            "kind": self.name,
            "target": target,
            "timeout": lane.timeout * 60,
            "env": lane.env,
            "where": str(declaration.at),
        }
        yield CheckSpec(
            name=check_name(lane, declaration),
            about=f"the kernels of {source} against their oracle",
            options=dict(declaration.options),
            places=("gpu", "emulated"),
            suites=lane.suites,
            **common,
        )
        yield CheckSpec(
            name=check_name(lane, declaration, SANITIZE),
            about=f"small cases of {source} emulated, under address and undefined-behaviour sanitizers",
            options={**declaration.options, SANITIZE: True},
            places=("emulated",),
            suites=("full",),
            **common,
        )
        yield from compile_specs(lane, declaration, source)

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:
        """Oracle and kernel file with all they include and import from the repository, and the tools of `place`."""
        files = {*oracle_files(spec.target, root), *closure(source_of(spec.target), root)}
        tools = ("g++",) if place == "emulated" else ("nvcc", "pycuda")
        return Inputs(files=tuple(sorted(files)), tools=("python", "numpy", *tools))

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Run the oracle's cases on the device of the place. The log names each case and every fault in full.

        Exceptions of the oracle file's own functions are the caller's to report, with their file and line.
        """
        from touchgate.devices import BuildFault  # noqa: PLC0415

        sanitize = bool(spec.options.get(SANITIZE))
        device = _sanitizing_device(context) if sanitize else context.device()
        try:
            return _measure(spec, context, device, small=sanitize)
        except BuildFault as fault:
            lines = tuple(str(fault).rstrip().splitlines())
            return Outcome(Verdict.FAILED, device=device.name, reason=f"{source_of(spec.target)} does not compile", detail=lines)
        finally:
            if sanitize:
                device.close()


def source_of(target: str) -> str:
    """The .cu file of an oracle file, by name."""
    return str(PurePosixPath(target).with_suffix(".cu"))


def oracle_files(target: str, root: Path) -> list[str]:
    """An oracle file and the repository's files that it imports relatively, directly or not: paths below the root.

    Read with `ast`, nothing is executed. A file that does not parse is its own last word: running it will say so.
    """
    found: dict[str, None] = {}
    waiting = [PurePosixPath(target)]
    while waiting:
        path = waiting.pop()
        if str(path) in found:
            continue
        found[str(path)] = None
        try:
            tree = ast.parse((root / path).read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                waiting.extend(_imported(node, path, root))
    return list(found)


def _imported(node: ast.ImportFrom, importer: PurePosixPath, root: Path) -> Iterable[PurePosixPath]:
    """The files that `from .a.b import c` may mean: a/b.py, a/b/__init__.py and a/b/c.py, those that exist."""
    if node.level > len(importer.parents):
        return
    base = importer.parents[node.level - 1].joinpath(*(node.module or "").split("."))
    modules = [base, *(base / alias.name for alias in node.names)]
    for module in modules:
        for path in (module.with_name(f"{module.name}.py") if module.name else None, module / "__init__.py"):
            if path is not None and (root / path).is_file():
                yield path


def _sanitizing_device(context: Context) -> Device:
    from touchgate.devices import emulated  # noqa: PLC0415

    return emulated.open_device(context.build_dir, sanitize=True)


def _measure(spec: CheckSpec, context: Context, device: Device, *, small: bool) -> Outcome:
    from touchgate.checks import trials  # noqa: PLC0415  numpy
    from touchgate.checks.cases import OracleFault, load_oracle  # noqa: PLC0415
    from touchgate.checks.compare import BoundFault  # noqa: PLC0415

    try:
        oracle = load_oracle(context.root / spec.target)
        cases = trials.chosen_cases(oracle, context.place, small=small)
        module = device.module(context.root / source_of(spec.target))
        tally = trials.run(oracle, cases, device, module, print)
    except (OracleFault, BoundFault) as fault:
        return Outcome(Verdict.ERROR, device=device.name, reason=f"{spec.target}: {fault}")
    return _outcome(tally, len(cases), device.name)


def _outcome(tally: Tally, planned: int, device: str) -> Outcome:
    facts = {"trials": tally.trials, "bounds": tally.reasons, "faults": [fault.kind for fault in tally.faults]}
    common: dict[str, Any] = {
        "device": device,
        "worst": _worst(tally),
        "cases": tally.cases,
        "facts": facts,
    }
    if not tally.faults:
        return Outcome(Verdict.PASSED, **common)
    first = tally.faults[0]
    detail = list(first.lines)
    others = list(dict.fromkeys(fault.case for fault in tally.faults if fault.case != first.case))
    if others:
        detail.append(f"also wrong: {', '.join(others)}")
    if tally.cases < planned:
        detail.append(f"stopped after {tally.cases} of {planned} cases, {len(tally.faults)} of {tally.trials} trials wrong")
    return Outcome(Verdict.FAILED, reason=f"{first.case}: {first.lines[1]}", detail=tuple(detail), **common)


def _worst(tally: Tally) -> dict[str, Any] | None:
    worst = tally.worst
    if worst is None:
        return None
    # An infinite error (a NaN where a number belongs) is no JSON; null says that there is no figure for it.
    error = worst.error if math.isfinite(worst.error) else None
    return {"error": error, "bound": worst.bound, "case": worst.case, "index": list(worst.index)}


KIND = KernelKind()
