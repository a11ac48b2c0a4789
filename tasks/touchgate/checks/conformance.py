"""Conformance: golden vectors, and altered ones, by the oracle and on a device in several launch shapes must agree."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from touchgate import golden
from touchgate.checks.decoders import Decoded, Decoder, load_decoder, load_vector
from touchgate.checks.measuring import DETAIL, first_error
from touchgate.devices import BuildFault, LaunchFault
from touchgate.golden import MANIFEST, MOST_VALUES, Problem, VectorFault
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.devices import Device, Module

SEED = 20261130
"""Of the altered streams. Fixed: a check that passed must pass again."""

SHOWN = 8
"""Differences that a failure lists."""

AT_ONCE = 20500
SHORT = 16
"""Copies of vectors of so few values that are decoded in one launch, where a GPU has fewer threads at a time."""


@dataclass(frozen=True)
class Difference:
    """A vector that did not come out as it must. leg: who decoded it."""

    name: str
    leg: str
    text: str


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
    found = [*_unpinned(manifest["vectors"], decoded), *_unexpected(altered, altered_decoded)]
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
    problems = []
    for entry in manifest["vectors"]:
        line = golden.line_of(text, entry["name"])
        try:
            decoded = decoder.oracle(load_vector(decoder, entry, files))
            texts = [f"{one.name}: {one.text}" for one in _unpinned([entry], [decoded])]
        except VectorFault as fault:
            texts = [str(fault)]
        except Exception as error:  # noqa: BLE001  as above
            texts = [f"{entry['name']}: the decoder {manifest['decoder']} fails: {error!r}"]
        problems += [Problem(file, line, text) for text in texts]
    return problems


def measure(root: Path, target: str, device: Device) -> Outcome:
    """The whole check of a folder (relative to the root) on a device; what it prints is the log.

    Exceptions of the decoder file's own functions, and `Unavailable`, are the caller's to report.
    """
    try:
        kernel = golden.read_head(root / target).kernel
        module = device.module(root / kernel)
        return conform(by_oracle(root, target), device, module)
    except VectorFault as fault:
        return Outcome(Verdict.ERROR, device=device.name, reason=f"{target}/{MANIFEST}: {fault}")
    except BuildFault as fault:
        text = str(fault).rstrip()
        print(text, flush=True)
        reason = f"{kernel} does not compile: {first_error(text)}"
        return Outcome(Verdict.FAILED, device=device.name, reason=reason, detail=tuple(text.splitlines()[:DETAIL]))
    except LaunchFault as fault:
        lines = str(fault).splitlines() or ["no reason given"]
        return Outcome(Verdict.FAILED, device=device.name, reason=f"{kernel}: {lines[0]}", detail=tuple(lines))


def conform(truth: Truth, device: Device, module: Module) -> Outcome:
    """Decode the same on a device, in every launch shape; all must agree. Raises `LaunchFault`."""
    decoder = truth.decoder
    values = sum(decoded.values.size for decoded in truth.decoded)
    speeds: dict[str, int | None] = {}
    plain, altered = [], []
    for shape in decoder.shapes:
        print(f"{len(truth.vectors)} vectors and {len(truth.altered)} altered ones: {shape}", flush=True)
        leg = decoder.decode_on(device, module, truth.vectors, shape)
        speeds[shape] = round(values / leg.seconds) if leg.seconds else None
        plain += _apart(f"{device.name}, {shape}", truth.vectors, truth.decoded, leg.decoded, decoder)
        leg = decoder.decode_on(device, module, truth.altered, shape)
        altered += _apart(f"{device.name}, {shape}", truth.altered, truth.altered_decoded, leg.decoded, decoder)
    facts = {
        "vectors": len(truth.vectors),
        "altered": len(truth.altered),
        decoder.unit: values,
        f"{decoder.unit}_per_second": speeds,
        f"oracle_{decoder.unit}_per_second": round(values / truth.seconds) if truth.seconds else None,
        "seed": SEED,
    }
    cases = len(truth.vectors) + len(truth.altered)
    found = [*truth.found, *plain, *altered]
    if not found:
        found, facts["at_once"] = _crowded(truth, device, module)
    if found:
        return _differing(truth, found, device.name, cases, facts)
    return Outcome(Verdict.PASSED, device=device.name, cases=cases, facts=facts)


def _crowded(truth: Truth, device: Device, module: Module) -> tuple[list[Difference], int]:
    """Copies of the short vectors, by the thousand in one launch; where the first of each shape parts, and how many."""
    short = [i for i, decoded in enumerate(truth.decoded) if decoded.values.size <= SHORT]
    chosen = [short[i % len(short)] for i in range(AT_ONCE)] if short else []
    vectors, wanted = [truth.vectors[i] for i in chosen], [truth.decoded[i] for i in chosen]
    found = []
    for shape in truth.decoder.shapes if chosen else ():
        print(f"{len(vectors)} copies of {len(short)} short vectors: {shape}", flush=True)
        leg = truth.decoder.decode_on(device, module, vectors, shape)
        for at, (one, other) in enumerate(zip(wanted, leg.decoded, strict=True)):
            text = difference(one, other, truth.decoder.unit)
            if text:
                text = f"as number {at} of {len(vectors)} decoded at once: {text}"
                found.append(Difference(vectors[at].name, f"{device.name}, {shape}", text))
                break
    return found, len(vectors)


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


def _apart(
    leg: str, vectors: Sequence[Any], truth: Sequence[Decoded], decoded: Sequence[Decoded], decoder: Decoder
) -> list[Difference]:
    """Where a leg parts from the oracle."""
    texts = [difference(wanted, got, decoder.unit) for wanted, got in zip(truth, decoded, strict=True)]
    return [Difference(vector.name, leg, text) for vector, text in zip(vectors, texts, strict=True) if text]


def difference(wanted: Decoded, got: Decoded, unit: str) -> str | None:
    """Where a kernel's result parts from the oracle's, in words; None where they are equal."""
    both = min(wanted.values.size, got.values.size)
    differing = np.flatnonzero(wanted.values[:both] != got.values[:both])
    if differing.size:
        at = int(differing[0])
        return f"{unit} differ first at {at}: {wanted.values[at]} by the oracle, {got.values[at]} by the kernel"
    if wanted.status != got.status:
        return (
            f"status {wanted.status} after {wanted.values.size} {unit} by the oracle, "
            f"{got.status} after {got.values.size} by the kernel"
        )
    if wanted.values.size != got.values.size:
        return f"{wanted.values.size} {unit} by the oracle, {got.values.size} by the kernel ({wanted.status})"
    if wanted.facts != got.facts:
        return f"{dict(wanted.facts)} by the oracle, {dict(got.facts)} by the kernel"
    return None


def _differing(truth: Truth, found: Sequence[Difference], device: str, cases: int, facts: Mapping[str, Any]) -> Outcome:
    text = golden.dumps(truth.manifest)
    names = list(dict.fromkeys(difference.name for difference in found))
    first = found[0]
    more = f" (and {len(names) - 1} more of {cases})" if len(names) > 1 else f" (the only one of {cases})"
    detail = []
    for name in names[:SHOWN]:
        line = golden.line_of(text, name.partition(" ")[0])
        detail.append(f"{truth.target}/{MANIFEST}:{line}: {name}")
        detail += [f"    {one.leg}: {one.text}" for one in found if one.name == name]
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
