"""The phrases that the terminal and the files share: durations, counts, times, the extra words behind a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from touchgate.reports.model import WORDS, CheckReport, FalseSkip, LaneReport, RunReport, repeat
from touchgate.reports.style import printable

FEW = 6
"""So many names stand on a line that is not about them."""
HEX = frozenset("0123456789abcdef")
SHA1, SHA256, SHORT = 40, 64, 7


def plural(count: int, noun: str) -> str:
    """The count with its noun: "1 path", "2 paths".

    >>> plural(1, "check"), plural(0, "check")
    ('1 check', '0 checks')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration(seconds: float) -> str:
    """Seconds as a person reads them.

    >>> [duration(s) for s in (0.314, 12.94, 100, 125, 3780)]
    ['0.31 s', '12.9 s', '1 min 40 s', '2 min 5 s', '1 h 3 min']
    """
    if seconds < 9.995:  # noqa: PLR2004  where two decimals round to 10.00
        return f"{seconds:.2f} s"
    if seconds < 99.95:  # noqa: PLR2004  where one decimal rounds to 100.0
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def short(commit: str | None) -> str:
    """A commit id's first digits, any other name whole; "unknown" for None."""
    if commit is None:
        return "unknown"
    return commit[:SHORT] if len(commit) in (SHA1, SHA256) and HEX.issuperset(commit) else commit


def moment(iso: str) -> str:
    """An ISO time as date and minute where the reader is; what can't be read as a time stays as it is."""
    try:
        return datetime.fromisoformat(iso.replace("Z", "+00:00")).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return iso


def number(value: object) -> str:
    """An error or a bound: two digits, 0 as 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.1e}" if value else "0"


def worst_error(worst: Mapping[str, Any] | None, *, failed: bool) -> str:
    """The worst error in words, "" where there is none: max err 3.1e-02 > 1.0e-02 at [17, 4] in float16."""
    if not worst or worst.get("error") is None:
        return ""
    if not failed and worst["error"] == 0 and worst.get("bound") == 0:
        return "exact"
    text = f"max err {number(worst['error'])}"
    if worst.get("bound") is not None:
        text += f" > {number(worst['bound'])}" if failed else f" (bound {number(worst['bound'])})"
    if failed:
        if worst.get("index") not in (None, [], ()):
            text += f" at {list(worst['index']) if isinstance(worst['index'], (list, tuple)) else worst['index']}"
        if worst.get("case"):
            text += f" in {worst['case']}"
    return text


def remark(check: CheckReport) -> str:
    """What stands behind a check's result and seconds: when it was measured, why it failed, how close it came."""
    if check.reused:
        last = [moment(check.measured)] if check.measured else []
        last += [duration(check.seconds)] if check.seconds is not None else []
        return f"last run {', '.join(last)}" if last else ""
    if check.passed:
        parts = [plural(check.cases, "case")] if check.cases is not None else []
        from touchgate.reports.resources import in_words  # noqa: PLC0415  only checks have facts

        said = (worst_error(check.worst, failed=False), in_words(check.facts), check.reason)
        parts += [text for text in said if text]
        return ", ".join(parts)
    return check.reason or worst_error(check.worst, failed=True)


def tally(checks: Iterable[CheckReport]) -> str:
    """How many ended how, in words: "7 passed (emulated), 1 failed, 1 cached". Emulated passes are counted apart."""
    counts: dict[str, int] = {}
    for check in checks:
        counts[check.word.lower()] = counts.get(check.word.lower(), 0) + 1
    plain = [*(word.lower() for word in WORDS.values()), "cached", "never reached"]
    order = [word + suffix for word in plain for suffix in ("", " (emulated)", " (shadow)", " (emulated, shadow)")]
    # Only an error is counted in another number.
    return ", ".join(
        f"{counts[word]} {word.replace('error', 'errors') if counts[word] > 1 else word}" for word in order if word in counts
    )


def last_line(report: RunReport) -> str:
    """The one line that says what the run came to."""
    ended = "interrupted: " if report.interrupted else ""
    if not report.lanes:
        return f"{ended}no lane is declared: nothing to check, exit {report.exit}"
    if not report.running and not report.checks:
        looked = f"{plural(len(report.lanes), 'lane')} looked at, {plural(report.touched, 'path')}"
        return f"{ended}nothing touched: {looked}, exit {report.exit}"
    counts = tally(report.checks) or "none ran"
    line = f"{ended}{plural(len(report.checks), 'check')}: {counts} in {duration(report.seconds)}"
    if report.false_skips:
        line += f", {plural(len({one.lane for one in report.false_skips}), 'lane')} skipped wrongly"
    return f"{line}, exit {report.exit}" if report.exit else line


def known_from(report: RunReport) -> str:
    """How base, head and merge base are known, in one line; "" where nothing was said about it."""
    parts = []
    if report.base_from:
        parts.append(f"base from {report.base_from}")
    if report.head_from:
        parts.append(f"head from {report.head_from}")
    if report.proof:
        parts.append(f"merge base: {report.proof}")
    return "; ".join(parts)


def false_skip(one: FalseSkip, report: RunReport) -> tuple[str, ...]:
    """What a failure in a lane that was to be skipped says about the gate: a title, then what to do about it."""
    lines = [f"FALSE SKIP  lane {one.lane} was to be skipped, and {one.check} fails"]
    here = one.suspects[:FEW]
    for suspect in here:
        likely = f"  ({suspect.why})" if suspect.why else ""
        lines.append(f"touched, and no pattern of the lane lets it through: {printable(suspect.path)}{likely}")
    if len(one.suspects) > len(here):
        lines.append(f"or one of {plural(len(one.suspects) - len(here), 'path')} more")
    patterns = [suspect.pattern for suspect in here if suspect.pattern]
    if patterns:
        several = "one of these is missing" if len(one.suspects) > 1 else "this is missing"
        lines.append(f"most likely {several} in `paths` of the lane at {one.where}: {', '.join(patterns)}")
    if not one.touched:
        lines.append("no path is touched: it fails without any change")
    elif one.earlier:
        lines.append(
            f"it passed on {moment(one.earlier)} with the same files of its lane: what broke it lies outside of these"
        )
    else:
        lines.append(
            f"or it fails without this change, too: check out the merge base {short(report.merge_base)} and run "
            f"`{repeat(one.check, report.suite)}`"
        )
    return tuple(lines)


def over_target(lane: LaneReport) -> str:
    """The sentence about a lane that took longer than it is meant to."""
    where = f" ({lane.where})" if lane.where else ""
    return f"lane {lane.name} took {duration(lane.seconds)}, its target is {duration(lane.minutes * 60)}{where}"


def by_reason(several: Iterable[CheckReport | LaneReport]) -> dict[str, list[str]]:
    """Names of checks or lanes under their common reason, in the order in which the reasons first come."""
    groups: dict[str, list[str]] = {}
    for one in several:
        groups.setdefault(one.reason or "no reason was given", []).append(one.name)
    return groups


def some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:FEW])
    return shown if len(names) <= FEW else f"{shown} and {len(names) - FEW} more"
