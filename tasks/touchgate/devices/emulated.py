"""Kernels on the CPU: the same .cu text, compiled as C++ with the headers in emulation/, loaded by ctypes.

What this shows and what it cannot: docs/emulation.md.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from touchgate.devices import BuildFault, LaunchFault, Unavailable, compilers
from touchgate.devices.toolchain import HEADERS, Toolchain, sanitizer_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from touchgate.devices import Argument
    from touchgate.devices.compilers import Compiler

__all__ = ["HEADERS", "EmulatedDevice", "open_device", "sanitizer_environment"]

_MESSAGE_BYTES = 8192


class _Parameter(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_char), ("size", ctypes.c_int))


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("parameter_count", ctypes.c_int),
        ("parameters", ctypes.POINTER(_Parameter)),
        ("max_threads", ctypes.c_int),
    )


class _Module(ctypes.Structure):
    _fields_ = (
        ("kernel_count", ctypes.c_int),
        ("kernels", ctypes.POINTER(_Kernel)),
        ("api", ctypes.c_void_p),
        ("shared_size", ctypes.c_void_p),
        ("slot_count", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("place_count", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
    )


def open_device(
    build_dir: Path,
    *,
    seed: int = 0,
    sanitize: bool = False,
    compiler: Compiler | None = None,
    flags: tuple[str, ...] = (),
    environ: Mapping[str, str] = os.environ,
) -> EmulatedDevice:
    """Open the emulated device.

    `compiler`: None for the one that `environ` names. `flags`: of the kernels' compilation, above our own.
    `seed`: 0 runs a block's threads in ascending order, else in a permuted one, drawn anew after every barrier.
    `sanitize`: with AddressSanitizer and UndefinedBehaviorSanitizer; the process must have been started with the
    variables of `sanitizer_environment()`. Raises `Unavailable` without a C++ compiler.
    """
    compiler = compiler or compilers.find(environ)
    if sanitize and not hasattr(ctypes.CDLL(None), "__asan_init"):
        raise Unavailable(
            "this process was started without the sanitizer's library: "
            "start it with the variables of touchgate.devices.emulated.sanitizer_environment()"
        )
    return EmulatedDevice(Toolchain(build_dir, compiler, sanitize, flags), seed)


class EmulatedPointer:
    """An address in a buffer."""

    def __init__(self, address: int, buffer: EmulatedBuffer) -> None:
        self.address = address
        self.buffer = buffer

    def offset(self, size: int) -> EmulatedPointer:
        """Return the address `size` bytes further."""
        return EmulatedPointer(self.address + size, self.buffer)


class EmulatedBuffer:
    """Memory between inaccessible pages; every bit set at first, so that what is read unwritten is NaN or -1."""

    def __init__(self, runtime: ctypes.CDLL, size: int) -> None:
        if size < 0:
            raise ValueError(f"a buffer of {size} bytes")
        address = runtime.touchgate_allocate(size)
        if not address:
            raise LaunchFault(f"no memory for a buffer of {size} bytes")
        self.size = size
        self._address = int(address)
        self._release = weakref.finalize(self, runtime.touchgate_release, address)

    @property
    def pointer(self) -> EmulatedPointer:
        """Its first byte."""
        self._living()
        return EmulatedPointer(self._address, self)

    def write(self, data: NDArray[Any]) -> None:
        """Copy a contiguous array in, from the first byte on."""
        self._living()
        if not data.flags.c_contiguous:
            raise ValueError("only a contiguous array can be written")
        if data.nbytes > self.size:
            raise ValueError(f"{data.nbytes} bytes do not fit into a buffer of {self.size}")
        ctypes.memmove(self._address, data.ctypes.data, data.nbytes)

    def read(self) -> NDArray[np.uint8]:
        """All bytes."""
        self._living()
        data = np.empty(self.size, np.uint8)
        ctypes.memmove(data.ctypes.data, self._address, self.size)
        return data

    def free(self) -> None:
        """Give the memory back."""
        self._release()

    def _living(self) -> None:
        if not self._release.alive:
            raise LaunchFault(f"a buffer of {self.size} bytes is used after it was freed")


class EmulatedKernel:
    """One kernel of a loaded module."""

    def __init__(self, name: str, index: int, module: EmulatedModule, device: EmulatedDevice) -> None:
        self.name = name
        self._index = index
        self._module = module
        self._device = device
        described = module.description.kernels[index]
        self._parameters = [
            (described.parameters[i].kind.decode(), described.parameters[i].size) for i in range(described.parameter_count)
        ]

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Argument],
        shared: int = 0,
    ) -> None:
        """Run all blocks and wait for the end. Raises `LaunchFault`."""
        if len(arguments) != len(self._parameters):
            raise LaunchFault(f"kernel {self.name} has {len(self._parameters)} parameters, {len(arguments)} were given")
        if min(*grid, *block, shared) < 0:
            raise LaunchFault(f"kernel {self.name}: grid {grid}, block {block} and shared {shared} can't be negative")
        packed = [
            self._packed(number, argument, *parameter)
            for number, (argument, parameter) in enumerate(zip(arguments, self._parameters, strict=True), 1)
        ]
        addresses = (ctypes.c_void_p * max(1, len(packed)))(*(ctypes.addressof(value) for value in packed))
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        runtime = self._device.runtime
        stopped = runtime.touchgate_launch(
            ctypes.addressof(self._module.description),
            self._index,
            (ctypes.c_uint * 3)(*grid),
            (ctypes.c_uint * 3)(*block),
            shared,
            addresses,
            self._device.seed & 0xFFFFFFFFFFFFFFFF,
            self._device.workers,
            message,
            _MESSAGE_BYTES,
        )
        if not stopped and runtime.touchgate_check(message, _MESSAGE_BYTES):
            stopped = 1
            message.value = message.value + f"\n  after kernel {self.name}".encode()
        if stopped:
            raise LaunchFault(message.value.decode("utf-8", "replace"))

    def _packed(self, number: int, argument: Any, kind: str, size: int) -> ctypes.Array[ctypes.c_char]:
        """Return the argument's bytes, where its type is the parameter's."""
        if isinstance(argument, EmulatedPointer):
            argument.buffer._living()  # noqa: SLF001
            data, given, fits = argument.address.to_bytes(8, "little"), "a pointer", kind == "p"
        elif isinstance(argument, np.generic):
            data, given = argument.tobytes(), f"numpy.{argument.dtype}"
            fits = {"b": "i", "i": "i", "u": "i", "f": "f"}.get(argument.dtype.kind) == kind or kind == "s"
            fits = fits and len(data) == size
        else:
            raise LaunchFault(
                f"kernel {self.name}: argument {number} is a {type(argument).__name__}, not a pointer or a numpy scalar"
            )
        if not fits:
            wanted = {"p": "a pointer", "i": f"an integer of {size} bytes", "f": f"a float of {size} bytes"}
            raise LaunchFault(
                f"kernel {self.name}: argument {number} is {given}, "
                f"the parameter {wanted.get(kind, f'a struct of {size} bytes')}"
            )
        # c_char arrays are aligned to one byte only: 16 more, so that the value can begin at a multiple of 16.
        room = ctypes.create_string_buffer(size + 16)
        start = -ctypes.addressof(room) % 16
        return (ctypes.c_char * size).from_buffer(_filled(room, start, data), start)


def _filled(room: ctypes.Array[ctypes.c_char], start: int, data: bytes) -> ctypes.Array[ctypes.c_char]:
    ctypes.memmove(ctypes.addressof(room) + start, data, len(data))
    return room


class EmulatedModule:
    """A compiled and loaded .cu file."""

    def __init__(self, library: ctypes.CDLL, source: Path, device: EmulatedDevice) -> None:
        library.touchgate_module.restype = ctypes.POINTER(_Module)
        self.description: _Module = library.touchgate_module().contents
        self._library = library
        self._source = source
        self._device = device
        self._names = {self.description.kernels[i].name.decode(): i for i in range(self.description.kernel_count)}

    def kernel(self, name: str) -> EmulatedKernel:
        """Return it; raise `BuildFault` where the source has no such kernel."""
        if name not in self._names:
            known = ", ".join(sorted(self._names)) or "none"
            raise BuildFault(f'{self._source} has no extern "C" __global__ function {name} (it has: {known})')
        return EmulatedKernel(name, self._names[name], self, self._device)


class EmulatedDevice:
    """The CPU, as far as a kernel can tell."""

    name = "emulated"

    def __init__(self, toolchain: Toolchain, seed: int) -> None:
        self._toolchain = toolchain
        self.runtime = toolchain.runtime()
        self.seed = seed
        self.workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._buffers: weakref.WeakSet[EmulatedBuffer] = weakref.WeakSet()
        self.facts: Mapping[str, str | int | float | None] = {
            "compiler": toolchain.compiler.version,
            "machine": os.uname().machine,
            "sanitized": int(toolchain.sanitize),
            "seed": seed,
            **({"flags": " ".join(toolchain.flags)} if toolchain.flags else {}),
        }

    def module(
        self, source: Path, *, includes: Sequence[Path] = (), defines: Mapping[str, str] | None = None
    ) -> EmulatedModule:
        """Compile (or take from the cache) and load."""
        if not source.is_file():
            raise BuildFault(f"{source}: no such file")
        return EmulatedModule(self._toolchain.module(None, source, includes, defines or {}), source, self)

    def module_from_text(self, text: str, like: Path, *, includes: Sequence[Path] = ()) -> EmulatedModule:
        """Do the same for a changed text of the file `like`."""
        return EmulatedModule(self._toolchain.module(text, like, includes, {}), like, self)

    def buffer(self, size: int) -> EmulatedBuffer:
        """`size` bytes, every bit set."""
        made = EmulatedBuffer(self.runtime, size)
        self._buffers.add(made)
        return made

    def close(self) -> None:
        """Free what is still allocated."""
        for buffer in list(self._buffers):
            buffer.free()
