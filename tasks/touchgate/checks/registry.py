"""The kinds of checks that are installed, found by the entry point group `touchgate.checks`."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import cast

from touchgate.checks import Kind

GROUP = "touchgate.checks"

OWN = {name: f"touchgate.checks.{name}:KIND" for name in ("kernel", "compile", "vectors", "pytest", "command")}
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


def known_options(names: set[str]) -> dict[str, frozenset[str]]:
    """For each kind that is known, the option keys that a declaration of it may have.

    Modules are imported only for the kinds in `names`, the ones that were really written; others come without options.
    """
    options: dict[str, frozenset[str]] = {}
    for name in _places() if names - OWN.keys() else OWN:
        found = kind(name) if name in names else None
        options[name] = frozenset(found.options) if found else frozenset()
    return options
