"""Anyone's decoder: a `vectors` check that names a command. It is given the folder, and speaks the ladder or simply exits 0.

    checks:
      - vectors: vectors/rans
        decoder: cargo run --release --manifest-path theirs/Cargo.toml

docs/decoders.md has what the command sees, what it may say, and how it is judged.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate import golden, ladder, pinned
from touchgate.checks import CheckSpec, Context, DeclarationFault, Inputs
from touchgate.checks.child import files_listed, listed_paths, program_check, run_logged
from touchgate.checks.command import judge, tools_named
from touchgate.golden import MANIFEST, Problem
from touchgate.ladder import LadderFault, Place
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.gate.model import CheckDeclaration, Lane

DECODER = "decoder"
"""The option that holds the command; and the leg's name."""
FOLDER_VARIABLE = "TOUCHGATE_VECTORS"
LIST_VARIABLE = "TOUCHGATE_VECTORS_LIST"

SHOWN = 8
"""Vectors that a failure shows."""


def spec_of(lane: Lane, declaration: CheckDeclaration, root: Path) -> CheckSpec:
    """The one check of such a declaration. Raises `DeclarationFault`."""
    command = declaration.options[DECODER]
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise DeclarationFault("`decoder` is the line that /bin/sh is to run, such as: cargo test --release -- --nocapture")
    for option in ("architectures", "legs"):
        if option in declaration.options:
            raise DeclarationFault(f"`{option}` is for our own kernels; with `decoder` none is compiled")
    listed_paths(declaration.options.get("inputs", []), "inputs")
    tools_named(declaration.options.get("tools", []))
    folder = root / declaration.target
    if not any(os.path.lexists(folder / name) for name in (MANIFEST, pinned.FILE)):
        raise DeclarationFault(f"{declaration.target} has neither {MANIFEST} nor {pinned.FILE}: nothing is pinned there")
    first, _, more = command.strip().partition("\n")
    return program_check(lane, declaration, f"{declaration.target} decoded by: {first}{' ...' if more else ''}")


def inputs(spec: CheckSpec, root: Path) -> Inputs:
    """The whole folder and what `inputs` lists; the command's own text is in the declaration, its sources in the lane."""
    files = [f"{spec.target}/{path}" for path in golden.present(root / spec.target)]
    files += files_listed(root, spec.options.get("inputs", []))
    return Inputs(tuple(dict.fromkeys(files)), tuple(dict.fromkeys(("sh", *tools_named(spec.options.get("tools", []))))))


def problems(root: Path, target: str) -> Sequence[Problem]:
    """What is wrong with the folder, before anything is run."""
    if os.path.lexists(root / target / MANIFEST):
        return golden.check_family(root, target) or pinned.problems(root, target)
    return pinned.alone(root, target)


def run(spec: CheckSpec, context: Context) -> Outcome:
    """Run the command and judge what it said. The output is the log. For a folder without `problems`."""
    folder = context.root / spec.target
    wanted = pinned.rungs(folder)
    names = context.temporary / "vectors.tsv"
    names.write_text(listing(folder, wanted), encoding="utf-8")
    heard = Heard()
    began = time.perf_counter()
    ended = run_logged(
        ["/bin/sh", "-c", str(spec.options[DECODER])],
        cwd=context.root,
        pass_fds=context.inherited_fds,
        environ={**os.environ, FOLDER_VARIABLE: str(folder), LIST_VARIABLE: str(names)},
        hear=heard.line,
    )
    seconds = time.perf_counter() - began
    # What a process that was left behind may still say comes too late.
    heard = Heard(dict(heard.rungs), list(heard.faults))
    verdict, reason = judge(ended, None)
    apart = list(parted(wanted, heard)) if heard.rungs or heard.faults else []
    facts: dict[str, Any] = {"status": ended.status, "vectors": len({place.vector for place in wanted})}
    if verdict is Verdict.PASSED and not heard.rungs and not apart:
        return Outcome(verdict, reason="it tells no ladder; its exit status alone is judged", facts=facts)
    if verdict is Verdict.PASSED and apart:
        verdict, reason = Verdict.FAILED, ""
    told = {place: heard.rungs[place] for place in (*wanted, *heard.rungs) if place in heard.rungs}
    digest = ladder.digest(told) if told else None
    leg = {"name": DECODER, "verdict": verdict.value, "digest": digest, "seconds": round(seconds, 3)}
    facts |= {"legs": [leg], "ladders": [{"legs": [DECODER], "rungs": ladder.write(told).splitlines()}] if told else []}
    unpinned = sorted({place.stage for place in told} - {place.stage for place in wanted})
    if unpinned:
        facts["stages_not_pinned"] = unpinned
    if verdict is Verdict.PASSED:
        same = sum(place in wanted for place in told)
        return Outcome(verdict, reason=f"digest {str(digest)[:12]}, {same} of {len(wanted)} rungs as pinned", facts=facts)
    if verdict is not Verdict.FAILED:
        return Outcome(verdict, reason=reason, facts=facts)
    first = apart[0] if apart else ""
    more = f" (and {len(apart) - 1} more)" if len(apart) > 1 else ""
    reason = "; ".join(part for part in (reason, f"{first}{more}") if part)
    shown = [*apart[:SHOWN], *([f"... and {len(apart) - SHOWN} more"] if len(apart) > SHOWN else [])]
    return Outcome(verdict, reason=reason, detail=(*shown, *ended.tail), facts=facts)


@dataclass
class Heard:
    """What a decoder tells. rungs: in its order. faults: lines that are no rungs, places told twice and differently."""

    rungs: dict[Place, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def line(self, text: str) -> None:
        """Take one line of its output."""
        try:
            rung = ladder.heard(text)
        except LadderFault as fault:
            self.faults.append(str(fault))
            return
        if rung is not None and self.rungs.setdefault(*rung) != rung[1]:
            self.faults.append(f"{rung[0].vector}: {rung[0].words()} is told twice, and differently")


def parted(wanted: Mapping[Place, str], heard: Heard) -> Iterator[str]:
    """Where what is told parts from what is pinned: of each vector the first place, in the order of the ladder.

    A stage that is told of any vector must be told of all that have it, in all its frames and planes. Stages that are
    pinned for none are left alone, but not all may be such.
    """
    rungs = heard.rungs
    stages = {place.stage for place in rungs}
    yield from heard.faults
    known = {(place.family, place.vector) for place in wanted}
    strangers = [place for place in rungs if (place.family, place.vector) not in known]
    for place in strangers[:1]:
        yield f"it tells of {place.family} {place.vector}, which is not among the vectors"
    pinned_stages = list(dict.fromkeys(place.stage for place in wanted))
    if stages and not stages & set(pinned_stages):
        yield f"none of its stages is pinned: it tells {', '.join(sorted(stages))}; pinned are {', '.join(pinned_stages)}"
        return
    stages_of = {(place.vector, place.stage) for place in wanted}
    apart: dict[str, str] = {}
    for place in (*wanted, *(one for one in rungs if one not in wanted)):
        if place.vector in apart or place in strangers or place.stage not in stages:
            continue
        if place not in wanted:
            if (place.vector, place.stage) in stages_of:
                apart[place.vector] = "told, but not pinned"
        elif place not in rungs:
            apart[place.vector] = f"not told, pinned is {wanted[place]}"
        elif rungs[place] != wanted[place]:
            apart[place.vector] = f"{rungs[place]} by the decoder, {wanted[place]} pinned"
        if place.vector in apart:
            yield f"{place.vector}: {place.words()}: {apart[place.vector]}"


def listing(folder: Path, wanted: Mapping[Place, str]) -> str:
    """The vectors, one a line, fields set apart by tabs: name, status, digest, and KEY=VALUE of all that the manifest says.

    A key within another is written behind a dot. A folder without a manifest has the names alone.
    """
    if not os.path.lexists(folder / MANIFEST):
        return "".join(f"{name}\t\t\n" for name in dict.fromkeys(place.vector for place in wanted))
    lines = []
    for entry in golden.read_manifest(folder)["vectors"]:
        own = {key: value for key, value in entry.items() if key not in golden.COMMON_KEYS}
        fields = [f"{key}={value}" for key, value in _flat("", own)]
        lines.append("\t".join((entry["name"], entry["status"], entry["digest"], *fields)) + "\n")
    return "".join(lines)


def _flat(before: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in sorted(value.items()):
            yield from _flat(f"{before}.{key}" if before else str(key), inner)
    elif isinstance(value, str) and value.isprintable():
        yield before, value
    else:
        yield before, json.dumps(value, separators=(",", ":"))
