"""Between a run and its ssh: hands on what the run writes, and a newline every few seconds as a sign of life.

A program of its own, so that a run that is stopped, or killed with children that go on, keeps its far lease: it ends when
nobody has the other end of its standard input any more, and with it the far lease. It ends, too, when ssh does; who has
the other end can see that. Standard library alone: it is started for every far lease. `keeper.py SECONDS`.
"""

from __future__ import annotations

import os
import select
import sys


def keep(source: int, target: int, seconds: float) -> None:
    """Until `source` ends or `target` is closed."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(target, 0)  # an error: nobody reads it any more
    while True:
        ready = dict(poll.poll(seconds * 1000))
        if target in ready:
            return
        data = os.read(source, 4096) if source in ready else b"\n"
        if not data:
            return
        while data:
            data = data[os.write(target, data) :]


if __name__ == "__main__":
    try:
        keep(0, 1, float(sys.argv[1]))
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
