"""The lease by files beside filelock, fasteners, portalocker and flock(1), where they are installed, in the same run.

    python tests/benchmarks/leases.py [FOLDER] [WAITERS]

Prints: acquire and release of a free lock; from a release until the next holder runs; a queue of 200 waiters of which each
holds 20 ms: the time it takes, the processor time of those who wait from when all wait, and how many pairs were served against
the order in which they asked. A person judges; the goals are 1 ms above filelock, 10 ms, no inversion, and a fifth of
filelock's processor time. FOLDER: where the locks lie, as a disk or memory.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.leases.engine import Ask
from touchgate.leases.files import FilesEngine, LeaseDirectory
from touchgate.leases.model import Want

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Take = Callable[[], AbstractContextManager[object]]

FREE, HANDS, HELD = 300, 40, 0.02


def ours(folder: Path) -> Take:
    """This project's lease of a whole host."""
    engine = FilesEngine(LeaseDirectory(folder / "leases", shared=False, why="a benchmark"), host="here")
    return lambda: engine.acquire(Ask(Want(hosts=1), "benchmark"), on_wait=lambda _place: None)


def by_filelock(folder: Path) -> Take:
    """filelock with its own defaults."""
    from filelock import FileLock

    return lambda: FileLock(folder / "filelock").acquire()


def by_fasteners(folder: Path) -> Take:
    """fasteners with its own defaults."""
    import fasteners

    return lambda: fasteners.InterProcessLock(folder / "fasteners")


def by_portalocker(folder: Path) -> Take:
    """portalocker, told to wait for long instead of its 5 s."""
    import portalocker

    return lambda: portalocker.Lock(folder / "portalocker", timeout=600)


def by_flock(folder: Path) -> Take:
    """flock(1): a program for each lock, which blocks in the kernel."""
    if shutil.which("flock") is None:
        raise ImportError

    @contextmanager
    def held() -> Iterator[None]:
        command = ["flock", str(folder / "flock"), "sh", "-c", "echo; read line"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.communicate(b"\n")

    return held


def spread(values: list[float]) -> str:
    """Milliseconds."""
    ordered = sorted(values)
    p99 = ordered[int(len(ordered) * 0.99)]
    return f"p50 {statistics.median(ordered) * 1e3:.3f} ms, p99 {p99 * 1e3:.3f} ms"


def free(take: Take, times: int) -> list[float]:
    """Seconds of each acquire and release."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        with take():
            pass
        found.append(time.perf_counter() - began)
    return found


def hands(take: Take, folder: Path) -> list[float]:
    """Seconds from a release to the next holder, of two processes that pass a lock to and fro."""
    log = folder / "hands"
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC)

    def play() -> None:
        for _ in range(HANDS):
            with take():
                got = time.monotonic()
                time.sleep(0.12)  # the other one waits by then
                left = time.monotonic()
            os.write(descriptor, f"{got} {left}\n".encode())

    reap([fork(play) for _ in range(2)])
    os.close(descriptor)
    times = sorted(tuple(map(float, line.split())) for line in log.read_text().splitlines())
    return [later[0] - earlier[1] for earlier, later in itertools.pairwise(times)]


def fork(work: Callable[[], None]) -> int:
    """A child that does it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with suppress(KeyboardInterrupt):
            try:
                work()
                code = 0
            finally:
                os._exit(code)
    return pid


def reap(pids: list[int]) -> None:
    """Wait for all of them."""
    for pid in pids:
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            sys.exit("a child failed")


def crowd(take: Take, folder: Path, waiters: int) -> str:
    """A queue: seconds, processor seconds while waiting, inversions."""
    log = folder / "crowd"
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC)
    held, go = folder / "held", folder / "go"
    held.unlink(missing_ok=True)
    go.unlink(missing_ok=True)

    def first() -> None:
        with take():
            held.touch()
            while not go.exists():
                time.sleep(0.01)

    def wait() -> None:
        # What was used until all wait is start-up: taken away below, by the child's own count at that time.
        before: list[float] = []
        signal.signal(signal.SIGUSR1, lambda *_: before.append(sum(os.times()[:4])))
        began = time.monotonic()
        with take():
            used = sum(os.times()[:4]) - (before[0] if before else 0)
            os.write(descriptor, f"{began} {used}\n".encode())
            time.sleep(HELD)

    # Not held by this process: what a fork inherits it keeps.
    holder = fork(first)
    while not held.exists():
        time.sleep(0.01)
    pids = []
    for _ in range(waiters):
        pids.append(fork(wait))
        time.sleep(0.06)  # so that the order of asking is known
    time.sleep(3)
    for pid in pids:
        os.kill(pid, signal.SIGUSR1)
    time.sleep(1)
    began = time.monotonic()
    go.touch()
    reap([holder, *pids])
    seconds = time.monotonic() - began
    os.close(descriptor)
    lines = [line.split() for line in log.read_text().splitlines()]
    order = [float(asked) for asked, _ in lines]
    inverted = sum(order[i] > order[j] for i in range(len(order)) for j in range(i + 1, len(order)))
    used = sum(float(one) for _, one in lines)
    return f"{seconds:6.2f} s, processor {used:6.2f} s, {inverted} of {waiters * (waiters - 1) // 2} pairs inverted"


def main() -> None:
    """Measure all, one beside the other."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder = Path(name)
        waiters = int(sys.argv[2]) if len(sys.argv) > 2 else 200
        takes = {}
        for make in (ours, by_filelock, by_fasteners, by_portalocker, by_flock):
            try:
                takes[make.__name__.removeprefix("by_")] = make(folder)
            except ImportError:
                print(f"{make.__name__.removeprefix('by_')} is not installed")
        print(f"acquire and release, free ({FREE} times, in turns)")
        times: dict[str, list[float]] = {name: [] for name in takes}
        for _ in range(10):
            for one, take in takes.items():
                times[one] += free(take, 3 if one == "flock" else FREE // 10)
        for one, found in times.items():
            print(f"  {one:12} {spread(found)}")
        more = statistics.median(times["ours"]) - statistics.median(times["filelock"])
        print(f"  ours - filelock: {more * 1e3:.3f} ms, goal 1 ms")
        print("from a release until the next holder runs")
        for one, take in takes.items():
            print(f"  {one:12} {spread(hands(take, folder))}", flush=True)
        print(f"{waiters} waiters, {HELD * 1e3:.0f} ms each")
        for one, take in takes.items():
            print(f"  {one:12} {crowd(take, folder, waiters)}", flush=True)


if __name__ == "__main__":
    main()
