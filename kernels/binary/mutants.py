"""What the check of add and multiply must catch."""

from touchgate.checks.mutants import Mutant

COMBINE = "return narrow<T>(Op::apply(widen(left), widen(right)));"
PACKED = "results[e] = Op::apply(lefts[e], rights[e]);"
HEAD = "scalars<Op>(a, b, out, 0, head);"
TAIL = "scalars<Op>(a, b, out, head + count * kSize, n);"

MUTANTS = (
    Mutant("zeros", "binary.cu", COMBINE, "return narrow<T>(0.0f);", "mismatch"),
    Mutant("copied input", "binary.cu", COMBINE, "return left;", "mismatch"),
    Mutant("zeros in packs", "binary.cu", PACKED, "results[e] = 0.0f;", "mismatch"),
    Mutant("copied input in packs", "binary.cu", PACKED, "results[e] = lefts[e];", "mismatch"),
    Mutant("a pack short", "binary.cu", "if (p < count) {", "if (p < count - 1) {", "unwritten"),
    Mutant("a pack too many", "binary.cu", "if (p < count) {", "if (p < count + 1) {", "damage"),
    Mutant("an integer of a pack twice", "binary.cu", "Op::apply(left.bits.z,", "Op::apply(left.bits.y,", "mismatch"),
    Mutant("last element unwritten", "binary.cu", TAIL, TAIL.replace("n)", "n - 1)"), "unwritten"),
    Mutant("one element too many", "binary.cu", TAIL, TAIL.replace("n)", "n + 1)"), "damage"),
    Mutant("grid one block short", "binary.py", "(blocks, 1, 1)", "(max(blocks - 1, 1), 1, 1)", "unwritten"),
    Mutant(
        "subnormals flushed",
        "binary.cu",
        COMBINE,
        "const float exact = Op::apply(widen(left), widen(right));\n"
        "    return narrow<T>(fabsf(exact) < 1.17549435e-38f ? 0.0f : exact);",
        "mismatch",
    ),
    Mutant(
        "subnormals flushed in packs",
        "binary.cu",
        PACKED,
        PACKED + " results[e] = fabsf(results[e]) < 1.17549435e-38f ? 0.0f : results[e];",
        "mismatch",
    ),
    Mutant(
        "sign of zero lost",
        "binary.cu",
        "apply(float left, float right) { return left + right; }",
        "apply(float left, float right) { return left + right + 0.0f; }",
        "mismatch",
    ),
    Mutant(
        "bfloat16 truncated",
        "../common/types.cuh",
        "return __float2bfloat16_rn(value);",
        "return __ushort_as_bfloat16(static_cast<unsigned short>(__float_as_uint(value) >> 16));",
        "mismatch",
    ),
    Mutant(
        "bfloat16 truncated in packs",
        "../common/types.cuh",
        "__floats2bfloat162_rn(low, high)",
        "__halves2bfloat162(__ushort_as_bfloat16(static_cast<unsigned short>(__float_as_uint(low) >> 16)),"
        " __float2bfloat16_rn(high))",
        "mismatch",
    ),
    Mutant(
        "bfloat16's elements exchanged in packs",
        "../common/types.cuh",
        "make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u))",
        "make_float2(__uint_as_float(word & 0xffff0000u), __uint_as_float(word << 16))",
        "mismatch",
    ),
    Mutant(
        "float16's elements exchanged in packs",
        "../common/types.cuh",
        "__floats2half2_rn(low, high)",
        "__floats2half2_rn(high, low)",
        "mismatch",
    ),
    Mutant(
        # A NaN that a GPU computes is 0x7fffffff: adding to it carries into the sign. A CPU's has no such low bits.
        "bfloat16 rounded by adding, NaN too",
        "../common/types.cuh",
        "return __float2bfloat16_rn(value);",
        "const unsigned bits = __float_as_uint(value);\n"
        "    return __ushort_as_bfloat16(static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16));",
        "mismatch",
        places=("gpu",),
    ),
    Mutant(
        "integer addition saturates",
        "binary.cu",
        "apply(unsigned left, unsigned right) { return left + right; }",
        "apply(unsigned left, unsigned right) {\n"
        "        const long long sum = static_cast<long long>(static_cast<int>(left)) + static_cast<int>(right);\n"
        "        return static_cast<unsigned>(sum > 2147483647LL ? 2147483647LL : sum);\n"
        "    }",
        "mismatch",
    ),
    Mutant("a stride of 256 threads", "binary.cu", "i < end; i += blockDim.x", "i < end; i += 256", "unwritten"),
    *(
        Mutant(
            f"head short at {skew} bytes", "binary.cu", HEAD, HEAD.replace("head)", f"head - (skew == {skew}))"), "unwritten"
        )
        for skew in (4, 8, 12)
    ),
    Mutant(
        "a whole tile left to no block",
        "binary.py",
        'blocks = -(-case["n"] // tile)',
        'blocks = case["n"] // tile + (case["n"] % tile > 1)',
        "unwritten",
    ),
    Mutant(
        "head counted twice",
        "binary.cu",
        "const long long count = (n - head) / kSize;",
        "const long long count = n / kSize;",
        "damage",
    ),
)
