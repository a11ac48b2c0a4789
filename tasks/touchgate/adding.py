"""The only way into a family's folder: vectors are decoded by the family's oracle before anything is written.

Nothing that exists is overwritten. New files are put in place first and the manifest last, each in one step: who is
interrupted leaves at worst files that no manifest names, which the lint shows and the same call takes up again.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate import golden, ladder, pinned
from touchgate.golden import FOLDER, MANIFEST, SCHEMA, Head, VectorFault

if TYPE_CHECKING:
    from touchgate.checks.decoders import Decoded, Decoder
    from touchgate.ladder import Place


@dataclass(frozen=True)
class Blob:
    """Bytes to keep in a file of the family's folder; several of the same file are laid one behind the other."""

    file: str
    data: bytes


@dataclass(frozen=True)
class NewVector:
    """A vector to add.

    fields: what the family's decoder reads, plain JSON; a `Blob` becomes a reference to its piece.
    expected: what the encoder was given, as the decoder gives it back, little-endian; needed for "ok", where our own
    oracle's word would prove nothing. For another status it may be left out: then the oracle's values before the end
    are pinned.
    """

    name: str
    fields: Mapping[str, Any]
    expected: bytes | None = None
    status: str = "ok"
    about: str = ""


@dataclass(frozen=True)
class Source:
    """Where vectors came from. date: YYYY-MM-DD. more: any of `golden.OPTIONAL_OF_SOURCE`."""

    name: str
    tool: str
    version: str
    command: str
    date: str
    licence: str
    more: Mapping[str, str | int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the manifest keeps it, under its name."""
        own = {key: getattr(self, key) for key in golden.REQUIRED_OF_SOURCE}
        return {**self.more, **own}


def add(
    root: Path,
    family: str,
    new: Sequence[NewVector],
    source: Source,
    *,
    files: Mapping[str, bytes] | None = None,
    head: Head | None = None,
) -> tuple[str, ...]:
    """Add vectors to `vectors/<family>`; the names added, sorted. Raises `VectorFault`, and then nothing was written.

    files: whole new files (tables), by their path in the family's folder. head: for a family's first vectors.
    """
    if not new:
        raise VectorFault("no vectors were given")
    if not golden.NAME.fullmatch(family):
        raise VectorFault(f"{family!r} is no name of a family: wanted are lower-case letters, digits, '.', '_' and '-'")
    folder = root / FOLDER / family
    if not golden.within(root, f"{FOLDER}/{family}"):
        raise VectorFault(f"{FOLDER}/{family} leads out of the repository")
    with _held(folder, create=head is not None):
        manifest = _start(folder, family, head)
        extra = _new_files(new, files or {})
        _refuse_overwriting(folder, manifest, extra)
        entries = _entries(new, source, manifest)
        data = _merged(manifest, entries, source, extra)
        decoder = _decoder(root, data)
        store = golden.Files(folder, data, extra)
        for vector, entry in zip(new, entries, strict=True):
            _verify(decoder, store, vector, entry)
        _refuse_faulty(root, folder, data, extra)
        rungs = _ladder(folder, data, decoder, store)
        try:
            for path, content in sorted(extra.items()):
                _put(folder / path, content)
            if rungs is not None:
                _replace(folder / pinned.FILE, ladder.write(rungs).encode())
            _replace(folder / MANIFEST, golden.dumps(data).encode())
        except OSError as error:
            raise VectorFault(f"{error.filename or folder} can't be written: {error.strerror}") from error
    return tuple(sorted(vector.name for vector in new))


def pin(root: Path, family: str) -> int:
    """Pin the stages of the vectors of `vectors/<family>` that have none in its ladder yet; how many rungs were added.

    A rung that is pinned stays as it is. Raises `VectorFault` where the folder has problems, or the oracle parts from what is
    pinned, by the manifest or the ladder; then nothing was written.
    """
    target = f"{FOLDER}/{family}"
    folder = root / target
    if not golden.NAME.fullmatch(family):
        raise VectorFault(f"{family!r} is no name of a family")
    for problem in golden.check_family(root, target):
        raise VectorFault(str(problem))
    with _held(folder, create=False):
        data = golden.read_manifest(folder)
        decoder = _decoder(root, data)
        before = pinned.read(folder) or {}
        rungs = _ladder(folder, data, decoder, golden.Files(folder, data), whole=True) or {}
        if len(rungs) > len(before):
            try:
                _replace(folder / pinned.FILE, ladder.write(rungs).encode())
            except OSError as error:
                raise VectorFault(f"{folder} can't be written: {error.strerror}") from error
    return len(rungs) - len(before)


def _ladder(
    folder: Path, data: Mapping[str, Any], decoder: Decoder, store: golden.Files, *, whole: bool = False
) -> dict[Place, str] | None:
    """The rungs of all vectors, those that are pinned kept; None where the manifest pins all that the decoder tells.

    whole: also decode the vectors that are pinned, and refuse an oracle that parts from them or from the manifest.
    """
    from touchgate.checks.decoders import load_vector, rungs_of  # noqa: PLC0415

    kept = pinned.read(folder)
    by_vector: dict[str, dict[Place, str]] = {}
    for place, sha256 in (kept or {}).items():
        by_vector.setdefault(place.vector, {})[place] = sha256
    found: dict[Place, str] = {}
    is_wanted = kept is not None or whole
    for entry in data["vectors"]:
        known = by_vector.get(entry["name"])
        if known and not whole:
            found |= known
            continue
        decoded = decoder.oracle(load_vector(decoder, entry, store))
        told = rungs_of(data["family"], entry["name"], decoded)
        if (decoded.status, decoded.digest) != (entry["status"], entry["digest"]):
            raise VectorFault(f"{entry['name']}: the oracle parts from {MANIFEST}; `doit vectors check` says where")
        if known and known != told:
            raise VectorFault(f"{entry['name']}: the oracle parts from {pinned.FILE}; `doit vectors check` says where")
        found |= told
        is_wanted = is_wanted or bool(decoded.rungs)
    return found if is_wanted else None


def new_vector(
    name: str,
    *,
    parts: Sequence[str] = (),
    fields: Sequence[str] = (),
    expect: Path | None = None,
    status: str = "ok",
    about: str = "",
) -> NewVector:
    """A vector from a command line's words. Raises `VectorFault`.

    parts: "KEY=FILE", kept as KEYs/NAME with the file's own suffix. fields: "KEY=VALUE", where VALUE is JSON if it can
    be read as such, else text. expect: the file of expected values.
    """
    made: dict[str, Any] = {}
    for text in fields:
        key, value = _pair(text)
        try:
            made[key] = json.loads(value)
        except ValueError:
            made[key] = value
    for text in parts:
        key, value = _pair(text)
        path = Path(value)
        made[key] = Blob(f"{key}s/{name}{path.suffix or '.bin'}", _bytes(path))
    return NewVector(name, made, None if expect is None else _bytes(expect), status, about)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise VectorFault(f"{text!r} is not KEY=VALUE")
    return key, value


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise VectorFault(f"{path} can't be read: {error.strerror}") from error


# ---- before anything is written


@contextmanager
def _held(folder: Path, *, create: bool) -> Iterator[None]:
    """Nobody else adds to this folder meanwhile."""
    made = create and not folder.exists()
    if made:
        folder.mkdir(parents=True)
    elif not folder.is_dir():
        raise VectorFault(f"there is no family {folder.name!r}; give its about, decoder and kernel to begin one")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
        if made and not any(folder.iterdir()):
            folder.rmdir()


def _start(folder: Path, family: str, head: Head | None) -> dict[str, Any]:
    if os.path.lexists(folder / MANIFEST):
        if head is not None:
            raise VectorFault(f"the family {family!r} exists: leave its about, decoder and kernel away")
        manifest = golden.read_manifest(folder)
        for _, message in golden.wrong_shapes(manifest):
            raise VectorFault(f"{MANIFEST} is damaged: {message}")
        return manifest
    if head is None:
        raise VectorFault(f"the family {family!r} has no {MANIFEST}; give its about, decoder and kernel to begin one")
    own = {"about": head.about, "decoder": head.decoder, "kernel": head.kernel}
    return {"schema": SCHEMA, "family": family, "count": 0, "files": [], "sources": {}, "vectors": [], **own}


def _new_files(new: Sequence[NewVector], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Every file to write: the whole ones, and the blobs packed in the order of the vectors."""
    packed: dict[str, bytearray] = {}
    for vector in new:
        for value in vector.fields.values():
            if isinstance(value, Blob):
                packed.setdefault(value.file, bytearray()).extend(value.data)
    both = sorted(packed.keys() & files.keys())
    if both:
        raise VectorFault(f"{both[0]} is given as a whole file and as a vector's piece")
    extra = {path: bytes(data) for path, data in packed.items()} | dict(files)
    for path in extra:
        if not golden.is_plain(path) or path in golden.COMPANIONS:
            raise VectorFault(f"{path!r} is not a plain path inside the family's folder")
    return extra


def _refuse_overwriting(folder: Path, manifest: Mapping[str, Any], extra: Mapping[str, bytes]) -> None:
    listed = {item["path"] for item in manifest["files"]}
    for path, data in extra.items():
        place = folder / path
        if path in listed:
            raise VectorFault(f"{path} exists already; give the new file another name")
        if not golden.within(folder, path):
            raise VectorFault(f"{place} leads out of the family's folder")
        if os.path.lexists(place) and golden.read_within(folder, path) != data:
            raise VectorFault(f"{place} exists and differs; what is there is never overwritten")


def _entries(new: Sequence[NewVector], source: Source, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The vectors' entries, without digest and values."""
    taken = {vector["name"] for vector in manifest["vectors"]}
    ends: dict[str, int] = {}
    entries = []
    for vector in new:
        if vector.name in taken:
            raise VectorFault(f"there is a vector {vector.name} already")
        taken.add(vector.name)
        reserved = sorted(golden.COMMON_KEYS & vector.fields.keys())
        if reserved:
            raise VectorFault(f"{vector.name}: {reserved[0]!r} is not a field to give")
        entry: dict[str, Any] = {"name": vector.name, "source": source.name, "status": vector.status}
        if vector.about:
            entry["about"] = vector.about
        for key, value in vector.fields.items():
            if isinstance(value, Blob):
                first = ends.get(value.file, 0)
                ends[value.file] = first + len(value.data)
                size = len(value.data)
                entry[key] = {"file": value.file, "offset": first, "bytes": size, "sha256": golden.digest(value.data)}
            else:
                entry[key] = value
        entries.append(entry)
    return entries


def _merged(
    manifest: Mapping[str, Any], entries: Sequence[dict[str, Any]], source: Source, extra: Mapping[str, bytes]
) -> dict[str, Any]:
    described = source.to_json()
    for message in golden.wrong_source(described):
        raise VectorFault(f"source {source.name!r}: {message}")
    if manifest["sources"].get(source.name, described) != described:
        raise VectorFault(f"there is another source {source.name!r} already; give this one a name of its own")
    listed = [{"path": path, "bytes": len(data), "sha256": golden.digest(data)} for path, data in extra.items()]
    return {
        **manifest,
        "count": len(manifest["vectors"]) + len(entries),
        "files": sorted([*manifest["files"], *listed], key=lambda item: str(item["path"])),
        "sources": {**manifest["sources"], source.name: described},
        "vectors": sorted([*manifest["vectors"], *entries], key=lambda item: str(item["name"])),
    }


def _decoder(root: Path, data: Mapping[str, Any]) -> Decoder:
    from touchgate.checks.decoders import load_decoder  # noqa: PLC0415  imports the decoder's numpy

    if not golden.is_file_within(root, data["decoder"]):
        raise VectorFault(f"the decoder {data['decoder']} does not exist")
    return load_decoder(root, data["decoder"])


def _verify(decoder: Decoder, files: golden.Files, vector: NewVector, entry: dict[str, Any]) -> None:
    """Decode a vector by the oracle, compare with what was expected, and pin digest and values in its entry."""
    from touchgate.checks.decoders import load_vector  # noqa: PLC0415

    decoded = decoder.oracle(load_vector(decoder, entry, files))
    if decoded.status != vector.status:
        raise VectorFault(f"{vector.name}: the oracle says {decoded.status}, given was {vector.status}")
    if vector.expected is None and vector.status == "ok":
        raise VectorFault(f"{vector.name}: give the expected values; our own oracle's word would prove nothing")
    if vector.expected is not None and golden.digest(vector.expected) != decoded.digest:
        raise VectorFault(f"{vector.name}: {_difference(decoded, vector.expected)}")
    entry["digest"] = decoded.digest
    if decoded.values.size <= golden.MOST_VALUES:
        entry["values"] = decoded.values.tolist()


def _difference(decoded: Decoded, expected: bytes) -> str:
    """The first value that the oracle gives otherwise."""
    import numpy as np  # noqa: PLC0415  a parent that adds nothing never needs it

    kind = decoded.values.dtype.newbyteorder("<")
    if len(expected) != decoded.values.size * kind.itemsize:
        what = f"{decoded.values.size} values of {kind.itemsize} bytes"
        return f"the oracle gives {what}, the expected ones are {len(expected)} bytes"
    wanted = np.frombuffer(expected, kind)
    first = int((wanted != decoded.values).argmax())
    return f"value {first} is {decoded.values[first]} by the oracle, expected was {wanted[first]}"


def _refuse_faulty(root: Path, folder: Path, data: Mapping[str, Any], extra: Mapping[str, bytes]) -> None:
    for _, message in golden.lint(root, folder, data, extra):
        raise VectorFault(message)


# ---- writing


def _temporary(place: Path, data: bytes) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    Path(name).chmod(0o644)
    return Path(name)


def _put(place: Path, data: bytes) -> None:
    """A new file; one that is there with the same bytes stays, another is never overwritten."""
    if place.exists():
        return
    half = _temporary(place, data)
    try:
        os.link(half, place)
    finally:
        half.unlink()


def _replace(place: Path, data: bytes) -> None:
    _temporary(place, data).replace(place)
