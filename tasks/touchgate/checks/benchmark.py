"""The check kind `benchmark`: the times of a kernel on a GPU, and on a change those of the base's beside them.

    checks:
      - benchmark: kernels/gemv/gemv.py

Belongs to the suites performance and full. Without a GPU it is unmeasured: an emulated time says nothing.
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

SUITES = ("performance", "full")
OPTIONS = {
    "samples": "samples of each benchmark that count (5)",
    "warmups": "samples before them that do not (2)",
    "repetitions": "launches from a cold cache that a sample is the median of (10)",
    "blocks": "blocks of four samples, base against head (16)",
}
LEAST = {"samples": 1, "warmups": 0, "repetitions": 1, "blocks": 8}
MOST = 1000


@dataclass(frozen=True)
class BenchmarkKind:
    """See the module."""

    name: str = "benchmark"
    options: Mapping[str, str] = field(default_factory=lambda: dict(OPTIONS))

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:
        """One check, on a GPU only."""
        target = declaration.target
        if not target.endswith(".py"):
            raise DeclarationFault(f"benchmark: '{target}' is not an oracle file: its name must end in .py")
        if target.startswith("/") or posixpath.normpath(target).startswith(".."):
            raise DeclarationFault(f"benchmark: '{target}' is not below the repository's root")
        source = source_of(target)
        for path, what in ((target, "oracle file"), (source, "kernel file beside the oracle file")):
            if not (root / path).is_file():
                raise DeclarationFault(f"benchmark: there is no {what} '{path}'")
        for key, least in LEAST.items():
            value = declaration.options.get(key, least)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
                raise DeclarationFault(f"benchmark: '{key}' must be a whole number from {least} to {MOST}, not {value!r}")
        yield CheckSpec(
            name=check_name(lane, declaration),
            lane=lane.name,
            kind=self.name,
            about=f"the times of {source}, on a change beside the base's",
            target=target,
            options=dict(declaration.options),
            places=("gpu",),
            suites=SUITES,
            timeout=lane.timeout * 60,
            env=lane.env,
            where=str(declaration.at),
        )

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:
        """Those of the kernel check; the base's version is among the check's options."""
        oracle = Inputs(tuple(oracle_files(spec.target, root)), ("python", "numpy", "nvcc", "pycuda"))
        return with_includes(oracle, source_of(spec.target), root, place, os.environ, spec.env)

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Measure. The log has a line for each benchmark."""
        from touchgate.checks import benchmarking  # noqa: PLC0415  numpy

        return benchmarking.run(spec, context)


KIND = BenchmarkKind()
