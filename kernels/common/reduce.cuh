// Sums over a warp and over a block. Every thread gets the same sum, in an order that depends on the block's size alone.
#ifndef KERNELS_COMMON_REDUCE_CUH
#define KERNELS_COMMON_REDUCE_CUH

constexpr int kWarp = 32;
constexpr int kWarpsAtMost = 32;

// All 32 lanes must take part.
__device__ __forceinline__ float warp_sum(float value) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    return value;
}

// All threads of a one-dimensional block of whole warps must take part, once a launch: there is one barrier, between the
// writing of `partial` (shared, kWarpsAtMost elements) and the reading.
__device__ __forceinline__ float block_sum(float value, float* partial) {
    const int lane = threadIdx.x % kWarp;
    const int warps = blockDim.x / kWarp;
    value = warp_sum(value);
    if (lane == 0) {
        partial[threadIdx.x / kWarp] = value;
    }
    __syncthreads();
    return warp_sum(lane < warps ? partial[lane] : 0.0f);
}

#endif
