"""Paths inside a tree, put together from what a file says. Not normalized: where a folder is a link, "a/.." is not here."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["joined", "parent", "upwards"]

parent = posixpath.dirname
joined = posixpath.join


def upwards(folder: str) -> Iterator[str]:
    """The folder, and those above it down to the root, "" itself."""
    yield folder
    while folder:
        folder = parent(folder)
        yield folder
