"""A run as a process of its own: asks for a lease, then does what it is told line by line, and says what came of it.

`python -m tests.postgres_run DSN HOST '{"want": {...}, "ttl": 3, ...}'`; lines: check, close.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate.leases.engine import Ask, LeaseFault, Place
from touchgate.leases.model import Priority, Want

if TYPE_CHECKING:
    from typing_extensions import Self

ROOT = Path(__file__).resolve().parent.parent


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def waits(place: Place) -> None:
    say(event="waits", position=place.position, holders=[one.resource for one in place.holders])


def main() -> None:
    from touchgate.leases.postgres import PostgresEngine

    dsn, host, rest = sys.argv[1:]
    more = json.loads(rest)
    want = Want(**{key: tuple(value) if isinstance(value, list) else value for key, value in more["want"].items()})
    engine = PostgresEngine(dsn, host=host, gpus=more.get("gpus", ()), ttl=more.get("ttl", 60), direct=more.get("direct"))
    ask = Ask(want, more.get("what", "a test"), more.get("timeout"), None, Priority[more.get("priority", "CI")])
    try:
        grant = engine.acquire(ask, on_wait=waits)
    except LeaseFault as fault:
        say(event=type(fault).__name__, words=str(fault))
        return
    shares = [str(share) for share in grant.shares]
    say(event="granted", token=grant.token, shares=shares, at=time.monotonic(), notes=grant.notes)
    for line in sys.stdin:
        if line.strip() == "check":
            try:
                grant.check()
                say(event="checked")
            except LeaseFault as fault:
                say(event=type(fault).__name__, words=str(fault))
        else:
            break
    grant.close()
    say(event="closed", notes=grant.notes)


class Run:
    """Such a process, seen from outside. It starts when it is first listened to, so that tests say who asks first."""

    def __init__(self, dsn: str, host: str = "a", **more: Any) -> None:
        more.setdefault("want", {"hosts": 1})
        self._command = [sys.executable, "-m", "tests.postgres_run", dsn, host, json.dumps(more)]
        self._rest = b""

    @functools.cached_property
    def process(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)

    def hear(self, event: str, seconds: float = 60) -> dict[str, Any]:
        """The next thing it says, which must be that; places are passed over where something else is looked for."""
        while True:
            found = self._line(seconds)
            if found["event"] == event:
                return found
            assert found["event"] == "waits", f"{found} instead of {event}"

    def _line(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        ends = time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = ends - time.monotonic()
            assert left > 0, "it says nothing"
            if select.select([self.process.stdout], [], [], left)[0]:
                part = os.read(self.process.stdout.fileno(), 65536)
                assert part, "it has ended without a word"
                self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return dict(json.loads(line))

    def quiet(self, seconds: float) -> bool:
        """Whether it says nothing but places for some time."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            try:
                if self._line(max(ends - time.monotonic(), 0.01))["event"] != "waits":
                    return False
            except AssertionError as fault:
                if "says nothing" not in str(fault):
                    raise
        return True

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def check(self, event: str = "checked") -> dict[str, Any]:
        self.tell("check")
        return self.hear(event)

    def check_any(self) -> dict[str, Any]:
        self.tell("check")
        return self._line(60)

    def close(self) -> None:
        self.tell("close")
        self.hear("closed")
        self.process.wait()

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


if __name__ == "__main__":
    main()
