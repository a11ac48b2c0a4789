// Element types and 16-byte packs of them.
//
// widen: exact, to float. narrow: one rounding to nearest, ties to even.
#ifndef KERNELS_COMMON_TYPES_CUH
#define KERNELS_COMMON_TYPES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T narrow(float value);
template <>
__device__ __forceinline__ float narrow<float>(float value) { return value; }
template <>
__device__ __forceinline__ __half narrow<__half>(float value) { return __float2half_rn(value); }
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) { return __float2bfloat16_rn(value); }

// As many elements as one load or store moves at best: 16 bytes, at an address that is a multiple of 16.
template <typename T>
struct alignas(16) Pack {
    static constexpr int size = 16 / sizeof(T);
    T item[size];
};

// Bytes from the last multiple of 16 to this address.
__device__ __forceinline__ unsigned misalignment(const void* address) {
    return static_cast<unsigned>(reinterpret_cast<unsigned long long>(address) % 16);
}

template <typename T>
__device__ __forceinline__ Pack<T> load_pack(const T* address, long long index) {
    return reinterpret_cast<const Pack<T>*>(address)[index];
}

template <typename T>
__device__ __forceinline__ void store_pack(T* address, long long index, const Pack<T>& pack) {
    reinterpret_cast<Pack<T>*>(address)[index] = pack;
}

#endif
