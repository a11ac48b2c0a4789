// add:       out[i] = a[i] + b[i]     for 0 <= i < n, n up to 2^63 - 1
// multiply:  out[i] = a[i] * b[i]
// One rounding to nearest, ties to even, an element; int32 modulo 2^32. No argument may overlap `out`.
//
// 16-bit floats are computed in float and rounded once more. That equals one rounding: a product of two 11-bit significands
// is exact in float's 24 bits (bfloat16's too, down to where float itself ends), and for a sum 24 >= 2 * 11 + 2 bits are
// enough for the second rounding to be harmless (Figueroa 1995).
//
// A block covers blockDim.x packs of 16 bytes, one a thread. Pointers that are misaligned alike get a scalar head and tail;
// others the same tile element by element. binary.py computes the grid.
#include "../common/types.cuh"

struct Add {
    static __device__ __forceinline__ float apply(float left, float right) { return left + right; }
    // Signed overflow is undefined in C++; unsigned wraps.
    static __device__ __forceinline__ unsigned apply(unsigned left, unsigned right) { return left + right; }
};

struct Multiply {
    static __device__ __forceinline__ float apply(float left, float right) { return left * right; }
    static __device__ __forceinline__ unsigned apply(unsigned left, unsigned right) { return left * right; }
};

template <typename Op, typename T>
__device__ __forceinline__ T combine(T left, T right) {
    return narrow<T>(Op::apply(widen(left), widen(right)));
}

template <typename Op>
__device__ __forceinline__ int combine(int left, int right) {
    return static_cast<int>(Op::apply(static_cast<unsigned>(left), static_cast<unsigned>(right)));
}

template <typename Op, typename T>
__device__ __forceinline__ Pack<T> combine(const Pack<T>& left, const Pack<T>& right) {
    float lefts[Pack<T>::size];
    float rights[Pack<T>::size];
    float results[Pack<T>::size];
    widen(left, lefts);
    widen(right, rights);
#pragma unroll
    for (int e = 0; e < Pack<T>::size; ++e) {
        results[e] = Op::apply(lefts[e], rights[e]);
    }
    return narrow_pack<T>(results);
}

template <typename Op>
__device__ __forceinline__ Pack<int> combine(const Pack<int>& left, const Pack<int>& right) {
    return {make_uint4(Op::apply(left.bits.x, right.bits.x), Op::apply(left.bits.y, right.bits.y),
                       Op::apply(left.bits.z, right.bits.z), Op::apply(left.bits.w, right.bits.w))};
}

template <typename Op, typename T>
__device__ __forceinline__ void scalars(const T* a, const T* b, T* out, long long begin, long long end) {
    for (long long i = begin + threadIdx.x; i < end; i += blockDim.x) {
        out[i] = combine<Op>(a[i], b[i]);
    }
}

template <typename Op, typename T>
__device__ __forceinline__ void binary(const T* a, const T* b, T* out, long long n) {
    constexpr int kSize = Pack<T>::size;
    const unsigned skew = misalignment(out);
    if (misalignment(a) == skew && misalignment(b) == skew) {
        const long long to_boundary = (16 - skew) % 16 / sizeof(T);
        const long long head = to_boundary < n ? to_boundary : n;
        const long long count = (n - head) / kSize;
        const long long p = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
        if (p < count) {
            store_pack(out + head, p, combine<Op>(load_pack(a + head, p), load_pack(b + head, p)));
        }
        if (blockIdx.x == 0) {
            scalars<Op>(a, b, out, 0, head);
            scalars<Op>(a, b, out, head + count * kSize, n);
        }
    } else {
        const long long tile = static_cast<long long>(kSize) * blockDim.x;
        const long long begin = blockIdx.x * tile;
        scalars<Op>(a, b, out, begin, begin + tile < n ? begin + tile : n);
    }
}

#define KERNEL(name, Op, T)                                                                                        \
    extern "C" __global__ void name(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ out,         \
                                    long long n) {                                                                 \
        binary<Op>(a, b, out, n);                                                                                  \
    }

KERNEL(add_float32, Add, float)
KERNEL(add_float16, Add, __half)
KERNEL(add_bfloat16, Add, __nv_bfloat16)
KERNEL(add_int32, Add, int)
KERNEL(multiply_float32, Multiply, float)
KERNEL(multiply_float16, Multiply, __half)
KERNEL(multiply_bfloat16, Multiply, __nv_bfloat16)
KERNEL(multiply_int32, Multiply, int)
