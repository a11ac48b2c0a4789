"""What became of each benchmark of a check, and of all of them: values, words, the outcome. Nothing here measures."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from touchgate.benchmarks import verdicts
from touchgate.benchmarks.verdicts import Block, Finding, Judgement
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.benchmarks.traffic import Ceiling
    from touchgate.checks.cases import Benchmark

PROBE_BOUND = 1.05
"""A copy that takes more than this times its best in the lease had to share the memory."""


@dataclass
class Key:
    """What became of one benchmark. All times are seconds."""

    benchmark: Benchmark
    samples: list[float] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    again: list[Block] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    ceiling: Ceiling | None = None
    judgement: Judgement | None = None
    wrong: str = ""
    unmeasured: str = ""
    note: str = ""
    strangers: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    thrown: int = 0
    clocks: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """Of the samples that count."""
        return statistics.median(self.samples)

    @property
    def bytes(self) -> int:
        """Read and written."""
        return self.benchmark.read + self.benchmark.written

    def share(self) -> float | None:
        """Of the ceiling."""
        return self.bytes / self.median / self.ceiling.rate if self.samples and self.ceiling else None

    def line(self) -> str:
        """For the log."""
        words = f"{self.benchmark.name}:"
        if self.samples:
            words += f" {self.median * 1e6:.2f} us, {self.bytes / self.median / 1e9:.0f} GB/s"
            share = self.share()
            words += f", {share:.1%} of the ceiling" if share is not None else ""
        for text in (self.wrong, self.unmeasured, self.judgement.line() if self.judgement else "", self.note):
            words += f"; {text}" if text else ""
        return words

    def facts(self) -> dict[str, Any]:
        """Plain JSON: everything that was measured."""
        median = self.median if self.samples else None
        return {
            "name": self.benchmark.name,
            "seconds": median,
            "samples": self.samples,
            "bytes_read": self.benchmark.read,
            "bytes_written": self.benchmark.written,
            "flop": self.benchmark.flop,
            "bytes_per_second": self.bytes / median if median else None,
            "ceiling": self.ceiling._asdict() if self.ceiling else None,
            "share": self.share(),
            "finding": self.judgement.finding.value if self.judgement else None,
            "ratio": self.judgement.ratio if self.judgement else None,
            "interval": [self.judgement.low, self.judgement.high] if self.judgement else None,
            "blocks": [[*block.base, *block.head] for block in self.blocks],
            "confirmation": [[*block.base, *block.head] for block in self.again],
            "probes": self.probes,
            "busy": [*self.strangers, *self.busy],
            "thrown_away": self.thrown,
            "sm_clock": dict(self.clocks),
            "note": self.wrong or self.unmeasured or (self.judgement.reason if self.judgement else "") or self.note,
        }


def spoiled(key: Key, usual: float, bandwidth: float | None, l2: int | None) -> Judgement | None:
    """INVALID or UNDECIDED for what no comparison could mend, else None.

    usual: seconds of the probe at its best in this lease. bandwidth: bytes a second by the memory's clock and width.
    l2: bytes.
    """
    shared = contended(key, key.probes, usual)
    if key.samples and not key.wrong:
        # Somebody else's traffic lowers the ceiling, but makes nothing faster than the memory is.
        ceiling = key.ceiling.rate if key.ceiling and shared is None else None
        read, written = key.benchmark.read, key.benchmark.written
        why = verdicts.impossible(read, written, key.median, ceiling=ceiling, datasheet=bandwidth, l2=l2)
        if why:
            return Judgement(Finding.INVALID, reason=why)
    return shared


def contended(key: Key, probes: Sequence[float], usual: float) -> Judgement | None:
    """UNDECIDED where somebody else used the memory or the GPU meanwhile."""
    seen = (*key.strangers, *key.busy)
    who = f"; busy: {', '.join(seen)}" if seen else ""
    slower = max(probes, default=usual) / usual
    if slower > PROBE_BOUND:
        longer = f"a copy beside it took {slower - 1:.0%} longer than at its best"
        return Judgement(Finding.UNDECIDED, reason=f"the memory was shared: {longer}{who}")
    if key.strangers:
        return Judgement(Finding.UNDECIDED, reason=f"the GPU was shared{who}")
    return None


def outcome_of(keys: Sequence[Key], device: str, facts: Mapping[str, Any]) -> Outcome:
    """All keys in one: a failure before an error, that before what is unmeasured."""
    problems = [(_verdict(key), key) for key in keys]
    worst = next((one for one in _ORDER if any(verdict is one for verdict, _ in problems)), Verdict.PASSED)
    of_it = [key for verdict, key in problems if verdict is worst]
    reason = ""
    if worst is not Verdict.PASSED:
        more = f" (and {len(of_it) - 1} more)" if len(of_it) > 1 else ""
        reason = f"{of_it[0].benchmark.name}: {_why(of_it[0])}{more}"
    return Outcome(
        worst,
        device=device,
        reason=reason,
        detail=tuple(key.line() for verdict, key in problems if verdict is not Verdict.PASSED),
        cases=len(keys),
        samples=tuple(seconds for key in keys for seconds in key.samples),
        facts={"benchmarks": [key.facts() for key in keys], **facts},
    )


_ORDER = (Verdict.FAILED, Verdict.ERROR, Verdict.UNMEASURED)


def _verdict(key: Key) -> Verdict:
    if key.wrong:
        return Verdict.FAILED
    if key.unmeasured:
        return Verdict.UNMEASURED
    return verdicts.VERDICTS[key.judgement.finding] if key.judgement else Verdict.PASSED


def _why(key: Key) -> str:
    return key.wrong or key.unmeasured or (key.judgement.line() if key.judgement else "")
