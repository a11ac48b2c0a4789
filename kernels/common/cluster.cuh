// Sums over a cluster of blocks: some on neighbouring processors, which begin together and reach each other's shared memory.
// From sm_90 on. Elsewhere, and emulated, kClusters is false and these do nothing.
#ifndef KERNELS_COMMON_CLUSTER_CUH
#define KERNELS_COMMON_CLUSTER_CUH

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

constexpr bool kClusters = true;
#define KERNELS_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)

// Says that this block has begun. All threads must.
__device__ __forceinline__ void cluster_begin() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }

// The same sum for all threads of the cluster, of a value that is the same for all threads of a block. After cluster_begin,
// once a launch. `others` (shared) has an element for each block: each writes its own into all of them, as soon as all have
// begun. A block waits for the others a last time before it reads, so none ends while another still writes to it.
template <int kBlocks>
__device__ __forceinline__ float cluster_sum(float value, float* others) {
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x < kBlocks) {
        unsigned rank;
        unsigned address;
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(others + rank));
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(here), "r"(threadIdx.x));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
    }
    __syncwarp();  // an aligned barrier is for whole warps
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
    float sum = 0.0f;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
        sum += others[block];
    }
    return sum;
}

#else

constexpr bool kClusters = false;
#define KERNELS_CLUSTER(blocks)

__device__ __forceinline__ void cluster_begin() {}

template <int kBlocks>
__device__ __forceinline__ float cluster_sum(float value, float*) {
    return value;
}

#endif

#endif
