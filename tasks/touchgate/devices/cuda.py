"""Kernels on a GPU, through PyCUDA's driver API and the device's primary context.

The only module that imports pycuda, and only when a device is opened. PyCUDA's context stack belongs to the thread that
opened the device: use it from there. One device a process is what this is made for.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import weakref
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from touchgate.devices import BuildFault, LaunchFault, Unavailable, nvcc, probe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from touchgate.devices import Argument

SHARED_LIMIT = 48 * 1024
"""Bytes of shared memory, static and dynamic, that a block gets unasked (CUDA C++ Programming Guide)."""


def open_device(build_dir: Path, uuid: str | None = None, *, environ: Mapping[str, str] = os.environ) -> CudaDevice:
    """Open the GPU with this UUID (or the beginning of one), else the first that CUDA shows.

    `build_dir`: where cubins are kept. Raises `Unavailable` with the cure where PyCUDA, the driver, the GPU or nvcc is
    missing.
    """
    driver = _pycuda_driver()
    program = nvcc.find(environ)
    if program is None:
        raise Unavailable(nvcc.MISSING)
    compiler = nvcc.version(program)
    try:
        driver.init()
        ordinal, own_uuid = _chosen(driver, uuid)
        device = driver.Device(ordinal)
        context = device.retain_primary_context()
        context.push()
    except driver.Error as error:
        raise Unavailable(f"no usable GPU: {error}") from error
    opened = CudaDevice(driver, context, build_dir, environ)
    try:
        opened.describe(device, own_uuid, compiler)
    except driver.Error as error:
        opened.close()
        raise Unavailable(f"the GPU does not answer: {error}") from error
    return opened


def _pycuda_driver() -> Any:
    try:
        return importlib.import_module("pycuda.driver")
    except ModuleNotFoundError as error:
        if error.name == "pycuda":
            raise Unavailable(probe.NO_PYCUDA) from error
        raise Unavailable(f"PyCUDA needs {error.name}: pip install 'touchgate[cuda]'") from error
    except ImportError as error:
        if "libcuda" in str(error):
            raise Unavailable(f"{probe.NO_DRIVER}: {error}") from error
        raise Unavailable(f"PyCUDA does not load, build it anew against this CUDA: {error}") from error


def _pycuda_version() -> str | None:
    try:
        return metadata.version("pycuda")
    except metadata.PackageNotFoundError:
        return None


def _chosen(driver: Any, uuid: str | None) -> tuple[int, str | None]:
    """CUDA's number of the GPU, and its UUID as far as it can be told."""
    count = driver.Device.count()
    if count == 0:
        raise Unavailable(probe.NO_DEVICE)
    known = device_uuids(count)
    if uuid is None:
        return 0, known[0]
    wanted = [ordinal for ordinal, own in enumerate(known) if own and own.lower().startswith(uuid.lower())]
    if len(wanted) == 1:
        return wanted[0], known[wanted[0]]
    told = ", ".join(own or "unknown" for own in known)
    raise Unavailable(f"CUDA shows no GPU {uuid}, but {told}; see CUDA_VISIBLE_DEVICES")


def device_uuids(count: int) -> list[str | None]:
    """Return the UUIDs of CUDA's devices 0..count-1 as NVML writes them. PyCUDA has no call for it, libcuda has."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return [None] * count
    return [_device_uuid(library, ordinal) for ordinal in range(count)]


def _device_uuid(library: ctypes.CDLL, ordinal: int) -> str | None:
    device = ctypes.c_int()
    raw = (ctypes.c_ubyte * 16)()
    if library.cuDeviceGet(ctypes.byref(device), ordinal) != 0:
        return None
    # The second version tells a MIG instance's own UUID.
    question = getattr(library, "cuDeviceGetUuid_v2", None) or library.cuDeviceGetUuid
    if question(ctypes.byref(raw), device) != 0:
        return None
    text = bytes(raw).hex()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class CudaPointer:
    """An address on the GPU."""

    def __init__(self, address: int, buffer: CudaBuffer) -> None:
        self.address = address
        self.buffer = buffer

    def offset(self, size: int) -> CudaPointer:
        """Return the address `size` bytes further."""
        return CudaPointer(self.address + size, self.buffer)


class CudaBuffer:
    """Bytes on the GPU."""

    def __init__(self, device: CudaDevice, size: int) -> None:
        if size < 0:
            raise ValueError(f"a buffer of {size} bytes")
        self.size = size
        self._device = device
        # cuMemAlloc refuses 0 bytes.
        self._allocation: Any = device.guarded(f"allocating {size} bytes", lambda: device.driver.mem_alloc(max(size, 1)))

    @property
    def pointer(self) -> CudaPointer:
        """Its first byte."""
        return CudaPointer(self._address(), self)

    def write(self, data: NDArray[Any]) -> None:
        """Copy a contiguous array in, from the first byte on."""
        address = self._address()
        if not data.flags.c_contiguous:
            raise ValueError("only a contiguous array can be written")
        if data.nbytes > self.size:
            raise ValueError(f"{data.nbytes} bytes do not fit into a buffer of {self.size}")
        if data.nbytes:
            # As bytes: not every type of numpy has a buffer format that PyCUDA takes.
            raw = data.reshape(-1).view(np.uint8)
            self._device.guarded("copying to the GPU", lambda: self._device.driver.memcpy_htod(address, raw))

    def read(self) -> NDArray[np.uint8]:
        """Return all bytes."""
        address = self._address()
        data = np.empty(self.size, np.uint8)
        if self.size:
            self._device.guarded("copying from the GPU", lambda: self._device.driver.memcpy_dtoh(data, address))
        return data

    def free(self) -> None:
        """Give the memory back. After an error that ended the context there is nothing left to give."""
        allocation, self._allocation = self._allocation, None
        if allocation is not None:
            # The error that broke the context was reported by the launch that met it; freeing only repeats it.
            with suppress(self._device.driver.Error):
                allocation.free()

    def _address(self) -> int:
        if self._allocation is None:
            raise LaunchFault(f"a buffer of {self.size} bytes is used after it was freed")
        return int(self._allocation)


class CudaKernel:
    """One kernel of a loaded module."""

    def __init__(self, name: str, function: Any, static: int, device: CudaDevice) -> None:
        self.name = name
        self._function = function
        self._device = device
        self._granted = SHARED_LIMIT - static

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Argument],
        shared: int = 0,
    ) -> None:
        """Launch and wait for the end. Raises `LaunchFault`."""
        where = f"kernel {self.name}, grid {tuple(grid)}, block {tuple(block)}, {shared} bytes of shared memory"
        self._device.guarded(where, self.prepared(grid, block, arguments, shared))
        # Whatever a kernel does wrong while it runs shows here, and ends the context.
        self._device.guarded(where, lambda: self._device.context.synchronize(), fatal=True)  # noqa: PLW0108

    def prepared(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], arguments: Sequence[Argument], shared: int = 0
    ) -> Callable[[], None]:
        """Return what launches without waiting, as often as it is called; it raises PyCUDA's own errors."""
        packed = [self._packed(number, argument) for number, argument in enumerate(arguments, 1)]
        return lambda: self._start(grid, block, packed, shared)

    def _start(self, grid: Sequence[int], block: Sequence[int], packed: Sequence[Any], shared: int) -> None:
        if shared > self._granted:
            attribute = self._device.driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._function.set_attribute(attribute, shared)
            self._granted = shared
        self._function(*packed, grid=tuple(map(int, grid)), block=tuple(map(int, block)), shared=int(shared))

    def _packed(self, number: int, argument: Any) -> Any:
        """Return what PyCUDA packs: numbers of 1, 2, 4 or 8 bytes, at their natural alignment."""
        if isinstance(argument, CudaPointer):
            argument.buffer._address()  # noqa: SLF001
            return np.uintp(argument.address)
        if isinstance(argument, np.float16):
            return argument.view(np.uint16)
        if isinstance(argument, np.bool_):
            return np.uint8(argument)
        if isinstance(argument, (np.integer, np.float32, np.float64)):
            return argument
        raise LaunchFault(
            f"kernel {self.name}: argument {number} is a {type(argument).__name__}, not a pointer or a numpy scalar"
        )


class CudaModule:
    """A loaded cubin."""

    def __init__(self, module: Any, cubin: nvcc.Cubin, source: Path, device: CudaDevice) -> None:
        self._module = module
        self._source = source
        self._device = device
        self.resources = cubin.resources

    def kernel(self, name: str) -> CudaKernel:
        """Return it; raise `BuildFault` where the source has no such kernel."""
        try:
            function = self._module.get_function(name)
        except self._device.driver.Error as error:
            known = ", ".join(self.resources) or "none"
            raise BuildFault(
                f'{self._source} has no extern "C" __global__ function {name} (it has: {known}): {error}'
            ) from error
        known_resources = self.resources.get(name)
        static = (known_resources.shared or 0) if known_resources else 0
        return CudaKernel(name, function, static, self._device)


class CudaDevice:
    """A GPU with its primary context, current on this thread until `close`."""

    def __init__(self, driver: Any, context: Any, build_dir: Path, environ: Mapping[str, str]) -> None:
        self.driver = driver
        self.context: Any = context
        self.name = "a GPU"
        self.facts: Mapping[str, str | int | float | None] = {}
        self._build_dir = build_dir
        self._environ = environ
        self._architecture = ""
        self._lost = ""
        self._closed = False
        self._buffers: weakref.WeakSet[CudaBuffer] = weakref.WeakSet()
        # PyCUDA aborts the process at exit if its context stack is not empty then.
        atexit.register(self.close)

    def describe(self, device: Any, uuid: str | None, compiler: str) -> None:
        """Ask the device what it is."""
        major, minor = device.compute_capability()
        self._architecture = f"sm_{major}{minor}"
        self.name = str(device.name())
        attribute = self.driver.device_attribute.MULTIPROCESSOR_COUNT
        self.facts = {
            "name": self.name,
            "uuid": uuid,
            "capability": f"{major}.{minor}",
            "driver": probe.driver_version(),
            "cuda": ".".join(map(str, self.driver.get_version()[:2])),
            "pycuda": _pycuda_version(),
            "nvcc": compiler,
            "multiprocessors": int(device.get_attribute(attribute)),
            "memory": int(device.total_memory()),
        }

    def guarded(self, doing: str, call: Any, *, fatal: bool = False) -> Any:
        """`call()`, with PyCUDA's errors as `LaunchFault`. `fatal`: an error here ends the context."""
        if self._closed:
            raise LaunchFault(f"{doing}: the device is closed")
        if self._lost:
            raise LaunchFault(f"{doing}: the GPU's context was lost to an earlier error: {self._lost}")
        try:
            return call()
        except self.driver.Error as error:
            if fatal:
                self._lost = str(error)
            raise LaunchFault(f"{error}\n  in {doing}") from error

    def module(self, source: Path, *, includes: Sequence[Path] = (), defines: Mapping[str, str] | None = None) -> CudaModule:
        """Compile for this GPU's own architecture (or take from the cache) and load."""
        return self._loaded(
            source, nvcc.build_cubin(source, self._architecture, self._build_dir, includes, defines, self._environ)
        )

    def module_from_text(self, text: str, like: Path, *, includes: Sequence[Path] = ()) -> CudaModule:
        """Do the same for a changed text of the file `like`."""
        return self._loaded(
            like, nvcc.build_cubin(like, self._architecture, self._build_dir, includes, None, self._environ, text=text)
        )

    def _loaded(self, source: Path, cubin: nvcc.Cubin) -> CudaModule:
        data = cubin.path.read_bytes()
        module = self.guarded(f"loading the cubin of {source}", lambda: self.driver.module_from_buffer(data))
        return CudaModule(module, cubin, source, self)

    def buffer(self, size: int) -> CudaBuffer:
        """`size` bytes, content undefined."""
        made = CudaBuffer(self, size)
        self._buffers.add(made)
        return made

    def close(self) -> None:
        """Free the buffers and leave the context. Never raises; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        for buffer in list(self._buffers):
            buffer.free()
        # After a lost context even this may report the old error. But the stack has to be empty at exit, or PyCUDA
        # aborts: a second try succeeds where the first one only delivered that error.
        for _ in range(2):
            try:
                self.context.pop()
            except self.driver.Error:
                continue
            break
        # Modules that are still referred to keep the context until they go; then PyCUDA releases it.
        self.context = None
