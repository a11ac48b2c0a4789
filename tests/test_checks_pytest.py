"""The kind `pytest`: real runs of pytest in small folders, judged by what they counted."""

from __future__ import annotations

import importlib.util
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from touchgate.checks import DeclarationFault
from touchgate.checks.child import Ended
from touchgate.checks.pytest import CONFIGURATION, KIND, Results, judge, read_results
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane
from touchgate.outcome import Verdict

AT = At("tasks/lanes.yml", 6, 9)


@dataclass
class FakeContext:
    root: Path
    temporary: Path
    place: str = "host"
    build_dir: Path = Path("/nonexistent")
    inherited_fds: tuple[int, ...] = ()


def spec_of(target: str, **options: object):
    declaration = CheckDeclaration("pytest", target, options, AT)
    lane = Lane("one", "", (), (), ("smoke",), DeviceWish(), 30.0, 60.0, (), (declaration,), AT)
    (spec,) = KIND.expand(lane, declaration, Path())
    return spec


@pytest.fixture
def run(tmp_path, capfdbinary, monkeypatch):
    """Runs tests of the given text; gives the outcome and the log."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "root"
    (root / "tests").mkdir(parents=True)
    (tmp_path / "temporary").mkdir()

    def run(text: str, target: str = "tests/test_it.py"):
        (root / "tests" / "test_it.py").write_text(text)
        before = {path for path in root.rglob("*") if "__pycache__" not in path.parts}
        outcome = KIND.run(spec_of(target), FakeContext(root, tmp_path / "temporary"))
        sys.stdout.flush()
        assert {path for path in root.rglob("*") if "__pycache__" not in path.parts} == before
        return outcome, capfdbinary.readouterr().out.decode()

    return run


def test_a_declaration_becomes_one_check():
    spec = spec_of("tests/test_x.py -k 'a and b'")
    assert (spec.name, spec.about, spec.places) == ("one:pytest", "pytest tests/test_x.py -k 'a and b'", ("host",))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (" ", "`pytest` is empty; write the tests to run, such as tests/test_x.py"),
        ("tests 'x", "`pytest` holds words that can't be told apart: No closing quotation"),
        ("tests --junitxml=x.xml", "`pytest`: leave --junitxml out; the check reads that file"),
        ("tests --junit-xml x.xml", "`pytest`: leave --junit-xml out; the check reads that file"),
    ],
)
def test_a_wrong_declaration_says_what_to_do(target, message):
    with pytest.raises(DeclarationFault) as fault:
        spec_of(target)
    assert str(fault.value) == message


def test_inputs_are_the_tests_and_what_configures_them(tmp_path):
    for name in ("tests/gpu/test_x.py", "tests/gpu/data.txt", "tests/test_y.py", "lib/z.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    spec = spec_of("tests/gpu tests/test_y.py::test_a -k foo --tb short /abs/test_z.py tests/test_gone.py", inputs="lib")
    inputs = KIND.inputs(spec, tmp_path, "host")
    assert inputs.files == (
        "tests/gpu/test_x.py",
        "tests/test_y.py",
        "tests/test_gone.py",
        "lib/z.txt",
        "tests/conftest.py",
        *CONFIGURATION,
    )
    assert inputs.tools == ("python", "pytest")


def test_a_folders_own_conftest_is_an_input(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "conftest.py").touch()
    assert KIND.inputs(spec_of("t"), tmp_path, "host").files == ("t/conftest.py", *CONFIGURATION)


def test_passed(run):
    outcome, log = run("def test_a(): print('seen')\ndef test_b(): pass\n", "tests/test_it.py -s")
    assert (outcome.verdict, outcome.reason, outcome.cases, outcome.detail) == (Verdict.PASSED, "", 2, ())
    assert "seen" in log
    assert "2 passed" in log


def test_failed(run):
    outcome, _ = run(
        "import pytest\n"
        "class TestX:\n"
        "    @pytest.mark.parametrize('n', [1, 2])\n"
        "    def test_a(self, n):\n"
        "        assert n == 1, 'n is off'\n"
        "def test_b(): raise ValueError('first\\nsecond')\n"
        "@pytest.fixture\n"
        "def broken(): raise KeyError('no')\n"
        "def test_c(broken): pass\n"
        "def test_d(): pytest.skip('not here')\n",
        "tests/test_it.py -p no:randomly -o addopts=",
    )
    assert (outcome.verdict, outcome.reason, outcome.cases) == (Verdict.FAILED, "3 of 5 tests failed", 4)
    assert outcome.detail == (
        "tests/test_it.py::TestX::test_a[2]",
        "  AssertionError: n is off",
        "  assert 2 == 1",
        "tests/test_it.py::test_b",
        "  ValueError: first",
        "  second",
        "tests/test_it.py::test_c",
        "  KeyError: 'no'",
    )
    assert outcome.facts == {"status": 1, "ran": 4, "failed": 3, "skipped": 1}


def test_the_named_tests_run_alone(run):
    outcome, _ = run("def test_a(): pass\ndef test_b(): assert 0\n", "tests/test_it.py::test_a")
    assert (outcome.verdict, outcome.cases) == (Verdict.PASSED, 1)


def test_many_failures_are_counted(run):
    outcome, _ = run("import pytest\n@pytest.mark.parametrize('n', range(8))\ndef test_a(n): assert n < 0\n")
    assert outcome.reason == "8 of 8 tests failed"
    assert outcome.detail[-1] == "and 3 more"


def test_all_skipped_is_unmeasured(run):
    outcome, _ = run(
        "import pytest\n"
        "def test_a(): pytest.skip('no GPU')\n"
        "def test_b(): pytest.skip('no GPU')\n"
        "def test_c(): pytest.skip('no nvcc')\n"
    )
    assert (outcome.verdict, outcome.reason) == (Verdict.UNMEASURED, "no test ran, 3 skipped: no GPU; no nvcc")


def test_a_module_that_skips_itself_is_no_pass(run):
    outcome, _ = run("import pytest\npytest.importorskip('no_such_module')\ndef test_a(): pass\n")
    assert outcome.verdict in (Verdict.UNMEASURED, Verdict.ERROR)


def test_some_skipped_is_said(run):
    outcome, _ = run("import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no')\n")
    assert (outcome.verdict, outcome.reason, outcome.cases) == (Verdict.PASSED, "1 skipped", 1)


def test_an_expected_failure_ran(run):
    outcome, _ = run("import pytest\n@pytest.mark.xfail\ndef test_a(): assert 0\n")
    assert (outcome.verdict, outcome.cases) == (Verdict.PASSED, 1)


@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        ("x = 1\n", "tests/test_it.py", "no test was collected: a check that tests nothing is no pass"),
        ("def test_a(): pass\n", "tests/test_it.py -k none",
         "no test was collected: a check that tests nothing is no pass"),
        ("def test_a(): pass\n", "tests/test_gone.py", "pytest does not accept its arguments"),
        ("def test_a(): pass\n", "tests/test_it.py --no-such-option", "pytest does not accept its arguments"),
        ("import no_such_module\n", "tests/test_it.py", "the tests could not be collected, or were interrupted"),
        ("import os\ndef test_a(): os._exit(9)\n", "tests/test_it.py", "pytest: exit status 9"),
        ("import os\ndef test_a(): os._exit(0)\n", "tests/test_it.py", "pytest wrote no results"),
        ("import os\ndef test_a(): os.kill(os.getpid(), 9)\n", "tests/test_it.py", "pytest: ended by SIGKILL"),
    ],
)  # fmt: skip
def test_what_could_not_be_tested_is_an_error(run, text, target, reason):
    outcome, log = run(text, target)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, reason), log


def test_a_collection_error_is_shown(run):
    outcome, _ = run("import no_such_module\n")
    assert any("No module named 'no_such_module'" in line for line in outcome.detail)


def test_a_crash_is_a_failure(run):
    outcome, _ = run(
        "import os, signal\ndef test_a(): os.kill(os.getpid(), signal.SIGABRT)\n", "tests/test_it.py -p no:faulthandler"
    )
    assert (outcome.verdict, outcome.reason) == (Verdict.FAILED, "pytest: ended by SIGABRT")


def test_without_pytest_it_is_unmeasured(run, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    outcome, _ = run("def test_a(): pass\n")
    assert outcome.verdict is Verdict.UNMEASURED
    assert outcome.reason == f"the package pytest is not installed for {sys.executable}"


def test_broken_results_are_none(tmp_path):
    assert read_results(tmp_path / "none.xml") is None
    (tmp_path / "half.xml").write_text("<testsuites><testsuite")
    assert read_results(tmp_path / "half.xml") is None


def test_an_interrupt_in_the_middle_is_no_pass():
    results = Results(ran=3, broken=(), skipped=())
    outcome = judge(Ended(2, ("KeyboardInterrupt",), matched=True), results)
    assert (outcome.verdict, outcome.detail) == (Verdict.ERROR, ("KeyboardInterrupt",))
    assert judge(Ended(-signal.SIGTERM, (), matched=True), None).verdict is Verdict.ERROR
