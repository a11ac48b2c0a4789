// Runs a compiled kernel: the threads of a block are fibers, blocks are spread over the cores.
//
// A fiber runs until it waits for others or ends. A worker (one operating system thread) owns one block at a time, so
// within a block nothing is concurrent; between blocks everything is. When no fiber of a block can go on, either all live
// ones stand at the same barrier, which then opens, or the launch ends with a fault that says who waits where.

#include "touchgate_interface.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

// ---- switching stacks: save what the callee must keep, change the stack pointer, restore

extern "C" void touchgate_switch(void** save, void* to) __asm__("touchgate_switch");

#if defined(__x86_64__) && !defined(TOUCHGATE_UCONTEXT)
__asm__(
    ".text\n"
    ".globl touchgate_switch\n"
    ".p2align 4\n"
    "touchgate_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");
// Six registers, the address to return to, and a zero where a debugger looks for the caller.
static void* first_frame(char* top, void (*entry)()) {
    void** words = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t(15)) - 8;
    memset(words, 0, 8 * sizeof(void*));
    words[6] = reinterpret_cast<void*>(entry);
    return words;
}
#elif defined(__aarch64__) && !defined(TOUCHGATE_UCONTEXT)
__asm__(
    ".text\n"
    ".globl touchgate_switch\n"
    ".p2align 4\n"
    "touchgate_switch:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n");
static void* first_frame(char* top, void (*entry)()) {
    void** words = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t(15)) - 20;
    memset(words, 0, 20 * sizeof(void*));
    words[11] = reinterpret_cast<void*>(entry);
    return words;
}
#else
#include <ucontext.h>
// A context of its own for each stack, kept at the place that the stack pointer names.
extern "C" void touchgate_switch(void** save, void* to) {
    ucontext_t here;
    *save = &here;
    swapcontext(&here, static_cast<ucontext_t*>(to));
}
static void* first_frame(char* top, void (*entry)()) {
    ucontext_t* const context = reinterpret_cast<ucontext_t*>(
        (reinterpret_cast<uintptr_t>(top) - sizeof(ucontext_t)) & ~uintptr_t(63));
    getcontext(context);
    char* const bottom = top - (reinterpret_cast<uintptr_t>(top) & (TOUCHGATE_STACK - 1));
    context->uc_stack.ss_sp = bottom;
    context->uc_stack.ss_size = static_cast<size_t>(reinterpret_cast<char*>(context) - bottom);
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    return context;
}
#endif

namespace touchgate {

static const char* const NAMES[WAIT_KINDS] = {
    "nothing",         "__syncthreads",     "__syncthreads_count", "__syncthreads_and", "__syncthreads_or",
    "__syncwarp",      "__shfl_sync",       "__shfl_up_sync",      "__shfl_down_sync",  "__shfl_xor_sync",
    "__ballot_sync",   "__any_sync",        "__all_sync",          "__match_any_sync",  "__match_all_sync",
    "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_min_sync", "__reduce_max_sync",
    "__reduce_and_sync", "__reduce_or_sync",  "__reduce_xor_sync"};

static const int WARP = 32;
static const int MOST_THREADS = 1024;
static const int MOST_WORKERS = 64;
// What the roomiest architecture of today lets a block have (227 KiB, compute capability 9.0 and 10.0).
static const size_t MOST_SHARED = 227 * 1024;
// What ptxas lets a kernel declare.
static const size_t MOST_STATIC = 48 * 1024;
static const unsigned char POISON = 0xff;  // NaN for every float type, -1 for integers
static const unsigned char CANARY = 0xc5;
// What a shuffle gives for a lane that takes no part: NaN again.
static const uint64_t UNDEFINED = ~uint64_t(0);

static size_t page() {
    static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

static size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

static char* reserve_pages(size_t size, int protection) {
    void* const at = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

struct Launch {
    const Kernel* kernel;
    const Module* module;
    void** arguments;
    dim3 grid, block;
    size_t shared;  // dynamic
    size_t fixed;   // static, as far as it was used
    uint64_t seed;
    uint64_t blocks, step, start;  // block number n runs as number (start + n * step) % blocks
    uint64_t next;
    int stopped;
    pthread_mutex_t lock;
    char* message;
    size_t capacity;
};

struct Worker;

struct Block {
    Launch* launch;
    Worker* worker;
    Fiber** fibers;
    unsigned int threads, live;
    uint3 index;
};

// One operating system thread with the stacks and the shared memory that it reuses from block to block and from launch to
// launch.
struct Worker {
    pthread_t thread;
    Launch* launch;
    Fiber* fibers[MOST_THREADS];
    unsigned int order[MOST_THREADS];
    int stacks;
    char* shared_end;
    size_t shared_room;
    unsigned char* shared;
    void* stack_pointer;  // of the scheduler
    void* fake_stack;
    const void* own_stack;
    size_t own_stack_size;
    Fiber* running;
    sigjmp_buf rescue;
    char* signal_stack;
    uint64_t random;
};

static Worker workers[MOST_WORKERS];
static thread_local Worker* here;

// ---- faults

static void say(char* to, size_t capacity, size_t* used, const char* format, ...) __attribute__((format(printf, 4, 5)));
static void say(char* to, size_t capacity, size_t* used, const char* format, ...) {
    if (*used >= capacity) return;
    va_list values;
    va_start(values, format);
    const int written = vsnprintf(to + *used, capacity - *used, format, values);
    va_end(values);
    if (written > 0) *used += static_cast<size_t>(written);
}

static bool stopped(Launch* launch) { return __atomic_load_n(&launch->stopped, __ATOMIC_ACQUIRE) != 0; }

// The first fault of a launch is the one that is reported.
static void stop(Launch* launch, const char* message) {
    pthread_mutex_lock(&launch->lock);
    if (!launch->stopped) {
        snprintf(launch->message, launch->capacity, "%s", message);
        __atomic_store_n(&launch->stopped, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&launch->lock);
}

static void say_where(char* to, size_t capacity, size_t* used, const Fiber* fiber) {
    const uint3 block = fiber->block_index;
    const uint3 thread = fiber->thread;
    say(to, capacity, used, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u)", fiber->owner->launch->kernel->name,
        block.x, block.y, block.z, thread.x, thread.y, thread.z);
}

// ---- from fiber to scheduler and back

static Fiber* running_fiber() {
    const uintptr_t inside = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    return reinterpret_cast<Fiber*>((inside & ~uintptr_t(TOUCHGATE_STACK - 1)) + TOUCHGATE_STACK) - 1;
}

static char* stack_bottom(const Fiber* fiber) {
    return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(fiber) & ~uintptr_t(TOUCHGATE_STACK - 1));
}

static void to_scheduler(Fiber* self, bool for_good) {
    Worker* const worker = self->owner->worker;
#ifdef SANITIZED
    __sanitizer_start_switch_fiber(for_good ? nullptr : &self->fake_stack, worker->own_stack, worker->own_stack_size);
#else
    static_cast<void>(for_good);
#endif
    touchgate_switch(&self->stack_pointer, worker->stack_pointer);
#ifdef SANITIZED
    __sanitizer_finish_switch_fiber(self->fake_stack, &worker->own_stack, &worker->own_stack_size);
#endif
}

static void to_fiber(Worker* worker, Fiber* fiber) {
    worker->running = fiber;
#ifdef SANITIZED
    __sanitizer_start_switch_fiber(&worker->fake_stack, stack_bottom(fiber), TOUCHGATE_STACK);
#endif
    touchgate_switch(&worker->stack_pointer, fiber->stack_pointer);
#ifdef SANITIZED
    __sanitizer_finish_switch_fiber(worker->fake_stack, nullptr, nullptr);
#endif
    worker->running = nullptr;
}

static void api_fault(Fiber* self, const char* file, int line, const char* what) {
    char text[1024];
    size_t used = 0;
    say(text, sizeof(text), &used, "%s:%d: %s\n  in ", file, line, what);
    say_where(text, sizeof(text), &used, self);
    stop(self->owner->launch, text);
    to_scheduler(self, true);
}

// Count static shared memory that the launch had not used before; false where there is too much of it.
static bool count_static(Launch* launch, int* used, size_t size) {
    char text[512];
    size_t length = 0;
    pthread_mutex_lock(&launch->lock);
    if (!*used) launch->fixed += size;
    __atomic_store_n(used, 1, __ATOMIC_RELAXED);
    const size_t fixed = launch->fixed;
    pthread_mutex_unlock(&launch->lock);
    if (fixed > MOST_STATIC) {
        say(text, sizeof(text), &length, "%zu bytes of static shared memory: ptxas takes at most %zu", fixed, MOST_STATIC);
    } else if (fixed + launch->shared > MOST_SHARED) {
        say(text, sizeof(text), &length, "%zu bytes of shared memory, %zu static and %zu dynamic: more than %zu",
            fixed + launch->shared, fixed, launch->shared, MOST_SHARED);
    } else {
        return true;
    }
    say(text, sizeof(text), &length, "\n  in kernel %s", launch->kernel->name);
    stop(launch, text);
    return false;
}

static void api_use(Fiber* self, Slot* slot) {
    if (!count_static(self->owner->launch, &slot->used, slot->size)) to_scheduler(self, true);
}

static void api_pause(Fiber* self) { to_scheduler(self, false); }

// ---- warps

static uint64_t lanes_value(Fiber** lanes, unsigned int taking_part, const Fiber* asking) {
    const Wait kind = asking->wait;
    uint64_t first = 0, all = 1, any = 0, ballot = 0, same = 0, sum = 0;
    unsigned int lowest = ~0u, highest = 0, bits_and = ~0u, bits_or = 0, bits_xor = 0;
    int least = 0x7fffffff, most = -0x7fffffff - 1;
    bool begun = false, equal = true;
    for (int lane = 0; lane < WARP; ++lane) {
        if (!(taking_part >> lane & 1)) continue;
        const uint64_t value = lanes[lane]->value;
        const unsigned int low = static_cast<unsigned int>(value);
        const int number = static_cast<int>(low);
        if (!begun) first = value;
        begun = true;
        equal = equal && value == first;
        all &= value != 0;
        any |= value != 0;
        ballot |= static_cast<uint64_t>(value != 0) << lane;
        same |= static_cast<uint64_t>(value == asking->value) << lane;
        sum += value;
        lowest = low < lowest ? low : lowest;
        highest = low > highest ? low : highest;
        least = number < least ? number : least;
        most = number > most ? number : most;
        bits_and &= low;
        bits_or |= low;
        bits_xor ^= low;
    }
    switch (kind) {
        case BALLOT: return ballot;
        case ANY: return any;
        case ALL: return all;
        case MATCH_ANY: return same;
        case MATCH_ALL: return equal ? taking_part : 0;
        case REDUCE_ADD: return sum & 0xffffffffu;
        case REDUCE_MIN: return static_cast<unsigned int>(least);
        case REDUCE_MAX: return static_cast<unsigned int>(most);
        case REDUCE_UMIN: return lowest;
        case REDUCE_UMAX: return highest;
        case REDUCE_AND: return bits_and;
        case REDUCE_OR: return bits_or;
        case REDUCE_XOR: return bits_xor;
        default: return 0;
    }
}

// Open the warp's meeting of this kind and mask if every lane it names has arrived. Lanes that ended, or that a short last
// warp never had, are not waited for.
static bool complete_warp(Block* block, unsigned int first, Wait kind, unsigned int mask) {
    Fiber** const lanes = block->fibers + first;
    unsigned int taking_part = 0;
    for (int lane = WARP - 1; lane >= 0; --lane) {
        if (!(mask >> lane & 1) || first + lane >= block->threads || lanes[lane]->state == ENDED) continue;
        const Fiber* const other = lanes[lane];
        if (other->state != WAITING || other->wait != kind || other->mask != mask) return false;
        taking_part |= 1u << lane;
    }
    const bool shuffle = kind >= SHFL && kind <= SHFL_XOR;
    const bool everyone_alike = !shuffle && kind != MATCH_ANY && kind != SYNC_WARP;
    uint64_t shared_result = 0;
    bool known = false;
    for (int lane = 0; lane < WARP; ++lane) {
        if (!(taking_part >> lane & 1)) continue;
        Fiber* const fiber = lanes[lane];
        if (shuffle) {
            const int from = fiber->source < 0 ? lane : fiber->source;
            fiber->result = taking_part >> from & 1 ? lanes[from]->value : UNDEFINED;
        } else if (everyone_alike) {
            if (!known) shared_result = lanes_value(lanes, taking_part, fiber);
            known = true;
            fiber->result = shared_result;
        } else if (kind == MATCH_ANY) {
            fiber->result = lanes_value(lanes, taking_part, fiber);
        }
        fiber->state = READY;
    }
    return true;
}

static uint64_t api_warp_wait(
    Fiber* self, int kind, unsigned int mask, uint64_t value, int source, const char* file, int line) {
    if (!(mask >> self->lane & 1)) {
        char what[160];
        snprintf(what, sizeof(what), "%s(mask 0x%08x): the mask does not name the calling lane %u", NAMES[kind], mask,
                 self->lane);
        api_fault(self, file, line, what);
    }
    self->wait = static_cast<Wait>(kind);
    self->mask = mask;
    self->value = value;
    self->source = source;
    self->file = file;
    self->line = line;
    self->column = 0;
    self->state = WAITING;
    if (!complete_warp(self->owner, self->number - self->lane, self->wait, mask)) to_scheduler(self, false);
    return self->result;
}

// ---- blocks

static uint64_t api_block_wait(Fiber* self, int kind, int predicate, const char* file, int line, int column) {
    self->wait = static_cast<Wait>(kind);
    self->value = static_cast<uint64_t>(predicate);
    self->file = file;
    self->line = line;
    self->column = column;
    self->state = WAITING;
    to_scheduler(self, false);
    return self->result;
}

static bool same_place(const Fiber* a, const Fiber* b) {
    return a->wait == b->wait && a->line == b->line && a->column == b->column &&
           (a->file == b->file || strcmp(a->file, b->file) == 0);
}

// Open the barrier if all live threads stand at the same one.
static bool open_barrier(Block* block) {
    const Fiber* first = nullptr;
    uint64_t count = 0;
    for (unsigned int i = 0; i < block->threads; ++i) {
        const Fiber* const fiber = block->fibers[i];
        if (fiber->state == ENDED) continue;
        if (!first) first = fiber;
        if (fiber->wait > SYNC_THREADS_OR || !same_place(first, fiber)) return false;
        count += fiber->value;
    }
    for (unsigned int i = 0; i < block->threads; ++i) {
        Fiber* const fiber = block->fibers[i];
        if (fiber->state == ENDED) continue;
        fiber->result = fiber->wait == SYNC_THREADS_COUNT ? count
                        : fiber->wait == SYNC_THREADS_AND ? count == block->live
                                                          : count != 0;
        fiber->state = READY;
    }
    return true;
}

// "0..31, 64" for the threads that wait at the same place as `like`.
static void say_threads(Block* block, const Fiber* like, char* to, size_t capacity, size_t* used) {
    const size_t limit = *used + 120;
    bool begun = false;
    for (unsigned int i = 0; i < block->threads; ++i) {
        const Fiber* const fiber = block->fibers[i];
        if (fiber->state != WAITING || !same_place(like, fiber) || like->mask != fiber->mask) continue;
        unsigned int last = i;
        while (last + 1 < block->threads && block->fibers[last + 1]->state == WAITING &&
               same_place(like, block->fibers[last + 1]) && like->mask == block->fibers[last + 1]->mask) {
            ++last;
        }
        if (*used > limit) {
            say(to, capacity, used, ", ...");
            return;
        }
        say(to, capacity, used, begun ? ", %u" : "%u", i);
        if (last > i) say(to, capacity, used, "..%u", last);
        begun = true;
        i = last;
    }
}

static void report_deadlock(Block* block) {
    char text[4096];
    size_t used = 0;
    say(text, sizeof(text), &used,
        "divergent barrier: no thread of the block can go on\n  in kernel %s, block (%u, %u, %u), %u threads, %u ended",
        block->launch->kernel->name, block->index.x, block->index.y, block->index.z, block->threads,
        block->threads - block->live);
    int groups = 0;
    for (unsigned int i = 0; i < block->threads; ++i) {
        Fiber* const fiber = block->fibers[i];
        if (fiber->state != WAITING) continue;
        unsigned int count = 0;
        bool told = false, line_told = false;
        for (unsigned int j = 0; j < block->threads; ++j) {
            const Fiber* const other = block->fibers[j];
            line_told = line_told || (j < i && other->state == WAITING && other->wait == fiber->wait &&
                                      other->line == fiber->line && other->column != fiber->column &&
                                      strcmp(other->file, fiber->file) == 0);
            if (other->state != WAITING || !same_place(fiber, other) || fiber->mask != other->mask) continue;
            told = told || j < i;
            ++count;
        }
        if (told) continue;
        if (++groups > 12) {
            say(text, sizeof(text), &used, "\n  ...");
            break;
        }
        say(text, sizeof(text), &used, "\n  %s:%d: %u %s in %s", fiber->file, fiber->line, count,
            count == 1 ? "thread waits" : "threads wait", NAMES[fiber->wait]);
        if (fiber->wait >= SYNC_WARP) say(text, sizeof(text), &used, "(mask 0x%08x)", fiber->mask);
        if (line_told) say(text, sizeof(text), &used, " (another call on this line)");
        say(text, sizeof(text), &used, ": ");
        say_threads(block, fiber, text, sizeof(text), &used);
    }
    stop(block->launch, text);
}

static uint64_t next_random(uint64_t* state) {  // splitmix64 (Steele, Lea and Flood 2014)
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static void shuffle_order(Worker* worker, unsigned int threads) {
    for (unsigned int i = threads; i > 1; --i) {
        const unsigned int j = static_cast<unsigned int>(next_random(&worker->random) % i);
        const unsigned int kept = worker->order[i - 1];
        worker->order[i - 1] = worker->order[j];
        worker->order[j] = kept;
    }
}

static void fiber_main() {
    Fiber* const self = running_fiber();
#ifdef SANITIZED
    __sanitizer_finish_switch_fiber(nullptr, &self->owner->worker->own_stack, &self->owner->worker->own_stack_size);
#endif
    Block* const block = self->owner;
    block->launch->kernel->call(block->launch->arguments);
    self->state = ENDED;
    --block->live;
    const unsigned int first = self->number - self->lane;
    for (unsigned int lane = 0; lane < WARP && first + lane < block->threads; ++lane) {
        const Fiber* const other = block->fibers[first + lane];
        if (other->state == WAITING && other->wait >= SYNC_WARP && (other->mask >> self->lane & 1)) {
            complete_warp(block, first, other->wait, other->mask);
        }
    }
    to_scheduler(self, true);
}

static void prepare_fibers(Worker* worker, Block* block) {
    const Launch* const launch = block->launch;
    for (unsigned int i = 0; i < block->threads; ++i) {
        Fiber* const fiber = worker->fibers[i];
#ifdef SANITIZED
        // What frames of the thread before left poisoned.
        __asan_unpoison_memory_region(stack_bottom(fiber), TOUCHGATE_STACK);
#endif
        memset(static_cast<void*>(fiber), 0, sizeof(*fiber));
        fiber->thread = uint3{i % launch->block.x, i / launch->block.x % launch->block.y,
                              i / (launch->block.x * launch->block.y)};
        fiber->block_index = block->index;
        fiber->block_size = launch->block;
        fiber->grid_size = launch->grid;
        fiber->shared = worker->shared;
        fiber->dynamic_shared = reinterpret_cast<unsigned char*>(worker->shared_end) - round_up(launch->shared, 16);
        fiber->lane = i % WARP;
        fiber->number = i;
        fiber->owner = block;
        fiber->state = READY;
        fiber->stack_pointer = first_frame(reinterpret_cast<char*>(fiber), fiber_main);
        worker->order[i] = i;
    }
}

// What a block finds in shared memory. The sanitizer keeps the gaps between arrays inaccessible, so to us as well.
static void poison_shared(Worker* worker, const Launch* launch) {
    for (unsigned int i = 0; i < *launch->module->place_count; ++i) {
        memset(launch->module->places[i].address(), POISON, launch->module->places[i].size);
    }
#ifdef SANITIZED
    for (unsigned int i = 0; i < *launch->module->slot_count; ++i) {
        memset(worker->shared + launch->module->slots[i].offset, POISON, launch->module->slots[i].size);
    }
    memset(worker->shared_end - round_up(launch->shared, 16), POISON, launch->shared);
#else
    static_cast<void>(launch);
    memset(worker->shared, POISON, static_cast<size_t>(worker->shared_end - reinterpret_cast<char*>(worker->shared)));
#endif
}

// Nothing tells that a kernel uses a variable outside of functions, but that it wrote to it.
static void count_places(Launch* launch) {
    for (unsigned int i = 0; i < *launch->module->place_count; ++i) {
        Place* const place = &launch->module->places[i];
        if (__atomic_load_n(&place->used, __ATOMIC_RELAXED)) continue;
        const unsigned char* const data = static_cast<const unsigned char*>(place->address());
        size_t same = 0;
        while (same < place->size && data[same] == POISON) ++same;
        if (same < place->size && !count_static(launch, &place->used, place->size)) return;
    }
}

static void run_block(Worker* worker, Launch* launch, uint64_t number) {
    Block block;
    block.launch = launch;
    block.worker = worker;
    block.fibers = worker->fibers;
    block.threads = block.live = launch->block.x * launch->block.y * launch->block.z;
    block.index = uint3{static_cast<unsigned int>(number % launch->grid.x),
                        static_cast<unsigned int>(number / launch->grid.x % launch->grid.y),
                        static_cast<unsigned int>(number / launch->grid.x / launch->grid.y)};
    poison_shared(worker, launch);
    prepare_fibers(worker, &block);
    if (launch->seed) {
        worker->random = launch->seed + number * 0x9e3779b97f4a7c15ull;
        shuffle_order(worker, block.threads);
    }
    if (sigsetjmp(worker->rescue, 1)) return;  // a signal ended the running fiber; the fault is recorded
    while (block.live) {
        bool progress = false;
        for (unsigned int i = 0; i < block.threads; ++i) {
            Fiber* const fiber = worker->fibers[worker->order[i]];
            if (fiber->state != READY) continue;
            progress = true;
            to_fiber(worker, fiber);
            if (stopped(launch)) return;
        }
        if (!block.live) count_places(launch);
        if (progress || !block.live) continue;
        if (!open_barrier(&block)) {
            report_deadlock(&block);
            return;
        }
        if (launch->seed) shuffle_order(worker, block.threads);
    }
}

// ---- memory of the workers

static bool prepare_stacks(Worker* worker, int threads) {
    if (worker->stacks >= threads) return true;
    const int wanted = threads - worker->stacks;
    char* const pages = reserve_pages((static_cast<size_t>(wanted) + 1) * TOUCHGATE_STACK, PROT_READ | PROT_WRITE);
    if (!pages) return false;
    char* stack = reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(pages), TOUCHGATE_STACK));
    for (int i = 0; i < wanted; ++i, stack += TOUCHGATE_STACK) {
        if (mprotect(stack, page(), PROT_NONE) != 0) return false;
        worker->fibers[worker->stacks++] = reinterpret_cast<Fiber*>(stack + TOUCHGATE_STACK) - 1;
    }
    return true;
}

// Dynamic shared memory ends where an inaccessible page begins (within 16 bytes); the static part lies before it.
static bool prepare_shared(Worker* worker, const Module* module, size_t dynamic) {
    const size_t fixed = *module->shared_size;
    const size_t needed = round_up(fixed, 128) + 128 + round_up(dynamic, 16);
#ifdef SANITIZED
    void* memory = nullptr;
    if (posix_memalign(&memory, 128, needed) != 0) return false;
    worker->shared_room = needed;
    worker->shared = static_cast<unsigned char*>(memory);
    worker->shared_end = static_cast<char*>(memory) + round_up(fixed, 128) + round_up(dynamic, 16);
    __asan_poison_memory_region(memory, needed);
    for (unsigned int i = 0; i < *module->slot_count; ++i) {
        __asan_unpoison_memory_region(worker->shared + module->slots[i].offset, module->slots[i].size);
    }
    __asan_unpoison_memory_region(worker->shared_end - round_up(dynamic, 16), dynamic);
    return true;
#else
    if (worker->shared_room < needed) {
        const size_t room = round_up(needed, page());
        if (worker->shared_end) munmap(worker->shared_end - worker->shared_room, worker->shared_room + page());
        worker->shared_room = 0;
        worker->shared_end = nullptr;
        char* const pages = reserve_pages(room + page(), PROT_READ | PROT_WRITE);
        if (!pages || mprotect(pages + room, page(), PROT_NONE) != 0) return false;
        worker->shared_room = room;
        worker->shared_end = pages + room;
    }
    const uintptr_t start = reinterpret_cast<uintptr_t>(worker->shared_end) - round_up(dynamic, 16) - fixed;
    worker->shared = reinterpret_cast<unsigned char*>(start & ~uintptr_t(127));
    return true;
#endif
}

static void release_shared(Worker* worker) {
#ifdef SANITIZED
    __asan_unpoison_memory_region(worker->shared, worker->shared_room);
    free(worker->shared);
    worker->shared = nullptr;
#else
    static_cast<void>(worker);
#endif
}

// ---- buffers: global memory

struct Buffer {
    char* start;
    size_t size;
    char* mapping;
    size_t mapped;
    Buffer* next;
};

static Buffer* buffers;
static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;
// Nothing else is mapped this close to a buffer, so that a wild index is seen too.
static const size_t GUARD = size_t(1) << 24;

// Which buffer an address is nearest to, in words.
static void say_address(char* to, size_t capacity, size_t* used, uintptr_t address) {
    for (const Buffer* buffer = buffers; buffer; buffer = buffer->next) {
        const uintptr_t start = reinterpret_cast<uintptr_t>(buffer->start);
        const uintptr_t mapping = reinterpret_cast<uintptr_t>(buffer->mapping);
        if (address < mapping || address >= mapping + buffer->mapped) continue;
        if (address < start) {
            say(to, capacity, used, ", %zu bytes before a buffer of %zu bytes", static_cast<size_t>(start - address),
                buffer->size);
        } else {
            say(to, capacity, used, ", byte %zu of a buffer of %zu bytes", static_cast<size_t>(address - start),
                buffer->size);
        }
        return;
    }
    if (address < 4096) say(to, capacity, used, ", a null pointer");
}

// ---- signals

static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static const size_t SIGNAL_COUNT = sizeof(SIGNALS) / sizeof(SIGNALS[0]);
static struct sigaction before[SIGNAL_COUNT];

static void on_signal(int number, siginfo_t* info, void*) {
    Worker* const worker = here;
    if (!worker || !worker->running) {
        // Not a kernel's: give the signal back to whoever had it; returning repeats it.
        for (size_t i = 0; i < SIGNAL_COUNT; ++i) {
            if (SIGNALS[i] == number) sigaction(number, &before[i], nullptr);
        }
        return;
    }
    Fiber* const fiber = worker->running;
    const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
    const uintptr_t bottom = reinterpret_cast<uintptr_t>(stack_bottom(fiber));
    char text[1024];
    size_t used = 0;
    if (number == SIGFPE) {
        say(text, sizeof(text), &used, "integer division by zero");
    } else if (number == SIGILL) {
        say(text, sizeof(text), &used, "illegal instruction");
    } else if (address >= bottom && address < bottom + page()) {
        say(text, sizeof(text), &used, "stack overflow: a thread has %zu KiB", TOUCHGATE_STACK / 1024);
#ifdef SI_KERNEL
    } else if (info->si_code == SI_KERNEL) {
        // x86 tells no address for an aligned vector instruction on an odd one.
        say(text, sizeof(text), &used, "misaligned or impossible address");
#endif
    } else {
        say(text, sizeof(text), &used, "illegal address 0x%zx", static_cast<size_t>(address));
        say_address(text, sizeof(text), &used, address);
    }
    say(text, sizeof(text), &used, "\n  in ");
    say_where(text, sizeof(text), &used, fiber);
    stop(worker->launch, text);
    worker->running = nullptr;
    siglongjmp(worker->rescue, 1);
}

static void catch_signals() {
#ifndef SANITIZED
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < SIGNAL_COUNT; ++i) sigaction(SIGNALS[i], &action, &before[i]);
#endif
}

static void restore_signals() {
#ifndef SANITIZED
    for (size_t i = 0; i < SIGNAL_COUNT; ++i) sigaction(SIGNALS[i], &before[i], nullptr);
#endif
}

// ---- a launch

static void* work(void* argument) {
    Worker* const worker = static_cast<Worker*>(argument);
    Launch* const launch = worker->launch;
    here = worker;
#ifndef SANITIZED
    const size_t room = 64 * 1024;
    if (!worker->signal_stack) worker->signal_stack = static_cast<char*>(malloc(room));
    stack_t stack;
    memset(&stack, 0, sizeof(stack));
    stack.ss_sp = worker->signal_stack;
    stack.ss_size = room;
    sigaltstack(&stack, nullptr);
#endif
    while (!stopped(launch)) {
        const uint64_t number = __atomic_fetch_add(&launch->next, 1, __ATOMIC_RELAXED);
        if (number >= launch->blocks) break;
        run_block(worker, launch, (launch->start + number * launch->step) % launch->blocks);
    }
#ifndef SANITIZED
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
#endif
    here = nullptr;
    return nullptr;
}

static const Api API = {api_block_wait, api_warp_wait, api_pause, api_fault, api_use};
static pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER;

static bool launchable(Launch* launch) {
    const dim3 g = launch->grid, b = launch->block;
    const uint64_t threads = uint64_t(b.x) * b.y * b.z;
    char text[256];
    size_t used = 0;
    if (!g.x || !g.y || !g.z || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) {
        say(text, sizeof(text), &used, "invalid grid (%u, %u, %u): 1..2147483647, 1..65535, 1..65535", g.x, g.y, g.z);
    } else if (!threads || b.x > 1024 || b.y > 1024 || b.z > 64 || threads > MOST_THREADS) {
        say(text, sizeof(text), &used, "invalid block (%u, %u, %u): at most 1024, 1024, 64 and 1024 threads", b.x, b.y, b.z);
    } else if (launch->kernel->max_threads && threads > static_cast<uint64_t>(launch->kernel->max_threads)) {
        say(text, sizeof(text), &used, "a block of %u threads, but __launch_bounds__ says %d",
            static_cast<unsigned int>(threads), launch->kernel->max_threads);
    } else if (launch->shared > MOST_SHARED) {
        say(text, sizeof(text), &used, "%zu bytes of dynamic shared memory, more than %zu", launch->shared, MOST_SHARED);
    } else {
        return true;
    }
    say(text, sizeof(text), &used, "\n  in kernel %s", launch->kernel->name);
    stop(launch, text);
    return false;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) { return b ? common_divisor(b, a % b) : a; }

static void order_blocks(Launch* launch) {
    launch->blocks = uint64_t(launch->grid.x) * launch->grid.y * launch->grid.z;
    launch->step = 1;
    launch->start = 0;
    if (!launch->seed || launch->blocks >= (uint64_t(1) << 31)) return;
    uint64_t random = launch->seed;
    launch->start = next_random(&random) % launch->blocks;
    do {
        launch->step = next_random(&random) % launch->blocks;
    } while (common_divisor(launch->step, launch->blocks) != 1);
}

static void run(Launch* launch, int count) {
    const int threads = static_cast<int>(launch->block.x * launch->block.y * launch->block.z);
    // A stack costs two mappings, and Linux gives a process 65530.
    const int affordable = 12000 / threads;
    count = count < 1 ? 1 : count;
    count = count > MOST_WORKERS ? MOST_WORKERS : count;
    count = count > affordable && affordable > 0 ? affordable : count;
    if (static_cast<uint64_t>(count) > launch->blocks) count = static_cast<int>(launch->blocks);
    int started = 0;
    catch_signals();
    for (; started < count; ++started) {
        Worker* const worker = &workers[started];
        worker->launch = launch;
        if (!prepare_stacks(worker, threads) || !prepare_shared(worker, launch->module, launch->shared) ||
            pthread_create(&worker->thread, nullptr, work, worker) != 0) {
            if (!started) stop(launch, "no memory for the block's threads");
            break;
        }
    }
    for (int i = 0; i < started; ++i) {
        pthread_join(workers[i].thread, nullptr);
        release_shared(&workers[i]);
    }
    restore_signals();
    fflush(stdout);
}

}  // namespace touchgate

// ---- what Python calls

// 0, or 1 with the reason in `message`. `workers`: how many blocks may run at once.
EXPORT int touchgate_launch(const touchgate::Module* module, int kernel, const unsigned int* grid,
                            const unsigned int* block, size_t shared, void** arguments, uint64_t seed, int workers,
                            char* message, size_t capacity) {
    using namespace touchgate;
    pthread_mutex_lock(&launch_lock);
    Launch launch;
    memset(static_cast<void*>(&launch), 0, sizeof(launch));
    launch.kernel = &module->kernels[kernel];
    launch.module = module;
    launch.arguments = arguments;
    launch.grid = dim3(grid[0], grid[1], grid[2]);
    launch.block = dim3(block[0], block[1], block[2]);
    launch.shared = shared;
    launch.seed = seed;
    launch.message = message;
    launch.capacity = capacity;
    pthread_mutex_init(&launch.lock, nullptr);
    *module->api = &API;
    for (unsigned int i = 0; i < *module->slot_count; ++i) module->slots[i].used = 0;
    for (unsigned int i = 0; i < *module->place_count; ++i) module->places[i].used = 0;
    if (launchable(&launch)) {
        order_blocks(&launch);
        run(&launch, workers);
    }
    pthread_mutex_destroy(&launch.lock);
    pthread_mutex_unlock(&launch_lock);
    return launch.stopped;
}

// `size` bytes of global memory, all bits set; null where there is no memory. The end touches an inaccessible page, but
// for what the alignment of 256 bytes leaves over.
EXPORT void* touchgate_allocate(size_t size) {
    using namespace touchgate;
    Buffer* const buffer = static_cast<Buffer*>(calloc(1, sizeof(Buffer)));
    if (!buffer) return nullptr;
    buffer->size = size;
#ifdef SANITIZED
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, size) != 0) {
        free(buffer);
        return nullptr;
    }
    buffer->start = static_cast<char*>(memory);
#else
    const size_t inside = round_up(size ? size : 1, page());
    buffer->mapped = inside + 2 * GUARD;
    buffer->mapping = reserve_pages(buffer->mapped, PROT_NONE);
    if (!buffer->mapping || mprotect(buffer->mapping + GUARD, inside, PROT_READ | PROT_WRITE) != 0) {
        if (buffer->mapping) munmap(buffer->mapping, buffer->mapped);
        free(buffer);
        return nullptr;
    }
    char* const end = buffer->mapping + GUARD + inside;
    buffer->start = end - round_up(size ? size : 1, 256);
    memset(buffer->mapping + GUARD, CANARY, static_cast<size_t>(buffer->start - (buffer->mapping + GUARD)));
    memset(buffer->start + size, CANARY, static_cast<size_t>(end - (buffer->start + size)));
#endif
    memset(buffer->start, POISON, size);
    pthread_mutex_lock(&buffers_lock);
    buffer->next = buffers;
    buffers = buffer;
    pthread_mutex_unlock(&buffers_lock);
    return buffer->start;
}

EXPORT void touchgate_release(void* start) {
    using namespace touchgate;
    pthread_mutex_lock(&buffers_lock);
    Buffer** link = &buffers;
    while (*link && (*link)->start != start) link = &(*link)->next;
    Buffer* const buffer = *link;
    if (buffer) *link = buffer->next;
    pthread_mutex_unlock(&buffers_lock);
    if (!buffer) return;
#ifdef SANITIZED
    free(buffer->start);
#else
    munmap(buffer->mapping, buffer->mapped);
#endif
    free(buffer);
}

// 0, or 1 with the reason in `message`: a byte just outside of a buffer was overwritten. The canaries are then set anew.
EXPORT int touchgate_check(char* message, size_t capacity) {
    using namespace touchgate;
    int found = 0;
#ifndef SANITIZED
    pthread_mutex_lock(&buffers_lock);
    for (Buffer* buffer = buffers; buffer; buffer = buffer->next) {
        char* const first = buffer->mapping + GUARD;
        char* const end = buffer->mapping + buffer->mapped - GUARD;
        for (char* at = first; at < end; ++at) {
            if (at == buffer->start) at += buffer->size;
            if (at >= end) break;
            if (static_cast<unsigned char>(*at) == CANARY) continue;
            if (!found) {
                const long distance = static_cast<long>(at - buffer->start);
                snprintf(message, capacity, "write out of bounds: byte %ld of a buffer of %zu bytes", distance,
                         buffer->size);
            }
            found = 1;
            *at = static_cast<char>(CANARY);
        }
    }
    pthread_mutex_unlock(&buffers_lock);
#else
    static_cast<void>(message);
    static_cast<void>(capacity);
#endif
    return found;
}
