// y[r][j] = x[r][j] / sqrt(mean_j(x[r][j]^2) + eps) * w[j]   for 0 <= j < n
// Row r begins at x + r * x_stride and y + r * y_stride (elements, >= n). eps > 0.
// All of it in float; the last rounding is the one into y's type. The squares of a row must sum to less than 2^128.
//
// The row is read once: so many packs of 16 bytes a thread stay in registers between the sum and the scaling. What is longer,
// and rows that are not aligned to 16 bytes, are read a second time. rmsnorm.py has the rule that picks the kernel:
//   rmsnorm_2_*, rmsnorm_4_*, rmsnorm_8_*        one block a row, so many packs a thread
//   rmsnorm_8x2_*, rmsnorm_4x8_*, rmsnorm_8x8_*  packs a thread x blocks a row: a cluster of blocks, where there are clusters
//                                                (sm_90 and later); else the first block does the row, and reads it twice
#include "../common/cluster.cuh"
#include "../common/reduce.cuh"
#include "../common/types.cuh"

// Those who share a row: this thread's number, and how many they are.
struct Team {
    int lane;
    int lanes;
};

template <int kBlocks>
__device__ __forceinline__ float team_sum(float sum) {
    __shared__ float partial[kWarpsAtMost];
    sum = block_sum(sum, partial);
    if constexpr (kBlocks > 1) {
        __shared__ float others[kBlocks];
        sum = cluster_sum<kBlocks>(sum, others);
    }
    return sum;
}

template <typename T>
__device__ __forceinline__ float squares(const Pack<T>& pack, float sum) {
    float values[Pack<T>::size];
    widen(pack, values);
#pragma unroll
    for (int e = 0; e < Pack<T>::size; ++e) {
        sum = fmaf(values[e], values[e], sum);
    }
    return sum;
}

__device__ __forceinline__ float inverse_rms(float sum, long long n, float eps) {
    return 1.0f / sqrtf(sum / static_cast<float>(n) + eps);
}

__device__ __forceinline__ float scaled(float value, float weight, float scale) { return value * scale * weight; }

template <typename T>
__device__ __forceinline__ Pack<T> scaled(const Pack<T>& pack, const Pack<T>& weight_pack, float scale) {
    float values[Pack<T>::size];
    float weights[Pack<T>::size];
    widen(pack, values);
    widen(weight_pack, weights);
#pragma unroll
    for (int e = 0; e < Pack<T>::size; ++e) {
        values[e] = scaled(values[e], weights[e], scale);
    }
    return narrow_pack<T>(values);
}

template <int kKept, int kBlocks, typename T>
__device__ __forceinline__ void by_packs(const T* x, const T* w, T* y, long long n, float eps, Team team) {
    const long long count = n / Pack<T>::size;
    const long long done = count * Pack<T>::size;
    const long long step = team.lanes;
    constexpr int kUnroll = kBlocks > 1 ? 4 : 1;  // by the rule only those kernels have packs beyond the kept ones
    Pack<T> kept[kKept];
    float sum = 0.0f;
    // All loads first: they are on their way together.
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
        const long long p = team.lane + k * step;
        if (p < count) {
            kept[k] = load_pack(x, p);
        }
    }
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
        const long long p = team.lane + k * step;
        if (p < count) {
            sum = squares(kept[k], sum);
        }
    }
#pragma unroll kUnroll
    for (long long p = team.lane + kKept * step; p < count; p += step) {
        sum = squares(load_pack(x, p), sum);
    }
    for (long long j = done + team.lane; j < n; j += step) {
        const float value = widen(x[j]);
        sum = fmaf(value, value, sum);
    }
    const float scale = inverse_rms(team_sum<kBlocks>(sum), n, eps);
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
        const long long p = team.lane + k * step;
        if (p < count) {
            store_pack(y, p, scaled(kept[k], load_pack(w, p), scale));
        }
    }
#pragma unroll kUnroll
    for (long long p = team.lane + kKept * step; p < count; p += step) {
        store_pack(y, p, scaled(load_pack(x, p), load_pack(w, p), scale));
    }
    for (long long j = done + team.lane; j < n; j += step) {
        y[j] = narrow<T>(scaled(widen(x[j]), widen(w[j]), scale));
    }
}

template <int kBlocks, typename T>
__device__ __forceinline__ void by_elements(const T* x, const T* w, T* y, long long n, float eps, Team team) {
    float sum = 0.0f;
#pragma unroll 4
    for (long long j = team.lane; j < n; j += team.lanes) {
        const float value = widen(x[j]);
        sum = fmaf(value, value, sum);
    }
    const float scale = inverse_rms(team_sum<kBlocks>(sum), n, eps);
#pragma unroll 4
    for (long long j = team.lane; j < n; j += team.lanes) {
        y[j] = narrow<T>(scaled(widen(x[j]), widen(w[j]), scale));
    }
}

template <int kKept, int kBlocks, typename T>
__device__ __forceinline__ void rmsnorm(const T* x, const T* w, T* y, long long n, long long x_stride,
                                        long long y_stride, float eps) {
    const long long row = blockIdx.x / kBlocks;
    const int part = blockIdx.x % kBlocks;
    Team team = {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
    if constexpr (kBlocks > 1) {
        if (!kClusters && part > 0) {
            return;
        }
        if (kClusters) {
            cluster_begin();
            team = {static_cast<int>(part * blockDim.x + threadIdx.x), static_cast<int>(kBlocks * blockDim.x)};
        }
    }
    x += row * x_stride;
    y += row * y_stride;
    // The same for the whole team, so the barriers of one way are reached by all.
    if (misalignment(x) == 0 && misalignment(w) == 0 && misalignment(y) == 0) {
        by_packs<kKept, kBlocks>(x, w, y, n, eps, team);
    } else {
        by_elements<kBlocks>(x, w, y, n, eps, team);
    }
}

// threads: of a block, at most.
#define KERNEL(way, name, T, kept, blocks, threads, attributes)                                                     \
    extern "C" __global__ void attributes __launch_bounds__(threads)                                                \
        rmsnorm_##way##_##name(const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ y, long long n,    \
                               long long x_stride, long long y_stride, float eps) {                                 \
        rmsnorm<kept, blocks>(x, w, y, n, x_stride, y_stride, eps);                                                 \
    }
#define KERNELS(name, T)                                  \
    KERNEL(2, name, T, 2, 1, 256, )                       \
    KERNEL(4, name, T, 4, 1, 512, )                       \
    KERNEL(8, name, T, 8, 1, 1024, )                      \
    KERNEL(8x2, name, T, 8, 2, 1024, KERNELS_CLUSTER(2))  \
    KERNEL(4x8, name, T, 4, 8, 1024, KERNELS_CLUSTER(8))  \
    KERNEL(8x8, name, T, 8, 8, 1024, KERNELS_CLUSTER(8))

KERNELS(float32, float)
KERNELS(float16, __half)
KERNELS(bfloat16, __nv_bfloat16)
