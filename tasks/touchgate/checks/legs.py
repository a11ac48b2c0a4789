"""One leg of a conformance check: all vectors, and the altered ones, decoded by one device in several launch shapes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from touchgate import ladder
from touchgate.checks.decoders import Decoded, Rung, rungs_of

if TYPE_CHECKING:
    from touchgate.checks.conformance import Truth
    from touchgate.checks.decoders import Leg
    from touchgate.devices import Device, Module
    from touchgate.ladder import Place
    from touchgate.outcome import Verdict

AT_ONCE = 20500
SHORT = 16
"""Copies of vectors of so few values that are decoded in one launch, where a GPU has fewer threads at a time."""

ORACLE = "oracle"


@dataclass(frozen=True)
class Difference:
    """A vector that did not come out as it must. leg: who decoded it."""

    name: str
    leg: str
    text: str


@dataclass(frozen=True)
class Ran:
    """What a leg came to.

    shapes: by launch shape, what it made of the vectors. found: where it parts from the oracle. speeds: values a second by
    shape. at_once: how many were decoded in one launch. seconds: of everything, compiling included.
    """

    name: str
    shapes: Mapping[str, Sequence[Decoded]]
    found: Sequence[Difference]
    speeds: Mapping[str, int | None]
    at_once: int
    seconds: float


@dataclass(frozen=True)
class LegReport:
    """A leg as it is reported. digest: of its whole ladder; None where it was not measured. detail: the fault's lines."""

    name: str
    verdict: Verdict
    digest: str | None
    seconds: float
    reason: str = ""
    detail: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        own = {"name": self.name, "verdict": self.verdict.value, "digest": self.digest, "seconds": round(self.seconds, 3)}
        return {**own, "reason": self.reason} if self.reason else own


def run(truth: Truth, name: str, device: Device, module: Module) -> Ran:
    """Decode all vectors of a truth on a device. Raises `LaunchFault`."""
    began = time.perf_counter()
    decoder = truth.decoder
    values = sum(decoded.values.size for decoded in truth.decoded)
    speeds: dict[str, int | None] = {}
    shapes: dict[str, Sequence[Decoded]] = {}
    plain: list[Difference] = []
    altered: list[Difference] = []
    for shape in decoder.shapes:
        print(f"{len(truth.vectors)} vectors and {len(truth.altered)} altered ones on {name}: {shape}", flush=True)
        leg: Leg = decoder.decode_on(device, module, truth.vectors, shape)
        shapes[shape] = leg.decoded
        speeds[shape] = round(values / leg.seconds) if leg.seconds else None
        plain += _apart(f"{name}, {shape}", truth.vectors, truth.decoded, leg.decoded, decoder.unit)
        leg = decoder.decode_on(device, module, truth.altered, shape)
        altered += _apart(f"{name}, {shape}", truth.altered, truth.altered_decoded, leg.decoded, decoder.unit)
    found = [*plain, *altered]
    at_once = 0
    if not found:
        found, at_once = _crowded(truth, name, device, module)
    return Ran(name, shapes, found, speeds, at_once, time.perf_counter() - began)


def rungs(truth: Truth, decoded: Sequence[Decoded]) -> dict[Place, str]:
    """The ladder of all vectors. Raises `VectorFault`."""
    found: dict[Place, str] = {}
    for vector, one in zip(truth.vectors, decoded, strict=True):
        found |= rungs_of(truth.manifest["family"], vector.name, one)
    return found


def _crowded(truth: Truth, name: str, device: Device, module: Module) -> tuple[list[Difference], int]:
    """Copies of the short vectors, by the thousand in one launch; where the first of each shape parts, and how many."""
    short = [i for i, decoded in enumerate(truth.decoded) if decoded.values.size <= SHORT]
    chosen = [short[i % len(short)] for i in range(AT_ONCE)] if short else []
    vectors, wanted = [truth.vectors[i] for i in chosen], [truth.decoded[i] for i in chosen]
    found = []
    for shape in truth.decoder.shapes if chosen else ():
        print(f"{len(vectors)} copies of {len(short)} short vectors on {name}: {shape}", flush=True)
        leg = truth.decoder.decode_on(device, module, vectors, shape)
        for at, (one, other) in enumerate(zip(wanted, leg.decoded, strict=True)):
            text = difference(one, other, truth.decoder.unit)
            if text:
                text = f"as number {at} of {len(vectors)} decoded at once: {text}"
                found.append(Difference(vectors[at].name, f"{name}, {shape}", text))
                break
    return found, len(vectors)


def _apart(
    leg: str, vectors: Sequence[Any], truth: Sequence[Decoded], decoded: Sequence[Decoded], unit: str
) -> list[Difference]:
    """Where a leg parts from the oracle."""
    texts = [difference(wanted, got, unit) for wanted, got in zip(truth, decoded, strict=True)]
    return [Difference(vector.name, leg, text) for vector, text in zip(vectors, texts, strict=True) if text]


def difference(wanted: Decoded, got: Decoded, unit: str) -> str | None:
    """Where a kernel's result parts from the oracle's, in words; None where they are equal.

    The first stage, frame and plane in which a value differs, then how it ended, then how much there is.
    """
    for one, other in zip(wanted.ladder, got.ladder, strict=False):
        text = _first_value(one, other, unit)
        if text:
            return f"{one.words}: {text}" if wanted.rungs else text
    if wanted.status != got.status:
        return (
            f"status {wanted.status} after {wanted.values.size} {unit} by the oracle, "
            f"{got.status} after {got.values.size} by the kernel"
        )
    if wanted.values.size != got.values.size:
        return f"{wanted.values.size} {unit} by the oracle, {got.values.size} by the kernel ({wanted.status})"
    for one, other in zip_longest(wanted.ladder, got.ladder):
        text = _other_rung(one, other)
        if text:
            return text
    if wanted.facts != got.facts:
        return f"{dict(wanted.facts)} by the oracle, {dict(got.facts)} by the kernel"
    return None


def _first_value(one: Rung, other: Rung, unit: str) -> str | None:
    if one.words != other.words:
        return None
    a, b = one.values.reshape(-1), other.values.reshape(-1)
    both = min(a.size, b.size)
    differing = np.flatnonzero(a[:both] != b[:both])
    if not differing.size:
        return None
    at = int(differing[0])
    return f"{unit} differ first at {at}: {a[at]} by the oracle, {b[at]} by the kernel"


def _other_rung(one: Rung | None, other: Rung | None) -> str | None:
    """Where the two don't tell the same stage, or not as many values of it, or of another type."""
    if one is None or other is None or one.words != other.words:
        told = [rung.words if rung else "nothing more" for rung in (one, other)]
        return f"{told[0]} by the oracle, {told[1]} by the kernel"
    if one.values.size != other.values.size:
        return f"{one.words}: {one.values.size} values by the oracle, {other.values.size} by the kernel"
    if one.values.dtype.itemsize != other.values.dtype.itemsize:
        return f"{one.words}: {one.values.dtype} by the oracle, {other.values.dtype} by the kernel"
    return None


def agreement(truth: Truth, at: int, ran: Sequence[Ran]) -> str:
    """Which legs agree about a vector, by its number, at the first rung where not all do: "oracle; here | s390x".

    A leg whose launch shapes part stands there by shape. "" where only what is not on the ladder differs.
    """
    family, name = truth.manifest["family"], truth.vectors[at].name
    told = {ORACLE: rungs_of(family, name, truth.decoded[at])}
    for leg in ran:
        told |= {f"{leg.name}, {shape}": rungs_of(family, name, decoded[at]) for shape, decoded in leg.shapes.items()}
    for place in dict.fromkeys(place for one in told.values() for place in one):
        groups: dict[str | None, list[str]] = {}
        for who, one in told.items():
            groups.setdefault(one.get(place), []).append(who)
        if len(groups) > 1:
            return f"{place.words()}: " + " | ".join("; ".join(_by_leg(group, ran)) for group in groups.values())
    return ""


def _by_leg(group: Sequence[str], ran: Sequence[Ran]) -> Sequence[str]:
    """The names of a group, a leg once where all its shapes are in it."""
    left = list(group)
    for leg in ran:
        own = [f"{leg.name}, {shape}" for shape in leg.shapes]
        if set(own) <= set(left):
            left = [leg.name if who == own[0] else who for who in left if who not in own[1:]]
    return left


def ladders(truth: Truth, ran: Sequence[Ran]) -> list[dict[str, Any]]:
    """The report's ladders: each once, with the legs that tell it. Raises `VectorFault`."""
    found: dict[str, list[str]] = {}
    for name, decoded in [(ORACLE, truth.decoded), *((leg.name, next(iter(leg.shapes.values()))) for leg in ran)]:
        found.setdefault(ladder.write(rungs(truth, decoded)), []).append(name)
    return [{"legs": names, "rungs": text.splitlines()} for text, names in found.items()]


def digest_of_leg(truth: Truth, decoded: Sequence[Decoded]) -> str:
    """One digest of a leg's whole ladder. Raises `VectorFault`."""
    return ladder.digest(rungs(truth, decoded))
