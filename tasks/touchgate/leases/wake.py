"""Sleeping until a lock file is let go, without asking again and again.

Linux: inotify reports the last close of a description that was opened for writing, which is when its flock
ends, however its processes ended. Elsewhere, or where inotify is not to be had, a short sleep.
"""

from __future__ import annotations

import os
import select
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

IN_CLOSE_WRITE = 0x8
IN_MOVE_SELF = 0x800
IN_ATTRIB = 0x4  # the link count: the file was deleted
NAP = 0.25
"""Seconds between two looks where nothing wakes us."""


class Watch:
    """Watches one path from the first `sleep` on. A context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._watching = False

    def sleep(self, seconds: float) -> bool:
        """Until the file was let go, at most `seconds`. The first call returns at once: look again, now watched.

        True: it was let go, or is about to be.
        """
        if not self._watching:
            self._watching = True
            self._descriptor = _inotify(self._path)
        elif self._descriptor is None:
            time.sleep(max(0.0, min(seconds, NAP)))
        elif select.select([self._descriptor], [], [], max(0.0, seconds))[0]:
            os.read(self._descriptor, 4096)
            return True
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _inotify(path: Path) -> int | None:
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415 - late: only a run that waits needs it

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor: int = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, AttributeError):
        return None
    if descriptor < 0:
        return None  # out of instances (fs.inotify.max_user_instances)
    if libc.inotify_add_watch(descriptor, os.fsencode(path), IN_CLOSE_WRITE | IN_MOVE_SELF | IN_ATTRIB) < 0:
        os.close(descriptor)
        return None
    return descriptor
