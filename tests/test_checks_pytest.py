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
from touchgate.checks.pytest import KIND, Results, judge, read_results
from touchgate.gate.listed import PYTEST_FILES
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
        *((f"tests {option}", f"`pytest`: leave {option} out; it runs no test")
          for option in ("--setup-only", "--setup-plan", "--collect-only", "--co", "--fixtures", "--markers", "--version",
                         "--help", "-h", "-V", "--fixtures-per-test", "--cache-show")),
        ("tests --junit-xml x.xml", "`pytest`: leave --junit-xml out; the check reads that file"),
    ],
)  # fmt: skip
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
        *(f"{folder}{name}" for folder in ("tests/gpu/", "tests/", "") for name in PYTEST_FILES),
    )
    assert inputs.tools == ("python", "pytest")


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ("-c x.ini", ("x.ini",)),
        ("-cx.ini", ("x.ini",)),
        ("--config-file=x.ini", ("x.ini",)),
        ("--config-file ./a/../x.ini", ("x.ini",)),
        ("-p plugs.one -pno:cacheprovider -p no:x -ptwo",
         ("plugs/one.py", "plugs/one/__init__.py", "two.py", "two/__init__.py")),
        ("@list.txt", ("list.txt",)),
        ("--rootdir=a", tuple(f"a/{name}" for name in PYTEST_FILES)),
        ("--confcutdir a", tuple(f"a/{name}" for name in PYTEST_FILES)),
        ("--rootdir=", ()),
        ("-c", ()),
    ],
)  # fmt: skip
def test_what_options_name_is_an_input(tmp_path, options, files):
    inputs = KIND.inputs(spec_of(f"test_a.py {options}"), tmp_path, "host")
    assert set(inputs.files) == {"test_a.py", *PYTEST_FILES, *files}


def test_a_folders_own_configuration_is_an_input(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "conftest.py").touch()
    inputs = KIND.inputs(spec_of("t"), tmp_path, "host")
    assert inputs.files == (*(f"t/{name}" for name in PYTEST_FILES), *PYTEST_FILES)


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


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("pytest.importorskip('no_such_module')", "could not import 'no_such_module': No module named 'no_such_module'"),
        ("pytest.skip('no \\'GPU', allow_module_level=True)", "no 'GPU"),
    ],
)
@pytest.mark.parametrize("workers", ["", " -n1"])
def test_a_module_that_skips_itself_is_unmeasured(run, line, reason, workers):
    outcome, _ = run(f"import pytest\n{line}\ndef test_a(): pass\n", f"tests/test_it.py{workers}")
    assert (outcome.verdict, outcome.reason) == (Verdict.UNMEASURED, f"no test ran, 1 skipped: {reason}")


def test_an_expected_failure_that_is_not_run_is_no_case(run):
    text = "import pytest\n@pytest.mark.xfail(run=False, reason='hangs')\ndef test_a(): pass\n"
    outcome, _ = run(text)
    assert (outcome.verdict, outcome.reason) == (Verdict.UNMEASURED, "no test ran, 1 skipped: [NOTRUN] hangs")
    outcome, _ = run(text + "def test_b(): pass\n")
    assert (outcome.verdict, outcome.reason, outcome.cases) == (Verdict.PASSED, "1 skipped", 1)


NO_SESSION = "pytest ran no test: it stopped early, or has an option such as --collect-only in its configuration"
NO_BODY = "no test was executed: an option such as --setup-only, perhaps in pytest's configuration"
FIRST = "import pytest\ndef test_a(): pass\ndef test_b(): pytest.exit('bye', 0)\ndef test_c(): pass\n"


@pytest.mark.parametrize(
    ("text", "configured", "reason"),
    [
        (FIRST, "", "stopped early: 1 of 3 tests came to an end"),
        ("import pytest\npytest.exit('bye', 0)\n", "", "the tests could not be collected, or were interrupted"),
        ("def test_a(): pass\n", "--collect-only", NO_SESSION),
        ("def test_a(): pass\n", "--setup-only", NO_BODY),
        ("def test_a(): pass\n", "--setup-plan", NO_BODY),
        ("def test_a(): pass\n", "--fixtures", NO_SESSION),
        ("def test_a(): pass\n", "--markers", "pytest wrote no results"),
        ("def test_a(): pass\n", "--help", "pytest wrote no results"),
    ],
)
def test_exit_status_0_alone_is_no_pass(run, text, configured, reason, tmp_path):
    (tmp_path / "root" / "pytest.ini").write_text(f"[pytest]\naddopts = {configured}\n")
    outcome, log = run(text)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, reason), log


@pytest.mark.parametrize("options", ["-n2", "-n2 --dist=loadfile", "-n0", "-x", "--setup-show"])
def test_every_way_of_running_all_is_a_pass(run, options):
    outcome, log = run(
        "import pytest, unittest\n"
        "@pytest.mark.parametrize('n', [1, 2, 3])\n"
        "def test_a(n): pass\n"
        "class A(unittest.TestCase):\n"
        "    def test_b(self): self.assertTrue(True)\n"
        "    def test_c(self): self.skipTest('no')\n",
        f"tests/test_it.py {options}",
    )
    assert (outcome.verdict, outcome.reason, outcome.cases) == (Verdict.PASSED, "1 skipped", 4), log


GREEN = "def pytest_sessionfinish(session, exitstatus): session.exitstatus = 0\n"
SILENT = GREEN + (
    "def pytest_configure(config):\n"
    "    for plugin in list(config.pluginmanager.get_plugins()):\n"
    "        if type(plugin).__name__ == 'LogXML':\n"
    "            plugin.node_reporter = lambda report: __import__('unittest.mock').mock.MagicMock()\n"
)


@pytest.mark.parametrize("workers", ["", " -n 2"])
@pytest.mark.parametrize(
    ("conftest", "text"),
    [
        (GREEN, "def test_a(): pass\ndef test_b(): assert 0\n"),
        (GREEN, "import pytest\n@pytest.fixture\ndef broken(): assert 0\ndef test_a(): pass\ndef test_b(broken): pass\n"),
        (SILENT, "def test_a(): pass\ndef test_b(): assert 0\n"),
    ],
)
def test_a_failure_stays_one_whatever_the_exit_status_was_made_to_say(run, tmp_path, conftest, text, workers):
    (tmp_path / "root" / "tests" / "conftest.py").write_text(conftest)
    outcome, _ = run(text, f"tests/test_it.py{workers}")
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.endswith(" tests failed, though pytest ended with status 0")
    assert outcome.reason.startswith("1 of ")


@pytest.mark.parametrize(
    ("hook", "text", "verdict"),
    [
        ("def pytest_collection_modifyitems(items): items[:] = []\n", "def test_a(): assert 0\n", Verdict.ERROR),
        ("def pytest_runtest_protocol(item, nextitem): return True\n", "def test_a(): assert 0\n", Verdict.ERROR),
        (
            (
                "def pytest_configure(config):\n"
                "    for plugin in list(config.pluginmanager.get_plugins()):\n"
                "        if type(plugin).__name__ == 'Counter': config.pluginmanager.unregister(plugin)\n"
            ),
            "def test_a(): assert 0\n",
            Verdict.FAILED,
        ),
        ("", "import pytest\n@pytest.mark.xfail(strict=True)\ndef test_a(): pass\n", Verdict.FAILED),
        ("", "import pytest\n@pytest.fixture\ndef f():\n    yield\n    assert 0\ndef test_a(f): pass\n", Verdict.FAILED),
    ],
)
def test_no_hook_makes_a_pass_of_what_did_not_pass(run, tmp_path, hook, text, verdict):
    (tmp_path / "root" / "tests" / "conftest.py").write_text(GREEN + hook)
    assert run(text)[0].verdict is verdict


def test_a_module_that_can_t_be_imported_stays_a_failure(run, tmp_path):
    (tmp_path / "root" / "tests" / "conftest.py").write_text(GREEN)
    outcome, _ = run("import nothing_of_that_name\n", "--continue-on-collection-errors tests")
    assert outcome.verdict is not Verdict.PASSED


def test_a_worker_that_stops_early_is_no_pass(run):
    outcome, _ = run(
        "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_a(n): n == 1 and pytest.exit('bye', 0)\n",
        "tests/test_it.py -n2",
    )
    assert outcome.verdict is Verdict.ERROR


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
    outcome = judge(Ended(2, ("KeyboardInterrupt",), matched=True), results, None)
    assert (outcome.verdict, outcome.detail) == (Verdict.ERROR, ("KeyboardInterrupt",))
    assert judge(Ended(-signal.SIGTERM, (), matched=True), None, None).verdict is Verdict.ERROR
