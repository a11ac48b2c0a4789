"""What a Makefile names: the words of its recipes as commands, and whatever else in it is the name of a file.

All of its targets count, since which of them a command needs is known to make alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from touchgate.gate.closure.shell import implied, of_names, resolve
from touchgate.gate.named import of_makefile

if TYPE_CHECKING:
    from touchgate.gate.closure.references import Found

__all__ = ["VERSION", "implied", "read", "resolve"]

VERSION = 4


def read(text: bytes) -> Found:
    """All that the Makefile names."""
    return of_names(of_makefile(text.decode("utf-8", "surrogateescape")))
