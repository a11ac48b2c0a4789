"""The pinned rungs of a folder of vectors: `ladder.txt` beside the manifest, in the protocol's own lines.

Where there is no such file, the manifest pins what it can: the values of each vector as one stage, and how it ends.
A folder without a manifest may have one: then it alone says what a decoder must tell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from touchgate import golden, ladder
from touchgate.golden import MANIFEST, Problem, VectorFault
from touchgate.ladder import LadderFault, Place

FILE = golden.LADDER


def read(folder: Path) -> dict[Place, str] | None:
    """The rungs of a folder's `ladder.txt`; None where there is none. Raises `VectorFault`."""
    if not os.path.lexists(folder / FILE):
        return None
    try:
        return ladder.read(golden.read_within(folder, FILE, golden.MOST_OF_MANIFEST).decode("utf-8"))
    except (LadderFault, UnicodeDecodeError) as fault:
        raise VectorFault(f"{FILE}: {fault}") from fault


def rungs(folder: Path) -> dict[Place, str]:
    """What a folder pins. Raises `VectorFault` where there is neither a ladder nor a manifest."""
    found = read(folder)
    return of_manifest(golden.read_manifest(folder)) if found is None else found


def of_manifest(manifest: Mapping[str, Any]) -> dict[Place, str]:
    """The two rungs of each vector that a manifest's digests and statuses amount to."""
    found = {}
    for entry in manifest["vectors"]:
        first = Place(manifest["family"], entry["name"], ladder.VALUES, 0, "0")
        found[first] = entry["digest"]
        found[first._replace(stage=ladder.END)] = ladder.end_digest(entry["status"])
    return found


def problems(root: Path, target: str) -> list[Problem]:
    """What is wrong with a folder's `ladder.txt`, sorted, nothing being decoded. For a folder whose manifest is sound."""
    folder = root / target
    file = f"{target}/{FILE}"
    try:
        found = read(folder)
        manifest = golden.read_manifest(folder)
    except VectorFault as fault:
        return [Problem(file, 1, str(fault))]
    if found is None:
        return []
    return sorted(Problem(file, number, message) for number, message in _wrong(found, manifest))


def alone(root: Path, target: str) -> list[Problem]:
    """What is wrong with the `ladder.txt` of a folder without a manifest."""
    try:
        found = read(root / target) if golden.within(root, target) else {}
    except VectorFault as fault:
        return [Problem(f"{target}/{FILE}", 1, str(fault))]
    return [] if found else [Problem(f"{target}/{FILE}", 1, "has no rung, or leads out of the repository")]


def _wrong(found: Mapping[Place, str], manifest: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    statuses = {entry["name"]: entry["status"] for entry in manifest["vectors"]}
    places = list(found)
    for number, place in enumerate(places, 1):
        if place.family != manifest["family"]:
            yield number, f"family {place.family!r} is not the folder's"
        elif place.vector not in statuses:
            yield number, f"{MANIFEST} has no vector {place.vector!r}"
        elif place.stage == ladder.END and found[place] != ladder.end_digest(statuses[place.vector]):
            yield number, f"{place.vector}: its end is not SHA-256 of the status {statuses[place.vector]!r} in {MANIFEST}"
    told = {place.vector for place in places}
    for name in statuses:
        if name not in told:
            yield 1, f"{name} has no rung; `doit vectors pin {manifest['family']}` adds it"
    names = list(dict.fromkeys(place.vector for place in places))
    runs = [place.vector for at, place in enumerate(places) if at == 0 or places[at - 1].vector != place.vector]
    if names != sorted(names) or runs != names:
        yield 1, "is not sorted by vector"
