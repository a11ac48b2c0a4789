"""The matrix: every leg decodes alike, and each of them catches a mutant that the others let through."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from touchgate import golden
from touchgate.checks import DeclarationFault, legs, matrix
from touchgate.checks.vectors import KIND
from touchgate.devices import BuildFault, Unavailable, settings
from touchgate.devices.targets import TARGETS
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane
from touchgate.outcome import Outcome, Verdict
from touchgate.results import tools

ROOT = Path(__file__).resolve().parent.parent
TARGET = "vectors/rans"
FEW = ("channels-000015", "coin-000100", "hand-far-top", "hand-bits", "rare-000255", "skewed-000100")
X86 = TARGETS["x86_64"].is_here

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="no g++")


@pytest.fixture(scope="module")
def build_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


@pytest.fixture
def root(tmp_path):
    """The family rans with few of its vectors."""
    for folder in ("kernels/rans", TARGET):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    data = golden.read_manifest(tmp_path / TARGET)
    names = {entry["name"] for entry in data["vectors"]}
    chosen = {name for name in FEW if name in names} | {max(names)}
    data["vectors"] = [entry for entry in data["vectors"] if entry["name"] in chosen]
    (tmp_path / TARGET / golden.MANIFEST).write_text(golden.dumps(data), encoding="utf-8")
    return tmp_path


def specs(root, **options):
    at = At("tasks/vectors.yml", 6, 9)
    declaration = CheckDeclaration("vectors", TARGET, options, at)
    lane = Lane("rans", "", (), (), ("smoke", "full"), DeviceWish(), 3, 6, (), (declaration,), at)
    return {spec.name.partition(":")[2]: spec for spec in KIND.expand(lane, declaration, root)}


def run(root, leg, build_dir, monkeypatch):
    """What the check of a leg comes to; skipped, with the reason, where a tool of it is missing."""
    # The lint would find the vectors missing that were left out.
    monkeypatch.setattr(golden, "check_family", lambda *_: [])
    monkeypatch.setattr("touchgate.pinned.problems", lambda *_: [])
    monkeypatch.setattr(legs, "AT_ONCE", 100)
    context = SimpleNamespace(root=root, place="emulated", build_dir=build_dir)
    try:
        return KIND.run(specs(root)[leg], context)
    except Unavailable as missing:
        pytest.skip(str(missing))


def test_each_leg_is_a_check_of_suite_full():
    found = specs(ROOT)
    assert list(found)[4:] == ["x86_64", "aarch64", "armhf", "riscv64", "ppc64el", "s390x", "O0", "O3-fast-math", "clang"]
    for leg in matrix.LEGS:
        assert (found[leg].places, found[leg].suites) == (("emulated",), ("full",))
        assert set(KIND.inputs(found[leg], ROOT, "emulated").tools) == {"python", "numpy", *matrix.tools(leg)}
        assert set(matrix.tools(leg)) <= tools.KNOWN
    assert found["s390x"].about == "vectors/rans emulated, on s390x: 64 bits, big-endian, unsigned char"
    assert found["O3-fast-math"].about == "vectors/rans emulated, with -O3 -ffast-math -march=native"
    assert matrix.tools("s390x") == ("s390x-linux-gnu-g++", "qemu-s390x")
    assert matrix.tools("clang") == ("clang++",)


def test_a_declaration_chooses_among_the_legs():
    assert list(specs(ROOT, legs=["O0", "armhf"]))[4:] == ["armhf", "O0"]
    assert list(specs(ROOT, legs=[])) == ["vectors", "sanitize", "compile", "compile-full"]
    for value, told in (
        (["arm"], "`legs`: 'arm' is none of x86_64, aarch64, "),
        ("O0", "`legs` is a list of names, not 'O0'; "),
    ):
        with pytest.raises(DeclarationFault) as fault:
            specs(ROOT, legs=value)
        assert str(fault.value).startswith(told)


def test_the_processor_belongs_to_the_key_of_what_is_compiled_for_it():
    found = {leg: dict(KIND.inputs(spec, ROOT, "emulated").extra) for leg, spec in specs(ROOT).items()}
    assert [leg for leg, extra in found.items() if "processor" in extra] == ["O3-fast-math"]
    assert found["O3-fast-math"]["processor"]


def test_a_gpu_decodes_emulated_as_well():
    spec = specs(ROOT)["vectors"]
    assert KIND.inputs(spec, ROOT, "gpu").tools == ("python", "numpy", "nvcc", "pycuda", "g++")


@pytest.mark.parametrize(
    ("leg", "packages"),
    [
        ("s390x", "g++-s390x-linux-gnu qemu-user-static"),
        ("armhf", "g++-arm-linux-gnueabihf qemu-user-static"),
        ("clang", "clang"),
    ],
)
def test_a_missing_tool_is_told_with_the_package_that_brings_it(root, leg, packages, build_dir, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "g++").symlink_to(shutil.which("g++") or "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(golden, "check_family", lambda *_: [])
    monkeypatch.setattr("touchgate.pinned.problems", lambda *_: [])
    with pytest.raises(Unavailable, match=rf"\(Debian: apt-get install {packages.replace('+', '[+]')}\)$"):
        KIND.run(specs(root)[leg], SimpleNamespace(root=root, place="emulated", build_dir=build_dir))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "arm64", "riscv64", "s390x"])
def test_the_flag_for_the_own_processor_is_one_that_its_compilers_know(machine):
    found = settings.flags_of(settings.SETTINGS["O3-fast-math"], machine)
    native = {"x86_64": ("-march=native",), "s390x": ("-march=native",), "riscv64": ()}.get(machine, ("-mcpu=native",))
    assert found == ("-O3", "-ffast-math", *native)
    assert settings.flags_of(settings.SETTINGS["O0"], machine) == ("-O0",)


MUTANTS = {
    "reads words by halves": (
        "reader.words[reader.next];",
        "half_word(reader, 0) | (half_word(reader, 1) << 16);",
        {"s390x"},
    ),
    "takes char to be signed": (
        "int last = row.length - 2;",
        "char minus = (char)-1; int last = row.length - 2 + (minus > 0 ? 1 : 0);",
        {"aarch64", "ppc64el"},
    ),
    "takes long to have 64 bits": (
        "(unsigned long long)(entries[s + 1] - start) * (",
        "(unsigned long)(entries[s + 1] - start) * (unsigned long)(",
        {"armhf"},
    ),
    "asks a float whether it is no number": (
        "if (s == last) {",
        "volatile float zero = 0; float none = zero / zero; if (s == last && none != none) {",
        {"O3-fast-math"},
    ),
    "counts on the order of arguments": ("value += row.offset;", "value += row.offset + from_right_to_left();", {"clang"}),
    "counts on the optimiser": (
        "value += row.offset;",
        "value += row.offset;\n#ifndef __OPTIMIZE__\nvalue += 1;\n#endif\n",
        {"O0"},
    ),
}
HELPERS = """
static __device__ unsigned int half_word(const Reader& reader, int which) {
    return ((const unsigned short*)reader.words)[2 * reader.next + which];
}
static __device__ int less(int a, int b) { return a - b; }
static __device__ int from_right_to_left() {
    int n = 0;
    auto next = [&n]() { return n++; };
    return less(next(), next()) - 1;
}

// False where"""
CASES = [(name, leg) for name, (_, _, wrong) in MUTANTS.items() for leg in (*sorted(wrong), "x86_64")]


@pytest.mark.skipif(not X86, reason="which leg is the odd one is told from x86-64")
@pytest.mark.parametrize(("name", "leg"), CASES, ids=[f"{name}: {leg}" for name, leg in CASES])
def test_a_mutant_is_caught_where_it_is_wrong_and_only_there(name, leg, root, build_dir, monkeypatch):
    old, new, wrong = MUTANTS[name]
    kernel = root / "kernels/rans/rans.cu"
    text = kernel.read_text(encoding="utf-8")
    assert text.count(old) == 1
    kernel.write_text(text.replace(old, new).replace("\n// False where", HELPERS, 1), encoding="utf-8")
    outcome = run(root, leg, build_dir, monkeypatch)
    if leg not in wrong:
        assert (outcome.verdict, outcome.detail) == (Verdict.PASSED, ())
        return
    assert outcome.verdict is Verdict.FAILED
    assert [(one["name"], one["verdict"]) for one in outcome.facts["legs"]] == [
        ("oracle", "passed"),
        (leg, "failed"),
        ("emulated", "passed"),
    ]
    agree = [line for line in outcome.detail if line.startswith("    who agrees at stage symbols, frame 0, plane ")]
    assert agree[0].endswith(f": oracle; emulated | {leg}")
    assert [one["legs"] for one in outcome.facts["ladders"]] == [["oracle", "emulated"], [leg]]


@pytest.mark.parametrize("leg", matrix.LEGS)
def test_every_leg_decodes_alike(leg, root, build_dir, monkeypatch):
    outcome = run(root, leg, build_dir, monkeypatch)
    assert (outcome.verdict, outcome.detail, outcome.device) == (Verdict.PASSED, (), "emulated")
    oracle, own = outcome.facts["legs"]
    assert (oracle["name"], own["name"]) == ("oracle", leg)
    assert oracle["digest"] == own["digest"]
    assert outcome.reason == f"digest {oracle['digest'][:12]} by oracle, {leg}"
    assert "ladders" not in outcome.facts
    assert outcome.facts["device"]["compiler"]
    assert Outcome.from_json(outcome.to_json()) == replace(outcome, facts=dict(outcome.facts))


def test_a_gpus_check_judges_the_emulation_beside_it(root, build_dir, monkeypatch):
    """Another emulated device stands in for the GPU: what is under test is who is asked and what is said."""
    from touchgate.devices import emulated

    monkeypatch.setattr(golden, "check_family", lambda *_: [])
    monkeypatch.setattr("touchgate.pinned.problems", lambda *_: [])
    monkeypatch.setattr(legs, "AT_ONCE", 100)
    gpu = emulated.open_device(build_dir)
    gpu.name = "Some GPU"
    context = SimpleNamespace(root=root, place="gpu", build_dir=build_dir, device=lambda: gpu)
    outcome = KIND.run(specs(root)["vectors"], context)
    assert [one["name"] for one in outcome.facts["legs"]] == ["oracle", "emulated", "Some GPU"]
    assert outcome.reason.endswith(" by oracle, emulated, Some GPU")
    assert (outcome.verdict, outcome.device) == (Verdict.PASSED, "Some GPU")

    class Emulation:
        name = "emulated"

        def module(self, source):
            raise BuildFault(f"{source}:1:2: error: asm")

    monkeypatch.setattr(emulated, "open_device", lambda *_, **__: Emulation())
    outcome = KIND.run(specs(root)["vectors"], context)
    assert outcome.verdict is Verdict.PASSED
    assert "; emulated unmeasured: kernels/rans/rans.cu does not compile: " in outcome.reason

    def missing(*_, **__):
        raise Unavailable("no C++ compiler: install g++")

    monkeypatch.setattr(emulated, "open_device", missing)
    outcome = KIND.run(specs(root)["vectors"], context)
    assert outcome.verdict is Verdict.PASSED
    assert outcome.reason.endswith(" by oracle, Some GPU; emulated unmeasured: no C++ compiler: install g++")
    assert outcome.facts["legs"][1] == {
        "name": "emulated",
        "verdict": "unmeasured",
        "digest": None,
        "seconds": 0.0,
        "reason": "no C++ compiler: install g++",
    }
