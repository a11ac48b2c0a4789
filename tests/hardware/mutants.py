"""Every mutant of the repository's kernels, run on a GPU: a line each, exit 1 when one is not caught as it declares.

    python tests/hardware/mutants.py

Each runs in a process of its own, since a fault of one leaves a process's context unusable for the next; some at a time.
On a GPU threads really run at once, so a missing barrier may do no harm there at all: such a mutant is reported, not counted.
The emulated leg, which tries several thread orders, is where it must be caught (tests/test_kernels.py).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from touchgate.checks import trials
from touchgate.checks.cases import load_oracle
from touchgate.checks.mutants import Mutant, apply, load_mutants
from touchgate.devices import LaunchFault, Unavailable, cuda

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
NAMES = ("binary", "gemv", "rmsnorm")
CHANCE = ("missing barrier",)


SECONDS = 200
"""For one mutant."""
AT_ONCE = 8
ANSWER = "found: "


def faults(folder: Path, name: str, build: Path) -> list[str]:
    """The kinds of fault that the whole check finds in the kernel below a folder."""
    device = cuda.open_device(build)
    try:
        oracle = load_oracle(folder / name / f"{name}.py")
        module = device.module(folder / name / f"{name}.cu")
        cases = [case for case in oracle.cases() if "emulated" in case.places]
        return [fault.kind for fault in trials.run(oracle, cases, device, module, log=lambda _: None).faults]
    except LaunchFault:
        return ["launch"]
    finally:
        device.close()


def apart(folder: Path, name: str, mutant: Mutant, build: Path) -> str:
    """Make the mutant below a folder and run it in a process; returns the first kind of fault, "", or what went wrong."""
    for part in (name, "common"):
        shutil.copytree(KERNELS / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    apply(mutant, folder / name)
    command = [sys.executable, __file__, "--one", str(folder), name, str(build)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer in {SECONDS} s"
    last = answer.stdout.strip().rpartition("\n")[2]
    # Clean-up after a fault on the GPU may fail: what was found before counts.
    if not last.startswith(ANSWER):
        raise SystemExit(f"{name}: {mutant.name}: exit {answer.returncode}\n{answer.stdout}{answer.stderr}")
    return last.removeprefix(ANSWER)


def main() -> int:
    """Try every mutant."""
    survived = count = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(AT_ONCE) as pool:
        tried = [
            (name, mutant, pool.submit(apart, Path(temporary, f"{name}-{number}"), name, mutant, Path(temporary, "build")))
            for name in NAMES
            for number, mutant in enumerate(load_mutants(KERNELS / name / "mutants.py"))
        ]
        for name, mutant, answer in tried:
            found = answer.result()
            count += 1
            survived += not found and mutant.name not in CHANCE
            print(f"{'caught  ' if found else 'SURVIVED'}  {name}: {mutant.name}  {found}")
    print(f"{count} mutants, {survived} survived, {time.monotonic() - began:.0f} s")
    return 1 if survived else 0


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["--one"]:
            print(ANSWER + next(iter(faults(Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))), ""), flush=True)
            sys.exit(0)
        sys.exit(main())
    except Unavailable as missing:
        sys.exit(str(missing))
