"""What times say: slower, faster, the same, or nothing. Values in, a finding out.

Times are compared as logarithms of ratios: 2 % up and 2 % down are the same distance, and noise that multiplies is the
same for short and long kernels. A finding needs two things: an interval that leaves no difference out, and an effect beyond
a floor, since a difference of half a percent that is surely there is still nothing to act on.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from touchgate.benchmarks import student
from touchgate.outcome import Verdict

FLOOR = 0.02
"""The smallest effect that counts, as a share of the time."""
LEVEL = 0.01
"""Of the two-sided intervals: 99 %; and what Holm's steps share among the keys of one run."""
TRIMMED = 1 / 4
"""Of the blocks at each end that a spike may have spoiled."""
LEAST_BLOCKS = 8
LEAST_RUNS = 8
"""Separate runs that stored baselines need before they say anything."""
ABOVE_CEILING = 1.10
"""More than this share of the ceiling is a defect of the benchmark."""


class Finding(str, Enum):
    """What a comparison came to."""

    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    UNCHANGED = "UNCHANGED"
    UNDECIDED = "UNDECIDED"
    INVALID = "INVALID"


VERDICTS = {
    Finding.REGRESSED: Verdict.FAILED,
    Finding.IMPROVED: Verdict.PASSED,
    Finding.UNCHANGED: Verdict.PASSED,
    Finding.UNDECIDED: Verdict.UNMEASURED,
    Finding.INVALID: Verdict.ERROR,
}
_MOVED = (Finding.REGRESSED, Finding.IMPROVED)


class Judgement(NamedTuple):
    """A finding with its numbers: the new time as a multiple of the old, and the interval around that.

    probability: of a difference as large where there is none (two-sided). reason: what is to be known beside it.
    """

    finding: Finding
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    probability: float | None = None
    reason: str = ""

    def line(self) -> str:
        """For a person."""
        words = self.finding.value
        if self.ratio is not None and self.low is not None and self.high is not None:
            words += f" {_percent(self.ratio)} [{_percent(self.low)} to {_percent(self.high)}]"
        return f"{words}: {self.reason}" if self.reason else words


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


class Estimate(NamedTuple):
    """The middle of log ratios, its standard error, and the degrees of freedom of that."""

    middle: float
    error: float
    freedom: int

    @property
    def probability(self) -> float:
        """Of a middle this far from 0 where the ratios' is 0, two-sided."""
        if self.error == 0:
            return 1.0 if self.middle == 0 else 0.0
        return 2 * student.upper_tail(abs(self.middle) / self.error, self.freedom)

    def half_width(self, level: float) -> float:
        """Of the two-sided interval that leaves out `level`."""
        return student.quantile(1 - level / 2, self.freedom) * self.error


def estimate(ratios: Sequence[float]) -> Estimate:
    """The trimmed mean of log ratios, with the error from their winsorized variance (Tukey and McLaughlin 1963).

    A spike lies far out and is trimmed with what lies opposite; it widens the interval by no more than that. Raises
    ValueError for fewer than `LEAST_BLOCKS`.
    """
    count = len(ratios)
    if count < LEAST_BLOCKS:
        raise ValueError(f"{count} blocks; at least {LEAST_BLOCKS} are wanted")
    ordered = sorted(ratios)
    cut = int(count * TRIMMED + 1e-9)
    kept = ordered[cut : count - cut]
    winsorized = [ordered[cut]] * cut + kept + [ordered[count - cut - 1]] * cut
    spread = statistics.stdev(winsorized)
    return Estimate(statistics.fmean(kept), spread / ((1 - 2 * cut / count) * math.sqrt(count)), len(kept) - 1)


class Block(NamedTuple):
    """Four samples in turn, seconds: two of the base and two of head, as ABBA or BAAB, so that a drift cancels."""

    base: tuple[float, float]
    head: tuple[float, float]

    @property
    def ratio(self) -> float:
        """The logarithm of head's time over the base's."""
        return (sum(map(math.log, self.head)) - sum(map(math.log, self.base))) / 2


def against_base(blocks: Mapping[str, Sequence[Block]], floor: float = FLOOR, level: float = LEVEL) -> dict[str, Judgement]:
    """Head against base, from blocks by key. All keys of one run together: Holm's step-down holds their false alarms.

    A key that Holm's rejects and whose ratio is beyond the floor is REGRESSED or IMPROVED; one within the floor is
    UNCHANGED if its interval is narrower than the floor to either side; else it is UNDECIDED.
    """
    estimates = {key: estimate([block.ratio for block in listed]) for key, listed in blocks.items()}
    rejected = holm({key: found.probability for key, found in estimates.items()}, level)
    return {key: _judged(found, key in rejected, floor, level) for key, found in estimates.items()}


def _judged(found: Estimate, rejected: bool, floor: float, level: float) -> Judgement:
    half = found.half_width(level)
    beyond = abs(found.middle) > math.log1p(floor)
    if beyond and rejected:
        finding, reason = (Finding.REGRESSED if found.middle > 0 else Finding.IMPROVED), ""
    elif not beyond and half <= math.log1p(floor):
        finding, reason = Finding.UNCHANGED, ""
    else:
        finding, reason = Finding.UNDECIDED, "too noisy to tell"
    return _told(finding, found.middle, half, found.probability, reason)


def _told(finding: Finding, middle: float, half: float, probability: float, reason: str) -> Judgement:
    """A judgement from logarithms."""
    ratio, low, high = (math.exp(middle + change) for change in (0, -half, half))
    return Judgement(finding, ratio, low, high, probability, reason)


def holm(probabilities: Mapping[str, float], level: float) -> frozenset[str]:
    """The keys that Holm's step-down rejects (Holm 1979): the smallest against level / n, the next against level / (n - 1)."""
    rejected = set()
    for rank, (key, probability) in enumerate(sorted(probabilities.items(), key=lambda one: one[1])):
        if probability > level / (len(probabilities) - rank):
            break
        rejected.add(key)
    return frozenset(rejected)


def against_baselines(medians: Sequence[float], median: float, floor: float = FLOOR, level: float = LEVEL) -> Judgement:
    """One run's median (seconds) against those of earlier separate runs of an equal key.

    A run is the unit: samples of one process agree with each other more than runs do. The prediction interval says where
    the median of one more run would lie: mean +- t s sqrt(1 + 1/n) of the logarithms, at the `level` on either side.
    """
    count = len(medians)
    if count < LEAST_RUNS:
        return Judgement(Finding.UNDECIDED, reason=f"runs of an equal key that are stored: {count}; needed: {LEAST_RUNS}")
    logs = [math.log(value) for value in medians]
    middle, spread = statistics.fmean(logs), statistics.stdev(logs)
    error = spread * math.sqrt(1 + 1 / count)
    half = student.quantile(1 - level, count - 1) * error
    effect = math.log(median) - middle
    beyond = abs(effect) > math.log1p(floor)
    reason = ""
    if beyond and abs(effect) > half:
        finding = Finding.REGRESSED if effect > 0 else Finding.IMPROVED
    elif not beyond and half <= math.log1p(floor):
        finding = Finding.UNCHANGED
    else:
        finding, reason = Finding.UNDECIDED, "earlier runs differ too much to tell"
    return _told(finding, effect, half, Estimate(effect, error, count - 1).probability, reason)


def confirmed(first: Judgement, second: Judgement | None) -> Judgement:
    """The judgement after a second measurement of what moved: it stands only where both say the same."""
    if first.finding not in _MOVED or (second is not None and second.finding is first.finding):
        return first
    again = f"{second.finding.value} when measured again" if second else "and not measured again"
    said = f"{first.finding.value} at first, {again}"
    return first._replace(finding=Finding.UNDECIDED, reason=said)


def needs_confirmation(judgement: Judgement) -> bool:
    """Whether it says that something moved."""
    return judgement.finding in _MOVED


def impossible(
    read: int, written: int, seconds: float, *, ceiling: float | None, datasheet: float | None, l2: int | None
) -> str:
    """Why a time can't be true, in words; "" where it can. Bytes; bytes a second; bytes.

    Against the datasheet counts only what must have crossed the memory's bus: what was written may still lie in the L2.
    """
    rate = (read + written) / seconds
    if ceiling is not None and rate > ABOVE_CEILING * ceiling:
        return (
            f"{rate / 1e9:.0f} GB/s is {rate / ceiling:.0%} of what plain traffic of the same bytes reaches "
            f"({ceiling / 1e9:.0f} GB/s): the benchmark does not move what it says, or not from memory"
        )
    if datasheet is not None:
        crossed = (read + written - min(written, l2 or 0)) / seconds
        if crossed > datasheet:
            return (
                f"{crossed / 1e9:.0f} GB/s is above what the memory's clock and width come to "
                f"({datasheet / 1e9:.0f} GB/s): the benchmark does not move what it says, or not from memory"
            )
    return ""
