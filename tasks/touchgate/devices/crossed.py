"""Kernels on another instruction set: the emulated device as a program of that machine, run by an emulator of its user mode.

Each module is a process with a memory of its own, so a buffer's bytes are brought there when a launch names it, and
fetched when they are read. On a machine of the other byte order they are turned around on the way, by the type of the
array that was last written to the buffer.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from touchgate.devices import BuildFault, LaunchFault, compilers
from touchgate.devices.targets import tools_of, version_of
from touchgate.devices.toolchain import Toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from touchgate.devices import Argument
    from touchgate.devices.targets import Target

POISON = 0xFF
"""What a fresh buffer holds."""
MOST_TEXT = 2000
"""Characters of a program's last words that are shown."""


def open_device(build_dir: Path, target: Target, *, environ: Mapping[str, str] = os.environ) -> CrossedDevice:
    """The emulated device of a target. Raises `Unavailable` with the packages to install."""
    compiler, emulator = tools_of(target, environ)
    toolchain = Toolchain(build_dir, compilers.named(compiler, environ), sanitize=False, machine=target.name)
    return CrossedDevice(toolchain, target, emulator)


class CrossedPointer:
    """An address in a buffer."""

    def __init__(self, buffer: CrossedBuffer, at: int = 0) -> None:
        self.buffer = buffer
        self.at = at

    def offset(self, size: int) -> CrossedPointer:
        """Return the address `size` bytes further."""
        return CrossedPointer(self.buffer, self.at + size)


class CrossedBuffer:
    """Bytes that lie here, or in the process that used them last."""

    def __init__(self, size: int) -> None:
        if size < 0:
            raise ValueError(f"a buffer of {size} bytes")
        self.size = size
        self._kind = np.dtype(np.uint8)
        self._bytes = bytearray(bytes([POISON]) * size)
        self._with: _Process | None = None
        self._address = 0
        self._is_freed = False

    @property
    def pointer(self) -> CrossedPointer:
        """Its first byte."""
        self._living()
        return CrossedPointer(self)

    def write(self, data: NDArray[Any]) -> None:
        """Copy a contiguous array in, from the first byte on. Its type says how the bytes belong together."""
        if not data.flags.c_contiguous:
            raise ValueError("only a contiguous array can be written")
        if data.nbytes > self.size:
            raise ValueError(f"{data.nbytes} bytes do not fit into a buffer of {self.size}")
        self._fetch()
        self._kind = data.dtype
        self._bytes[: data.nbytes] = data.tobytes()

    def read(self) -> NDArray[np.uint8]:
        """All bytes, in this machine's order."""
        self._fetch()
        return np.frombuffer(bytes(self._bytes), np.uint8)

    def free(self) -> None:
        """Give the memory back."""
        if self._with is not None:
            self._with.release(self._address)
        self._with, self._is_freed = None, True

    def address_in(self, process: _Process) -> int:
        """Where it lies in a process, brought there if need be."""
        self._living()
        if self._with is not process:
            self._fetch()
            self._address = process.allocate(self.size)
            process.write(self._address, _turned(self._bytes, self._kind) if process.is_other_order else bytes(self._bytes))
            self._with = process
        return self._address

    def _fetch(self) -> None:
        self._living()
        process, self._with = self._with, None
        if process is not None:
            data = process.read(self._address, self.size)
            self._bytes[:] = _turned(data, self._kind) if process.is_other_order else data
            process.release(self._address)

    def _living(self) -> None:
        if self._is_freed:
            raise LaunchFault(f"a buffer of {self.size} bytes is used after it was freed")


def _turned(data: bytes | bytearray, kind: np.dtype[Any]) -> bytes:
    """The bytes of an array of this type in the other byte order; what is left at the end stays."""
    turned = bytearray(data)
    # In place, so that what lies between a struct's members stays as well.
    np.frombuffer(turned, kind, len(turned) // kind.itemsize).byteswap(inplace=True)
    return bytes(turned)


class CrossedKernel:
    """One kernel of a module."""

    def __init__(self, name: str, process: _Process, workers: int) -> None:
        self.name = name
        self._process = process
        self._workers = workers
        self._number = list(process.kernels).index(name)
        self._parameters = process.kernels[name]

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
        self._process.launch(self._number, (*grid, *block, shared, 0, self._workers), packed)

    def _packed(self, number: int, argument: Any, kind: str, size: int) -> bytes:
        """The argument's bytes as the machine has them, where its type is the parameter's."""
        if isinstance(argument, CrossedPointer):
            if kind == "p":
                address = argument.buffer.address_in(self._process) + argument.at
                return address.to_bytes(size, self._process.order)
            given = "a pointer"
        elif isinstance(argument, np.generic):
            data = argument.tobytes()
            if kind == "i" and argument.dtype.kind in "iu" and len(data) > size:
                # size_t and long are shorter on a machine of 32 bits.
                value, signed = int(argument), argument.dtype.kind == "i"
                if -(1 << 8 * size - 1) * signed <= value < 1 << 8 * size - signed:
                    return value.to_bytes(size, self._process.order, signed=signed)
            fits = {"b": "i", "i": "i", "u": "i", "f": "f"}.get(argument.dtype.kind) == kind or kind == "s"
            if fits and len(data) == size:
                return _turned(data, argument.dtype) if self._process.is_other_order else data
            given = f"numpy.{argument.dtype}"
        else:
            given = f"a {type(argument).__name__}, not a pointer or a numpy scalar"
        wanted = {"p": "a pointer", "i": f"an integer of {size} bytes", "f": f"a float of {size} bytes"}
        raise LaunchFault(
            f"kernel {self.name}: argument {number} is {given}, the parameter {wanted.get(kind, f'a struct of {size} bytes')}"
        )


class CrossedModule:
    """A compiled .cu file, running."""

    def __init__(self, process: _Process, source: Path, workers: int) -> None:
        self._process = process
        self._source = source
        self._workers = workers

    def kernel(self, name: str) -> CrossedKernel:
        """Return it; raise `BuildFault` where the source has no such kernel."""
        if name not in self._process.kernels:
            known = ", ".join(sorted(self._process.kernels)) or "none"
            raise BuildFault(f'{self._source} has no extern "C" __global__ function {name} (it has: {known})')
        return CrossedKernel(name, self._process, self._workers)


class CrossedDevice:
    """Another machine's CPU, as far as a kernel can tell."""

    name = "emulated"

    def __init__(self, toolchain: Toolchain, target: Target, emulator: str) -> None:
        self._toolchain = toolchain
        self._emulator = emulator
        self._processes: list[_Process] = []
        self._workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.facts: Mapping[str, str | int | float | None] = {
            "compiler": toolchain.compiler.version,
            "machine": target.name,
            "emulator": version_of(emulator),
        }

    def module(
        self, source: Path, *, includes: Sequence[Path] = (), defines: Mapping[str, str] | None = None
    ) -> CrossedModule:
        """Compile (or take from the cache) and start."""
        if not source.is_file():
            raise BuildFault(f"{source}: no such file")
        return self._started(self._toolchain.program(None, source, includes, defines or {}), source)

    def module_from_text(self, text: str, like: Path, *, includes: Sequence[Path] = ()) -> CrossedModule:
        """Do the same for a changed text of the file `like`."""
        return self._started(self._toolchain.program(text, like, includes, {}), like)

    def buffer(self, size: int) -> CrossedBuffer:
        """`size` bytes, every bit set."""
        return CrossedBuffer(size)

    def close(self) -> None:
        """End the programs."""
        for process in self._processes:
            process.end()

    def _started(self, program: Path, source: Path) -> CrossedModule:
        process = _Process([self._emulator, str(program)])
        self._processes.append(process)
        return CrossedModule(process, source, self._workers)


class _Process:
    """A program with emulation/host.cpp in it, and the requests to it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  until the process ends
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words)
        self.kernels: dict[str, list[tuple[str, int]]] = {}
        try:
            self._describe()
        except LaunchFault:
            self.end()
            raise

    def _describe(self) -> None:
        order, bits = self._ask("describe").split()
        self.order: Any = order
        self.is_other_order = order != ("little" if np.little_endian else "big")
        self.bits = int(bits)
        while (line := self._line()) != "end":
            name, *parameters = line.split()
            self.kernels[name] = [(kind, int(size)) for kind, size in zip(parameters[::2], parameters[1::2], strict=True)]

    def allocate(self, size: int) -> int:
        """The address of `size` fresh bytes. Raises `LaunchFault` where there are none."""
        address = int(self._ask(f"allocate {size}").split()[1])
        if not address:
            raise LaunchFault(f"no memory for a buffer of {size} bytes")
        return address

    def release(self, address: int) -> None:
        """Give them back."""
        if self._child.poll() is None:
            self._ask(f"release {address}")

    def write(self, address: int, data: bytes) -> None:
        """Set bytes."""
        self._ask(f"write {address} {len(data)}", data)

    def read(self, address: int, size: int) -> bytes:
        """Get bytes."""
        self._ask(f"read {address} {size}")
        return self._bytes(size)

    def launch(self, kernel: int, numbers: Sequence[int], arguments: Sequence[bytes]) -> None:
        """Run a kernel by its number. Raises `LaunchFault`."""
        request = " ".join(map(str, ("launch", kernel, *numbers, len(arguments))))
        answer = self._ask(request, b"".join(b" %d\n%b" % (len(one), one) for one in arguments))
        if answer.startswith("fault"):
            raise LaunchFault(self._bytes(int(answer.split()[1])).decode("utf-8", "replace"))

    def end(self) -> None:
        """End the program."""
        for pipe in self._pipes():
            with suppress(OSError):  # what it did not read any more
                pipe.close()
        self._child.wait()
        self._words.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        to, answers = self._child.stdin, self._child.stdout
        if to is None or answers is None:
            raise LaunchFault("no pipe to the program")
        return to, answers

    def _ask(self, request: str, data: bytes = b"") -> str:
        to, _ = self._pipes()
        try:
            to.write(f"{request}\n".encode() + data)
            to.flush()
        except OSError:
            raise self._ended() from None
        return self._line()

    def _line(self) -> str:
        line = self._pipes()[1].readline()
        if not line.endswith(b"\n"):
            raise self._ended()
        return line.decode().rstrip("\n")

    def _bytes(self, size: int) -> bytes:
        data = self._pipes()[1].read(size)
        if len(data) != size:
            raise self._ended()
        return data

    def _ended(self) -> LaunchFault:
        """It answers no more: how it ended, and its last words."""
        status = self._child.wait()
        self._words.seek(0)
        words = self._words.read().decode("utf-8", "replace").strip()[-MOST_TEXT:]
        return LaunchFault(f"the program ended with status {status}" + (f": {words}" if words else ""))
