"""Where kernels run: one small protocol, two implementations.

`cuda` (PyCUDA, a GPU) and `emulated` (the same .cu text through g++ and one header of ours). A kernel is an
`extern "C" __global__` function of a .cu file. bfloat16 has no numpy type: its arrays are uint16 bit patterns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Unavailable(Exception):
    """The device, or a tool it needs, is not here. The text says what is missing and which package brings it."""


class LaunchFault(Exception):
    """A launch went wrong: a divergent barrier, an illegal address, an unlaunchable configuration. One line or more."""


class BuildFault(Exception):
    """The source does not compile. The text is the compiler's own message."""


class Pointer(Protocol):
    """An address in the device's memory."""

    def offset(self, size: int) -> Pointer:
        """The address `size` bytes further."""


class Buffer(Protocol):
    """Bytes on the device."""

    size: int
    """Bytes."""

    @property
    def pointer(self) -> Pointer:
        """Its first byte; aligned to at least 256 bytes."""

    def write(self, data: NDArray[Any]) -> None:
        """Copy a contiguous array in, from the first byte on."""

    def read(self) -> NDArray[np.uint8]:
        """All bytes, a fresh array of dtype uint8, shape (size,)."""

    def free(self) -> None:
        """Give the memory back."""


Argument = Union["Pointer", "np.generic"]
"""A kernel's argument: a pointer, or a numpy scalar of exactly the parameter's type (np.int32, np.int64, np.float32...)."""


class Kernel(Protocol):
    """One `extern "C" __global__` function."""

    name: str

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Argument],
        shared: int = 0,
    ) -> None:
        """Launch and wait for the end. `shared`: bytes of dynamic shared memory. Raises `LaunchFault`."""


class Module(Protocol):
    """A compiled .cu file."""

    def kernel(self, name: str) -> Kernel:
        """Raises `BuildFault` where the source has no such kernel."""


class Device(Protocol):
    """A GPU, or its emulation."""

    name: str
    """The GPU's name, or "emulated"."""
    facts: Mapping[str, str | int | float | None]
    """Driver, compute capability, compiler...: for the report and the key. Unknown is None, never 0."""

    def module(self, source: Path, *, includes: Sequence[Path] = (), defines: Mapping[str, str] | None = None) -> Module:
        """Compile (or take from the cache) and load. Raises `BuildFault`, `Unavailable`."""

    def module_from_text(self, text: str, like: Path, *, includes: Sequence[Path] = ()) -> Module:
        """The same for a changed text of the file `like` (mutants): its folder is on the include path."""

    def buffer(self, size: int) -> Buffer:
        """`size` bytes, content undefined."""

    def close(self) -> None:
        """Release everything."""
