/* Checked builds of CUDA source: the other end of the calls that the compiler puts before every access to memory.
 *
 * The source is compiled with -fsanitize=thread and -fsanitize=bounds, but not linked with their libraries: what they call
 * is here. An access to shared memory is compared with earlier ones since the last barrier: two threads of a block, one of
 * them writing, with no barrier between (for threads of a warp, no __syncwarp) is a race. Atomics are none. An index
 * beyond an array's end, or beyond the dynamic shared memory of the launch, is reported too.
 *
 * This file is compiled without those flags. Shared memory is thread-local storage of this library, so an address is
 * shared if it lies in the calling thread's block of it.
 */
#include "omnikernel_watch.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT extern "C" __attribute__((visibility("hidden")))

extern "C" {
__attribute__((visibility("hidden"))) __thread ok_watch ok_watching;
extern __thread char ok_dynamic_shared[] __attribute__((visibility("hidden")));
}

namespace {

/* The last accesses to a byte. An epoch counts barriers, and warps count their own __syncwarp. */
struct Access {
    uint32_t epoch;
    uint16_t warp_epoch, thread; /* thread + 1; 0: none */
    uintptr_t place;
};
struct Shadow {
    Access write, read, other; /* `other`: a read by a second thread */
};

struct Region {
    uintptr_t low, high;
    Shadow *shadows;
};
__thread Region region;

int find(struct dl_phdr_info *info, size_t, void *) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_TLS || !info->dlpi_tls_data) continue;
        uintptr_t low = (uintptr_t)info->dlpi_tls_data, high = low + info->dlpi_phdr[i].p_memsz;
        if ((uintptr_t)&ok_watching >= low && (uintptr_t)&ok_watching < high) {
            region.low = low;
            region.high = high;
            return 1;
        }
    }
    return 0;
}

bool ordered(const Access &before, const ok_watch &now) {
    if (before.thread == 0 || before.epoch != now.epoch || before.thread - 1 == now.thread) return true;
    return (before.thread - 1) / 32 == now.thread / 32 && before.warp_epoch != now.warp_epochs[now.thread / 32];
}

__attribute__((noinline, cold)) void race(ok_watch &now, const char *mine, uintptr_t place, const char *theirs,
                                          const Access &before) {
    if (now.failed) return;
    now.failed = 1;
    snprintf(now.text, sizeof now.text,
             "race in shared memory: thread %d %s at {%#lx} what thread %d %s at {%#lx}, with no barrier between", now.thread,
             mine, (unsigned long)place, before.thread - 1, theirs, (unsigned long)before.place);
}

__attribute__((noinline)) void note(uintptr_t address, size_t size, bool writes, uintptr_t place) {
    ok_watch &now = ok_watching;
    uintptr_t dynamic = (uintptr_t)ok_dynamic_shared;
    if (address >= dynamic && address < dynamic + now.dynamic_capacity && address + size > dynamic + now.dynamic_bytes) {
        if (!now.failed)
            snprintf(now.text, sizeof now.text,
                     "byte %ld of dynamic shared memory is used at {%#lx}, but the launch gives %u bytes",
                     (long)(address + size - 1 - dynamic), (unsigned long)place, now.dynamic_bytes);
        now.failed = 1;
    }
    Access mine = {now.epoch, now.warp_epochs[now.thread / 32], (uint16_t)(now.thread + 1), place};
    for (size_t i = 0; i < size; i++) {
        Shadow &s = region.shadows[address - region.low + i];
        if (!ordered(s.write, now)) race(now, writes ? "writes" : "reads", place, "wrote", s.write);
        if (writes) {
            if (!ordered(s.read, now)) race(now, "writes", place, "read", s.read);
            else if (!ordered(s.other, now)) race(now, "writes", place, "read", s.other);
            s.write = mine;
        } else if (s.read.epoch != now.epoch || s.read.thread == mine.thread || ordered(s.read, now)) {
            s.read = mine;
        } else {
            s.other = mine;
        }
    }
}

inline void access(void *pointer, size_t size, bool writes, void *place) {
    uintptr_t address = (uintptr_t)pointer;
    if (ok_watching.thread < 0 || address < region.low || address + size > region.high) return;
    note(address, size, writes, (uintptr_t)place);
}

} /* namespace */

/* Called on the thread of the pool before a block runs. */
EXPORT void ok_watch_block(unsigned dynamic_bytes, unsigned dynamic_capacity) {
    if (!region.shadows) {
        ok_dynamic_shared[0] = ok_dynamic_shared[0]; /* makes the system allocate the thread's storage */
        dl_iterate_phdr(find, nullptr);
        region.shadows = (Shadow *)calloc(region.high - region.low, sizeof(Shadow));
        if (!region.shadows) region.low = region.high = 0;
    }
    ok_watching.epoch++;
    ok_watching.dynamic_bytes = dynamic_bytes;
    ok_watching.dynamic_capacity = dynamic_capacity;
    ok_watching.failed = 0;
}

#define SIZES(N)                                                                                                        \
    EXPORT void __tsan_read##N(void *p) { access(p, N, false, __builtin_return_address(0)); }                           \
    EXPORT void __tsan_write##N(void *p) { access(p, N, true, __builtin_return_address(0)); }                           \
    EXPORT void __tsan_volatile_read##N(void *p) { access(p, N, false, __builtin_return_address(0)); }                  \
    EXPORT void __tsan_volatile_write##N(void *p) { access(p, N, true, __builtin_return_address(0)); }                  \
    EXPORT void __tsan_unaligned_read##N(void *p) { access(p, N, false, __builtin_return_address(0)); }                 \
    EXPORT void __tsan_unaligned_write##N(void *p) { access(p, N, true, __builtin_return_address(0)); }
SIZES(1)
SIZES(2)
SIZES(4)
SIZES(8)
SIZES(16)
EXPORT void __tsan_read_range(void *p, size_t n) { access(p, n, false, __builtin_return_address(0)); }
EXPORT void __tsan_write_range(void *p, size_t n) { access(p, n, true, __builtin_return_address(0)); }
EXPORT void __tsan_vptr_update(void **, void *) {}
EXPORT void __tsan_vptr_read(void **) {}
EXPORT void __tsan_func_entry(void *) {}
EXPORT void __tsan_func_exit(void) {}
EXPORT void __tsan_init(void) {}
EXPORT void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
EXPORT void __tsan_atomic_signal_fence(int) {}

#define ATOMICS(BITS, T)                                                                                                \
    EXPORT T __tsan_atomic##BITS##_load(const volatile T *p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }      \
    EXPORT void __tsan_atomic##BITS##_store(volatile T *p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }      \
    EXPORT T __tsan_atomic##BITS##_exchange(volatile T *p, T v, int) {                                                  \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                             \
    }                                                                                                                   \
    EXPORT T __tsan_atomic##BITS##_fetch_add(volatile T *p, T v, int) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); } \
    EXPORT T __tsan_atomic##BITS##_fetch_sub(volatile T *p, T v, int) { return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST); } \
    EXPORT T __tsan_atomic##BITS##_fetch_and(volatile T *p, T v, int) { return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST); } \
    EXPORT T __tsan_atomic##BITS##_fetch_or(volatile T *p, T v, int) { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }   \
    EXPORT T __tsan_atomic##BITS##_fetch_xor(volatile T *p, T v, int) { return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST); } \
    EXPORT bool __tsan_atomic##BITS##_compare_exchange_strong(volatile T *p, T *e, T v, int, int) {                     \
        return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                         \
    }                                                                                                                   \
    EXPORT bool __tsan_atomic##BITS##_compare_exchange_weak(volatile T *p, T *e, T v, int, int) {                       \
        return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                         \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

/* -fsanitize=bounds: GCC's and clang's description of the place. */
struct SourceLocation {
    const char *file;
    uint32_t line, column;
};
struct OutOfBounds {
    SourceLocation where;
    const struct { uint16_t kind, info; char name[1]; } *array, *index;
};
EXPORT void ok_leave_block(void);

EXPORT void __ubsan_handle_out_of_bounds(OutOfBounds *about, uintptr_t index) {
    ok_watch &now = ok_watching;
    if (now.thread < 0) return; /* outside of a kernel nobody listens */
    now.failed = 1;
    snprintf(now.text, sizeof now.text, "%s:%u: index %ld is out of bounds for an array of type %s", about->where.file,
             about->where.line, (long)(int32_t)index == (long)index || (index >> 32) == 0 ? (long)(int32_t)index : (long)index,
             about->array->name);
    ok_leave_block(); /* the access itself must not happen */
}
EXPORT void __ubsan_handle_out_of_bounds_abort(OutOfBounds *about, uintptr_t index) {
    __ubsan_handle_out_of_bounds(about, index);
    abort();
}
