"""A check's worker: every end that a process can come to becomes an outcome."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import ended
from touchgate.checks import CheckSpec
from touchgate.checks.launcher import Launcher, Stopped, log_tail
from touchgate.outcome import Outcome, Verdict


def spec(command: str, *, timeout: float = 60, places: tuple[str, ...] = ("host",)) -> CheckSpec:
    return CheckSpec(
        name="lane:command",
        lane="lane",
        kind="command",
        about="",
        target=command,
        options={},
        places=places,
        suites=("smoke",),
        timeout=timeout,
        where="tasks/lanes.yml:5:9",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path


def launch(folder: Path, command: str, **changes: object) -> tuple[Outcome, str]:
    log = folder / "log"
    launcher = changes.pop("launcher", None) or Launcher()
    place = str(changes.pop("place", "host"))
    environ = changes.pop("environ", {"PATH": os.environ["PATH"]})
    fds = changes.pop("fds", ())
    outcome = launcher.run(
        spec(command, **changes), place=place, root=folder / "root", build_dir=folder, environ=environ, log=log, fds=fds
    )
    return outcome, log.read_text()


def test_a_command_that_succeeds_passes_and_its_output_is_the_log(folder: Path) -> None:
    outcome, log = launch(folder, "echo out; echo err >&2; pwd")
    assert (outcome.verdict, outcome.device) == (Verdict.PASSED, None)
    assert log == f"out\nerr\n{folder / 'root'}\n"


def test_a_check_sees_exactly_the_environment_it_is_given(folder: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "A": "b c", "LC_ALL": "C.UTF-8"}
    _, log = launch(folder, "env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD=", environ=environ)
    assert sorted(log.splitlines()) == ["A=b c", "LC_ALL=C.UTF-8", f"PATH={os.environ['PATH']}"]


def test_a_file_in_the_checkout_named_like_a_library_is_not_imported(folder: Path) -> None:
    for name in ("json", "numpy", "touchgate"):
        (folder / "root" / f"{name}.py").write_text("raise SystemExit(9)\n")
    outcome, _ = launch(folder, "true")
    assert outcome.verdict is Verdict.PASSED


def test_a_check_past_its_time_is_ended_with_its_children(folder: Path) -> None:
    outcome, log = launch(folder, "sleep 300 & echo $!; wait", timeout=1)
    assert outcome.verdict is Verdict.TIMED_OUT
    assert outcome.reason == "stopped after 0.0166667 minutes; its lane's `timeout:` sets the limit (tasks/lanes.yml:5:9)"
    assert ended(int(log.split()[0])), "the child outlived its check"


@pytest.mark.parametrize(
    ("place", "number", "verdict", "reason"),
    [
        ("emulated", signal.SIGSEGV, Verdict.FAILED, "the code under test crashed: SIGSEGV"),
        ("gpu", signal.SIGABRT, Verdict.FAILED, "the code under test crashed: SIGABRT"),
        ("emulated", signal.SIGKILL, Verdict.ERROR, "the worker was ended by SIGKILL"),
        ("host", signal.SIGSEGV, Verdict.ERROR, "the worker was ended by SIGSEGV"),
    ],
)
def test_a_worker_that_dies_by_a_signal(
    folder: Path, place: str, number: signal.Signals, verdict: Verdict, reason: str
) -> None:
    # The command's parent is the worker.
    outcome, _ = launch(folder, f"kill -{int(number)} $PPID; sleep 5", place=place)
    assert (outcome.verdict, outcome.reason) == (verdict, reason)


def test_stop_ends_what_runs_and_starts_nothing_new(folder: Path) -> None:
    launcher = Launcher()
    seen: list[object] = []

    def run() -> None:
        try:
            seen.append(launch(folder, "echo begun > begun; sleep 300", launcher=launcher))
        except Stopped:
            seen.append("stopped")

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 30
    while not (folder / "root" / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    launcher.stop()
    thread.join(30)
    assert seen == ["stopped"]
    with pytest.raises(Stopped):
        launch(folder, "true", launcher=launcher)


def test_descriptors_of_the_lease_reach_the_check(folder: Path) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as reader:
        launch(folder, f"echo held > /dev/fd/{write}", fds=(write,))
        os.close(write)
        assert reader.read() == "held\n"


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"%d \xff\n" % number for number in range(100)))
    assert log_tail(log, 2) == ("98 \ufffd", "99 \ufffd")
    assert log_tail(tmp_path / "none") == ()


def test_an_exception_in_a_checks_own_code_is_an_error_that_names_the_line(folder: Path) -> None:
    (folder / "root" / "kernels").mkdir()
    (folder / "root" / "kernels" / "bad.cu").write_text("")
    (folder / "root" / "kernels" / "bad.py").write_text("import os\n\n1 / 0\n")
    made = CheckSpec(
        name="lane:kernel", lane="lane", kind="kernel", about="", target="kernels/bad.py", options={},
        places=("gpu", "emulated"), suites=("smoke",), timeout=60,
    )  # fmt: skip
    log = folder / "log"
    outcome = Launcher().run(
        made, place="emulated", root=folder / "root", build_dir=folder / "build", environ={"PATH": os.environ["PATH"]}, log=log
    )
    assert (outcome.verdict, outcome.reason) == (
        Verdict.ERROR,
        "kernels/bad.py:3: ZeroDivisionError: division by zero",
    )
    assert "Traceback" in log.read_text()


def test_the_interpreter_of_the_worker_is_ours(folder: Path) -> None:
    _, log = launch(folder, "tr '\\0' '\\n' < /proc/$PPID/cmdline | head -1" if sys.platform == "linux" else "true")
    assert log.strip() in (sys.executable, "")
