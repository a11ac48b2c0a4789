"""The kernels' times on a GPU beside torch's and beside what the memory can do at the same bytes and mix.

    python tests/benchmarks/kernels.py [--only gemv] [--samples 5] [--repetitions 20] [--json FILE]

Needs PyCUDA, nvcc and touchgate; torch where there is one. Every shape: random data, the output compared with the oracle on
some rows, then samples of ours and torch's in turn, each the median of repetitions from a cold L2. A line a shape:
microseconds, TB/s, torch's time over ours (above 1: ours is faster), our share of the ceiling. Exit 1 for a wrong answer.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import json
import math
import statistics
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from touchgate import places
from touchgate.benchmarks import fills, traffic
from touchgate.checks import numerics
from touchgate.checks.cases import Placed, load_file
from touchgate.checks.compare import compare
from touchgate.devices import cuda
from touchgate.devices.timing import CudaStopwatch

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("binary", "gemv", "rmsnorm")
MOST = 1 << 21
"""Elements of one array that are compared, about."""
POISON = 0xA5


class OnDevice:
    """What torch takes for an array, without a copy: bits as integers."""

    def __init__(self, address, shape, size):
        # numpy's letters; the sign is of no account, torch has no unsigned of two bytes
        interface = {"shape": shape, "typestr": f"<i{size}", "data": (address, False), "version": 3}
        self.__cuda_array_interface__ = interface


class Problem:
    """A benchmark's arrays on the device, filled."""

    def __init__(self, device, filler, benchmark):
        self.benchmark = benchmark
        self.buffers = {}
        self.placed = {}
        for span in benchmark.spans:
            count = math.prod(span.shape)
            buffer = device.buffer(count * numerics.FORMATS[span.dtype].size)
            self.buffers[span.name] = buffer
            self.placed[span.name] = Placed(buffer.pointer, span.shape, span.shape[-1], span.dtype)
            if span.role == "in":
                fills.fill(filler, buffer.pointer, count, span.dtype, fills.seed_of(span.name))
            else:
                device.driver.memset_d8(buffer.pointer.address, POISON, buffer.size)

    def tensor(self, torch, name):
        span = next(span for span in self.benchmark.spans if span.name == name)
        size = numerics.FORMATS[span.dtype].size
        raw = torch.as_tensor(OnDevice(self.buffers[name].pointer.address, span.shape, size), device="cuda")
        return raw.view(getattr(torch, span.dtype))

    def rows(self):
        """Which rows are compared: the first, the last, some between."""
        total = self.benchmark.case[self.benchmark.rows]
        width = max(math.prod(span.shape[1:]) for span in self.benchmark.spans if span.along)
        some = np.random.default_rng(5).integers(0, total, max(min(MOST // width, 4096) - 2, 0))
        return np.unique(np.concatenate([[0, total - 1], some]))

    def wrong(self, oracle):
        """What is wrong with the outputs as they lie there, in words; empty where nothing is."""
        bench, rows = self.benchmark, self.rows()
        inputs, outputs = {}, {}
        for span in bench.spans:
            storage = numerics.FORMATS[span.dtype].storage
            if span.role == "in":
                width = math.prod(span.shape[1:])
                indices = np.arange(math.prod(span.shape)) if not span.along else rows[:, None] * width + np.arange(width)
                shape = (len(rows), *span.shape[1:]) if span.along else span.shape
                inputs[span.name] = fills.bits(indices, span.dtype, fills.seed_of(span.name)).view(storage).reshape(shape)
            elif span.role == "out":
                whole = self.buffers[span.name].read().view(storage).reshape(span.shape)
                outputs[span.name] = whole[rows] if span.along else whole
        case = dataclasses.replace(bench.case, parameters={**bench.case.parameters, bench.rows: len(rows)})
        answers = oracle.oracle(case, inputs)
        bounds = oracle.bound(case, inputs, answers)
        for span in bench.spans:
            if span.role != "out":
                continue
            found = compare(np.ascontiguousarray(outputs[span.name]), answers[span.name], span.dtype, bounds[span.name])
            if found.first is not None:
                return (
                    f"{span.name}: {found.differing} of {found.elements} differ, first at {found.first.index}: {found.first}"
                )
        return ""

    def free(self):
        for buffer in self.buffers.values():
            buffer.free()


def torch_work(torch, family, problem):
    """The same by torch, into memory of its own."""
    case = problem.benchmark.case
    arrays = {span.name: problem.tensor(torch, span.name) for span in problem.benchmark.spans if span.role == "in"}
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
        self.memory = traffic.Memory(device, watch, 3 << 30)
        self.filler = device.module(fills.SOURCE)
        self.records = []

    def family(self, name):
        file = load_file(ROOT / "kernels" / name / f"{name}.py")
        head = f"{'':30} {'ours us':>9} {'TB/s':>6} {'torch us':>9} {'ratio':>6} {'ceiling us':>10} {'share':>6}  spread"
        print(f"\n{name}\n{head}")
        module = self.device.module(ROOT / "kernels" / name / f"{name}.cu")
        for bench in file.BENCHMARKS:
            problem = Problem(self.device, self.filler, bench)
            self.records.append(self.measured(name, module, file.ORACLE, problem))
            problem.free()
            if self.torch is not None:
                self.torch.cuda.empty_cache()

    def measured(self, family, module, oracle, problem):
        bench = problem.benchmark
        launches = oracle.launch(bench.case, problem.placed, oracle.blocks[0])
        steps = [(module.kernel(one.kernel), one.grid, one.block, one.arguments, one.shared) for one in launches]
        works = {"ours": self.watch.prepared(steps)}
        if self.torch is not None:
            works["torch"] = torch_work(self.torch, family, problem)
        taken = in_turn(self.watch, works, self.options.samples, self.options.repetitions)
        wrong = problem.wrong(oracle)
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
    device = cuda.open_device(places.build_dir())
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
