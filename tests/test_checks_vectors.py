"""The check kind `vectors`, on a tiny family and a device that runs nothing."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.tiny_family import FakeDevice, make
from touchgate import golden, pinned
from touchgate.checks import DeclarationFault
from touchgate.checks.conformance import lint
from touchgate.checks.decoders import Decoded
from touchgate.checks.legs import difference
from touchgate.checks.matrix import LEGS
from touchgate.checks.vectors import KIND
from touchgate.devices import Unavailable
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane
from touchgate.ladder import write
from touchgate.outcome import Verdict

AT = At("tasks/vectors.yml", 6, 9)
TARGET = "vectors/tiny"


def lane(target=TARGET, **options):
    declaration = CheckDeclaration("vectors", target, options, AT)
    wish = DeviceWish()
    return Lane("tiny", "", (), (), ("smoke", "full"), wish, 3, 6, ("HF_HOME",), (declaration,), AT), declaration


def specs(root, **options):
    return list(KIND.expand(*lane(**options), root))


def run(root, device=None):
    (spec, *_) = specs(root)
    return KIND.run(spec, SimpleNamespace(root=root, place="emulated", device=lambda: device or FakeDevice()))


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path)


@pytest.mark.usefixtures("folder")
def test_what_a_declaration_stands_for(tmp_path):
    found = [(spec.name, spec.kind, spec.target, spec.places, spec.suites) for spec in specs(tmp_path)]
    assert found == [
        ("tiny:vectors", "vectors", TARGET, ("gpu", "emulated"), ("smoke", "full")),
        ("tiny:sanitize", "vectors", TARGET, ("emulated",), ("full",)),
        ("tiny:compile", "compile", "kernels/tiny.cu", ("host",), ("smoke", "full")),
        ("tiny:compile-full", "compile", "kernels/tiny.cu", ("host",), ("full",)),
        *((f"tiny:{leg}", "vectors", TARGET, ("emulated",), ("full",)) for leg in LEGS),
    ]
    (spec, *_) = specs(tmp_path)
    assert (spec.timeout, spec.env, spec.where) == (360, ("HF_HOME",), "tasks/vectors.yml:6:9")
    assert spec.about == "tiny things: kernels/tiny.cu against vectors/tiny"


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        (
            lambda folder: (folder / "manifest.json").unlink(),
            "vectors/tiny: there is no manifest.json; `doit vectors check`",
        ),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "vectors/tiny: manifest.json has no 'about'"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "vectors/tiny: line 1, column 2: "),
        (
            lambda folder: (folder.parent.parent / "kernels" / "tiny.py").unlink(),
            "names kernels/tiny.py, which does not",
        ),
        (
            lambda folder: folder.rename(folder.with_name("gone")),
            "there is no folder vectors/tiny; a vectors check names",
        ),
    ],
)
def test_a_bad_target_is_a_fault_of_the_declaration(folder, tmp_path, breakage, message):
    breakage(folder)
    with pytest.raises(DeclarationFault) as fault:
        specs(tmp_path)
    assert message in str(fault.value)


@pytest.mark.parametrize("target", ["../away/vectors/tiny", "/vectors/tiny", "vectors/../../away", "link"])
def test_a_folder_outside_the_repository_is_a_fault_of_the_declaration(tmp_path, target):
    root, away = tmp_path / "root", tmp_path / "away"
    for place in (root, away):
        place.mkdir()
        make(place)
    (root / "link").symlink_to(away / "vectors" / "tiny")
    with pytest.raises(DeclarationFault, match=f"vectors: '{target}' is not below the repository's root"):
        list(KIND.expand(*lane(target), root))


@pytest.mark.parametrize("name", ["kernels/tiny.py", "kernels/tiny.cu"])
def test_a_decoder_or_kernel_outside_the_repository_is_a_fault_of_the_declaration(tmp_path, name):
    root = tmp_path / "root"
    root.mkdir()
    make(root)
    (root / name).rename(tmp_path / "away")
    (root / name).symlink_to(tmp_path / "away")
    with pytest.raises(DeclarationFault, match=f"{TARGET}/manifest.json names {name}, which leads out of the repository"):
        specs(root)


def test_inputs_are_the_folder_the_decoder_the_kernel_and_what_they_reach(folder, tmp_path):
    kernels = tmp_path / "kernels"
    (kernels / "tiny.cu").write_text('#include "tiny.cuh"\n', encoding="utf-8")
    (kernels / "tiny.cuh").write_text("", encoding="utf-8")
    (kernels / "more.py").write_text("", encoding="utf-8")
    (kernels / "tiny.py").write_text("from . import more\n", encoding="utf-8")
    (spec, *_) = specs(tmp_path)
    found = KIND.inputs(spec, tmp_path, "emulated")
    assert found.files == (
        "kernels/more.py",
        "kernels/more/__init__.py",
        "kernels/tiny.cu",
        "kernels/tiny.cuh",
        "kernels/tiny.py",
        "vectors/tiny/manifest.json",
        "vectors/tiny/streams/all.bin",
    )
    assert found.tools == ("python", "numpy", "g++")
    assert KIND.inputs(spec, tmp_path, "gpu").tools == ("python", "numpy", "nvcc", "pycuda", "g++")
    (folder / "manifest.json").write_text("", encoding="utf-8")
    assert KIND.inputs(spec, tmp_path, "gpu").files == ("vectors/tiny/manifest.json", "vectors/tiny/streams/all.bin")


def test_the_parent_imports_nothing_heavy():
    code = "import sys; import touchgate.checks.vectors; print({'numpy', 'pycuda', 'filelock'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.usefixtures("folder")
def test_all_agree(tmp_path):
    outcome = run(tmp_path)
    assert (outcome.verdict, outcome.cases, outcome.device) == (Verdict.PASSED, 4, "fake")
    facts = dict(outcome.facts)
    assert facts.pop("oracle_values_per_second") > 0
    speeds = {"a": 12, "b": 12}
    counts = {"vectors": 3, "altered": 1, "at_once": 20500, "values": 6}
    ladder = pinned.of_manifest(golden.read_manifest(tmp_path / TARGET))
    digest = hashlib.sha256(write(ladder).encode()).hexdigest()
    assert outcome.reason == f"digest {digest[:12]} by oracle, fake"
    told = facts.pop("legs")
    assert all(leg.pop("seconds") >= 0 for leg in told)
    assert told == [{"name": name, "verdict": "passed", "digest": digest} for name in ("oracle", "fake")]
    assert facts.pop("ladders") == [{"legs": ["oracle", "fake"], "rungs": write(ladder).splitlines()}]
    assert facts == {**counts, "values_per_second": speeds, "seed": 20261130}


@pytest.mark.usefixtures("folder")
def test_a_kernel_that_forgets_late_streams(tmp_path):
    (tmp_path / "kernels" / "tiny.cu").write_text("forgets", encoding="utf-8")
    outcome = run(tmp_path)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == (
        "c: as number 20000 of 20500 decoded at once: status stop after 1 values by the oracle, "
        "none after 0 by the kernel (the only one of 4)"
    )
    assert outcome.detail[0] == "vectors/tiny/manifest.json:17: c"
    assert len(outcome.detail) == 3


@pytest.mark.usefixtures("folder")
def test_what_only_decoding_shows(folder, tmp_path):
    def found(change):
        data = golden.read_manifest(folder)
        change(data["vectors"])
        text = (folder / "manifest.json").read_text(encoding="utf-8")
        (folder / "manifest.json").write_text(golden.dumps(data), encoding="utf-8")
        assert golden.check_family(tmp_path, TARGET) == []
        problems = [str(problem) for problem in lint(tmp_path, TARGET)]
        outcome = run(tmp_path)
        (folder / "manifest.json").write_text(text, encoding="utf-8")
        return problems, outcome.verdict

    at = f"{TARGET}/manifest.json"
    assert found(lambda vectors: None) == ([], Verdict.PASSED)
    assert found(lambda vectors: vectors[0].pop("values")) == (
        [f"{at}:15: a: 'values' must list the 2 that the oracle gives"],
        Verdict.FAILED,
    )
    assert found(lambda vectors: vectors[1].update(status="halt")) == (
        [f"{at}:16: b: status ok by the oracle, halt in the manifest"],
        Verdict.FAILED,
    )
    assert found(lambda vectors: vectors[1].update(colour="red")) == (
        [f"{at}:16: b: unknown key 'colour': the family's decoder does not read it"],
        Verdict.ERROR,
    )
    nothing = {"values": [], "digest": golden.digest(b"")}
    assert found(lambda vectors: vectors[0].update(nothing))[1] is Verdict.FAILED


@pytest.mark.usefixtures("folder")
def test_a_decoder_that_fails_is_a_problem_of_the_folder_and_no_exception(tmp_path):
    place = tmp_path / "kernels" / "tiny.py"
    text = place.read_text(encoding="utf-8")
    place.write_text(
        text.replace("def oracle(vector):", "def oracle(vector):\n    assert len(vector.data) < 3"), encoding="utf-8"
    )
    messages = [problem.message for problem in lint(tmp_path, TARGET)]
    assert messages == [f"{name}: the decoder kernels/tiny.py fails: AssertionError()" for name in "bc"]
    place.write_text("1 / 0", encoding="utf-8")
    (problem,) = lint(tmp_path, TARGET)
    assert str(problem) == (
        f"{TARGET}/manifest.json:1: the decoder kernels/tiny.py can't be loaded: ZeroDivisionError('division by zero')"
    )
    place.write_text("", encoding="utf-8")
    (problem,) = lint(tmp_path, TARGET)
    assert problem.message.startswith("tiny.py defines no DECODER")


@pytest.mark.usefixtures("folder")
def test_a_kernel_that_errs_is_shown_with_both_values(tmp_path):
    (tmp_path / "kernels" / "tiny.cu").write_text("one more", encoding="utf-8")
    outcome = run(tmp_path)
    assert (outcome.verdict, outcome.cases) == (Verdict.FAILED, 4)
    assert outcome.reason == "a: values differ first at 0: 4 by the oracle, 5 by the kernel (and 3 more of 4)"
    assert outcome.detail == (
        "vectors/tiny/manifest.json:15: a",
        "    fake, a: values differ first at 0: 4 by the oracle, 5 by the kernel",
        "    fake, b: values differ first at 0: 4 by the oracle, 5 by the kernel",
        "    who agrees at stage values, frame 0, plane 0: oracle | fake",
        "vectors/tiny/manifest.json:16: b",
        "    fake, a: values differ first at 0: 1 by the oracle, 2 by the kernel",
        "    fake, b: values differ first at 0: 1 by the oracle, 2 by the kernel",
        "    who agrees at stage values, frame 0, plane 0: oracle | fake",
        "vectors/tiny/manifest.json:17: c",
        "    fake, a: values differ first at 0: 6 by the oracle, 7 by the kernel",
        "    fake, b: values differ first at 0: 6 by the oracle, 7 by the kernel",
        "    who agrees at stage values, frame 0, plane 0: oracle | fake",
        "vectors/tiny/manifest.json:15: a and a stop",
        "    fake, a: values differ first at 0: 4 by the oracle, 5 by the kernel",
        "    fake, b: values differ first at 0: 4 by the oracle, 5 by the kernel",
    )


@pytest.mark.usefixtures("folder")
def test_an_oracle_that_errs_is_held_against_the_manifest(tmp_path):
    place = tmp_path / "kernels" / "tiny.py"
    text = place.read_text(encoding="utf-8")
    place.write_text(text.replace('"stop" if end', '"halt" if end').replace("np.int16)", "np.int16) * 2"), encoding="utf-8")
    outcome = run(tmp_path)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("a: value 0: 8 by the oracle, 4 in the manifest; digest ")
    assert "    oracle: status halt by the oracle, stop in the manifest" in outcome.detail
    assert "    oracle: status halt by the oracle, it must be stop" in outcome.detail


@pytest.mark.parametrize(
    ("kernel", "reason", "detail"),
    [
        (
            "no build",
            "kernels/tiny.cu does not compile: tiny.cu:1:2: error: no build",
            ("tiny.cu:1:1: note: here", "tiny.cu:1:2: error: no build"),
        ),
        ("no launch", "kernels/tiny.cu: illegal address", ("illegal address", "in thread 7")),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_goes_wrong_with_the_kernel_is_a_failure(tmp_path, kernel, reason, detail):
    (tmp_path / "kernels" / "tiny.cu").write_text(kernel, encoding="utf-8")
    outcome = run(tmp_path)
    assert (outcome.verdict, outcome.reason, outcome.detail) == (Verdict.FAILED, reason, detail)


@pytest.mark.usefixtures("folder")
def test_without_a_device_nothing_is_claimed(tmp_path):
    def missing():
        raise Unavailable("no C++ compiler")

    (spec, *_) = specs(tmp_path)
    with pytest.raises(Unavailable):
        KIND.run(spec, SimpleNamespace(root=tmp_path, place="emulated", device=missing))


def test_a_damaged_folder_fails_before_anything_is_decoded(folder, tmp_path):
    (folder / "streams" / "all.bin").write_bytes(b"")
    outcome = run(tmp_path)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == (
        "streams/all.bin has 0 bytes, the manifest says 8 (4 problems in all; `doit vectors check` lists them)"
    )
    assert outcome.detail[0] == "vectors/tiny/manifest.json:1: streams/all.bin has 0 bytes, the manifest says 8"


def test_no_vectors_is_an_error(folder, tmp_path):
    data = golden.read_manifest(folder) | {"vectors": [], "count": 0, "files": [], "sources": {}}
    (folder / "streams" / "all.bin").unlink()
    (folder / "manifest.json").write_text(golden.dumps(data), encoding="utf-8")
    outcome = run(tmp_path)
    assert (outcome.verdict, outcome.detail) == (
        Verdict.ERROR,
        ("vectors/tiny/manifest.json:1: there are no vectors",),
    )


def test_an_entry_that_the_decoder_can_not_read_is_an_error(folder, tmp_path):
    data = golden.read_manifest(folder)
    data["vectors"][1]["strem"] = data["vectors"][1].pop("stream")
    (folder / "manifest.json").write_text(golden.dumps(data), encoding="utf-8")
    outcome = run(tmp_path)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "vectors/tiny/manifest.json: b: has no 'stream'")


GOOD = Decoded("ok", np.array([1, 2, 3], np.int32), {"words": 4})


@pytest.mark.parametrize(
    ("got", "text"),
    [
        (GOOD, None),
        (
            replace(GOOD, values=np.array([1, 5, 6], np.int32)),
            "symbols differ first at 1: 2 by the oracle, 5 by the kernel",
        ),
        (replace(GOOD, values=np.array([1, 2], np.int32)), "3 symbols by the oracle, 2 by the kernel (ok)"),
        (replace(GOOD, values=np.array([1, 2, 3, 4], np.int32)), "3 symbols by the oracle, 4 by the kernel (ok)"),
        (replace(GOOD, status="cut"), "status ok after 3 symbols by the oracle, cut after 3 by the kernel"),
        (replace(GOOD, facts={"words": 5}), "{'words': 4} by the oracle, {'words': 5} by the kernel"),
    ],
)
def test_a_difference_in_words(got, text):
    assert difference(GOOD, got, "symbols") == text


def test_a_digest_does_not_depend_on_the_machine_s_byte_order():
    little, big = (Decoded("ok", np.array([1, -2], order)) for order in ("<i4", ">i4"))
    assert little.digest == big.digest == golden.digest(bytes([1, 0, 0, 0, 254, 255, 255, 255]))


@pytest.mark.usefixtures("folder")
def test_a_device_that_can_not_compile_leaves_the_check_unmeasured(tmp_path):
    """Found out only when the kernel is compiled: the oracle alone is no pass."""

    class NoCompiler(FakeDevice):
        def module(self, source):
            raise Unavailable("no nvcc")

    with pytest.raises(Unavailable, match="no nvcc"):
        run(tmp_path, NoCompiler())
