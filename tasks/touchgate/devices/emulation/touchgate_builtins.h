// CUDA's functions that need no other thread: bits, arithmetic with a named rounding, loads and stores, atomics.
#ifndef TOUCHGATE_BUILTINS_H
#define TOUCHGATE_BUILTINS_H

#include "touchgate_float16.h"

#define TOUCHGATE_BUILTIN static inline __attribute__((always_inline))

// ---- bits

TOUCHGATE_BUILTIN int __popc(unsigned int x) { return __builtin_popcount(x); }
TOUCHGATE_BUILTIN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
TOUCHGATE_BUILTIN int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned int>(x)) : 32; }
TOUCHGATE_BUILTIN int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
TOUCHGATE_BUILTIN int __ffs(int x) { return __builtin_ffs(x); }
TOUCHGATE_BUILTIN int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned int __brev(unsigned int x) {
    x = ((x >> 1) & 0x55555555u) | ((x & 0x55555555u) << 1);
    x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
    x = ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
    return __builtin_bswap32(x);
}
static inline unsigned long long __brevll(unsigned long long x) {
    const unsigned long long low = __brev(static_cast<unsigned int>(x));
    return (low << 32) | __brev(static_cast<unsigned int>(x >> 32));
}
TOUCHGATE_BUILTIN int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
TOUCHGATE_BUILTIN unsigned int __umulhi(unsigned int a, unsigned int b) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(a) * b) >> 32);
}
TOUCHGATE_BUILTIN unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    // In halves: compilers for 32 bits have no __int128.
    const unsigned long long low = (a & 0xffffffffu) * (b & 0xffffffffu);
    const unsigned long long middle = (a >> 32) * (b & 0xffffffffu) + (low >> 32);
    const unsigned long long other = (a & 0xffffffffu) * (b >> 32) + (middle & 0xffffffffu);
    return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}
TOUCHGATE_BUILTIN long long __mul64hi(long long a, long long b) {
    const unsigned long long x = static_cast<unsigned long long>(a), y = static_cast<unsigned long long>(b);
    return static_cast<long long>(__umul64hi(x, y) - (a < 0 ? y : 0) - (b < 0 ? x : 0));
}
TOUCHGATE_BUILTIN int __mul24(int a, int b) {
    // The lower 24 bits are taken as signed numbers; the product's lower 32 bits remain.
    const unsigned int x = static_cast<unsigned int>(static_cast<int>(static_cast<unsigned int>(a) << 8) >> 8);
    const unsigned int y = static_cast<unsigned int>(static_cast<int>(static_cast<unsigned int>(b) << 8) >> 8);
    return static_cast<int>(x * y);
}
TOUCHGATE_BUILTIN unsigned int __umul24(unsigned int a, unsigned int b) { return (a & 0xffffffu) * (b & 0xffffffu); }
static inline unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector) {
    const unsigned long long bytes = (static_cast<unsigned long long>(y) << 32) | x;
    unsigned int result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned int pick = (selector >> (4 * i)) & 0x7u;
        result |= (static_cast<unsigned int>(bytes >> (8 * pick)) & 0xffu) << (8 * i);
    }
    return result;
}
TOUCHGATE_BUILTIN unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
    const unsigned long long both = (static_cast<unsigned long long>(high) << 32) | low;
    return static_cast<unsigned int>((both << (shift & 31)) >> 32);
}
TOUCHGATE_BUILTIN unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
    const unsigned long long both = (static_cast<unsigned long long>(high) << 32) | low;
    return static_cast<unsigned int>(both >> (shift & 31));
}
TOUCHGATE_BUILTIN unsigned int __funnelshift_lc(unsigned int low, unsigned int high, unsigned int shift) {
    const unsigned long long both = (static_cast<unsigned long long>(high) << 32) | low;
    return static_cast<unsigned int>((both << (shift < 32 ? shift : 32)) >> 32);
}
TOUCHGATE_BUILTIN unsigned int __funnelshift_rc(unsigned int low, unsigned int high, unsigned int shift) {
    const unsigned long long both = (static_cast<unsigned long long>(high) << 32) | low;
    return static_cast<unsigned int>(both >> (shift < 32 ? shift : 32));
}
TOUCHGATE_BUILTIN int __float_as_int(float x) { return touchgate::bits_of<int>(x); }
TOUCHGATE_BUILTIN unsigned int __float_as_uint(float x) { return touchgate::bits_of<unsigned int>(x); }
TOUCHGATE_BUILTIN float __int_as_float(int x) { return touchgate::bits_of<float>(x); }
TOUCHGATE_BUILTIN float __uint_as_float(unsigned int x) { return touchgate::bits_of<float>(x); }
TOUCHGATE_BUILTIN long long __double_as_longlong(double x) { return touchgate::bits_of<long long>(x); }
TOUCHGATE_BUILTIN double __longlong_as_double(long long x) { return touchgate::bits_of<double>(x); }
TOUCHGATE_BUILTIN int __double2hiint(double x) { return static_cast<int>(touchgate::bits_of<uint64_t>(x) >> 32); }
TOUCHGATE_BUILTIN int __double2loint(double x) { return static_cast<int>(touchgate::bits_of<uint64_t>(x)); }

// ---- arithmetic; the build forbids contraction, so each operation rounds for itself

TOUCHGATE_BUILTIN float __fadd_rn(float a, float b) { return a + b; }
TOUCHGATE_BUILTIN float __fsub_rn(float a, float b) { return a - b; }
TOUCHGATE_BUILTIN float __fmul_rn(float a, float b) { return a * b; }
TOUCHGATE_BUILTIN float __fdiv_rn(float a, float b) { return a / b; }
TOUCHGATE_BUILTIN float __fdividef(float a, float b) { return a / b; }
TOUCHGATE_BUILTIN float fdividef(float a, float b) { return a / b; }
TOUCHGATE_BUILTIN float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
TOUCHGATE_BUILTIN float __frcp_rn(float a) { return 1.0f / a; }
TOUCHGATE_BUILTIN float __fsqrt_rn(float a) { return sqrtf(a); }
TOUCHGATE_BUILTIN float __frsqrt_rn(float a) { return static_cast<float>(1.0 / sqrt(static_cast<double>(a))); }
TOUCHGATE_BUILTIN double __dadd_rn(double a, double b) { return a + b; }
TOUCHGATE_BUILTIN double __dsub_rn(double a, double b) { return a - b; }
TOUCHGATE_BUILTIN double __dmul_rn(double a, double b) { return a * b; }
TOUCHGATE_BUILTIN double __ddiv_rn(double a, double b) { return a / b; }
TOUCHGATE_BUILTIN double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
TOUCHGATE_BUILTIN double __dsqrt_rn(double a) { return sqrt(a); }
TOUCHGATE_BUILTIN float rsqrtf(float a) { return __frsqrt_rn(a); }
TOUCHGATE_BUILTIN double rsqrt(double a) { return 1.0 / sqrt(a); }
TOUCHGATE_BUILTIN float rsqrt(float a) { return __frsqrt_rn(a); }
TOUCHGATE_BUILTIN float __saturatef(float a) { return a >= 1.0f ? 1.0f : a > 0.0f ? a : 0.0f; }
// glibc has functions of these names of its own.
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)

// A float becomes an integer as on a GPU (PTX ISA, cvt): out of range is the nearest end; NaN is 0 from float to 32 bits,
// else the upper bit alone.
namespace touchgate {
template <class T, class From>
static inline T saturated(From value, double low, double beyond) {
    if (value != value) {
        const bool zero = sizeof(From) < sizeof(double) && sizeof(T) < sizeof(long long);
        return zero ? T(0) : static_cast<T>(1ull << (8 * sizeof(T) - 1));
    }
    if (value < low) return static_cast<T>(low);
    // `beyond` is a power of two one past the largest value, so it is exact.
    return value >= beyond ? static_cast<T>(static_cast<T>(-1) < T(0) ? ~static_cast<T>(low) : static_cast<T>(-1))
                           : static_cast<T>(value);
}
}  // namespace touchgate
#define TOUCHGATE_TO_INTEGER(from, name, T, low, beyond)                                                               \
    TOUCHGATE_BUILTIN T __##from##2##name##_rn(from x) { return touchgate::saturated<T, from>(static_cast<from>(rint(x)), low, beyond); }  \
    TOUCHGATE_BUILTIN T __##from##2##name##_rz(from x) { return touchgate::saturated<T, from>(static_cast<from>(trunc(x)), low, beyond); } \
    TOUCHGATE_BUILTIN T __##from##2##name##_rd(from x) { return touchgate::saturated<T, from>(static_cast<from>(floor(x)), low, beyond); } \
    TOUCHGATE_BUILTIN T __##from##2##name##_ru(from x) { return touchgate::saturated<T, from>(static_cast<from>(ceil(x)), low, beyond); }
TOUCHGATE_TO_INTEGER(float, int, int, -2147483648.0, 2147483648.0)
TOUCHGATE_TO_INTEGER(float, uint, unsigned int, 0.0, 4294967296.0)
TOUCHGATE_TO_INTEGER(float, ll, long long, -9223372036854775808.0, 9223372036854775808.0)
TOUCHGATE_TO_INTEGER(float, ull, unsigned long long, 0.0, 18446744073709551616.0)
TOUCHGATE_TO_INTEGER(double, int, int, -2147483648.0, 2147483648.0)
TOUCHGATE_TO_INTEGER(double, uint, unsigned int, 0.0, 4294967296.0)
TOUCHGATE_TO_INTEGER(double, ll, long long, -9223372036854775808.0, 9223372036854775808.0)
TOUCHGATE_TO_INTEGER(double, ull, unsigned long long, 0.0, 18446744073709551616.0)
#undef TOUCHGATE_TO_INTEGER
TOUCHGATE_BUILTIN int __half2int_rn(__half x) { return __float2int_rn(x); }
TOUCHGATE_BUILTIN int __half2int_rz(__half x) { return __float2int_rz(x); }
TOUCHGATE_BUILTIN float __int2float_rn(int x) { return static_cast<float>(x); }
TOUCHGATE_BUILTIN float __uint2float_rn(unsigned int x) { return static_cast<float>(x); }
TOUCHGATE_BUILTIN float __ll2float_rn(long long x) { return static_cast<float>(x); }
TOUCHGATE_BUILTIN float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
TOUCHGATE_BUILTIN double __int2double_rn(int x) { return x; }
TOUCHGATE_BUILTIN double __uint2double_rn(unsigned int x) { return x; }
TOUCHGATE_BUILTIN double __ll2double_rn(long long x) { return static_cast<double>(x); }
TOUCHGATE_BUILTIN double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
TOUCHGATE_BUILTIN float __double2float_rn(double x) { return static_cast<float>(x); }

// min and max: CUDA's overloads, mixed signs compare unsigned, a NaN loses against a number.
#define TOUCHGATE_MIN_MAX(T, A, B)                                                                  \
    TOUCHGATE_BUILTIN T min(A a, B b) { return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b); } \
    TOUCHGATE_BUILTIN T max(A a, B b) { return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b); }
TOUCHGATE_MIN_MAX(int, int, int)
TOUCHGATE_MIN_MAX(unsigned int, unsigned int, unsigned int)
TOUCHGATE_MIN_MAX(unsigned int, int, unsigned int)
TOUCHGATE_MIN_MAX(unsigned int, unsigned int, int)
TOUCHGATE_MIN_MAX(long, long, long)
TOUCHGATE_MIN_MAX(unsigned long, unsigned long, unsigned long)
TOUCHGATE_MIN_MAX(unsigned long, long, unsigned long)
TOUCHGATE_MIN_MAX(unsigned long, unsigned long, long)
TOUCHGATE_MIN_MAX(long long, long long, long long)
TOUCHGATE_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
TOUCHGATE_MIN_MAX(unsigned long long, long long, unsigned long long)
TOUCHGATE_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef TOUCHGATE_MIN_MAX
TOUCHGATE_BUILTIN float min(float a, float b) { return fminf(a, b); }
TOUCHGATE_BUILTIN float max(float a, float b) { return fmaxf(a, b); }
TOUCHGATE_BUILTIN double min(double a, double b) { return fmin(a, b); }
TOUCHGATE_BUILTIN double max(double a, double b) { return fmax(a, b); }
TOUCHGATE_BUILTIN double min(float a, double b) { return fmin(static_cast<double>(a), b); }
TOUCHGATE_BUILTIN double max(float a, double b) { return fmax(static_cast<double>(a), b); }
TOUCHGATE_BUILTIN double min(double a, float b) { return fmin(a, static_cast<double>(b)); }
TOUCHGATE_BUILTIN double max(double a, float b) { return fmax(a, static_cast<double>(b)); }
TOUCHGATE_BUILTIN unsigned int umin(unsigned int a, unsigned int b) { return min(a, b); }
TOUCHGATE_BUILTIN unsigned int umax(unsigned int a, unsigned int b) { return max(a, b); }

// ---- loads and stores with a cache hint

#define TOUCHGATE_LOAD(name)                   \
    template <class T>                         \
    TOUCHGATE_BUILTIN T name(const T* from) {  \
        return *from;                          \
    }
TOUCHGATE_LOAD(__ldg)
TOUCHGATE_LOAD(__ldca)
TOUCHGATE_LOAD(__ldcg)
TOUCHGATE_LOAD(__ldcs)
TOUCHGATE_LOAD(__ldcv)
TOUCHGATE_LOAD(__ldlu)
#undef TOUCHGATE_LOAD
namespace touchgate {
template <class T>
struct Same {
    using type = T;
};
}  // namespace touchgate
#define TOUCHGATE_STORE(name)                                                   \
    template <class T>                                                          \
    TOUCHGATE_BUILTIN void name(T* to, typename touchgate::Same<T>::type value) { \
        *to = value;                                                            \
    }
TOUCHGATE_STORE(__stcg)
TOUCHGATE_STORE(__stcs)
TOUCHGATE_STORE(__stwb)
TOUCHGATE_STORE(__stwt)
#undef TOUCHGATE_STORE

// ---- atomics: real ones, since blocks run on several cores

namespace touchgate {
template <class T, int Size>
struct Bits;
template <class T>
struct Bits<T, 2> {
    using type = unsigned short;
};
template <class T>
struct Bits<T, 4> {
    using type = unsigned int;
};
template <class T>
struct Bits<T, 8> {
    using type = unsigned long long;
};

// Replace *address by change(old) in one step; gives the old value back.
template <class T, class Change>
static inline T update(T* address, Change change) {
    using Word = typename Bits<T, sizeof(T)>::type;
    Word* const word = reinterpret_cast<Word*>(address);
    Word seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (;;) {
        const T old = bits_of<T>(seen);
        const Word wanted = bits_of<Word>(static_cast<T>(change(old)));
        if (__atomic_compare_exchange_n(word, &seen, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) return old;
    }
}
}  // namespace touchgate

#define TOUCHGATE_ATOMIC(name, T, expression)                                             \
    static inline T name(T* address, T value) {                                           \
        return touchgate::update(address, [value](T old) -> T { return (expression); });  \
    }                                                                                     \
    static inline T name##_block(T* address, T value) { return name(address, value); }    \
    static inline T name##_system(T* address, T value) { return name(address, value); }
#define TOUCHGATE_ATOMIC_SUM(T) TOUCHGATE_ATOMIC(atomicAdd, T, old + value)
TOUCHGATE_ATOMIC_SUM(unsigned int)
TOUCHGATE_ATOMIC_SUM(unsigned long long)
TOUCHGATE_ATOMIC_SUM(float)
TOUCHGATE_ATOMIC_SUM(double)
TOUCHGATE_ATOMIC_SUM(__half)
TOUCHGATE_ATOMIC_SUM(__half2)
TOUCHGATE_ATOMIC_SUM(__nv_bfloat16)
TOUCHGATE_ATOMIC_SUM(__nv_bfloat162)
#undef TOUCHGATE_ATOMIC_SUM
// Signed sums wrap around on a GPU, so they are made of unsigned ones.
TOUCHGATE_ATOMIC(atomicAdd, int, static_cast<int>(static_cast<unsigned int>(old) + static_cast<unsigned int>(value)))
TOUCHGATE_ATOMIC(atomicSub, int, static_cast<int>(static_cast<unsigned int>(old) - static_cast<unsigned int>(value)))
TOUCHGATE_ATOMIC(atomicSub, unsigned int, old - value)
TOUCHGATE_ATOMIC(atomicInc, unsigned int, old >= value ? 0u : old + 1u)
TOUCHGATE_ATOMIC(atomicDec, unsigned int, old == 0u || old > value ? value : old - 1u)
TOUCHGATE_ATOMIC(atomicExch, float, (static_cast<void>(old), value))
#define TOUCHGATE_ATOMIC_WHOLE(T)                                            \
    TOUCHGATE_ATOMIC(atomicMin, T, value < old ? value : old)                \
    TOUCHGATE_ATOMIC(atomicMax, T, value > old ? value : old)                \
    TOUCHGATE_ATOMIC(atomicExch, T, (static_cast<void>(old), value))
TOUCHGATE_ATOMIC_WHOLE(int)
TOUCHGATE_ATOMIC_WHOLE(unsigned int)
TOUCHGATE_ATOMIC_WHOLE(long long)
TOUCHGATE_ATOMIC_WHOLE(unsigned long long)
#undef TOUCHGATE_ATOMIC_WHOLE
#define TOUCHGATE_ATOMIC_BITS(T)                 \
    TOUCHGATE_ATOMIC(atomicAnd, T, old & value)  \
    TOUCHGATE_ATOMIC(atomicOr, T, old | value)   \
    TOUCHGATE_ATOMIC(atomicXor, T, old ^ value)
TOUCHGATE_ATOMIC_BITS(int)
TOUCHGATE_ATOMIC_BITS(unsigned int)
TOUCHGATE_ATOMIC_BITS(long long)
TOUCHGATE_ATOMIC_BITS(unsigned long long)
#undef TOUCHGATE_ATOMIC_BITS
#undef TOUCHGATE_ATOMIC

#define TOUCHGATE_ATOMIC_CAS(T)                                                                                     \
    static inline T atomicCAS(T* address, T expected, T value) {                                                    \
        __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);          \
        return expected;                                                                                            \
    }                                                                                                               \
    static inline T atomicCAS_block(T* address, T expected, T value) { return atomicCAS(address, expected, value); } \
    static inline T atomicCAS_system(T* address, T expected, T value) { return atomicCAS(address, expected, value); }
TOUCHGATE_ATOMIC_CAS(int)
TOUCHGATE_ATOMIC_CAS(unsigned int)
TOUCHGATE_ATOMIC_CAS(unsigned short)
TOUCHGATE_ATOMIC_CAS(unsigned long long)
#undef TOUCHGATE_ATOMIC_CAS

#endif
