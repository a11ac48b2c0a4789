"""What every command begins with: the repository around a folder, and the refusal of what can't be done as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from touchgate.gate.asked import UsageFault
from touchgate.gate.git import Repository, find_top

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["UsageFault", "repository"]


def repository(start: Path) -> Repository:
    """The repository around a folder. Raises UsageFault outside of any."""
    top = find_top(start)
    if top is None:
        raise UsageFault(f"{start} is not inside a git repository; touchgate judges changes of one")
    return Repository(top)
