"""This repository's kernels, emulated: they pass, and each of their mutants is caught, by the right kind of fault."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from touchgate.checks import sanitized, trials
from touchgate.checks.cases import load_file, load_oracle
from touchgate.checks.mutants import Mutant, MutantFault, apply, load_mutants
from touchgate.devices import emulated
from touchgate.outcome import Verdict

KERNELS = Path(__file__).parent.parent / "kernels"
NAMES = ("binary", "gemv", "rmsnorm")
MUTANTS = [
    (name, mutant)
    for name in NAMES
    for mutant in load_mutants(KERNELS / name / "mutants.py")
    if "emulated" in mutant.places  # the others: tests/hardware/mutants.py
]


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


@dataclass
class Here:
    """As much of a check's context as the sanitized run needs."""

    root: Path
    build_dir: Path
    temporary: Path
    inherited_fds: tuple[int, ...] = ()


def check(folder: Path, name: str, build_dir: Path) -> trials.Tally:
    """Run the whole check of one kernel below a folder."""
    device = emulated.open_device(build_dir)
    try:
        oracle = load_oracle(folder / name / f"{name}.py")
        module = device.module(folder / name / f"{name}.cu")
        return trials.run(oracle, trials.chosen_cases(oracle, "emulated", small=False), device, module, log=print)
    finally:
        device.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_kernels_pass(name, build_dir):
    tally = check(KERNELS, name, build_dir)
    assert tally.faults == []
    assert tally.trials == 6 * tally.cases
    assert all(tally.proven.values())


@pytest.mark.parametrize(
    ("m", "n", "dtype", "way", "threads"),
    [
        # Tiny; tall and narrow, up to the last row too short for a block; the first long enough.
        *((1, 1, "float32", "warp", 128), (65536, 512, "float32", "warp", 128), (65536, 512, "float16", "warp", 128)),
        *((1, 1023, "float32", "warp", 128), (1 << 20, 2047, "bfloat16", "warp", 128)),
        *((1, 1024, "float32", "block", 256), (1 << 20, 2048, "float16", "block", 256)),
        # 512 threads from two packs each on.
        *((4096, 4095, "float32", "block", 256), (4096, 4096, "float32", "block", 512)),
        *((4096, 8191, "float16", "block", 256), (8192, 8192, "bfloat16", "block", 512)),
        # Short and wide; so few rows that they are split; few, but short.
        *((512, 65536, "float32", "block", 512), (128, 16384, "float32", "block", 512)),
        *((127, 16384, "float32", "split", 256), (1, 1 << 20, "float16", "split", 512), (1, 32768, "float16", "split", 256)),
        *((127, 16383, "float32", "block", 512), (1, 32767, "bfloat16", "block", 512)),
    ],
)
def test_the_shape_rule_of_gemv(m, n, dtype, way, threads):
    file = load_file(KERNELS / "gemv" / "gemv.py")
    assert (file.way(m, n, dtype), file.threads(m, n, dtype)) == (way, threads)


@pytest.mark.parametrize(
    ("n", "dtype", "way", "threads"),
    [
        *((0, "float32", "2", 32), (1, "float16", "2", 32), (1024, "float32", "2", 128), (1024, "float16", "2", 64)),
        *((1027, "float32", "2", 128), (1028, "float32", "4", 96), (4096, "float32", "4", 256), (4096, "bfloat16", "4", 128)),
        *((8192, "float32", "4", 512), (16384, "float16", "4", 512), (8196, "float32", "8", 288)),
        *((16384, "float32", "8", 512), (32768, "float32", "8", 1024), (65536, "float16", "8", 1024)),
        *((32772, "float32", "8x2", 1024), (65536, "float32", "8x2", 1024), (131072, "bfloat16", "8x2", 1024)),
        *((65540, "float32", "4x8", 1024), (262144, "float16", "4x8", 1024), (131076, "float32", "8x8", 1024)),
        *((262144, "float32", "8x8", 1024), (1 << 30, "float16", "8x8", 1024)),
    ],
)
def test_the_shape_rule_of_rmsnorm(n, dtype, way, threads):
    file = load_file(KERNELS / "rmsnorm" / "rmsnorm.py")
    assert (file.way(n, dtype), file.threads(n, dtype)) == (way, threads)


def test_up_to_65536_packs_the_rule_of_rmsnorm_keeps_the_whole_row():
    file = load_file(KERNELS / "rmsnorm" / "rmsnorm.py")
    for dtype, size in (("float32", 4), ("float16", 8), ("bfloat16", 8)):
        for count in (*range(1, 9000), *range(9000, 65536, 97), 65536):
            kept, blocks = file.WAYS[file.way(count * size, dtype)]
            threads = file.threads(count * size, dtype)
            assert threads % 32 == 0
            assert threads <= 1024
            assert count <= kept * blocks * threads


@pytest.mark.parametrize(
    ("n", "dtype", "threads"),
    [((1 << 22) - 1, "float32", 256), (1 << 22, "int32", 1024), ((1 << 23) - 1, "float16", 256), (1 << 23, "bfloat16", 1024)],
)
def test_the_shape_rule_of_binary(n, dtype, threads):
    file = load_file(KERNELS / "binary" / "binary.py")
    assert file.threads(n, dtype) == threads


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mutant"), MUTANTS, ids=[f"{name}-{mutant.name}" for name, mutant in MUTANTS])
def test_every_mutant_is_caught(name, mutant, build_dir, tmp_path):
    for folder in (name, "common"):
        shutil.copytree(KERNELS / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    apply(mutant, tmp_path / name)
    tally = check(tmp_path, name, build_dir)
    assert [fault.kind for fault in tally.faults][:1] == [mutant.fault]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_small_cases_pass_under_the_sanitizers(name, build_dir, tmp_path):
    context = Here(KERNELS.parent, build_dir, tmp_path)
    outcome = sanitized.run(f"kernels/{name}/{name}.py", context)
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")
    assert outcome.cases > 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mutant"),
    [(name, mutant) for name, mutant in MUTANTS if mutant.name in ("one element too many", "row's end read as a whole pack")],
    ids=str,
)
def test_the_sanitizers_catch_what_is_out_of_bounds(name, mutant, build_dir, tmp_path):
    for folder in (name, "common"):
        shutil.copytree(KERNELS / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    apply(mutant, tmp_path / name)
    (tmp_path / "temporary").mkdir()
    outcome = sanitized.run(f"{name}/{name}.py", Here(tmp_path, build_dir, tmp_path / "temporary"))
    assert outcome.verdict is Verdict.FAILED
    assert "AddressSanitizer" in outcome.reason


@pytest.mark.parametrize("name", NAMES)
def test_each_kernel_has_the_mutants_that_every_kernel_needs(name):
    needed = {"zeros", "copied input", "last element unwritten", "grid one block short"}
    if name != "binary":  # which has no barrier and adds nothing up
        needed |= {"missing barrier", "accumulated in the storage type"}
    own = {mutant.name for mutant in load_mutants(KERNELS / name / "mutants.py")}
    assert needed < own


def test_a_mutant_whose_text_is_gone_or_repeated_is_an_error(tmp_path):
    (tmp_path / "a.cu").write_text("x x")
    for old, count in (("y", 0), ("x", 2)):
        with pytest.raises(MutantFault, match=f"its text occurs {count} times in a.cu, not once"):
            apply(Mutant("m", "a.cu", old, "z", "mismatch"), tmp_path)
    assert (tmp_path / "a.cu").read_text() == "x x"
