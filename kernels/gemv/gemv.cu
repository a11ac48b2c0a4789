// y = A x:   y[i] = A[i][0] * x[0] + ... + A[i][n-1] * x[n-1]   for 0 <= i < m
// A is row-major: row i begins at A + i * lda, lda >= n. Sizes up to 2^63 - 1 elements.
// Elements are widened to float exactly; products and sums are float (fused); the last rounding is the one into y's type.
//
// Three ways, each right for every shape; gemv.py has the rule that picks one:
//   gemv_warp_*   one warp a row: many rows
//   gemv_block_*  one block a row: few rows, long
//   gemv_split_*  one block a piece of a row, then gemv_finish_*: so few rows that they would not fill the GPU
#include "../common/reduce.cuh"
#include "../common/types.cuh"

// This thread's share of a dot product of n elements: every lanes-th pack where both sides are aligned to 16 bytes, else
// every lanes-th element.
template <typename T>
__device__ __forceinline__ float dot(const T* row, const T* x, long long n, int lane, int lanes) {
    constexpr int kSize = Pack<T>::size;
    float sums[kSize] = {};  // independent chains: an addition need not wait for the one before
    long long done = 0;
    if (misalignment(row) == 0 && misalignment(x) == 0) {
        const long long count = n / kSize;
#pragma unroll 4
        for (long long p = lane; p < count; p += lanes) {
            const Pack<T> left = load_pack(row, p);
            const Pack<T> right = load_pack(x, p);
#pragma unroll
            for (int e = 0; e < kSize; ++e) {
                sums[e] = fmaf(widen(left.item[e]), widen(right.item[e]), sums[e]);
            }
        }
        done = count * kSize;
    }
#pragma unroll 4
    for (long long j = done + lane; j < n; j += lanes) {
        sums[0] = fmaf(widen(row[j]), widen(x[j]), sums[0]);
    }
    float total = 0.0f;
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
        total += sums[e];
    }
    return total;
}

template <typename T>
__device__ __forceinline__ void warp_a_row(const T* A, const T* x, T* y, long long m, long long n, long long lda) {
    const int lane = threadIdx.x % kWarp;
    const long long row = static_cast<long long>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    if (row >= m) {
        return;  // the whole warp does
    }
    const float total = warp_sum(dot(A + row * lda, x, n, lane, kWarp));
    if (lane == 0) {
        y[row] = narrow<T>(total);
    }
}

template <typename T>
__device__ __forceinline__ void block_a_row(const T* A, const T* x, T* y, long long n, long long lda) {
    __shared__ float partial[kWarpsAtMost];
    const long long row = blockIdx.x;
    const float total = block_sum(dot(A + row * lda, x, n, threadIdx.x, blockDim.x), partial);
    if (threadIdx.x == 0) {
        y[row] = narrow<T>(total);
    }
}

// Block b sums piece b % pieces of row b / pieces into sums[b]. A piece has `length` elements, a multiple of a pack's.
template <typename T>
__device__ __forceinline__ void block_a_piece(const T* A, const T* x, float* sums, long long n, long long lda,
                                              int pieces, long long length) {
    __shared__ float partial[kWarpsAtMost];
    const long long row = blockIdx.x / pieces;
    const long long begin = blockIdx.x % pieces * length;
    const long long left = n - begin;
    const long long mine = left < length ? left : length;  // not positive: nothing to do, and the sum is 0
    const float total = block_sum(dot(A + row * lda + begin, x + begin, mine, threadIdx.x, blockDim.x), partial);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = total;
    }
}

template <typename T>
__device__ __forceinline__ void finish(const float* sums, T* y, long long m, int pieces) {
    const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row < m) {
        float total = 0.0f;
        for (int piece = 0; piece < pieces; ++piece) {
            total += sums[row * pieces + piece];
        }
        y[row] = narrow<T>(total);
    }
}

#define KERNELS(name, T)                                                                                            \
    extern "C" __global__ void gemv_warp_##name(const T* __restrict__ A, const T* __restrict__ x,                   \
                                                T* __restrict__ y, long long m, long long n, long long lda) {       \
        warp_a_row(A, x, y, m, n, lda);                                                                             \
    }                                                                                                               \
    extern "C" __global__ void gemv_block_##name(const T* __restrict__ A, const T* __restrict__ x,                  \
                                                 T* __restrict__ y, long long n, long long lda) {                   \
        block_a_row(A, x, y, n, lda);                                                                               \
    }                                                                                                               \
    extern "C" __global__ void gemv_split_##name(const T* __restrict__ A, const T* __restrict__ x,                  \
                                                 float* __restrict__ sums, long long n, long long lda, int pieces,  \
                                                 long long length) {                                                \
        block_a_piece(A, x, sums, n, lda, pieces, length);                                                          \
    }                                                                                                               \
    extern "C" __global__ void gemv_finish_##name(const float* __restrict__ sums, T* __restrict__ y, long long m,   \
                                                  int pieces) {                                                     \
        finish(sums, y, m, pieces);                                                                                 \
    }

KERNELS(float32, float)
KERNELS(float16, __half)
KERNELS(bfloat16, __nv_bfloat16)
