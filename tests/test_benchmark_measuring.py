"""The whole check with kernels that really run, emulated, and times that are written down: what is told apart, and how."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from touchgate.benchmarks import fills
from touchgate.benchmarks.sampling import Rule
from touchgate.benchmarks.traffic import Ceiling
from touchgate.checks import CheckSpec
from touchgate.checks.against import BASE, NoBase, files_of, with_base, write_out
from touchgate.checks.benchmarking import Station, measure
from touchgate.devices import LaunchFault, emulated
from touchgate.devices.stopwatch import Conditions
from touchgate.gate.git import Repository
from touchgate.outcome import Outcome, Verdict

CUDA = """
#include "../common/factor.cuh"
extern "C" __global__ void scale_float32(const float* x, float* y, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = FACTOR * x[i];
    }
}
"""

PYTHON = """
import numpy as np

from touchgate.checks.cases import Benchmark, Bound, Case, Launch, Oracle, Span, given, wanted


def cases():
    yield Case("n=7", "float32", {"n": 7})


def arrays(case, random):
    yield given("x", case.dtype, random.uniform(1, 8, case["n"]))
    yield wanted("y", case.dtype, (case["n"],))


def launch(case, placed, threads):
    arguments = [placed["x"].pointer, placed["y"].pointer, np.int64(case["n"])]
    yield Launch("scale_float32", (-(-case["n"] // threads), 1, 1), (threads, 1, 1), arguments)


def oracle(case, inputs):
    return {"y": np.float32(2) * inputs["x"]}


def bound(case, inputs, outputs):
    return {"y": Bound(None, "a power of two: exact")}


ORACLE = Oracle(cases, arrays, launch, oracle, bound)
BENCHMARKS = [
    Benchmark(
        Case(f"n={n}", "float32", {"n": n}),
        (Span("x", "float32", "in", (n,), along=True), Span("y", "float32", "out", (n,), along=True)),
        read=4 * n,
        written=4 * n,
        flop=n,
        rows="n",
    )
    for n in (1000, 5000)
]
"""

FILES = {
    "kernels/scale/scale.cu": CUDA,
    "kernels/scale/scale.py": PYTHON,
    "kernels/common/factor.cuh": "#define FACTOR 2.0f\n",
}
TARGET = "kernels/scale/scale.py"


@pytest.fixture(scope="module")
def build_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


class Modules:
    """An emulated device whose kernels know which file they are of."""

    def __init__(self, build_dir):
        self.real = emulated.open_device(build_dir)
        self.name = "a GPU"
        self.loaded = []
        self.room = math.inf

    def module(self, source):
        self.loaded.append(source)
        return Tagged(self.real.module(source), source)

    def buffer(self, size):
        if size > self.room:
            raise LaunchFault("cuMemAlloc failed: out of memory\n  in allocating")
        return self.real.buffer(size)


class Tagged:
    def __init__(self, module, source):
        self.real, self.source = module, source

    def kernel(self, name):
        kernel = self.real.kernel(name)
        kernel.source = self.source
        return kernel


@dataclass
class Watch:
    """Runs the work once and says what `seconds(side, elements)` does, with a little noise of a fixed pattern."""

    seconds: object
    states: list = field(default_factory=lambda: [Conditions(sm_clock=1980)])
    others: tuple = ()
    noise: float = 0.002
    l2: int | None = None
    bandwidth: float | None = None
    turn: int = 0
    sides: list = field(default_factory=list)
    fail_on: str = ""

    def prepared(self, steps):
        return list(steps)

    def timed(self, work, repetitions):
        side = "base" if "base" in work[0][0].source.parts else "head"
        if side == self.fail_on:
            raise LaunchFault("cuCtxSynchronize failed: an illegal memory access")
        for kernel, grid, block, arguments, shared in work:
            kernel.launch(grid, block, arguments, shared)
        self.sides.append(side)
        self.turn += 1
        elements = int(work[0][3][-1])
        wobble = math.exp(self.noise * math.sin(12.9898 * self.turn))
        return [self.seconds(side, elements) * wobble] * repetitions

    def conditions(self):
        return self.states[0]

    def strangers(self):
        return self.others


@dataclass
class Memory:
    """Probes by a list, the last for ever; a ceiling of 1 GB/s."""

    probes: list = field(default_factory=lambda: [1.0])
    rate: float = 1e9

    def probe(self):
        return self.probes.pop(0) if len(self.probes) > 1 else self.probes[0]

    def ceiling(self, read, written):
        return Ceiling("copy", read + written, (read + written) / self.rate, "some shape")


class Here:
    """A repository with the kernel, its base committed, and one measurement of its working tree."""

    def __init__(self, root: Path, build_dir: Path) -> None:
        self.root = root
        self.device = Modules(build_dir)
        self.memory = Memory()
        self.rule = Rule(repetitions=1, blocks=8)
        self.write(FILES)
        self.git("init", "-q")
        self.base = self.commit()

    def git(self, *words: str) -> str:
        command = ["git", "-c", "user.name=n", "-c", "user.email=e", *words]
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert text.count(old) == 1
        self.write({name: text.replace(old, new)})

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", "m", "--allow-empty")
        return self.git("rev-parse", "HEAD")

    def spec(self, base: str | None = "", why: str = "") -> CheckSpec:
        spec = CheckSpec("s:benchmark", "s", "benchmark", "", TARGET, {}, ("gpu",), ("performance",), 60)
        with Repository(self.root) as repo:
            return with_base(spec, repo, self.base if base == "" else base, why)

    def measure(self, watch: Watch, **base) -> Outcome:
        options = json.loads(json.dumps(dict(self.spec(**base).options)))
        station = Station(self.device, watch, self.memory, self.device.module(fills.SOURCE), self.rule)
        outcome = measure(self.root, TARGET, station, options, self.root.parent / "out" / "base", Random(1))
        assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome
        return outcome


@pytest.fixture
def here(tmp_path, build_dir):
    return Here(tmp_path / "repository", build_dir)


def steady(side, elements):
    return elements * 1e-8


def findings(outcome):
    return [one["finding"] for one in outcome.facts["benchmarks"]]


def test_nothing_to_compare_with(here):
    """Two benchmarks of head, nothing said of a change: 2 x 5 samples, shares of the ceiling, passed."""
    outcome = here.measure(Watch(steady), base=None, why="no merge base")
    assert (outcome.verdict, outcome.reason, outcome.detail) == (Verdict.PASSED, "", ())
    assert (outcome.cases, len(outcome.samples), outcome.device) == (2, 10, "a GPU")
    assert outcome.facts["against_base"] == "no merge base"
    one = outcome.facts["benchmarks"][0]
    assert (one["name"], one["bytes_read"], one["bytes_written"], one["flop"]) == ("n=1000", 4000, 4000, 1000)
    assert one["share"] == pytest.approx(0.8, rel=0.01)
    assert findings(outcome) == [None, None]


def test_the_same_sources_are_not_compared(here):
    outcome = here.measure(Watch(steady))
    assert outcome.verdict is Verdict.PASSED
    assert outcome.facts["against_base"] == f"{TARGET}, its kernel and all that they include are as in the base"


def test_a_change_that_costs_nothing(here):
    here.edit("kernels/common/factor.cuh", "2.0f", "(1.0f + 1.0f)")
    watch = Watch(steady)
    outcome = here.measure(watch)
    assert (outcome.verdict, findings(outcome)) == (Verdict.PASSED, ["UNCHANGED", "UNCHANGED"])
    assert outcome.facts["against_base"] == "compared"
    assert len(outcome.facts["benchmarks"][0]["blocks"]) == 8
    assert watch.sides.count("base") == 2 * (1 + 2 + 16)
    assert outcome.facts["benchmarks"][0]["confirmation"] == []


def slower(factor, *, only=None, until=10**9):
    """Head takes `factor` times as long, for the elements of `only` and the first `until` times asked."""
    asked = []

    def seconds(side, elements):
        asked.append(side)
        moved = side == "head" and only in (None, elements) and len(asked) <= until
        return steady(side, elements) * (factor if moved else 1.0)

    return seconds


def test_a_regression_is_confirmed_with_everything_loaded_anew(here):
    here.edit("kernels/common/factor.cuh", "2.0f", "(1.0f + 1.0f)")
    outcome = here.measure(Watch(slower(1.05, only=5000)))
    assert (outcome.verdict, findings(outcome)) == (Verdict.FAILED, ["UNCHANGED", "REGRESSED"])
    assert outcome.reason.startswith("n=5000: REGRESSED +5.")
    one = outcome.facts["benchmarks"][1]
    assert len(one["confirmation"]) == 8
    assert one["ratio"] == pytest.approx(1.05, abs=0.003)
    assert one["interval"][0] < 1.05 < one["interval"][1]
    loaded = ["base" if "base" in source.parts else "head" for source in here.device.loaded if source.stem == "scale"]
    assert loaded == ["head", "base", "base", "head"]


def test_what_is_gone_when_measured_again_is_undecided(here):
    here.edit("kernels/common/factor.cuh", "2.0f", "(1.0f + 1.0f)")
    # Both keys alone: 2 x 7 times; compared: 2 x (1 + 4 + 32).
    outcome = here.measure(Watch(slower(1.05, until=2 * 7 + 2 * 37)))
    assert (outcome.verdict, findings(outcome)) == (Verdict.UNMEASURED, ["UNDECIDED", "UNDECIDED"])
    assert "REGRESSED at first, UNCHANGED when measured again (and 1 more)" in outcome.reason


def test_an_improvement_passes(here):
    here.edit("kernels/common/factor.cuh", "2.0f", "(1.0f + 1.0f)")
    outcome = here.measure(Watch(slower(0.9)))
    assert (outcome.verdict, findings(outcome)) == (Verdict.PASSED, ["IMPROVED", "IMPROVED"])


def test_noise_is_undecided(here):
    here.edit("kernels/common/factor.cuh", "2.0f", "(1.0f + 1.0f)")
    outcome = here.measure(Watch(steady, noise=0.3))
    assert (outcome.verdict, set(findings(outcome))) == (Verdict.UNMEASURED, {"UNDECIDED"})
    assert "too noisy to tell" in outcome.reason


def test_a_wrong_answer_fails_and_is_not_compared(here):
    here.edit("kernels/common/factor.cuh", "2.0f", "2.5f")
    outcome = here.measure(Watch(steady))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("n=1000: y[0]: got ")
    assert outcome.facts["benchmarks"][0]["blocks"] == []


def test_a_kernel_that_does_nothing_is_never_fast(here):
    """Of the last row too: what an earlier launch left there would pass."""
    here.edit("kernels/scale/scale.cu", "i < n", "i < n - 1")
    outcome = here.measure(Watch(steady))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("n=1000: y[999]: got nan, expected ")
    assert "(never written)" in outcome.reason


def test_faster_than_the_memory_is_invalid(here):
    outcome = here.measure(Watch(lambda side, elements: 8 * elements / 1.2e9))
    assert (outcome.verdict, findings(outcome)) == (Verdict.ERROR, ["INVALID", "INVALID"])
    assert "1 GB/s is 120% of what plain traffic of the same bytes reaches" in outcome.reason


def test_faster_than_the_datasheet_is_invalid(here):
    outcome = here.measure(Watch(steady, bandwidth=0.5e9))
    assert outcome.verdict is Verdict.ERROR
    assert "above what the memory's clock and width come to" in outcome.reason


def test_shared_memory_is_undecided_and_says_who(here, monkeypatch):
    here.edit("kernels/common/factor.cuh", "2.0f", "(1.0f + 1.0f)")
    monkeypatch.setattr("touchgate.benchmarks.busy.busiest", lambda *_: ["cc1plus (pid 7, 1.0 cores)"])
    # Before and after the first key alone, then before the second: only the second's is slow.
    here.memory = Memory([1.0, 1.0, 1.3, 1.0])
    outcome = here.measure(Watch(slower(1.05)))
    assert (outcome.verdict, findings(outcome)) == (Verdict.FAILED, ["REGRESSED", "UNDECIDED"])
    assert outcome.detail[1].endswith(
        "UNDECIDED: the memory was shared: a copy beside it took 30% longer than at its best; busy: cc1plus (pid 7, 1.0 cores)"
    )


def test_a_ceiling_under_others_traffic_makes_nothing_invalid(here):
    here.memory = Memory([1.0, 1.0, 1.3, 1.0], rate=0.2e9)
    outcome = here.measure(Watch(steady))
    assert findings(outcome) == ["INVALID", "UNDECIDED"]


def test_somebody_else_on_the_gpu_is_undecided(here):
    here.edit("kernels/common/factor.cuh", "2.0f", "(1.0f + 1.0f)")
    outcome = here.measure(Watch(slower(1.05), others=("train (pid 9) on the GPU",)))
    assert (outcome.verdict, set(findings(outcome))) == (Verdict.UNMEASURED, {"UNDECIDED"})
    assert "the GPU was shared; busy: train (pid 9) on the GPU" in outcome.reason


def test_a_gpu_that_throttles_is_unmeasured(here):
    outcome = here.measure(Watch(steady, states=[Conditions(throttled=("power cap",))]))
    assert outcome.verdict is Verdict.UNMEASURED
    assert outcome.reason == "n=1000: the GPU throttles (power cap): 11 samples were thrown away (and 1 more)"
    assert outcome.facts["benchmarks"][0]["thrown_away"] == 11


def test_what_does_not_fit_is_unmeasured(here):
    here.device.room = 10_000
    outcome = here.measure(Watch(steady), base=None)
    assert outcome.verdict is Verdict.UNMEASURED
    assert outcome.reason == "n=5000: it does not fit into the GPU's memory"
    assert len(outcome.samples) == 5


def test_what_the_base_does_not_have_is_not_compared(here):
    here.edit("kernels/scale/scale.py", "for n in (1000, 5000)", "for n in (1000, 6000)")
    outcome = here.measure(Watch(slower(1.05)))
    assert (outcome.verdict, findings(outcome)) == (Verdict.FAILED, ["REGRESSED", None])
    assert outcome.facts["benchmarks"][1]["note"] == "not compared: the base does not have it"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name + 0", "name + 1", "not compared: the arrays differ"),
        ('"x", "float32", "in", (n,)', '"x", "bfloat16", "in", (n,)', "not compared: the arrays differ"),
    ],
)
def test_another_interface_is_not_compared(here, old, new, said):
    """By the base's side: head is as it always is."""
    here.edit("kernels/scale/scale.py", "for n in (1000, 5000)", "for name in (1000, 5000) for n in [name + 0]")
    here.edit("kernels/scale/scale.py", 'Case(f"n={n}"', 'Case(f"n={name}"')
    broken(here, "kernels/scale/scale.py", old, new)
    outcome = here.measure(Watch(slower(2.0)))
    assert (outcome.verdict, findings(outcome)) == (Verdict.PASSED, [None, None])
    assert [one["note"] for one in outcome.facts["benchmarks"]] == [said, said]


def test_each_version_is_launched_by_its_own_rule(here):
    """A renamed kernel and another launch rule are no other interface: the problem is the same."""
    here.edit("kernels/scale/scale.cu", "scale_float32", "scaled")
    here.edit("kernels/scale/scale.py", '"scale_float32"', '"scaled"')
    outcome = here.measure(Watch(slower(1.05)))
    assert findings(outcome) == ["REGRESSED", "REGRESSED"]


def broken(here, name, old, new):
    """A base with a defect that head repairs."""
    good = (here.root / name).read_text()
    here.edit(name, old, new)
    here.base = here.commit()
    here.write({name: good})


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("kernels/common/factor.cuh", "2.0f", "oops", "the base's version does not compile: "),
        ("kernels/scale/scale.py", "BENCHMARKS =", "TIMED =", "the base's version can't be loaded: defines no BENCHMARKS"),
        ("kernels/scale/scale.py", "import numpy as np", "import nump", "can't be loaded: ModuleNotFoundError"),
    ],
)
def test_a_broken_base_is_not_compared(here, name, old, new, said):
    broken(here, name, old, new)
    outcome = here.measure(Watch(steady))
    assert outcome.verdict is Verdict.PASSED
    assert said in outcome.facts["against_base"]


def test_a_base_whose_answer_is_wrong_is_not_compared(here):
    broken(here, "kernels/common/factor.cuh", "2.0f", "2.5f")
    outcome = here.measure(Watch(slower(2.0)))
    assert (outcome.verdict, findings(outcome)) == (Verdict.PASSED, [None, None])
    assert outcome.facts["benchmarks"][0]["note"] == "not compared: the base's answer is wrong"


def test_a_base_that_crashes_takes_nothing_from_head(here):
    broken(here, "kernels/common/factor.cuh", "2.0f", "(1.0f + 1.0f)")
    outcome = here.measure(Watch(steady, fail_on="base"))
    assert (outcome.verdict, len(outcome.samples)) == (Verdict.PASSED, 10)
    assert outcome.facts["against_base"].startswith("the base's version fails: cuCtxSynchronize failed")


def test_a_head_that_crashes_has_failed(here):
    outcome = here.measure(Watch(steady, fail_on="head"))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == "kernels/scale/scale.cu fails: cuCtxSynchronize failed: an illegal memory access"


def test_a_head_that_does_not_compile_has_failed(here):
    here.edit("kernels/common/factor.cuh", "2.0f", "oops")
    outcome = here.measure(Watch(steady))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("kernels/scale/scale.cu does not compile: ")


def test_a_kernel_that_is_not_there_has_failed(here):
    here.edit("kernels/scale/scale.py", '"scale_float32"', '"scaled"')
    outcome = here.measure(Watch(steady))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("kernels/scale/scale.cu lacks a kernel: ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("BENCHMARKS = [", "TIMED = [", "scale.py: defines no BENCHMARKS; docs/benchmarks.md says what it lists"),
        ("for n in (1000, 5000)", "for n in ()", "BENCHMARKS is empty: nothing would be timed"),
        ("for n in (1000, 5000)", "for n in (1000, 1000)", "two benchmarks are named 'n=1000'"),
        ('"out", (n,), along=True', '"out", (n + 1,), along=True', "benchmark 'n=1000': y has 1001 rows, 'n' says 1000"),
        ('"float32", "out", (n,)', '"float64", "out", (n,)', "y: dtype 'float64', role 'out': one of them is unknown"),
        ('"out", (n,)', '"scratch", (n,)', "benchmark 'n=1000': it has no output"),
        ('Case(f"n={n}", "float32", {"n": n})', '"n"', "BENCHMARKS: a benchmark's case is a str; wanted is Case(...)"),
        ('Span("y", "float32", "out"', 'Span("x", "float32", "out"', "its spans must be Span(...), each of another name"),
        ('Span("x", "float32", "in", (n,), along=True)', '("x",)', "its spans must be Span(...), each of another name"),
        ('"in", (n,), along=True', '"in", (n // 3000,)', "x: shape (0,): wanted are one or two whole numbers, 1 or more"),
        ("np.float32(2) * inputs", "2.0 + 0 * np.zeros(3) * inputs", "ValueError: operands could not be broadcast"),
        ("a power of two: exact", "", "y: its bound has no reason; say which roundings it covers"),
        ("written=4 * n", "written=0", "read 4000, written 0, flop 1000: impossible"),
        ('"y": np.float32(2)', '"z": np.float32(2)', "benchmark 'n=1000': oracle gives ['z'], the outputs are ['y']"),
        ("    yield Launch(", "    return\n    yield Launch(", "benchmark 'n=1000': it launches nothing"),
    ],
)
def test_mistakes_in_the_oracle_file(here, old, new, said):
    here.edit("kernels/scale/scale.py", old, new)
    outcome = here.measure(Watch(steady))
    assert outcome.verdict is Verdict.ERROR
    assert TARGET in outcome.reason
    assert said in outcome.reason


# -- the base's files ---------------------------------------------------------------------------------------------------


def test_the_files_of_the_base(here):
    """The folder, what the sources include and import, wherever it lies; nothing else."""
    here.write(
        {
            "kernels/scale/notes/x.txt": "x",
            "kernels/scale/scale.py": PYTHON.replace("import numpy as np", "import numpy as np\nfrom ..common import shared"),
            "kernels/common/shared.py": "from .deeper.still import one\n",
            "kernels/common/deeper/still.py": "one = 1\n",
            "kernels/common/factor.cuh": '#include "../../other/more.cuh"\n#define FACTOR 2.0f\n',
            "other/more.cuh": "",
            "other/unrelated.cuh": "",
        }
    )
    commit = here.commit()
    with Repository(here.root) as repo:
        found = files_of(repo, commit, TARGET)
    assert sorted(found) == [
        "kernels/common/deeper/still.py",
        "kernels/common/factor.cuh",
        "kernels/common/shared.py",
        "kernels/scale/notes/x.txt",
        "kernels/scale/scale.cu",
        "kernels/scale/scale.py",
        "other/more.cuh",
    ]
    assert found["other/more.cuh"] == here.git("rev-parse", "HEAD:other/more.cuh")


def test_a_base_that_moved_without_the_kernel_is_the_same(here):
    before = here.spec()
    here.write({"README": "changed\n"})
    here.base = here.commit()
    assert here.spec() == before


def test_a_base_without_the_kernel(here):
    here.git("rm", "-q", "kernels/scale/scale.cu")
    here.git("commit", "-qm", "gone")
    with Repository(here.root) as repo, pytest.raises(NoBase, match=r"the base has no kernels/scale/scale\.cu"):
        files_of(repo, here.git("rev-parse", "HEAD"), TARGET)


def test_a_link_in_the_base_is_not_followed(here):
    (here.root / "kernels/common/factor.cuh").unlink()
    (here.root / "kernels/common/factor.cuh").symlink_to("elsewhere")
    with Repository(here.root) as repo, pytest.raises(NoBase, match="is a symbolic link in the base"):
        files_of(repo, here.commit(), TARGET)


def test_what_the_clone_lacks(here, tmp_path):
    options = {BASE: {"files": {TARGET: "1" * 40}}}
    with pytest.raises(NoBase, match=f"this clone lacks the base's {TARGET}"):
        write_out(options, here.root, TARGET, tmp_path / "out")


def test_the_base_is_written_as_it_was(here, tmp_path):
    spec = here.spec()
    here.edit("kernels/common/factor.cuh", "2.0f", "3.0f")
    write_out(spec.options, here.root, TARGET, tmp_path / "written")
    assert {
        path.relative_to(tmp_path / "written").as_posix(): path.read_text()
        for path in (tmp_path / "written").rglob("*")
        if path.is_file()
    } == FILES
