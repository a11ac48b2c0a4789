// add:       out[i] = a[i] + b[i]     for 0 <= i < n, n up to 2^63 - 1
// multiply:  out[i] = a[i] * b[i]
// One rounding to nearest, ties to even, an element; int32 modulo 2^32. No argument may overlap `out`.
//
// 16-bit floats are computed in float and rounded once more. That equals one rounding: a product of two 11-bit significands
// is exact in float's 24 bits (bfloat16's too, down to where float itself ends), and for a sum 24 >= 2 * 11 + 2 bits are
// enough for the second rounding to be harmless (Figueroa 1995).
//
// A block covers kPacks * blockDim.x packs of 16 bytes. Pointers that are misaligned alike get a scalar head and tail;
// others the same tile element by element. binary.py computes the grid.
#include "../common/types.cuh"

constexpr int kPacks = 2;

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
__device__ __forceinline__ void scalars(const T* a, const T* b, T* out, long long begin, long long end) {
    for (long long i = begin + threadIdx.x; i < end; i += blockDim.x) {
        out[i] = combine<Op>(a[i], b[i]);
    }
}

template <typename Op, typename T>
__device__ __forceinline__ void packs(const T* a, const T* b, T* out, long long count) {
    const long long first = static_cast<long long>(blockIdx.x) * kPacks * blockDim.x + threadIdx.x;
    Pack<T> left[kPacks];
    Pack<T> right[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
        const long long index = first + k * static_cast<long long>(blockDim.x);
        if (index < count) {
            left[k] = load_pack(a, index);
            right[k] = load_pack(b, index);
        }
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
        const long long index = first + k * static_cast<long long>(blockDim.x);
        if (index < count) {
            Pack<T> result;
#pragma unroll
            for (int e = 0; e < Pack<T>::size; ++e) {
                result.item[e] = combine<Op>(left[k].item[e], right[k].item[e]);
            }
            store_pack(out, index, result);
        }
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
        packs<Op>(a + head, b + head, out + head, count);
        if (blockIdx.x == 0) {
            scalars<Op>(a, b, out, 0, head);
            scalars<Op>(a, b, out, head + count * kSize, n);
        }
    } else {
        const long long tile = static_cast<long long>(kPacks) * kSize * blockDim.x;
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
