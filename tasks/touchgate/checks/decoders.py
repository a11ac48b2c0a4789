"""The interface of a decoder file: what a manifest names to decode its folder's vectors, exactly and on devices.

It is a Python file that defines `DECODER = Decoder(...)`; docs/vectors.md explains it. It is loaded by path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from touchgate import ladder
from touchgate.checks.cases import load_file
from touchgate.golden import COMMON_KEYS, VectorFault, is_file_within
from touchgate.ladder import LadderFault, Place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from touchgate.devices import Device, Module

OK = "ok"
"""The status of a vector that decodes to its end. All others are the family's own words."""


class Vector(Protocol):
    """One thing to decode; what more it holds is the family's own affair."""

    @property
    def name(self) -> str:
        """As in the manifest; an altered one says how it was altered."""

    @property
    def expected(self) -> str | None:
        """The status it must end with, or None where only agreement is asked for."""


class Store(Protocol):
    """Reads what a manifest's entry names. Both raise `VectorFault`."""

    def file(self, path: str) -> bytes:
        """A whole file, relative to the family's folder, checked against the manifest's digest."""

    def part(self, reference: Mapping[str, Any]) -> bytes:
        """A piece of a file, {"file", "offset", "bytes", "sha256"}, checked against its digest."""


@dataclass(frozen=True)
class Rung:
    """What a stage of decoding left: one plane of one frame. values: an integer type, any shape."""

    stage: str
    frame: int
    plane: str
    values: NDArray[Any]

    @property
    def words(self) -> str:
        """Where it is, for a person."""
        return f"stage {self.stage}, frame {self.frame}, plane {self.plane}"


@dataclass(frozen=True)
class Decoded:
    """What came of one vector.

    status: "ok", or how it ended. values: what was decoded before the end, shape (n,), an integer type. facts: more
    that every leg must agree on. rungs: what each stage left, in the order of decoding; without any, the values are the
    only stage.
    """

    status: str
    values: NDArray[Any]
    facts: Mapping[str, int] = field(default_factory=dict)
    rungs: tuple[Rung, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the values, little-endian, in hexadecimal."""
        return digest_of(self.values)

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """Its stages, at least one."""
        return self.rungs or (Rung(ladder.VALUES, 0, "0", self.values),)


def digest_of(values: NDArray[Any]) -> str:
    """SHA-256 of integers, little-endian and in C order, in hexadecimal."""
    return hashlib.sha256(values.astype(values.dtype.newbyteorder("<"), order="C", copy=False).tobytes()).hexdigest()


def rungs_of(family: str, name: str, decoded: Decoded) -> dict[Place, str]:
    """The digests of a decoded vector's stages by their places, how it ended the last.

    Raises `VectorFault` where a place is there twice or can't be written.
    """
    found = {Place(family, name, one.stage, one.frame, one.plane): digest_of(one.values) for one in decoded.ladder}
    end = Place(family, name, ladder.END, 0, "0")
    if len(found) < len(decoded.ladder) or end in found:
        raise VectorFault(f"{name}: the decoder tells one stage, frame and plane twice, or a stage '{ladder.END}' of its own")
    try:
        for place in found:
            ladder.heard(ladder.line(place, ladder.end_digest("")))
    except LadderFault as fault:
        raise VectorFault(f"{name}: {fault}") from fault
    return {**found, end: ladder.end_digest(decoded.status)}


@dataclass(frozen=True)
class Leg:
    """One decoding of many vectors on a device, in the order given. seconds: of the launches, nothing else."""

    decoded: tuple[Decoded, ...]
    seconds: float


@dataclass(frozen=True)
class Decoder:
    """How one family is decoded.

    unit: what the values are, in the plural ("symbols"). shapes: names of at least two launch shapes (block sizes,
    orders). load(entry, store): a manifest's entry as a vector; raises `VectorFault` or what Python does where it is
    malformed. oracle(vector): exactly, in plain integers, whatever the bytes are. decode_on(device, module, vectors,
    shape): with the compiled kernel; one launch decodes them all. hostile(vectors, random): altered vectors (cut,
    lengthened, flipped bits), with `random` as the only source of chance.
    """

    unit: str
    shapes: tuple[str, ...]
    load: Callable[[Mapping[str, Any], Store], Any]
    oracle: Callable[[Any], Decoded]
    decode_on: Callable[[Device, Module, Sequence[Any], str], Leg]
    hostile: Callable[[Sequence[Any], Random], Iterable[Any]]


def load_decoder(root: Path, file: str) -> Decoder:
    """The `DECODER` of a decoder file (relative to the root). Raises `VectorFault`, and whatever the file itself raises.

    Nothing outside the root is executed.
    """
    if not is_file_within(root, file):
        raise VectorFault(f"the decoder {file} does not exist, or leads out of the repository")
    path = root / file
    found = getattr(load_file(path), "DECODER", None)
    if not isinstance(found, Decoder):
        what = "defines no DECODER" if found is None else f"defines DECODER as {type(found).__name__}"
        raise VectorFault(f"{path.name} {what}; wanted is DECODER = Decoder(...), with Decoder from touchgate.checks.decoders")
    if len(set(found.shapes)) < 2:  # noqa: PLR2004  two of them are compared
        raise VectorFault(f"{path.name}: shapes = {found.shapes}: wanted are at least two different launch shapes")
    return found


class _Read(Mapping[str, Any]):
    """An entry that remembers which of its keys were asked for."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.entry = entry
        self.keys_read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.keys_read.add(key)
        return self.entry[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entry)

    def __len__(self) -> int:
        return len(self.entry)


def load_vector(decoder: Decoder, entry: Mapping[str, Any], store: Store) -> Any:
    """An entry of a manifest as the decoder's vector.

    Raises `VectorFault` for whatever is wrong with it, a key that the decoder never asked for included.
    """
    read = _Read(entry)
    try:
        vector = decoder.load(read, store)
    except VectorFault as fault:
        raise VectorFault(f"{entry['name']}: {fault}") from fault
    except KeyError as error:
        raise VectorFault(f"{entry['name']}: has no {error}") from error
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise VectorFault(f"{entry['name']}: the decoder can't read it: {error!r}") from error
    unknown = sorted(entry.keys() - COMMON_KEYS - read.keys_read)
    if unknown:
        raise VectorFault(f"{entry['name']}: unknown key {unknown[0]!r}: the family's decoder does not read it")
    return vector
