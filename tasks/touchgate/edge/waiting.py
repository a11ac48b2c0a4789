"""What a run says while it waits for a lease: one line, and another when its position changes; live words for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from touchgate.reports.words import duration, moment, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from touchgate.leases.engine import Holder, Place

FEW = 3
"""Holders that a line names."""


def held_by(holder: Holder) -> str:
    """Who has something, since when and for what, in one line."""
    parts = [holder.user]
    if holder.pid is not None:
        parts.append(f"pid {holder.pid}")
    if holder.since:
        parts.append(f"since {moment(holder.since)}")
    if holder.until:
        parts.append(f"until {moment(holder.until)}")
    what = f" ({holder.what})" if holder.what else ""
    return ", ".join(parts) + what + (f"; {holder.url}" if holder.url else "") + (f"; {holder.note}" if holder.note else "")


def rough(seconds: float) -> str:
    """A guess, without digits that mean nothing.

    >>> [rough(s) for s in (0.0, 42.0, 100.0, 4000.0)]
    ['a moment', '42 s', '2 min', '1 h 7 min']
    """
    if seconds < 1:
        return "a moment"
    whole = round(seconds)
    return f"{whole} s" if whole < 100 else duration(round(whole / 60) * 60)  # noqa: PLR2004


def line(wanted: str, place: Place, hint: str = "") -> str:
    """The line that stays. wanted: what is asked for, in words. hint: how to stop waiting."""
    parts = [f"waiting for {wanted}"]
    if place.position:
        parts[0] += f", position {place.position}"
    held = [f"{holder.resource} is held by {held_by(holder)}" for holder in place.holders[:FEW]]
    if len(place.holders) > FEW:
        held.append(f"and {len(place.holders) - FEW} more")
    parts += held
    if place.estimate is not None:
        parts.append(f"about {rough(place.estimate)} to go")
    return "; ".join([*parts, *([hint] if hint else [])])


def live(place: Place) -> str:
    """The words of the live line, behind the seconds waited so far."""
    words = f"position {place.position}" if place.position else "next"
    if place.holders:
        first = place.holders[0]
        words += f", behind {first.user}" + (f" ({first.what})" if first.what else "")
        if len(place.holders) > 1:
            words += f" and {plural(len(place.holders) - 1, 'other')}"
    return words


class Waiter:
    """An engine's `on_wait`: says a line when the position is another, and keeps the live line fresh.

    say: prints a line that stays. show: (words, seconds until it is served or None) for the live line.
    """

    def __init__(
        self, wanted: str, say: Callable[[str], None], show: Callable[[str, float | None], None], hint: str = ""
    ) -> None:
        self._wanted, self._say, self._show, self._hint = wanted, say, show, hint
        self._position: int | None = None
        self.behind: tuple[Holder, ...] = ()
        """Who was in the way when the place changed last."""

    @property
    def waited(self) -> bool:
        """Whether there was a wait at all."""
        return self._position is not None

    def __call__(self, place: Place) -> None:
        """The place now."""
        self.behind = place.holders or self.behind
        self._show(live(place), place.estimate)
        if place.position != self._position:
            self._position = place.position
            self._say(line(self._wanted, place, self._hint))
