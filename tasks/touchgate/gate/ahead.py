"""Imports modules in another thread, while this one waits for git: what reads YAML takes longer than git's answer."""

from __future__ import annotations

import _thread
import contextlib
import sys

from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SWITCH = 0.0001
"""Seconds that this thread, once git has answered, waits for the other to let it go on."""


@contextlib.contextmanager
def importing(module: str) -> Iterator[None]:
    """Begin to import a module; whoever needs it imports it as ever, and waits no longer than it still takes.

    What goes wrong in the other thread goes wrong again, and is told, where the module is needed.
    """

    def begin() -> None:
        with contextlib.suppress(Exception):
            __import__(module)

    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH)
    try:
        # Without a further thread it is imported where it is needed, in this one.
        with contextlib.suppress(RuntimeError):
            _thread.start_new_thread(begin, ())
        yield
    finally:
        sys.setswitchinterval(before)
