"""The log of what happened to leases, for people: one JSON line an event, appended, rotated by size.

It is never a reason to fail: where it can't be written it is not.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from touchgate.leases import clock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from touchgate.leases.shared import Modes
    from touchgate.leases.state import Event

NAME = "audit.jsonl"
LARGEST = 1 << 20
"""Bytes after which a new file is begun."""
KEPT = 5
"""Older files, audit.jsonl.1 being the youngest of them."""


def line(event: Event, at: str, by: str, host: str) -> bytes:
    """One event. by: the user whose process noticed it."""
    told: dict[str, Any] = {"at": at, "event": event.kind, "by": by}
    one = event.entry
    if one is not None:
        told |= {"id": one.id, "user": one.user, "pid": one.pid, "what": one.what, "wants": str(one.want)}
        if one.shares:
            told["shares"] = [host if share.gpu is None else f"{host}/{share.gpu}" for share in one.shares]
        for name in ("url", "token", "within", "sha", "seconds"):
            if getattr(one, name):
                told[name] = getattr(one, name)
    if event.words:
        told["why"] = event.words
    return json.dumps(told).encode("ascii") + b"\n"


def append(folder: Path, modes: Modes, lines: Iterable[bytes]) -> None:
    """Add lines, in one write, so that those of others stay whole."""
    content = b"".join(lines)
    if not content:
        return
    with suppress(OSError):
        path = f"{folder}/{NAME}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags, modes.file)
        try:
            size = os.fstat(descriptor).st_size
            if size == 0:
                modes.share(descriptor)
            os.write(descriptor, content)
        finally:
            os.close(descriptor)
        if size + len(content) > LARGEST:
            _rotate(path)  # whoever changes the queue is alone here


def _rotate(path: str) -> None:
    for number in range(KEPT - 1, 0, -1):
        with suppress(FileNotFoundError):
            os.replace(f"{path}.{number}", f"{path}.{number + 1}")  # noqa: PTH105
    os.replace(path, f"{path}.1")  # noqa: PTH105


def last(folder: Path, count: int) -> list[dict[str, Any]]:
    """The last events, the oldest of them first; of older files too. What is torn is left out. Raises OSError.

    Each has: at (ISO 8601, UTC), event, by; where it is about a request also id, user, pid, what, wants, and shares, token,
    url, within, sha, seconds, why where there are some.
    """
    found: list[dict[str, Any]] = []
    for name in (NAME, *(f"{NAME}.{number}" for number in range(1, KEPT + 1))):
        try:
            lines = (folder / name).read_bytes().splitlines()
        except FileNotFoundError:
            continue
        events = []
        for text in lines[-(count - len(found)) :]:
            with suppress(ValueError):
                read = json.loads(text)
                if isinstance(read, dict):
                    events.append(read)
        found = events + found
        if len(found) >= count:
            break
    return found[-count:] if count > 0 else []


def now() -> str:
    """The time of an event."""
    return clock.iso()
