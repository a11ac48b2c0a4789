"""The kernels' times on a GPU beside torch's and beside what the memory can do at the same bytes and mix.

    python tests/benchmarks/kernels.py [--only gemv] [--samples 5] [--repetitions 20] [--json FILE]

Needs PyCUDA, nvcc and touchgate; torch where there is one. Every shape: random data, the output compared with the oracle on
some rows, then samples of ours and torch's in turn, each the median of repetitions from a cold L2. A line a shape:
microseconds, TB/s, torch's time over ours (above 1: ours is faster), our share of the ceiling. Exit 1 for a wrong answer.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import statistics
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from touchgate import places
from touchgate.benchmarks import fills, traffic
from touchgate.checks.cases import load_file
from touchgate.checks.numerics import FORMATS
from touchgate.checks.timed import Filled, steps
from touchgate.devices import Unavailable, cuda
from touchgate.devices.timing import CudaStopwatch

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("binary", "gemv", "rmsnorm")


class OnDevice:
    """What torch takes for an array, without a copy: bits as integers."""

    def __init__(self, address, shape, size):
        # numpy's letters; the sign is of no account, torch has no unsigned of two bytes
        interface = {"shape": shape, "typestr": f"<i{size}", "data": (address, False), "version": 3}
        self.__cuda_array_interface__ = interface


def tensor(torch, filled, name):
    """An array of a benchmark as a tensor, without a copy."""
    placed = filled.placed[name]
    raw = torch.as_tensor(OnDevice(placed.pointer.address, placed.shape, FORMATS[placed.dtype].size), device="cuda")
    return raw.view(getattr(torch, placed.dtype))


def torch_work(torch, family, filled):
    """The same by torch, into memory of its own."""
    case = filled.benchmark.case
    arrays = {span.name: tensor(torch, filled, span.name) for span in filled.benchmark.spans if span.role == "in"}
    if family == "gemv":
        y = torch.empty(case["m"], dtype=getattr(torch, case.dtype), device="cuda")
        return lambda: torch.mv(arrays["A"], arrays["x"], out=y)
    if family == "rmsnorm":
        norm, shape = torch.nn.functional.rms_norm, (case["n"],)
        return lambda: norm(arrays["x"], shape, arrays["w"], case["eps"])
    out = torch.empty_like(arrays["a"])
    return lambda: torch.add(arrays["a"], arrays["b"], out=out)


def in_turn(watch, works, samples, repetitions):
    """Medians of samples, one of each work a turn: name -> seconds."""
    taken = {name: [] for name in works}
    for turn in range(2 + samples):
        for name, work in works.items():
            seconds = statistics.median(watch.timed(work, repetitions))
            if turn >= 2:
                taken[name].append(seconds)
    return taken


def geometric(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else float("nan")


def torch_plain(torch, size):
    """Copy, add and sum of buffers of `size` bytes."""
    a, b, out = (torch.rand(size // 4, device="cuda") for _ in range(3))
    return {"copy": lambda: out.copy_(a), "stream": lambda: torch.add(a, b, out=out), "read": lambda: a.sum()}


def plain(watch, memory, torch):
    """Copy, read and add of 256 MiB and 1 GiB a buffer: ours at their best, torch's."""
    print("\nplain traffic: bytes a buffer            ours TB/s   torch TB/s")
    for label, size in (("256 MiB", 1 << 28), ("1 GiB", 1 << 30)):
        theirs = {}
        if torch is not None:
            taken = in_turn(watch, torch_plain(torch, size), 5, 10)
            theirs = {name: statistics.median(times) for name, times in taken.items()}
            torch.cuda.empty_cache()
        for mix in traffic.MIXES:
            ours = memory.ceiling(mix.reads * size, mix.writes * size)
            other = f"{mix.parts * size / theirs[mix.name] / 1e12:10.3f}" if theirs else f"{'-':>10}"
            print(f"{mix.name:8} {label:8} {'':22} {ours.rate / 1e12:10.3f} {other}   ({ours.shape})")


class Table:
    """The measured shapes, a line each as they come."""

    def __init__(self, device, watch, torch, options):
        self.device, self.watch, self.torch, self.options = device, watch, torch, options
        self.memory = traffic.Memory(device, watch)
        self.filler = device.module(fills.SOURCE)
        self.records = []

    def family(self, name):
        file = load_file(ROOT / "kernels" / name / f"{name}.py")
        head = f"{'':30} {'ours us':>9} {'TB/s':>6} {'torch us':>9} {'ratio':>6} {'ceiling us':>10} {'share':>6}  spread"
        print(f"\n{name}\n{head}")
        module = self.device.module(ROOT / "kernels" / name / f"{name}.cu")
        for bench in file.BENCHMARKS:
            with Filled(self.device, self.filler, bench) as filled:
                self.records.append(self.measured(name, module, file.ORACLE, filled))
            if self.torch is not None:
                self.torch.cuda.empty_cache()

    def measured(self, family, module, oracle, filled):
        bench = filled.benchmark
        works = {"ours": self.watch.prepared(steps(oracle, bench, filled.placed, module))}
        if self.torch is not None:
            works["torch"] = torch_work(self.torch, family, filled)
        taken = in_turn(self.watch, works, self.options.samples, self.options.repetitions)
        found = filled.wrong(oracle)
        wrong = "; ".join(found.lines) if found else ""
        total = bench.read + bench.written
        ceiling = self.memory.ceiling(bench.read, bench.written)
        ours = statistics.median(taken["ours"])
        ratio = statistics.median(taken["torch"]) / ours if "torch" in taken else None
        share = total / ours / ceiling.rate
        spread = (max(taken["ours"]) - min(taken["ours"])) / ours
        theirs = f"{ratio * ours * 1e6:9.2f} {ratio:6.3f}" if ratio else f"{'-':>9} {'-':>6}"
        print(
            f"{bench.name:30} {ours * 1e6:9.2f} {total / ours / 1e12:6.3f} {theirs} "
            f"{total / ceiling.rate * 1e6:10.2f} {share:6.1%}  {spread:5.1%} {wrong and 'WRONG: ' + wrong}",
            flush=True,
        )
        return {
            "family": family,
            "name": bench.name,
            "bytes": total,
            "ours": taken["ours"],
            "torch": taken.get("torch"),
            "ceiling": ceiling._asdict(),
            "share": share,
            "ratio": ratio,
            "wrong": wrong,
        }

    def means(self):
        print("\ngeometric means: torch's time over ours, and our share of the ceiling")
        for family in dict.fromkeys(record["family"] for record in self.records):
            of = [record for record in self.records if record["family"] == family]
            ratios = [record["ratio"] for record in of if record["ratio"]]
            shares = [record["share"] for record in of]
            least = f"least {min(ratios):6.3f}" if ratios else ""
            print(f"{family:10} {geometric(ratios):6.3f} {least}   share {geometric(shares):6.1%} least {min(shares):6.1%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=FAMILIES, action="append")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    try:
        device = cuda.open_device(places.build_dir())
    except Unavailable as missing:
        sys.exit(f"unmeasured: {missing}")
    watch = CudaStopwatch(device, traffic.SOURCE)
    torch = None
    if not options.no_torch and importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        torch.cuda.init()
    facts = {**device.facts, "l2": watch.l2, "bandwidth": watch.bandwidth, "torch": torch and torch.__version__}
    print(datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), json.dumps(facts))
    print(f"{options.samples} samples of {options.repetitions} repetitions, cold L2, medians; {watch.conditions()}")
    table = Table(device, watch, torch, options)
    for family in options.only or FAMILIES:
        table.family(family)
    plain(watch, table.memory, torch)
    table.means()
    print(f"late repetitions, left out: {watch.late}; {watch.conditions()}; {time.monotonic() - began:.0f} s in all")
    if options.json:
        options.json.write_text(json.dumps({"facts": facts, "records": table.records}, indent=1, default=str))
    device.close()
    return 1 if any(record["wrong"] for record in table.records) else 0


if __name__ == "__main__":
    sys.exit(main())
