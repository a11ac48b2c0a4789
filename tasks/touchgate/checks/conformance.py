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
from touchgate.checks.decoders import Decoded, Decoder, load_decoder
from touchgate.golden import MANIFEST
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.devices import Device, Module

SEED = 20261130
"""Of the altered streams. Fixed: a check that passed must pass again."""

SHOWN = 8
"""Differences that a failure lists."""


@dataclass(frozen=True)
class Difference:
    """A vector that did not come out as it must. leg: who decoded it."""

    name: str
    leg: str
    text: str


def conform(root: Path, target: str, device: Device, module: Module | None = None) -> Outcome:
    """Decode a folder's vectors, and altered ones, by the oracle and on the device; every one must agree.

    module: another kernel than the manifest's (a mutant of it). Raises `BuildFault` and `LaunchFault`.
    """
    folder = root / target
    manifest = golden.read_manifest(folder)
    decoder = load_decoder(root / manifest["decoder"])
    module = module or device.module(root / manifest["kernel"])
    files = golden.Files(folder, manifest)
    vectors = [decoder.load(entry, files) for entry in manifest["vectors"]]
    altered = list(decoder.hostile(vectors, Random(SEED)))  # noqa: S311  nothing is kept secret by it

    began = time.perf_counter()
    truth = [decoder.oracle(vector) for vector in vectors]
    seconds = time.perf_counter() - began
    found = list(_unpinned(manifest["vectors"], truth))
    values = sum(decoded.values.size for decoded in truth)
    facts: dict[str, Any] = {
        "vectors": len(vectors),
        "altered": len(altered),
        decoder.unit: values,
        f"oracle_{decoder.unit}_per_second": round(values / seconds),
        f"{decoder.unit}_per_second": {},
        "seed": SEED,
    }
    altered_truth = [decoder.oracle(vector) for vector in altered]
    found += _unexpected(altered, altered_truth)
    for shape in decoder.shapes:
        leg = decoder.decode_on(device, module, vectors, shape)
        facts[f"{decoder.unit}_per_second"][shape] = round(values / leg.seconds) if leg.seconds else None
        found += _apart(f"{device.name}, {shape}", vectors, truth, leg.decoded, decoder)
        leg = decoder.decode_on(device, module, altered, shape)
        found += _apart(f"{device.name}, {shape}", altered, altered_truth, leg.decoded, decoder)
    cases = len(vectors) + len(altered)
    if found:
        return _differing(target, (folder / MANIFEST).read_text(encoding="utf-8"), found, cases, facts)
    return Outcome(Verdict.PASSED, cases=cases, facts=facts)


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


def _differing(target: str, text: str, found: Sequence[Difference], cases: int, facts: Mapping[str, Any]) -> Outcome:
    names = list(dict.fromkeys(difference.name for difference in found))
    first = found[0]
    more = f" (and {len(names) - 1} more of {cases})" if len(names) > 1 else f" (the only one of {cases})"
    detail = []
    for difference in found[:SHOWN]:
        line = golden.line_of(text, difference.name.partition(" ")[0])
        detail += [f"{target}/{MANIFEST}:{line}: {difference.name}", f"    {difference.leg}: {difference.text}"]
    if len(found) > SHOWN:
        detail.append(f"... and {len(found) - SHOWN} more differences in {len(names)} vectors")
    return Outcome(
        Verdict.FAILED, reason=f"{first.name}: {first.text}{more}", detail=tuple(detail), cases=cases, facts=facts
    )
