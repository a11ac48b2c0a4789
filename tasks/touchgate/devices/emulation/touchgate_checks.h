// What the compiler's alignment and array bounds checks call: they end the launch and name the place.
//
// The build asks for -fsanitize=alignment,bounds,integer-divide-by-zero without the sanitizer's library, so these handlers are all there is. The
// layout of the descriptions is that of LLVM's ubsan_handlers.h, which GCC shares.
#ifndef TOUCHGATE_CHECKS_H
#define TOUCHGATE_CHECKS_H

#include "touchgate_emulation.h"

namespace touchgate {

struct SourcePlace {
    const char* file;
    uint32_t line, column;
};
struct TypeName {
    uint16_t kind, info;
    char name[1];
};
struct Mismatch {
    SourcePlace place;
    const TypeName* type;
    unsigned char log_alignment, access;
};
struct Division {
    SourcePlace place;
    const TypeName* type;
};
struct OutOfBounds {
    SourcePlace place;
    const TypeName* array;
    const TypeName* index;
};

static void misaligned(const void* data, uintptr_t address) {
    const Mismatch* const found = static_cast<const Mismatch*>(data);
    char text[256];
    snprintf(text, sizeof(text), "misaligned address 0x%zx: %s needs a multiple of %d bytes", static_cast<size_t>(address),
             found->type->name, 1 << found->log_alignment);
    fault(found->place.file, static_cast<int>(found->place.line), text);
}

static void out_of_bounds(const void* data, uintptr_t index) {
    const OutOfBounds* const found = static_cast<const OutOfBounds*>(data);
    char text[256];
    snprintf(text, sizeof(text), "index %lld out of bounds of %s", static_cast<long long>(index), found->array->name);
    fault(found->place.file, static_cast<int>(found->place.line), text);
}

// Processors that do not trap on it (all but x86) give 0.
static void divided_by_zero(const void* data) {
    const Division* const found = static_cast<const Division*>(data);
    fault(found->place.file, static_cast<int>(found->place.line), "integer division by zero");
}

}  // namespace touchgate

extern "C" {
void __ubsan_handle_type_mismatch_v1(void* data, uintptr_t address) { touchgate::misaligned(data, address); }
void __ubsan_handle_type_mismatch_v1_abort(void* data, uintptr_t address) { touchgate::misaligned(data, address); }
void __ubsan_handle_divrem_overflow(void* data, uintptr_t, uintptr_t) { touchgate::divided_by_zero(data); }
void __ubsan_handle_divrem_overflow_abort(void* data, uintptr_t, uintptr_t) { touchgate::divided_by_zero(data); }
void __ubsan_handle_out_of_bounds(void* data, uintptr_t index) { touchgate::out_of_bounds(data, index); }
void __ubsan_handle_out_of_bounds_abort(void* data, uintptr_t index) { touchgate::out_of_bounds(data, index); }
}

#endif
