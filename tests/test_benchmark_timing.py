"""The stopwatch of a GPU against a PyCUDA and an NVML that are played: what is queued in which order, and what is left out."""

# ruff: noqa: N802  the names are NVML's
import sys
import types

import pytest

from touchgate.devices import LaunchFault, timing
from touchgate.devices.stopwatch import Conditions
from touchgate.devices.timing import CudaStopwatch


class Fault(Exception):
    pass


class Driver:
    """A GPU's queue: begin and end events 10 us apart; `late` says of which repetitions the beginning was met at once."""

    Error = Fault

    def __init__(self, attributes, late=()):
        self.log = []
        self.late = list(late)
        names = ("L2_CACHE_SIZE", "MEMORY_CLOCK_RATE", "GLOBAL_MEMORY_BUS_WIDTH")
        self.device_attribute = types.SimpleNamespace(**{name: name for name in names})
        gpu = types.SimpleNamespace(get_attribute=lambda name: attributes[name])
        self.Context = types.SimpleNamespace(get_device=lambda: gpu)
        self.Event = lambda: Event(self)


class Event:
    def __init__(self, driver):
        self.driver = driver

    def record(self):
        self.driver.log.append("event")

    def query(self):
        return self.driver.late.pop(0) if self.driver.late else False

    def time_till(self, other):
        assert other is not self
        return 0.01


class Device:
    """What CudaStopwatch asks of a CudaDevice."""

    def __init__(self, attributes, late=(), uuid=None):
        self.driver = Driver(attributes, late)
        self.facts = {"uuid": uuid}
        self.context = types.SimpleNamespace(synchronize=lambda: self.driver.log.append("wait"))
        self.sizes = []
        self.fatal = None

    def buffer(self, size):
        self.sizes.append(size)
        return types.SimpleNamespace(pointer=object(), write=lambda data: None)

    def module(self, source):
        return types.SimpleNamespace(kernel=lambda name: Kernel(self.driver, name))

    def guarded(self, doing, call, *, fatal=False):
        self.fatal = fatal
        try:
            return call()
        except Fault as error:
            raise LaunchFault(str(error)) from error


class Kernel:
    def __init__(self, driver, name):
        self.driver, self.name = driver, name

    def prepared(self, grid, block, arguments, shared=0):
        return lambda: self.driver.log.append(self.name)


H200 = {"L2_CACHE_SIZE": 60 << 20, "MEMORY_CLOCK_RATE": 3_201_000, "GLOBAL_MEMORY_BUS_WIDTH": 6144}


@pytest.fixture(autouse=True)
def _no_driver(monkeypatch, tmp_path):
    monkeypatch.setattr(timing, "LEAST_FLUSH", 1 << 16)
    monkeypatch.setattr(timing, "UNKNOWN_FLUSH", 1 << 18)

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(timing.ctypes, "CDLL", missing)


def step(device, name):
    return (Kernel(device.driver, name), (1, 1, 1), (1, 1, 1), [], 0)


def test_each_repetition_has_a_cold_cache_and_events_of_its_own(tmp_path):
    device = Device({**H200, "L2_CACHE_SIZE": 1 << 15})
    watch = CudaStopwatch(device, tmp_path)
    work = watch.prepared([step(device, "split"), step(device, "finish")])
    assert watch.timed(work, 2) == pytest.approx([1e-5, 1e-5])
    once = ["read_4", "event", "split", "finish", "event"]
    assert device.driver.log == [*once, *once, "wait"]
    assert device.fatal is True
    assert device.sizes[0] == 4 << 15


def test_what_the_gpu_says_of_its_memory(tmp_path):
    watch = CudaStopwatch(Device(H200), tmp_path)
    assert watch.l2 == 60 << 20
    assert watch.bandwidth == pytest.approx(4.917e12, rel=1e-3)


def test_a_gpu_that_says_nothing_of_its_memory(tmp_path):
    """A GPU that shares the host's memory: 0, or no answer."""
    device = Device({"L2_CACHE_SIZE": 0, "MEMORY_CLOCK_RATE": 0})
    watch = CudaStopwatch(device, tmp_path)
    assert device.sizes[0] == 1 << 18
    assert (watch.l2, watch.bandwidth) == (None, None)


def test_late_repetitions_are_taken_again(tmp_path):
    device = Device(H200, late=[True, False, True, False, True])
    watch = CudaStopwatch(device, tmp_path)
    assert len(watch.timed(watch.prepared([step(device, "k")]), 3)) == 3
    assert device.driver.log.count("k") == 6
    assert watch.late == 3


def test_when_all_are_late_they_count_all_the_same(tmp_path):
    device = Device(H200, late=[True] * 99)
    watch = CudaStopwatch(device, tmp_path)
    assert len(watch.timed(watch.prepared([step(device, "k")]), 2)) == 2 * timing.ROUNDS
    assert watch.late == 2 * timing.ROUNDS


def test_an_error_is_a_launch_fault(tmp_path):
    device = Device(H200)
    watch = CudaStopwatch(device, tmp_path)

    def breaks():
        raise Fault("an illegal memory access was encountered")

    with pytest.raises(LaunchFault, match="illegal memory access"):
        watch.timed(breaks, 1)


def test_persisting_lines_are_taken_back_before_every_sample(tmp_path, monkeypatch):
    calls = []
    library = types.SimpleNamespace(cuCtxResetPersistingL2Cache=lambda: calls.append(1))
    monkeypatch.setattr(timing.ctypes, "CDLL", lambda name: library)
    device = Device(H200)
    watch = CudaStopwatch(device, tmp_path)
    work = watch.prepared([step(device, "k")])
    watch.timed(work, 1)
    watch.timed(work, 1)
    assert len(calls) == 2


class Nvml(types.ModuleType):
    """nvidia-ml-py; an answer that is an exception is raised."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, **answers):
        super().__init__("pynvml")
        self.__spec__ = types.SimpleNamespace()
        self.answers = answers

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return self.said("Handle", uuid)

    def said(self, name, default=None):
        answer = self.answers.get(name, default)
        if answer is None:
            raise self.NVMLError("Not Supported")
        return answer

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return self.said("Sm" if kind == 1 else "Memory")

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self.said("Reasons")

    def nvmlDeviceGetTemperature(self, handle, kind):
        return self.said("Temperature")

    def nvmlDeviceGetPowerUsage(self, handle):
        return self.said("Power")

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [types.SimpleNamespace(pid=pid) for pid in self.said("Processes")]


@pytest.fixture
def watched(tmp_path, monkeypatch):
    def make(**answers):
        monkeypatch.setitem(sys.modules, "pynvml", Nvml(**answers))
        return CudaStopwatch(Device(H200, uuid="GPU-a"), tmp_path)

    return make


def test_the_state_of_the_gpu(watched):
    watch = watched(Sm=1980, Memory=3201, Reasons=0x1 | 0x4 | 0x40, Temperature=41, Power=123_456)
    assert watch.conditions() == Conditions(1980, 3201, ("power cap", "thermal slowdown (hardware)"), 41, 123.456)


def test_what_the_gpu_does_not_say_is_unknown(watched):
    assert watched().conditions() == Conditions(None, None, (), None, None)
    assert watched().strangers() == ()


def test_idle_and_clocks_that_were_set_are_no_throttling(watched):
    assert watched(Reasons=0x1 | 0x2 | 0x10 | 0x100).conditions().throttled == ()


def test_without_nvml_nothing_is_known(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(timing.importlib.util, "find_spec", lambda name: None)
    watch = CudaStopwatch(Device(H200, uuid="GPU-a"), tmp_path)
    assert (watch.conditions(), watch.strangers()) == (Conditions(), ())


def test_other_processes_on_the_gpu(watched, monkeypatch):
    monkeypatch.setattr(timing.os, "getpid", lambda: 50)
    monkeypatch.setattr(timing, "_name", lambda pid: f"p{pid}")
    assert watched(Processes=[50]).strangers() == ()
    assert watched(Processes=[60, 50, 7]).strangers() == ("p7 (pid 7) on the GPU", "p60 (pid 60) on the GPU")
    # Numbers of another namespace: this process is not among them.
    assert watched(Processes=[60, 7]).strangers() == ()
