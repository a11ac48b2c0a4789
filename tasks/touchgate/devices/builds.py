"""The cache of compiled code: one file a key, published in one step, shared by any number of processes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path


def digest(parts: Iterable[str | bytes]) -> str:
    """SHA-256 over the parts and their lengths, in hex: no two lists of parts share one."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little"))
        sha.update(data)
    return sha.hexdigest()


def publish(target: Path, make: Callable[[Path], None]) -> None:
    """Let `make` write a file beside `target`, then move it there. Whoever reads `target` sees all of it or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.stem[:16]}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    try:
        make(Path(name))
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
