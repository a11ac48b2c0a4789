"""Durations as people write them: 2h, 90m, 1h30m."""

from __future__ import annotations

import re

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def seconds_of(text: str) -> int:
    """Seconds above 0. Raises ValueError for anything but numbers with units, the larger unit first.

    >>> [seconds_of(text) for text in ("2h", "90m", "1h30m", "1d12h", "45s")]
    [7200, 5400, 5400, 129600, 45]
    """
    found = re.fullmatch(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,7})s)?", text, re.ASCII)
    total = sum(int(number or 0) * UNITS[unit] for number, unit in zip(found.groups(), UNITS, strict=True)) if found else 0
    if total <= 0:
        raise ValueError(f"{text!r} is no duration; one is written as 2h, 90m or 1h30m")
    return total
