"""The check kind `sanitizers`: a kernel's cases on a GPU under NVIDIA's compute-sanitizer, one check for each of its tools.

    checks:
      - sanitizers: kernels/gemv/gemv.py

Belongs to suite full. Without a GPU, or without the tool, it is unmeasured: emulated, `<lane>:sanitize` of the kind
`kernel` does what can be done there.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.checks import CheckSpec, DeclarationFault, Inputs, check_name
from touchgate.checks.includes import with_includes
from touchgate.checks.oracles import oracle_files, source_of

if TYPE_CHECKING:
    from touchgate.checks import Context
    from touchgate.gate.model import CheckDeclaration, Lane
    from touchgate.outcome import Outcome

TOOLS = {
    "memcheck": "accesses out of bounds and misaligned ones",
    "racecheck": "races in shared memory",
    "initcheck": "global memory that is read before it is written",
    "synccheck": "barriers in divergent code",
}
"""The tools, with what each looks for."""
FOUND = 86
"""The exit status by which the tool says that it found faults."""
COMMON = (
    *("--error-exitcode", str(FOUND)),
    # The check's own process alone; a compiler that it starts is none of the program.
    *("--target-processes", "application-only"),
    *("--launch-timeout", "120"),
    *("--show-backtrace", "device"),
    *("--strip-paths", "no"),
    *("--print-limit", "1000"),
)
OPTIONS = {
    # What the driver answers is seen by the program itself; under a fault every further call fails.
    "memcheck": ("--report-api-errors", "no"),
    "racecheck": ("--racecheck-detect-level", "error", "--racecheck-report", "all"),
    "initcheck": (),
    "synccheck": (),
}


def options_of(tool: str) -> tuple[str, ...]:
    """What the tool is started with, the report's file excepted."""
    return ("--tool", tool, *COMMON, *OPTIONS[tool])


@dataclass(frozen=True)
class SanitizersKind:
    """See the module."""

    name: str = "sanitizers"
    options: Mapping[str, str] = field(
        default_factory=lambda: {"tools": f"a list out of {', '.join(TOOLS)}; default all, a check each"}
    )

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:
        """One check for each tool, on a GPU only."""
        target = declaration.target
        if not target.endswith(".py"):
            raise DeclarationFault(f"sanitizers: '{target}' is not an oracle file: its name must end in .py")
        if target.startswith("/") or posixpath.normpath(target).startswith(".."):
            raise DeclarationFault(f"sanitizers: '{target}' is not below the repository's root")
        source = source_of(target)
        for path, what in ((target, "oracle file"), (source, "kernel file beside the oracle file")):
            if not (root / path).is_file():
                raise DeclarationFault(f"sanitizers: there is no {what} '{path}'")
        for tool in _wanted(declaration.options.get("tools")):
            yield CheckSpec(
                name=check_name(lane, declaration, tool),
                lane=lane.name,
                kind=self.name,
                about=f"{source} under compute-sanitizer: {TOOLS[tool]}",
                target=target,
                options={"tool": tool},
                places=("gpu",),
                suites=("full",),
                timeout=lane.timeout * 60,
                env=lane.env,
                where=str(declaration.at),
            )

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:
        """Those of the kernel check, and the tool with its options."""
        tools = ("python", "numpy", "nvcc", "pycuda", "compute-sanitizer")
        extra = {"sanitizer": " ".join(options_of(str(spec.options["tool"])))}
        oracle = Inputs(tuple(oracle_files(spec.target, root)), tools, extra)
        return with_includes(oracle, source_of(spec.target), root, place, os.environ, spec.env)

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Run the selected cases under the tool. The log has each case's name, and the tool's whole report."""
        from touchgate.checks import sanitizing  # noqa: PLC0415

        return sanitizing.run(spec.target, str(spec.options["tool"]), context)


KIND = SanitizersKind()


def _wanted(value: object) -> tuple[str, ...]:
    """What `tools` says, each once; all four for None. Raises `DeclarationFault`."""
    if value is None:
        return tuple(TOOLS)
    if not isinstance(value, (list, tuple)) or not value or not all(tool in TOOLS for tool in value if isinstance(tool, str)):
        raise DeclarationFault(f"sanitizers: 'tools' must be a list out of {', '.join(TOOLS)}, not {value!r}")
    odd = [tool for tool in value if not isinstance(tool, str)]
    if odd:
        raise DeclarationFault(f"sanitizers: 'tools' must be a list out of {', '.join(TOOLS)}; {odd[0]!r} is none")
    return tuple(dict.fromkeys(value))
