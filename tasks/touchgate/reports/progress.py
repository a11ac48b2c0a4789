"""The live line: how far a run is, what runs now, and how long it may still take. Pure functions of values."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from touchgate.reports.style import cells, clip, printable
from touchgate.reports.words import duration

BAR = 20
NARROW = 60
"""Below so many columns the bar makes room for the names."""

BLOCKS = ("█", "░")
ASCII = ("#", ".")


def time_left(
    estimates: Mapping[str, float | None], finished: Collection[str], running: Mapping[str, float], workers: int
) -> tuple[float, bool] | None:
    """Seconds that a run may still take, and whether every check left has an estimate; None when none of them has.

    estimates: seconds by name, None where no earlier run is known. running: seconds since the start, by name. The work
    left is shared among the workers, but no check ends sooner than its own estimate says.

    >>> time_left({"a": 4.0, "b": 6.0, "c": None}, {"a"}, {"b": 1.0}, 2)
    (5.0, False)
    """
    left = [name for name in estimates if name not in finished]
    known = [max(0.0, estimate - running.get(name, 0.0)) for name in left if (estimate := estimates[name]) is not None]
    if not known:
        return None
    return max(sum(known) / max(1, workers), *known), len(known) == len(left)


def bar(done: int, total: int, width: int, symbols: tuple[str, str]) -> str:
    """A bar of `width` columns, filled in proportion.

    >>> bar(1, 4, 8, ("#", "."))
    '##......'
    """
    filled = width * done // total if total else 0
    return symbols[0] * filled + symbols[1] * (width - filled)


def live_line(
    *,
    done: int,
    total: int,
    running: Mapping[str, float],
    left: tuple[float, bool] | None,
    width: int,
    symbols: tuple[str, str],
) -> str:
    """The line in at most `width` columns: bar, count, names of what runs (longest first), time left.

    Where room is short the names are cut first, then the bar goes, then the time; the count stays.
    """
    count = f"{done}/{total}" if total else f"{done} done"
    head = f"{bar(done, total, BAR, symbols)} {count}" if total and width >= NARROW else count
    tail = _left(left, running)
    if cells(head) + 2 + cells(tail) > width:
        tail = ""
    room = width - cells(head) - 2 - (cells(tail) + 2 if tail else 0)
    names = ", ".join(printable(name) for name, _ in sorted(running.items(), key=lambda item: -item[1]))
    parts = [head, clip(names, room) if room > len("...") else "", tail]
    return clip("  ".join(part for part in parts if part), width)


def waiting_line(*, waited: float, words: str, left: float | None, running: Collection[str], width: int) -> str:
    """The line while a lease is waited for: how long by now, the place, about how long still, what runs meanwhile.

    >>> waiting_line(waited=65.0, words="position 2", left=130.0, running=["a"], width=60)
    'waiting for 65 s: position 2, about 2 min 10 s to go  a'
    """
    head = f"waiting for {_rough(waited)}: {printable(words)}"
    if left is not None:
        head += f", about {_rough(left)} to go" if left >= 1 else ", any moment now"
    names = ", ".join(printable(name) for name in running)
    return clip("  ".join(part for part in (head, names) if part), width)


def _left(left: tuple[float, bool] | None, running: Mapping[str, float]) -> str:
    if left is not None and left[0] >= 1:
        return f"{'about' if left[1] else 'at least'} {_rough(left[0])} left"
    if left is None and running:
        return f"for {_rough(max(running.values()))}"
    return ""


def _rough(seconds: float) -> str:
    """Whole seconds: decimals of a guess would only flicker."""
    whole = round(seconds)
    return f"{whole} s" if whole < 100 else duration(whole)  # noqa: PLR2004
