"""The program that compute-sanitizer watches: which cases it runs, what it writes before, and what it says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hardware.sanitizers import FAULTS, ROOT, caught, marked
from tests.test_checks_kernel import example
from touchgate.checks import sanitizer_child
from touchgate.checks.cases import load_oracle
from touchgate.checks.sanitizers import TOOLS
from touchgate.checks.selection import selected
from touchgate.devices import Unavailable, cuda, emulated
from touchgate.outcome import Outcome, Verdict

PY, CU = "kernels/scale/scale.py", "kernels/scale/scale.cu"
GPU = "NVIDIA H200"
RACE = "tests/hardware/faults/race.cu"
(LINE,) = marked(ROOT / RACE)


@pytest.fixture
def root(tmp_path):
    """A repository with the documented kernel."""
    for name, text in ((CU, example("cuda")), (PY, example("python"))):
        (tmp_path / "repository" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repository" / name).write_text(text)
    return tmp_path / "repository"


class Watched:
    """The emulated device, as a GPU would stand in: what is written into fresh memory is counted."""

    def __init__(self, device):
        self.device = device
        self.name, self.facts = GPU, {"driver": "580"}
        self.written = 0

    def module(self, source):
        return self.device.module(source)

    def buffer(self, size):
        made = self.device.buffer(size)
        write = made.write

        def counted(data):
            self.written += 1
            write(data)

        made.write = counted
        return made

    def close(self):
        self.device.close()


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


@pytest.mark.parametrize(("tool", "ways", "writes"), [("memcheck", 12, 24), ("initcheck", 12, 12)])
def test_the_child_runs_marked_cases_and_writes_what_the_tool_may_see(
    root, build_dir, tmp_path, monkeypatch, tool, ways, writes
):
    text = (root / PY).read_text()
    assert text.count("small=n < 100") == 1
    (root / PY).write_text(text.replace("small=n < 100", "sanitize=n in (31, 33, 257, 1009, 1, 32)"))
    device = Watched(emulated.open_device(build_dir))
    monkeypatch.setattr(cuda, "open_device", lambda folder, uuid: device if (folder, uuid) == (build_dir, "GPU-1") else None)
    request = {"root": str(root), "target": PY, "tool": tool, "build_dir": str(build_dir), "gpu": "GPU-1"}
    request["reply"] = str(tmp_path / "reply.json")
    path = tmp_path / "request"
    path.write_text(json.dumps(request))
    monkeypatch.chdir(tmp_path)
    sanitizer_child.main(str(path))
    outcome = Outcome.from_json(json.loads(Path(request["reply"]).read_text()))
    assert (outcome.verdict, outcome.device, outcome.cases) == (Verdict.PASSED, GPU, 6)
    assert (outcome.facts["trials"], outcome.facts["launches"], device.written) == (ways, ways, writes)
    assert (outcome.facts["watched"], outcome.facts["device"]) == (False, {"driver": "580"})


def test_the_child_says_what_is_missing_and_what_it_meets(root, tmp_path, monkeypatch):
    request = {"root": str(root), "target": PY, "tool": "memcheck", "build_dir": "b", "gpu": None}
    request["reply"] = str(tmp_path / "reply.json")
    path = tmp_path / "request"
    path.write_text(json.dumps(request))
    monkeypatch.chdir(tmp_path)
    for error, verdict, reason in (
        (Unavailable("no PyCUDA"), "unmeasured", "no PyCUDA"),
        (RuntimeError("one\ntwo"), "error", "RuntimeError: one"),
    ):

        def opened(*_, error=error, **__):
            raise error

        monkeypatch.setattr(cuda, "open_device", opened)
        sanitizer_child.main(str(path))
        reply = json.loads(Path(request["reply"]).read_text())
        assert (reply["verdict"], reply["reason"]) == (verdict, reason)


def test_a_library_of_the_tool_in_the_process_is_what_watches(tmp_path):
    maps = tmp_path / "maps"
    for text, holds in (
        ("7f0 r-xp 00 /usr/local/cuda-13.0/compute-sanitizer/libsanitizer-collection.so\n", True),
        ("7f0 r-xp 00 /usr/lib/libcuda.so.1\n7f1 rw-p 00\n", False),
        ("7f0 r-xp 00 /usr/local/cuda/compute-sanitizer/libother.so\n", False),
        ("7f0 r-xp 00 /work/sanitizers.py\n", False),
    ):
        maps.write_text(text)
        assert sanitizer_child.watched(maps) is holds
    assert not sanitizer_child.watched(tmp_path / "none")


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"place": {"file": "tests/hardware/faults/race.cu", "line": 7}, "other": {"file": RACE, "line": LINE}}, True),
        ({"kind": "memory"}, False),
        ({"kernel": ""}, False),
        ({"place": {"file": RACE, "line": LINE + 1}}, False),
        ({"place": {"file": "elsewhere.cu", "line": LINE}}, False),
        ({"thread": ""}, False),
        ({"block": ""}, False),
    ],
)
def test_a_planted_fault_is_found_by_kind_kernel_line_and_thread(changes, holds):
    finding = {"kind": "race", "what": "hazard", "kernel": "race", "place": {"file": RACE, "line": LINE}, "other": None}
    finding |= {"thread": "(0,0,0)", "block": "(0,0,0)", **changes}
    facts = {"findings": [{**finding, "kind": "sync"}, finding]}
    assert caught(Outcome(Verdict.FAILED, facts=facts), "racecheck") is holds
    assert not caught(Outcome(Verdict.FAILED), "racecheck")
    assert not caught(Outcome(Verdict.ERROR, facts=facts), "racecheck")


LINES = {"out_of_bounds": [6], "race": [9], "uninitialised": [5], "divergent": [9, 13, 17]}


def test_every_tool_has_options_and_a_planted_fault():
    assert list(FAULTS) == list(TOOLS)
    for kernel, _, _ in FAULTS.values():
        folder = ROOT / "tests" / "hardware" / "faults"
        assert marked(folder / f"{kernel}.cu") == LINES[kernel]
        oracle = load_oracle(folder / f"{kernel}.py")
        (case,) = selected(oracle, list(oracle.cases()))
        assert case.places == ("gpu",)
        assert f'extern "C" __global__ void {kernel}(' in (folder / f"{kernel}.cu").read_text()
