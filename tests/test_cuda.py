"""The CUDA device against a fake PyCUDA: what it is asked, in which order, and what becomes of its errors."""

import builtins
import struct
import sys
import types

import numpy as np
import pytest

from touchgate.devices import BuildFault, LaunchFault, Unavailable, cuda, nvcc, probe

UUIDS = ["GPU-11111111-2222-3333-4444-555555555555", "GPU-99999999-2222-3333-4444-555555555555"]


class FakeGpu:
    """pycuda.driver.Device of one driver."""

    driver = None

    def __init__(self, ordinal):
        self.ordinal = ordinal

    @staticmethod
    def count():
        return 2

    def compute_capability(self):
        return (9, 0)

    def name(self):
        return f"NVIDIA H200 {self.ordinal}"

    def get_attribute(self, attribute):
        return {"multiprocessors": 132}[attribute]

    def total_memory(self):
        return 1 << 37

    def retain_primary_context(self):
        self.driver.do("retain")
        return FakeContext(self.driver)


class FakeContext:
    def __init__(self, driver):
        self.driver = driver

    def push(self):
        self.driver.do("push")
        self.driver.stack += 1

    def pop(self):
        self.driver.do("pop")
        self.driver.stack -= 1

    def synchronize(self):
        self.driver.do("synchronize")


class FakeDriver(types.ModuleType):
    """Records what it is asked; `fail[name]` makes that call raise."""

    class Error(Exception):
        pass

    class LogicError(Error):
        pass

    function_attribute = types.SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="max dynamic")
    device_attribute = types.SimpleNamespace(MULTIPROCESSOR_COUNT="multiprocessors")

    def __init__(self):
        super().__init__("pycuda.driver")
        self.calls = []
        self.fail = {}
        self.stack = 0
        self.memory = {}
        self.launches = []
        self.Device = type("Device", (FakeGpu,), {"driver": self})

    def do(self, name):
        self.calls.append(name)
        if self.fail.get(name):
            raise self.LogicError(self.fail[name].pop(0))

    def init(self):
        self.do("init")

    def get_version(self):
        return (13, 0, 0)

    def mem_alloc(self, size):
        self.do("mem_alloc")
        address = 1 << 20 << len(self.memory)
        self.memory[address] = np.zeros(size, np.uint8)
        return Allocation(self, address)

    def memcpy_htod(self, address, data):
        self.do("memcpy_htod")
        assert data.dtype == np.uint8
        self.memory[address][: data.size] = data

    def memcpy_dtoh(self, data, address):
        self.do("memcpy_dtoh")
        data[:] = self.memory[address][: data.size]

    def module_from_buffer(self, data):
        self.do("module_from_buffer")
        assert data == b"cubin"
        return types.SimpleNamespace(get_function=self.get_function)

    def get_function(self, name):
        if name != "k":
            raise self.LogicError("cuModuleGetFunction failed: named symbol not found")
        return Function(self)


class Allocation:
    def __init__(self, driver, address):
        self.driver, self.address = driver, address

    def __int__(self):
        return self.address

    def free(self):
        self.driver.do("free")
        del self.driver.memory[self.address]


class Function:
    def __init__(self, driver):
        self.driver = driver

    def set_attribute(self, attribute, value):
        self.driver.do(f"{attribute} {value}")

    def __call__(self, *arguments, grid, block, shared):
        self.driver.do("launch")
        # As PyCUDA packs: by the letters of numpy's types, of which it knows these.
        letters = "".join(argument.dtype.char for argument in arguments)
        assert set(letters) <= set("bBhHiIlLqQfd")
        self.driver.launches.append((struct.pack(letters, *arguments), grid, block, shared))


@pytest.fixture
def driver(monkeypatch):
    fake = FakeDriver()
    package = types.ModuleType("pycuda")
    package.driver = fake
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", fake)
    monkeypatch.setattr(cuda, "device_uuids", lambda count: UUIDS[:count])
    monkeypatch.setattr(probe, "driver_version", lambda: "580.65.06")
    monkeypatch.setattr(nvcc, "find", lambda environ: "nvcc")
    monkeypatch.setattr(nvcc, "version", lambda path: "13.0.88")
    return fake


@pytest.fixture
def built(monkeypatch, tmp_path):
    """What nvcc was asked to build."""
    asked = []

    def build_cubin(source, arch, build_dir, includes, defines, environ, *, text=None):
        asked.append((source, arch, build_dir, tuple(includes), defines, text))
        (tmp_path / "k.cubin").write_bytes(b"cubin")
        return nvcc.Cubin(tmp_path / "k.cubin", {"k": nvcc.Resources(32, 1024, 0, 0, 0)})

    monkeypatch.setattr(nvcc, "build_cubin", build_cubin)
    return asked


@pytest.fixture
def device(driver, built, tmp_path):
    opened = cuda.open_device(tmp_path)
    yield opened
    opened.close()
    assert driver.stack == 0


def test_opening_tells_what_the_gpu_is(device, driver):
    assert device.name == "NVIDIA H200 0"
    assert device.facts == {
        "name": "NVIDIA H200 0",
        "uuid": UUIDS[0],
        "capability": "9.0",
        "driver": "580.65.06",
        "cuda": "13.0",
        "pycuda": None,
        "nvcc": "13.0.88",
        "multiprocessors": 132,
        "memory": 1 << 37,
    }
    assert driver.calls == ["init", "retain", "push"]


def test_a_uuid_chooses(driver, tmp_path):
    device = cuda.open_device(tmp_path, uuid=UUIDS[1].upper())
    assert (device.name, device.facts["uuid"]) == ("NVIDIA H200 1", UUIDS[1])
    device.close()
    device.close()
    assert driver.calls == ["init", "retain", "push", "pop"]
    with pytest.raises(Unavailable, match=f"CUDA shows no GPU GPU-7, but {UUIDS[0]}, {UUIDS[1]}"):
        cuda.open_device(tmp_path, uuid="GPU-7")


def test_memory_goes_there_and_back(device, driver):
    buffer = device.buffer(12)
    assert buffer.size == 12
    data = np.arange(3, dtype=np.float32)
    buffer.write(data)
    assert buffer.read().view(np.float32).tolist() == [0, 1, 2]
    buffer.write(np.array([7], np.float16))
    assert buffer.read()[:2].view(np.float16)[0] == 7
    assert buffer.pointer.offset(8).offset(-4).address == buffer.pointer.address + 4
    with pytest.raises(ValueError, match="do not fit"):
        buffer.write(np.zeros(13, np.uint8))
    with pytest.raises(ValueError, match="contiguous"):
        buffer.write(np.zeros((3, 2), np.uint8)[:, 0])
    buffer.free()
    buffer.free()
    for use in (lambda: buffer.pointer, buffer.read, lambda: buffer.write(data)):
        with pytest.raises(LaunchFault, match="used after it was freed"):
            use()
    empty = device.buffer(0)
    assert empty.read().size == 0
    empty.write(np.zeros(0, np.float32))
    assert driver.calls.count("mem_alloc") == 2


def test_a_launch_packs_its_arguments_and_waits(device, driver, built, tmp_path):
    source = tmp_path / "k.cu"
    kernel = device.module(source, includes=[tmp_path], defines={"A": "1"}).kernel("k")
    assert built == [(source, "sm_90", tmp_path, (tmp_path,), {"A": "1"}, None)]
    buffer = device.buffer(64)
    arguments = [buffer.pointer.offset(16), np.int32(-3), np.int64(5), np.float32(0.5), np.float16(1), np.bool_(True)]
    kernel.launch((np.int64(3), 2, 1), (64, 1, 1), arguments, 100)
    at = buffer.pointer.address + 16
    assert driver.launches == [(struct.pack("LilfHB", at, -3, 5, 0.5, 0x3C00, 1), (3, 2, 1), (64, 1, 1), 100)]
    assert driver.calls[-2:] == ["launch", "synchronize"]


def test_much_shared_memory_is_asked_for_once(device, driver, tmp_path):
    kernel = device.module(tmp_path / "k.cu").kernel("k")
    for shared in (47 * 1024, 47 * 1024 + 1, 47 * 1024 + 1, 100_000):
        kernel.launch((1, 1, 1), (1, 1, 1), [], shared)
    assert [call for call in driver.calls if "dynamic" in call] == ["max dynamic 48129", "max dynamic 100000"]


def test_a_text_is_compiled_as_the_file_it_is_like(device, built, tmp_path):
    device.module_from_text("text", tmp_path / "k.cu", includes=[tmp_path])
    assert built == [(tmp_path / "k.cu", "sm_90", tmp_path, (tmp_path,), None, "text")]


def test_what_is_no_argument(device, driver, tmp_path):
    kernel = device.module(tmp_path / "k.cu").kernel("k")
    for wrong in (1, 1.0, np.zeros(2), np.complex64(1), np.str_("a"), None):
        with pytest.raises(LaunchFault, match="argument 2 is a"):
            kernel.launch((1, 1, 1), (1, 1, 1), [np.int32(1), wrong])
    assert driver.launches == []


def test_a_kernel_that_is_not_there(device, tmp_path):
    with pytest.raises(BuildFault, match=r"function x \(it has: k\): cuModuleGetFunction failed"):
        device.module(tmp_path / "k.cu").kernel("x")


def test_a_refused_launch_leaves_the_device_usable(device, driver, tmp_path):
    kernel = device.module(tmp_path / "k.cu").kernel("k")
    driver.fail["launch"] = ["cuLaunchKernel failed: too many resources requested for launch"]
    with pytest.raises(LaunchFault) as caught:
        kernel.launch((1, 1, 1), (1024, 1, 1), [])
    assert str(caught.value).splitlines() == [
        "cuLaunchKernel failed: too many resources requested for launch",
        "  in kernel k, grid (1, 1, 1), block (1024, 1, 1), 0 bytes of shared memory",
    ]
    kernel.launch((1, 1, 1), (1, 1, 1), [])


def test_after_an_illegal_address_everything_says_so_and_close_is_silent(driver, built, tmp_path):
    device = cuda.open_device(tmp_path)
    kernel = device.module(tmp_path / "k.cu").kernel("k")
    buffer = device.buffer(4)
    illegal = "cuCtxSynchronize failed: an illegal memory access was encountered"
    driver.fail |= {"synchronize": [illegal], "free": [illegal], "pop": [illegal]}
    with pytest.raises(LaunchFault, match="illegal memory access"):
        kernel.launch((1, 1, 1), (1, 1, 1), [])
    for use in (buffer.read, lambda: kernel.launch((1, 1, 1), (1, 1, 1), []), lambda: device.buffer(4)):
        with pytest.raises(LaunchFault, match="context was lost to an earlier error: cuCtxSynchronize failed"):
            use()
    device.close()
    # The first pop only delivered the old error.
    assert driver.calls[-3:] == ["free", "pop", "pop"]
    assert driver.stack == 0
    with pytest.raises(LaunchFault, match="the device is closed"):
        device.buffer(4)


def test_a_gpu_that_does_not_answer(driver, tmp_path):
    driver.fail["init"] = ["cuInit failed: no CUDA-capable device is detected"]
    with pytest.raises(Unavailable, match="no usable GPU: cuInit failed: no CUDA-capable device"):
        cuda.open_device(tmp_path)
    driver.fail["retain"] = ["out of memory"]
    with pytest.raises(Unavailable, match="no usable GPU: out of memory"):
        cuda.open_device(tmp_path)
    assert driver.stack == 0
    driver.get_version = lambda: driver.do("version")
    driver.fail["version"] = ["the system is not yet initialized"]
    with pytest.raises(Unavailable, match="the GPU does not answer"):
        cuda.open_device(tmp_path)
    assert driver.stack == 0
    driver.Device.count = staticmethod(lambda: 0)
    with pytest.raises(Unavailable, match="shows no GPU"):
        cuda.open_device(tmp_path)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ModuleNotFoundError("No module named 'pycuda'", name="pycuda"), "PyCUDA is not installed: pip install"),
        (ModuleNotFoundError("No module named 'pytools'", name="pytools"), "PyCUDA needs pytools"),
        (ImportError("libcuda.so.1: cannot open shared object file"), "no NVIDIA driver on this machine: libcuda.so.1"),
        (ImportError("undefined symbol: cuCtxCreate_v4"), "PyCUDA does not load, build it anew"),
    ],
)
def test_what_is_missing_is_named(driver, monkeypatch, tmp_path, error, told):
    def refuse(name):
        raise error

    monkeypatch.setattr(cuda.importlib, "import_module", refuse)
    with pytest.raises(Unavailable, match=told):
        cuda.open_device(tmp_path)
    assert driver.calls == []


def test_without_nvcc(driver, monkeypatch, tmp_path):
    monkeypatch.setattr(nvcc, "find", lambda environ: None)
    with pytest.raises(Unavailable, match="no nvcc"):
        cuda.open_device(tmp_path)


def test_importing_the_module_imports_no_pycuda(monkeypatch):
    real = builtins.__import__

    def watch(name, *rest, **more):
        assert not name.startswith("pycuda")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", watch)
    monkeypatch.delitem(sys.modules, "touchgate.devices.cuda")
    import touchgate.devices.cuda as again

    monkeypatch.setattr("touchgate.devices.cuda", cuda)
    assert again.open_device is not None
