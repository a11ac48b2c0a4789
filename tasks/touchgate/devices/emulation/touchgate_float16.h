// __half and __nv_bfloat16: conversions round once, to nearest even; arithmetic is rounded after each operation.
//
// Sums, products and quotients of 16-bit floats are computed in float first: 24 bits are at least 2p + 2, so the second
// rounding changes nothing (Figueroa 1995). The fused multiply-add needs more, see fused().
#ifndef TOUCHGATE_FLOAT16_H
#define TOUCHGATE_FLOAT16_H

#include <math.h>
#include <string.h>

#include "touchgate_vectors.h"

namespace touchgate {

template <class To, class From>
static inline To bits_of(From from) {
    static_assert(sizeof(To) == sizeof(From), "a reinterpretation keeps the size");
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

// The 16-bit float with M bits of fraction and the exponent bias B that is nearest to x. Every NaN becomes 0x7fff, as on a GPU.
template <int M, int B>
static inline unsigned short encode(double x) {
    const uint64_t bits = bits_of<uint64_t>(x);
    const unsigned short sign = static_cast<unsigned short>((bits >> 48) & 0x8000u);
    uint64_t magnitude = bits & 0x7fffffffffffffffull;
    const unsigned short infinity = static_cast<unsigned short>((2 * B + 1) << M);
    if (magnitude > 0x7ff0000000000000ull) return 0x7fffu;
    if (magnitude < (uint64_t(1023 + 1 - B) << 52)) {
        // Below the smallest normal: count units of 2^(1-B-M); adding 2^52 rounds to a whole number of them.
        const double units = bits_of<double>(magnitude) * bits_of<double>(uint64_t(1023 + B - 1 + M) << 52);
        const uint64_t rounded = bits_of<uint64_t>(units + 4503599627370496.0) & 0xfffffull;
        return static_cast<unsigned short>(sign | rounded);
    }
    const int dropped = 52 - M;
    magnitude += ((magnitude >> dropped) & 1) + ((uint64_t(1) << (dropped - 1)) - 1);
    const uint64_t rebiased = (magnitude >> dropped) - (uint64_t(1023 - B) << M);
    return static_cast<unsigned short>(sign | (rebiased >= infinity ? infinity : rebiased));
}

template <int M, int B>
static inline float decode(unsigned short bits) {
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits & 0x7fffu) >> M;
    const uint32_t fraction = bits & ((1u << M) - 1);
    if (exponent == 2 * B + 1) return bits_of<float>(sign | 0x7f800000u | (fraction << (23 - M)));
    if (B == 127) return bits_of<float>(uint32_t(bits) << 16);
    if (exponent == 0) {
        const float magnitude = static_cast<float>(fraction) * bits_of<float>(uint32_t(127 + 1 - B - M) << 23);
        return sign ? -magnitude : magnitude;
    }
    return bits_of<float>(sign | ((exponent + 127 - B) << 23) | (fraction << (23 - M)));
}

// a * b + c rounded to odd in double: the product of two 16-bit floats is exact there, and a result rounded to odd can be
// rounded once more to 16 bits as if it had been exact (Boldo and Melquiond 2008).
static inline double fused(double a, double b, double c) {
    const double product = a * b;
    const double sum = product + c;
    if (!isfinite(sum)) return sum;
    const double part = sum - product;
    const double error = (product - (sum - part)) + (c - part);
    uint64_t bits = bits_of<uint64_t>(sum);
    if (error != 0 && !(bits & 1)) bits += ((error > 0) == (sum > 0)) ? 1 : -1;
    return bits_of<double>(bits);
}

}  // namespace touchgate

// Both types have the same members; only the widths of fraction and exponent differ.
#define TOUCHGATE_FLOAT16(name, raw, M, B)                                                                    \
    struct raw {                                                                                              \
        unsigned short x;                                                                                     \
    };                                                                                                        \
    struct alignas(2) name {                                                                                  \
        unsigned short bits;                                                                                  \
        name() = default;                                                                                     \
        name(raw value) : bits(value.x) {}                                                                    \
        name(float value) : bits(touchgate::encode<M, B>(value)) {}                                           \
        name(double value) : bits(touchgate::encode<M, B>(value)) {}                                          \
        name(int value) : bits(touchgate::encode<M, B>(value)) {}                                             \
        name(unsigned int value) : bits(touchgate::encode<M, B>(value)) {}                                    \
        name(short value) : bits(touchgate::encode<M, B>(value)) {}                                           \
        name(unsigned short value) : bits(touchgate::encode<M, B>(value)) {}                                  \
        operator raw() const { return raw{bits}; }                                                            \
        operator float() const { return touchgate::decode<M, B>(bits); }                                      \
        name& operator+=(name other) { return *this = name(float(*this) + float(other)); }                    \
        name& operator-=(name other) { return *this = name(float(*this) - float(other)); }                    \
        name& operator*=(name other) { return *this = name(float(*this) * float(other)); }                    \
        name& operator/=(name other) { return *this = name(float(*this) / float(other)); }                    \
    };                                                                                                        \
    static inline name operator+(name a, name b) { return name(float(a) + float(b)); }                        \
    static inline name operator-(name a, name b) { return name(float(a) - float(b)); }                        \
    static inline name operator*(name a, name b) { return name(float(a) * float(b)); }                        \
    static inline name operator/(name a, name b) { return name(float(a) / float(b)); }                        \
    static inline name operator+(name a) { return a; }                                                        \
    static inline name operator-(name a) { return name(raw{static_cast<unsigned short>(a.bits ^ 0x8000u)}); } \
    static inline bool operator==(name a, name b) { return float(a) == float(b); }                            \
    static inline bool operator!=(name a, name b) { return float(a) != float(b); }                            \
    static inline bool operator<(name a, name b) { return float(a) < float(b); }                              \
    static inline bool operator<=(name a, name b) { return float(a) <= float(b); }                            \
    static inline bool operator>(name a, name b) { return float(a) > float(b); }                              \
    static inline bool operator>=(name a, name b) { return float(a) >= float(b); }                            \
    static inline name __hadd(name a, name b) { return a + b; }                                               \
    static inline name __hsub(name a, name b) { return a - b; }                                               \
    static inline name __hmul(name a, name b) { return a * b; }                                               \
    static inline name __hadd_rn(name a, name b) { return a + b; }                                            \
    static inline name __hsub_rn(name a, name b) { return a - b; }                                            \
    static inline name __hmul_rn(name a, name b) { return a * b; }                                            \
    static inline name __hdiv(name a, name b) { return a / b; }                                               \
    static inline name __hneg(name a) { return -a; }                                                          \
    static inline name __habs(name a) { return name(raw{static_cast<unsigned short>(a.bits & 0x7fffu)}); }    \
    static inline name __hfma(name a, name b, name c) {                                                       \
        return name(touchgate::fused(double(float(a)), double(float(b)), double(float(c))));                  \
    }                                                                                                         \
    static inline bool __heq(name a, name b) { return a == b; }                                               \
    static inline bool __hne(name a, name b) { return a < b || a > b; }                                       \
    static inline bool __hlt(name a, name b) { return a < b; }                                                \
    static inline bool __hle(name a, name b) { return a <= b; }                                               \
    static inline bool __hgt(name a, name b) { return a > b; }                                                \
    static inline bool __hge(name a, name b) { return a >= b; }                                               \
    static inline bool __hisnan(name a) { return (a.bits & 0x7fffu) > ((2 * B + 1) << M); }                   \
    static inline int __hisinf(name a) {                                                                      \
        return (a.bits & 0x7fffu) == ((2 * B + 1) << M) ? ((a.bits & 0x8000u) ? -1 : 1) : 0;                  \
    }                                                                                                         \
    static inline name __hmax(name a, name b) { return __hisnan(a) ? b : __hisnan(b) ? a : a < b ? b : a; }   \
    static inline name __hmin(name a, name b) { return __hisnan(a) ? b : __hisnan(b) ? a : b < a ? b : a; }   \
    static inline name hsqrt(name a) { return name(sqrtf(float(a))); }                                        \
    static inline name hrcp(name a) { return name(1.0 / double(float(a))); }                                  \
    static inline name hrsqrt(name a) { return name(1.0 / sqrt(double(float(a)))); }                          \
    static inline name hexp(name a) { return name(exp(double(float(a)))); }                                   \
    static inline name hlog(name a) { return name(log(double(float(a)))); }                                   \
    struct alignas(4) name##2 {                                                                               \
        name x, y;                                                                                            \
        name##2() = default;                                                                                  \
        name##2(name a, name b) : x(a), y(b) {}                                                               \
    };                                                                                                        \
    static inline name##2 operator+(name##2 a, name##2 b) { return {a.x + b.x, a.y + b.y}; }                  \
    static inline name##2 operator-(name##2 a, name##2 b) { return {a.x - b.x, a.y - b.y}; }                  \
    static inline name##2 operator*(name##2 a, name##2 b) { return {a.x * b.x, a.y * b.y}; }                  \
    static inline name##2 operator/(name##2 a, name##2 b) { return {a.x / b.x, a.y / b.y}; }                  \
    static inline name##2 __hadd2(name##2 a, name##2 b) { return a + b; }                                     \
    static inline name##2 __hsub2(name##2 a, name##2 b) { return a - b; }                                     \
    static inline name##2 __hmul2(name##2 a, name##2 b) { return a * b; }                                     \
    static inline name##2 __h2div(name##2 a, name##2 b) { return a / b; }                                     \
    static inline name##2 __hfma2(name##2 a, name##2 b, name##2 c) {                                          \
        return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                                \
    }                                                                                                         \
    static inline name##2 __hmax2(name##2 a, name##2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }      \
    static inline name##2 __hmin2(name##2 a, name##2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }

TOUCHGATE_FLOAT16(__half, __half_raw, 10, 15)
TOUCHGATE_FLOAT16(__nv_bfloat16, __nv_bfloat16_raw, 7, 127)
#undef TOUCHGATE_FLOAT16


using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

#define TOUCHGATE_CONVERSIONS(type, name)                                                                      \
    static inline type __float2##name(float value) { return type(value); }                                     \
    static inline type __float2##name##_rn(float value) { return type(value); }                                \
    static inline type __double2##name(double value) { return type(value); }                                   \
    static inline type __int2##name##_rn(int value) { return type(double(value)); }                            \
    static inline type __uint2##name##_rn(unsigned int value) { return type(double(value)); }                  \
    static inline float __##name##2float(type value) { return float(value); }                                  \
    static inline short __##name##_as_short(type value) { return static_cast<short>(value.bits); }             \
    static inline unsigned short __##name##_as_ushort(type value) { return value.bits; }                       \
    static inline type __short_as_##name(short bits) { return touchgate::bits_of<type>(bits); }                \
    static inline type __ushort_as_##name(unsigned short bits) { return touchgate::bits_of<type>(bits); }      \
    static inline type##2 __float2##name##2_rn(float value) { return {type(value), type(value)}; }             \
    static inline type##2 __floats2##name##2_rn(float a, float b) { return {type(a), type(b)}; }               \
    static inline type##2 __float22##name##2_rn(float2 value) { return {type(value.x), type(value.y)}; }       \
    static inline float2 __##name##22float2(type##2 value) { return make_float2(value.x, value.y); }           \
    static inline float __low2float(type##2 value) { return value.x; }                                         \
    static inline float __high2float(type##2 value) { return value.y; }                                        \
    static inline type __low2##name(type##2 value) { return value.x; }                                         \
    static inline type __high2##name(type##2 value) { return value.y; }                                        \
    static inline type##2 __##name##2##name##2(type value) { return {value, value}; }                          \
    static inline type##2 make_##name##2(type a, type b) { return {a, b}; }

TOUCHGATE_CONVERSIONS(__half, half)
TOUCHGATE_CONVERSIONS(__nv_bfloat16, bfloat16)
#undef TOUCHGATE_CONVERSIONS

static inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
static inline __nv_bfloat162 make_nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }

#endif
