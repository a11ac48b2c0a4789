"""What the check of RMSNorm must catch."""

from touchgate.checks.mutants import Mutant

SCALED = "return value * scale * weight;"
SQUARES = "sum = fmaf(values[e], values[e], sum);"
ROOT = "sqrtf(sum / static_cast<float>(n) + eps)"
WRITTEN = "for (long long j = team.lane; j < n; j += team.lanes) {\n        y[j]"
SUMMED = "for (long long j = team.lane; j < n; j += team.lanes) {\n        const float"
REST = "for (long long p = team.lane + kKept * step; p < count; p += step) {\n        sum"
RESCALED = "for (long long p = team.lane + kKept * step; p < count; p += step) {\n        store_pack"
KEPT = "if (p < count) {\n            store_pack"
TAIL = "for (long long j = done + team.lane; j < n; j += step) {\n        const float"
OTHERS = "block = 0; block < kBlocks;"

MUTANTS = (
    Mutant("zeros", "rmsnorm.cu", SCALED, "return 0.0f;", "mismatch"),
    Mutant("copied input", "rmsnorm.cu", SCALED, "return value;", "mismatch"),
    Mutant("last element unwritten", "rmsnorm.cu", WRITTEN, WRITTEN.replace("< n", "< n - 1"), "unwritten"),
    Mutant("missing barrier", "../common/reduce.cuh", "    __syncthreads();\n", "", "mismatch"),
    Mutant(
        "grid one block short", "rmsnorm.py", '(case["rows"] * blocks,', '(max(case["rows"] - 1, 1) * blocks,', "unwritten"
    ),
    Mutant(
        "accumulated in the storage type",
        "rmsnorm.cu",
        SQUARES,
        SQUARES.replace("fmaf(values[e], values[e], sum)", "widen(narrow<T>(fmaf(values[e], values[e], sum)))"),
        "mismatch",
    ),
    Mutant("eps outside the root", "rmsnorm.cu", ROOT, "(sqrtf(sum / static_cast<float>(n)) + eps)", "mismatch"),
    Mutant("row stride ignored", "rmsnorm.cu", "y += row * y_stride;", "y += row * n;", "damage"),
    Mutant("long rows' rest left out of the sum", "rmsnorm.cu", REST, REST.replace("p < count", "p < 0"), "mismatch"),
    Mutant(
        "a neighbour's block summed",
        "rmsnorm.cu",
        "x += row * x_stride;",
        "x += row / 2 * x_stride;",
        "mismatch",
    ),
    *(
        Mutant(
            f"{mine} read with the stride of {other}",
            "rmsnorm.cu",
            f"{mine} += row * {mine}_stride;",
            f"{mine} += row * {other}_stride;",
            fault,
        )
        for mine, other, fault in (("x", "y", "mismatch"), ("y", "x", "damage"))
    ),
    Mutant("a stride of 256 threads", "rmsnorm.cu", WRITTEN, WRITTEN.replace("team.lanes", "256"), "unwritten"),
    Mutant("a stride of 256 threads in the sum", "rmsnorm.cu", SUMMED, SUMMED.replace("team.lanes", "256"), "mismatch"),
    *(
        Mutant(f"eps always {eps}", "rmsnorm.cu", ROOT, ROOT.replace("eps", f"{eps}f"), "mismatch")
        for eps in ("1e-3", "1e-5", "1e-6", "1e-8")
    ),
    Mutant("sign of zero lost", "rmsnorm.cu", SCALED, SCALED.replace("weight", "weight + 0.0f"), "mismatch"),
    Mutant("long rows' rest left unwritten", "rmsnorm.cu", RESCALED, RESCALED.replace("p < count", "p < 0"), "unwritten"),
    Mutant("last kept pack left unwritten", "rmsnorm.cu", KEPT, KEPT.replace("p <", "k + 1 < kKept && p <"), "unwritten"),
    Mutant("a pack too many written", "rmsnorm.cu", KEPT, KEPT.replace("p <", "p - 1 <"), "damage"),
    Mutant("ragged end left out of the sum", "rmsnorm.cu", TAIL, TAIL.replace("j < n", "j < 0"), "mismatch"),
    Mutant("a row for each block", "rmsnorm.cu", "blockIdx.x / kBlocks", "blockIdx.x", "damage"),
    # Emulated there are no clusters: one block does the row.
    *(
        Mutant(f"{which} block of a cluster left out of the sum", "../common/cluster.cuh", OTHERS, new, "mismatch", ("gpu",))
        for which, new in (("first", OTHERS.replace("= 0", "= 1")), ("last", OTHERS.replace("kBlocks", "kBlocks - 1")))
    ),
    Mutant(
        "a cluster's block keeps its sum to itself",
        "../common/cluster.cuh",
        '"r"(here), "r"(threadIdx.x)',
        '"r"(here), "r"(rank)',
        "mismatch",
        ("gpu",),
    ),
)
