"""Which GPU is found, and what is said where there is none."""

import importlib.util
import sys
import types
from pathlib import Path

import pytest

from touchgate.devices import nvcc, probe
from touchgate.devices.probe import Choice, Gpu

H200 = Gpu("NVIDIA H200", "GPU-aaaa1111", 0, "580.65.06", "9.0", ecc=True, mig=False, memory=150_754_820_096)
SECOND = Gpu("NVIDIA H200", "GPU-aabb2222", 1, "580.65.06", "9.0", ecc=True, mig=False, memory=150_754_820_096)


class FakeNvml(types.ModuleType):
    """pynvml with these GPUs; what one does not have raises NVMLError."""

    class NVMLError(Exception):
        pass

    def __init__(self, rows, broken=""):
        super().__init__("pynvml")
        self.rows, self.broken, self.open = rows, broken, 0

    def nvmlInit(self):  # noqa: N802
        if self.broken:
            raise self.NVMLError(self.broken)
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def __getattr__(self, name):
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def ask(handle=None):
            answers = {"nvmlDeviceGetCount": len(self.rows), "nvmlSystemGetDriverVersion": b"580.65.06"}
            answer = answers.get(name) if name in answers else self.rows[handle].get(name)
            if answer is None:
                raise self.NVMLError("Not Supported")
            return answer

        return (lambda index: index) if name == "nvmlDeviceGetHandleByIndex" else ask


def nvml_row(uuid="GPU-aaaa1111"):
    return {
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetUUID": uuid,
        "nvmlDeviceGetCudaComputeCapability": (9, 0),
        "nvmlDeviceGetEccMode": (1, 1),
        "nvmlDeviceGetMigMode": (0, 0),
        "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=150_754_820_096),
    }


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A host with a driver, PyCUDA and nvcc; what is missing is switched off by the test."""
    state = types.SimpleNamespace(nvml=None, pycuda=True, nvcc=True, driver=True)
    real = importlib.util.find_spec

    def find_spec(name, *rest):
        if name in ("pynvml", "pycuda"):
            return object() if getattr(state, "nvml" if name == "pynvml" else name) else None
        return real(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    monkeypatch.setattr(probe, "_driver_present", lambda environ: state.driver)
    monkeypatch.setattr(nvcc, "find", lambda environ: Path("/cuda/bin/nvcc") if state.nvcc else None)

    def find(nvml=None, environ=None):
        state.nvml = nvml
        if nvml is not None:
            monkeypatch.setitem(sys.modules, "pynvml", nvml)
        found = probe.choose("auto", {"PATH": str(tmp_path), **(environ or {})})
        return found.gpu or found.reason

    state.find, state.path = find, tmp_path
    return state


def test_nvml_tells_all(host):
    nvml = FakeNvml([nvml_row(), nvml_row("GPU-aabb2222")])
    assert host.find(nvml) == H200
    assert nvml.open == 0
    assert host.find(nvml, {"CUDA_VISIBLE_DEVICES": "1"}) == SECOND
    assert host.find(nvml, {"CUDA_VISIBLE_DEVICES": "GPU-aab"}) == SECOND


def test_an_integrated_gpu_leaves_fields_open(host):
    row = {"nvmlDeviceGetName": b"NVIDIA GB10", "nvmlDeviceGetCudaComputeCapability": (12, 1)}
    found = host.find(FakeNvml([row]))
    assert found == Gpu("NVIDIA GB10", driver="580.65.06", capability="12.1")
    assert found.line() == "NVIDIA GB10 (sm_121, driver 580.65.06)"
    assert found.key_facts()["memory"] is None


def test_nvidia_smi_stands_in(host):
    program = host.path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n"
        "echo 'GPU-aaaa1111, NVIDIA H200, 580.65.06, 9.0, Enabled, Disabled, 143771, 0'\n"
        "echo '[N/A], Orin (nvgpu), 540.3.0, 8.7, [N/A], [N/A], [N/A], 1'\n"
    )
    program.chmod(0o755)
    assert host.find() == Gpu("NVIDIA H200", "GPU-aaaa1111", 0, "580.65.06", "9.0", True, False, 143771 << 20)
    assert host.find(None, {"CUDA_VISIBLE_DEVICES": "1"}) == Gpu("Orin (nvgpu)", None, 1, "540.3.0", "8.7")
    assert host.find(FakeNvml([], broken="Driver/library version mismatch")).uuid == "GPU-aaaa1111"
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate'; exit 9\n")
    assert host.find() == "nvidia-smi: NVIDIA-SMI has failed because it could not communicate"


@pytest.mark.parametrize(
    ("change", "environ", "told"),
    [
        ({"driver": False}, {}, "no NVIDIA driver on this machine"),
        ({"pycuda": False}, {}, "PyCUDA is not installed: pip install 'touchgate[cuda]'"),
        ({"nvcc": False}, {}, nvcc.MISSING),
        ({}, {"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES='' hides every GPU"),
        ({}, {"CUDA_VISIBLE_DEVICES": "-1"}, "CUDA_VISIBLE_DEVICES='-1' hides every GPU"),
        ({}, {"CUDA_VISIBLE_DEVICES": "7"}, "CUDA_VISIBLE_DEVICES='7' names no GPU of this host"),
    ],
)
def test_why_there_is_none(host, change, environ, told):
    vars(host).update(change)
    assert host.find(FakeNvml([nvml_row()]), environ) == told


def test_a_driver_without_a_gpu_or_a_voice(host):
    assert host.find(FakeNvml([])) == "the NVIDIA driver shows no GPU"
    assert host.find(FakeNvml([], broken="Driver Not Loaded")) == "the NVIDIA driver does not answer: Driver Not Loaded"
    assert host.find() == "nvidia-ml-py is not installed: pip install 'touchgate[cuda]'"


@pytest.mark.parametrize(
    ("visible", "shown"),
    [
        (None, [H200, SECOND]),
        ("0,1", [H200, SECOND]),
        ("1,0", [SECOND, H200]),
        ("0,-1,1", [H200]),
        ("0,9,1", [H200]),
        ("1,1", [SECOND]),
        ("GPU-AABB", [SECOND]),
        ("GPU-aa", []),  # two begin like this
        ("MIG-x", []),
        ("", []),
        (" 1 , 0 ", [SECOND, H200]),
    ],
)
def test_visible_devices(visible, shown):
    assert probe.visible_of([H200, SECOND], visible) == shown


def test_without_a_driver_nothing_is_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "exists", lambda path: False)
    monkeypatch.setattr(probe, "_ask", lambda environ: pytest.fail("asked a driver that is not there"))
    assert probe.choose("auto", {"PATH": str(tmp_path)}) == Choice(None, "no NVIDIA driver on this machine")
    assert "pynvml" not in sys.modules


def test_a_choice_has_its_reason(host):
    host.find(FakeNvml([nvml_row()]))
    environ = {"PATH": str(host.path)}
    assert probe.choose("auto", environ) == Choice(H200, "NVIDIA H200 is there", (H200,), (H200,))
    assert probe.choose("gpu", environ) == Choice(H200, "NVIDIA H200 is there", (H200,), (H200,))
    assert probe.choose("emulated", environ) == Choice(None, "emulation was asked for")
    host.driver = False
    assert probe.choose("gpu", environ) == Choice(None, "no NVIDIA driver on this machine")


def test_a_choice_tells_all_that_is_shown_and_all_that_is_there(host):
    rows = FakeNvml([nvml_row(), nvml_row(uuid="GPU-22222222-0000-0000-0000-000000000000")])
    host.find(rows)
    both = probe.look({"PATH": str(host.path)}).present
    assert len(both) == 2
    found = probe.choose("auto", {"PATH": str(host.path), "CUDA_VISIBLE_DEVICES": "1"})
    assert found == Choice(both[1], "NVIDIA H200 is there", (both[1],), both)


def test_the_key_does_not_hold_what_differs_between_equal_gpus():
    assert H200.key_facts() == SECOND.key_facts()
