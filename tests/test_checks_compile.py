"""The check kind `compile`: what it expands to, what it depends on, and its verdicts."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from touchgate.checks import DeclarationFault
from touchgate.checks.compile import ALL_ARCHITECTURES, KIND, architectures_of, compile_specs
from touchgate.devices import BuildFault, Unavailable, nvcc
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane
from touchgate.outcome import Verdict

FAST = {"fast": nvcc.Resources(20, 0, 0, 0, 0), "slow": nvcc.Resources(255, 1024, 64, 16, 32)}


def declaration(target="k/k.cu", kind="compile", **options):
    return CheckDeclaration(kind, target, options, At("tasks/l.yml", 7, 9))


def lane(*checks, suites=("smoke", "full")):
    at = At("tasks/l.yml", 2, 3)
    return Lane("l", "", (), (), suites, DeviceWish(), 30, 60, ("HF_HOME",), tuple(checks), at)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "k.cu").write_text('#include "c.cuh"\n')
    (tmp_path / "k" / "c.cuh").write_text("")
    return tmp_path


def test_one_declaration_is_two_checks(root):
    one = declaration()
    first, second = KIND.expand(lane(one), one, root)
    assert (first.name, first.suites, first.options) == (
        "l:compile",
        ("smoke", "full"),
        {"architectures": ["87", "90", "121"], "declared": False},
    )
    assert (second.name, second.suites, second.options) == (
        "l:compile-full",
        ("full",),
        {"architectures": list(ALL_ARCHITECTURES), "declared": True},
    )
    for spec in (first, second):
        assert (spec.lane, spec.kind, spec.target, spec.places) == ("l", "compile", "k/k.cu", ("host",))
        assert (spec.timeout, spec.env, spec.where) == (3600, ("HF_HOME",), "tasks/l.yml:7:9")
    assert first.about == "k/k.cu compiles for sm_87, sm_90, sm_121"


def test_declared_architectures_are_kept():
    one = declaration(architectures=[90, "sm_100a"], name="hopper")
    first, second = compile_specs(lane(one), one, "k/k.cu", ("performance",))
    assert (first.name, first.suites) == ("l:hopper:compile", ("performance",))
    assert first.options == {"architectures": ["90", "100a"], "declared": True}
    assert second.name == "l:hopper:compile-full"


@pytest.mark.parametrize(
    ("target", "told"),
    [("k/k.py", r"no \.cu file"), ("k/none.cu", "there is no file"), ("../k.cu", "not below"), ("/k.cu", "not below")],
)
def test_bad_targets(root, target, told):
    one = declaration(target)
    with pytest.raises(DeclarationFault, match=told):
        list(KIND.expand(lane(one), one, root))


@pytest.mark.parametrize("value", [[], "90", 90, [9.0], [True], ["ninety"], [9], [90, None], ["90; rm"], [1234]])
def test_bad_architectures(value):
    with pytest.raises(DeclarationFault, match=r"^architectures: "):
        architectures_of(value)


def test_architectures_are_texts_each_once():
    assert architectures_of([90, "90", "sm_90", "120f"]) == ("90", "120f")
    assert architectures_of(None) == ()


def test_inputs_follow_includes_and_what_nvcc_reads(root, monkeypatch):
    one = declaration()
    (spec, _) = KIND.expand(lane(one), one, root)
    for name in nvcc.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    inputs = KIND.inputs(spec, root, "host")
    assert (inputs.files, inputs.tools, inputs.extra) == (
        ("k/c.cuh", "k/k.cu"),
        ("nvcc",),
        {"architectures": "87,90,121"},
    )
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    assert KIND.inputs(spec, root, "host").extra == {"architectures": "87,90,121", "NVCC_APPEND_FLAGS": "-G"}


@pytest.fixture
def outcome(root, monkeypatch, tmp_path):
    """The outcome of a check whose cubins are made by a function of the architecture."""

    def run(build, program=Path("/cuda/bin/nvcc")):
        monkeypatch.setattr(nvcc, "find", lambda *_: program)
        monkeypatch.setattr(nvcc, "version", lambda path: "13.0.88")
        monkeypatch.setattr(nvcc, "build_cubin", lambda source, arch, build_dir: build(arch))
        one = declaration()
        (spec, _) = KIND.expand(lane(one), one, root)
        return KIND.run(spec, SimpleNamespace(root=root, build_dir=tmp_path))

    return run


def cubin(*names):
    return nvcc.Cubin(Path("x.cubin"), {name: FAST[name] for name in names})


def test_passed_with_each_kernel_s_resources(outcome, capsys):
    got = outcome(lambda arch: cubin("fast"))
    assert (got.verdict, got.reason, got.detail, got.cases, got.device) == (Verdict.PASSED, "", (), 3, None)
    row = {"registers": 20, "shared": 0, "stack": 0, "spill_stores": 0, "spill_loads": 0}
    assert got.facts == {"nvcc": "13.0.88", "architectures": {a: {"fast": row} for a in ("87", "90", "121")}}
    assert capsys.readouterr().out.splitlines()[:2] == [
        "sm_87: compiled",
        "  fast: 20 registers, 0 bytes shared, spills 0 bytes stored, 0 loaded",
    ]


def test_spills_are_named_and_pass(outcome):
    got = outcome(lambda arch: cubin("fast", "slow") if arch == "sm_90" else cubin("fast"))
    assert (got.verdict, got.reason) == (Verdict.PASSED, "registers spill: slow on sm_90")
    assert got.facts["architectures"]["90"]["slow"]["spill_loads"] == 32


def test_one_architecture_that_fails_fails(outcome):
    def build(arch):
        if arch == "sm_87":
            raise BuildFault("k.cu(3): error: no\n" + "more\n" * 50)
        if arch == "sm_121":
            raise nvcc.UnknownArchitecture("nvcc fatal   : Unsupported gpu architecture 'sm_121'")
        return cubin("fast")

    got = outcome(build)
    assert (got.verdict, got.reason) == (Verdict.FAILED, "k/k.cu does not compile for sm_87")
    assert got.detail == ("k.cu(3): error: no", *["more"] * 39, "... 11 more lines in the log")


def test_what_this_nvcc_does_not_know_is_unmeasured(outcome):
    def build(arch):
        if arch != "sm_90":
            raise nvcc.UnknownArchitecture(f"nvcc fatal   : Unsupported gpu architecture '{arch}'\nmore")
        return cubin("fast")

    got = outcome(build)
    assert got.verdict is Verdict.UNMEASURED
    assert got.reason == "not compiled for sm_87, sm_121: nvcc fatal   : Unsupported gpu architecture 'sm_87'"


def test_without_nvcc_or_its_host_compiler_nothing_is_measured(outcome):
    got = outcome(lambda arch: pytest.fail("compiled without a compiler"), program=None)
    assert (got.verdict, got.reason) == (Verdict.UNMEASURED, nvcc.MISSING)

    def homeless(arch):
        raise Unavailable("nvcc needs a host compiler: install g++")

    got = outcome(homeless)
    assert got.verdict is Verdict.UNMEASURED
    assert got.reason.startswith("not compiled for sm_87, sm_90, sm_121: nvcc needs a host compiler")
