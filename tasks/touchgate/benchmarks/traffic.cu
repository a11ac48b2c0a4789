// Traffic and nothing else: what a kernel of the same bytes, read and written in the same ratio, could reach at best.
//   read     every pack of a              1:0
//   stream   out[i] = a[i] ^ b[i]         2:1
//   copy     out[i] = a[i]                1:1
// A pack has 16 bytes; a block does kPacks * blockDim.x packs, all loads of a thread before its first store.

template <bool kStreaming>
__device__ __forceinline__ uint4 load(const uint4* address) {
    return kStreaming ? __ldcs(address) : *address;
}

template <bool kStreaming>
__device__ __forceinline__ void store(uint4* address, uint4 value) {
    if (kStreaming) {
        __stcs(address, value);
    } else {
        *address = value;
    }
}

template <int kPacks>
__device__ __forceinline__ long long first_pack() {
    return static_cast<long long>(blockIdx.x) * kPacks * blockDim.x + threadIdx.x;
}

template <int kPacks, bool kStreaming>
__device__ __forceinline__ void read(const uint4* a, unsigned* sink, long long count) {
    const long long first = first_pack<kPacks>();
    uint4 values[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
        const long long i = first + k * static_cast<long long>(blockDim.x);
        values[k] = i < count ? load<kStreaming>(a + i) : uint4{};
    }
    unsigned mixed = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
        mixed ^= values[k].x ^ values[k].y ^ values[k].z ^ values[k].w;
    }
    if (mixed == 0x5eed1e55u) {  // hardly ever, but the compiler can't know
        *sink = mixed;
    }
}

template <int kPacks, bool kStreaming>
__device__ __forceinline__ void copy(const uint4* a, uint4* out, long long count) {
    const long long first = first_pack<kPacks>();
    uint4 values[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
        const long long i = first + k * static_cast<long long>(blockDim.x);
        if (i < count) {
            values[k] = load<kStreaming>(a + i);
        }
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
        const long long i = first + k * static_cast<long long>(blockDim.x);
        if (i < count) {
            store<kStreaming>(out + i, values[k]);
        }
    }
}

template <int kPacks, bool kStreaming>
__device__ __forceinline__ void stream(const uint4* a, const uint4* b, uint4* out, long long count) {
    const long long first = first_pack<kPacks>();
    uint4 left[kPacks];
    uint4 right[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
        const long long i = first + k * static_cast<long long>(blockDim.x);
        if (i < count) {
            left[k] = load<kStreaming>(a + i);
            right[k] = load<kStreaming>(b + i);
        }
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
        const long long i = first + k * static_cast<long long>(blockDim.x);
        if (i < count) {
            store<kStreaming>(out + i, uint4{left[k].x ^ right[k].x, left[k].y ^ right[k].y, left[k].z ^ right[k].z,
                                             left[k].w ^ right[k].w});
        }
    }
}

#define KERNELS(name, packs, streaming)                                                                                  \
    extern "C" __global__ void read_##name(const uint4* __restrict__ a, unsigned* __restrict__ sink, long long count) {  \
        read<packs, streaming>(a, sink, count);                                                                          \
    }                                                                                                                    \
    extern "C" __global__ void copy_##name(const uint4* __restrict__ a, uint4* __restrict__ out, long long count) {      \
        copy<packs, streaming>(a, out, count);                                                                           \
    }                                                                                                                    \
    extern "C" __global__ void stream_##name(const uint4* __restrict__ a, const uint4* __restrict__ b,                   \
                                             uint4* __restrict__ out, long long count) {                                 \
        stream<packs, streaming>(a, b, out, count);                                                                      \
    }

KERNELS(1, 1, false)
KERNELS(2, 2, false)
KERNELS(4, 4, false)
KERNELS(8, 8, false)
KERNELS(1_streaming, 1, true)
KERNELS(2_streaming, 2, true)
KERNELS(4_streaming, 4, true)
KERNELS(8_streaming, 8, true)
