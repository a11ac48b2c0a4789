"""Conformance: golden vectors, and altered ones, by the oracle and on each leg must agree, and with what is pinned."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from touchgate import golden, pinned
from touchgate.checks import legs
from touchgate.checks.decoders import Decoded, Decoder, load_decoder, load_vector, rungs_of
from touchgate.checks.legs import ORACLE, Difference, LegReport, Ran
from touchgate.checks.measuring import DETAIL, first_error
from touchgate.devices import BuildFault, LaunchFault, Unavailable
from touchgate.golden import MANIFEST, MOST_VALUES, Problem, VectorFault
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.devices import Device, Module
    from touchgate.ladder import Place

SEED = 20261130
"""Of the altered streams. Fixed: a check that passed must pass again."""

SHOWN = 8
"""Differences that a failure lists."""

DIGITS = 12
"""Of a digest, in a line for a person."""


@dataclass(frozen=True)
class Beside:
    """Another leg of the same check. open: its device; raises `Unavailable`.

    always: it is measured and judged in any case; else only to show who agrees where the check's own leg failed.
    """

    name: str
    open: Callable[[], Device]
    always: bool


@dataclass(frozen=True)
class Truth:
    """A folder's vectors and altered ones with what the oracle makes of them, and the seconds it took for the former.

    found: where the oracle itself parts from the manifest.
    """

    target: str
    manifest: Mapping[str, Any]
    decoder: Decoder
    vectors: Sequence[Any]
    decoded: Sequence[Decoded]
    altered: Sequence[Any]
    altered_decoded: Sequence[Decoded]
    seconds: float
    found: Sequence[Difference]


def by_oracle(root: Path, target: str) -> Truth:
    """Decode a folder's vectors, and altered ones, by the oracle. Raises `VectorFault`."""
    manifest = golden.read_manifest(root / target)
    decoder = load_decoder(root, manifest["decoder"])
    files = golden.Files(root / target, manifest)
    vectors = [load_vector(decoder, entry, files) for entry in manifest["vectors"]]
    altered = list(decoder.hostile(vectors, Random(SEED)))  # noqa: S311  nothing is kept secret by it
    began = time.perf_counter()
    decoded = [decoder.oracle(vector) for vector in vectors]
    seconds = time.perf_counter() - began
    altered_decoded = [decoder.oracle(vector) for vector in altered]
    found = [
        *_unpinned(manifest["vectors"], decoded),
        *_unpinned_rungs(pinned.read(root / target), manifest, decoded),
        *_unexpected(altered, altered_decoded),
    ]
    return Truth(target, manifest, decoder, vectors, decoded, altered, altered_decoded, seconds, found)


def lint(root: Path, target: str) -> list[Problem]:
    """What only decoding shows: entries that the decoder can't read, and where its oracle parts from the manifest.

    For a folder without problems of `touchgate.golden.check_family`. Altered vectors are left to the check.
    """
    file = f"{target}/{MANIFEST}"
    text = golden.read_text(root / target)
    manifest = golden.loads(text)
    try:
        decoder = load_decoder(root, manifest["decoder"])
    except VectorFault as fault:
        return [Problem(file, 1, str(fault))]
    except Exception as error:  # noqa: BLE001  whatever a file that is executed raises
        return [Problem(file, 1, f"the decoder {manifest['decoder']} can't be loaded: {error!r}")]
    files = golden.Files(root / target, manifest)
    try:
        rungs = pinned.read(root / target)
    except VectorFault as fault:
        return [Problem(f"{target}/{pinned.FILE}", 1, str(fault))]
    problems = []
    for entry in manifest["vectors"]:
        line = golden.line_of(text, entry["name"])
        try:
            decoded = decoder.oracle(load_vector(decoder, entry, files))
            found = [*_unpinned([entry], [decoded]), *_unpinned_rungs(rungs, {**manifest, "vectors": [entry]}, [decoded])]
            texts = [f"{one.name}: {one.text}" for one in found]
        except VectorFault as fault:
            texts = [str(fault)]
        except Exception as error:  # noqa: BLE001  as above
            texts = [f"{entry['name']}: the decoder {manifest['decoder']} fails: {error!r}"]
        problems += [Problem(file, line, text) for text in texts]
    return problems


def measure(root: Path, target: str, device: Device, *, leg: str = "", beside: Sequence[Beside] = ()) -> Outcome:
    """The whole check of a folder (relative to the root) on a device; what it prints is the log.

    leg: what the device is called, its name by default. Exceptions of the decoder file's own functions, and
    `Unavailable`, are the caller's to report.
    """
    try:
        kernel = root / golden.read_head(root / target).kernel
        truth = by_oracle(root, target)
        told = [_decoded(truth, kernel, one.name, one.open) for one in beside if one.always]
        told.append(_decoded(truth, kernel, leg or device.name, lambda: device, is_own=True))
        if truth.found or any(report.verdict is Verdict.FAILED for report, _ in told):
            told += [_decoded(truth, kernel, one.name, one.open) for one in beside if not one.always]
        return judged(truth, told, device.name)
    except VectorFault as fault:
        return Outcome(Verdict.ERROR, device=device.name, reason=f"{target}/{MANIFEST}: {fault}")


def _decoded(
    truth: Truth, kernel: Path, name: str, opened: Callable[[], Device], *, is_own: bool = False
) -> tuple[LegReport, Ran | None]:
    """A leg, whatever comes of it but what its decoder file raises; of the check's own leg `Unavailable` as well.

    A device that the leg opened is left open.
    """
    began = time.perf_counter()
    try:
        device = opened()
        ran = legs.run(truth, name, device, device.module(kernel))
    except Unavailable as missing:
        if is_own:
            raise
        return LegReport(name, Verdict.UNMEASURED, None, 0.0, str(missing)), None
    except (BuildFault, LaunchFault) as fault:
        text = str(fault).rstrip()
        print(text, flush=True)
        lines = text.splitlines() or ["no reason given"]
        what = f" does not compile: {first_error(text)}" if isinstance(fault, BuildFault) else f": {lines[0]}"
        reason = f"{truth.manifest['kernel']}{what}"
        # What only a GPU's compiler knows can't be emulated, which says nothing about the GPU's own leg.
        verdict = Verdict.UNMEASURED if isinstance(fault, BuildFault) and not is_own else Verdict.FAILED
        return LegReport(name, verdict, None, time.perf_counter() - began, reason, tuple(lines[:DETAIL])), None
    return _report(truth, ran), replace(ran, seconds=time.perf_counter() - began)


def _report(truth: Truth, ran: Ran) -> LegReport:
    verdict = Verdict.FAILED if ran.found else Verdict.PASSED
    first = next(iter(ran.shapes.values()))
    return LegReport(ran.name, verdict, legs.digest_of_leg(truth, first), ran.seconds, ran.found[0].text if ran.found else "")


def conform(truth: Truth, device: Device, module: Module) -> Outcome:
    """Decode on one device, in every launch shape; all must agree. Raises `LaunchFault`."""
    ran = legs.run(truth, device.name, device, module)
    return judged(truth, [(_report(truth, ran), ran)], device.name)


def judged(truth: Truth, told: Sequence[tuple[LegReport, Ran | None]], device: str) -> Outcome:
    """What the legs of a check come to, the last of them being the check's own. Raises `VectorFault`."""
    decoder = truth.decoder
    values = sum(decoded.values.size for decoded in truth.decoded)
    oracle = Verdict.FAILED if truth.found else Verdict.PASSED
    first = LegReport(ORACLE, oracle, legs.digest_of_leg(truth, truth.decoded), truth.seconds)
    reports = [first, *(report for report, _ in told)]
    ran = [one for _, one in told if one is not None]
    own = ran[-1] if ran else None
    facts = {
        "vectors": len(truth.vectors),
        "altered": len(truth.altered),
        decoder.unit: values,
        f"{decoder.unit}_per_second": dict(own.speeds) if own else {},
        f"oracle_{decoder.unit}_per_second": round(values / truth.seconds) if truth.seconds else None,
        "seed": SEED,
        "legs": [report.to_json() for report in reports],
        "ladders": legs.ladders(truth, ran),
    }
    cases = len(truth.vectors) + len(truth.altered)
    found = [*truth.found, *(one for leg in ran for one in leg.found)]
    if found:
        return _differing(truth, found, ran, device, cases, facts)
    for report in reports:
        if report.verdict is Verdict.FAILED:
            return Outcome(Verdict.FAILED, device=device, reason=report.reason, detail=report.detail, facts=facts)
    facts["at_once"] = min((leg.at_once for leg in ran), default=0)
    measured = [report.name for report in reports if report.verdict is Verdict.PASSED]
    reason = f"digest {first.digest[:DIGITS] if first.digest else ''} by {', '.join(measured)}"
    reason += "".join(f"; {one.name} unmeasured: {one.reason}" for one in reports if one.verdict is Verdict.UNMEASURED)
    return Outcome(Verdict.PASSED, device=device, reason=reason, cases=cases, facts=facts)


def _unpinned(entries: Sequence[Mapping[str, Any]], truth: Sequence[Decoded]) -> Iterator[Difference]:
    """Where the oracle gives something else than the manifest says."""
    for entry, decoded in zip(entries, truth, strict=True):
        if decoded.status != entry["status"]:
            text = f"status {decoded.status} by the oracle, {entry['status']} in the manifest"
        elif decoded.digest != entry["digest"]:
            text = f"digest {decoded.digest} by the oracle, {entry['digest']} in the manifest"
            values = entry.get("values", [])
            wrong = [i for i, (a, b) in enumerate(zip(decoded.values.tolist(), values, strict=False)) if a != b]
            if wrong:
                at = wrong[0]
                text = f"value {at}: {decoded.values[at]} by the oracle, {values[at]} in the manifest; {text}"
        elif entry.get("values") != (decoded.values.tolist() if decoded.values.size <= MOST_VALUES else None):
            text = f"'values' must list the {decoded.values.size} that the oracle gives"
            if decoded.values.size > MOST_VALUES:
                text = f"'values' is for {MOST_VALUES} of them at most; the oracle gives {decoded.values.size}"
        else:
            continue
        yield Difference(entry["name"], "oracle", text)


def _unexpected(altered: Sequence[Any], truth: Sequence[Decoded]) -> list[Difference]:
    """Altered vectors that the oracle ends otherwise than they must."""
    return [
        Difference(vector.name, "oracle", f"status {decoded.status} by the oracle, it must be {vector.expected}")
        for vector, decoded in zip(altered, truth, strict=True)
        if vector.expected not in (None, decoded.status)
    ]


def _unpinned_rungs(
    rungs: Mapping[Place, str] | None, manifest: Mapping[str, Any], truth: Sequence[Decoded]
) -> Iterator[Difference]:
    """Where the oracle's stages are not those that are pinned: the first of each vector."""
    family = manifest["family"]
    by_vector: dict[str, dict[Place, str]] = {}
    for place, sha256 in (rungs or {}).items():
        by_vector.setdefault(place.vector, {})[place] = sha256
    for entry, decoded in zip(manifest["vectors"], truth, strict=True):
        name = entry["name"]
        told = rungs_of(family, name, decoded)
        if rungs is None:
            if decoded.rungs:
                yield Difference(name, ORACLE, f"its stages are not pinned; `doit vectors pin {family}` does it")
            continue
        kept = by_vector.get(name, {})
        for place in dict.fromkeys([*told, *kept]):
            if told.get(place) != kept.get(place):
                both = f"{told.get(place, 'nothing')} by the oracle, {kept.get(place, 'nothing')} in {pinned.FILE}"
                yield Difference(name, ORACLE, f"{place.words()}: {both}")
                break


def _differing(
    truth: Truth, found: Sequence[Difference], ran: Sequence[Ran], device: str, cases: int, facts: Mapping[str, Any]
) -> Outcome:
    text = golden.dumps(truth.manifest)
    names = list(dict.fromkeys(difference.name for difference in found))
    first = found[0]
    more = f" (and {len(names) - 1} more of {cases})" if len(names) > 1 else f" (the only one of {cases})"
    detail = []
    numbers = {vector.name: number for number, vector in enumerate(truth.vectors)}
    for name in names[:SHOWN]:
        line = golden.line_of(text, name.partition(" ")[0])
        detail.append(f"{truth.target}/{MANIFEST}:{line}: {name}")
        detail += [f"    {one.leg}: {one.text}" for one in found if one.name == name]
        agree = legs.agreement(truth, numbers[name], ran) if name in numbers else ""
        detail += [f"    who agrees at {agree}"] if agree else []
    if len(names) > SHOWN:
        detail.append(f"... and {len(names) - SHOWN} more; altered streams are drawn with the seed {SEED}")
    return Outcome(
        Verdict.FAILED,
        device=device,
        reason=f"{first.name}: {first.text}{more}",
        detail=tuple(detail),
        cases=cases,
        facts=facts,
    )
