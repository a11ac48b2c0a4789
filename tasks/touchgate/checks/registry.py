"""The kinds of checks that are installed, found by the entry point group `touchgate.checks`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import cast

from touchgate.checks import Kind

GROUP = "touchgate.checks"

_NAMES = ("kernel", "sanitizers", "benchmark", "compile", "vectors", "pytest", "command")
OWN = {name: f"touchgate.checks.{name}:KIND" for name in _NAMES}
"""Ours, which no other package can replace; named here as well so that they are found without installed metadata."""


@lru_cache(maxsize=1)
def _places() -> dict[str, str]:
    from importlib.metadata import entry_points  # noqa: PLC0415  reading every installed package's metadata is slow

    return {point.name: point.value for point in entry_points(group=GROUP)} | OWN


def kind(name: str) -> Kind | None:
    """The kind of this name, or None where no package brings it."""
    place = OWN.get(name) or _places().get(name)
    if place is None:
        return None
    module, _, attribute = place.partition(":")
    return cast("Kind", getattr(importlib.import_module(module), attribute))


@lru_cache
def foreign_code(name: str) -> str:
    """A digest of the package that brings the kind, "" for ours (whose code is part of every key anyway)."""
    found = kind(name)
    if name in OWN or found is None:
        return ""
    import hashlib  # noqa: PLC0415
    from importlib.util import find_spec  # noqa: PLC0415

    # A kind may be an instance, a class or a module.
    module = getattr(found, "__module__", None) or type(found).__module__
    spec = find_spec(str(module).partition(".")[0])
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    files = [file for place in places for file in place.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    if spec is not None and not places and spec.origin:
        files = [Path(spec.origin)]
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


class KnownOptions(Mapping[str, frozenset[str]]):
    """For each kind that is installed, the option keys that a declaration of it may have.

    A kind's module is imported when it is asked for, so that only the kinds which a repository uses cost anything; other
    packages are looked for only when a name is none of ours.
    """

    def __getitem__(self, name: str) -> frozenset[str]:
        found = kind(name)
        if found is None:
            raise KeyError(name)
        return frozenset(found.options)

    def __contains__(self, name: object) -> bool:
        return name in OWN or name in _places()

    def __iter__(self) -> Iterator[str]:
        return iter(_places())

    def __len__(self) -> int:
        return len(_places())
