"""The check kind `sanitizers`, over a compute-sanitizer of ours that writes what it is told to, and ends as it is told to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import ended
from tests.test_sanitizer_text import CLEAN, CLEAN_RACES, MEMORY, hazard
from touchgate.checks import DeclarationFault, Inputs
from touchgate.checks.launcher import Launcher
from touchgate.checks.sanitizers import FOUND, KIND, options_of
from touchgate.devices import BuildFault, Unavailable
from touchgate.devices.probe import Gpu, Seen
from touchgate.gate.model import At, CheckDeclaration, DeviceWish, Lane
from touchgate.outcome import Outcome, Verdict

HERE = At("tasks/kernels.yml", 8, 9)
PY, CU = "kernels/scale/scale.py", "kernels/scale/scale.cu"
GPU = "NVIDIA H200"
PASS = Outcome(Verdict.PASSED, device=GPU, cases=6, worst={"error": 0.0}, facts={"launches": 12, "watched": True})
VERSION = "NVIDIA (R) Compute Sanitizer\nVersion 2025.3.1.0 (build 36400806) (public-release)"

TOOL = f"""#!{sys.executable}
import json, os, pathlib, subprocess, sys, time
here = pathlib.Path(__file__).parent
plan = json.loads((here / "plan.json").read_text())
if sys.argv[1:] == ["--version"]:
    print({VERSION!r})
    sys.exit()
(here / "seen.json").write_text(json.dumps(sys.argv[1:]))
request = json.loads(pathlib.Path(sys.argv[-1]).read_text())
(here / "request.json").write_text(json.dumps(request))
print(plan.get("said", "n=1"), flush=True)
if plan.get("reply"):
    pathlib.Path(request["reply"]).write_text(json.dumps(plan["reply"]))
if plan.get("text") is not None:
    pathlib.Path(sys.argv[sys.argv.index("--log-file") + 1]).write_text(plan["text"])
(here / "fds").write_text(json.dumps([fd for fd in plan.get("fds", ()) if os.path.exists("/dev/fd/%d" % fd)]))
if plan.get("hang"):
    child = subprocess.Popen(["sleep", "60"])
    (here / "pids").write_text(f"{{os.getpid()}} {{child.pid}}")
    time.sleep(60)
sys.exit(plan.get("status", 0))
"""


def lane_of(*targets: str, **options) -> Lane:
    checks = tuple(CheckDeclaration("sanitizers", target, options, HERE) for target in targets)
    return Lane("scale", "", (), (), ("smoke", "full"), DeviceWish(), 30, 60, ("HF_HOME",), checks, HERE)


def specs(root: Path, *targets: str, **options):
    lane = lane_of(*(targets or (PY,)), **options)
    return [spec for declaration in lane.checks for spec in KIND.expand(lane, declaration, root)]


@dataclass
class Machine:
    """A kernel and its oracle in a repository, which nothing runs, and a toolkit of scripts."""

    root: Path
    toolkit: Path
    temporary: Path

    def plan(self, **what) -> None:
        reply = what.pop("reply", PASS)
        (self.toolkit / "plan.json").write_text(json.dumps({**what, "reply": reply and reply.to_json()}))

    def run(self, tool: str = "memcheck", **changes):
        context = SimpleNamespace(
            root=self.root,
            place="gpu",
            gpu="GPU-1",
            build_dir=self.temporary / "build",
            temporary=self.temporary,
            inherited_fds=(),
        )
        context.__dict__.update(changes)
        return KIND.run(next(spec for spec in specs(self.root) if spec.options["tool"] == tool), context)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = Machine(tmp_path / "repository", tmp_path / "cuda" / "bin", tmp_path / "temporary")
    for name, text in ((CU, "// kernels\n"), (PY, "ORACLE = None\n")):
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        (made.root / name).write_text(text)
    made.toolkit.mkdir(parents=True)
    made.temporary.mkdir()
    nvcc = '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\n'
    for name, text in (("compute-sanitizer", TOOL), ("nvcc", nvcc)):
        (made.toolkit / name).write_text(text)
        (made.toolkit / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{made.toolkit}:/usr/bin:/bin")
    made.plan(text=CLEAN)
    return made


# ---- what is declared


def test_one_declaration_stands_for_a_check_of_each_tool(machine):
    found = [(one.name, one.kind, one.target, dict(one.options), one.places, one.suites) for one in specs(machine.root)]
    assert found == [
        (f"scale:{tool}", "sanitizers", PY, {"tool": tool}, ("gpu",), ("full",))
        for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
    ]
    spec = specs(machine.root)[0]
    assert (spec.timeout, spec.env, spec.where) == (3600, ("HF_HOME",), "tasks/kernels.yml:8:9")
    assert spec.about == f"{CU} under compute-sanitizer: accesses out of bounds and misaligned ones"


def test_tools_can_be_named_each_once(machine):
    names = [spec.name for spec in specs(machine.root, tools=["synccheck", "memcheck", "synccheck"])]
    assert names == ["scale:synccheck", "scale:memcheck"]


@pytest.mark.parametrize("value", [[], "memcheck", ["memchek"], [1], ["memcheck", None], {}, 3])
def test_other_tools_are_a_mistake_in_words(machine, value):
    with pytest.raises(
        DeclarationFault, match=r"^sanitizers: 'tools' must be a list out of memcheck, racecheck, initcheck, synccheck"
    ):
        specs(machine.root, tools=value)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (CU, f"'{CU}' is not an oracle file: its name must end in .py"),
        ("kernels/scale/none.py", "there is no oracle file 'kernels/scale/none.py'"),
        ("../scale.py", "'../scale.py' is not below the repository's root"),
    ],
)
def test_a_bad_target_is_said_in_words(machine, target, message):
    with pytest.raises(DeclarationFault) as caught:
        specs(machine.root, target)
    assert str(caught.value) == f"sanitizers: {message}"


def test_two_kernels_of_a_lane_are_told_apart(machine):
    for name in (CU, PY):
        text = (machine.root / name).read_text()
        (machine.root / name.replace("scale/scale", "scale/other")).write_text(text)
    names = [spec.name for spec in specs(machine.root, PY, "kernels/scale/other.py")]
    assert names[:2] == ["scale:memcheck:scale", "scale:racecheck:scale"]
    assert len(names) == len(set(names)) == 8


def test_the_tool_and_its_options_are_in_the_key(machine):
    for spec in specs(machine.root):
        tool = spec.options["tool"]
        inputs = KIND.inputs(spec, machine.root, "gpu")
        assert inputs == Inputs(
            (CU, PY), ("python", "numpy", "nvcc", "pycuda", "compute-sanitizer"), {"sanitizer": " ".join(options_of(tool))}
        )
        assert inputs.extra["sanitizer"].startswith(f"--tool {tool} --error-exitcode 86 ")


# ---- a run


def test_a_clean_run_passes_with_its_cases(machine, capfd):
    outcome = machine.run()
    assert replace(outcome, facts={}) == Outcome(Verdict.PASSED, device=GPU, cases=6)
    assert outcome.facts == {
        **PASS.facts,
        "tool": "memcheck",
        "sanitizer": "2025.3.1.0",
        "options": " ".join(options_of("memcheck")),
    }
    assert capfd.readouterr().out == f"n=1\n{CLEAN}"
    seen = json.loads((machine.toolkit / "seen.json").read_text())
    report = seen.index("--log-file")
    assert tuple(seen[:report]) == options_of("memcheck")
    python, dash_c, code = seen[report + 2 : -1]
    assert (python, dash_c) == (sys.executable, "-c")
    # A file of the checkout that is named like a library is not imported in its stead.
    assert repr(str(machine.root)) not in code
    assert code.endswith("; main(sys.argv[1])")
    subprocess.run([python, "-c", code.replace("main(sys.argv[1])", "assert callable(main)")], check=True)
    assert json.loads((machine.toolkit / "request.json").read_text()) == {
        "root": str(machine.root),
        "target": PY,
        "tool": "memcheck",
        "build_dir": str(machine.temporary / "build"),
        "gpu": "GPU-1",
        "reply": str(machine.temporary / "memcheck.json"),
    }


def test_the_kernel_is_compiled_before_for_the_gpu_that_is_used(machine, monkeypatch):
    gpus = tuple(
        Gpu(name, uuid, capability=sm)
        for name, uuid, sm in (("A", "GPU-0a", "8.0"), ("B", "GPU-1b", "9.0"), ("C", "GPU-2c", None))
    )
    monkeypatch.setattr("touchgate.devices.probe.look", lambda _: Seen(gpus, gpus))
    built = []

    def build(source, arch, folder):
        built.append((source, arch, folder))
        raise BuildFault("what is wrong with the source the program says")

    monkeypatch.setattr("touchgate.devices.nvcc.build_cubin", build)
    for gpu in ("gpu-1", None, "GPU-2", "GPU-7"):
        assert machine.run(gpu=gpu).verdict is Verdict.PASSED
    folder = machine.temporary / "build"
    assert built == [(machine.root / CU, "sm_90", folder), (machine.root / CU, "sm_80", folder)]


def test_racecheck_has_a_summary_of_its_own(machine):
    machine.plan(text=CLEAN_RACES)
    assert machine.run("racecheck").verdict is Verdict.PASSED


def test_a_fault_fails_with_all_evidence(machine):
    text = MEMORY.replace("/home/ada/k/tail.cuh", f"{machine.root}/{CU}").replace(
        "/home/ada/k/team.cu", "/other/clone/team.cu"
    )
    failed = replace(PASS, verdict=Verdict.FAILED, reason="n=1: x", detail=("n=1: aligned, seed 1", "scale: launch failed"))
    machine.plan(text=text, status=FOUND, reply=failed)
    outcome = machine.run()
    first = (
        f"memcheck: Invalid __global__ write of size 4 bytes, out of bounds: scale, {CU}:12, "
        "thread (40,0,0), block (3,0,0) (2 times)"
    )
    assert (outcome.verdict, outcome.device, outcome.cases, outcome.reason) == (Verdict.FAILED, GPU, 6, first)
    assert outcome.detail == (
        first,
        "   Access to 0x7f1e2fa00fa0 is out of bounds",
        "   and is 1 bytes after the nearest allocation at 0x7f1e2fa00000 of size 4,000 bytes",
        (
            "memcheck: Invalid __shared__ read of size 16 bytes, misaligned: team, /other/clone/team.cu:7, "
            "thread (0,0,0), block (0,2,1)"
        ),
        "the launch that failed of it:",
        "n=1: aligned, seed 1",
        "scale: launch failed",
    )
    kernels = [(one["kind"], one["kernel"], one["place"]["file"], one["count"]) for one in outcome.facts["findings"]]
    assert kernels == [("memory", "scale", CU, 2), ("memory", "team", "/other/clone/team.cu", 1)]


def test_a_race_fails_though_every_value_is_right(machine):
    summary = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
    machine.plan(text=f"========= COMPUTE-SANITIZER\n{hazard(33, 0)}{summary}", status=FOUND)
    outcome = machine.run("racecheck")
    assert (outcome.verdict, outcome.reason) == (
        Verdict.FAILED,
        "racecheck: Potential RAW hazard detected: sum, /k/sum.cu:16 and /k/sum.cu:20, thread (33,0,0), block (2,0,0)",
    )


def test_a_missing_tool_is_unmeasured_and_names_the_package(machine, monkeypatch):
    monkeypatch.setattr("touchgate.devices.nvcc.STANDARD_HOME", str(machine.temporary))
    (machine.toolkit / "compute-sanitizer").unlink()
    with pytest.raises(Unavailable, match=r"^no compute-sanitizer: install cuda-sanitizer-13-0 or the whole CUDA toolkit"):
        machine.run()


def test_a_tool_that_does_not_start_is_unmeasured(machine):
    (machine.toolkit / "compute-sanitizer").write_text("#!/nowhere/python\n")
    with pytest.raises(Unavailable, match="compute-sanitizer does not start"):
        machine.run()


def test_the_lease_s_descriptors_are_handed_on(machine):
    read, write = os.pipe()
    machine.plan(text=CLEAN, fds=[read, write])
    for fds in ((), (write,), (read, write)):
        assert machine.run(inherited_fds=fds).verdict is Verdict.PASSED
        assert json.loads((machine.toolkit / "fds").read_text()) == list(fds)
    os.close(read)
    os.close(write)


def test_the_tool_and_its_program_end_with_the_check(machine):
    machine.plan(hang=True, reply=None)
    spec = replace(specs(machine.root)[0], timeout=2.0)
    environ = {"PATH": os.environ["PATH"], "CUDA_HOME": str(machine.toolkit.parent)}
    began = time.monotonic()
    outcome = Launcher().run(
        spec, place="gpu", root=machine.root, build_dir=machine.temporary, environ=environ, log=machine.temporary / "log"
    )
    assert (outcome.verdict, time.monotonic() - began < 15) == (Verdict.TIMED_OUT, True)
    pids = [int(pid) for pid in (machine.toolkit / "pids").read_text().split()]
    assert len(pids) == 2
    assert all(ended(pid) for pid in pids)
