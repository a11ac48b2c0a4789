"""Real processes that work with a lease folder: they talk in lines and are told by a line."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.leases import process
from touchgate.leases.engine import Ask
from touchgate.leases.files import FilesEngine, LeaseDirectory
from touchgate.leases.model import Want

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from touchgate.leases.engine import Grant

SOURCES = str(Path(process.__file__).resolve().parents[2])
PATIENCE = 300.0
HOST = "here"
GPUS = ("GPU-a", "GPU-b")
WHOLE = Want(hosts=1)

HEAD = """
import os, signal, subprocess, sys, time
from pathlib import Path
from touchgate.leases.engine import *
from touchgate.leases.files import FilesEngine, LeaseDirectory
from touchgate.leases.model import Priority, Want
engine = FilesEngine(LeaseDirectory(Path({folder!r}), False, "a test"), host="here", gpus=("GPU-a", "GPU-b"))
def say(*words): print(*words, flush=True)
def waits(place): say("waits at", place.position, "behind", *[one.pid for one in place.holders])
def take(what="other", timeout=None, want=Want(hosts=1), cancelled=None, **more):
    return engine.acquire(Ask(want, what, timeout=timeout, **more), on_wait=waits, cancelled=cancelled)
def heard(): return sys.stdin.readline()
"""

HOLD = """
held = take("holding", 0)
say("held", held.token)
heard()
held.close()
say("closed")
heard()
"""


class Run:
    """One process."""

    first = ""

    def __init__(self, folder: Path, text: str, **options) -> None:
        code = HEAD.format(folder=str(folder)) + textwrap.dedent(text)
        self._said = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": SOURCES},
            bufsize=0,
            **options,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def heard(self) -> str:
        while b"\n" not in self._said:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
            assert ready, "the process said nothing"
            more = os.read(self.process.stdout.fileno(), 4096)  # not through a buffer that select knows nothing of
            if not more:
                break
            self._said += more
        line, _, self._said = self._said.partition(b"\n")
        return line.decode().strip()

    def granted(self) -> str:
        """What it says once it has its lease."""
        while (said := self.heard()).startswith("waits"):
            pass
        return said

    def tell(self) -> None:
        self.process.stdin.write(b"go\n")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def started(folder: Path, text: str, **options) -> Run:
    """A process that has said its first line, `first`: it holds, or waits."""
    run = Run(folder, text, **options)
    run.first = run.heard()
    return run


def engine(folder: Path, gpus: tuple[str, ...] = GPUS) -> FilesEngine:
    """This process's own."""
    return FilesEngine(LeaseDirectory(folder, shared=False, why="a test"), host=HOST, gpus=gpus)


def silent(_place: object) -> None:
    """For `on_wait`, where there is nothing to wait for."""
    raise AssertionError("nothing to wait for")


def take(
    folder: Path, what: str = "gemv:kernel", *, timeout: float | None = 0, want: Want = WHOLE, on_wait=silent, **more
) -> Grant:
    """A grant of this process."""
    cancelled = more.pop("cancelled", None)
    return engine(folder).acquire(Ask(want, what, timeout=timeout, **more), on_wait=on_wait, cancelled=cancelled)


def until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait for something that becomes true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)


def gone(pid: int) -> None:
    """Wait for the end of a process."""
    until(lambda: process.start_mark(pid) is None)
