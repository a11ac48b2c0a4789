"""How often lanes ran, were skipped and were skipped wrongly, over time: added up from the history of runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from touchgate.reports.style import cells, pad, printable
from touchgate.reports.words import duration, plural
from touchgate.results.history import AGREED, FALSE_SKIP, Run

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rates:
    """What a lane, or a week, came to. shadowed: skips that were tested with a verdict. saved: see `saving`; seconds."""

    name: str
    runs: int = 0
    ran: int = 0
    reused: int = 0
    skipped: int = 0
    shadowed: int = 0
    false_skips: int = 0
    spent: float = 0.0
    saved: float = 0.0

    @property
    def looked_at(self) -> int:
        """How many decisions there were. A shadowed lane is one of the skipped."""
        return self.ran + self.reused + self.skipped


@dataclass(frozen=True)
class Statistics:
    """All of it. since, until: seconds since 1970, None without runs. lost: lines that could not be read.

    tested: skips of different commits or lanes that were tested, whatever number of times; wrong: those among them that
    were false in any of these runs.
    """

    lanes: tuple[Rates, ...]
    weeks: tuple[Rates, ...]
    total: Rates
    since: int | None
    until: int | None
    lost: int
    tested: int = 0
    wrong: int = 0

    @property
    def bound(self) -> float | None:
        """The rate of false skips that is not exceeded with 95 % confidence; None where nothing was shadowed."""
        return upper_bound(self.wrong, self.tested)


def add_up(runs: Sequence[Run], minutes: Mapping[str, float], lost: int = 0) -> Statistics:
    """Add up. minutes: the targets of the lanes as declared now."""
    worth = saving(runs, minutes)
    lanes: dict[str, dict[str, float]] = {}
    weeks: dict[str, dict[str, float]] = {}
    total: dict[str, float] = {}
    for run in runs:
        week = weeks.setdefault(week_of(run.when), {})
        for place in (week, total):
            _add(place, "runs")
        for name, counted in _counted(run, worth).items():
            lane = lanes.setdefault(name, {"runs": 0})
            _add(lane, "runs")
            for place in (lane, week, total):
                for key, value in counted.items():
                    _add(place, key, value)
    verdicts = _verdicts(runs)
    return Statistics(
        lanes=tuple(_rates(name, counts) for name, counts in sorted(lanes.items())),
        weeks=tuple(_rates(name, counts) for name, counts in sorted(weeks.items())),
        total=_rates("all", total),
        since=runs[0].when if runs else None,
        until=runs[-1].when if runs else None,
        lost=lost,
        tested=len(verdicts),
        wrong=sum(verdicts.values()),
    )


def _verdicts(runs: Iterable[Run]) -> dict[tuple[str | None, str], bool]:
    """(head, lane) -> whether its skip was ever false. Runs of one commit choose the same lanes: they are one test."""
    found: dict[tuple[str | None, str], bool] = {}
    for run in runs:
        for name, one in run.shadow.items():
            if one.verdict in (AGREED, FALSE_SKIP):
                found[run.head, name] = found.get((run.head, name), False) or one.verdict == FALSE_SKIP
    return found


def _counted(run: Run, worth: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """What one run adds, by lane."""
    found: dict[str, dict[str, float]] = {}
    for name, seconds in run.ran.items():
        found[name] = {"ran": 1, "spent": seconds}
    for name in run.reused:
        found[name] = {"reused": 1}
    for name in run.skipped:
        found[name] = {"skipped": 1, "saved": worth.get(name, 0.0)}
    for name, one in run.shadow.items():
        # It was skipped by the decision, and what that would have saved was spent on the test.
        tested = one.verdict in (AGREED, FALSE_SKIP)
        found[name] = {
            "skipped": 1,
            "shadowed": int(tested),
            "false_skips": int(one.verdict == FALSE_SKIP),
            "spent": one.seconds,
        }
    return found


def _add(place: dict[str, float], key: str, value: float = 1) -> None:
    place[key] = place.get(key, 0) + value


def _rates(name: str, counts: Mapping[str, float]) -> Rates:
    return Rates(
        name,
        runs=int(counts.get("runs", 0)),
        ran=int(counts.get("ran", 0)),
        reused=int(counts.get("reused", 0)),
        skipped=int(counts.get("skipped", 0)),
        shadowed=int(counts.get("shadowed", 0)),
        false_skips=int(counts.get("false_skips", 0)),
        spent=counts.get("spent", 0.0),
        saved=counts.get("saved", 0.0),
    )


def saving(runs: Iterable[Run], minutes: Mapping[str, float]) -> dict[str, float]:
    """Seconds that one skip of a lane saves: the mean of its runs, shadowed ones too, else the minutes it declares."""
    sums: dict[str, list[float]] = {}
    for run in runs:
        for name, seconds in run.ran.items():
            sums.setdefault(name, []).append(seconds)
        for name, one in run.shadow.items():
            if one.verdict in (AGREED, FALSE_SKIP):
                sums.setdefault(name, []).append(one.seconds)
    return {name: value * 60 for name, value in minutes.items()} | {name: sum(one) / len(one) for name, one in sums.items()}


def week_of(when: int) -> str:
    """The ISO week of a time, UTC.

    >>> week_of(0), week_of(1_798_761_600)
    ('1970-W01', '2026-W53')
    """
    year, week, _ = datetime.fromtimestamp(when, timezone.utc).isocalendar()
    return f"{year}-W{week:02}"


def upper_bound(failures: int, trials: int, confidence: float = CONFIDENCE) -> float | None:
    """The probability that is not exceeded with this confidence, by Clopper and Pearson; None without trials.

    It is the p at which so few failures in so many independent trials have the probability 1 - confidence.

    >>> [round(upper_bound(*seen), 3) for seen in ((0, 1), (0, 30), (1, 30), (30, 30))]
    [0.95, 0.095, 0.149, 1.0]
    """
    if not trials:
        return None
    if failures >= trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(failures, trials, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(failures: int, trials: int, rate: float) -> float:
    """The probability of so many failures or fewer. Added up in logarithms: the powers are too small for floats."""
    if rate <= 0:
        return 1.0
    each = (
        math.lgamma(trials + 1)
        - math.lgamma(count + 1)
        - math.lgamma(trials - count + 1)
        + count * math.log(rate)
        + (trials - count) * math.log1p(-rate)
        for count in range(failures + 1)
    )
    return sum(math.exp(value) for value in each)


# ---- telling


def in_words(found: Statistics) -> list[str]:
    """The tables for a person."""
    lines = []
    if found.lost:
        lines.append(f"note: left out, since it can't be read: {plural(found.lost, 'line')} of the history")
    if found.since is None or found.until is None:
        return [*lines, "no run is on record yet; each `doit` adds one"]
    lines.append(f"{plural(found.total.runs, 'run')} from {_day(found.since)} to {_day(found.until)}")
    lines += ["", *_table("lane", found.lanes)]
    lines += ["", *_table("week", found.weeks)]
    lines += ["", _shadow_words(found)]
    return lines


def _shadow_words(found: Statistics) -> str:
    bound = found.bound
    if bound is None:
        return "no skip was tested yet: `doit --shadow 10%` runs one in ten of them all the same"
    what = f"false skips: {found.wrong} of {found.tested} tested, a commit and a lane counted once"
    return f"{what}; the rate is at most {bound:.2%} with {CONFIDENCE:.0%} confidence"


def _table(head: str, rows: Sequence[Rates]) -> list[str]:
    texts: list[tuple[str, ...]] = [(head, "ran", "reused", "skipped", "shadowed", "false skips", "spent", "saved")]
    for one in rows:
        share = f"{one.skipped / one.looked_at:.0%} ({one.skipped} of {one.looked_at})" if one.looked_at else "0"
        tested = (_of(one.shadowed, one.skipped), _of(one.false_skips, one.shadowed))
        counts = (str(one.ran), str(one.reused), share, *tested)
        texts.append((printable(one.name), *counts, duration(one.spent), duration(one.saved)))
    widths = [max(cells(row[at]) for row in texts) for at in range(len(texts[0]))]
    return [
        "  ".join(pad(text, widths[0]) if at == 0 else text.rjust(widths[at]) for at, text in enumerate(row)) for row in texts
    ]


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}" if whole else "0"


def _day(when: int) -> str:
    return datetime.fromtimestamp(when, timezone.utc).strftime("%Y-%m-%d")


def as_data(found: Statistics) -> dict[str, Any]:
    """The stable machine form: more keys may be added."""
    return {
        "schema": 1,
        "since": found.since,
        "until": found.until,
        "lost_lines": found.lost,
        "total": _rates_data(found.total),
        "lanes": [{"name": one.name, **_rates_data(one)} for one in found.lanes],
        "weeks": [{"week": one.name, **_rates_data(one)} for one in found.weeks],
        "tested": found.tested,
        "wrong": found.wrong,
        "false_skip_rate_bound": found.bound,
        "confidence": CONFIDENCE,
    }


def _rates_data(one: Rates) -> dict[str, Any]:
    return {
        "runs": one.runs,
        "ran": one.ran,
        "reused": one.reused,
        "skipped": one.skipped,
        "shadowed": one.shadowed,
        "false_skips": one.false_skips,
        "seconds_spent": round(one.spent, 3),
        "seconds_saved": round(one.saved, 3),
    }
