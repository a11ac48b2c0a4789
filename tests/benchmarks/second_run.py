"""How long `doit` takes when everything is reused, beside `doit list` in an empty folder, in one run.

    python tests/benchmarks/second_run.py [PAIRS]

Clones this checkout's HEAD, runs `doit` in the clone until all is known, then times both whole processes in turn. Prints the
medians in milliseconds, and the ratio pair by pair; a person judges.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOIT = [sys.executable, "-m", "doit"]


def timed(command: list[str], folder: Path, environ: dict[str, str]) -> float:
    """Wall time of one whole process, milliseconds."""
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Prepare, time, print."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone, empty = folder / "clone", folder / "empty"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        empty.mkdir()
        (empty / "dodo.py").write_text("")
        environ = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        environ.pop("TOUCHGATE_RESULTS_DIR", None)
        print("first run, everything measured:", flush=True)
        print(f"  {timed(DOIT, clone, environ) / 1000:.1f} s")
        runs = [(timed(DOIT, clone, environ), timed([*DOIT, "list"], empty, environ)) for _ in range(pairs + 1)][
            1:
        ]  # the first pair warms the page cache
    second, listed = ([run[which] for run in runs] for which in (0, 1))
    ratios = sorted(ours / theirs for ours, theirs in runs)
    print(f"doit, everything reused:        {statistics.median(second):6.0f} ms [{min(second):.0f}-{max(second):.0f}]")
    print(f"doit list, empty folder:        {statistics.median(listed):6.0f} ms [{min(listed):.0f}-{max(listed):.0f}]")
    print(f"ratio, {pairs} pairs in turn:         {statistics.median(ratios):.2f} [{ratios[0]:.2f}-{ratios[-1]:.2f}]")


if __name__ == "__main__":
    main()
