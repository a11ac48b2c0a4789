// A compiled .cu file with its runtime as a program of its own: what ctypes does for a library, over a pipe.
//
// For machines that are not the one Python runs on. A request is a line on standard input, perhaps with bytes behind it; the
// answer is a line on what was standard output, likewise. Numbers are text, so that neither side needs to know the other's
// byte order; bytes of buffers and arguments are this machine's own. What the kernels print goes to standard error.
//
//   describe                          -> order BITS: "little 64"; then per kernel: name, parameters (kind size)...; "end"
//   allocate SIZE                     -> ok ADDRESS
//   release ADDRESS                   -> ok
//   write ADDRESS SIZE  + bytes       -> ok
//   read ADDRESS SIZE                 -> ok  + bytes
//   launch KERNEL grid(3) block(3) SHARED SEED WORKERS COUNT, and for each argument: SIZE + bytes
//                                     -> ok NANOSECONDS, or: fault SIZE + text

#include "touchgate_interface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern "C" {
const touchgate::Module* touchgate_module();
int touchgate_launch(const touchgate::Module* module, int kernel, const unsigned int* grid, const unsigned int* block,
                     size_t shared, void** arguments, uint64_t seed, int workers, char* message, size_t capacity);
void* touchgate_allocate(size_t size);
void touchgate_release(void* start);
int touchgate_check(char* message, size_t capacity);
}

static FILE* answers;

static const int MOST_ARGUMENTS = 256;
static const size_t MOST_OF_ARGUMENT = 4096;
static const size_t MOST_OF_MESSAGE = 8192;

[[noreturn]] static void give_up(const char* what) {
    fprintf(stderr, "touchgate: %s\n", what);
    exit(3);
}

static unsigned long long number() {
    unsigned long long value = 0;
    if (scanf("%llu", &value) != 1) give_up("a request without a number");
    return value;
}

static void take(void* to, size_t size) {
    if (fread(to, 1, size, stdin) != size) give_up("a request that ends early");
}

static void* address() { return reinterpret_cast<void*>(static_cast<uintptr_t>(number())); }

static void describe() {
    const touchgate::Module* const module = touchgate_module();
    const uint16_t probe = 1;
    unsigned char first;
    memcpy(&first, &probe, 1);
    fprintf(answers, "%s %d\n", first ? "little" : "big", static_cast<int>(sizeof(void*) * 8));
    for (int i = 0; i < module->kernel_count; ++i) {
        const touchgate::Kernel& kernel = module->kernels[i];
        fprintf(answers, "%s", kernel.name);
        for (int j = 0; j < kernel.parameter_count; ++j) {
            fprintf(answers, " %c %d", kernel.parameters[j].kind, kernel.parameters[j].size);
        }
        fprintf(answers, "\n");
    }
    fprintf(answers, "end\n");
}

static void launch() {
    static char message[MOST_OF_MESSAGE];
    alignas(16) static unsigned char room[MOST_ARGUMENTS][MOST_OF_ARGUMENT];
    void* arguments[MOST_ARGUMENTS];
    const int kernel = static_cast<int>(number());
    unsigned int grid[3], block[3];
    for (unsigned int& one : grid) one = static_cast<unsigned int>(number());
    for (unsigned int& one : block) one = static_cast<unsigned int>(number());
    const size_t shared = static_cast<size_t>(number());
    const uint64_t seed = number();
    const int workers = static_cast<int>(number());
    const unsigned long long count = number();
    if (kernel >= touchgate_module()->kernel_count || count > MOST_ARGUMENTS) give_up("no such kernel");
    for (unsigned long long i = 0; i < count; ++i) {
        const size_t size = static_cast<size_t>(number());
        if (size > MOST_OF_ARGUMENT || getchar() != '\n') give_up("an argument is too large");
        take(room[i], size);
        arguments[i] = room[i];
    }
    timespec began, ended;
    message[0] = 0;
    clock_gettime(CLOCK_MONOTONIC, &began);
    int stopped = touchgate_launch(touchgate_module(), kernel, grid, block, shared, arguments, seed, workers, message,
                                   sizeof(message));
    clock_gettime(CLOCK_MONOTONIC, &ended);
    if (!stopped && touchgate_check(message, sizeof(message))) {
        stopped = 1;
        const size_t used = strlen(message);
        snprintf(message + used, sizeof(message) - used, "\n  after kernel %s", touchgate_module()->kernels[kernel].name);
    }
    if (stopped) {
        fprintf(answers, "fault %zu\n", strlen(message));
        fwrite(message, 1, strlen(message), answers);
    } else {
        const long long seconds = static_cast<long long>(ended.tv_sec) - static_cast<long long>(began.tv_sec);
        fprintf(answers, "ok %lld\n", seconds * 1000000000ll + (ended.tv_nsec - began.tv_nsec));
    }
}

int main() {
    answers = fdopen(dup(1), "wb");
    if (!answers || dup2(2, 1) < 0) give_up("no pipe to answer by");
    char word[16];
    while (scanf("%15s", word) == 1) {
        if (!strcmp(word, "describe")) {
            describe();
        } else if (!strcmp(word, "allocate")) {
            void* const start = touchgate_allocate(static_cast<size_t>(number()));
            fprintf(answers, "ok %llu\n", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(start)));
        } else if (!strcmp(word, "release")) {
            touchgate_release(address());
            fprintf(answers, "ok\n");
        } else if (!strcmp(word, "write")) {
            void* const to = address();
            const size_t size = static_cast<size_t>(number());
            if (getchar() != '\n') give_up("a request without bytes");
            take(to, size);
            fprintf(answers, "ok\n");
        } else if (!strcmp(word, "read")) {
            const void* const from = address();
            const size_t size = static_cast<size_t>(number());
            fprintf(answers, "ok\n");
            fwrite(from, 1, size, answers);
        } else if (!strcmp(word, "launch")) {
            launch();
        } else {
            give_up("a request that is none");
        }
        fflush(answers);
    }
    return 0;
}
