// CUDA C++ as far as the kernels use it, in plain C++17: the same .cu text compiles here and under nvcc.
//
// __global__, __shared__, __launch_bounds__ and __noinline__ are no macros: emulated.py rewrites them in the preprocessed
// text (dialect.py), where kernels made by macros are visible too.
#ifndef TOUCHGATE_EMULATION_H
#define TOUCHGATE_EMULATION_H

#define TOUCHGATE_EMULATED 1
// As under nvcc: where headers ask for it, they want CUDA's words, which are here. __CUDA_ARCH__ stays undefined, for what
// is under it is often PTX.
#define __CUDACC__ 1

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "touchgate_float16.h"
#include "touchgate_interface.h"
#include "touchgate_vectors.h"

#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) alignas(n)

namespace touchgate {

static const Api* api;

static inline __attribute__((always_inline)) Fiber* self() {
    const uintptr_t inside = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    return reinterpret_cast<Fiber*>((inside & ~uintptr_t(TOUCHGATE_STACK - 1)) + TOUCHGATE_STACK) - 1;
}

[[noreturn]] static inline void fault(const char* file, int line, const char* what) {
    api->fault(self(), file, line, what);
    __builtin_unreachable();
}

// ---- static shared memory: one piece a block, every variable at an offset fixed while the module loads

static const unsigned int MOST_VARIABLES = 1024;
static Slot slots[MOST_VARIABLES];
static unsigned int slot_count;
static size_t shared_size;

static inline unsigned int reserve(size_t size, size_t alignment) {
    // 32 bytes between two variables, so that a sanitized build sees an overflow of one into the next.
    const size_t start = (shared_size + (shared_size ? 32 : 0) + alignment - 1) / alignment * alignment;
    shared_size = start + size;
    if (slot_count < MOST_VARIABLES) slots[slot_count] = Slot{start, size, 0};
    return slot_count++;
}

template <class T, size_t Alignment, class Place>
struct SharedVariable {
    static const unsigned int number;
};
template <class T, size_t Alignment, class Place>
const unsigned int SharedVariable<T, Alignment, Place>::number =
    reserve(sizeof(T), Alignment > alignof(T) ? Alignment : alignof(T));

// The variable's place in the running block's memory. `place`: a lambda, whose type is unique to each declaration and to
// each instantiation of the template around it.
template <class T, size_t Alignment, class Place>
static inline __attribute__((always_inline)) T& shared(Place) {
    Fiber* const fiber = self();
    const unsigned int number = SharedVariable<T, Alignment, Place>::number;
    if (number >= MOST_VARIABLES) fault(__FILE__, __LINE__, "more than 1024 variables in shared memory");
    // The first of a launch that comes here counts it: a kernel has what it uses, not all that the file declares.
    if (!__atomic_load_n(&slots[number].used, __ATOMIC_RELAXED)) api->use(fiber, &slots[number]);
    return *reinterpret_cast<T*>(fiber->shared + slots[number].offset);
}

// Shared variables outside of functions are thread_local ones: a worker runs one block at a time.
static Place places[MOST_VARIABLES];
static unsigned int place_count;

static inline bool shared_by_all(void* (*address)(), size_t size) {
    if (place_count < MOST_VARIABLES) places[place_count] = Place{address, size, 0};
    return ++place_count <= MOST_VARIABLES;
}

template <class T>
static inline __attribute__((always_inline)) T* dynamic_shared() {
    return reinterpret_cast<T*>(self()->dynamic_shared);
}

// ---- kernels: parameters are unpacked from the function pointer's own type

// What __launch_bounds__ says of a block's threads.
template <class... More>
static constexpr int first(long long threads, More...) {
    return static_cast<int>(threads);
}

template <bool Pointer, bool Integer, bool Floating>
struct KindOf {
    static const char kind = Pointer ? 'p' : Integer ? 'i' : Floating ? 'f' : 's';
};
template <class T>
struct TypeOf : KindOf<__is_enum(T), false, false> {};
template <class T>
struct TypeOf<T*> : KindOf<true, false, false> {};
template <class T>
struct TypeOf<const T> : TypeOf<T> {};
#define TOUCHGATE_TYPE(T, integer, floating) \
    template <>                              \
    struct TypeOf<T> : KindOf<false, integer, floating> {};
TOUCHGATE_TYPE(bool, true, false)
TOUCHGATE_TYPE(char, true, false)
TOUCHGATE_TYPE(signed char, true, false)
TOUCHGATE_TYPE(unsigned char, true, false)
TOUCHGATE_TYPE(short, true, false)
TOUCHGATE_TYPE(unsigned short, true, false)
TOUCHGATE_TYPE(int, true, false)
TOUCHGATE_TYPE(unsigned int, true, false)
TOUCHGATE_TYPE(long, true, false)
TOUCHGATE_TYPE(unsigned long, true, false)
TOUCHGATE_TYPE(long long, true, false)
TOUCHGATE_TYPE(unsigned long long, true, false)
TOUCHGATE_TYPE(float, false, true)
TOUCHGATE_TYPE(double, false, true)
TOUCHGATE_TYPE(__half, false, true)
#undef TOUCHGATE_TYPE

template <class F>
struct Signature;
template <class... A>
struct Signature<void (*)(A...)> {
    static const int count = sizeof...(A);
    static constexpr Parameter parameters[sizeof...(A) + 1] = {{TypeOf<A>::kind, int(sizeof(A))}..., {0, 0}};
};
template <class... A>
constexpr Parameter Signature<void (*)(A...)>::parameters[sizeof...(A) + 1];

template <int... I>
struct Indices {};
template <int N, int... I>
struct IndicesUpTo : IndicesUpTo<N - 1, N - 1, I...> {};
template <int... I>
struct IndicesUpTo<0, I...> {
    using type = Indices<I...>;
};

template <class F, F function>
struct Caller;
template <class... A, void (*function)(A...)>
struct Caller<void (*)(A...), function> {
    template <int... I>
    static void with(void** arguments, Indices<I...>) {
        function(*static_cast<A*>(arguments[I])...);
    }
    static void call(void** arguments) { with(arguments, typename IndicesUpTo<sizeof...(A)>::type{}); }
};

// ---- waiting: a call comes back when every thread it waits for has arrived

#define TOUCHGATE_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// The column tells two barriers on one line apart. It is that of the rewritten text, so nobody is shown it.
#if defined(__clang__)
#define TOUCHGATE_COLUMN __builtin_COLUMN()
#elif defined(__GNUC__) && __GNUC__ >= 11
#define TOUCHGATE_COLUMN \
    static_cast<int>(static_cast<const std::source_location::__impl*>(__builtin_source_location())->_M_column)
}  // namespace touchgate
namespace std {
// What the compiler fills in; <source_location> defines it in C++20 only.
struct source_location {
    struct __impl {
        const char *_M_file_name, *_M_function_name;
        unsigned int _M_line, _M_column;
    };
};
}  // namespace std
namespace touchgate {
#else
#define TOUCHGATE_COLUMN 0
#endif
#define TOUCHGATE_BARRIER_PLACE TOUCHGATE_PLACE, int column = TOUCHGATE_COLUMN

static inline uint64_t block_wait(Wait kind, int predicate, const char* file, int line, int column) {
    return api->block_wait(self(), kind, predicate, file, line, column);
}

static inline uint64_t warp_wait(Wait kind, unsigned int mask, uint64_t value, int source, const char* file, int line) {
    return api->warp_wait(self(), kind, mask, value, source, file, line);
}

template <class T>
static inline uint64_t widen(T value) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most 64 bits");
    uint64_t wide = 0;
    memcpy(&wide, &value, sizeof(value));
    return wide;
}

template <class T>
static inline T narrow(uint64_t wide) {
    T value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

}  // namespace touchgate

#define threadIdx (::touchgate::self()->thread)
#define blockIdx (::touchgate::self()->block_index)
#define blockDim (::touchgate::self()->block_size)
#define gridDim (::touchgate::self()->grid_size)
#define warpSize 32

static inline void __syncthreads(TOUCHGATE_BARRIER_PLACE) { touchgate::block_wait(touchgate::SYNC_THREADS, 0, file, line, column); }
static inline int __syncthreads_count(int predicate, TOUCHGATE_BARRIER_PLACE) {
    return static_cast<int>(touchgate::block_wait(touchgate::SYNC_THREADS_COUNT, predicate != 0, file, line, column));
}
static inline int __syncthreads_and(int predicate, TOUCHGATE_BARRIER_PLACE) {
    return static_cast<int>(touchgate::block_wait(touchgate::SYNC_THREADS_AND, predicate != 0, file, line, column));
}
static inline int __syncthreads_or(int predicate, TOUCHGATE_BARRIER_PLACE) {
    return static_cast<int>(touchgate::block_wait(touchgate::SYNC_THREADS_OR, predicate != 0, file, line, column));
}
static inline void __syncwarp(unsigned int mask = 0xffffffffu, TOUCHGATE_PLACE) {
    touchgate::warp_wait(touchgate::SYNC_WARP, mask, 0, -1, file, line);
}

// The source lanes are those of PTX shfl: outside of the section of `width` lanes a thread keeps its own value.
template <class T>
static inline T __shfl_sync(unsigned int mask, T value, int source, int width = 32, TOUCHGATE_PLACE) {
    const int lane = static_cast<int>(touchgate::self()->lane);
    const int from = (lane & ~(width - 1)) | (source & (width - 1));
    return touchgate::narrow<T>(
        touchgate::warp_wait(touchgate::SHFL, mask, touchgate::widen(value), from, file, line));
}
template <class T>
static inline T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32, TOUCHGATE_PLACE) {
    const int lane = static_cast<int>(touchgate::self()->lane);
    const int first = lane & ~(width - 1);
    const int from = delta > static_cast<unsigned int>(lane - first) ? -1 : lane - static_cast<int>(delta);
    return touchgate::narrow<T>(
        touchgate::warp_wait(touchgate::SHFL_UP, mask, touchgate::widen(value), from, file, line));
}
template <class T>
static inline T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32, TOUCHGATE_PLACE) {
    const int lane = static_cast<int>(touchgate::self()->lane);
    const int last = lane | (width - 1);
    const int from = delta > static_cast<unsigned int>(last - lane) ? -1 : lane + static_cast<int>(delta);
    return touchgate::narrow<T>(
        touchgate::warp_wait(touchgate::SHFL_DOWN, mask, touchgate::widen(value), from, file, line));
}
template <class T>
static inline T __shfl_xor_sync(unsigned int mask, T value, int lanes, int width = 32, TOUCHGATE_PLACE) {
    const int lane = static_cast<int>(touchgate::self()->lane);
    const int other = lane ^ lanes;
    // A higher section can't be read, a lower one can: that is how the hardware clamps.
    const int from = other > (lane | (width - 1)) ? -1 : other;
    return touchgate::narrow<T>(
        touchgate::warp_wait(touchgate::SHFL_XOR, mask, touchgate::widen(value), from, file, line));
}

static inline unsigned int __ballot_sync(unsigned int mask, int predicate, TOUCHGATE_PLACE) {
    return static_cast<unsigned int>(touchgate::warp_wait(touchgate::BALLOT, mask, predicate != 0, -1, file, line));
}
static inline int __any_sync(unsigned int mask, int predicate, TOUCHGATE_PLACE) {
    return static_cast<int>(touchgate::warp_wait(touchgate::ANY, mask, predicate != 0, -1, file, line));
}
static inline int __all_sync(unsigned int mask, int predicate, TOUCHGATE_PLACE) {
    return static_cast<int>(touchgate::warp_wait(touchgate::ALL, mask, predicate != 0, -1, file, line));
}
template <class T>
static inline unsigned int __match_any_sync(unsigned int mask, T value, TOUCHGATE_PLACE) {
    return static_cast<unsigned int>(
        touchgate::warp_wait(touchgate::MATCH_ANY, mask, touchgate::widen(value), -1, file, line));
}
template <class T>
static inline unsigned int __match_all_sync(unsigned int mask, T value, int* predicate, TOUCHGATE_PLACE) {
    const unsigned int lanes = static_cast<unsigned int>(
        touchgate::warp_wait(touchgate::MATCH_ALL, mask, touchgate::widen(value), -1, file, line));
    *predicate = lanes != 0;
    return lanes;
}
#define TOUCHGATE_REDUCE(name, T, kind)                                                                    \
    static inline T name(unsigned int mask, T value, TOUCHGATE_PLACE) {                                    \
        return static_cast<T>(touchgate::warp_wait(                                                        \
            touchgate::kind, mask, static_cast<unsigned int>(value), -1, file, line));                     \
    }
TOUCHGATE_REDUCE(__reduce_add_sync, unsigned int, REDUCE_ADD)
TOUCHGATE_REDUCE(__reduce_add_sync, int, REDUCE_ADD)
TOUCHGATE_REDUCE(__reduce_min_sync, unsigned int, REDUCE_UMIN)
TOUCHGATE_REDUCE(__reduce_min_sync, int, REDUCE_MIN)
TOUCHGATE_REDUCE(__reduce_max_sync, unsigned int, REDUCE_UMAX)
TOUCHGATE_REDUCE(__reduce_max_sync, int, REDUCE_MAX)
TOUCHGATE_REDUCE(__reduce_and_sync, unsigned int, REDUCE_AND)
TOUCHGATE_REDUCE(__reduce_or_sync, unsigned int, REDUCE_OR)
TOUCHGATE_REDUCE(__reduce_xor_sync, unsigned int, REDUCE_XOR)
#undef TOUCHGATE_REDUCE

// The lanes that are converged right now are not defined by CUDA. Here it is the caller alone: the answer that a kernel
// which relies on more gets wrong.
static inline unsigned int __activemask() { return 1u << touchgate::self()->lane; }
static inline void __nanosleep(unsigned int) { touchgate::api->pause(touchgate::self()); }
static inline void __trap(TOUCHGATE_PLACE) { touchgate::fault(file, line, "__trap()"); }

static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#include "touchgate_builtins.h"

#ifdef TOUCHGATE_CHECKS
#include "touchgate_checks.h"
#endif

// What follows is the .cu text.
struct touchgate_text_begins;

#endif
