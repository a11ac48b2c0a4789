"""The cache of compiled code: one file a key, published in one step, shared by any number of processes."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def digest(parts: Iterable[str | bytes]) -> str:
    """SHA-256 over the parts and their lengths, in hex: no two lists of parts share one."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little"))
        sha.update(data)
    return sha.hexdigest()


def publish(target: Path, make: Callable[[Path], None]) -> None:
    """Let `make` write a file beside `target`, then move it there: whoever reads `target` sees all of it or nothing.

    Its digest lies beside it, see `is_whole`. Should two processes publish the same at once, the digest of one and the
    file of the other may remain: then it is not whole, and whoever comes next builds again.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for place in (target, _note(target)):
        # Nothing of ours is a folder; one would stay in the way for ever.
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
    made = _temporary(target)
    note = _temporary(_note(target))
    try:
        make(made)
        note.write_text(hashlib.sha256(made.read_bytes()).hexdigest(), encoding="ascii")
        note.replace(_note(target))
        made.replace(target)
    finally:
        for left in (made, note):
            with suppress(FileNotFoundError):
                left.unlink()


def is_whole(target: Path) -> bool:
    """Tell whether `target` is as it was published: a library that was cut short kills the process that loads it."""
    try:
        data = target.read_bytes()
        return hashlib.sha256(data).hexdigest() == _note(target).read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


def withdraw(target: Path) -> None:
    """Take back what `publish` put there."""
    for place in (target, _note(target)):
        with suppress(FileNotFoundError):
            place.unlink()


def _note(target: Path) -> Path:
    return target.with_name(f"{target.name}.sha256")


def _temporary(target: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{target.stem[:16]}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    return Path(name)
