"""Taking samples, with a stopwatch whose times and states are written down beforehand."""

from random import Random

import pytest

from touchgate.benchmarks import busy
from touchgate.benchmarks.sampling import Rule, Sampler, Throttled, clocks
from touchgate.devices.stopwatch import Conditions


class Watch:
    """Says the next time of each work's list; the states come one by one, the last for ever."""

    l2 = None
    bandwidth = None

    def __init__(self, states=None, **times):
        self.times = {name: iter(listed) for name, listed in times.items()}
        self.states = list(states or [Conditions()])
        self.order = []

    def timed(self, work, repetitions):
        self.order.append(work)
        return [next(self.times[work])] * repetitions

    def conditions(self):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


def test_warm_ups_do_not_count():
    watch = Watch(a=[9, 8, 1, 2, 3, 4, 5])
    sampler = Sampler(watch, Rule(repetitions=3))
    assert sampler.samples("a") == [1, 2, 3, 4, 5]
    assert [sample.repetitions for sample in sampler.taken] == [(one,) * 3 for one in (1, 2, 3, 4, 5)]


def test_a_sample_is_the_median_of_its_repetitions():
    class Spiky(Watch):
        def timed(self, work, repetitions):
            return [1.0, 1.0, 50.0, 1.1, 1.0][:repetitions]

    assert Sampler(Spiky(), Rule(repetitions=5)).sample("a") == 1.0


HOT = Conditions(sm_clock=900, throttled=("thermal slowdown (hardware)",))
COOL = Conditions(sm_clock=1980)


def test_a_throttled_sample_is_thrown_away_and_taken_again():
    """Hot after the second sample: it does not count, nor does the third, before which it was read."""
    watch = Watch([COOL, COOL, HOT, COOL, COOL], a=[1, 2, 3, 4, 5, 6, 7])
    sampler = Sampler(watch, Rule(warmups=0, samples=3))
    assert sampler.samples("a") == [1, 4, 5]
    assert [(sample.seconds, sample.kept) for sample in sampler.taken] == [
        (1, True),
        (2, False),
        (3, False),
        (4, True),
        (5, True),
    ]
    assert clocks(sampler.taken) == {"lowest": 900, "highest": 1980}


def test_a_gpu_that_goes_on_throttling_is_given_up():
    sampler = Sampler(Watch([HOT], a=iter(range(1, 100))), Rule(retakes=3))
    with pytest.raises(Throttled, match=r"throttles \(thermal slowdown \(hardware\)\): 4 samples were thrown away"):
        sampler.samples("a")
    assert len(sampler.taken) == 4


def test_clocks_that_nobody_tells():
    sampler = Sampler(Watch(a=[1] * 9), Rule())
    sampler.samples("a")
    assert clocks(sampler.taken) == {"lowest": None, "highest": None}


def test_base_and_head_in_turn():
    watch = Watch(base=iter(range(1000)), head=iter(range(1000)))
    found = Sampler(watch, Rule(warmups=1, blocks=10)).blocks("base", "head", Random(3))
    assert watch.order[:2] == ["base", "head"]
    orders = ["".join(name[0].upper() for name in watch.order[2 + 4 * n : 6 + 4 * n]) for n in range(10)]
    assert sorted(orders) == ["BHHB"] * 5 + ["HBBH"] * 5
    assert orders != sorted(orders)
    assert len(found) == 10
    # Each side's samples are its own, in their order.
    assert [seconds for block in found for seconds in block.base] == list(range(1, 21))
    assert [seconds for block in found for seconds in block.head] == list(range(1, 21))


def process(folder, pid, parent, name, ticks):
    (folder / str(pid)).mkdir(exist_ok=True)
    fields = ["S", str(parent), *["0"] * 9, str(ticks), "0", *["0"] * 5]
    (folder / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")


def test_who_was_busy(tmp_path, monkeypatch):
    monkeypatch.setattr(busy.os, "sysconf", lambda _: 100)
    clock = iter((0.0, 2.0))
    monkeypatch.setattr(busy.time, "monotonic", lambda: next(clock))
    for pid, name in ((10, "cc1plus"), (11, "idle"), (12, "python"), (14, "a (b) c")):
        process(tmp_path, pid, 1, name, 1000)
    before = busy.snapshot(tmp_path)
    process(tmp_path, 10, 1, "cc1plus", 1180)
    process(tmp_path, 11, 1, "idle", 1010)
    process(tmp_path, 12, 1, "python", 1200)
    process(tmp_path, 13, 1, "ptxas", 100)
    process(tmp_path, 14, 1, "a (b) c", 1200)
    (tmp_path / "self").mkdir()
    found = busy.busiest(before, busy.snapshot(tmp_path), frozenset({12}))
    assert found == ["a (b) c (pid 14, 1.0 cores)", "cc1plus (pid 10, 0.9 cores)", "ptxas (pid 13, 0.5 cores)"]


def test_without_proc_nobody_is_named(tmp_path):
    empty = busy.snapshot(tmp_path / "none")
    assert busy.busiest(empty, empty) == []


def test_own_are_this_process_and_those_above_it(tmp_path, monkeypatch):
    monkeypatch.setattr(busy.os, "getpid", lambda: 30)
    for pid, parent in ((30, 20), (20, 1), (1, 0), (40, 1)):
        process(tmp_path, pid, parent, "p", 0)
    assert busy.own(tmp_path) == {30, 20, 1}
    assert busy.own(tmp_path / "none") == {30}
