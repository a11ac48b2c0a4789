"""What the check of GEMV must catch."""

from touchgate.checks.mutants import Mutant

FUSED = "fmaf(left[e], right[e], sums[r][e % 2])"
TAIL = "        add_packs<1>(rows, x, rest, count, lanes, sums);\n"
TOTAL = "sums[r][0] + sums[r][1];"

REST = "j < n; j += lanes"
HALF = "return __float2half_rn(value);"

MUTANTS = (
    Mutant("zeros", "gemv.cu", TOTAL, "0.0f;", "mismatch"),
    Mutant("copied input", "gemv.cu", TOTAL, "lane == 0 ? widen(x[0]) : 0.0f;", "mismatch"),
    Mutant("last element unwritten", "gemv.cu", "if (row < m) {", "if (row < m - 1) {", "unwritten"),
    Mutant("missing barrier", "../common/reduce.cuh", "    __syncthreads();\n", "", "mismatch"),
    Mutant(
        "grid one block short",
        "gemv.py",
        "grid = -(-m // (threads // WARP * ROWS[dtype]))",
        "grid = max(m // (threads // WARP * ROWS[dtype]), 1)",
        "unwritten",
    ),
    Mutant("accumulated in the storage type", "gemv.cu", FUSED, f"widen(narrow<T>({FUSED}))", "mismatch"),
    Mutant(
        "row stride ignored",
        "gemv.cu",
        "first + r : m - 1) * lda;",
        "first + r : m - 1) * n;",
        "mismatch",
    ),
    Mutant(
        "row's end read as a whole pack",
        "gemv.cu",
        "const long long count = n / Pack<T>::size;",
        "const long long count = (n + Pack<T>::size - 1) / Pack<T>::size;",
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
    Mutant("large sums clamped", "gemv.cu", TOTAL, "fminf(fmaxf(sums[r][0] + sums[r][1], -1e5f), 1e5f);", "mismatch"),
    Mutant(
        "overflow saturates",
        "../common/types.cuh",
        HALF,
        HALF.replace("value", "fabsf(value) > 65504.0f ? copysignf(65504.0f, value) : value"),
        "mismatch",
    ),
    *(
        Mutant(
            f"tiny {name} flushed{where}",
            "gemv.cu",
            FUSED,
            FUSED.replace(element, f"({condition.format(element)} ? 0.0f : {element})"),
            "mismatch",
        )
        for name, element in (("A", "left[e]"), ("x", "right[e]"))
        for where, condition in (
            ("", "fabsf({}) < (sizeof(T) == 2 ? 1e-6f : 1e-20f)"),
            (" in floats", "sizeof(T) == 4 && fabsf({}) < 1e-20f"),
        )
    ),
    Mutant("a row of a warp's left out", "gemv.cu", "&& first + r < m", "&& first + r < m && r != 2", "unwritten"),
    Mutant("a warp's first row for all", "gemv.cu", "(first + r < m ? first + r :", "(first + r < m ? first :", "mismatch"),
    Mutant("a row beyond the last written", "gemv.cu", "&& first + r < m", "&& first + r < m + 1", "damage"),
    Mutant("what is left of the packs in flight left out", "gemv.cu", TAIL, "", "mismatch"),
    Mutant("second sum of a row left out", "gemv.cu", TOTAL, "sums[r][0];", "mismatch"),
    Mutant("alignment of the first row taken for all", "gemv.cu", "misalignment(rows[r])", "misalignment(rows[0])", "launch"),
    Mutant(
        "bfloat16's upper element with the lower's bits",
        "../common/types.cuh",
        "__uint_as_float(word & 0xffff0000u)",
        "__uint_as_float(word | 0xffffu)",
        "mismatch",
    ),
)
