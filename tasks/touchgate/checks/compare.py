"""Compare what a kernel wrote with what the oracle says, bit for bit or within a bound, and say what differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from touchgate.checks import numerics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from touchgate.checks.cases import Bound


class BoundFault(Exception):
    """The oracle's answer or its bound is unusable (wrong shape, NaN, negative): one line."""


@dataclass(frozen=True)
class Mismatch:
    """One element that is not as it must be.

    got, expected: values; got_bits, expected_bits: hexadecimal, of the storage type (the expected value rounded into
    it). ulps: representable values between the two, None where one is a NaN. error, bound: absolute; unwritten: it
    still holds the poison.
    """

    index: tuple[int, ...]
    got: float
    expected: float
    got_bits: str
    expected_bits: str
    ulps: int | None
    error: float
    bound: float
    unwritten: bool


@dataclass(frozen=True)
class Comparison:
    """What comparing one output came to. Indices are the array's own.

    worst_*: the element with the largest error in terms of its bound, of all elements. zeros_would_pass: an output of
    zeros would have passed too, so this output alone proves little.
    """

    elements: int
    differing: int
    unwritten: int
    first: Mismatch | None
    worst_error: float
    worst_bound: float
    worst_index: tuple[int, ...]
    zeros_would_pass: bool


def compare(got: NDArray[Any], answer: NDArray[Any], dtype: str, bound: Bound) -> Comparison:
    """Judge one output.

    got: the storage type (bfloat16: uint16 bits), any shape. answer: the same shape, float64 or the storage type (for
    integers any that hold them). NaN is wanted where the answer is NaN and nowhere else, with any payload. An infinity
    is wanted where the answer is one; it is also right where the answer is finite, but rounding something within the
    bound of it gives that infinity. Raises `BoundFault`.
    """
    form = numerics.FORMATS[dtype]
    is_stored = answer.dtype == form.storage
    if not is_stored and answer.dtype != np.float64 and (form.is_float or answer.dtype.kind not in "iu"):
        raise BoundFault(f"the oracle gives {answer.dtype} for {dtype}; wanted is float64 or {form.storage}")
    if answer.shape != got.shape:
        raise BoundFault(f"the oracle gives shape {list(answer.shape)}, the output has {list(got.shape)}")
    try:
        expected = np.ascontiguousarray(answer) if is_stored else numerics.store(answer, dtype)
    except ValueError as fault:
        raise BoundFault(f"the oracle's answer: {fault}") from None
    exact = numerics.load(answer, dtype) if is_stored else np.asarray(answer, dtype=np.float64)
    value = numerics.load(got, dtype)
    unwritten = (numerics.unsigned(got) == form.poison) & (numerics.unsigned(expected) != form.poison)
    if bound.limit is None:
        rounded = numerics.load(expected, dtype)
        right = _bitwise(got, expected, value, rounded)
        error, limit = _distance(value, rounded), np.zeros(got.shape)
        # Which sign of zero is which is not a matter of distance.
        zeros_pass = bool(np.all(_bitwise(np.zeros_like(got), expected, np.zeros(got.shape), rounded)))
    else:
        limit = _checked_limit(bound.limit, exact)
        right, error = _within(value, exact, limit, dtype)
        zeros_pass = bool(np.all(_within(np.zeros(got.shape), exact, limit, dtype)[0]))
    right = right & ~unwritten
    worst = _worst(error, limit, right)
    wrong = np.argwhere(~right)
    first = tuple(int(i) for i in wrong[0]) if len(wrong) else None
    return Comparison(
        elements=got.size,
        differing=len(wrong),
        unwritten=int(np.count_nonzero(unwritten)),
        first=None
        if first is None
        else Mismatch(
            index=first,
            got=float(value[first]),
            expected=float(exact[first]),
            got_bits=hexadecimal(got[first]),
            expected_bits=hexadecimal(expected[first]),
            ulps=_ulps(got[first], expected[first], dtype),
            error=float(error[first]),
            bound=float(limit[first]),
            unwritten=bool(unwritten[first]),
        ),
        worst_error=float(error[worst]) if got.size else 0.0,
        worst_bound=float(limit[worst]) if got.size else 0.0,
        worst_index=worst,
        zeros_would_pass=zeros_pass,
    )


def hexadecimal(element: np.generic) -> str:
    """The bit pattern of one stored element, all digits."""
    pattern = numerics.unsigned(np.array([element]))[0]
    return f"0x{int(pattern):0{2 * pattern.itemsize}x}"


def _bitwise(
    got: NDArray[Any], expected: NDArray[Any], value: NDArray[np.float64], rounded: NDArray[np.float64]
) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = numerics.unsigned(got) == numerics.unsigned(expected)
    return same | (np.isnan(value) & np.isnan(rounded))


def _distance(value: NDArray[np.float64], exact: NDArray[np.float64]) -> NDArray[np.float64]:
    """|value - exact|; 0 for two NaN or equal infinities, infinite where only one of the two is NaN or infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(value - exact)
    same = (value == exact) | (np.isnan(value) & np.isnan(exact))
    found: NDArray[np.float64] = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    return found


def _within(
    value: NDArray[np.float64], exact: NDArray[np.float64], limit: NDArray[np.float64], dtype: str
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    error = _distance(value, exact)
    right = error <= limit
    overflowed = np.isinf(value) & np.isfinite(exact) & (np.signbit(value) == np.signbit(exact))
    if overflowed.any():
        outer = np.where(overflowed, exact + np.copysign(limit, exact), 0.0)
        allowed = overflowed & np.isinf(numerics.load(numerics.store(outer, dtype), dtype))
        right, error = right | allowed, np.where(allowed, 0.0, error)
    return right, error


def _checked_limit(limit: NDArray[np.float64] | float, exact: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = np.asarray(limit, dtype=np.float64)
    try:
        whole = np.broadcast_to(whole, exact.shape)
    except ValueError:
        raise BoundFault(f"the bound has shape {list(whole.shape)}, the output {list(exact.shape)}") from None
    # Beside a NaN or an infinity the bound has no part in the verdict, and may be anything.
    finite = np.isfinite(exact)
    bad = finite & ~(np.isfinite(whole) & (whole >= 0))
    if bad.any():
        index = [int(i) for i in np.argwhere(bad)[0]]
        raise BoundFault(f"the bound at {index} is {float(whole[tuple(index)])}; wanted is a finite number >= 0")
    return np.where(finite, whole, 0.0)


def _worst(error: NDArray[np.float64], limit: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[int, ...]:
    if not error.size:
        return (0,) * error.ndim
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.where(error == 0, 0.0, error / limit)
    # An element that is wrong although its error is no larger than the bound (a sign of zero) counts as over it.
    share = np.where(right, share, np.maximum(share, 1.0))
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(share)), error.shape))


def _ulps(got: np.generic, expected: np.generic, dtype: str) -> int | None:
    pair = np.array([got]), np.array([expected])
    if any(np.isnan(numerics.load(one, dtype))[0] for one in pair):
        return None
    return int(numerics.ulp_distance(*pair, dtype)[0])
