// What a compiled .cu file and the runtime know of each other: plain structs, no C++ library.
#ifndef TOUCHGATE_INTERFACE_H
#define TOUCHGATE_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

// A thread's stack is one aligned piece of this size; its Fiber lies at the upper end. So the running thread is found
// from the stack pointer alone, without thread-local storage.
#if defined(__SANITIZE_ADDRESS__)
#define TOUCHGATE_STACK (size_t(1) << 18)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TOUCHGATE_STACK (size_t(1) << 18)
#endif
#endif
#ifndef TOUCHGATE_STACK
#if defined(__powerpc64__) || (defined(__aarch64__) && !defined(__APPLE__))
// Pages may have 64 KiB there, and the lowest page of a stack is inaccessible.
#define TOUCHGATE_STACK (size_t(1) << 17)
#else
#define TOUCHGATE_STACK (size_t(1) << 16)
#endif
#endif

struct uint3 {
    unsigned int x, y, z;
};

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

namespace touchgate {

// What a thread waits for. The names are in runtime.cpp.
enum Wait : int {
    WAIT_NONE,
    SYNC_THREADS,
    SYNC_THREADS_COUNT,
    SYNC_THREADS_AND,
    SYNC_THREADS_OR,
    SYNC_WARP,
    SHFL,
    SHFL_UP,
    SHFL_DOWN,
    SHFL_XOR,
    BALLOT,
    ANY,
    ALL,
    MATCH_ANY,
    MATCH_ALL,
    REDUCE_ADD,
    REDUCE_MIN,
    REDUCE_MAX,
    REDUCE_UMIN,
    REDUCE_UMAX,
    REDUCE_AND,
    REDUCE_OR,
    REDUCE_XOR,
    WAIT_KINDS
};

enum State : int { READY, WAITING, ENDED };

struct Block;

// One CUDA thread.
struct Fiber {
    uint3 thread;
    uint3 block_index;
    dim3 block_size;
    dim3 grid_size;
    unsigned char* shared;          // the block's static shared memory
    unsigned char* dynamic_shared;  // and the dynamic part
    unsigned int lane;
    unsigned int number;  // within the block
    Block* owner;
    State state;
    // What it waits for:
    Wait wait;
    unsigned int mask;
    int source;  // the lane a shuffle reads; -1: its own value, outside of the warp's section
    uint64_t value;
    uint64_t result;
    const char* file;
    int line, column;
    // Where it stopped:
    void* stack_pointer;
    void* fake_stack;  // AddressSanitizer's
};

// A variable in static shared memory.
struct Slot {
    size_t offset, size;
    int used;  // in this launch
};

// A shared variable outside of functions: where the calling worker has it.
struct Place {
    void* (*address)();
    size_t size;
    int used;
};

// What a compiled .cu file calls.
struct Api {
    uint64_t (*block_wait)(Fiber* self, int kind, int predicate, const char* file, int line, int column);
    uint64_t (*warp_wait)(
        Fiber* self, int kind, unsigned int mask, uint64_t value, int source, const char* file, int line);
    void (*pause)(Fiber* self);
    void (*fault)(Fiber* self, const char* file, int line, const char* what);
    void (*use)(Fiber* self, Slot* slot);
};

struct Parameter {
    char kind;  // 'p' pointer, 'i' integer, 'f' floating point, 's' anything else
    int size;   // bytes
};

struct Kernel {
    const char* name;
    void (*call)(void** arguments);
    int parameter_count;
    const Parameter* parameters;
    int max_threads;  // of __launch_bounds__, 0 without
};

struct Module {
    int kernel_count;
    const Kernel* kernels;
    const Api** api;            // set by the runtime before the first launch
    const size_t* shared_size;  // bytes of static shared memory of all kernels
    const unsigned int* slot_count;
    Slot* slots;  // its variables
    const unsigned int* place_count;
    Place* places;  // and those outside of functions
};

}  // namespace touchgate

#endif
