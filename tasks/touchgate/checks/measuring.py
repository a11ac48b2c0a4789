"""From an oracle file and a device to an outcome: what the kernel check and its sanitized twin share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate.checks import trials
from touchgate.checks.cases import OracleFault, load_oracle
from touchgate.checks.oracles import source_of
from touchgate.checks.placement import ZONE
from touchgate.checks.problems import ask, blamed
from touchgate.devices import BuildFault
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.checks.cases import Case, Oracle
    from touchgate.checks.trials import Tally, Trial
    from touchgate.devices import Device


def _log(line: str) -> None:
    # At once: what was running must be in the log when the process ends on the spot.
    print(line, flush=True)


DETAIL = 20
"""Lines of a compiler's message that a report shows; the log has all."""


def first_error(text: str) -> str:
    """The line of a compiler's message that says what is wrong."""
    lines = text.splitlines() or [""]
    return next((line.strip() for line in lines if "error" in line), lines[0].strip())


def measure(
    root: Path,
    target: str,
    place: str,
    device: Device,
    *,
    small: bool = False,
    zone: int = ZONE,
    choose: Callable[[Oracle, list[Case]], list[Case]] | None = None,
    ways: Callable[[int], Callable[[int], tuple[Trial, ...]]] | None = None,
) -> Outcome:
    """Run the cases of an oracle file (`target`, relative to `root`) on a device. What it prints is the log.

    small: only the cases marked so. zone: bytes of the red zones. choose: gives a few of the cases, which then need not
    prove that zeros would not pass. ways: of that many cases, in which ways each runs, by its number. `Unavailable` is the
    caller's to report.
    """
    try:
        oracle = ask("", load_oracle, root / target)
        cases = trials.chosen_cases(oracle, place, small=small)
        if choose is not None:
            cases = choose(oracle, cases)
        module = device.module(root / source_of(target))
        how = trials.trials if ways is None else ways(len(cases))
        tally = trials.run(oracle, cases, device, module, log=_log, zone=zone, ways=how, proven=choose is None)
    except OracleFault as fault:
        reason = f"{blamed(fault.__cause__, target, root)}: {fault}"
        return Outcome(Verdict.ERROR, device=device.name, reason=reason)
    except trials.NoKernel as fault:
        reason = f"{target} launches {fault.name!r}, which {source_of(target)} does not define"
        return Outcome(Verdict.FAILED, device=device.name, reason=reason, detail=tuple(fault.text.splitlines()))
    except BuildFault as fault:
        text = str(fault).rstrip()
        print(text, flush=True)
        reason = f"{source_of(target)} does not compile: {first_error(text)}"
        return Outcome(Verdict.FAILED, device=device.name, reason=reason, detail=tuple(text.splitlines()[:DETAIL]))
    return _outcome(tally, len(cases), device.name)


def _outcome(tally: Tally, planned: int, device: str) -> Outcome:
    facts = {
        "trials": tally.trials,
        "launches": tally.launches,
        "bounds": tally.reasons,
        "faults": [fault.kind for fault in tally.faults],
    }
    common: dict[str, Any] = {
        "device": device,
        "worst": _worst(tally),
        "cases": tally.cases,
        "facts": facts,
    }
    if not tally.faults:
        return Outcome(Verdict.PASSED, **common)
    first = tally.faults[0]
    detail = list(first.lines)
    others = list(dict.fromkeys(fault.case for fault in tally.faults if fault.case != first.case))
    if others:
        detail.append(f"also wrong: {', '.join(others)}")
    if tally.cases < planned:
        detail.append(f"stopped after {tally.cases} of {planned} cases, {len(tally.faults)} of {tally.trials} trials wrong")
    return Outcome(Verdict.FAILED, reason=f"{first.case}: {first.lines[1]}", detail=tuple(detail), **common)


def _worst(tally: Tally) -> dict[str, Any] | None:
    worst = tally.worst
    if worst is None:
        return None
    # An infinite error (a NaN where a number belongs) is no JSON; null says that there is no figure for it.
    error = worst.error if math.isfinite(worst.error) else None
    return {"error": error, "bound": worst.bound, "case": worst.case, "index": list(worst.index)}
