"""What the check of RMSNorm must catch."""

from touchgate.checks.mutants import Mutant

SCALED = "return narrow<T>(widen(value) * scale * widen(weight));"
SQUARES = "sum = fmaf(value, value, sum);\n    }\n    return sum;"
ROOT = "sqrtf(sum / static_cast<float>(n) + eps)"
WRITTEN = "for (long long j = threadIdx.x; j < n; j += blockDim.x) {\n        y[j]"
SUMMED = "for (long long j = threadIdx.x; j < n; j += blockDim.x) {\n        const float"
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
    *(
        Mutant(
            f"{mine} read with the stride of {other}",
            "rmsnorm.cu",
            f"{mine} += blockIdx.x * {mine}_stride;",
            f"{mine} += blockIdx.x * {other}_stride;",
            fault,
        )
        for mine, other, fault in (("x", "y", "mismatch"), ("y", "x", "damage"))
    ),
    Mutant("a stride of 256 threads", "rmsnorm.cu", WRITTEN, WRITTEN.replace("blockDim.x", "256"), "unwritten"),
    Mutant("a stride of 256 threads in the sum", "rmsnorm.cu", SUMMED, SUMMED.replace("blockDim.x", "256"), "mismatch"),
    *(
        Mutant(f"eps always {eps}", "rmsnorm.cu", ROOT, ROOT.replace("eps", f"{eps}f"), "mismatch")
        for eps in ("1e-3", "1e-5", "1e-6", "1e-8")
    ),
    Mutant("sign of zero lost", "rmsnorm.cu", SCALED, SCALED.replace("widen(weight)", "widen(weight) + 0.0f"), "mismatch"),
)
