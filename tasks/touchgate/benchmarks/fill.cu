// Pseudorandom elements, never zero, each a function of its index and a seed alone; fills.py repeats them on the host.

// MurmurHash3's finalizer (Appleby, public domain) over both halves of the index.
__device__ __forceinline__ unsigned hashed(unsigned long long index, unsigned seed) {
    unsigned h = static_cast<unsigned>(index) ^ static_cast<unsigned>(index >> 32) * 0x9e3779b9u ^ seed;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

// Element i: base | (hash & mask), and the hash's top bit where `sign` says.
template <typename Bits>
__device__ __forceinline__ void fill(Bits* out, long long n, unsigned seed, unsigned base, unsigned mask, unsigned sign) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
        const unsigned h = hashed(i, seed);
        out[i] = static_cast<Bits>(base | (h & mask) | (h >> 31) * sign);
    }
}

extern "C" __global__ void fill_4(unsigned* out, long long n, unsigned seed, unsigned base, unsigned mask, unsigned sign) {
    fill(out, n, seed, base, mask, sign);
}
extern "C" __global__ void fill_2(unsigned short* out, long long n, unsigned seed, unsigned base, unsigned mask,
                                  unsigned sign) {
    fill(out, n, seed, base, mask, sign);
}
