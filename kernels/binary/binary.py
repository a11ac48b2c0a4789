"""add: out[i] = a[i] + b[i];  multiply: out[i] = a[i] * b[i].

One rounding to nearest, ties to even, an element (int32: modulo 2^32), so the answer is known bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from touchgate.checks import numerics
from touchgate.checks.cases import Array, Arrays, Benchmark, Bound, Case, Launch, Oracle, Placed, Span, given, wanted

DTYPES = ("float32", "float16", "bfloat16", "int32")
# Tiles of both blocks too, one element more, and none: 1024 floats or 2048 halves with 256 threads.
SIZES = (0, 1, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 1536, 2048, 2049, 4096, 4097, 4099, 8209)
GPU_SIZES = (65_537, 1_048_583)


def threads(n: int, dtype: str) -> int:
    """The shape rule: 1024 threads a block from 16 MiB an operand on; below 256, so that more processors have a block."""
    return 1024 if n * numerics.FORMATS[dtype].size >= 1 << 24 else 256


def cases() -> Iterator[Case]:
    """All sizes with ordinary values; one size with any bits at all; every pair of special values."""
    for dtype in DTYPES:
        for operation in ("add", "multiply"):
            for n in SIZES:
                yield Case(
                    f"{operation} {dtype} n={n}",
                    dtype,
                    {"operation": operation, "values": "ordinary", "n": n},
                    small=n in (1, 33, 1025),
                )
            for values, n in (("any bits", 8209), ("special pairs", len(special(dtype)) ** 2)):
                parameters = {"operation": operation, "values": values, "n": n}
                yield Case(f"{operation} {dtype} {values}", dtype, parameters, small=values == "special pairs")
            for n in GPU_SIZES:
                parameters = {"operation": operation, "values": "any bits", "n": n}
                yield Case(f"{operation} {dtype} n={n}", dtype, parameters, places=("gpu",))
            n = 2**24 // numerics.FORMATS[dtype].size + 1
            parameters = {"operation": operation, "values": "any bits", "n": n, "threads": threads(n, dtype)}
            yield Case(f"{operation} {dtype} n={n}, the rule's threads", dtype, parameters, places=("gpu",))


def special(dtype: str) -> NDArray[Any]:
    """Values at the edges of a type, in its storage type: zeros, subnormals, powers, the largest, infinities, NaN."""
    form = numerics.FORMATS[dtype]
    if not form.is_float:
        edges = [0, 1, -1, 2, -2, 3, 46341, -46341, 65535, 65536, 2**30, 2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1]
        return np.array(edges, dtype=np.int32)
    fraction = form.precision - 1
    top = 8 * form.size - 1
    infinity = (1 << top) - (1 << fraction)
    one = infinity // 2 // (1 << fraction) * (1 << fraction)
    positive = [
        *(0, 1, 2, (1 << fraction) - 1, 1 << fraction, (1 << fraction) + 1),  # zero, subnormals, the smallest normals
        *(one, one + 1, one - 1, one + (1 << fraction), one - (1 << fraction)),  # about 1, 2, 1/2
        *(one + (fraction + 1 << fraction), one - (fraction + 1 << fraction)),  # about 1/u and u: ties
        *(infinity - 1, infinity - (1 << fraction), infinity, infinity + (1 << fraction - 1) + 5),  # largest, inf, NaN
        *(infinity + 1, (1 << top) - 1),  # NaN: signalling, and all ones, which a rounding that adds may carry out of
    ]
    bits = [*positive, *(pattern | 1 << top for pattern in positive)]
    return np.array(bits, dtype=f"u{form.size}").view(form.storage)


def arrays(case: Case, random: np.random.Generator) -> Iterable[Array]:
    """Operands a and b, and out."""
    form, n = numerics.FORMATS[case.dtype], case["n"]
    if case["values"] == "special pairs":
        edges = special(case.dtype)
        # Every pair once; the seed only shuffles them, so that each meets the vector path, the head and the tail.
        order = random.permutation(n)
        a, b = np.repeat(edges, len(edges))[order], np.tile(edges, len(edges))[order]
    elif case["values"] == "any bits" or not form.is_float:
        a, b = (
            random.integers(0, 1 << 8 * form.size, n, dtype=f"u{form.size}", endpoint=False).view(form.storage)
            for _ in range(2)
        )
    else:
        # Of one magnitude, so that sums cancel and round; never zero, so that no zero output can be right.
        a, b = (numerics.store(random.uniform(0.5, 8, n) * random.choice((-1, 1), n), case.dtype) for _ in range(2))
    return given("a", case.dtype, a), given("b", case.dtype, b), wanted("out", case.dtype, (n,))


def launch(case: Case, placed: Mapping[str, Placed], threads: int) -> Iterator[Launch]:
    """In blocks of the case's threads, where it names some; a pack of 16 bytes a thread."""
    threads = case.parameters.get("threads", threads)
    tile = threads * 16 // numerics.FORMATS[case.dtype].size
    blocks = -(-case["n"] // tile)
    if blocks:
        pointers = [placed[name].pointer for name in ("a", "b", "out")]
        name = f"{case['operation']}_{case.dtype}"
        yield Launch(name, (blocks, 1, 1), (threads, 1, 1), [*pointers, np.int64(case["n"])])


def oracle(case: Case, inputs: Arrays) -> Arrays:
    """Rounded once from the exact result.

    float32 and int32: numpy's own arithmetic in that type. float16: sum and product are exact in float64's 53 bits (a
    float16 is a multiple of 2^-24 below 2^16). bfloat16: so is the product; a sum may not be, but rounding it to 53
    bits first is harmless since 53 >= 2 * 8 + 2 (Figueroa 1995), and the step to bfloat16 is one, not through
    float32.
    """
    a, b = inputs["a"], inputs["b"]
    if case.dtype in ("float16", "bfloat16"):
        a, b = numerics.load(a, case.dtype), numerics.load(b, case.dtype)
    with np.errstate(all="ignore"):
        return {"out": a + b if case["operation"] == "add" else a * b}


REASON = {
    "float32": "one IEEE operation: bit for bit",
    "float16": "one rounding of an exact result: bit for bit",
    "bfloat16": "one rounding of an exact result: bit for bit",
    "int32": "modulo 2^32: bit for bit",
}


def bound(case: Case, inputs: Arrays, outputs: Arrays) -> Mapping[str, Bound]:  # noqa: ARG001  the interface
    """None but the bits themselves."""
    return {"out": Bound(None, REASON[case.dtype])}


ORACLE = Oracle(cases, arrays, launch, oracle, bound)


TIMED = {"64 MiB": 1 << 26, "256 MiB": 1 << 28, "1 GiB": 1 << 30}


def benchmarks() -> Iterator[Benchmark]:
    """Add (multiply moves the same bytes) of operands of so many bytes: both are read once, `out` written once."""
    for dtype in DTYPES:
        form = numerics.FORMATS[dtype]
        for label, size in TIMED.items():
            n = size // form.size
            parameters = {"operation": "add", "values": "ordinary", "n": n, "threads": threads(n, dtype)}
            case = Case(f"add {dtype} {label}", dtype, parameters)
            spans = (
                Span("a", dtype, "in", (n,), along=True),
                Span("b", dtype, "in", (n,), along=True),
                Span("out", dtype, "out", (n,), along=True),
            )
            flop = n if form.is_float else 0
            yield Benchmark(case, spans, read=2 * size, written=size, flop=flop, rows="n")


BENCHMARKS = tuple(benchmarks())
