// Element types and 16-byte packs of them.
//
// widen: exact, to float. narrow: one rounding to nearest, ties to even.
#ifndef KERNELS_COMMON_TYPES_CUH
#define KERNELS_COMMON_TYPES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string.h>

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

// As many elements as one load or store moves at best: 16 bytes, at an address that is a multiple of 16. They stay four words
// until they are widened: 16-bit members would be taken apart, and each would hold a register.
template <typename T>
struct Pack {
    static constexpr int size = 16 / sizeof(T);
    uint4 bits;
};

// Bytes from the last multiple of 16 to this address.
__device__ __forceinline__ unsigned misalignment(const void* address) {
    return static_cast<unsigned>(reinterpret_cast<unsigned long long>(address) % 16);
}

template <typename T>
__device__ __forceinline__ Pack<T> load_pack(const T* address, long long index) {
    return {reinterpret_cast<const uint4*>(address)[index]};
}

// What is read once: it need not stay in the caches.
template <typename T>
__device__ __forceinline__ Pack<T> stream_pack(const T* address, long long index) {
    return {__ldcs(reinterpret_cast<const uint4*>(address) + index)};
}

template <typename T>
__device__ __forceinline__ void store_pack(T* address, long long index, const Pack<T>& pack) {
    reinterpret_cast<uint4*>(address)[index] = pack.bits;
}

// The two elements of a word, the first in its low bits.
template <typename T>
__device__ __forceinline__ float2 widen_two(unsigned word);
template <>
__device__ __forceinline__ float2 widen_two<__half>(unsigned word) {
    __half2 two;
    memcpy(&two, &word, sizeof two);
    return __half22float2(two);
}
template <>
__device__ __forceinline__ float2 widen_two<__nv_bfloat16>(unsigned word) {
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

template <typename T>
__device__ __forceinline__ unsigned narrow_two(float low, float high);
template <>
__device__ __forceinline__ unsigned narrow_two<__half>(float low, float high) {
    const __half2 two = __floats2half2_rn(low, high);
    unsigned word;
    memcpy(&word, &two, sizeof word);
    return word;
}
template <>
__device__ __forceinline__ unsigned narrow_two<__nv_bfloat16>(float low, float high) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    unsigned word;
    memcpy(&word, &two, sizeof word);
    return word;
}

template <typename T>
__device__ __forceinline__ void widen(const Pack<T>& pack, float (&values)[Pack<T>::size]) {
    const unsigned words[4] = {pack.bits.x, pack.bits.y, pack.bits.z, pack.bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (sizeof(T) == 4) {
            values[i] = __uint_as_float(words[i]);
        } else {
            const float2 two = widen_two<T>(words[i]);
            values[2 * i] = two.x;
            values[2 * i + 1] = two.y;
        }
    }
}

template <typename T>
__device__ __forceinline__ Pack<T> narrow_pack(const float (&values)[Pack<T>::size]) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (sizeof(T) == 4) {
            words[i] = __float_as_uint(values[i]);
        } else {
            words[i] = narrow_two<T>(values[2 * i], values[2 * i + 1]);
        }
    }
    return {make_uint4(words[0], words[1], words[2], words[3])};
}

#endif
