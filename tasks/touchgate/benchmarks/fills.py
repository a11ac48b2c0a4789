"""Random elements that the device makes itself, and the same ones here: no gigabyte crosses the bus.

An element depends on its index and its array's seed alone. Floats lie in (-1, -1/2] and [1/2, 1); integers are odd. None
is zero: zeros take less power, and so a higher clock, than data does.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from touchgate.devices import Module, Pointer

SOURCE = Path(__file__).with_name("fill.cu")
THREADS = 256
BLOCKS = 4096
"""At most; each goes on with a stride."""


class Pattern(NamedTuple):
    """Bits of an element: base | (hash & mask) | sign if the hash's top bit is set. size: bytes."""

    size: int
    base: int
    mask: int
    sign: int


PATTERNS = {
    "float32": Pattern(4, 0x3F000000, 0x007FFFFF, 0x80000000),
    "float16": Pattern(2, 0x3800, 0x03FF, 0x8000),
    "bfloat16": Pattern(2, 0x3F00, 0x007F, 0x8000),
    "int32": Pattern(4, 0x00000001, 0x7FFFFFFE, 0x80000000),
}


def seed_of(name: str) -> int:
    """An array's seed: the same in every process."""
    return zlib.crc32(name.encode())


def bits(indices: NDArray[Any], dtype: str, seed: int) -> NDArray[Any]:
    """The elements at `indices` (integers, any shape) as uint16 or uint32 bits, as fill.cu makes them."""
    pattern = PATTERNS[dtype]
    index = np.asarray(indices, np.uint64)
    low, high = (index & np.uint64(0xFFFFFFFF)).astype(np.uint32), (index >> np.uint64(32)).astype(np.uint32)
    with np.errstate(over="ignore"):
        h = low ^ (high * np.uint32(0x9E3779B9)) ^ np.uint32(seed)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    signs = (h >> np.uint32(31)) * np.uint32(pattern.sign)
    made: NDArray[Any] = (np.uint32(pattern.base) | (h & np.uint32(pattern.mask)) | signs).astype(f"u{pattern.size}")
    return made


def fill(module: Module, target: Pointer, count: int, dtype: str, seed: int) -> None:
    """Make `count` elements at `target`. module: fill.cu's."""
    _launch(module, target, count, PATTERNS[dtype], seed)


def flood(module: Module, target: Pointer, count: int, size: int, bits: int) -> None:
    """Make `count` elements of `size` bytes (2 or 4) the same. module: fill.cu's."""
    _launch(module, target, count, Pattern(size, bits, 0, 0), 0)


def _launch(module: Module, target: Pointer, count: int, pattern: Pattern, seed: int) -> None:
    if not count:
        return
    blocks = min(-(-count // THREADS), BLOCKS)
    words = [np.uint32(value) for value in (seed, pattern.base, pattern.mask, pattern.sign)]
    kernel = module.kernel(f"fill_{pattern.size}")
    kernel.launch((blocks, 1, 1), (THREADS, 1, 1), [target, np.int64(count), *words])
