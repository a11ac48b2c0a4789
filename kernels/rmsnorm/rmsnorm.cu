// y[r][j] = x[r][j] / sqrt(mean_j(x[r][j]^2) + eps) * w[j]   for 0 <= j < n, one block a row
// Row r begins at x + r * x_stride and y + r * y_stride (elements, >= n). eps > 0.
// All of it in float; the last rounding is the one into y's type. The squares of a row must sum to less than 2^128.
//
// The row is read once: kKept packs of 16 bytes a thread stay in registers between the sum and the scaling. What is longer,
// and rows that are not aligned to 16 bytes, are read a second time.
#include "../common/reduce.cuh"
#include "../common/types.cuh"

constexpr int kKept = 4;

template <typename T>
__device__ __forceinline__ float squares(const Pack<T>& pack, float sum) {
#pragma unroll
    for (int e = 0; e < Pack<T>::size; ++e) {
        const float value = widen(pack.item[e]);
        sum = fmaf(value, value, sum);
    }
    return sum;
}

__device__ __forceinline__ float inverse_rms(float sum, long long n, float eps) {
    return 1.0f / sqrtf(sum / static_cast<float>(n) + eps);
}

template <typename T>
__device__ __forceinline__ T scaled(T value, T weight, float scale) {
    return narrow<T>(widen(value) * scale * widen(weight));
}

template <typename T>
__device__ __forceinline__ Pack<T> scaled(const Pack<T>& values, const Pack<T>& weights, float scale) {
    Pack<T> result;
#pragma unroll
    for (int e = 0; e < Pack<T>::size; ++e) {
        result.item[e] = scaled(values.item[e], weights.item[e], scale);
    }
    return result;
}

template <typename T>
__device__ __forceinline__ void by_packs(const T* x, const T* w, T* y, long long n, float eps, float* partial) {
    const long long count = n / Pack<T>::size;
    const long long done = count * Pack<T>::size;
    const long long step = blockDim.x;
    Pack<T> kept[kKept];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
        const long long p = threadIdx.x + k * step;
        if (p < count) {
            kept[k] = load_pack(x, p);
            sum = squares(kept[k], sum);
        }
    }
    for (long long p = threadIdx.x + kKept * step; p < count; p += step) {
        sum = squares(load_pack(x, p), sum);
    }
    for (long long j = done + threadIdx.x; j < n; j += step) {
        const float value = widen(x[j]);
        sum = fmaf(value, value, sum);
    }
    const float scale = inverse_rms(block_sum(sum, partial), n, eps);
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
        const long long p = threadIdx.x + k * step;
        if (p < count) {
            store_pack(y, p, scaled(kept[k], load_pack(w, p), scale));
        }
    }
    for (long long p = threadIdx.x + kKept * step; p < count; p += step) {
        store_pack(y, p, scaled(load_pack(x, p), load_pack(w, p), scale));
    }
    for (long long j = done + threadIdx.x; j < n; j += step) {
        y[j] = scaled(x[j], w[j], scale);
    }
}

template <typename T>
__device__ __forceinline__ void by_elements(const T* x, const T* w, T* y, long long n, float eps, float* partial) {
    float sum = 0.0f;
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        const float value = widen(x[j]);
        sum = fmaf(value, value, sum);
    }
    const float scale = inverse_rms(block_sum(sum, partial), n, eps);
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
        y[j] = scaled(x[j], w[j], scale);
    }
}

template <typename T>
__device__ __forceinline__ void rmsnorm(const T* x, const T* w, T* y, long long n, long long x_stride,
                                        long long y_stride, float eps) {
    __shared__ float partial[kWarpsAtMost];
    x += blockIdx.x * x_stride;
    y += blockIdx.x * y_stride;
    // The same for the whole block, so one barrier is reached by all.
    if (misalignment(x) == 0 && misalignment(w) == 0 && misalignment(y) == 0) {
        by_packs(x, w, y, n, eps, partial);
    } else {
        by_elements(x, w, y, n, eps, partial);
    }
}

#define KERNEL(name, T)                                                                                            \
    extern "C" __global__ void rmsnorm_##name(const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ y, \
                                              long long n, long long x_stride, long long y_stride, float eps) {    \
        rmsnorm(x, w, y, n, x_stride, y_stride, eps);                                                              \
    }

KERNEL(float32, float)
KERNEL(float16, __half)
KERNEL(bfloat16, __nv_bfloat16)
