"""Random schedules of real processes on one lease folder: `python lease_storm.py FOLDER SEED SCHEDULES RUNS KILLS`.

Each run asks for something at a random moment, holds it for some milliseconds and lets go. While it holds it keeps a canary
file for each GPU that it has (all for the whole host), which names it; a canary of a living run there is an overlap. KILLS is
how many processes of a schedule get SIGKILL at a random moment. Prints a line for each fault, and a last one with figures.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from touchgate.leases.engine import Ask
from touchgate.leases.files import FilesEngine, LeaseDirectory
from touchgate.leases.model import Priority, Want

GPUS = ("GPU-a", "GPU-b")
WANTS = (Want(hosts=1), Want(gpus=1), Want(gpus=1), Want(gpus=2), Want(gpus=1, among=("GPU-b",)))
LONGEST = 120.0


def living(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


class Canaries:
    """Marks of who is in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def say(self, words: str) -> None:
        """One line, whole."""
        os.write(self.log, f"{words}\n".encode())

    def enter(self, gpus: list[str], token: int) -> None:
        """Mark what is held; says so where somebody else is in."""
        for gpu in gpus:
            path = self.folder / gpu
            with suppress(FileNotFoundError, ValueError):
                other = int(path.read_text() or "0")
                if other != os.getpid() and living(other):
                    self.say(f"FAULT overlap on {gpu}: {other} and {os.getpid()}")
            path.write_text(str(os.getpid()))
            self.say(f"token {gpu} {token}")

    def leave(self, gpus: list[str]) -> None:
        """Take the marks away; says so where somebody wrote over them."""
        for gpu in gpus:
            path = self.folder / gpu
            if path.read_text() != str(os.getpid()):
                self.say(f"FAULT overlap on {gpu}: {path.read_text()} came in while {os.getpid()} held it")
            path.unlink()


def run(engine: FilesEngine, canaries: Canaries, chance: random.Random) -> None:
    """One request."""
    time.sleep(chance.random() * 0.03)
    ask = Ask(chance.choice(WANTS), "storm", timeout=LONGEST / 2, priority=chance.choice(list(Priority)), seconds=0.01)
    grant = engine.acquire(ask, on_wait=lambda _place: None)
    gpus = [share.gpu for share in grant.shares if share.gpu] or list(GPUS)
    canaries.enter(gpus, grant.token)
    time.sleep(chance.random() * 0.005)
    grant.check()
    canaries.leave(gpus)
    grant.close()


def schedule(engine: FilesEngine, canaries: Canaries, chance: random.Random, runs: int, kills: int) -> None:
    """Fork the runs of one schedule, kill some, reap all."""
    pids = []
    for _ in range(runs):
        own = random.Random(chance.random())
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                run(engine, canaries, own)
                code = 0
            except BaseException:  # noqa: BLE001 - it is told, and this process ends
                canaries.say("FAULT " + " | ".join(traceback.format_exc().splitlines()[-3:]))
            finally:
                os._exit(code)
        pids.append(pid)
    killed = chance.sample(pids, min(kills, runs))
    for pid in killed:
        time.sleep(chance.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + LONGEST
    for pid in pids:
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                canaries.say(f"FAULT {pid} is still there: {engine.status()}")
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)


def main() -> None:
    """All schedules; the figures."""
    folder, seed, schedules, runs, kills = Path(sys.argv[1]), *map(int, sys.argv[2:6])
    engine = FilesEngine(LeaseDirectory(folder / "leases", shared=False, why="a test"), host="here", gpus=GPUS)
    canaries = Canaries(folder / "canaries")
    chance = random.Random(seed)
    for _ in range(schedules):
        schedule(engine, canaries, chance, runs, kills)
    grants, last = 0, dict.fromkeys(GPUS, 0)
    for line in (folder / "canaries" / "log").read_text().splitlines():
        if line.startswith("FAULT"):
            print(line)
            continue
        _, gpu, token = line.split()
        grants += 1
        if int(token) <= last[gpu]:
            print(f"FAULT token {token} of {gpu} after {last[gpu]}")
        last[gpu] = int(token)
    status = engine.status()
    if [one for one in status.holders if one.alive] or status.queue:
        print(f"FAULT left over: {status}")
    print("marks", grants)


if __name__ == "__main__":
    main()
