"""compute-sanitizer on a GPU: each tool finds the fault that is planted for it, and the repository's kernels are clean.

    python tests/hardware/sanitizers.py [FOLDER FOR LOGS]

A line for each claim, the totals in the last one. Exit 0: all hold; 1: one does not; 2: nothing could be measured here. It
ends within LIMIT seconds. The folder gets each run's log with the tool's whole report.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from touchgate.checks.launcher import Launcher, log_tail
from touchgate.checks.sanitizers import KIND, TOOLS
from touchgate.devices import Unavailable, sanitizer
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane
from touchgate.outcome import Outcome, Verdict
from touchgate.results.keys import visible_environment

ROOT = Path(__file__).resolve().parents[2]
FAULTS = {
    # tool: the kernel of tests/hardware/faults, the kind of fault, words of what the tool calls it
    "memcheck": ("out_of_bounds", "memory", "write of size 4"),
    "racecheck": ("race", "race", ""),
    "initcheck": ("uninitialised", "init", "__global__ memory read"),
    "synccheck": ("divergent", "sync", "Divergent thread(s)"),
}
CLEAN = ("binary", "gemv", "rmsnorm")
LIMIT = 230.0
"""Seconds for all of it."""
EACH = 100.0
"""Seconds for one run."""
FAULTY = 40.0
"""Seconds for a run over a planted fault, which may wait for ever where it is not found."""
SHOWN = 25
"""Lines of the log of a run that is not as claimed."""


class Claims:
    """Counts what holds, and runs one check at a time until the time is over."""

    def __init__(self, logs: Path, build: Path) -> None:
        self.logs = logs
        self.build = build
        self.began = time.monotonic()
        self.held = self.broken = self.unmeasured = 0
        self.device = "no device"
        self.log = logs

    def run(self, target: str, tool: str) -> Outcome:
        """One tool over one oracle file, as a run of doit does it, in a worker of its own."""
        at = At("tests/hardware/sanitizers.py", 1, 1)
        declaration = CheckDeclaration("sanitizers", target, {"tools": [tool]}, at)
        lane = Lane(Path(target).stem, "", (), (), ("full",), DeviceWish(), 1, 1, (), (declaration,), at)
        (spec,) = KIND.expand(lane, declaration, ROOT)
        left = LIMIT - (time.monotonic() - self.began)
        if left <= 0:
            return Outcome(Verdict.TIMED_OUT, reason=f"the {LIMIT:g} s for all of it are over")
        seen, _ = visible_environment(os.environ, ())
        log = self.logs / f"{tool}-{lane.name}.log"
        self.log = log
        spec = replace(spec, timeout=min(FAULTY if "faults" in target else EACH, left))
        outcome = Launcher().run(spec, place="gpu", root=ROOT, build_dir=self.build, environ=seen, log=log)
        self.device = outcome.device or self.device
        return outcome

    def claim(self, words: str, outcome: Outcome, *, holds: bool) -> None:
        """Print whether it holds, with what was seen where it does not."""
        seconds = f"{outcome.seconds:.1f} s"
        if outcome.verdict is Verdict.UNMEASURED:
            self.unmeasured += 1
            print(f"NOT MEASURED    {words}: {outcome.reason}", flush=True)
        elif holds:
            self.held += 1
            told = f"{outcome.cases} cases" if outcome.verdict is Verdict.PASSED else outcome.reason
            print(f"holds           {words} ({seconds}): {told}", flush=True)
        else:
            self.broken += 1
            print(f"DOES NOT HOLD   {words} ({seconds}): {outcome.verdict.value}: {outcome.reason}", flush=True)
            lines = [*outcome.detail, "its log ends:", *log_tail(self.log, SHOWN)]
            print("".join(f"                | {line}\n" for line in lines), end="", flush=True)

    def last_line(self, version: str) -> str:
        """The totals."""
        seconds = time.monotonic() - self.began
        total = self.held + self.broken + self.unmeasured
        return (
            f"{total} claims: {self.held} hold, {self.broken} do not hold, {self.unmeasured} not measured; "
            f"{seconds:.1f} s, {self.device}, compute-sanitizer {version}"
        )


def marked(source: Path) -> list[int]:
    """The numbers of the lines that are marked as the fault's."""
    return [number for number, text in enumerate(source.read_text().splitlines(), 1) if text.endswith("// fault")]


def caught(outcome: Outcome, tool: str) -> bool:
    """Whether the check failed with the planted fault: its kind, kernel, file and line, with thread and block."""
    kernel, kind, words = FAULTS[tool]
    file = f"tests/hardware/faults/{kernel}.cu"
    places = [(file, line) for line in marked(ROOT / file)]
    findings: list[dict[str, Any]] = list(outcome.facts.get("findings", ()))
    return outcome.verdict is Verdict.FAILED and any(
        (one["kind"], one["kernel"]) == (kind, kernel)
        and words in one["what"]
        and any((place["file"], place["line"]) in places for place in (one["place"], one["other"]) if place)
        and bool(one["thread"] and one["block"])
        for one in findings
    )


def main(logs: Path) -> int:
    """All claims."""
    try:
        version = sanitizer.fitting().version
    except Unavailable as missing:
        print(f"0 claims: nothing was measured: {missing}")
        return 2
    with tempfile.TemporaryDirectory() as build:
        claims = Claims(logs, Path(build))
        for tool in TOOLS:
            kernel = FAULTS[tool][0]
            outcome = claims.run(f"tests/hardware/faults/{kernel}.py", tool)
            claims.claim(f"{tool} finds {kernel}, with kernel, line and thread", outcome, holds=caught(outcome, tool))
        for name in CLEAN:
            for tool in TOOLS:
                outcome = claims.run(f"kernels/{name}/{name}.py", tool)
                claims.claim(f"{name} is clean under {tool}", outcome, holds=outcome.verdict is Verdict.PASSED)
        print(claims.last_line(version), flush=True)
    return 1 if claims.broken else 2 if claims.unmeasured else 0


if __name__ == "__main__":
    if sys.argv[1:]:
        folder = Path(sys.argv[1]).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        raise SystemExit(main(folder))
    with tempfile.TemporaryDirectory() as temporary:
        raise SystemExit(main(Path(temporary)))
