"""Golden vectors: the manifest of a family's folder, and what must be true of it.

`vectors/<family>/manifest.json` names everything in its folder with sizes and SHA-256 digests, where each vector came
from, and what it must decode to. docs/vectors.md has the format. It is written by `touchgate.adding` alone: a text
that is not the one `dumps` gives was edited by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

SCHEMA = 1
FOLDER = "vectors"
"""Where `check` looks for families, relative to the root."""
MANIFEST = "manifest.json"
LADDER = "ladder.txt"
COMPANIONS = frozenset({MANIFEST, LADDER, "README.md"})
"""Files of a family's folder that its manifest need not name."""

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
SHA256 = re.compile(r"[0-9a-f]{64}")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

MOST_OF_MANIFEST = 1 << 24
MOST_OF_FILE = 1 << 26
"""Bytes that are read at most: of a manifest, and of any other file."""
MOST_VALUES = 16
"""Values up to which a vector must list them, for the person who reads it; longer ones have the digest alone."""

HEAD_KEYS = ("about", "decoder", "kernel")
REQUIRED_OF_SOURCE = ("tool", "version", "command", "date", "licence")
OPTIONAL_OF_SOURCE = ("artifact", "artifact_sha256", "generator", "generator_sha256", "seed", "about")
COMMON_KEYS = frozenset({"name", "about", "source", "status", "digest", "values"})
"""Of a vector. All others are the family's own."""
PART_KEYS = frozenset({"file", "offset", "bytes", "sha256"})


class VectorFault(Exception):
    """A vector, a manifest, or a file that it names, is not what it should be: one line."""


@dataclass(frozen=True, order=True)
class Problem:
    """Something that is wrong with a family's folder. file: relative to the root. line: from 1."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Head:
    """What a manifest says before its lists. decoder, kernel: paths relative to the root."""

    about: str
    decoder: str
    kernel: str


def is_plain(path: str) -> bool:
    """Whether a path stays below what it is relative to, is written in one way, and is one that a file can have."""
    pure = PurePosixPath(path)
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return not pure.is_absolute() and ".." not in pure.parts and str(pure) == path and "\0" not in path


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def dumps(manifest: Mapping[str, Any]) -> str:
    """The one text of a manifest: keys sorted, and each entry of a list or of `sources` on a line of its own."""

    def flat(value: Any) -> str:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)

    lines = []
    for key, value in sorted(manifest.items()):
        if isinstance(value, list) and value:
            body = ",\n".join(f"    {flat(item)}" for item in value)
            lines.append(f"  {flat(key)}: [\n{body}\n  ]")
        elif key == "sources":
            body = ",\n".join(f"    {flat(name)}: {flat(item)}" for name, item in sorted(value.items()))
            lines.append(f"  {flat(key)}: {{\n{body}\n  }}")
        else:
            lines.append(f"  {flat(key)}: {flat(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise VectorFault(f"the key {key!r} is there twice")
        found[key] = value
    return found


def loads(text: str) -> dict[str, Any]:
    """A manifest's data. Raises `VectorFault`, the line included, for what is not a JSON object or has a key twice."""
    try:
        data = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise VectorFault(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except ValueError as error:
        # A number of thousands of digits.
        raise VectorFault(str(error)) from error
    except RecursionError as error:
        raise VectorFault("is nested too deeply") from error
    if not isinstance(data, dict):
        raise VectorFault("is not a JSON object")
    return data


def within(root: Path, path: str) -> bool:
    """Whether a path relative to the root is written plainly, and its links, if any, stay below the root."""
    if not is_plain(path):
        return False
    try:
        real = (root / path).resolve()
        # Links that lead in a circle: an error up to Python 3.12, a link that is left as it is from 3.13 on.
        return real.is_relative_to(root.resolve()) and not real.is_symlink()
    except (OSError, RuntimeError):
        return False


def is_file_within(root: Path, path: str) -> bool:
    """Whether there is a regular file, which is not reached by a link that leads out of the root."""
    return within(root, path) and (root / path).is_file()


def read_within(folder: Path, path: str, most: int = MOST_OF_FILE) -> bytes:
    """A regular file of at most `most` bytes below a folder. Raises `VectorFault`; a pipe or device is never waited for."""
    if not within(folder, path):
        raise VectorFault(f"{path} leads out of the folder")
    try:
        descriptor = os.open((folder / path).resolve(), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise VectorFault(f"{path} is not a regular file")
            if found.st_size > most:
                raise VectorFault(f"{path} has {found.st_size} bytes; at most {most} are read")
            return file.read(most)
    except OSError as error:
        raise VectorFault(f"{path} can't be read: {error.strerror}") from error


def read_text(folder: Path) -> str:
    """The text of a folder's manifest. Raises `VectorFault`."""
    if not os.path.lexists(folder / MANIFEST):
        raise VectorFault(f"there is no {MANIFEST}")
    try:
        return read_within(folder, MANIFEST, MOST_OF_MANIFEST).decode("utf-8")
    except UnicodeDecodeError as error:
        raise VectorFault(f"{MANIFEST} can't be read: {error}") from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """The data of a folder's manifest. Raises `VectorFault`."""
    return loads(read_text(folder))


def read_head(folder: Path) -> Head:
    """The small fields of a folder's manifest. Raises `VectorFault`."""
    data = read_manifest(folder)
    for key in HEAD_KEYS:
        if not isinstance(data.get(key), str) or not data[key]:
            raise VectorFault(f"{MANIFEST} has no {key!r}")
    for key in ("decoder", "kernel"):
        if not is_plain(data[key]):
            raise VectorFault(f"{key} {data[key]!r} is not a plain path inside the repository")
    return Head(data["about"], data["decoder"], data["kernel"])


def line_of(text: str, name: str) -> int:
    """The line of a manifest's text that holds the vector of this name; 1 where none does."""
    mark = f'"name": {json.dumps(name)}'
    for number, line in enumerate(text.splitlines(), 1):
        if mark in line:
            return number
    return 1


class Files:
    """A family's files as its manifest lists them; implements `touchgate.checks.decoders.Store`.

    extra: files that are not in the folder yet, by path.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], extra: Mapping[str, bytes] | None = None) -> None:
        self.folder = folder
        self.extra = dict(extra or {})
        self._listed = {item["path"]: item for item in manifest["files"]}
        self._read: dict[str, bytes] = {}

    def file(self, path: str) -> bytes:
        """A whole file, checked against the manifest. Raises `VectorFault`."""
        if path not in self._read:
            self._read[path] = self._checked(path)
        return self._read[path]

    def _checked(self, path: str) -> bytes:
        listed = self._listed.get(path)
        if listed is None:
            raise VectorFault(f"{path} is not among the manifest's files")
        data = self.extra[path] if path in self.extra else read_within(self.folder, path)
        if len(data) != listed["bytes"]:
            raise VectorFault(f"{path} has {len(data)} bytes, the manifest says {listed['bytes']}")
        if digest(data) != listed["sha256"]:
            raise VectorFault(f"{path} has SHA-256 {digest(data)}, the manifest says {listed['sha256']}")
        return data

    def part(self, reference: Mapping[str, Any]) -> bytes:
        """A piece of a file: {"file", "offset", "bytes", "sha256"}. Raises `VectorFault`."""
        if not is_part(reference):
            raise VectorFault(f"{json.dumps(reference)[:100]} is not file, offset, bytes and sha256")
        data = self.file(reference["file"])
        first, size = reference["offset"], reference["bytes"]
        if not 0 <= first <= first + size <= len(data):
            raise VectorFault(f"bytes {first} to {first + size} are not in {reference['file']} ({len(data)} bytes)")
        piece = data[first : first + size]
        if digest(piece) != reference["sha256"]:
            raise VectorFault(f"bytes {first} to {first + size} of {reference['file']} have another SHA-256")
        return piece


# ---- the lint


def check(root: Path) -> list[Problem]:
    """Everything wrong with the families below `vectors/`, sorted. An absent folder has no problems."""
    top = root / FOLDER
    if not top.is_dir():
        return []
    if not within(root, FOLDER):
        return [Problem(FOLDER, 1, "leads out of the repository")]
    problems = [
        Problem(f"{FOLDER}/{entry.name}", 1, "belongs to no family; move it into a family's folder")
        for entry in top.iterdir()
        if not entry.is_dir() and entry.name not in COMPANIONS and not entry.name.startswith(".")
    ]
    for folder in top.iterdir():
        is_family = folder.is_dir() and not folder.name.startswith((".", "__"))
        # A ladder alone says what somebody else's decoder must tell: there is no oracle to ask.
        if is_family and (os.path.lexists(folder / MANIFEST) or not os.path.lexists(folder / LADDER)):
            problems += check_family(root, f"{FOLDER}/{folder.name}")
    return sorted(problems)


def check_family(root: Path, target: str) -> list[Problem]:
    """Everything wrong with one family's folder (relative to the root), sorted."""
    folder = root / target
    file = f"{target}/{MANIFEST}"
    if not within(root, target):
        return [Problem(file, 1, "its folder leads out of the repository")]
    try:
        text = read_text(folder)
        data = loads(text)
    except VectorFault as fault:
        return [Problem(file, 1, str(fault))]
    problems = list(lint(root, folder, data))
    if not problems and text != dumps(data):
        problems.append(("", "was edited by hand: its text is not what `doit vectors add` writes"))
    return sorted(Problem(file, line_of(text, name) if name else 1, message) for name, message in problems)


Found = tuple[str, str]
"""The name of a vector ("" for what is about the whole), and what is wrong."""


def lint(root: Path, folder: Path, data: Mapping[str, Any], extra: Mapping[str, bytes] | None = None) -> Iterator[Found]:
    """What is wrong with a manifest's data. extra: files that are about to be added."""
    shapes = list(wrong_shapes(data))
    yield from shapes
    if shapes:
        return
    yield from _wrong_head(root, folder, data)
    yield from _wrong_files(folder, data, extra or {})
    yield from _wrong_sources(folder, data)
    yield from _wrong_vectors(folder, data, extra or {})


def wrong_shapes(data: Mapping[str, Any]) -> Iterator[Found]:
    """Where a manifest's data has not the types that everything else relies on."""
    wanted = {"schema": int, "family": str, "count": int, "files": list, "sources": dict, "vectors": list}
    wanted |= dict.fromkeys(HEAD_KEYS, str)
    for key, kind in wanted.items():
        if not isinstance(data.get(key), kind) or isinstance(data[key], bool):
            yield "", f"{key!r} is missing or is not {_article(kind)}"
    for key in data.keys() - wanted.keys():
        yield "", f"unknown key {key!r}"
    for item in _list(data, "files"):
        known = isinstance(item, dict) and item.keys() == {"path", "bytes", "sha256"}
        if not known or not isinstance(item["path"], str) or not _is_count(item["bytes"]) or not _is_sha(item["sha256"]):
            yield "", f"a file is not described by path, bytes and sha256: {json.dumps(item)[:100]}"
    for item in _list(data, "vectors"):
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield from ((item["name"], f"{item['name']}: {message}") for message in _wrong_shape_of(item))
        else:
            yield "", f"a vector has no name: {json.dumps(item)[:100]}"


def _wrong_shape_of(vector: Mapping[str, Any]) -> Iterator[str]:
    for key in ("source", "status"):
        if not isinstance(vector.get(key), str):
            yield f"{key!r} is missing or is not a string"
    if not isinstance(vector.get("about", ""), str):
        yield "'about' is not a string"
    if not _is_sha(vector.get("digest")):
        yield "'digest' is not a SHA-256 in lower case"
    for key, value in vector.items():
        # What else a family names a file for (indexes) has none of these three.
        if isinstance(value, dict) and value.keys() & {"offset", "bytes", "sha256"} and not is_part(value):
            yield f"{key!r} is not file, offset, bytes and sha256"
    yield from _wrong_values(vector)


WIDTHS = (1, 2, 4, 8)
"""Bytes of the integers that a decoder may give."""


def _wrong_values(vector: Mapping[str, Any]) -> Iterator[str]:
    """What the list of values and the digest, which must belong to each other, show without decoding anything."""
    values = vector.get("values")
    if "values" not in vector:
        if vector.get("digest") == digest(b""):
            yield "'values' is missing: the digest is that of nothing, which is written as []"
    elif not isinstance(values, list) or not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        yield "'values' is not a list of whole numbers"
    elif len(values) > MOST_VALUES:
        yield f"'values' has {len(values)} numbers; more than {MOST_VALUES} are not listed"
    elif vector.get("digest") not in list(_digests(values)):
        yield "'values' and 'digest' do not belong to each other"


def _digests(values: list[int]) -> Iterator[str]:
    """The digests of these values as integers of each width, where they fit."""
    for width in WIDTHS:
        for signed in (False, True):
            try:
                yield digest(b"".join(value.to_bytes(width, "little", signed=signed) for value in values))
            except OverflowError:
                continue


def _wrong_head(root: Path, folder: Path, data: Mapping[str, Any]) -> Iterator[Found]:
    if data["schema"] != SCHEMA:
        yield "", f"schema {data['schema']} is not known; this touchgate reads {SCHEMA}"
    if data["family"] != folder.name:
        yield "", f"family {data['family']!r} is not the folder's name"
    for key in ("decoder", "kernel"):
        if not is_plain(data[key]):
            yield "", f"{key} {data[key]!r} is not a plain path inside the repository"
        elif not within(root, data[key]):
            yield "", f"the {key} {data[key]} leads out of the repository"
        elif not (root / data[key]).is_file():
            yield "", f"the {key} {data[key]} does not exist"
    if data["count"] != len(data["vectors"]):
        yield "", f"count says {data['count']}, there are {len(data['vectors'])} vectors"
    if not data["vectors"]:
        yield "", "there are no vectors"


def _wrong_files(folder: Path, data: Mapping[str, Any], extra: Mapping[str, bytes]) -> Iterator[Found]:
    paths = [item["path"] for item in data["files"]]
    if paths != sorted(set(paths)):
        yield "", "files are not sorted, or one is there twice"
    used = {text for vector in data["vectors"] for text in _strings(vector)}
    files = Files(folder, data, extra)
    for path in paths:
        if not is_plain(path):
            yield "", f"{path!r} is not a plain path inside the folder"
            continue
        try:
            files.file(path)
        except VectorFault as fault:
            yield "", str(fault)
        if path not in used:
            yield "", f"no vector uses {path}"
    sources = [source for source in data["sources"].values() if isinstance(source, dict)]
    named = {*paths, *COMPANIONS, *(text for source in sources for text in _strings(source.get("generator")))}
    for path in sorted(present(folder)):
        if path not in named:
            yield "", f"{path} is in the folder, but the manifest does not name it"


def _wrong_sources(folder: Path, data: Mapping[str, Any]) -> Iterator[Found]:
    used = {vector["source"] for vector in data["vectors"]}
    for name, source in sorted(data["sources"].items()):
        if not isinstance(source, dict):
            yield "", f"source {name!r} is not an object"
            continue
        yield from (("", f"source {name!r}: {message}") for message in wrong_source(source))
        generator = source.get("generator")
        if generator is None:
            pass
        elif not isinstance(generator, str) or not is_plain(generator):
            yield "", f"source {name!r}: its generator {generator!r} is not a plain path inside the folder"
        elif not is_file_within(folder, generator):
            yield "", f"source {name!r}: its generator {generator} does not exist"
        if name not in used:
            yield "", f"no vector comes from the source {name!r}"


def wrong_source(source: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the description of where vectors came from."""
    for key in REQUIRED_OF_SOURCE:
        if not isinstance(source.get(key), str) or not source[key].strip():
            yield f"{key!r} is missing"
    for key in source.keys() - set(REQUIRED_OF_SOURCE) - set(OPTIONAL_OF_SOURCE):
        yield f"unknown key {key!r}"
    for key, kinds in (("artifact", str), ("about", str), ("seed", int | str)):
        if key in source and (not isinstance(source[key], kinds) or isinstance(source[key], bool)):
            yield f"{key!r} is not {'a string' if kinds is str else 'a whole number or a string'}"
    if isinstance(source.get("date"), str) and not DATE.fullmatch(source["date"]):
        yield f"date {source['date']!r} is not YYYY-MM-DD"
    for key in ("artifact", "generator"):
        if (key in source) != (f"{key}_sha256" in source):
            yield f"{key!r} and '{key}_sha256' go together"
        elif key in source and not _is_sha(source[f"{key}_sha256"]):
            yield f"'{key}_sha256' is not a SHA-256 in lower case"


def _wrong_vectors(folder: Path, data: Mapping[str, Any], extra: Mapping[str, bytes]) -> Iterator[Found]:
    files = Files(folder, data, extra)
    listed = {item["path"] for item in data["files"]}
    names = [vector["name"] for vector in data["vectors"]]
    if names != sorted(names):
        yield "", "vectors are not sorted by name"
    contents: dict[str, str] = {}
    seen: set[str] = set()
    for vector in data["vectors"]:
        name = vector["name"]
        if not NAME.fullmatch(name):
            yield name, f"{name!r} is no name: wanted are lower-case letters, digits, '.', '_' and '-'"
        if name in seen:
            yield name, f"the name {name} is there twice"
        seen.add(name)
        if vector["source"] not in data["sources"]:
            yield name, f"{name}: its source {vector['source']!r} is not among the sources"
        for key, part in _parts(vector):
            if part["file"] not in listed:
                yield name, f"{name}: {key} is in {part['file']}, which is not among the manifest's files"
                continue
            try:
                files.part(part)
            except VectorFault as fault:
                yield name, f"{name}: {key}: {fault}"
        twin = contents.setdefault(_content(vector), name)
        if twin != name:
            yield name, f"{name} is the same as {twin}"


def _content(vector: Mapping[str, Any]) -> str:
    """What makes a vector the same as another, wherever its bytes lie."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items() if "sha256" not in value or key == "sha256"}
        return value

    kept = {key: bare(value) for key, value in vector.items() if key not in ("name", "about", "source")}
    return json.dumps(kept, sort_keys=True)


def present(folder: Path) -> Iterator[str]:
    """The files of a family's folder, relative to it, in no order; hidden ones and Python's own caches left out."""
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        for name in files:
            if not name.startswith("."):
                yield Path(place, name).relative_to(folder).as_posix()


def _parts(vector: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The pieces of files that a vector's fields name."""
    return ((key, value) for key, value in vector.items() if is_part(value))


def is_part(value: Any) -> bool:
    """Whether a field names a piece of a file."""
    known = isinstance(value, dict) and value.keys() == PART_KEYS and isinstance(value["file"], str)
    return known and _is_count(value["offset"]) and _is_count(value["bytes"]) and _is_sha(value["sha256"])


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _list(data: Mapping[str, Any], key: str) -> Iterable[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else ()


def _is_sha(value: Any) -> bool:
    return isinstance(value, str) and SHA256.fullmatch(value) is not None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _article(kind: type) -> str:
    return {int: "a number", str: "a string", list: "a list", dict: "an object"}[kind]
