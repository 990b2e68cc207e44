/* The CUDA execution model on a CPU: read before CUDA source that is compiled for the host.
 *
 * A launch runs blocks [first, last) of its grid on one thread of the pool, one block after the other. Threads of a block
 * are fibers with stacks of their own, which switch at barriers and warp operations only; a kernel that has neither runs as
 * plain loops over threadIdx, which the compiler may vectorise. Shared memory is thread-local storage of the pool's thread.
 *
 * `__global__` functions are rewritten to take threadIdx, blockIdx, blockDim and gridDim as parameters, so that loops are
 * transparent to the compiler; `__device__` functions see variables of these names.
 */
#ifndef OMNIKERNEL_CUDA_CPU_H
#define OMNIKERNEL_CUDA_CPU_H

#define OK_CUDA_ON_CPU 1
#include "omnikernel.h"

#include <limits.h>
#include <stdlib.h>

#if OK_CHECKED
#include "omnikernel_watch.h"
#endif

#if defined(__clang__)
#define OK_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define OK_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define __global__ static inline __attribute__((always_inline))
#define __device__
#define __host__
#define __constant__
#define __shared__ static __thread
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __CUDACC__ 1
#define __CUDA_ARCH__ 800
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.1415926535897931

/* ---- vector types ---- */

#define OK_VECTORS(T, NAME, A2, A4)                                                                                     \
    struct NAME##1 { T x; };                                                                                            \
    struct __attribute__((aligned(A2))) NAME##2 { T x, y; };                                                            \
    struct NAME##3 { T x, y, z; };                                                                                      \
    struct __attribute__((aligned(A4))) NAME##4 { T x, y, z, w; };                                                      \
    OK_FN NAME##1 make_##NAME##1(T x) { return {x}; }                                                                   \
    OK_FN NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                                                           \
    OK_FN NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }                                                   \
    OK_FN NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
OK_VECTORS(signed char, char, 2, 4)
OK_VECTORS(unsigned char, uchar, 2, 4)
OK_VECTORS(short, short, 4, 8)
OK_VECTORS(unsigned short, ushort, 4, 8)
OK_VECTORS(int, int, 8, 16)
OK_VECTORS(unsigned, uint, 8, 16)
OK_VECTORS(long, long, 16, 16)
OK_VECTORS(unsigned long, ulong, 16, 16)
OK_VECTORS(long long, longlong, 16, 16)
OK_VECTORS(unsigned long long, ulonglong, 16, 16)
OK_VECTORS(float, float, 8, 16)
OK_VECTORS(double, double, 16, 16)

struct dim3 {
    unsigned x, y, z;
    OK_FN constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
    OK_FN constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    OK_FN operator uint3() const { return {x, y, z}; }
};
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
static const int warpSize = 32;

/* For __device__ functions; kernels have parameters of the same names. Static and never passed by address, so that no
 * store through a pointer is thought to change them. */
static __thread uint3 threadIdx __attribute__((unused));
static __thread uint3 blockIdx __attribute__((unused));
static __thread uint3 blockDim __attribute__((unused));
static __thread uint3 gridDim __attribute__((unused));

/* Every `extern __shared__` array is this one; it has as many bytes as a GPU would give at most. */
#define OK_DYNAMIC_SHARED_BYTES 232448
extern "C" {
__attribute__((weak, visibility("hidden"), aligned(1024))) __thread char ok_dynamic_shared[OK_DYNAMIC_SHARED_BYTES];
}

/* ---- launches and fibers ---- */

namespace ok {
namespace detail {

template <class T> OK_FN T (&dynamic_shared())[OK_DYNAMIC_SHARED_BYTES / sizeof(T)] {
    return *(T(*)[OK_DYNAMIC_SHARED_BYTES / sizeof(T)])(void *)ok_dynamic_shared;
}

/* block * size + thread. A grid of at most 2^20 blocks has less than 2^31 threads along an axis; computed as an int, which
 * does not wrap, that is known to compilers. */
OK_FN unsigned position(unsigned block, unsigned size, unsigned thread, unsigned grid) {
    return grid <= 0x100000 ? (unsigned)((int)block * (int)size + (int)thread) : block * size + thread;
}

struct Launch {
    unsigned block[3];
    unsigned grid[3];
    unsigned shared_bytes;
    const char *kernel;
};

enum State : unsigned char { RUNNABLE = 1, AT_BARRIER, IN_WARP, DONE };
enum BarrierKind : unsigned char { PLAIN, COUNT, AND, OR };
enum WarpOp : unsigned char {
    SYNC, SHFL, SHFL_UP, SHFL_DOWN, SHFL_XOR, BALLOT, ANY, ALL, ACTIVE, MATCH_ANY, MATCH_ALL,
    ADD, MIN, MAX, UMIN, UMAX, BIT_AND, BIT_OR, BIT_XOR
};

struct Fiber {
    void *sp;
    uint3 index;
    unsigned mask;
    unsigned char op; /* WarpOp or BarrierKind */
    int argument, width;
    uint64_t value, result;
    const char *file;
    int line;
    uint64_t *canary;
};

struct Block {
    const Launch *launch;
    Fiber *fibers;
    unsigned char *states;
    int count, alive, current;
    void *main_sp;
    void (*body)(const void *context, uint3 thread);
    const void *context;
    bool failed;
    Error error;
};

#if OK_CHECKED
#define OK_WATCHED(...) __VA_ARGS__
#define OK_UNWATCHED __attribute__((no_sanitize("thread", "bounds")))
#else
#define OK_WATCHED(...)
#define OK_UNWATCHED
#endif

static __thread Block *block __attribute__((unused)); /* the block whose fibers run on this thread; null in plain loops */

extern "C" void ok_switch(void **save, void *load) __attribute__((visibility("hidden")));
#if defined(__x86_64__)
__asm__(".pushsection .text\n.weak ok_switch\n.hidden ok_switch\n.type ok_switch,@function\nok_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n.size ok_switch,.-ok_switch\n.popsection\n");
#define OK_SAVED_WORDS 6
#elif defined(__aarch64__)
__asm__(".pushsection .text\n.weak ok_switch\n.hidden ok_switch\n.type ok_switch,%function\nok_switch:\n"
        "sub sp,sp,#160\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
        "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\n"
        "stp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\nldp x27,x28,[sp,#64]\n"
        "ldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
        "add sp,sp,#160\nret\n.size ok_switch,.-ok_switch\n.popsection\n");
#else
#error "CUDA source runs on the CPU of x86-64 and aarch64 hosts only"
#endif

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __asan_unpoison_memory_region(void const volatile *, size_t);
extern "C" void __sanitizer_start_switch_fiber(void **, const void *, size_t);
extern "C" void __sanitizer_finish_switch_fiber(void *, const void **, size_t *);
static __thread const void *host_stack;
static __thread size_t host_stack_size;
#define OK_SANITIZED(...) __VA_ARGS__
#else
#define OK_SANITIZED(...)
#endif

#ifndef OK_STACK_BYTES
#define OK_STACK_BYTES 65536
#endif
enum : uint64_t { CANARY = 0x6f6d6e696b65726eull };

OK_UNWATCHED __attribute__((noinline)) static void switch_to(Block *b, void **save, int next) {
    OK_SANITIZED(void *fake; __sanitizer_start_switch_fiber(
                     &fake, next < 0 ? host_stack : (const void *)b->fibers[next].canary, next < 0 ? host_stack_size : OK_STACK_BYTES));
    if (next >= 0) {
        b->current = next;
        threadIdx = b->fibers[next].index;
        OK_WATCHED(ok_watching.thread = next);
        ok_switch(save, b->fibers[next].sp);
    } else {
        OK_WATCHED(ok_watching.thread = -1);
        ok_switch(save, b->main_sp);
    }
    OK_SANITIZED(__sanitizer_finish_switch_fiber(fake, nullptr, nullptr));
}

OK_UNWATCHED __attribute__((cold, noinline)) static void set_error(Block *b, const Error &error) {
    if (!b->failed) b->error = error;
    b->failed = true;
}

OK_UNWATCHED static const char *name_of(const Fiber &f, bool warp) {
    static const char *const warps[] = {"__syncwarp", "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync",
        "__shfl_xor_sync", "__ballot_sync", "__any_sync", "__all_sync", "__activemask", "__match_any_sync",
        "__match_all_sync", "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_min_sync",
        "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync"};
    static const char *const barriers[] = {"__syncthreads", "__syncthreads_count", "__syncthreads_and",
        "__syncthreads_or"};
    return warp ? warps[f.op] : barriers[f.op];
}

/* The result of a warp operation for one lane. `peers` holds the fibers of the warp, `group` the lanes that take part. */
OK_UNWATCHED static uint64_t warp_result(Fiber *peers, unsigned group, int lane) {
    Fiber &f = peers[lane];
    int width = f.width, low = lane & ~(width - 1), source = lane;
    uint64_t found = 0;
    switch (f.op) {
    case SYNC: return 0;
    case SHFL: source = low + (f.argument & (width - 1)); break;
    case SHFL_UP: source = lane - f.argument < low ? lane : lane - f.argument; break;
    case SHFL_DOWN: source = lane + f.argument >= low + width ? lane : lane + f.argument; break;
    case SHFL_XOR: source = (lane ^ f.argument) >= low + width ? lane : lane ^ f.argument; break;
    case ACTIVE: return group;
    case MATCH_ALL: {
        for (int i = 0; i < 32; i++)
            if ((group >> i & 1) && peers[i].value != f.value) return 0;
        return group;
    }
    default:
        for (int i = 0, first = 1; i < 32; i++) {
            if (!(group >> i & 1)) continue;
            uint64_t v = peers[i].value;
            switch (f.op) {
            case BALLOT: found |= (uint64_t)(v != 0) << i; break;
            case ANY: found |= v != 0; break;
            case ALL: found = first ? v != 0 : found & (v != 0); break;
            case MATCH_ANY: found |= (uint64_t)(v == f.value) << i; break;
            case ADD: found = (unsigned)(found + v); break;
            case MIN: found = first || (int)v < (int)found ? v : found; break;
            case MAX: found = first || (int)v > (int)found ? v : found; break;
            case UMIN: found = first || (unsigned)v < (unsigned)found ? v : found; break;
            case UMAX: found = first || (unsigned)v > (unsigned)found ? v : found; break;
            case BIT_AND: found = first ? v : found & v; break;
            case BIT_OR: found |= v; break;
            case BIT_XOR: found ^= v; break;
            }
            first = 0;
        }
        return found;
    }
    if (source != lane && !(group >> source & 1)) {
        if (OK_CHECKED) fail("%s:%d: %s: lane %d reads lane %d, which does not take part (mask 0x%08x)", f.file, f.line,
                             name_of(f, true), lane, source, f.mask);
        return f.value; /* undefined on a GPU too */
    }
    return peers[source].value;
}

/* Lets the lanes of one warp go on where all that an operation waits for are there; whether any could. */
OK_UNWATCHED static bool resolve_warp(Block *b, int warp) {
    Fiber *peers = b->fibers + warp * 32;
    unsigned char *states = b->states + warp * 32;
    int lanes = b->count - warp * 32 < 32 ? b->count - warp * 32 : 32;
    unsigned waiting = 0, gone = lanes < 32 ? ~0u << lanes : 0, exited = 0;
    for (int i = 0; i < lanes; i++) {
        waiting |= (unsigned)(states[i] == IN_WARP) << i;
        exited |= (unsigned)(states[i] == DONE) << i;
    }
    bool progress = false;
    for (unsigned left = waiting; left;) {
        int lane = __builtin_ctz(left);
        Fiber &f = peers[lane];
        unsigned group = 0;
        if (f.op == ACTIVE) {
            for (int i = 0; i < lanes; i++)
                if ((waiting >> i & 1) && peers[i].op == ACTIVE && peers[i].line == f.line) group |= 1u << i;
        } else {
            if (!(f.mask >> lane & 1))
                fail("%s:%d: %s: lane %d calls with mask 0x%08x, which does not name it", f.file, f.line, name_of(f, true),
                     lane, f.mask);
            group = f.mask & ~gone & ~exited;
            if (OK_CHECKED && (f.mask & exited))
                fail("%s:%d: %s: the mask 0x%08x names lanes that have returned (0x%08x)", f.file, f.line,
                     name_of(f, true), f.mask, f.mask & exited);
            bool complete = (group & ~waiting) == 0;
            for (int i = 0; i < lanes && complete; i++) {
                if (!(group >> i & 1)) continue;
                Fiber &p = peers[i];
                if (p.op == ACTIVE || p.mask != f.mask) complete = false;
                else if (p.op != f.op || (OK_CHECKED && (p.line != f.line || strcmp(p.file, f.file))))
                    fail("%s:%d: %s: divergent warp: lane %d is there, lane %d is in %s at %s:%d", f.file, f.line,
                         name_of(f, true), lane, i, name_of(p, true), p.file, p.line);
            }
            if (!complete) {
                left &= left - 1;
                continue;
            }
        }
        for (int i = 0; i < lanes; i++)
            if (group >> i & 1) peers[i].result = warp_result(peers, group, i);
        for (int i = 0; i < lanes; i++)
            if (group >> i & 1) states[i] = RUNNABLE;
        OK_WATCHED(if (f.op == SYNC) ok_watching.warp_epochs[warp]++);
        left &= ~group;
        progress = true;
    }
    return progress;
}

/* All that are left wait: let a warp operation or the block's barrier go on, or report that nothing ever will. */
OK_UNWATCHED static void resolve(Block *b) {
    bool progress = false;
    int barrier = -1, warp_wait = -1, waiting = 0;
    for (int w = 0; w * 32 < b->count; w++) progress |= resolve_warp(b, w);
    if (progress) return;
    for (int i = 0; i < b->count; i++) {
        if (b->states[i] == AT_BARRIER) {
            waiting++;
            if (barrier < 0) barrier = i;
        } else if (b->states[i] == IN_WARP && warp_wait < 0) {
            warp_wait = i;
        }
    }
    if (warp_wait >= 0) {
        Fiber &f = b->fibers[warp_wait];
        if (barrier < 0)
            fail("%s:%d: %s: divergent warp: thread %d waits for lanes of mask 0x%08x that never come", f.file, f.line,
                 name_of(f, true), warp_wait, f.mask);
        Fiber &g = b->fibers[barrier];
        fail("%s:%d: %s: divergent: thread %d waits there for lanes of mask 0x%08x, but thread %d waits at %s (%s:%d)",
             f.file, f.line, name_of(f, true), warp_wait, f.mask, barrier, name_of(g, false), g.file, g.line);
    }
    Fiber &f = b->fibers[barrier];
    if (OK_CHECKED && waiting < b->count)
        fail("%s:%d: %s: divergent barrier: %d of the block's %d threads have returned", f.file, f.line, name_of(f, false),
             b->count - waiting, b->count);
    uint64_t total = 0;
    for (int i = 0; i < b->count; i++) {
        if (b->states[i] != AT_BARRIER) continue;
        Fiber &g = b->fibers[i];
        if (g.op != f.op || (OK_CHECKED && (g.line != f.line || strcmp(g.file, f.file))))
            fail("%s:%d: %s: divergent barrier: thread %d is there, thread %d is at %s (%s:%d)", f.file, f.line,
                 name_of(f, false), barrier, i, name_of(g, false), g.file, g.line);
        total += g.value != 0;
    }
    uint64_t result = f.op == COUNT ? total : f.op == AND ? total == (uint64_t)waiting : total != 0;
    for (int i = 0; i < b->count; i++) {
        if (b->states[i] != AT_BARRIER) continue;
        b->fibers[i].result = result;
        b->states[i] = RUNNABLE;
    }
    OK_WATCHED(ok_watching.epoch++);

}

#if OK_CHECKED
/* Ends the block with what omnikernel_watch.cpp found. */
OK_UNWATCHED __attribute__((noinline)) static void leave_block(Block *b) {
    Error error;
    snprintf(error.text, sizeof error.text, "%s", ok_watching.text);
    set_error(b, error);
    switch_to(b, &b->fibers[b->current].sp, -1);
}
#endif

/* Seen when the thread next switches, before another whose stack it may have overwritten runs. */
OK_UNWATCHED __attribute__((cold, noinline)) static void overflowed(Block *b) {
    Error error;
    snprintf(error.text, sizeof error.text,
             "the stack of a thread (%d bytes) overflowed; pass stack_bytes= for larger local arrays", OK_STACK_BYTES);
    set_error(b, error);
    switch_to(b, &b->fibers[b->current].sp, -1);
}

/* Runs another fiber, or the same again, until the state of this one is runnable. */
OK_UNWATCHED static void reschedule(Block *b) {
    int me = b->current;
    OK_WATCHED(if (ok_watching.failed) leave_block(b));
    if (*b->fibers[me].canary != CANARY) overflowed(b);
    for (;;) {
        const void *found = me + 1 < b->count ? memchr(b->states + me + 1, RUNNABLE, (size_t)(b->count - me - 1)) : nullptr;
        if (!found) found = memchr(b->states, RUNNABLE, (size_t)me + 1);
        if (found) {
            int next = (int)((const unsigned char *)found - b->states);
            if (next != me) switch_to(b, &b->fibers[me].sp, next);
            return;
        }
        if (b->alive == 0) break;
        try {
            resolve(b);
        } catch (const Error &error) {
            set_error(b, error);
            break;
        }
    }
    switch_to(b, &b->fibers[me].sp, -1);
}

OK_UNWATCHED static void fiber_main() {
    Block *b = block;
    OK_SANITIZED(__sanitizer_finish_switch_fiber(nullptr, b->current == 0 ? &host_stack : nullptr,
                                                 b->current == 0 ? &host_stack_size : nullptr));
    int me = b->current;
    try {
        b->body(b->context, b->fibers[me].index);
    } catch (const Error &error) {
        set_error(b, error);
    } catch (const std::exception &error) {
        Error copy;
        snprintf(copy.text, sizeof copy.text, "%s", error.what());
        set_error(b, copy);
    }
    b->states[me] = DONE;
    b->alive--;
    OK_WATCHED(if (ok_watching.failed) leave_block(b));
    if (b->failed) switch_to(b, &b->fibers[me].sp, -1);
    reschedule(b);
    __builtin_unreachable();
}

/* Scratch of a fiber; the launch gives that of one more than the block has threads. */
constexpr size_t fiber_bytes = sizeof(Fiber) + 1 + OK_STACK_BYTES;

OK_UNWATCHED __attribute__((unused)) static void run_fibers(Block *b, char *arena) {
    const Launch &launch = *b->launch;
    int n = (int)(launch.block[0] * launch.block[1] * launch.block[2]);
    b->count = b->alive = n;
    b->failed = false;
    char *stacks = arena + OK_STACK_BYTES; /* what is below is for the first stack to overflow into, until that is seen */
    b->fibers = (Fiber *)(stacks + (size_t)n * OK_STACK_BYTES);
    b->states = (unsigned char *)(b->fibers + n);
    for (int i = 0; i < n; i++) {
        Fiber &f = b->fibers[i];
        f.canary = (uint64_t *)(stacks + (size_t)i * OK_STACK_BYTES);
        OK_SANITIZED(__asan_unpoison_memory_region(f.canary, OK_STACK_BYTES));
        *f.canary = CANARY;
        f.index = {(unsigned)i % launch.block[0], (unsigned)i / launch.block[0] % launch.block[1],
                   (unsigned)i / (launch.block[0] * launch.block[1])};
        /* Every stack begins at another line of the cache: a power of two between them would share one set. */
        uintptr_t top = (uintptr_t)f.canary + OK_STACK_BYTES - 64 * (1 + (size_t)i * 7 % 32);
        void **sp = (void **)top;
#if defined(__x86_64__)
        *--sp = nullptr; /* the return address of fiber_main, which does not return */
        *--sp = (void *)&fiber_main;
        for (int k = 0; k < OK_SAVED_WORDS; k++) *--sp = nullptr;
#else
        sp -= 20;
        memset((void *)sp, 0, 160);
        sp[11] = (void *)&fiber_main; /* x30 */
#endif
        f.sp = sp;
    }
    memset(b->states, RUNNABLE, (size_t)n);
    block = b;
    OK_WATCHED(ok_watch_block(launch.shared_bytes, OK_DYNAMIC_SHARED_BYTES));
    switch_to(b, &b->main_sp, 0);
    block = nullptr;
    if (b->failed) throw b->error;
}

OK_UNWATCHED __attribute__((noinline)) static void barrier_wait(unsigned char kind, uint64_t value, const char *file, int line) {
    Block *b = block;
    if (!b) fail("%s:%d: a barrier in a kernel that was thought to have none; report this", file, line);
    Fiber &f = b->fibers[b->current];
    f.op = kind;
    f.value = value;
    f.file = file;
    f.line = line;
    b->states[b->current] = AT_BARRIER;
    reschedule(b);
}

OK_UNWATCHED __attribute__((noinline)) static uint64_t warp_wait(unsigned char op, unsigned mask, uint64_t value, int argument,
                                                    int width, const char *file, int line) {
    Block *b = block;
    if (!b) fail("%s:%d: a warp operation in a kernel that was thought to have none; report this", file, line);
    Fiber &f = b->fibers[b->current];
    f.op = op;
    f.mask = mask;
    f.value = value;
    f.argument = argument;
    f.width = width;
    f.file = file;
    f.line = line;
    b->states[b->current] = IN_WARP;
    reschedule(b);
    return f.result;
}

OK_FN uint64_t barrier_result(unsigned char kind, uint64_t value, const char *file, int line) {
    Block *b = block;
    int me = b ? b->current : 0;
    barrier_wait(kind, value, file, line);
    return b->fibers[me].result;
}

/* Blocks [first, last) of the launch; 1 and the block's place in `fault` where one failed. */
template <class F>
OK_FN int32_t run_blocks(const int32_t *grid, int64_t first, int64_t last, uint64_t report_to, int32_t *fault, const F &one) {
    unsigned gx = (unsigned)grid[0], gy = (unsigned)grid[1];
    uint3 at = {(unsigned)(first % gx), (unsigned)(first / gx % gy), (unsigned)(first / gx / gy)};
    for (int64_t program = first; program < last; program++) {
        blockIdx = at;
        try {
            one(at);
        } catch (const std::exception &error) {
            block = nullptr;
            for (int d = 0; d < 3; d++) fault[d] = (int32_t)(d == 0 ? at.x : d == 1 ? at.y : at.z);
            report(report_to, program, error.what());
            return 1;
        }
        if (++at.x == gx) {
            at.x = 0;
            if (++at.y == gy) at.y = 0, at.z++;
        }
    }
    return 0;
}

} /* namespace detail */
} /* namespace ok */

#if OK_CHECKED
extern "C" __attribute__((weak, visibility("hidden"))) OK_UNWATCHED void ok_leave_block(void) {
    ok::detail::leave_block(ok::detail::block);
}
#endif

#include "omnikernel_cuda_functions.h"
#include "omnikernel_cuda_halves.h"

#endif
