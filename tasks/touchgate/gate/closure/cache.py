"""What files name, kept on disk by their blob ids: a reading depends on the content and the reader alone.

Anything that is not exactly as it was written (a digest goes with it), or lies in a folder that another user could have
written to, is read anew; a cache that can't be used is no cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.gate.closure.languages import module
from touchgate.gate.closure.references import Found, Reference, Unresolved

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 4 << 20
"""Bytes of one entry."""


class Cache:
    """Readings by language and blob id. folder: None for none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._made: set[Path] = set()
        self._versions: dict[str, int] = {}

    def get(self, language: str, blob: str) -> Found | None:
        """What is kept, or None."""
        if self._folder is None:
            return None
        try:
            with open(self._file(language, blob), "rb") as file:  # noqa: PTH123 (measured: many small files)
                state = os.fstat(file.fileno())
                if state.st_uid != os.getuid() or state.st_mode & 0o022 or state.st_size > LARGEST:
                    return None
                data = file.read(LARGEST)
            digest, _, body = data.partition(b"\n")
            if digest.decode("ascii") != self._digest(language, blob, body):
                return None
            return _from_data(json.loads(body))
        except (OSError, ValueError, TypeError, RecursionError):
            return None

    def put(self, language: str, blob: str, found: Found) -> None:
        """Keep a reading, if that is possible."""
        if self._folder is None:
            return
        file = self._file(language, blob)
        with suppress(OSError, ValueError):
            if file.parent not in self._made:
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._made.add(file.parent)
            body = json.dumps([found.references, found.unresolved], separators=(",", ":")).encode("ascii")
            handle, name = tempfile.mkstemp(dir=file.parent)
            try:
                with open(handle, "wb") as out:  # noqa: PTH123 (a descriptor)
                    out.write(self._digest(language, blob, body).encode("ascii") + b"\n" + body)
                Path(name).replace(file)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    def _file(self, language: str, blob: str) -> Path:
        assert self._folder is not None  # noqa: S101 (asked before)
        return self._folder / f"{language}-{self._version(language)}" / blob[:2] / blob[2:]

    def _version(self, language: str) -> int:
        if language not in self._versions:
            self._versions[language] = module(language).VERSION
        return self._versions[language]

    def _digest(self, language: str, blob: str, body: bytes) -> str:
        return hashlib.sha256(f"{language} {self._version(language)} {blob}\n".encode() + body).hexdigest()


def _from_data(data: object) -> Found:
    """The reading. Raises ValueError for any other shape."""
    if not isinstance(data, list) or len(data) != 2 or not all(isinstance(part, list) for part in data):  # noqa: PLR2004
        raise ValueError("no reading")
    references = []
    for how, text, line, candidates in data[0]:
        if not _is_named(how, text, line) or not all(isinstance(name, str) for name in candidates):
            raise ValueError("no reference")
        references.append(Reference(how, text, line, tuple(candidates)))
    unresolved = []
    for line, text, why in data[1]:
        if not _is_named(text, why, line):
            raise ValueError("nothing unresolved")
        unresolved.append(Unresolved(line, text, why))
    return Found(tuple(references), tuple(unresolved))


def _is_named(one: object, other: object, line: object) -> bool:
    return isinstance(one, str) and isinstance(other, str) and type(line) is int


def default_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """$XDG_CACHE_HOME/touchgate/closure, else ~/.cache/touchgate/closure; None where others could write there."""
    above = environ.get("XDG_CACHE_HOME", "")
    home = environ.get("HOME", "")
    # The XDG rule: a relative value is ignored.
    if Path(above).is_absolute():
        folder = Path(above, "touchgate", "closure")
    elif Path(home).is_absolute():
        folder = Path(home, ".cache", "touchgate", "closure")
    else:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        state = folder.stat()
    except (OSError, ValueError):
        return None
    return folder if state.st_uid == os.getuid() and not state.st_mode & 0o022 else None
