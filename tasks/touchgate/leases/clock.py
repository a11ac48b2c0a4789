"""Time on one host: seconds since boot for every decision, so that a stepped wall clock changes nothing; UTC for people."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds since boot, sleep included where the system counts it. The same for all processes of a host."""
    return time.clock_gettime(_CLOCK)


def wall() -> float:
    """Seconds since 1970, which a person may set."""
    return time.time()


@lru_cache(maxsize=1)
def boot() -> str:
    """Which boot `now` counts from, "" where the system has no name for it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def iso(seconds: float | None = None) -> str:
    """Seconds since 1970 (None: now) as ISO 8601, UTC."""
    return _iso(int(wall() if seconds is None else seconds))


@lru_cache(maxsize=16)
def _iso(seconds: int) -> str:
    """One second is written many times in a turn."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
