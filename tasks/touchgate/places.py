"""Where touchgate keeps things on a machine, and which folder it took when the first choice can't be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder for results and compiled code: $XDG_CACHE_HOME/touchgate, ~/.cache/touchgate, or one below TMPDIR.

    The last is for an empty or read-only HOME; it is private to the user.
    """
    candidates = []
    # The XDG rule: a relative value is ignored.
    if Path(environ.get("XDG_CACHE_HOME", "")).is_absolute():
        candidates.append(Path(environ["XDG_CACHE_HOME"], "touchgate"))
    if Path(environ.get("HOME", "")).is_absolute():
        candidates.append(Path(environ["HOME"], ".cache", "touchgate"))
    for candidate in candidates:
        if _writable(candidate):
            return candidate
    # Python's choice honours TMPDIR where that can be written.
    fallback = Path(tempfile.gettempdir(), f"touchgate-{os.getuid()}")
    fallback.mkdir(mode=0o700, exist_ok=True)
    owner = fallback.stat()
    if fallback.is_symlink() or owner.st_uid != os.getuid() or owner.st_mode & 0o022:
        # Somebody else made it: results there could be forged.
        return Path(tempfile.mkdtemp(prefix="touchgate-"))
    return fallback


def results_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where results are kept: TOUCHGATE_RESULTS_DIR, else below `cache_dir`."""
    chosen = environ.get("TOUCHGATE_RESULTS_DIR")
    return Path(chosen).absolute() if chosen else cache_dir(environ) / "results"


def build_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where compiled kernels are kept: below `cache_dir`."""
    return cache_dir(environ) / "build"
