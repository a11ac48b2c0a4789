"""The kind `vectors`: golden streams decoded by the oracle and on a device, byte for byte; altered ones refused alike.

    checks:
      - vectors: vectors/rans

The folder's manifest names the decoder (docs/vectors.md). The declaration also gives the check `<lane>:compile` for the
decoder's kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate import golden
from touchgate.checks import CheckSpec, Context, DeclarationFault, Inputs, check_name
from touchgate.checks.compile import compile_specs
from touchgate.checks.includes import closure
from touchgate.golden import MANIFEST, VectorFault
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.gate.model import CheckDeclaration, Lane

SHOWN = 8
"""Problems of the folder that a failure lists."""


class VectorsKind:
    """See the module."""

    name = "vectors"
    options: Mapping[str, str] = {}

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:
        """The conformance check, and what compiles the kernel for the architectures of the settings."""
        head = _head(root, declaration.target)
        spec = CheckSpec(
            name=check_name(lane, declaration),
            lane=lane.name,
            kind=self.name,
            about=f"conformance: {head.about}",
            target=declaration.target,
            options=dict(declaration.options),
            places=("gpu", "emulated"),
            suites=lane.suites,
            timeout=lane.timeout * 60,
            env=lane.env,
            where=str(declaration.at),
        )
        return [spec, *compile_specs(lane, declaration, head.kernel)]

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:
        """The whole folder, the decoder, its kernel and what that includes."""
        folder = root / spec.target
        files = {f"{spec.target}/{path}" for path in golden.present(folder)}
        try:
            head = golden.read_head(folder)
        except VectorFault:
            # The run says what is wrong with it.
            return Inputs(files=tuple(sorted(files)))
        files |= {head.decoder, *closure(head.kernel, root)}
        tools = ("nvcc", "pycuda") if place == "gpu" else ("g++",)
        return Inputs(files=tuple(sorted(files)), tools=("python", "numpy", *tools))

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Lint the folder, decode everything, compare."""
        from touchgate.checks import conformance  # noqa: PLC0415  imports numpy
        from touchgate.devices import BuildFault, LaunchFault  # noqa: PLC0415

        problems = golden.check_family(context.root, spec.target)
        if problems:
            return _damaged(context.root / spec.target, problems)
        device = context.device()
        try:
            return conformance.conform(context.root, spec.target, device)
        except BuildFault as fault:
            return _fault("the kernel does not compile", str(fault))
        except LaunchFault as fault:
            return _fault("the launch went wrong", str(fault))


KIND = VectorsKind()


def _head(root: Path, target: str) -> golden.Head:
    if not (root / target).is_dir():
        raise DeclarationFault(f"there is no folder {target}; a vectors check names a folder with a {MANIFEST}")
    try:
        head = golden.read_head(root / target)
    except VectorFault as fault:
        raise DeclarationFault(f"{target}: {fault}; `doit vectors check` lints it") from fault
    for path in (head.decoder, head.kernel):
        if not (root / path).is_file():
            raise DeclarationFault(f"{target}/{MANIFEST} names {path}, which does not exist")
    return head


def _damaged(folder: Path, problems: Sequence[golden.Problem]) -> Outcome:
    detail = tuple(str(problem) for problem in problems[:SHOWN])
    reason = f"{problems[0].message} ({len(problems)} problems in all; `doit vectors check` lists them)"
    try:
        empty = not golden.read_manifest(folder).get("vectors")
    except VectorFault:
        empty = False
    return Outcome(Verdict.ERROR if empty else Verdict.FAILED, reason=reason, detail=detail)


def _fault(what: str, text: str) -> Outcome:
    lines = text.splitlines() or [""]
    return Outcome(Verdict.FAILED, reason=f"{what}: {lines[0]}", detail=tuple(lines))
