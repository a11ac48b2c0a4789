"""What NVML says and leaves out, as reports of real drivers have it: each becomes fit, not fit or unknown as it should."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tests.fake_host import FakeHost
from tests.fake_nvml import GB10, GIB, FakeNvml, NVMLLibraryMismatchError, gpu, memory, process
from tests.test_layering import importers
from touchgate.devices.preflight import nvml
from touchgate.devices.preflight.reading import read
from touchgate.devices.preflight.settings import Settings
from touchgate.devices.preflight.verdict import judge

ADA = (1234, "ada")


@pytest.fixture
def host(tmp_path):
    return FakeHost(tmp_path)


def answer(fake, host, uuids=(), settings=None, ours=(), settle=()):
    """The whole way from NVML's answers to the line for a person, and what stands under it."""
    found = judge(read(uuids, pynvml=fake, root=host.root, settle=settle), frozenset(ours), settings or Settings())
    assert fake.open == 0, "NVML was left open"
    return found


def owners(found):
    return [(owner.gpu, owner.pid, owner.process and owner.process.command, owner.memory) for owner in found.owners]


def test_one_module_of_the_preflight_asks_nvml():
    assert importers("pynvml", at_run_time=False) == {"devices/probe", "devices/preflight/nvml", "devices/timing"}


def test_nobody(host):
    fake = FakeNvml(gpu("GPU-a"), gpu("GPU-b"))
    assert answer(fake, host).line() == "the host is fit"
    seen = read((), pynvml=fake, root=host.root)
    assert [one.uuid for one in seen.gpus] == ["GPU-a", "GPU-b"]
    assert (seen.driver, seen.unified, seen.first_namespace) == ("580.159.04", False, True)


def test_only_the_granted_gpus_are_asked(host):
    host.process(7, "/usr/bin/python3", "train.py", uid=0, seconds=60)
    fake = FakeNvml(gpu("GPU-a"), gpu("GPU-b", ComputeRunningProcesses=[process(7, GIB)]))
    assert answer(fake, host, ["GPU-a"]).fit
    assert {uuid for uuid, _ in fake.asked} == {"GPU-a"}
    assert answer(fake, host, ["GPU-b"]).lines() == (
        "the host is not fit: 1 process is on the GPU that this run did not start",
        "   pid 7 (root) python3 train.py, since 2026-11-30T00:54:20Z, 1.0 GiB on GPU-b (compute)",
        "   none of them was touched; the run can be repeated when they have ended",
    )
    assert answer(fake, host, ["GPU-b"], ours=[7]).fit


def test_an_orphan_of_a_killed_run(host):
    """sgl-project/sglang#23627 and others: the lease is free, and the GPU is not."""
    host.process(7, "python", "-m", "serve", environ="A=1\0TOUCHGATE_LEASE_TOKEN=41\0", opened=("/dev/nvidia0",))
    found = answer(FakeNvml(gpu(ComputeRunningProcesses=[process(7, 2 * GIB)])), host)
    assert found.exit_code == 69
    assert str(found.owners[0]) == (
        "pid 7 (root) python -m serve, since 2026-11-30T00:53:20Z, 2.0 GiB on GPU-a (compute), "
        "left by an earlier run (lease token 41)"
    )


def test_a_gpu_that_is_not_there(host):
    found = answer(FakeNvml(gpu()), host, ["GPU-a", "GPU-gone"])
    assert found.line() == "the host is not fit: GPU-gone: the driver does not show this GPU"


# -- no NVML, or a broken one: NVIDIA's own words behind ours -------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("LibraryNotFound", "no NVML: libnvidia-ml.so.1 is not installed here"),
        (
            "LibRmVersionMismatch",
            "no NVML: driver and NVML library are of two versions (updated under a running driver?): restart the host",
        ),
        ("DriverNotLoaded", "no NVML: Driver Not Loaded"),
        ("Unknown", "no NVML: Unknown Error"),
        (OSError("libnvidia-ml.so.1: file too short"), "no NVML: libnvidia-ml.so.1: file too short"),
    ],
)
def test_no_nvml_is_not_free(host, error, line):
    found = answer(FakeNvml(init=error), host)
    assert (found.answer.value, found.exit_code) == ("unknown", 69)
    assert found.line() == f"whether the host is fit can't be known: {line}"


def test_no_binding(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    asked = nvml.ask((), 99)
    assert (asked.broken, asked.missing) == ("nvidia-ml-py is not installed: pip install 'touchgate[cuda]'", True)


def test_a_driver_that_fails_midway(host):
    found = answer(FakeNvml(gpu(UUID="GPU-a", MigMode="GpuIsLost")), host)
    assert found.line() == "the host is not fit: GPU-a: GPU is lost; the host has to be restarted"
    fake = FakeNvml(gpu())
    fake.nvmlDeviceGetCount = lambda: fake._give("Unknown")
    assert answer(fake, host).unknown == ("the NVIDIA driver does not answer: Unknown Error",)


# -- lists that make no sense (wookayin/gpustat#161, XuehaiPan/nvitop#88, NVIDIA/go-nvml#21, pynvml#50) -------------------


@pytest.mark.parametrize(
    "record",
    [
        process(0, 0),
        process(-5, 0),
        process(536_870_912, 4121),  # pid and memory swapped
        process(4_194_305, 0),
        process(None, 0),
        process(7, 142 * GIB),  # more than the GPU has
        process(7, -1),
        SimpleNamespace(pid=7.0, usedGpuMemory=0),
    ],
)
def test_a_second_record_of_garbage(host, record):
    """The struct's size changed without a new version: only the first record is right."""
    host.process(7, "python", opened=("/dev/nvidia0",))
    fake = FakeNvml(gpu(ComputeRunningProcesses=[process(7, GIB), record]))
    assert owners(answer(fake, host)) == [("GPU-a", 7, "python", GIB)]
    found = answer(fake, host, ours=[7])
    assert found.answer.value == "unknown"
    assert found.unknown == (
        "GPU-a: 1 record makes no sense in its list of processes; driver 580.159.04 and nvidia-ml-py may not fit together",
    )


def test_an_older_driver_than_the_binding(host):
    host.process(7, "python")
    mismatch = NVMLLibraryMismatchError("Unversioned function called")
    older = {
        "ComputeRunningProcesses": mismatch,
        "ComputeRunningProcesses_v2": [process(7, GIB)],
        "GraphicsRunningProcesses": mismatch,
        "GraphicsRunningProcesses_v2": [],
        "MPSComputeRunningProcesses": mismatch,
        "MPSComputeRunningProcesses_v2": "FunctionNotFound",
        "CurrentClocksEventReasons": "FunctionNotFound",
        "CurrentClocksThrottleReasons": 0x4 | 0x1 | 0x2,
    }
    found = answer(FakeNvml(gpu(**older)), host, ours=[7])
    assert found.line() == "the host is fit, but noisy: GPU-a is slowed down (power cap)"
    assert owners(answer(FakeNvml(gpu(**older)), host)) == [("GPU-a", 7, "python", GIB)]
    lost = answer(FakeNvml(gpu(ComputeRunningProcesses=mismatch)), host)
    assert lost.unknown == (
        "GPU-a: its driver lists no processes",
        "GPU-a: compute processes: Unversioned function called",
    )


# -- containers and WSL (NVIDIA/nvidia-docker#179, #1460, #1483; nvidia-container-toolkit#1013; gpu-monitoring-tools#63) --


@pytest.fixture
def container(tmp_path):
    return FakeHost(tmp_path, namespace="pid:[4026532281]")


def test_a_containers_list_of_host_ids(container):
    found = answer(FakeNvml(gpu(ComputeRunningProcesses=[process(70_000, GIB)])), container)
    assert found.exit_code == 69
    assert found.lines()[1] == (
        "   a process whose owner is not visible from here (the driver says pid 70000), 1.0 GiB on GPU-a (compute)"
    )


def test_a_host_id_that_is_one_of_ours_by_chance(container):
    container.process(12, "python", opened=("/dev/null",))
    found = answer(FakeNvml(gpu(ComputeRunningProcesses=[process(12, GIB)])), container, ours=[12])
    assert owners(found) == [("GPU-a", 12, None, GIB)]


def test_a_sandbox_that_shows_no_open_files(container):
    """Nobody is seen to use a GPU there, whoever does: then an id of ours is no proof."""
    (container.proc / "self" / "fd" / "3").unlink()
    container.process(12, "python", opened=("/dev/null",))
    fake = FakeNvml(gpu(ComputeRunningProcesses=[process(12, GIB)], MemoryInfo=memory(GIB)))
    assert owners(answer(fake, container)) == [("GPU-a", 12, "python", GIB)]
    assert answer(fake, container, ours=[12]).unknown == ("GPU-a: whether pid 12 of the driver's list is this run's own",)


def test_a_container_that_is_told_its_own_ids(container):
    container.process(12, "python", opened=("/dev/null", "/dev/nvidia0"))
    fake = FakeNvml(gpu(ComputeRunningProcesses=[process(12, GIB)], MemoryInfo=memory(GIB + 5)))
    assert answer(fake, container, ours=[12]).fit
    assert owners(answer(fake, container)) == [("GPU-a", 12, "python", GIB)]


@pytest.mark.parametrize("used", [memory(3 * GIB), "NotSupported", "NoPermission"])
def test_a_container_that_is_told_nothing(container, used):
    assert answer(FakeNvml(gpu(MemoryInfo=used)), container).answer.value == "unknown"


def test_a_container_on_an_idle_gpu(container):
    assert answer(FakeNvml(gpu(MemoryInfo=memory(4 << 20))), container).fit


def test_a_process_that_just_ended(host):
    """Its context is still being taken down when the list is read, and gone at the second look."""
    lists = [[process(7, GIB)], []]
    fake = FakeNvml(gpu())
    fake.nvmlDeviceGetComputeRunningProcesses = lambda handle: lists.pop(0)
    assert answer(fake, host, settle=(0, 0)).fit
    assert lists == []


def test_a_process_that_is_ending(host):
    """It has no memory of its own any more, and the driver takes down what it had on the GPU."""
    host.process(7, comm="python")
    lists = [[process(7, GIB)], [process(7, GIB)], []]
    fake = FakeNvml(gpu())
    fake.nvmlDeviceGetComputeRunningProcesses = lambda handle: lists.pop(0)
    assert answer(fake, host, settle=(0, 0, 0)).fit
    lists[:] = [[process(7, GIB)]] * 2
    assert str(answer(fake, host, settle=(0,)).owners[0]) == (
        "pid 7 (root) python, since 2026-11-30T00:53:20Z, which is ending, 1.0 GiB on GPU-a (compute)"
    )


def test_a_zombie_is_not_its_process(host):
    host.process(7, "python", state="Z")
    found = answer(FakeNvml(gpu(ComputeRunningProcesses=[process(7, GIB)])), host, ours=[7])
    assert owners(found) == [("GPU-a", 7, None, GIB)]


@pytest.mark.parametrize("listed", [[], "NotSupported"])
def test_wsl_shows_no_processes(tmp_path, listed):
    host = FakeHost(tmp_path, driver="dev/dxg")
    found = answer(FakeNvml(gpu(ComputeRunningProcesses=listed)), host)
    assert found.answer.value == "unknown"
    assert found.unknown[0] == "which processes use the GPU: Windows does not show them to WSL"


# -- unified memory (dra-driver-nvidia-gpu#1073, leptonai/gpud#1170, gpustat#179, nvitop#208; Jetson: nvitop#168) ---------


def busy(host):
    host.file("proc/meminfo", "MemTotal: 125829120 kB\nMemAvailable:    1048576 kB\n")
    host.file("proc/loadavg", "900.00 0.37 0.39 3/512 4121\n")
    host.file("proc/pressure/memory", "some avg10=7.50 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00\n")


@pytest.mark.parametrize("told", ["NotSupported", memory(0, total=0)])
def test_gb10(host, told):
    host.process(7, "python", uid=0)
    plain = {**GB10, "MemoryInfo": told}
    assert answer(FakeNvml(gpu(**plain)), host).line() == "the host is fit"
    fake = FakeNvml(gpu(**plain, ComputeRunningProcesses=[process(7, None)]))
    assert owners(answer(fake, host)) == [("GPU-a", 7, "python", None)]
    wants = Settings(free_memory=2 * GIB)
    assert answer(FakeNvml(gpu(**plain)), host, settings=wants).answer.value == "unknown"
    busy(host)
    found = answer(FakeNvml(gpu(**plain)), host)
    assert found.fit
    assert found.noise[1] == "memory pressure 7.5 %"
    assert found.noise[0].startswith("load ")
    short = answer(FakeNvml(gpu(**plain)), host, settings=wants)
    assert short.reasons == ("1.0 GiB of memory free on GPU-a, and this host wants 2.0 GiB",)


def test_a_gpu_with_memory_of_its_own_is_not_unified(host):
    busy(host)
    assert answer(FakeNvml(gpu()), host).noise == ()


@pytest.fixture
def jetson(tmp_path):
    return FakeHost(tmp_path, driver="dev/nvmap")


@pytest.mark.parametrize(
    "fake", [FakeNvml(init="LibraryNotFound"), FakeNvml(gpu("GPU-a", ComputeRunningProcesses="NotSupported"))]
)
def test_jetson_by_open_files(jetson, fake):
    jetson.process(2, comm="kthreadd", flags=0x00200000, readable=False)
    jetson.process(3, "bash", opened=("/dev/pts/0",))
    where = "GPU-a" if fake.gpus else "the Jetson's GPU"
    assert answer(fake, jetson).line() == "the host is fit"
    jetson.process(8, "/usr/lib/xorg/Xorg", ":0", opened=("/dev/null", "/dev/nvmap"))
    jetson.process(9, "python", "infer.py", opened=("/dev/nvhost-gpu",))
    found = answer(fake, jetson)
    assert owners(found) == [(where, 8, "Xorg :0", None), (where, 9, "python infer.py", None)]
    assert answer(fake, jetson, ours=[9], settings=Settings(ignore=frozenset({"Xorg"}))).fit
    jetson.process(10, "containerd", readable=False)
    hidden = answer(fake, jetson, ours=[8, 9])
    assert hidden.unknown == ("whether other users' processes (1 of them) have the GPU open: only root sees that",)


def test_jetson_that_lists_processes(jetson):
    jetson.process(9, "python", "infer.py", opened=("/dev/nvhost-gpu",))
    jetson.process(10, "containerd", readable=False)
    fake = FakeNvml(gpu(**GB10, ComputeRunningProcesses=[process(9, None)]))
    assert owners(answer(fake, jetson)) == [("GPU-a", 9, "python infer.py", None)]


def test_jetson_with_a_broken_nvml(jetson):
    assert answer(FakeNvml(init="LibRmVersionMismatch"), jetson).answer.value == "unknown"


# -- MIG (wookayin/gpustat#102, nvitop#5) and MPS (NVIDIA/nvidia-docker#419) ----------------------------------------------


def sliced(first, second, **more):
    return gpu(
        "GPU-a",
        MigMode=[1, 1],
        MaxMigDeviceCount=3,
        mig=[gpu("MIG-1", **first), None, gpu("MIG-2", **second)],
        ComputeRunningProcesses=[],  # of the whole GPU it says nothing while MIG is on
        TotalEccErrors=more.pop("TotalEccErrors", 0),
        **more,
    )


def test_mig_devices_are_asked_each(host):
    host.process(7, "python")
    fake = FakeNvml(sliced({}, {"ComputeRunningProcesses": [process(7, GIB)]}))
    assert owners(answer(fake, host, ["GPU-a"])) == [("MIG-2", 7, "python", GIB)]
    assert answer(fake, host, ["MIG-1"]).fit
    assert owners(answer(fake, host, ["MIG-2"])) == [("MIG-2", 7, "python", GIB)]


def test_a_mig_device_that_lists_nothing(host):
    host.process(7, "python")
    fake = FakeNvml(sliced({"ComputeRunningProcesses": "NoPermission"}, {"ComputeRunningProcesses": [process(7, GIB)]}))
    assert answer(fake, host, ["GPU-a"]).exit_code == 69
    found = answer(fake, host, ["GPU-a"], ours=[7])
    assert found.unknown == (
        "GPU-a: compute processes: Insufficient Permissions",
        "GPU-a: its driver lists a part of its processes only",
    )


def test_a_mig_devices_errors_are_its_gpus(host):
    found = answer(FakeNvml(sliced({}, {}, TotalEccErrors=1, CurrentClocksEventReasons=0x40)), host, ["MIG-1"])
    assert found.reasons == (
        "1 uncorrected ECC error on MIG-1 since the driver was loaded; it must be reset or the host restarted",
    )
    assert found.noise == ("MIG-1 is slowed down (hardware thermal slowdown)",)


def test_mps(host):
    host.process(5, "/usr/bin/nvidia-cuda-mps-server", comm="nvidia-cuda-mps")
    host.process(6, "python", "client.py")
    listed = {"ComputeRunningProcesses": [process(5, 30 << 20)], "MPSComputeRunningProcesses": [process(6, GIB)]}
    found = answer(FakeNvml(gpu(**listed)), host)
    assert [str(owner).partition(", since")[0] for owner in found.owners] == [
        "pid 5 (root) nvidia-cuda-mps-server",
        "pid 6 (root) python client.py",
    ]
    assert "which shares the GPU among its clients" in str(found.owners[0])
    # A host that always runs it says so; its clients still count.
    allowed = Settings(ignore=frozenset({"nvidia-cuda-mps-server"}))
    assert owners(answer(FakeNvml(gpu(**listed)), host, settings=allowed)) == [("GPU-a", 6, "python client.py", GIB)]


def test_a_desktop(host):
    host.process(5, "/usr/lib/xorg/Xorg", ":0")
    listed = {"GraphicsRunningProcesses": [process(5, 30 << 20)]}
    assert owners(answer(FakeNvml(gpu(**listed)), host)) == [("GPU-a", 5, "Xorg :0", 30 << 20)]
    assert answer(FakeNvml(gpu(**listed)), host, settings=Settings(ignore=frozenset({"Xorg", "gnome-shell"}))).fit


MUST = "since the driver was loaded; it must be reset or the host restarted"


# -- errors and clocks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ("NotSupported", "the host is fit"),  # a GPU without ECC
        ("Unknown", "whether the host is fit can't be known: GPU-a: ECC errors: Unknown Error"),
        (3, f"the host is not fit: 3 uncorrected ECC errors on GPU-a {MUST}"),
    ],
)
def test_ecc(host, told, line):
    assert answer(FakeNvml(gpu(TotalEccErrors=told)), host).line() == line


@pytest.mark.parametrize(
    ("reasons", "noise"),
    [
        (0x1 | 0x2 | 0x100, ()),
        (0xFFF, tuple(nvml.SLOWED.values())),
        ("NotSupported", ()),
    ],
)
def test_clocks(host, reasons, noise):
    plain = gpu(CurrentClocksEventReasons=reasons, CurrentClocksThrottleReasons=reasons)
    found = answer(FakeNvml(plain), host)
    assert found.fit
    assert found.noise == ((f"GPU-a is slowed down ({', '.join(noise)})",) if noise else ())


def test_clocks_that_do_not_answer(host):
    plain = gpu(CurrentClocksEventReasons="Unknown", CurrentClocksThrottleReasons="Unknown")
    assert answer(FakeNvml(plain), host).line() == "the host is fit, but noisy: GPU-a: clocks: Unknown Error"


def test_texts_as_bytes(host):
    seen = read((), pynvml=FakeNvml(gpu(Name=b"Tesla V100", UUID=b"GPU-a")), root=host.root)
    assert (seen.gpus[0].name, seen.gpus[0].uuid) == ("Tesla V100", "GPU-a")
    assert read((), pynvml=FakeNvml(gpu(Name="Unknown", UUID="Unknown")), root=host.root).gpus[0].uuid == "GPU 0"
