"""y = A x, row-major with row stride, float accumulation, one rounding into the storage type at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from touchgate.checks import numerics
from touchgate.checks.cases import Array, Arrays, Benchmark, Bound, Case, Launch, Oracle, Placed, Span, given, scratch, wanted

DTYPES = ("float32", "float16", "bfloat16")
SHAPES = (
    *((1, 1), (5, 31), (9, 32), (3, 33), (3, 255), (2, 256), (3, 257), (2, 1023), (3, 1025), (2, 4099)),
    *((37, 1), (67, 13), (131, 7)),
)
EMPTY_SHAPES = ((0, 7), (3, 0))
WARP_SHAPE = (67, 13)
SMALL_SHAPES = ((3, 33), (3, 257), (37, 1))
GPU_SHAPES = ((4099, 1031), (2048, 2048), (300, 16385), (7, 262_139), (65537, 33))
WAYS = ("warp", "block", "split")
ROWS = {"float32": 1, "float16": 4, "bfloat16": 4}  # kRows of gemv.cu
WARP = 32
PIECES = 8
LARGEST = {"float32": 8, "float16": 5, "bfloat16": 5}
# What rows come to: near the type's end, and beyond it, where infinity is right.
LARGE = {
    "float32": (1e6, -1e30, 3.3e38, 1e39, -1e39),
    "float16": (1e4, -3e4, 65000.0, 1e5, -1e5),
    "bfloat16": (1e6, -1e30, 3.3e38, 1e39, -1e39),
}
# Once to four times this: subnormal, and just above where the type has room. Sums of 259 of them are far from zero.
TINY = {"float32": 2.0**-127, "float16": 2.0**-24, "bfloat16": 2.0**-127}


def packs(n: int, dtype: str) -> int:
    """How many whole packs of 16 bytes n elements have."""
    return n * numerics.FORMATS[dtype].size // 16


def way(m: int, n: int, dtype: str) -> str:
    """The shape rule: which of the three ways solves m rows of n elements.

    warp: rows too short to occupy a block, below 256 packs (4 KiB), however many. split: rows of 64 KiB and more, but fewer
    than 128, so that one block each would leave most of a GPU idle; each is cut in PIECES. block: everything else.
    Alignment is the kernels' own affair: what is not aligned to 16 bytes they read by the element.
    """
    count = packs(n, dtype)
    if count < 256:  # noqa: PLR2004  the rule is these numbers
        return "warp"
    return "split" if m < 128 and count >= 4096 else "block"  # noqa: PLR2004


def threads(m: int, n: int, dtype: str) -> int:
    """The shape rule's other half: threads a block. 512 where each gets two packs of a row or a piece, else 256; warp: 128."""
    chosen = way(m, n, dtype)
    if chosen == "warp":
        return 128
    count = packs(n, dtype) // (PIECES if chosen == "split" else 1)
    return 512 if count >= 2 * 512 else 256


def by_rule(m: int, n: int, dtype: str, values: str) -> dict[str, object]:
    """A case's parameters, with way and threads as the rule has them."""
    return {"m": m, "n": n, "way": way(m, n, dtype), "threads": threads(m, n, dtype), "values": values}


def cases() -> Iterator[Case]:
    """Give every shape with integers and random values, every way; NaN, large and tiny ones; the rule's own choice."""
    for dtype in DTYPES:
        for number, (m, n) in enumerate(SHAPES):
            # A block a row tells nothing new at a second such shape, and is the slowest to emulate.
            for turn, chosen in enumerate(WAYS if (m, n) != WARP_SHAPE else WAYS[:1]):
                # Neighbouring shapes and ways take turns with the kinds of values: all meet, at half the time.
                values = ("integers", "random")[(number + turn) % 2]
                parameters = {"m": m, "n": n, "way": chosen, "values": values}
                name = f"{dtype} {m}x{n} {chosen} {values}"
                yield Case(name, dtype, parameters, small=(m, n) in SMALL_SHAPES)
        for chosen in WAYS:
            for values in ("NaN and infinity", "large", "tiny A", "tiny x"):
                parameters = {"m": 5, "n": 259, "way": chosen, "values": values}
                yield Case(f"{dtype} 5x259 {chosen} {values}", dtype, parameters)
        for m, n in EMPTY_SHAPES:
            yield Case(f"{dtype} {m}x{n}", dtype, by_rule(m, n, dtype, "integers"))
        for number, (m, n) in enumerate(GPU_SHAPES):
            values = ("random", "integers")[number % 2]
            yield Case(f"{dtype} {m}x{n} {values}", dtype, by_rule(m, n, dtype, values), places=("gpu",))


def arrays(case: Case, random: np.random.Generator) -> Iterator[Array]:
    """A, x, y and, for the split way, the sums of the pieces."""
    m, n = case["m"], case["n"]
    if case["values"] == "integers":
        # Never zero: a sum of nonzero terms that cancels is +0 in every order, and no zero output is right by chance.
        largest = LARGEST[case.dtype]
        A, x = (random.integers(1, largest + 1, shape) * random.choice((-1, 1), shape) for shape in ((m, n), (n,)))
    else:
        A, x = random.standard_normal((m, n)), random.standard_normal(n)
    match case["values"]:
        case "NaN and infinity":
            A[1, n // 2], A[3, n - 1] = np.nan, np.inf
        case "large":
            # No two terms of a row cancel: what overflows in the end does so in every order.
            A, x = np.abs(A) + 0.5, np.abs(x) + 0.5
            A *= (np.array(LARGE[case.dtype]) / (A @ x))[:, None]
        case "tiny A":
            A, x = random.integers(1, 5, (m, n)) * TINY[case.dtype], np.abs(x) + 0.5
        case "tiny x":
            A, x = np.abs(A) + 0.5, random.integers(1, 5, n) * TINY[case.dtype]
    yield given("A", case.dtype, A.astype(np.float64))
    yield given("x", case.dtype, x.astype(np.float64))
    yield wanted("y", case.dtype, (m,))
    if case["way"] == "split":
        yield scratch("sums", "float32", (m * PIECES,))


def launch(case: Case, placed: Mapping[str, Placed], threads: int) -> Iterator[Launch]:
    """One launch, or two for the split way. In blocks of the case's threads, where it names some."""
    m, n, dtype = case["m"], case["n"], case.dtype
    threads = case.parameters.get("threads", threads)
    A, x, y = (placed[name].pointer for name in ("A", "x", "y"))
    lda = np.int64(placed["A"].stride)
    block = (threads, 1, 1)
    if m == 0:
        return
    if case["way"] == "warp":
        grid = -(-m // (threads // WARP * ROWS[dtype]))
        yield Launch(f"gemv_warp_{dtype}", (grid, 1, 1), block, [A, x, y, np.int64(m), np.int64(n), lda])
    elif case["way"] == "block":
        yield Launch(f"gemv_block_{dtype}", (m, 1, 1), block, [A, x, y, np.int64(n), lda])
    else:
        sums = placed["sums"].pointer
        pack = 16 // numerics.FORMATS[dtype].size
        length = -(-n // (PIECES * pack)) * pack
        pieces = np.int32(-(-n // length))
        arguments = [A, x, sums, np.int64(n), lda, pieces, np.int64(length)]
        yield Launch(f"gemv_split_{dtype}", (m * int(pieces), 1, 1), block, arguments)
        grid = -(-m // threads)
        yield Launch(f"gemv_finish_{dtype}", (grid, 1, 1), block, [sums, y, np.int64(m), pieces])


def oracle(case: Case, inputs: Arrays) -> Arrays:
    """In float64, where the products of the inputs are exact and the sum's own error does not count beside float's."""
    A, x = numerics.load(inputs["A"], case.dtype), numerics.load(inputs["x"], case.dtype)
    with np.errstate(all="ignore"):
        return {"y": A @ x}


REASON = {
    "integers": "integers: every partial sum is below 2^24, so exact in float in any order; one rounding at the end",
    "float32": "gamma_n (|A| |x|): n roundings in float in any order (Higham 2002, 3.5)",
    "float16": "gamma_n (|A| |x|): n roundings in float in any order (Higham 2002, 3.5); one rounding to float16",
    "bfloat16": "gamma_n (|A| |x|): n roundings in float in any order (Higham 2002, 3.5); one rounding to bfloat16",
}


def bound(case: Case, inputs: Arrays, outputs: Arrays) -> Mapping[str, Bound]:
    """Bit for bit for integers; else componentwise: a relative one would mean nothing where a sum cancels."""
    if case["values"] == "integers":
        return {"y": Bound(None, REASON["integers"])}
    A, x = numerics.load(inputs["A"], case.dtype), numerics.load(inputs["x"], case.dtype)
    single, stored = numerics.FORMATS["float32"], numerics.FORMATS[case.dtype]
    n = case["n"]
    with np.errstate(all="ignore"):
        # The last term: products below float's normal range.
        summed = numerics.gamma(n, single.unit) * (np.abs(A) @ np.abs(x)) + n * single.half_least
        limit = summed
        if case.dtype != "float32":
            limit = summed + stored.unit * (np.abs(outputs["y"]) + summed) + stored.half_least
    return {"y": Bound(limit, REASON[case.dtype])}


ORACLE = Oracle(cases, arrays, launch, oracle, bound)


TIMED = ((4096, 4096), (8192, 8192), (16384, 16384), (32768, 8192), (512, 65536), (65536, 512))


def benchmarks() -> Iterator[Benchmark]:
    """Square, tall, wide: A is read once, x once, y written once."""
    for dtype in DTYPES:
        size = numerics.FORMATS[dtype].size
        for m, n in TIMED:
            case = Case(f"{dtype} {m}x{n}", dtype, by_rule(m, n, dtype, "random"))
            spans = [
                Span("A", dtype, "in", (m, n), along=True),
                Span("x", dtype, "in", (n,)),
                Span("y", dtype, "out", (m,), along=True),
            ]
            if case["way"] == "split":
                spans.append(Span("sums", "float32", "scratch", (m * PIECES,)))
            yield Benchmark(case, tuple(spans), read=(m * n + n) * size, written=m * size, flop=2 * m * n, rows="m")


BENCHMARKS = tuple(benchmarks())
