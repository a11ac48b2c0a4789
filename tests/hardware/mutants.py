"""Every mutant of the repository's kernels, run on a GPU: a line each, exit 1 when one is not caught as it declares.

    python tests/hardware/mutants.py

On a GPU threads really run at once, so a missing barrier may do no harm there at all: such a mutant is reported, not counted.
The emulated leg, which tries several thread orders, is where it must be caught (tests/test_kernels.py).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from touchgate.checks import trials
from touchgate.checks.cases import load_oracle
from touchgate.checks.mutants import apply, load_mutants
from touchgate.devices import LaunchFault, Unavailable, cuda

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
NAMES = ("binary", "gemv", "rmsnorm")
CHANCE = ("missing barrier",)


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


def main() -> int:
    """Try every mutant."""
    survived = 0
    with tempfile.TemporaryDirectory() as temporary:
        build = Path(temporary, "build")
        for name in NAMES:
            for number, mutant in enumerate(load_mutants(KERNELS / name / "mutants.py")):
                folder = Path(temporary, f"{name}-{number}")
                for part in (name, "common"):
                    shutil.copytree(KERNELS / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
                apply(mutant, folder / name)
                found = faults(folder, name, build)[:1]
                caught = bool(found)
                survived += not caught and mutant.name not in CHANCE
                print(f"{'caught  ' if caught else 'SURVIVED'}  {name}: {mutant.name} {found}")
    print(f"{survived} mutants survived")
    return 1 if survived else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Unavailable as missing:
        sys.exit(str(missing))
