/* Triton kernels that `omnikernel build` made, called from C or C++.
 *
 * A package's wheel has a shared object a kernel and processor level: PACKAGE/_omnikernel/LEVEL/MODULE.KERNEL.so, which needs
 * nothing but the C library. Open it with dlopen; it has a table of the forms that were built. This header needs nothing else.
 *
 *     void *library = dlopen(".../x86-64-v3/kernels.rms_norm.so", RTLD_NOW);
 *     const ok_shipped_kernel *kernel = ok_shipped_find(library, "*fp32, *fp32, *fp32, i32, fp32", "BLOCK=1024");
 *     uint64_t slots[] = {ok_pointer(x), ok_pointer(weight), ok_pointer(out), ok_int(n), ok_float(1e-6f)};
 *     int status = ok_shipped_run(kernel, slots, rows, 1, 1);
 */
#ifndef OMNIKERNEL_SHIPPED_H
#define OMNIKERNEL_SHIPPED_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OK_SHIPPED_ABI 1
#define OK_SHIPPED_NO_MEMORY (-1)

/* Runs the programs first <= p < last of a grid in this thread: p counts x fastest, or another axis where no program can see what
 * another does, so a grid is whole when every p from 0 to x * y * z has been run once, in whatever ranges. `slots`: see below. `arena`:
 * scratch memory for this thread alone, aligned to 64 bytes. Different ranges may run in different threads at once. The result
 * is 0, or the number of the tl.device_assert that failed, with the program's x, y, z in fault[0..2]. */
typedef int32_t (*ok_shipped_entry)(const uint64_t *slots, const int32_t grid[3], int64_t first, int64_t last, void *arena,
                                    int32_t fault[3]);

/* One form of a kernel. */
typedef struct {
    const char *name;      /* the kernel */
    const char *signature; /* types of the slots in order, as Triton writes them: "*fp32, i32" */
    const char *constants; /* values of the constants: "BLOCK=1024" */
    ok_shipped_entry disjoint; /* for arrays of which none that is written shares memory with another */
    ok_shipped_entry any;      /* for arrays that may; slower */
    uint64_t disjoint_arena_bytes;
    uint64_t any_arena_bytes;
    uint64_t slots; /* how many */
} ok_shipped_kernel;

/* What goes into a slot, 8 bytes each: an address, an integer extended to 64 bits, the bits of a float in the low bytes. */
static inline uint64_t ok_pointer(const void *address) { return (uint64_t)(uintptr_t)address; }
static inline uint64_t ok_int(int64_t value) { return (uint64_t)value; }
static inline uint64_t ok_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline uint64_t ok_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The form with this signature and these constants ("" for a kernel without); NULL where the library has none, is no library of
 * prebuilt kernels, or one of another ABI. */
static inline const ok_shipped_kernel *ok_shipped_find(void *library, const char *signature, const char *constants) {
    const uint32_t *abi = (const uint32_t *)dlsym(library, "ok_shipped_abi");
    const uint32_t *count = (const uint32_t *)dlsym(library, "ok_shipped_count");
    const ok_shipped_kernel *table = (const ok_shipped_kernel *)dlsym(library, "ok_shipped_kernels");
    if (!abi || !count || !table || *abi != OK_SHIPPED_ABI) return NULL;
    for (uint32_t i = 0; i < *count; i++)
        if (strcmp(table[i].signature, signature) == 0 && strcmp(table[i].constants, constants) == 0) return &table[i];
    return NULL;
}

/* Run a whole grid in this thread, on arrays of which none that is written shares memory with another. The result is that of the
 * entry, or OK_SHIPPED_NO_MEMORY. */
static inline int32_t ok_shipped_run(const ok_shipped_kernel *kernel, const uint64_t *slots, int32_t x, int32_t y, int32_t z) {
    const int32_t grid[3] = {x, y, z};
    int32_t fault[3] = {0, 0, 0};
    uint64_t bytes = (kernel->disjoint_arena_bytes + 127) / 64 * 64;
    void *arena = aligned_alloc(64, bytes);
    if (!arena) return OK_SHIPPED_NO_MEMORY;
    int32_t status = kernel->disjoint(slots, grid, 0, (int64_t)x * y * z, arena, fault);
    free(arena);
    return status;
}

/* The best processor level of this machine, as the folders are named. */
static inline const char *ok_shipped_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return "x86-64";
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11 /* others do not know these names */
    if (!__builtin_cpu_supports("f16c") || !__builtin_cpu_supports("lzcnt") || !__builtin_cpu_supports("movbe")) return "x86-64";
#endif
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "x86-64-v4";
    return "x86-64-v3";
#else
    return "aarch64";
#endif
}

#endif
