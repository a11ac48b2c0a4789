"""From an oracle file's BENCHMARKS to an outcome: measure each, compare with the base's version, confirm what moved.

First every benchmark of head alone, with its answer; then base and head in turn. So what the base's version does wrong, up
to losing the GPU's context, takes nothing from what is known of head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from touchgate.benchmarks import busy, fills, verdicts
from touchgate.benchmarks.sampling import Rule, Sampler, Throttled, clocks
from touchgate.benchmarks.traffic import SOURCE as TRAFFIC
from touchgate.benchmarks.traffic import Memory
from touchgate.benchmarks.verdicts import Block, Finding, Judgement
from touchgate.checks.against import NoBase, write_out
from touchgate.checks.benchmark import OPTIONS
from touchgate.checks.cases import Benchmark, Oracle, OracleFault, load_file, oracle_of
from touchgate.checks.measured import Key, contended, outcome_of, spoiled
from touchgate.checks.measuring import DETAIL, first_error
from touchgate.checks.oracles import source_of
from touchgate.checks.problems import ask, blamed
from touchgate.checks.timed import Filled, NoKernel, benchmarks_of, differing_interface, steps
from touchgate.devices import BuildFault, LaunchFault
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.benchmarks.traffic import Ceiling
    from touchgate.checks import CheckSpec, Context
    from touchgate.devices import Device, Module
    from touchgate.devices.stopwatch import Stopwatch


SPACER = 32 << 20
"""Bytes that are taken before a confirmation, so that its arrays lie elsewhere."""


class Yardstick(Protocol):
    """What the memory can do: `touchgate.benchmarks.traffic.Memory`."""

    def ceiling(self, read: int, written: int) -> Ceiling:
        """The best at these bytes. Raises `LaunchFault` where they do not fit."""

    def probe(self) -> float:
        """Seconds of a short copy, now."""


@dataclass(frozen=True)
class Station:
    """What measures: the device, its stopwatch, what its memory can do, and fill.cu on it."""

    device: Device
    watch: Stopwatch
    memory: Yardstick
    filler: Module
    rule: Rule = field(default_factory=Rule)


@dataclass(frozen=True)
class Version:
    """Head's or the base's kernels: the oracle file, its benchmarks by name, and the .cu file, loaded anew each time."""

    oracle: Oracle
    benchmarks: Mapping[str, Benchmark]
    load: Callable[[], Module]


def run(spec: CheckSpec, context: Context) -> Outcome:
    """Measure on the GPU of the context."""
    from touchgate.devices.timing import CudaStopwatch  # noqa: PLC0415  what it measures with is chosen here alone

    device: Any = context.device()
    watch = CudaStopwatch(device, TRAFFIC)
    numbers = {name: int(str(spec.options[name])) for name in OPTIONS if name in spec.options}
    station = Station(device, watch, Memory(device, watch), device.module(fills.SOURCE), Rule()._replace(**numbers))
    outcome = measure(context.root, spec.target, station, spec.options, context.temporary / "base")
    facts = {"l2": watch.l2, "bandwidth": watch.bandwidth, "late": watch.late, "state": watch.conditions()._asdict()}
    return replace(outcome, facts={**outcome.facts, **facts})


def version(root: Path, target: str, device: Device) -> Version:
    """Load an oracle file and what it times. Raises `OracleFault`."""
    file = ask("", load_file, root / target)
    listed = benchmarks_of(file)
    source = root / source_of(target)
    return Version(oracle_of(file), {one.name: one for one in listed}, lambda: device.module(source))


def measure(
    root: Path, target: str, station: Station, options: Mapping[str, Any], folder: Path, random: Random | None = None
) -> Outcome:
    """Every benchmark of an oracle file (`target`, relative to `root`). What it prints is the log.

    options: the check's, with the base's version where there is one; it is written out to `folder`.
    """
    device, source = station.device.name, source_of(target)
    try:
        head = version(root, target, station.device)
        bench = _Bench(station, head, random or Random())  # noqa: S311  the order of blocks is no secret
        for one in head.benchmarks.values():
            bench.alone(one)
        bench.compare(lambda: _base(root, target, station.device, options, folder))
    except OracleFault as fault:
        return Outcome(Verdict.ERROR, device=device, reason=f"{blamed(fault.__cause__, target, root)}: {fault}")
    except (BuildFault, NoKernel, LaunchFault) as fault:
        text = str(fault).rstrip()
        print(text, flush=True)
        kinds = ((BuildFault, "does not compile"), (NoKernel, "lacks a kernel"), (LaunchFault, "fails"))
        what = next(words for kind, words in kinds if isinstance(fault, kind))
        return Outcome(
            Verdict.FAILED,
            device=device,
            reason=f"{source} {what}: {first_error(text)}",
            detail=tuple(text.splitlines()[:DETAIL]),
        )
    print(f"base against head: {bench.no_base or 'compared'}")
    for key in bench.keys:
        print(key.line(), flush=True)
    facts = {"against_base": bench.no_base or "compared", "rule": station.rule._asdict()}
    return outcome_of(bench.keys, device, facts)


def _base(root: Path, target: str, device: Device, options: Mapping[str, Any], folder: Path) -> Version:
    """The base's version, written out. Raises `NoBase`."""
    write_out(options, root, target, folder)
    try:
        return version(folder, target, device)
    except OracleFault as fault:
        raise NoBase(f"the base's version can't be loaded: {fault}") from fault


class _Bench:
    """What all benchmarks of a check share."""

    def __init__(self, station: Station, head: Version, random: Random) -> None:
        """Compile and load head's kernels. Raises `BuildFault`."""
        self.station = station
        self.head = head
        self.base: Version | None = None
        self.no_base = ""
        self.keys: list[Key] = []
        self._random = random
        self._modules = {"head": head.load()}

    # -- head alone -------------------------------------------------------------------------------------------------

    def alone(self, benchmark: Benchmark) -> None:
        """One benchmark: its ceiling, samples, answer. Raises `OracleFault`, `NoKernel`, `LaunchFault`."""
        key = Key(benchmark)
        self.keys.append(key)
        try:
            with self._watched(key):
                key.ceiling = self.station.memory.ceiling(benchmark.read, benchmark.written)
                with Filled(self.station.device, self.station.filler, benchmark) as filled:
                    self._samples(key, filled)
        except LaunchFault as fault:
            if "out of memory" not in str(fault).lower():
                raise
            key.unmeasured = "it does not fit into the GPU's memory"

    @contextmanager
    def _watched(self, key: Key) -> Iterator[None]:
        """A probe before and after, who was at work meanwhile, and no error for a GPU that throttles."""
        before = busy.snapshot()
        key.probes.append(self.station.memory.probe())
        try:
            yield
        except Throttled as fault:
            key.unmeasured = str(fault)
        key.probes.append(self.station.memory.probe())
        key.strangers = tuple(dict.fromkeys((*key.strangers, *self.station.watch.strangers())))
        key.busy = tuple(dict.fromkeys((*key.busy, *busy.busiest(before, busy.snapshot(), busy.own()))))

    def _samples(self, key: Key, filled: Filled) -> None:
        watch, sampler = self.station.watch, Sampler(self.station.watch, self.station.rule)
        work = watch.prepared(steps(self.head.oracle, key.benchmark, filled.placed, self._modules["head"]))
        try:
            key.samples = sampler.samples(work)
        finally:
            key.thrown += sum(not sample.kept for sample in sampler.taken)
            key.clocks = clocks(sampler.taken)
        found = filled.wrong(self.head.oracle)
        key.wrong = "; ".join(found.lines) if found else ""

    # -- base against head ------------------------------------------------------------------------------------------

    def compare(self, base: Callable[[], Version]) -> None:
        """Judge every key; against the base's version where there is one. Raises `OracleFault`."""
        try:
            self.base = base()
            self._modules["base"] = self.base.load()
            for key in self.keys:
                if not key.wrong and not key.unmeasured:
                    with self._watched(key), Filled(self.station.device, self.station.filler, key.benchmark) as filled:
                        key.blocks = self._blocks(key, filled)
            self._judge()
        except NoBase as fault:
            self._alone_after_all(str(fault))
        except BuildFault as fault:
            self._alone_after_all(f"the base's version does not compile: {first_error(str(fault))}")
        except LaunchFault as fault:
            # Head's launches went well before; and the GPU may be lost by now.
            self._alone_after_all(f"the base's version fails: {first_error(str(fault))}")

    def _alone_after_all(self, why: str) -> None:
        self.no_base = why
        for key in self.keys:
            key.blocks = []
        self._judge()

    def _blocks(self, key: Key, filled: Filled) -> list[Block]:
        """Base and head in turn, on the same memory; none where the base has nothing to compare with."""
        if self.base is None:
            return []
        other = self.base.benchmarks.get(key.benchmark.name)
        differing = "the base does not have it" if other is None else differing_interface(key.benchmark, other)
        if other is None or differing:
            key.note = f"not compared: {differing}"
            return []
        watch = self.station.watch
        head = watch.prepared(steps(self.head.oracle, key.benchmark, filled.placed, self._modules["head"]))
        try:
            base = watch.prepared(steps(self.base.oracle, other, filled.beside(other), self._modules["base"]))
        except (OracleFault, NoKernel) as fault:
            key.note = f"not compared: the base's version can't be launched: {fault}"
            return []
        watch.timed(base, 1)
        if filled.wrong(self.head.oracle):
            key.note = "not compared: the base's answer is wrong"
            return []
        sampler = Sampler(watch, self.station.rule)
        try:
            return sampler.blocks(base, head, self._random)
        finally:
            key.thrown += sum(not sample.kept for sample in sampler.taken)

    def _judge(self) -> None:
        """Judge all keys together, and measure anew what moved."""
        watch, usual = self.station.watch, self._usual()
        for key in self.keys:
            key.judgement = spoiled(key, usual, watch.bandwidth, watch.l2)
        compared = {key.benchmark.name: key.blocks for key in self.keys if key.blocks and key.judgement is None}
        first = verdicts.against_base(compared)
        moved = [name for name, found in first.items() if verdicts.needs_confirmation(found)]
        second = self._confirmation(moved) if moved else {}
        for key in self.keys:
            name = key.benchmark.name
            if name in first:
                key.judgement = verdicts.confirmed(first[name], second.get(name))

    def _usual(self) -> float:
        """The probe at its best in this lease, seconds."""
        return min(seconds for key in self.keys for seconds in key.probes)

    def _confirmation(self, names: Sequence[str]) -> dict[str, Judgement]:
        """What moved, once more: both versions loaded anew, on memory taken anew."""
        if self.base is not None:
            # In the other order: where code and data lie is part of what is drawn anew.
            self._modules = {"base": self.base.load(), "head": self.head.load()}
        spacer = self.station.device.buffer(SPACER)
        said: dict[str, Judgement] = {}
        for key in self.keys:
            if key.benchmark.name not in names:
                continue
            with self._watched(key), Filled(self.station.device, self.station.filler, key.benchmark) as filled:
                key.again = self._blocks(key, filled)
            shared = contended(key, key.probes[-2:], self._usual())
            if shared is not None or not key.again:
                said[key.benchmark.name] = shared or Judgement(Finding.UNDECIDED, reason=key.note or key.unmeasured)
        spacer.free()
        measured = {key.benchmark.name: key.again for key in self.keys if key.again and key.benchmark.name not in said}
        return {**said, **verdicts.against_base(measured)}
