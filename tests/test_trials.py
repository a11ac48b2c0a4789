"""The kernel check's harness, on a device made of one bytearray whose kernels are Python functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from touchgate.checks import trials
from touchgate.checks.cases import Bound, Case, Launch, Oracle, OracleFault, given, scratch, wanted
from touchgate.checks.placement import ZONE, Image, Layout, Placement
from touchgate.devices import LaunchFault

N, ROWS = 37, 3


@dataclass(frozen=True)
class Address:
    position: int

    def offset(self, size: int) -> Address:
        return Address(self.position + size)


@dataclass
class Block:
    memory: np.ndarray
    start: int
    size: int
    freed: list[int]

    @property
    def pointer(self) -> Address:
        return Address(self.start)

    def write(self, data: np.ndarray) -> None:
        raw = data.view(np.uint8).ravel()
        self.memory[self.start : self.start + raw.size] = raw

    def read(self) -> np.ndarray:
        return self.memory[self.start : self.start + self.size].copy()

    def free(self) -> None:
        self.freed.append(self.start)


@dataclass
class Device:
    """`kernel(memory, arguments)` does the work. Every launch is kept in `launches`."""

    function: Callable
    name: str = "fake"
    facts: dict = field(default_factory=dict)
    memory: np.ndarray = field(default_factory=lambda: np.zeros(1 << 22, dtype=np.uint8))
    top: int = 0
    freed: list[int] = field(default_factory=list)
    launches: list = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    seed: int = 99

    def buffer(self, size: int) -> Block:
        start, self.top = self.top, self.top + -(-size // 256) * 256
        return Block(self.memory, start, size, self.freed)

    def kernel(self, _: str) -> Device:
        return self

    def launch(self, grid, block, arguments, shared=0) -> None:
        self.launches.append((grid, block, arguments, shared))
        self.orders.append(self.seed)
        self.function(self.memory.view(np.float32), arguments)


def cases():
    for name in ("a", "b"):
        yield Case(name, "float32", {"n": N}, small=name == "a")


def arrays(case, random):
    yield given("x", "float32", random.uniform(1, 2, (ROWS, case["n"])))
    yield wanted("y", "float32", (ROWS, case["n"]))
    yield scratch("s", "float32", (4,))


def launch(_, placed, threads):
    x, y, s = (placed[name] for name in ("x", "y", "s"))
    yield Launch("double", (1, 1, 1), (threads, 1, 1), [x.pointer, y.pointer, s.pointer, x.stride, y.stride, threads])


def oracle(_, inputs):
    return {"y": inputs["x"].astype(np.float64) * 2}


def bound(*_):
    return {"y": Bound(None, "doubling is exact")}


ORACLE = Oracle(cases, arrays, launch, oracle, bound, blocks=(64, 32))


def double(memory, arguments, *, rows=ROWS, factor=2.0, columns=N):
    x, y, s, x_stride, y_stride, _ = arguments
    memory[s.position // 4] = 1.0
    for row in range(rows):
        source = x.position // 4 + row * x_stride
        target = y.position // 4 + row * y_stride
        memory[target : target + columns] = memory[source : source + columns] * np.float32(factor)


def run(function, chosen=ORACLE, *, small=False):
    device = Device(function)
    lines: list[str] = []
    tally = trials.run(chosen, trials.chosen_cases(chosen, "emulated", small=small), device, device, log=lines.append)
    return tally, device, lines


def test_a_right_kernel_passes_in_every_way():
    tally, device, lines = run(double)
    assert (tally.cases, tally.trials, tally.faults) == (2, 12, [])
    assert tally.worst == trials.Worst(0.0, 0.0, "a: y", (0, 0))
    assert tally.reasons == {"float32": ["doubling is exact"]}
    assert lines == ["a", "b"]
    assert device.orders == [0, 1, 2, 3, 4, 5] * 2
    assert sorted(device.freed) == sorted(set(device.freed))
    assert len(device.freed) == 3 * 12


def test_the_ways_differ_in_alignment_strides_blocks_and_values():
    _, device, _ = run(double)
    seen = [
        (arguments[0].position % 16, arguments[1].position % 16, arguments[3], arguments[4], arguments[5])
        for _, _, arguments, _ in device.launches
    ]
    first_case = [
        (0, 0, 37, 37, 64),
        (0, 0, 40, 44, 64),
        (4, 4, 37, 37, 64),
        (4, 0, 40, 42, 64),
        (0, 0, 40, 44, 32),
        (8, 8, 40, 42, 32),
    ]
    second_case = [*first_case[:3], (0, 4, 40, 42, 64), first_case[4], (12, 12, 40, 42, 32)]
    assert seen == first_case + second_case


@pytest.mark.parametrize("count", [2, 3, 4])
def test_each_array_alone_off_alignment_meets_both_blocks_within_twelve_cases(count):
    alone = [trial for number in range(12) for trial in trials.trials(number) if trial.layout.only is not None]
    assert {(trial.layout.only % count, trial.block) for trial in alone} == {(i, b) for i in range(count) for b in (0, 1)}


@pytest.mark.parametrize("size", [2, 4])
def test_all_arrays_together_meet_every_misalignment_within_six_cases(size):
    every = [trial.layout for number in range(6) for trial in trials.trials(number)]
    assert {layout.shift * size % 16 for layout in every if layout.only is None} == set(range(0, 16, size))


@pytest.mark.parametrize("used", [3, 4])
def test_a_stride_of_another_array_is_caught(used):
    def mixed(memory, arguments):
        x, y, s, *_, threads = arguments
        double(memory, [x, y, s, arguments[used], arguments[used], threads])

    assert kind(mixed)[0] in ("mismatch", "damage")


def kind(function, chosen=ORACLE):
    tally, _, _ = run(function, chosen)
    return [fault.kind for fault in tally.faults]


def test_what_it_catches():
    assert kind(lambda *_: None) == ["unwritten"] * 5
    assert kind(lambda memory, arguments: double(memory, arguments, factor=0)) == ["mismatch"] * 5
    assert kind(lambda memory, arguments: double(memory, arguments, factor=1)) == ["mismatch"] * 5
    assert kind(lambda memory, arguments: double(memory, arguments, rows=ROWS - 1)) == ["unwritten"] * 5
    assert kind(lambda memory, arguments: double(memory, arguments, columns=N - 1)) == ["unwritten"] * 5
    assert kind(lambda memory, arguments: double(memory, arguments, columns=N + 1)) == ["damage"] * 5


def test_a_kernel_that_forgets_the_stride_is_caught_where_rows_lie_apart():
    def packed(memory, arguments):
        x, y, s, _, _, threads = arguments
        double(memory, [x, y, s, N, N, threads])

    assert kind(packed) == ["damage"] * 5
    tally, _, _ = run(packed)
    assert tally.faults[0].lines[0].startswith("a: other values, rows apart")
    assert tally.faults[0].lines[1].startswith("changed what it may not: in the gap behind row 0 of y, 0 elements from")


def test_an_input_that_is_changed_is_caught():
    def careless(memory, arguments):
        double(memory, arguments)
        memory[arguments[0].position // 4 + 1] += 1

    tally, _, _ = run(careless)
    assert tally.faults[0].kind == "damage"
    assert tally.faults[0].lines[1].startswith("changed what it may not: x[0, 1]: was 0x3f")


def test_a_constant_output_is_caught_by_the_second_seed():
    stored = {}

    def replay(memory, arguments):
        double(memory, arguments)
        _, y, _, _, stride, _ = arguments
        target = y.position // 4
        for row in range(ROWS):
            line = memory[target + row * stride : target + row * stride + N]
            line[:] = stored.setdefault(row, line.copy())

    assert "mismatch" in kind(replay)


def test_the_lines_of_a_mismatch():
    tally, _, lines = run(lambda memory, arguments: double(memory, arguments, factor=2.0000002))
    fault = tally.faults[0]
    assert fault.lines[0] == "a: aligned, seed 1, blocks of 64 threads, thread order 0"
    assert fault.lines[1].startswith("y[0, 0]: got ")
    assert fault.lines[1].endswith("2 ulp apart, bit for bit")
    assert fault.lines[2] == "bound: doubling is exact"
    assert fault.lines[3].startswith("111 of 111 elements differ; worst error 4.77e-07 at [0, 0], bound 0")
    assert lines[:2] == ["a", "  " + "\n  ".join(fault.lines)]


def test_the_line_of_an_element_never_written():
    tally, _, _ = run(lambda memory, arguments: double(memory, arguments, columns=N - 1))
    assert tally.faults[0].lines[1].startswith("y[0, 36]: never written (still 0x7fe5a5a5), expected ")
    assert "3 of 111 elements differ, 3 of them never written" in tally.faults[0].lines[3]


def test_a_fault_of_the_launch_ends_the_check():
    def crash(*_):
        raise LaunchFault("an illegal address")

    tally, _, _ = run(crash)
    assert [fault.kind for fault in tally.faults] == ["launch"]
    assert tally.faults[0].lines[1] == "double: an illegal address"


def test_only_the_small_cases():
    tally, _, _ = run(double, small=True)
    assert tally.cases == 1


def replaced(**changes):
    return Oracle(**{**{name: getattr(ORACLE, name) for name in ORACLE.__dataclass_fields__}, **changes})


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"cases": list}, OracleFault, "it has no case for the place 'emulated'; nothing ran"),
        ({"cases": lambda: [Case("a", "float32"), Case("a", "float32")]}, OracleFault, "two cases are named 'a'"),
        ({"cases": lambda: [Case("a", "float8")]}, OracleFault, "dtype 'float8' is none of float32"),
        ({"oracle": lambda *_: {}}, OracleFault, r"case 'a': oracle gives \[\], the outputs are \['y'\]"),
        (
            {"bound": lambda *_: {"z": Bound(None, "")}},
            OracleFault,
            r"case 'a': bound gives \['z'\]",
        ),
        ({"oracle": lambda *_: {"y": np.zeros(3)}}, OracleFault, "case 'a': y: oracle gives shape"),
        (
            {"bound": lambda *_: {"y": Bound(10.0, "loose")}},
            OracleFault,
            r"its bounds would let zeros pass as y \(float32\) in every float32 case",
        ),
        ({"arrays": lambda *_: [scratch("s", "float32", (1,))]}, OracleFault, "case 'a' has no output"),
    ],
)
def test_unusable_oracles(changes, error, message):
    chosen = replaced(**changes)
    if "arrays" in changes:
        chosen = replaced(**changes, oracle=lambda *_: {}, bound=lambda *_: {})
    with pytest.raises(error, match=message):
        run(double, chosen)


def test_zeros_are_judged_for_each_output_and_element_type():
    """A second output that is always zero, and one type's cases that prove nothing, hide behind nobody."""

    def two(case, random):
        yield from arrays(case, random)
        yield wanted("z", "int32", (2,))

    def answers(case, inputs):
        return {**oracle(case, inputs), "z": np.zeros(2, dtype=np.int64)}

    def bounds(*_):
        return {**bound(), "z": Bound(None, "zero")}

    def also_zeros(memory, arguments):
        double(memory, arguments[:-1])
        memory[arguments[-1].position // 4 :][:2] = 0

    def launches(case, placed, threads):
        (one,) = launch(case, placed, threads)
        yield Launch(one.kernel, one.grid, one.block, [*one.arguments, placed["z"].pointer])

    chosen = replaced(arrays=two, oracle=answers, bound=bounds, launch=launches)
    with pytest.raises(OracleFault, match=r"let zeros pass as z \(int32\) in every float32 case"):
        run(lambda memory, arguments: also_zeros(memory, [*arguments[:6], arguments[6]]), chosen)


def test_cases_without_a_single_element_show_nothing():
    def empty(*_):
        return [given("x", "float32", np.zeros((ROWS, 0))), wanted("y", "float32", (ROWS, 0)), scratch("s", "float32", (4,))]

    with pytest.raises(OracleFault, match=r"^no element of y \(float32\) was compared in any float32 case$"):
        run(lambda *_: None, replaced(arrays=empty))


def test_a_fault_is_reported_although_nothing_was_compared():
    """Damage alone, in fewer trials than end the check: the kernel is wrong, whatever the bounds are."""

    def once(memory, arguments):
        double(memory, arguments, columns=N + (arguments[4] == N))

    tally, _, _ = run(once, replaced(bound=lambda *_: {"y": Bound(10.0, "loose")}))
    assert {fault.kind for fault in tally.faults} == {"damage"}


@pytest.mark.parametrize("gap", ["none", "odd", "even"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("columns", [0, 1, 7, 8])
def test_every_byte_outside_the_elements_is_guarded(gap, dtype, columns):
    """Flip each element of the buffer in turn: damage exactly where no element of the output lies."""
    array = wanted("y", dtype, (2, columns))
    size = array.shape and {"float32": 4, "float16": 2}[dtype]
    image = Image(array, 1, Layout(gap=gap).stride(columns, size, 1), ZONE)
    inside = np.zeros(image.before.size // size, dtype=bool)
    for row in range(2):
        start = ZONE // size + 1 + row * image.stride
        inside[start : start + columns] = True
    near = range(ZONE // size - 3, len(inside) - ZONE // size + 3)
    for i in [0, *near, len(inside) - 1]:
        after = image.before.copy()
        after[i * size] ^= 0xFF
        assert (image.damage(after) is None) == bool(inside[i])


def test_even_gaps_keep_rows_on_16_bytes_and_are_never_empty():
    for size in (2, 4):
        for columns in range(40):
            stride = Layout(gap="even").stride(columns, size, 0)
            assert stride > columns
            assert stride * size % 16 == 0


class Fresh(Device):
    """Memory that was never written holds 7s; what is written, and what is read back, is kept."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function, memory=np.full(1 << 22, 7, dtype=np.uint8))
        self.written: list[int] = []
        self.read: list[int] = []

    def buffer(self, size: int) -> Block:
        made = super().buffer(size)
        write, read = made.write, made.read
        made.write = lambda data: (self.written.append(size), write(data))
        made.read = lambda: (self.read.append(size), read())[1]
        return made


def test_fresh_outputs_and_scratch_are_not_written_before_and_scratch_is_not_read():
    def once(memory, arguments):
        y = arguments[1].position // 4
        assert set(memory[y : y + 4 * ROWS * N].view(np.uint8)) == {7}
        double(memory, arguments)

    device = Fresh(once)
    ways = (trials.Trial("fresh", layout=Layout(fresh=True)), trials.Trial("other block", block=1, layout=Layout(fresh=True)))
    chosen = trials.chosen_cases(ORACLE, "emulated", small=True)
    tally = trials.run(ORACLE, chosen, device, device, log=lambda _: None, zone=0, ways=lambda _: ways)
    size = ROWS * N * 4
    assert (tally.faults, tally.cases, tally.trials, tally.launches) == ([], 1, 2, 2)
    assert (device.written, device.read) == ([size] * 2, [size, size] * 2)


def test_a_fresh_output_that_the_kernel_leaves_out_is_a_mismatch_and_a_changed_input_damage():
    chosen = trials.chosen_cases(ORACLE, "emulated", small=True)
    ways = (trials.Trial("fresh", layout=Layout(fresh=True)),)

    def spoil(memory, arguments):
        double(memory, arguments)
        memory[arguments[0].position // 4] = 3.0

    for function, kind_of in ((lambda memory, arguments: double(memory, arguments, rows=2), "mismatch"), (spoil, "damage")):
        device = Fresh(function)
        tally = trials.run(ORACLE, chosen, device, device, log=lambda _: None, zone=0, ways=lambda _: ways)
        assert [fault.kind for fault in tally.faults] == [kind_of]


def test_chosen_cases_need_not_prove_what_all_together_must():
    loose = replaced(bound=lambda *_: {"y": Bound(100.0, "wide")})
    device = Device(double)
    chosen = trials.chosen_cases(loose, "emulated", small=True)
    with pytest.raises(OracleFault, match="would let zeros pass"):
        trials.run(loose, chosen, device, device, log=lambda _: None)
    assert trials.run(loose, chosen, device, device, log=lambda _: None, proven=False).faults == []


def test_memory_is_given_back_when_writing_fails():
    device = Device(double)

    def refuse(size):
        if device.top:
            raise MemoryError
        return Device.buffer(device, size)

    device.buffer = refuse
    with pytest.raises(MemoryError):
        Placement(device, arrays(next(cases()), np.random.default_rng(0)), Layout())
    assert device.freed == [0]
