"""`doit` with `sanitizers` checks, on a host that only says that it has a GPU, by a compute-sanitizer of ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.gpu_host import gpu_host
from tests.test_sanitizer_text import CLEAN, MEMORY
from touchgate.checks.sanitizers import FOUND

TOOL = f"""#!{sys.executable}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
if sys.argv[1:] == ["--version"]:
    print("NVIDIA (R) Compute Sanitizer\\nVersion 2025.3.1.0 (build BUILD) (public-release)")
    sys.exit()
request = json.loads(pathlib.Path(sys.argv[-1]).read_text())
with (here / "ran").open("a") as ran:
    print(request["tool"], os.environ["CUDA_VISIBLE_DEVICES"], bool(os.environ["TOUCHGATE_LEASE_TOKEN"]), file=ran)
reply = {{"verdict": "passed", "device": "NVIDIA H200", "cases": 6, "facts": {{"launches": 12, "watched": True}}}}
pathlib.Path(request["reply"]).write_text(json.dumps(reply))
faulty = (here / "faulty").exists() and request["tool"] == "memcheck"
text = {MEMORY!r} if faulty else {CLEAN!r}
pathlib.Path(sys.argv[sys.argv.index("--log-file") + 1]).write_text(text)
sys.exit({FOUND} if faulty else 0)
"""
LANES = "lanes:\n  k: {paths: [k/**], device: gpu, checks: [sanitizers: k/k.py]}\n"
TOOLS = ("initcheck", "memcheck", "racecheck", "synccheck")
RAN = [f"{tool} GPU-aaaa True" for tool in TOOLS]
"""What is in the tool's own notes when each ran once, on the GPU that was granted, and under the lease."""


@pytest.fixture
def host(project: Project, tmp_path: Path) -> Project:
    project.environ.update(gpu_host(tmp_path / "gpu", ("GPU-aaaa", "GPU-bbbb"), project.environ))
    project.environ["CUDA_HOME"] = str(tmp_path / "none")
    for name, text in (("k/k.py", "ORACLE = None\n"), ("k/k.cu", "// kernels\n"), ("tasks/lanes.yml", LANES)):
        project.write(name, text)
    project.commit()
    return project


def tool(host: Project, build: str = "1") -> Path:
    """Put the tool beside nvcc; the folder."""
    folder = Path(host.environ["PATH"].partition(":")[0])
    (folder / "compute-sanitizer").write_text(TOOL.replace("BUILD", build))
    (folder / "compute-sanitizer").chmod(0o755)
    (folder / "ran").write_text("")
    return folder


def ran(folder: Path) -> list[str]:
    return sorted((folder / "ran").read_text().splitlines())


def run(host: Project, *arguments: str):
    """A run of suite full: its exit code, and of each check the verdict, whether it was reused, and device and reason."""
    folder = host.root.parent / "report"
    done = host.doit("--suite", "full", "--report-dir", str(folder), *arguments)
    assert done.stderr == ""
    checks = json.loads((folder / "result.json").read_text())["checks"]
    assert [one["name"] for one in checks] == [f"k:{tool}" for tool in TOOLS]
    return done.returncode, [(one["verdict"], one["cached"], one["device"], one["reason"]) for one in checks]


def test_each_tool_runs_under_the_lease_and_is_reused_until_the_tool_changes(host):
    folder = tool(host)
    passed = ("passed", False, "NVIDIA H200", "")
    assert run(host) == (0, [passed] * 4)
    assert ran(folder) == RAN
    assert run(host) == (0, [("passed", True, "NVIDIA H200", "")] * 4)
    assert ran(folder) == RAN
    tool(host, build="2")
    assert run(host) == (0, [passed] * 4)
    assert ran(folder) == RAN


def test_a_fault_is_the_run_s_failure_and_its_alone(host):
    folder = tool(host)
    (folder / "faulty").write_text("")
    code, checks = run(host)
    assert (code, [verdict for verdict, _, _, _ in checks]) == (1, ["passed", "failed", "passed", "passed"])
    assert checks[1][3].startswith("memcheck: Invalid __global__ write of size 4 bytes, out of bounds: scale, ")
    (folder / "faulty").unlink()
    (folder / "ran").write_text("")
    code, checks = run(host)
    assert (code, [cached for _, cached, _, _ in checks]) == (0, [True, False, True, True])
    assert ran(folder) == [RAN[1]]


def test_without_the_tool_and_without_a_gpu_they_are_unmeasured(host):
    missing = "no compute-sanitizer: install cuda-sanitizer-13-0 or the whole CUDA toolkit, "
    missing += "and put it on PATH or its folder into CUDA_HOME"
    assert run(host) == (2, [("unmeasured", False, None, missing)] * 4)
    tool(host)
    asked = "asked for with --device emulated"
    assert run(host, "--device", "emulated") == (2, [("unmeasured", False, None, asked)] * 4)
