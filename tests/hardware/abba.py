"""Base against head on a GPU, tried: slower by about 5 %, the same code twice, and the same beside another process's copies.

    python tests/hardware/abba.py [--tries 20]

In a temporary repository with this one's GEMV: the base is as it is here, head has another comment or does a twentieth of
its rows twice. Each try is a whole benchmark check with confirmation. Exit 1 where less than 17 of 20 slower ones are
REGRESSED, or one of the same code is REGRESSED or IMPROVED.
"""

from __future__ import annotations

import argparse
import collections
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from touchgate import places
from touchgate.benchmarks import fills, traffic
from touchgate.checks import CheckSpec
from touchgate.checks.against import with_base
from touchgate.checks.benchmarking import Station, measure
from touchgate.devices import Unavailable, cuda
from touchgate.devices.timing import CudaStopwatch
from touchgate.gate.git import Repository

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
TARGET = "kernels/gemv/gemv.py"
NAMES = ("float32 16384x16384", "float32 8192x8192", "bfloat16 16384x16384")
CHOICE = f"\n\nBENCHMARKS = tuple(one for one in BENCHMARKS if one.name in {NAMES})\n"
SAME = "\n# The same.\n"
SLOWER = """

def twice(case, placed, threads):
    from dataclasses import replace

    yield from launch(case, placed, threads)
    yield from launch(replace(case, parameters={**case.parameters, "m": case["m"] // 20}), placed, threads)


ORACLE = Oracle(cases, arrays, twice, oracle, bound, ORACLE.blocks)
"""
BESIDE = """
from pathlib import Path
import sys
from touchgate.benchmarks.traffic import SOURCE, Memory
from touchgate.devices import cuda
from touchgate.devices.timing import CudaStopwatch
device = cuda.open_device(Path(sys.argv[1]))
memory = Memory(device, CudaStopwatch(device, SOURCE))
print("copying", flush=True)
while True:
    memory.probe()
"""


def git(root: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e", *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


class Trial:
    """A repository with the base committed, and the device that measures."""

    def __init__(self, root: Path, station: Station) -> None:
        self.root, self.station = root, station
        shutil.copytree(KERNELS, root / "kernels")
        self.file = root / TARGET
        self.text = self.file.read_text() + CHOICE
        self.file.write_text(self.text)
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "base")
        self.base = git(root, "rev-parse", "HEAD")

    def findings(self, added: str) -> tuple[list[str], list[str]]:
        """What one check says of head, which is the base with something added; and its lines."""
        self.file.write_text(self.text + added)
        spec = CheckSpec("g:benchmark", "g", "benchmark", "", TARGET, {}, ("gpu",), ("performance",), 600)
        with Repository(self.root) as repo:
            options = with_base(spec, repo, self.base).options
        with tempfile.TemporaryDirectory() as folder:
            outcome = measure(self.root, TARGET, self.station, options, Path(folder, "base"))
        listed = outcome.facts.get("benchmarks", [])
        ratios = [f"{one['ratio']:.4f}" if one["ratio"] else one["note"] for one in listed]
        return [one["finding"] or outcome.reason for one in listed] or [outcome.reason], ratios


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tries", type=int, default=20)
    tries = parser.parse_args().tries
    began = time.monotonic()
    try:
        device = cuda.open_device(places.build_dir())
    except Unavailable as missing:
        sys.exit(f"unmeasured: {missing}")
    watch = CudaStopwatch(device, traffic.SOURCE)
    station = Station(device, watch, traffic.Memory(device, watch), device.module(fills.SOURCE))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), station)
        beside = None
        try:
            for about, added in (("about 5 % slower", SLOWER), ("the same", SAME), ("the same, copies beside it", SAME)):
                if "beside" in about:
                    command = [sys.executable, "-c", BESIDE, str(places.build_dir())]
                    beside = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                    beside.stdout.readline()
                counts = {name: collections.Counter() for name in NAMES}
                for number in range(tries):
                    found, ratios = trial.findings(added)
                    print(f"{about}, {number + 1}: {', '.join(found)}; {', '.join(ratios)}", flush=True)
                    for name, finding in zip(NAMES, found, strict=False):
                        counts[name][finding] += 1
                for name, count in counts.items():
                    moved = count["REGRESSED"] + count["IMPROVED"]
                    wrong += count["REGRESSED"] * 20 < 17 * tries if added == SLOWER else moved > 0
                    print(f"== {about}: {name}: {dict(count)}", flush=True)
        finally:
            if beside is not None:
                beside.kill()
                beside.wait()
    print(f"{watch.late} late repetitions; {time.monotonic() - began:.0f} s; {'WRONG' if wrong else 'as it should be'}")
    device.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
