"""y = x / sqrt(mean(x^2) + eps) * w, row by row, in float, one rounding into the storage type at the end."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from touchgate.checks import numerics
from touchgate.checks.cases import Array, Arrays, Benchmark, Bound, Case, Launch, Oracle, Placed, Span, given, wanted

DTYPES = ("float32", "float16", "bfloat16")
WAYS = {"2": (2, 1), "4": (4, 1), "8": (8, 1), "8x2": (8, 2), "4x8": (4, 8), "8x8": (8, 8)}
"""Kernels of rmsnorm.cu: packs that a thread keeps, and blocks that share a row."""
# Each by the rule's kernel, and by another one.
SHAPES = (
    *((1, 1, "4"), (3, 31, "8"), (4, 32, "8x2"), (3, 33, "4x8"), (3, 255, "8x8"), (2, 256, "4"), (3, 257, "8x2")),
    *((2, 1023, "8"), (3, 1025, "4x8"), (2, 4099, "8x8"), (1, 8200, "8x2"), (37, 5, "8x2"), (2, 2061, "2")),
)
EMPTY_SHAPES = ((0, 7), (3, 0))
# Clusters are for a GPU alone: emulated, one block does what they do, and reads the row twice.
GPU_SHAPES = (
    *((521, 1031), (64, 8192), (300, 16_384), (16_411, 33)),
    *((3, 65_536), (2, 65_539), (5, 131_072), (3, 262_144), (2, 262_147), (1, 600_001)),
)
BLOCKS = (256, 96)
# The largest value whose square a row may hold: float16's largest; 2^60 where the type has float's range.
OUTLIER = {"float32": 2.0**60, "float16": 65504.0, "bfloat16": 2.0**60}


def way(n: int, dtype: str) -> str:
    """The shape rule: which kernel does rows of n elements, however many rows.

    Rows of up to 256 packs of 16 bytes: two packs a thread. Up to 2048: four. Up to 8192: eight, which is as much as one
    block's registers keep. Beyond that several blocks share a row: it is read once up to 65,536 packs (262,144 floats).
    """
    count = packs(n, dtype)
    limits = {256: "2", 2048: "4", 8192: "8", 16384: "8x2", 32768: "4x8"}
    return next((chosen for limit, chosen in limits.items() if count <= limit), "8x8")


def packs(n: int, dtype: str) -> int:
    """How many whole packs of 16 bytes n elements have."""
    return n * numerics.FORMATS[dtype].size // 16


def threads(n: int, dtype: str) -> int:
    """The shape rule's other half: threads a block. As many warps as it takes to keep the row, at most 1024 threads."""
    kept, blocks = WAYS[way(n, dtype)]
    return 1024 if blocks > 1 else max(math.ceil(packs(n, dtype) / kept / 32), 1) * 32


def cases() -> Iterator[Case]:
    """Give every shape with random values; zeros of both signs; tiny rows, where eps rules; outlier and NaN beside others."""
    ways = itertools.cycle(WAYS)
    for dtype in DTYPES:
        for number, (rows, n, other) in enumerate(SHAPES):
            for chosen in (way(n, dtype), other):
                eps = (1e-6, 1e-3, 1e-8)[number % 3]
                parameters = {"rows": rows, "n": n, "way": chosen, "values": "random", "eps": eps}
                yield Case(f"{dtype} {rows}x{n} {chosen}", dtype, parameters, small=n in (5, 33, 257))
        for values, rows, n, eps in (
            ("rows of zeros", 3, 259, 1e-5),
            ("signed zeros", 3, 259, 1e-5),
            *(("tiny", 3, 259, eps) for eps in (1e-3, 1e-5, 1e-8)),
            ("outlier", 3, 1031, 1e-5),
            ("NaN and infinity", 5, 259, 1e-5),
        ):
            parameters = {"rows": rows, "n": n, "way": next(ways), "values": values, "eps": eps}
            yield Case(f"{dtype} {values} eps={eps:g}", dtype, parameters, small=n == 1031)  # noqa: PLR2004
        for rows, n in EMPTY_SHAPES:
            yield Case(f"{dtype} {rows}x{n}", dtype, by_rule(rows, n, dtype))
        for rows, n in GPU_SHAPES:
            parameters = by_rule(rows, n, dtype)
            yield Case(f"{dtype} {rows}x{n}", dtype, parameters, places=("gpu",))
            del parameters["threads"]
            yield Case(f"{dtype} {rows}x{n}, other blocks", dtype, parameters, places=("gpu",))


def by_rule(rows: int, n: int, dtype: str) -> dict[str, object]:
    """A case's parameters, with way and threads as the rule has them."""
    return {"rows": rows, "n": n, "way": way(n, dtype), "threads": threads(n, dtype), "values": "random", "eps": 1e-6}


def arrays(case: Case, random: np.random.Generator) -> Iterator[Array]:
    """x, the weights w, and y."""
    shape = case["rows"], case["n"]
    x, w = random.standard_normal(shape), random.uniform(0.5, 2, case["n"]) * random.choice((-1, 1), case["n"])
    match case["values"]:
        case "rows of zeros":
            x[::2] = 0
        case "signed zeros":
            x = np.copysign(0.0, x)
        case "tiny":
            x *= 1e-4
        case "outlier":
            x[1, case["n"] // 3] = -OUTLIER[case.dtype]
        case "NaN and infinity":
            x[1, case["n"] - 1], x[3, 0] = np.nan, np.inf
    yield given("x", case.dtype, x)
    yield given("w", case.dtype, w)
    yield wanted("y", case.dtype, shape)


def launch(case: Case, placed: Mapping[str, Placed], threads: int) -> Iterator[Launch]:
    """One launch of one or several blocks a row, of the case's threads where it names some."""
    if not case["rows"]:
        return
    x, w, y = (placed[name] for name in ("x", "w", "y"))
    strides = np.int64(case["n"]), np.int64(x.stride), np.int64(y.stride)
    arguments = [x.pointer, w.pointer, y.pointer, *strides, np.float32(case["eps"])]
    _, blocks = WAYS[case["way"]]
    threads = case.parameters.get("threads", threads)
    yield Launch(f"rmsnorm_{case['way']}_{case.dtype}", (case["rows"] * blocks, 1, 1), (threads, 1, 1), arguments)


def oracle(case: Case, inputs: Arrays) -> Arrays:
    """In float64, with eps as the kernel gets it: rounded to float."""
    if not case["n"]:
        return {"y": np.zeros((case["rows"], 0))}
    x, w = numerics.load(inputs["x"], case.dtype), numerics.load(inputs["w"], case.dtype)
    with np.errstate(all="ignore"):
        mean = np.mean(x * x, axis=1, keepdims=True)
        return {"y": x / np.sqrt(mean + np.float64(np.float32(case["eps"]))) * w}


REASON = {
    dtype: "relative: ceil(n / threads) + 30 roundings in float under the root count half, four behind it; "
    f"one rounding to {dtype}"
    for dtype in DTYPES
}


def bound(case: Case, inputs: Arrays, outputs: Arrays) -> Mapping[str, Bound]:  # noqa: ARG001  the interface
    """Relative to the answer: no term of a sum of squares cancels.

    A square goes through its own rounding, at most ceil(n / threads) + 8 additions in its thread (8: a pack), 5 in
    its warp, 5 in its block and 8 in its cluster; then the division by n and the addition of eps. The root halves that
    relative error (one rounding more covers the second order). Behind it: the root's own rounding, the reciprocal's, two
    products'. Where there are no clusters the sum of one is none, and its first block has as many threads.
    Squares below float's normal range do not count beside eps.
    """
    if case["values"] == "signed zeros":
        return {"y": Bound(None, "zero times what is finite: a zero of the product's sign, bit for bit")}
    single, stored = numerics.FORMATS["float32"], numerics.FORMATS[case.dtype]
    threads = case.parameters.get("threads", min(BLOCKS))
    under = math.ceil(case["n"] / threads) + 1 + 8 + 5 + 5 + 8 + 2
    relative = (1 + numerics.gamma(under + 1, single.unit) / 2) * (1 + numerics.gamma(4, single.unit)) - 1
    size = np.abs(outputs["y"])
    limit = relative * size + stored.unit * (1 + relative) * size + stored.half_least
    return {"y": Bound(limit, REASON[case.dtype])}


ORACLE = Oracle(cases, arrays, launch, oracle, bound, blocks=BLOCKS)


TIMED = ((4096, 4096), (16384, 4096), (8192, 8192), (2048, 16384), (65536, 4096), (1024, 262_144))


def benchmarks() -> Iterator[Benchmark]:
    """Rows of usual lengths, many of them, and very long ones: x is read once, w once, y written once."""
    for dtype in DTYPES:
        size = numerics.FORMATS[dtype].size
        for rows, n in TIMED:
            case = Case(f"{dtype} {rows}x{n}", dtype, by_rule(rows, n, dtype))
            spans = (
                Span("x", dtype, "in", (rows, n), along=True),
                Span("w", dtype, "in", (n,)),
                Span("y", dtype, "out", (rows, n), along=True),
            )
            read, written = (rows * n + n) * size, rows * n * size
            yield Benchmark(case, spans, read=read, written=written, flop=4 * rows * n, rows="rows")


BENCHMARKS = tuple(benchmarks())
