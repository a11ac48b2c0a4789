"""A folder that goes away with this process: at its end, and on the signals that end it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import weakref
from pathlib import Path

from touchgate.gate.process import GitFault
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_folders: dict[Path, weakref.finalize[[Path, int], Scratch]] = {}


class Scratch:
    """A private temporary folder, removed by `close`, with the object, or with the process."""

    def __init__(self) -> None:
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="touchgate-")).resolve()
        except OSError as error:
            raise GitFault(f"there is no room for a temporary folder ({error.strerror}); set TMPDIR") from error
        self._finalizer = weakref.finalize(self, _remove, self.folder, os.getpid())
        _folders[self.folder] = self._finalizer
        _catch()

    def close(self) -> None:
        """Remove the folder."""
        self._finalizer()


def _remove(folder: Path, owner: int) -> None:
    _folders.pop(folder, None)
    # A forked child holds a copy of the object, and not the folder.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _catch() -> None:
    """Clean up on signals that nobody else handles."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    for finalizer in list(_folders.values()):
        finalizer()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
