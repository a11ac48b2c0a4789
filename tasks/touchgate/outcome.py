"""What a check's run came to: the verdict, and what is worth keeping of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any


class Verdict(str, Enum):
    """The five ends of a check. Only PASSED is ever reused."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    TIMED_OUT = "timed_out"
    UNMEASURED = "unmeasured"

    @property
    def is_failure(self) -> bool:
        """Whether a run with this verdict exits 1."""
        return self in (Verdict.FAILED, Verdict.TIMED_OUT)


EMULATED = "emulated"
"""The device of a result that came from the CPU running the .cu text. It never stands for a GPU's."""


@dataclass(frozen=True)
class Outcome:
    """One check's run.

    device: None (no device took part), "emulated", or the GPU's name. seconds: wall time. reason: one line for a person,
    empty when passed. detail: the lines under a failure (first mismatch, both bit patterns, ...). worst: {"error": float,
    "bound": float, "case": str, "index": list[int]} or None. cases: how many cases ran (None where the kind has none).
    samples: what a benchmark measured, seconds. facts: anything else worth keeping, plain JSON.
    """

    verdict: Verdict
    seconds: float = 0.0
    device: str | None = None
    reason: str = ""
    detail: tuple[str, ...] = ()
    worst: Mapping[str, Any] | None = None
    cases: int | None = None
    samples: tuple[float, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a JSON file; `from_json` gives the outcome back."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data["verdict"] = self.verdict.value
        data["detail"] = list(self.detail)
        data["samples"] = list(self.samples)
        data["facts"] = dict(self.facts)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """Back from `to_json`. Unknown keys are ignored; a missing or wrong one raises ValueError, KeyError or TypeError."""
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        known["verdict"] = Verdict(data["verdict"])
        known["detail"] = tuple(str(line) for line in known.get("detail", ()))
        known["samples"] = tuple(float(sample) for sample in known.get("samples", ()))
        known["facts"] = dict(known.get("facts", {}))
        outcome = cls(**known)
        outcome._refuse_other_types()
        return outcome

    def _refuse_other_types(self) -> None:
        """What came from a file is believed only where each value is what it should be. Raises TypeError, ValueError."""
        shapes = (
            (self.seconds, (int, float)),
            (self.reason, str),
            (self.device, (str, type(None))),
            (self.worst, (Mapping, type(None))),
            (self.cases, (int, type(None))),
        )
        for value, types in shapes:
            if not isinstance(value, types) or isinstance(value, bool):
                raise TypeError(f"a value of another type: {value!r}")
        if not all(math.isfinite(number) and number >= 0 for number in (self.seconds, *self.samples)):
            raise ValueError("a time that is no time")
