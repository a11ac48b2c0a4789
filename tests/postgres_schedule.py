"""Some of a schedule's requests, as threads of one process of their own, each with its own connection.

`python -m tests.postgres_schedule CANARIES`; a line is a schedule in JSON: [dsn, [[host, want, priority, start, hold], ...]];
the answer is a line of [token, ...] or what went wrong.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from touchgate.leases.engine import Ask
from touchgate.leases.model import Priority, Share, Want

GPUS = {"a": ("a0", "a1"), "b": ("b0", "b1"), "c": ("c0", "c1")}


def canaries(folder: Path, shares: tuple[Share, ...]) -> list[Path]:
    """One for each GPU that a grant means; a whole host is all of its GPUs."""
    return [folder / gpu for share in shares for gpu in ((share.gpu,) if share.gpu else GPUS[share.host])]


def one(folder: Path, dsn: str, request: list[Any], tokens: list[int], faults: list[str]) -> None:
    from touchgate.leases.postgres import PostgresEngine

    host, want, priority, start, hold = request
    time.sleep(start)
    try:
        ask = Ask(Want(**want | {"names": tuple(want.get("names", ()))}), "schedule", 120, hold, Priority(priority))
        engine = PostgresEngine(dsn, host=host, gpus=GPUS[host])
        with engine.acquire(ask, on_wait=lambda _: None) as grant:
            for canary in canaries(folder, grant.shares):
                os.close(os.open(canary, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # somebody is in there: this fails
            grant.check()
            time.sleep(hold)
            for canary in canaries(folder, grant.shares):
                canary.unlink()
            tokens.append(grant.token)
    except Exception as fault:  # noqa: BLE001 - told to the test
        faults.append(f"{request}: {type(fault).__name__}: {fault}")


def main() -> None:
    folder = Path(sys.argv[1])
    for line in sys.stdin:
        dsn, requests = json.loads(line)
        tokens: list[int] = []
        faults: list[str] = []
        threads = [threading.Thread(target=one, args=(folder, dsn, request, tokens, faults)) for request in requests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps(faults or tokens), flush=True)


if __name__ == "__main__":
    main()
