"""What the check of RMSNorm must catch."""

from touchgate.checks.mutants import Mutant

SCALED = "return narrow<T>(widen(value) * scale * widen(weight));"
SQUARES = "sum = fmaf(value, value, sum);\n    }\n    return sum;"
ROOT = "sqrtf(sum / static_cast<float>(n) + eps)"
WRITTEN = "for (long long j = threadIdx.x; j < n; j += blockDim.x) {\n        y[j]"
REST = "for (long long p = threadIdx.x + kKept * step; p < count; p += step) {\n        sum"

MUTANTS = (
    Mutant("zeros", "rmsnorm.cu", SCALED, "return narrow<T>(0.0f);", "mismatch"),
    Mutant("copied input", "rmsnorm.cu", SCALED, "return value;", "mismatch"),
    Mutant("last element unwritten", "rmsnorm.cu", WRITTEN, WRITTEN.replace("< n", "< n - 1"), "unwritten"),
    Mutant("missing barrier", "../common/reduce.cuh", "    __syncthreads();\n", "", "mismatch"),
    Mutant("grid one block short", "rmsnorm.py", '(case["rows"], 1, 1)', '(max(case["rows"] - 1, 1), 1, 1)', "unwritten"),
    Mutant(
        "accumulated in the storage type",
        "rmsnorm.cu",
        SQUARES,
        SQUARES.replace("fmaf(value, value, sum)", "widen(narrow<T>(fmaf(value, value, sum)))"),
        "mismatch",
    ),
    Mutant("eps outside the root", "rmsnorm.cu", ROOT, "(sqrtf(sum / static_cast<float>(n)) + eps)", "mismatch"),
    Mutant("row stride ignored", "rmsnorm.cu", "y += blockIdx.x * y_stride;", "y += blockIdx.x * n;", "damage"),
    Mutant("long rows' rest left out of the sum", "rmsnorm.cu", REST, REST.replace("p < count", "p < 0"), "mismatch"),
    Mutant(
        "a neighbour's block summed",
        "rmsnorm.cu",
        "x += blockIdx.x * x_stride;",
        "x += blockIdx.x / 2 * x_stride;",
        "mismatch",
    ),
)
