/* What a kernel sees of its arrays: ok::View<T, N>, sizes and strides in elements; and ok::parallel_for on the CPU.
 *
 * The one header that a kernel includes. It compiles as C++17 on the host, as CUDA source on the host (then
 * omnikernel_cuda_cpu.h is read first) and as CUDA source for a GPU, by NVRTC or nvcc.
 *
 *   OK_INDEX_BITS  32 or 64: the type of sizes, strides and offsets; chosen by the launch, always 64 on the CPU
 *   OK_CHECKED     1: every index of a view is checked, and a bad one reported with file and line
 */
#ifndef OMNIKERNEL_H
#define OMNIKERNEL_H

#if defined(__CUDACC_RTC__) || (defined(__CUDACC__) && !defined(OK_CUDA_ON_CPU))
#define OK_ON_GPU 1
#else
#define OK_ON_GPU 0
#endif

#if defined(__CUDACC_RTC__)
#define OK_FN __device__ __forceinline__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t; /* as CUDA's own <cuda/std/cstdint> has it here */
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
typedef long long intptr_t;
typedef long ptrdiff_t;
#ifndef INFINITY /* there is no <math.h> for NVRTC */
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define M_PI 3.14159265358979323846
#endif
#ifndef INT_MAX /* nor <limits.h>; spelled as <cuda/std/climits> does, so that both may be read */
#define CHAR_BIT 8
#define INT_MIN (-INT_MAX - 1)
#define INT_MAX 0x7fffffff
#define UINT_MAX 0xffffffff
#define LLONG_MIN (-LLONG_MAX - 1LL)
#define LLONG_MAX 0x7fffffffffffffffLL
#define ULLONG_MAX 0xffffffffffffffffUL
#endif
#ifndef FLT_MAX /* nor <float.h> */
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#endif
#elif OK_ON_GPU
#define OK_FN __host__ __device__ __forceinline__
#include <stddef.h>
#include <stdint.h>
#else
#define OK_FN inline __attribute__((always_inline))
#include <exception>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#endif

#ifndef OK_INDEX_BITS
#define OK_INDEX_BITS 64
#endif
#ifndef OK_CHECKED
#define OK_CHECKED 0
#endif

#include "omnikernel_floats.h"

namespace ok {

#if OK_INDEX_BITS == 32
typedef int32_t index_t;
#else
typedef int64_t index_t;
#endif

struct Shared {};   /* the memory may be that of another parameter too; the default */
struct Restrict {}; /* the memory is reached through this view alone, as with __restrict__; the launch checks it */

#if !OK_ON_GPU
/* The mistake that ends a call; its text becomes that of the Python exception. */
struct Error : std::exception {
    char text[900];
    const char *what() const noexcept override { return text; }
};

[[noreturn]] __attribute__((cold, noinline, format(printf, 1, 2))) inline void fail(const char *format, ...) {
    Error error;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error.text, sizeof error.text, format, arguments);
    va_end(arguments);
    throw error;
}
#define OK_CHECK(condition, ...) ((condition) ? (void)0 : ::ok::fail(__VA_ARGS__))
#endif

namespace detail {

#if OK_CHECKED
/* An index that knows where in the source it was written. */
struct Index {
    index_t value;
    const char *file;
    int line;
    template <class I>
    OK_FN Index(I i, const char *f = __builtin_FILE(), int l = __builtin_LINE()) : value((index_t)i), file(f), line(l) {}
};
#if OK_ON_GPU
OK_FN void out_of_bounds(const Index &i, index_t size, const char *, int axis) {
    printf("%s:%d: index %lld is out of bounds for axis %d of size %lld\n", i.file, i.line, (long long)i.value, axis,
           (long long)size);
    __trap();
}
#else
[[noreturn]] __attribute__((cold, noinline)) inline void out_of_bounds(const Index &i, index_t size, const char *name,
                                                                       int axis) {
    fail("%s:%d: index %lld is out of bounds for axis %d of %s, whose size is %lld", i.file, i.line, (long long)i.value,
         axis, name, (long long)size);
}
#endif
OK_FN index_t checked(const Index &i, index_t size, const char *name, int axis) {
    if (i.value < 0 || i.value >= size) out_of_bounds(i, size, name, axis);
    return i.value;
}
#define OK_AT(index, size, axis) ::ok::detail::checked(index, size, name_, axis)
#else
typedef index_t Index;
#define OK_AT(index, size, axis) (index)
#endif

template <class T, class Kind> struct Pointer { typedef T *type; };
template <class T> struct Pointer<T, Restrict> { typedef T *__restrict__ type; };

/* What x[i] of a view of two or more dimensions is. */
template <class T, int N> struct Row {
    T *data;
    const index_t *sizes;
    const index_t *strides;
    const char *name_;
    int axis;
    OK_FN Row<T, N - 1> operator[](Index i) const {
        return {data + OK_AT(i, sizes[0], axis) * strides[0], sizes + 1, strides + 1, name_, axis + 1};
    }
};
template <class T> struct Row<T, 1> {
    T *data;
    const index_t *sizes;
    const index_t *strides;
    const char *name_;
    int axis;
    OK_FN T &operator[](Index i) const { return data[OK_AT(i, sizes[0], axis) * strides[0]]; }
};

} /* namespace detail */

/* An array of T with N dimensions, by reference: copying a view copies no elements. T may be const. */
template <class T, int N, class Kind = Shared> struct View {
    static_assert(N >= 1, "a view has at least one dimension");
    typedef T value_type;

    typename detail::Pointer<T, Kind>::type data_;
    index_t sizes_[N];
    index_t strides_[N];
#if OK_CHECKED
    const char *name_;
#endif

    static OK_FN constexpr int rank() { return N; }
    OK_FN T *data() const { return data_; }
    OK_FN index_t size(int axis) const { return sizes_[axis]; }
    OK_FN index_t stride(int axis) const { return strides_[axis]; }
    OK_FN index_t numel() const {
        index_t n = 1;
        for (int d = 0; d < N; d++) n *= sizes_[d];
        return n;
    }
    OK_FN bool is_contiguous() const {
        index_t step = 1;
        for (int d = N - 1; d >= 0; d--) {
            if (sizes_[d] != 1 && strides_[d] != step) return false;
            step *= sizes_[d];
        }
        return true;
    }

    OK_FN decltype(auto) operator[](detail::Index i) const {
        if constexpr (N == 1) {
            return (data_[OK_AT(i, sizes_[0], 0) * strides_[0]]);
        } else {
            return detail::Row<T, N - 1>{data_ + OK_AT(i, sizes_[0], 0) * strides_[0], sizes_ + 1, strides_ + 1, name(),
                                         1};
        }
    }

    template <class... Rest> OK_FN T &operator()(detail::Index first, Rest... rest) const {
        static_assert(1 + sizeof...(Rest) == N, "as many indices as dimensions");
        return at(data_, 0, first, rest...);
    }

  private:
    OK_FN const char *name() const {
#if OK_CHECKED
        return name_;
#else
        return nullptr;
#endif
    }
    OK_FN T &at(T *p, int axis, detail::Index i) const { return p[OK_AT(i, sizes_[axis], axis) * strides_[axis]]; }
    template <class... Rest> OK_FN T &at(T *p, int axis, detail::Index i, detail::Index next, Rest... rest) const {
        return at(p + OK_AT(i, sizes_[axis], axis) * strides_[axis], axis + 1, next, rest...);
    }
};

#if !OK_ON_GPU
namespace detail {

typedef int32_t (*Entry)(const uint64_t *, const int32_t *, int64_t, int64_t, void *, void *);
/* Runs `entry` over [0, chunks) on the pool of the process; set when the library is loaded. */
typedef void (*Pool)(Entry entry, const uint64_t *arguments, int64_t chunks);
inline Pool pool = nullptr;

/* Where a launch keeps its first error: that of the lowest block. Made by Python, null where nobody asks. */
struct Report {
    int64_t program;
    char lock;
    char text[1015];
};
__attribute__((cold, noinline, no_sanitize("thread"))) inline void report(uint64_t address, int64_t program, const char *text) {
    Report *r = (Report *)(uintptr_t)address;
    if (!r) return;
    while (__atomic_test_and_set(&r->lock, __ATOMIC_ACQUIRE)) {}
    if (program < r->program) {
        r->program = program;
        snprintf(r->text, sizeof r->text, "%s", text);
    }
    __atomic_clear(&r->lock, __ATOMIC_RELEASE);
}

/* How a launch passes its arguments: 64-bit slots. A view has its address, sizes and strides, anything else one slot. */
template <class T> OK_FN T scalar(const uint64_t *slot) {
    T value;
    memcpy(&value, slot, sizeof value);
    return value;
}
/* `Unit`: the caller knows that the last stride is 1, and lets the compiler know. */
template <class T, int N, class Kind, bool Unit> OK_FN View<T, N, Kind> view(const uint64_t *slots, const char *name) {
    View<T, N, Kind> v;
    v.data_ = (T *)(uintptr_t)slots[0];
    for (int d = 0; d < N; d++) {
        v.sizes_[d] = (index_t)slots[1 + d];
        v.strides_[d] = Unit && d == N - 1 ? 1 : (index_t)slots[1 + N + d];
    }
#if OK_CHECKED
    v.name_ = name;
#else
    (void)name;
#endif
    return v;
}

template <class F> struct Work {
    const F *body;
    int64_t begin, end, grain;
    int failed; /* guarded by the lock */
    char lock;
    char text[900];

    __attribute__((noinline, no_sanitize("thread"))) void note(const char *what) {
        while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) {}
        if (!failed) snprintf(text, sizeof text, "%s", what);
        failed = 1;
        __atomic_clear(&lock, __ATOMIC_RELEASE);
    }
    static int32_t run(const uint64_t *arguments, const int32_t *, int64_t first, int64_t last, void *, void *) {
        Work &work = *(Work *)(uintptr_t)arguments[0];
        int64_t low = work.begin + first * work.grain, high = work.begin + last * work.grain;
        try {
            (*work.body)(low, high < work.end ? high : work.end);
        } catch (const std::exception &error) {
            work.note(error.what());
        } catch (...) {
            work.note("an exception that is no std::exception");
        }
        return 0;
    }
};

} /* namespace detail */

/* Calls body(low, high) for ranges that make up [begin, end), on the threads of omnikernel's pool. A range has at least
 * `grain` elements but for the last; an exception in a body is thrown again here. */
template <class F> inline void parallel_for(int64_t begin, int64_t end, int64_t grain, const F &body) {
    if (end <= begin) return;
    if (grain < 1) grain = 1;
    int64_t least = (end - begin + (1 << 20) - 1) >> 20; /* the pool counts chunks in 32 bits */
    if (grain < least) grain = least;
    if (end - begin <= grain || !detail::pool) {
        body(begin, end);
        return;
    }
    detail::Work<F> work = {&body, begin, end, grain, 0, 0, {0}};
    uint64_t argument = (uint64_t)(uintptr_t)&work;
    detail::pool(&detail::Work<F>::run, &argument, (end - begin + grain - 1) / grain);
    if (work.failed) fail("%s", work.text);
}

/* Calls body(i) for every i in [0, n). */
template <class F> inline void parallel_for(int64_t n, const F &body) {
    parallel_for(0, n, 4096, [&body](int64_t low, int64_t high) {
        for (int64_t i = low; i < high; i++) body(i);
    });
}
#endif

} /* namespace ok */

#endif
