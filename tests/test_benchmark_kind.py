"""The kind `benchmark`: what a declaration stands for, what its result depends on, and what the plan adds."""

import os
import subprocess

import pytest

from touchgate.checks import DeclarationFault
from touchgate.checks.benchmark import KIND
from touchgate.checks.registry import KnownOptions, kind
from touchgate.checks.worker import run as work
from touchgate.devices import probe
from touchgate.edge.devices import DeviceChoice
from touchgate.edge.options import RunOptions
from touchgate.edge.planning import Keyring, PlannedCheck, declare, place_of, plan_checks, plan_lanes
from touchgate.gate.git import Repository
from touchgate.gate.model import At, Change, CheckDeclaration, DeviceWish, Lane
from touchgate.outcome import Verdict
from touchgate.results.store import ResultStore

HERE = At("tasks/kernels.yml", 7, 9)
TARGET = "kernels/k/k.py"
FILES_OF_K = ("kernels/c/a.cuh", "kernels/k/k.cu", "kernels/k/k.py", "kernels/k/more.py")


def lane_of(target=TARGET, **options):
    check = CheckDeclaration("benchmark", target, options, HERE)
    return Lane("k", "k", (), (), ("smoke", "full"), DeviceWish(), 30, 60, ("HF_HOME",), (check,), HERE)


@pytest.fixture
def root(tmp_path):
    for name, text in {"k.py": "from . import more\n", "more.py": "", "k.cu": '#include "../c/a.cuh"\n'}.items():
        (tmp_path / "kernels/k").mkdir(parents=True, exist_ok=True)
        (tmp_path / "kernels/k" / name).write_text(text)
    (tmp_path / "kernels/c").mkdir()
    (tmp_path / "kernels/c/a.cuh").write_text("")
    return tmp_path


def spec_of(root, **options):
    lane = lane_of(**options)
    (spec,) = KIND.expand(lane, lane.checks[0], root)
    return spec


def test_one_check_on_a_gpu_in_two_suites(root):
    spec = spec_of(root, samples=7)
    assert (spec.name, spec.kind, spec.target, spec.places) == ("k:benchmark", "benchmark", TARGET, ("gpu",))
    assert (spec.suites, spec.options, spec.timeout) == (("performance", "full"), {"samples": 7}, 3600)
    assert (spec.env, spec.where) == (("HF_HOME",), "tasks/kernels.yml:7:9")
    assert kind("benchmark") is KIND
    assert KnownOptions()["benchmark"] == {"samples", "warmups", "repetitions", "blocks"}


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("kernels/k/k.cu", {}, "'kernels/k/k.cu' is not an oracle file: its name must end in .py"),
        ("../k.py", {}, "'../k.py' is not below the repository's root"),
        ("kernels/k/no.py", {}, "there is no oracle file 'kernels/k/no.py'"),
        ("kernels/k/more.py", {}, "there is no kernel file beside the oracle file 'kernels/k/more.cu'"),
        (TARGET, {"blocks": 7}, "'blocks' must be a whole number from 8 to 1000, not 7"),
        (TARGET, {"samples": 0}, "'samples' must be a whole number from 1 to 1000, not 0"),
        (TARGET, {"samples": True}, "'samples' must be a whole number from 1 to 1000, not True"),
        (TARGET, {"warmups": "2"}, "'warmups' must be a whole number from 0 to 1000, not '2'"),
    ],
)
def test_mistakes_in_a_declaration(root, target, options, said):
    lane = lane_of(target, **options)
    with pytest.raises(DeclarationFault) as fault:
        list(KIND.expand(lane, lane.checks[0], root))
    assert str(fault.value) == f"benchmark: {said}"


def test_what_a_result_depends_on(root):
    found = KIND.inputs(spec_of(root), root, "gpu")
    assert {"kernels/c/a.cuh", "kernels/k/k.cu", "kernels/k/k.py", "kernels/k/more.py"} <= set(found.files)
    assert set(found.tools) == {"python", "numpy", "nvcc", "pycuda"}


def test_without_a_gpu_it_has_no_place(root):
    why = "no NVIDIA driver on this machine"
    assert place_of(spec_of(root), DeviceChoice(None, why, gpu_only=False)) == (None, why)


def test_without_pycuda_it_is_unmeasured(root, monkeypatch):
    """Never emulated: an emulated time says nothing."""
    from touchgate.devices import Unavailable, cuda

    def missing(*_, **__):
        raise Unavailable("no PyCUDA")

    monkeypatch.setattr(cuda, "open_device", missing)
    spec = spec_of(root)
    request = {"spec": {name: getattr(spec, name) for name in spec.__dataclass_fields__}, "root": str(root)}
    more = {"place": "gpu", "build_dir": str(root), "temporary": str(root), "fds": [], "gpu": None}
    outcome = work({**request, **more})
    assert (outcome.verdict, outcome.reason) == (Verdict.UNMEASURED, "no PyCUDA")


@pytest.fixture
def repo(root):
    def git(*words):
        command = ["git", "-c", "user.name=n", "-c", "user.email=e", *words]
        subprocess.run(command, cwd=root, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "one")
    with Repository(root) as found:
        yield found


def change(merge_base, reason=None):
    return Change(None, None, merge_base, "", "", "", True, (), reason)


def test_the_base_is_part_of_the_key(repo, root):
    """By its files' ids: the key is another when the base's kernel is, and the same when only the base moved."""
    lane = lane_of()
    ring = Keyring(repo, {"k": lane}, {"PATH": os.defpath}, DeviceChoice(None, "", gpu_only=False))

    def key(commit):
        spec = ring.with_base(spec_of(root), change(commit))
        return ring.keys([PlannedCheck(spec, "host")])["k:benchmark"]

    def committed(name, text):
        (root / name).write_text(text)
        for words in (["add", "-A"], ["commit", "-qm", "more"]):
            command = ["git", "-c", "user.name=n", "-c", "user.email=e", *words]
            subprocess.run(command, cwd=root, check=True, capture_output=True)
        return repo.head()

    first = repo.head()
    other = committed("kernels/c/a.cuh", "// more\n")
    unrelated = committed("README", "more\n")
    assert key(other).digest == key(unrelated).digest
    assert key(first).digest != key(other).digest
    assert list(key(other).parts["declaration"]["options"]["base"]) == ["files"]


def test_an_unknown_base_is_said(repo, root):
    ring = Keyring(repo, {}, {}, DeviceChoice(None, "", gpu_only=False))
    spec = ring.with_base(spec_of(root), change(None, "no merge base is known"))
    assert spec.options == {"base": {"fault": "no merge base is known"}}


LANES = """
lanes:
  k:
    about: k
    paths: [kernels/**]
    checks:
      - kernel: kernels/k/k.py
      - benchmark: kernels/k/k.py
"""


@pytest.mark.parametrize("gpu", [probe.Gpu("NVIDIA H200", "GPU-a"), None])
def test_the_plan_names_the_base_where_it_can_be_measured(repo, root, tmp_path_factory, gpu):
    """Of a change in suite performance; the smoke suite has no benchmark."""
    (root / "tasks").mkdir()
    (root / "tasks/k.yml").write_text(LANES)
    base = repo.head()
    (root / "kernels/c/a.cuh").write_text("// changed\n")
    choice = DeviceChoice(gpu, "" if gpu else "no GPU", gpu_only=False)
    environ = {"PATH": os.environ["PATH"]}
    declared = declare(repo, environ, base=base, head=None)
    ring = Keyring(repo, declared.head, environ, choice)
    store = ResultStore(tmp_path_factory.mktemp("results"), str(root))
    planned = {}
    for suite in ("smoke", "performance"):
        options = RunOptions(suite=suite, environ=environ)
        checks = plan_checks(declared, plan_lanes(declared, options), options, ring, store)
        planned[suite] = {check.spec.name: check for check in checks}
    assert "k:benchmark" not in planned["smoke"]
    check = planned["performance"]["k:benchmark"]
    assert check.place == ("gpu" if gpu else None)
    ids = {name: repo.entry(base, name).id for name in FILES_OF_K}
    assert check.spec.options == ({"base": {"files": ids}} if gpu else {})
