"""Number formats bit by bit: what a kernel's array holds, how float64 is rounded into it, how far two values are apart.

numpy has no bfloat16, so its arrays are uint16 bit patterns everywhere (as on the device). All roundings are to
nearest, ties to even, in one step: rounding float64 to float32 and that to bfloat16 would be two, and wrong near
ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Format:
    """How one element type is stored.

    storage: the numpy dtype of its arrays. poison: the bit pattern outputs and what surrounds them are filled with, a
    quiet NaN with a payload, or 0xA5 bytes. fence: another one, for what surrounds inputs: a kernel that copies too
    much must not write poison over poison. precision: bits of the significand, the hidden one included (0 for
    integers). least: exponent of the smallest subnormal, 2**least. limit: exponent of the first power of two that is
    too large.
    """

    name: str
    storage: np.dtype[Any]
    poison: int
    fence: int
    precision: int = 0
    least: int = 0
    limit: int = 0

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return self.storage.itemsize

    @property
    def is_float(self) -> bool:
        """Whether it has NaN, infinities and a sign of zero."""
        return self.precision > 0

    @property
    def unit(self) -> float:
        """Unit roundoff u: |round(x) - x| <= u |x| in the normal range. 0 for integers."""
        return 2.0**-self.precision if self.is_float else 0.0

    @property
    def half_least(self) -> float:
        """Half the smallest subnormal: the error of rounding below the normal range. 0 for integers."""
        return 2.0 ** (self.least - 1) if self.is_float else 0.0


FORMATS = {
    found.name: found
    for found in (
        Format("float32", np.dtype(np.float32), 0x7FE5A5A5, 0x7FDA5A5A, 24, -149, 128),
        Format("float16", np.dtype(np.float16), 0x7FA5, 0x7F5A, 11, -24, 16),
        Format("bfloat16", np.dtype(np.uint16), 0x7FE5, 0x7FDA, 8, -133, 128),
        Format("int32", np.dtype(np.int32), 0xA5A5A5A5, 0x5A5A5A5A),
    )
}
"""The element types a kernel check knows, by name."""


def unsigned(bits: NDArray[Any]) -> NDArray[Any]:
    """The bit patterns of an array, same shape, as uint16 or uint32."""
    return bits.view(np.dtype(f"u{bits.dtype.itemsize}"))


def bfloat16_to_float32(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Exact: a bfloat16 is the upper half of a float32."""
    wide: NDArray[np.float32] = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return wide


def bfloat16_from_float64(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Round float64 (or anything exact in it) to bfloat16 bits in one step, to nearest, ties to even.

    NaN becomes the quiet NaN 0x7FC0 with its sign; too large becomes an infinity.
    """
    wide = np.asarray(values, dtype=np.float64)
    form = FORMATS["bfloat16"]
    finite = np.isfinite(wide)
    number = np.where(finite, wide, 0.0)
    _, exponent = np.frexp(number)  # |number| in [2**(exponent-1), 2**exponent)
    quantum = np.maximum(exponent - form.precision, form.least)
    # Scaling by a power of two is exact here (the result's magnitude is at most 2**8), and rint breaks ties to even; an
    # even multiple of the quantum is an even significand, also where rounding up reaches the next binade.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = np.ldexp(np.rint(np.ldexp(number, -quantum)), quantum)
        narrow = np.where(finite, rounded, wide).astype(np.float32)  # exact, or beyond 2**128: infinity
    bits = (narrow.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    quiet = np.where(np.signbit(wide), np.uint16(0xFFC0), np.uint16(0x7FC0))
    found: NDArray[np.uint16] = np.where(np.isnan(wide), quiet, bits).astype(np.uint16)
    return found


def store(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Round float64 once into the storage of `dtype`, same shape. Integers must be in range: ValueError."""
    form = FORMATS[dtype]
    if dtype == "bfloat16":
        return bfloat16_from_float64(values)
    if not form.is_float:
        whole = np.asarray(values)
        bounds = np.iinfo(form.storage)
        if whole.size and (whole.min() < bounds.min or whole.max() > bounds.max or np.any(whole != np.rint(whole))):
            raise ValueError(f"a value is not an {dtype}")
        return whole.astype(form.storage)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # numpy rounds float64 to float16 directly, not through float32.
        return np.asarray(values, dtype=np.float64).astype(form.storage)


def load(stored: NDArray[Any], dtype: str) -> NDArray[np.float64]:
    """The values of stored elements, exactly, as float64."""
    if dtype == "bfloat16":
        return _widen(bfloat16_to_float32(stored.view(np.uint16)))
    return _widen(stored)


def _widen(narrow: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # a signalling NaN is quieted, with an exception flag
        return narrow.astype(np.float64)


def ordered(stored: NDArray[Any], dtype: str) -> NDArray[np.int64]:
    """Integers in the order of the values, one apart for neighbours; -0 and +0 are both 0. Not for NaN."""
    pattern = unsigned(stored).astype(np.int64)
    if not FORMATS[dtype].is_float:
        return stored.astype(np.int64)
    top = np.int64(1) << (8 * stored.dtype.itemsize - 1)
    return np.where(pattern >= top, top - pattern, pattern)


def ulp_distance(left: NDArray[Any], right: NDArray[Any], dtype: str) -> NDArray[np.int64]:
    """How many representable values apart, elementwise. For integers their difference. Not for NaN."""
    distance: NDArray[np.int64] = np.abs(ordered(left, dtype) - ordered(right, dtype))
    return distance


def filled(size: int, dtype: str, pattern: int) -> NDArray[np.uint8]:
    """`size` bytes of a bit pattern of `dtype`'s width; `size` is a multiple of an element's."""
    width = FORMATS[dtype].size
    return np.full(size // width, pattern, dtype=np.dtype(f"u{width}")).view(np.uint8)


def gamma(count: int, unit: float) -> float:
    """gamma_n = n u / (1 - n u): the relative error after n roundings with unit roundoff u (Higham 2002)."""
    product = count * unit
    if product >= 1:
        raise ValueError(f"{count} roundings of {unit} have no bound")
    return product / (1 - product)
