"""Leases of two or more hosts without any server: see docs/pair.md. Here is whether there is a file of hosts at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "TOUCHGATE_HOSTS"
FILE = Path("/etc/touchgate/hosts.yml")


def hosts_file(environ: Mapping[str, str]) -> Path | None:
    """What TOUCHGATE_HOSTS names, else /etc/touchgate/hosts.yml or ~/.config/touchgate/hosts.yml where that is there."""
    chosen = environ.get(VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    config = environ.get("XDG_CONFIG_HOME", "")
    if not Path(config).is_absolute():
        config = str(Path(environ.get("HOME") or "/nonexistent") / ".config")
    return next((path for path in (FILE, Path(config) / "touchgate" / "hosts.yml") if os.path.lexists(path)), None)
