"""Where a check's arrays lie on the device: shifted off alignment, rows apart, everything around them poisoned.

One buffer an array: a red zone, the array, a red zone. Before the launch every byte that is not an input's element
holds a pattern: poison in and about outputs, the fence about inputs, the gaps between rows included. Afterwards only
the elements of outputs and scratch may have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from touchgate.checks import numerics
from touchgate.checks.cases import Array, Placed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

    from touchgate.devices import Buffer, Device

ZONE = 4096
"""Bytes of a red zone: what a block of 256 threads writes in one step of 16 bytes a thread."""


@dataclass(frozen=True)
class Layout:
    """How arrays are laid out.

    shift: elements between the red zone's end and the array's begin. only: shift this array alone (its position, modulo
    their number), None: all. gap: "none"; "odd": rows an odd number of elements apart; "even": rows apart so that each
    begins at a multiple of 16 bytes. No two arrays have the same gap: the stride of one must not do for another. zone:
    bytes of a red zone; 0 where the device itself watches what surrounds a buffer. fresh: outputs and scratch stay as they
    were allocated, for a tool that watches whether memory was written before it is read; packed and unshifted then.
    """

    shift: int = 0
    only: int | None = None
    gap: str = "none"
    zone: int = ZONE
    fresh: bool = False

    def stride(self, columns: int, size: int, position: int) -> int:
        """Elements from one row to the next, for rows of `columns` elements of `size` bytes, in array `position`."""
        if self.gap == "odd":
            return columns + 3 + 2 * position
        if self.gap == "even":
            step = max(16 // size, 1)
            return (columns // step + 1 + position) * step
        return columns

    def offset(self, position: int, count: int) -> int:
        """Elements that array `position` of `count` is shifted by."""
        return self.shift if self.only is None or self.only % count == position else 0


@dataclass(frozen=True)
class Damage:
    """A change where none may be. where: in words; before, after: one element in hexadecimal; elements: how many."""

    where: str
    before: str
    after: str
    elements: int


class Image:
    """One array's buffer as it is before the launch, and where in it the elements lie."""

    def __init__(self, array: Array, shift: int, stride: int, zone: int) -> None:
        """`shift` and `stride` in elements, `zone` in bytes."""
        self.array = array
        self.stride = stride
        self._form = numerics.FORMATS[array.dtype]
        self._rows, self._columns = array.shape if array.is_matrix else (1, array.shape[0])
        around = zone // self._form.size
        self.begin = around + shift
        # The last row's gap belongs to the red zone behind it.
        self._span = (self._rows - 1) * stride + self._columns if self._rows and self._columns else 0
        pattern = self._form.fence if array.role == "in" else self._form.poison
        self.before = numerics.filled((self.begin + self._span + around) * self._form.size, array.dtype, pattern)
        if array.data is not None:
            self.elements(self.before)[...] = array.data

    def elements(self, raw: NDArray[Any]) -> NDArray[Any]:
        """The array's elements in its buffer's bytes: a view in the storage type, of the array's shape."""
        return self._window(raw.view(self._form.storage))

    def damage(self, after: NDArray[np.uint8]) -> Damage | None:
        """What changed that may not: a red zone, a gap between rows, an input."""
        pattern = numerics.unsigned(after.view(self._form.storage))
        former = numerics.unsigned(self.before.view(self._form.storage))
        changed = pattern != former
        if self.array.role != "in":
            self._window(changed)[...] = False
        found = np.flatnonzero(changed)
        if not len(found):
            return None
        first, digits = int(found[0]), 2 * self._form.size
        return Damage(
            where=self._describe(first - self.begin),
            before=f"0x{int(former[first]):0{digits}x}",
            after=f"0x{int(pattern[first]):0{digits}x}",
            elements=len(found),
        )

    def _window(self, flat: NDArray[Any]) -> NDArray[Any]:
        step = flat.itemsize
        steps = (self.stride * step, step) if self.array.is_matrix else (step,)
        return np.lib.stride_tricks.as_strided(flat[self.begin :], self.array.shape, steps)

    def _describe(self, position: int) -> str:
        """Where an element outside the array lies, or which element of it; `position` counts from the array's first."""
        name = self.array.name
        if position < 0:
            return f"{-position} elements before {name}"
        if position >= self._span:
            return f"{position - self._span + 1} elements behind the end of {name}"
        row, column = divmod(position, self.stride)
        if column >= self._columns:
            return f"in the gap behind row {row} of {name}, {column - self._columns} elements from the row's end"
        return f"{name}[{row}, {column}]" if self.array.is_matrix else f"{name}[{column}]"


class Placement:
    """The arrays of one case on a device. A context manager: the memory is given back at its end."""

    def __init__(self, device: Device, arrays: Iterable[Array], layout: Layout) -> None:
        self.images: list[Image] = []
        self._buffers: list[Buffer] = []
        self.placed: dict[str, Placed] = {}
        self._fresh = layout.fresh
        listed = list(arrays)
        try:
            for position, array in enumerate(listed):
                self._place(device, array, layout, position, len(listed))
        except BaseException:
            self.free()
            raise

    def _place(self, device: Device, array: Array, layout: Layout, position: int, count: int) -> None:
        if array.name in self.placed:
            raise ValueError(f"two arrays are named {array.name!r}")
        size = numerics.FORMATS[array.dtype].size
        stride = layout.stride(array.shape[1], size, position) if array.is_matrix else array.shape[0]
        image = Image(array, layout.offset(position, count), stride, layout.zone)
        buffer = device.buffer(image.before.nbytes)
        self._buffers.append(buffer)
        self.images.append(image)
        if array.role == "in" or not self._fresh:
            buffer.write(image.before)
        pointer = buffer.pointer.offset(image.begin * size)
        self.placed[array.name] = Placed(pointer, array.shape, stride, array.dtype)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.free()

    def read(self) -> tuple[Mapping[str, NDArray[Any]], list[Damage]]:
        """The outputs by name as contiguous arrays in their storage types, and all damage, one an array at most."""
        outputs: dict[str, NDArray[Any]] = {}
        damages: list[Damage] = []
        for image, buffer in zip(self.images, self._buffers, strict=True):
            if self._fresh and image.array.role == "scratch":
                continue  # what the kernel left unwritten of it may not be read
            after = buffer.read()
            damage = image.damage(after)
            if damage is not None:
                damages.append(damage)
            if image.array.role == "out":
                outputs[image.array.name] = np.ascontiguousarray(image.elements(after))
        return outputs, damages

    def free(self) -> None:
        """Give the memory back."""
        while self._buffers:
            self._buffers.pop().free()
