"""The kind `command`: declarations, and real shells judged by how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from touchgate.checks import DeclarationFault, Inputs
from touchgate.checks.child import TAIL, Ended, files_below
from touchgate.checks.command import KIND, judge
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane
from touchgate.outcome import Verdict
from touchgate.results.tools import KNOWN

AT = At("tasks/lanes.yml", 6, 9)


@dataclass
class FakeContext:
    root: Path
    temporary: Path
    place: str = "host"
    build_dir: Path = Path("/nonexistent")
    inherited_fds: tuple[int, ...] = ()


def declare(target: str, *, device: str = "any", kind: str = "command", **options: object) -> tuple[Lane, CheckDeclaration]:
    declaration = CheckDeclaration(kind, target, options, AT)
    wish = DeviceWish(device)
    lane = Lane("one", "", (), (), ("smoke", "full"), wish, 30.0, 60.0, ("MARKS",), (declaration,), AT)
    return lane, declaration


def spec_of(target: str, **options: object):
    lane, declaration = declare(target, **options)
    (spec,) = KIND.expand(lane, declaration, Path())
    return spec


@pytest.fixture
def run(tmp_path, capfdbinary):
    """Runs a command check; gives its outcome and its log."""
    (tmp_path / "root").mkdir()
    (tmp_path / "temporary").mkdir()

    def run(target: str, **options: object):
        outcome = KIND.run(spec_of(target, **options), FakeContext(tmp_path / "root", tmp_path / "temporary"))
        sys.stdout.flush()
        return outcome, capfdbinary.readouterr().out

    return run


def test_a_declaration_becomes_one_check():
    spec = spec_of("make check\nmake more", timeout=2)
    assert spec.name == "one:command"
    assert spec.about == "make check ..."
    assert spec.target == "make check\nmake more"
    assert spec.places == ("host",)
    assert spec.suites == ("smoke", "full")
    assert spec.timeout == 120
    assert spec.env == ("MARKS",)
    assert spec.where == "tasks/lanes.yml:6:9"


@pytest.mark.parametrize("device", ["gpu", "host", "hosts"])
def test_a_lane_with_a_device_places_it_on_the_gpu(device):
    assert spec_of("true", device=device).places == ("gpu",)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("  ", {}, "`command` is empty; write the line that /bin/sh is to run"),
        ("a\0b", {}, "`command` holds a NUL character, which no program can be given"),
        ("true", {"expect": "("},
         "`expect` is no regular expression: missing ), unterminated subpattern at position 0"),
        ("true", {"expect": 3}, "`expect` is a regular expression, not 3"),
        ("true", {"expect": ""}, "`expect` is a regular expression, not ''"),
        ("true", {"tools": 3}, "`tools` is a list of names, not 3"),
        ("true", {"tools": ["gcc7"]},
         f"`tools`: 'gcc7' is not known; there are {', '.join(sorted(KNOWN))}"),
        ("true", {"inputs": 3}, "`inputs` is a list of paths, not 3"),
        ("true", {"inputs": [3]}, "`inputs` is a list of paths; 3 is none"),
        ("true", {"inputs": ["../x"]}, "`inputs`: ../x is not below the repository's root; write it from there"),
        ("true", {"inputs": "/etc/passwd"},
         "`inputs`: /etc/passwd is not below the repository's root; write it from there"),
        ("true", {"timeout": 0}, "`timeout` is a number of minutes above 0, not 0"),
        ("true", {"timeout": True}, "`timeout` is a number of minutes above 0, not True"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_says_what_to_do(target, options, message):
    with pytest.raises(DeclarationFault) as fault:
        spec_of(target, **options)
    assert str(fault.value) == message


def test_inputs_are_files_and_all_that_folders_hold(tmp_path):
    for name in (
        "data/b.txt",
        "data/deep/a.txt",
        "data/.hidden",
        "data/.folder/c",
        "data/.git/config",
        "data/__pycache__/x.pyc",
        "data/__pycache__/y.txt",
        "data/z.pyc",
        "elsewhere/d.txt",
        "one.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "data" / "empty").mkdir()
    (tmp_path / "data" / "link").symlink_to("../elsewhere")
    (tmp_path / "data" / "dangling").symlink_to("nowhere")
    (tmp_path / "elsewhere" / "back").symlink_to("../data")
    spec = spec_of("true", inputs=["data", "one.txt", "missing.txt", "one.txt"])
    data = (".folder/c", ".hidden", "__pycache__/y.txt", "b.txt", "dangling", "deep/a.txt", "empty", "link/d.txt", "z.pyc")
    files = (*(f"data/{name}" for name in data), "one.txt", "missing.txt")
    assert KIND.inputs(spec, tmp_path, "host") == Inputs(files=files, tools=("sh",))


def test_a_folder_that_is_too_large_is_left_to_whoever_reads_it(tmp_path, monkeypatch):
    monkeypatch.setattr("touchgate.checks.child.MOST_ENTRIES", 1)
    for name in "ab":
        (tmp_path / "deep" / name).mkdir(parents=True)
    assert files_below(tmp_path, ["deep"]) == ["deep"]


def test_tools_that_are_named_count():
    assert KIND.inputs(spec_of("true", tools=["python", "sh"]), Path(), "host").tools == ("sh", "python")
    assert KIND.inputs(spec_of("true", tools="nvcc"), Path(), "host").tools == ("sh", "nvcc")


def test_files_below_takes_a_suffix(tmp_path):
    (tmp_path / "t" / "empty").mkdir(parents=True)
    (tmp_path / "t" / ".a.py").touch()
    (tmp_path / "t" / "a.txt").touch()
    assert files_below(tmp_path, ["t"], ".py") == ["t/.a.py"]
    assert files_below(tmp_path, ["."], ".py") == ["t/.a.py"]


def test_it_runs_in_the_root_and_its_output_is_the_log(run, tmp_path):
    outcome, log = run("pwd; echo to stderr >&2; printf 'no newline \\377'")
    assert outcome.verdict is Verdict.PASSED
    assert outcome.reason == ""
    assert outcome.detail == ()
    assert log == os.fsencode(tmp_path / "root") + b"\nto stderr\nno newline \xff"


def test_it_reads_nothing_from_the_terminal(run):
    outcome, log = run("cat; echo end")
    assert (outcome.verdict, log) == (Verdict.PASSED, b"end\n")


@pytest.mark.parametrize(
    ("target", "verdict", "reason"),
    [
        ("exit 3", Verdict.FAILED, "exit status 3"),
        ("false", Verdict.FAILED, "exit status 1"),
        ("kill -SEGV $$", Verdict.FAILED, "ended by SIGSEGV"),
        ("sh -c 'kill -SEGV $$'; exit $?", Verdict.FAILED, "ended by SIGSEGV (exit status 139)"),
        ("kill -KILL $$", Verdict.ERROR, "ended by SIGKILL: stopped from outside"),
        ("exit 143", Verdict.ERROR, "ended by SIGTERM (exit status 143): stopped from outside"),
        ("no-such-program-at-all", Verdict.ERROR, "exit status 127: a program of the command was not found"),
        ("./", Verdict.ERROR, "exit status 126: a program of the command can't be executed"),
        ("echo no GPU here; exit 77", Verdict.UNMEASURED,
         "the command says that it tested nothing (exit status 77): no GPU here"),
        ("exit 77", Verdict.UNMEASURED, "the command says that it tested nothing (exit status 77)"),
        ("exit 255", Verdict.FAILED, "exit status 255"),
    ],
)  # fmt: skip
def test_how_it_ends_is_the_verdict(run, target, verdict, reason):
    outcome, _ = run(target)
    assert (outcome.verdict, outcome.reason) == (verdict, reason)


def test_a_failure_shows_the_last_lines(run):
    outcome, log = run("i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); done; exit 1")
    assert outcome.detail == tuple(f"line {number}" for number in range(50 - TAIL, 50))
    assert log.count(b"\n") == 50


def test_expect(run):
    assert run("echo 12 passed in 1 s", expect=r"\b[1-9]\d* passed")[0].verdict is Verdict.PASSED
    outcome, _ = run("echo 0 passed", expect=r"\b[1-9]\d* passed")
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == r"exit status 0, but no line of its output matches `expect: \b[1-9]\d* passed`"
    assert outcome.detail == ("0 passed",)
    # Found early in a long output.
    assert run("echo needle; seq 1000", expect="^needle$")[0].verdict is Verdict.PASSED
    # What failed stays failed.
    assert run("echo 12 passed; exit 1", expect="passed")[0].reason == "exit status 1"


def test_judge_prefers_the_status():
    assert judge(Ended(0, (), matched=True), None) == (Verdict.PASSED, "")
    assert judge(Ended(200, (), matched=True), None) == (Verdict.FAILED, "exit status 200")


def test_a_line_without_end_is_kept_in_parts(run):
    outcome, log = run("head -c 300000 /dev/zero | tr '\\0' x; exit 1")
    assert len(log) == 300000
    assert sum(len(line) for line in outcome.detail) == 300000


def test_the_leases_descriptor_reaches_the_command(tmp_path, capfdbinary):
    reader, writer = os.pipe()
    try:
        spec = spec_of(f"{sys.executable} -c 'import os; os.write({writer}, b\"held\")'")
        context = FakeContext(tmp_path, tmp_path, inherited_fds=(writer,))
        assert KIND.run(spec, context).verdict is Verdict.PASSED
        assert os.read(reader, 100) == b"held"
        context = FakeContext(tmp_path, tmp_path)
        assert KIND.run(spec, context).verdict is Verdict.FAILED
    finally:
        os.close(reader)
        os.close(writer)
    capfdbinary.readouterr()


def test_what_it_leaves_in_the_background_does_not_hold_the_worker(tmp_path):
    spec = spec_of(f"(exec {sys.executable} -c 'import time; print(1, flush=True); time.sleep(30)') & echo $!")
    reply = tmp_path / "reply.json"
    request = {
        "spec": {**spec.__dict__, "options": {}},
        "root": str(tmp_path),
        "place": "host",
        "build_dir": str(tmp_path),
        "temporary": str(tmp_path),
        "reply": str(reply),
        "fds": [],
        "gpu": None,
        "parent": os.getpid(),
    }
    log = tmp_path / "log"
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-c", "from touchgate.checks.worker import main; main()"],
            input=json.dumps(request).encode(),
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=25,
            start_new_session=True,
        )
    lines = log.read_text().splitlines()
    os.kill(next(int(line) for line in lines if line.isdecimal() and line != "1"), 9)
    assert done.returncode == 0, lines
    assert json.loads(reply.read_text())["verdict"] == "passed"
    assert lines[-1] == "touchgate: a process that it left behind holds the output; the rest of it is not kept"
