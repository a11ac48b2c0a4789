// CUDA's vector types with CUDA's alignments, and their make_ functions.
#ifndef TOUCHGATE_VECTORS_H
#define TOUCHGATE_VECTORS_H

#include "touchgate_interface.h"

#define TOUCHGATE_VECTOR1(name, T)                                  \
    struct name##1 {                                                \
        T x;                                                        \
    };                                                              \
    static inline name##1 make_##name##1(T x) { return name##1{x}; }
#define TOUCHGATE_VECTOR2(name, T, A)                                        \
    struct alignas(A) name##2 {                                              \
        T x, y;                                                              \
    };                                                                       \
    static inline name##2 make_##name##2(T x, T y) { return name##2{x, y}; }
#define TOUCHGATE_VECTOR3(name, T)                                                     \
    struct name##3 {                                                                   \
        T x, y, z;                                                                     \
    };                                                                                 \
    static inline name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }
#define TOUCHGATE_VECTOR4(name, T, A)                                                            \
    struct alignas(A) name##4 {                                                                  \
        T x, y, z, w;                                                                            \
    };                                                                                           \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }
#define TOUCHGATE_VECTORS(name, T, A2, A4) \
    TOUCHGATE_VECTOR1(name, T)             \
    TOUCHGATE_VECTOR2(name, T, A2)         \
    TOUCHGATE_VECTOR3(name, T)             \
    TOUCHGATE_VECTOR4(name, T, A4)

TOUCHGATE_VECTORS(char, signed char, 2, 4)
TOUCHGATE_VECTORS(uchar, unsigned char, 2, 4)
TOUCHGATE_VECTORS(short, short, 4, 8)
TOUCHGATE_VECTORS(ushort, unsigned short, 4, 8)
TOUCHGATE_VECTORS(int, int, 8, 16)
TOUCHGATE_VECTOR1(uint, unsigned int)
TOUCHGATE_VECTOR2(uint, unsigned int, 8)
static inline uint3 make_uint3(unsigned int x, unsigned int y, unsigned int z) { return uint3{x, y, z}; }
TOUCHGATE_VECTOR4(uint, unsigned int, 16)
TOUCHGATE_VECTORS(long, long, 16, 16)
TOUCHGATE_VECTORS(ulong, unsigned long, 16, 16)
TOUCHGATE_VECTORS(longlong, long long, 16, 16)
TOUCHGATE_VECTORS(ulonglong, unsigned long long, 16, 16)
TOUCHGATE_VECTORS(float, float, 8, 16)
TOUCHGATE_VECTORS(double, double, 16, 16)

#endif
