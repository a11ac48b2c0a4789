"""What the check of GEMV must catch."""

from touchgate.checks.mutants import Mutant

FUSED = "fmaf(widen(left.item[e]), widen(right.item[e]), sums[e])"

REST = "j < n; j += lanes"
HALF = "return __float2half_rn(value);"

MUTANTS = (
    Mutant("zeros", "gemv.cu", "return total;", "return 0.0f;", "mismatch"),
    Mutant("copied input", "gemv.cu", "return total;", "return lane == 0 ? widen(x[0]) : 0.0f;", "mismatch"),
    Mutant("last element unwritten", "gemv.cu", "if (row < m) {", "if (row < m - 1) {", "unwritten"),
    Mutant("missing barrier", "../common/reduce.cuh", "    __syncthreads();\n", "", "mismatch"),
    Mutant(
        "grid one block short",
        "gemv.py",
        "grid = -(-m // (threads // WARP))",
        "grid = max(m // (threads // WARP), 1)",
        "unwritten",
    ),
    Mutant("accumulated in the storage type", "gemv.cu", FUSED, f"widen(narrow<T>({FUSED}))", "mismatch"),
    Mutant(
        "row stride ignored",
        "gemv.cu",
        "dot(A + row * lda, x, n, lane, kWarp)",
        "dot(A + row * n, x, n, lane, kWarp)",
        "mismatch",
    ),
    Mutant(
        "row's end read as a whole pack",
        "gemv.cu",
        "const long long count = n / kSize;",
        "const long long count = (n + kSize - 1) / kSize;",
        "mismatch",
    ),
    Mutant(
        "a lane short in the warp's sum",
        "../common/reduce.cuh",
        "offset > 0; offset /= 2",
        "offset > 1; offset /= 2",
        "mismatch",
    ),
    Mutant("last piece left out", "gemv.cu", "piece < pieces; ++piece", "piece < pieces - 1; ++piece", "mismatch"),
    Mutant("a stride of 256 threads", "gemv.cu", REST, REST.replace("+= lanes", "+= (lanes == 32 ? 32 : 256)"), "mismatch"),
    Mutant("large sums clamped", "gemv.cu", "return total;", "return fminf(fmaxf(total, -1e5f), 1e5f);", "mismatch"),
    Mutant(
        "overflow saturates",
        "../common/types.cuh",
        HALF,
        HALF.replace("value", "fabsf(value) > 65504.0f ? copysignf(65504.0f, value) : value"),
        "mismatch",
    ),
    *(
        Mutant(
            f"tiny {name} flushed",
            "gemv.cu",
            f"widen({pack}.item[e])",
            f"(fabsf(widen({pack}.item[e])) < (sizeof(T) == 2 ? 1e-6f : 1e-20f) ? 0.0f : widen({pack}.item[e]))",
            "mismatch",
        )
        for name, pack in (("A", "left"), ("x", "right"))
    ),
    *(
        Mutant(
            f"tiny {name} flushed in floats",
            "gemv.cu",
            f"widen({pack}.item[e])",
            f"(sizeof(T) == 4 && fabsf(widen({pack}.item[e])) < 1e-20f ? 0.0f : widen({pack}.item[e]))",
            "mismatch",
        )
        for name, pack in (("A", "left"), ("x", "right"))
    ),
)
