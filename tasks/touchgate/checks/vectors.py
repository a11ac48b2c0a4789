"""The kind `vectors`: golden streams decoded by the oracle and on a device, byte for byte; altered ones refused alike.

    checks:
      - vectors: vectors/rans

The folder's manifest names the decoder (docs/vectors.md). The same under sanitizers, on other instruction sets and by other
settings of the compiler (suite full), and the compilation of the decoder's kernel, are checks of their own.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from touchgate import golden, pinned
from touchgate.checks import CheckSpec, Context, DeclarationFault, Inputs, foreign, matrix
from touchgate.checks.compile import ARCHITECTURES_OPTION, compile_specs
from touchgate.checks.includes import with_includes
from touchgate.checks.oracles import oracle_files
from touchgate.checks.specs import SANITIZE, measured_and_sanitized
from touchgate.golden import MANIFEST, VectorFault
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.checks.conformance import Beside
    from touchgate.gate.model import CheckDeclaration, Lane


SHOWN = 8
"""Problems of the folder that a failure lists."""


class VectorsKind:
    """See the module."""

    name = "vectors"
    options: Mapping[str, str] = MappingProxyType(
        {
            "architectures": ARCHITECTURES_OPTION,
            matrix.OPTION: f"which legs of the matrix are checks, out of {', '.join(matrix.LEGS)}; default all",
            "decoder": "a line for /bin/sh that decodes the folder in the place of our kernels, such as cargo test",
            "inputs": "of `decoder`: further files, folders or patterns; a change touches the lane and decides about reuse",
            "tools": "of `decoder`: names of tools whose versions decide about reuse, such as cargo, rustc, python",
        }
    )

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:
        """The conformance check, its sanitized twin, and the compile checks of the decoder's kernel."""
        target = declaration.target
        if foreign.DECODER in declaration.options:
            _folder(root, target)
            yield foreign.spec_of(lane, declaration, root)
            return
        for option in ("inputs", "tools"):
            if option in declaration.options:
                raise DeclarationFault(f"`{option}` goes with `decoder`, the command that decodes these vectors")
        head = _head(root, target)
        yield from measured_and_sanitized(
            self.name,
            lane,
            declaration,
            about=f"{head.about}: {head.kernel} against {target}",
            sanitized=f"{target} emulated, under address and undefined-behaviour sanitizers",
        )
        yield from compile_specs(lane, declaration, head.kernel)
        yield from matrix.specs(lane, declaration)

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:
        """The whole folder, the decoder with what it imports, its kernel with what that includes."""
        if foreign.DECODER in spec.options:
            return foreign.inputs(spec, root)
        folder = root / spec.target
        files = {f"{spec.target}/{path}" for path in golden.present(folder)}
        leg = str(spec.options.get(matrix.LEG, ""))
        # A GPU's check decodes emulated as well.
        tools = matrix.tools(leg) if leg else ("g++",) if place == "emulated" else ("nvcc", "pycuda", "g++")
        kernel = None
        # Where the manifest can't be read, the run says so.
        with suppress(VectorFault):
            head = golden.read_head(folder)
            files |= set(oracle_files(head.decoder, root))
            kernel = head.kernel
        own = Inputs(tuple(files), ("python", "numpy", *tools), matrix.facts(leg))
        return with_includes(own, kernel, root, place, os.environ, spec.env)

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Lint the folder, decode everything, compare."""
        if foreign.DECODER in spec.options:
            faults = foreign.problems(context.root, spec.target)
            return _damaged(context.root / spec.target, faults) if faults else foreign.run(spec, context)
        problems = golden.check_family(context.root, spec.target) or pinned.problems(context.root, spec.target)
        if problems:
            return _damaged(context.root / spec.target, problems)
        if spec.options.get(SANITIZE):
            from touchgate.checks import sanitized_vectors  # noqa: PLC0415

            kernel = golden.read_head(context.root / spec.target).kernel
            return sanitized_vectors.run(spec.target, kernel, context)
        from touchgate.checks import conformance  # noqa: PLC0415  numpy

        if spec.options.get(matrix.LEG):
            return _on_leg(spec, context)
        beside = [_emulated(context, always=True)] if context.place == "gpu" else []
        return conformance.measure(context.root, spec.target, context.device(), beside=beside)


KIND = VectorsKind()


def _on_leg(spec: CheckSpec, context: Context) -> Outcome:
    """One leg of the matrix; where it parts from the oracle, the emulation here shows who agrees."""
    from touchgate.checks import conformance  # noqa: PLC0415  numpy

    leg = str(spec.options[matrix.LEG])
    device = matrix.open_device(leg, context.build_dir)
    try:
        outcome = conformance.measure(context.root, spec.target, device, leg=leg, beside=[_emulated(context, always=False)])
    finally:
        device.close()
    facts = {**outcome.facts, "device": dict(device.facts)}
    if outcome.verdict is Verdict.PASSED:
        del facts["ladders"]  # the oracle's, which the lane's first check tells
    return replace(outcome, facts=facts)


def _emulated(context: Context, *, always: bool) -> Beside:
    from touchgate.checks.conformance import Beside  # noqa: PLC0415  numpy
    from touchgate.devices import emulated  # noqa: PLC0415

    return Beside(emulated.EmulatedDevice.name, lambda: emulated.open_device(context.build_dir), always)


def _folder(root: Path, target: str) -> None:
    if not golden.within(root, posixpath.normpath(target)):
        raise DeclarationFault(f"vectors: '{target}' is not below the repository's root")
    if not (root / target).is_dir():
        raise DeclarationFault(f"there is no folder {target}; a vectors check names a folder with a {MANIFEST}")


def _head(root: Path, target: str) -> golden.Head:
    _folder(root, target)
    try:
        head = golden.read_head(root / target)
    except VectorFault as fault:
        raise DeclarationFault(f"{target}: {fault}; `doit vectors check` lints it") from fault
    for path in (head.decoder, head.kernel):
        if not golden.within(root, path):
            raise DeclarationFault(f"{target}/{MANIFEST} names {path}, which leads out of the repository")
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
