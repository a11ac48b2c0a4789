"""The check kind `kernel`: the kernels of a .cu file against the oracle file beside it.

One declaration stands for several checks: the comparison itself, on the GPU or emulated; the same small cases
emulated under the address and undefined-behaviour sanitizers (suite full); and the compilation for the architectures
of the settings.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.checks import CheckSpec, DeclarationFault, Inputs
from touchgate.checks.compile import KIND as COMPILE
from touchgate.checks.compile import compile_specs
from touchgate.checks.includes import with_includes
from touchgate.checks.oracles import oracle_files, source_of
from touchgate.checks.specs import SANITIZE, measured_and_sanitized

if TYPE_CHECKING:
    from touchgate.checks import Context
    from touchgate.gate.model import CheckDeclaration, Lane
    from touchgate.outcome import Outcome


@dataclass(frozen=True)
class KernelKind:
    """See the module."""

    name: str = "kernel"
    options: Mapping[str, str] = field(default_factory=lambda: dict(COMPILE.options))

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:
        """The comparison, its sanitized twin, and the compile checks of the .cu file."""
        target = declaration.target
        if not target.endswith(".py"):
            raise DeclarationFault(f"kernel: '{target}' is not an oracle file: its name must end in .py")
        if target.startswith("/") or posixpath.normpath(target).startswith(".."):
            raise DeclarationFault(f"kernel: '{target}' is not below the repository's root")
        source = source_of(target)
        for path, what in ((target, "oracle file"), (source, "kernel file beside the oracle file")):
            if not (root / path).is_file():
                raise DeclarationFault(f"kernel: there is no {what} '{path}'")
        yield from measured_and_sanitized(
            self.name,
            lane,
            declaration,
            about=f"the kernels of {source} against their oracle",
            sanitized=f"small cases of {source} emulated, under address and undefined-behaviour sanitizers",
        )
        yield from compile_specs(lane, declaration, source)

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:
        """Oracle and kernel file with all they include and import from the repository, and the tools of `place`."""
        tools = ("g++",) if place == "emulated" else ("nvcc", "pycuda")
        oracle = Inputs(tuple(oracle_files(spec.target, root)), ("python", "numpy", *tools))
        return with_includes(oracle, source_of(spec.target), root, place, os.environ, spec.env)

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Run the oracle's cases on the device of the place. The log names each case and every fault in full."""
        if spec.options.get(SANITIZE):
            from touchgate.checks import sanitized  # noqa: PLC0415

            return sanitized.run(spec.target, context)
        from touchgate.checks.measuring import measure  # noqa: PLC0415  numpy

        return measure(context.root, spec.target, context.place, context.device())


KIND = KernelKind()
