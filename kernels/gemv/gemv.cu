// y = A x:   y[i] = A[i][0] * x[0] + ... + A[i][n-1] * x[n-1]   for 0 <= i < m
// A is row-major: row i begins at A + i * lda, lda >= n. Sizes up to 2^63 - 1 elements.
// Elements are widened to float exactly; products and sums are float (fused); the last rounding is the one into y's type.
//
// Three ways, each right for every shape; gemv.py has the rule that picks one:
//   gemv_warp_*   kRows rows a warp, which share what they read of x: short rows
//   gemv_block_*  one block a row: long rows
//   gemv_split_*  one block a piece of a row, then gemv_finish_*: rows so few that they would not fill the GPU
#include "../common/reduce.cuh"
#include "../common/types.cuh"

// Rows a warp, and packs of each row that a thread has on their way at a time, by the bytes of an element.
template <typename T>
constexpr int kRows = sizeof(T) == 2 ? 4 : 1;
template <typename T>
constexpr int kWarpDepth = sizeof(T) == 2 ? 2 : 1;
constexpr int kBlockDepth = 2;

// Adds the products of packs p, p + lanes, ... below `count`, kDepth at a time, while so many are left. Gives the first that
// was not added. Two sums a row: an addition need not wait for the one before.
template <int kDepth, typename T, int R>
__device__ __forceinline__ long long add_packs(const T* const (&rows)[R], const T* x, long long p, long long count,
                                               int lanes, float (&sums)[R][2]) {
    constexpr int kSize = Pack<T>::size;
    for (; p + (kDepth - 1) * lanes < count; p += kDepth * lanes) {
        Pack<T> A_packs[R][kDepth];
        Pack<T> x_packs[kDepth];
#pragma unroll
        for (int d = 0; d < kDepth; ++d) {
#pragma unroll
            for (int r = 0; r < R; ++r) {
                A_packs[r][d] = stream_pack(rows[r], p + d * lanes);
            }
        }
#pragma unroll
        for (int d = 0; d < kDepth; ++d) {
            x_packs[d] = load_pack(x, p + d * lanes);
        }
#pragma unroll
        for (int d = 0; d < kDepth; ++d) {
            float right[kSize];
            widen(x_packs[d], right);
#pragma unroll
            for (int r = 0; r < R; ++r) {
                float left[kSize];
                widen(A_packs[r][d], left);
#pragma unroll
                for (int e = 0; e < kSize; ++e) {
                    sums[r][e % 2] = fmaf(left[e], right[e], sums[r][e % 2]);
                }
            }
        }
    }
    return p;
}

// One thread's share of R dot products of n elements: every lanes-th pack where all rows and x are aligned to 16 bytes, else
// every lanes-th element.
template <int kDepth, typename T, int R>
__device__ __forceinline__ void dots(const T* const (&rows)[R], const T* x, long long n, int lane, int lanes,
                                     float (&totals)[R]) {
    float sums[R][2] = {};
    long long done = 0;
    unsigned skew = misalignment(x);
#pragma unroll
    for (int r = 0; r < R; ++r) {
        skew |= misalignment(rows[r]);
    }
    if (skew == 0) {
        const long long count = n / Pack<T>::size;
        const long long rest = add_packs<kDepth>(rows, x, lane, count, lanes, sums);
        add_packs<1>(rows, x, rest, count, lanes, sums);
        done = count * Pack<T>::size;
    }
#pragma unroll 4
    for (long long j = done + lane; j < n; j += lanes) {
        const float right = widen(x[j]);
#pragma unroll
        for (int r = 0; r < R; ++r) {
            sums[r][0] = fmaf(widen(rows[r][j]), right, sums[r][0]);
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        totals[r] = sums[r][0] + sums[r][1];
    }
}

template <typename T>
__device__ __forceinline__ float block_dot(const T* row, const T* x, long long n) {
    __shared__ float partial[kWarpsAtMost];
    const T* const rows[1] = {row};
    float total[1];
    dots<kBlockDepth>(rows, x, n, threadIdx.x, blockDim.x, total);
    return block_sum(total[0], partial);
}

template <typename T>
__device__ __forceinline__ void rows_a_warp(const T* A, const T* x, T* y, long long m, long long n, long long lda) {
    const int lane = threadIdx.x % kWarp;
    const long long warp = static_cast<long long>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    const long long first = warp * kRows<T>;
    if (first >= m) {
        return;  // the whole warp does
    }
    const T* rows[kRows<T>];
#pragma unroll
    for (int r = 0; r < kRows<T>; ++r) {
        rows[r] = A + (first + r < m ? first + r : m - 1) * lda;  // beyond the end: the last row again, for nothing
    }
    float totals[kRows<T>];
    dots<kWarpDepth<T>>(rows, x, n, lane, kWarp, totals);
#pragma unroll
    for (int r = 0; r < kRows<T>; ++r) {
        const float total = warp_sum(totals[r]);
        if (lane == 0 && first + r < m) {
            y[first + r] = narrow<T>(total);
        }
    }
}

template <typename T>
__device__ __forceinline__ void block_a_row(const T* A, const T* x, T* y, long long n, long long lda) {
    const long long row = blockIdx.x;
    const float total = block_dot(A + row * lda, x, n);
    if (threadIdx.x == 0) {
        y[row] = narrow<T>(total);
    }
}

// Block b sums piece b % pieces of row b / pieces into sums[b]. A piece has `length` elements, a multiple of a pack's.
template <typename T>
__device__ __forceinline__ void block_a_piece(const T* A, const T* x, float* sums, long long n, long long lda,
                                              int pieces, long long length) {
    const long long row = blockIdx.x / pieces;
    const long long begin = blockIdx.x % pieces * length;
    const long long left = n - begin;
    const long long mine = left < length ? left : length;  // not positive: nothing to do, and the sum is 0
    const float total = block_dot(A + row * lda + begin, x + begin, mine);
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
        rows_a_warp(A, x, y, m, n, lda);                                                                            \
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
