/* CUDA's device functions on the CPU: barriers, warp operations, atomics, integer and math functions.
 *
 * Fast variants (__expf, __fdividef ...) are the accurate ones here. Part of omnikernel_cuda_cpu.h.
 */
#ifndef OMNIKERNEL_CUDA_FUNCTIONS_H
#define OMNIKERNEL_CUDA_FUNCTIONS_H

#define OK_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define OK_MATH static inline __attribute__((always_inline, unused))

#if OK_CHECKED /* out of line, so that the accesses inside are not taken for those of the kernel */
#define OK_ATOMIC_FN OK_UNWATCHED __attribute__((noinline, unused)) static
#else
#define OK_ATOMIC_FN OK_MATH
#endif

/* ---- barriers and fences ---- */

OK_MATH void __syncthreads(OK_SITE) { ok::detail::barrier_wait(ok::detail::PLAIN, 0, file, line); }
OK_MATH int __syncthreads_count(int p, OK_SITE) { return (int)ok::detail::barrier_result(ok::detail::COUNT, p != 0, file, line); }
OK_MATH int __syncthreads_and(int p, OK_SITE) { return (int)ok::detail::barrier_result(ok::detail::AND, p != 0, file, line); }
OK_MATH int __syncthreads_or(int p, OK_SITE) { return (int)ok::detail::barrier_result(ok::detail::OR, p != 0, file, line); }
OK_MATH void __syncwarp(unsigned mask = 0xffffffffu, OK_SITE) {
    ok::detail::warp_wait(ok::detail::SYNC, mask, 0, 0, 32, file, line);
}
OK_MATH void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
OK_MATH void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
OK_MATH void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
OK_MATH void __nanosleep(unsigned) {}
[[noreturn]] OK_MATH void __trap(OK_SITE) { ok::fail("%s:%d: __trap()", file, line); }
OK_MATH void __brkpt() {}
OK_MATH long long clock64() {
#if defined(__x86_64__)
    return (long long)__builtin_ia32_rdtsc();
#else
    long long ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

/* ---- warp operations ---- */

namespace ok {
namespace detail {
template <size_t> struct Word;
template <> struct Word<1> { typedef uint8_t type; };
template <> struct Word<2> { typedef uint16_t type; };
template <> struct Word<4> { typedef uint32_t type; };
template <> struct Word<8> { typedef uint64_t type; };

/* The value as it is rounded, so that no later operation is fused with the one that made it. */
template <class T> OK_FN T opaque(T value) {
#if defined(__x86_64__)
    __asm__("" : "+x"(value));
#else
    __asm__("" : "+w"(value));
#endif
    return value;
}
/* a * b + c rounded to odd in f64: one more rounding, to f16 or bf16, is as if it were the only one. */
OK_FN double fused(float a, float b, float c) {
    double product = (double)a * b, sum = product + c;
    double back = sum - product, error = (product - (sum - back)) + ((double)c - back);
    uint64_t bits;
    memcpy(&bits, &sum, 8);
    if (error == 0 || error != error || (bits & 1) || sum - sum != 0) return sum;
    bits += (error > 0) == (sum > 0) ? 1 : -1;
    memcpy(&sum, &bits, 8);
    return sum;
}
template <class T> OK_FN T shuffle(unsigned char op, unsigned mask, T value, int argument, int width, const char *file, int line) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = warp_wait(op, mask, bits, argument, width, file, line);
    memcpy(&value, &bits, sizeof(T));
    return value;
}
} /* namespace detail */
} /* namespace ok */

template <class T> OK_FN T __shfl_sync(unsigned mask, T value, int lane, int width = 32, OK_SITE) {
    return ok::detail::shuffle(ok::detail::SHFL, mask, value, lane, width, file, line);
}
template <class T> OK_FN T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, OK_SITE) {
    return ok::detail::shuffle(ok::detail::SHFL_UP, mask, value, (int)delta, width, file, line);
}
template <class T> OK_FN T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, OK_SITE) {
    return ok::detail::shuffle(ok::detail::SHFL_DOWN, mask, value, (int)delta, width, file, line);
}
template <class T> OK_FN T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, OK_SITE) {
    return ok::detail::shuffle(ok::detail::SHFL_XOR, mask, value, lanes, width, file, line);
}
#define OK_WARP(TYPE, NAME, OP, VALUE)                                                                                  \
    OK_MATH TYPE NAME(unsigned mask, VALUE value, OK_SITE) {                                                            \
        return (TYPE)ok::detail::warp_wait(ok::detail::OP, mask, (uint64_t)value, 0, 32, file, line);                  \
    }
OK_WARP(unsigned, __ballot_sync, BALLOT, int)
OK_WARP(int, __any_sync, ANY, int)
OK_WARP(int, __all_sync, ALL, int)
OK_WARP(unsigned, __reduce_add_sync, ADD, unsigned)
OK_WARP(int, __reduce_add_sync, ADD, int)
OK_WARP(unsigned, __reduce_min_sync, UMIN, unsigned)
OK_WARP(int, __reduce_min_sync, MIN, int)
OK_WARP(unsigned, __reduce_max_sync, UMAX, unsigned)
OK_WARP(int, __reduce_max_sync, MAX, int)
OK_WARP(unsigned, __reduce_and_sync, BIT_AND, unsigned)
OK_WARP(unsigned, __reduce_or_sync, BIT_OR, unsigned)
OK_WARP(unsigned, __reduce_xor_sync, BIT_XOR, unsigned)
OK_MATH unsigned __activemask(OK_SITE) {
    return (unsigned)ok::detail::warp_wait(ok::detail::ACTIVE, 0, 0, 0, 32, file, line);
}
template <class T> OK_FN unsigned __match_any_sync(unsigned mask, T value, OK_SITE) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return (unsigned)ok::detail::warp_wait(ok::detail::MATCH_ANY, mask, bits, 0, 32, file, line);
}
template <class T> OK_FN unsigned __match_all_sync(unsigned mask, T value, int *all, OK_SITE) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    unsigned found = (unsigned)ok::detail::warp_wait(ok::detail::MATCH_ALL, mask, bits, 0, 32, file, line);
    *all = found != 0;
    return found;
}

/* ---- atomics: relaxed, as CUDA's are ---- */

namespace ok {
namespace detail {
template <class T, class F> OK_UNWATCHED __attribute__((noinline)) static T update(T *address, const F &next) {
    typename Word<sizeof(T)>::type old, wanted, *word = (typename Word<sizeof(T)>::type *)address;
    old = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (;;) {
        T value;
        memcpy(&value, &old, sizeof(T));
        T changed = next(value);
        memcpy(&wanted, &changed, sizeof(T));
        if (__atomic_compare_exchange_n(word, &old, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return value;
    }
}
} /* namespace detail */
} /* namespace ok */

#define OK_ATOMIC(NAME, T, RESULT)                                                                                      \
    OK_ATOMIC_FN T NAME(T *address, T value) { return RESULT; }                                                              \
    OK_ATOMIC_FN T NAME##_block(T *address, T value) { return RESULT; }                                                      \
    OK_ATOMIC_FN T NAME##_system(T *address, T value) { return RESULT; }
#define OK_FETCH(OP) __atomic_fetch_##OP(address, value, __ATOMIC_RELAXED)
#define OK_UPDATE(T, EXPRESSION) ok::detail::update(address, [value](T old) -> T { return EXPRESSION; })
#define OK_EACH(M, NAME, RESULT) M(NAME, int, RESULT) M(NAME, unsigned, RESULT) M(NAME, unsigned long long, RESULT) M(NAME, long long, RESULT)
OK_EACH(OK_ATOMIC, atomicAdd, OK_FETCH(add))
OK_EACH(OK_ATOMIC, atomicAnd, OK_FETCH(and))
OK_EACH(OK_ATOMIC, atomicOr, OK_FETCH(or))
OK_EACH(OK_ATOMIC, atomicXor, OK_FETCH(xor))
OK_EACH(OK_ATOMIC, atomicExch, __atomic_exchange_n(address, value, __ATOMIC_RELAXED))
OK_ATOMIC(atomicSub, int, OK_FETCH(sub))
OK_ATOMIC(atomicSub, unsigned, OK_FETCH(sub))
#define OK_EXTREME(NAME, T, TEST) OK_ATOMIC(NAME, T, OK_UPDATE(T, old TEST value ? old : value))
OK_EXTREME(atomicMin, int, <)
OK_EXTREME(atomicMin, unsigned, <)
OK_EXTREME(atomicMin, long long, <)
OK_EXTREME(atomicMin, unsigned long long, <)
OK_EXTREME(atomicMax, int, >)
OK_EXTREME(atomicMax, unsigned, >)
OK_EXTREME(atomicMax, long long, >)
OK_EXTREME(atomicMax, unsigned long long, >)
OK_ATOMIC(atomicInc, unsigned, OK_UPDATE(unsigned, old >= value ? 0 : old + 1))
OK_ATOMIC(atomicDec, unsigned, OK_UPDATE(unsigned, old == 0 || old > value ? value : old - 1))
OK_ATOMIC(atomicAdd, float, OK_UPDATE(float, old + value))
OK_ATOMIC(atomicAdd, double, OK_UPDATE(double, old + value))
OK_ATOMIC(atomicExch, float, OK_UPDATE(float, ((void)old, value)))
#define OK_CAS(T)                                                                                                       \
    OK_ATOMIC_FN T atomicCAS(T *address, T compare, T value) {                                                               \
        __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);               \
        return compare;                                                                                                 \
    }
OK_CAS(int)
OK_CAS(unsigned)
OK_CAS(unsigned long long)
OK_CAS(unsigned short)
OK_MATH float2 atomicAdd(float2 *address, float2 value) { return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)}; }
OK_MATH float4 atomicAdd(float4 *address, float4 value) {
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y), atomicAdd(&address->z, value.z),
            atomicAdd(&address->w, value.w)};
}

/* ---- integers and bits ---- */

template <class A, class B> OK_FN auto min(A a, B b) -> decltype(a + b) {
    typedef decltype(a + b) T;
    if constexpr ((T)0.5 != (T)0) return ((T)a < (T)b || b != b) ? (T)a : (T)b; /* fmin: a NaN loses */
    else return (T)a < (T)b ? (T)a : (T)b;
}
template <class A, class B> OK_FN auto max(A a, B b) -> decltype(a + b) {
    typedef decltype(a + b) T;
    if constexpr ((T)0.5 != (T)0) return ((T)a > (T)b || b != b) ? (T)a : (T)b;
    else return (T)a > (T)b ? (T)a : (T)b;
}
OK_MATH int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
OK_MATH int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
OK_MATH int __popc(unsigned x) { return __builtin_popcount(x); }
OK_MATH int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
OK_MATH int __ffs(int x) { return __builtin_ffs(x); }
OK_MATH int __ffsll(long long x) { return __builtin_ffsll(x); }
OK_MATH unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
OK_MATH unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
OK_MATH unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    uint64_t both = (uint64_t)y << 32 | x;
    unsigned found = 0;
    for (int i = 0; i < 4; i++) {
        unsigned byte = (unsigned)(both >> 8 * (s >> 4 * i & 7)) & 0xff;
        if (s >> 4 * i & 8) byte = byte & 0x80 ? 0xff : 0;
        found |= byte << 8 * i;
    }
    return found;
}
OK_MATH int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
OK_MATH unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
OK_MATH long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
OK_MATH unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
OK_MATH int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
OK_MATH unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
OK_MATH unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
OK_MATH unsigned __sad(int a, int b, unsigned c) { return (unsigned)(a > b ? (long long)a - b : (long long)b - a) + c; }
OK_MATH unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
    return (unsigned)((((uint64_t)high << 32 | low) << (n & 31)) >> 32);
}
OK_MATH unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (n & 31));
}
OK_MATH int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
    return c;
}
OK_MATH unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (a >> 8 * i & 0xff) * (b >> 8 * i & 0xff);
    return c;
}
#define OK_BITS(NAME, FROM, TO)                                                                                         \
    OK_MATH TO NAME(FROM x) {                                                                                           \
        TO y;                                                                                                           \
        memcpy(&y, &x, sizeof y);                                                                                       \
        return y;                                                                                                       \
    }
OK_BITS(__float_as_int, float, int)
OK_BITS(__float_as_uint, float, unsigned)
OK_BITS(__int_as_float, int, float)
OK_BITS(__uint_as_float, unsigned, float)
OK_BITS(__double_as_longlong, double, long long)
OK_BITS(__longlong_as_double, long long, double)
OK_MATH int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
OK_MATH int __double2loint(double x) { return (int)__double_as_longlong(x); }
OK_MATH double __hiloint2double(int hi, int lo) { return __longlong_as_double((long long)((uint64_t)(unsigned)hi << 32 | (unsigned)lo)); }

/* Conversions saturate and take NaN to 0, as the GPU's do (to 0x80000000 for double to int: 0 is the documented choice). */
namespace ok {
namespace detail {
template <class I> OK_FN I saturate(double x, I low, I high) {
    if (x != x) return 0;
    if (x <= (double)low) return low;
    if (x >= (double)high) return high;
    return (I)x;
}
} /* namespace detail */
} /* namespace ok */
#define OK_ROUNDED(NAME, FROM, TO, LOW, HIGH)                                                                           \
    OK_MATH TO NAME##_rn(FROM x) { return ok::detail::saturate<TO>(nearbyint((double)x), LOW, HIGH); }                  \
    OK_MATH TO NAME##_rz(FROM x) { return ok::detail::saturate<TO>(trunc((double)x), LOW, HIGH); }                      \
    OK_MATH TO NAME##_ru(FROM x) { return ok::detail::saturate<TO>(ceil((double)x), LOW, HIGH); }                       \
    OK_MATH TO NAME##_rd(FROM x) { return ok::detail::saturate<TO>(floor((double)x), LOW, HIGH); }
OK_ROUNDED(__float2int, float, int, INT_MIN, INT_MAX)
OK_ROUNDED(__float2uint, float, unsigned, 0u, UINT_MAX)
OK_ROUNDED(__float2ll, float, long long, LLONG_MIN, LLONG_MAX)
OK_ROUNDED(__float2ull, float, unsigned long long, 0ull, ULLONG_MAX)
OK_ROUNDED(__double2int, double, int, INT_MIN, INT_MAX)
OK_ROUNDED(__double2uint, double, unsigned, 0u, UINT_MAX)
OK_ROUNDED(__double2ll, double, long long, LLONG_MIN, LLONG_MAX)
OK_MATH float __int2float_rn(int x) { return (float)x; }
OK_MATH float __uint2float_rn(unsigned x) { return (float)x; }
OK_MATH float __ll2float_rn(long long x) { return (float)x; }
OK_MATH double __int2double_rn(int x) { return x; }
OK_MATH double __ll2double_rn(long long x) { return (double)x; }
OK_MATH float __double2float_rn(double x) { return (float)x; }

/* ---- loads and stores with cache hints ---- */

#define OK_LOAD(NAME) template <class T> OK_FN T NAME(const T *p) { return *p; }
OK_LOAD(__ldg)
OK_LOAD(__ldca)
OK_LOAD(__ldcg)
OK_LOAD(__ldcs)
OK_LOAD(__ldlu)
OK_LOAD(__ldcv)
#define OK_STORE(NAME) template <class T, class V> OK_FN void NAME(T *p, V value) { *p = value; }
OK_STORE(__stwb)
OK_STORE(__stcg)
OK_STORE(__stcs)
OK_STORE(__stwt)

/* ---- math ---- */

/* glibc declares functions of these names, so CUDA's get names of their own. */
#define __expf ok_fast_expf
#define __exp10f ok_fast_exp10f
#define __logf ok_fast_logf
#define __log2f ok_fast_log2f
#define __log10f ok_fast_log10f
#define __sinf ok_fast_sinf
#define __cosf ok_fast_cosf
#define __tanf ok_fast_tanf
#define __powf ok_fast_powf
#define __sincosf ok_fast_sincosf

#define OK_ONE(NAME, EXPRESSION) OK_MATH float NAME(float x) { return EXPRESSION; }
#define OK_TWO(NAME, EXPRESSION) OK_MATH float NAME(float x, float y) { return EXPRESSION; }
OK_ONE(rsqrtf, 1.0f / sqrtf(x))
OK_ONE(__frsqrt_rn, (float)(1.0 / sqrt((double)x)))
OK_ONE(__expf, expf(x))
OK_ONE(__exp10f, (float)pow(10.0, (double)x))
OK_ONE(__logf, logf(x))
OK_ONE(__log2f, log2f(x))
OK_ONE(__log10f, log10f(x))
OK_ONE(__sinf, sinf(x))
OK_ONE(__cosf, cosf(x))
OK_ONE(__tanf, tanf(x))
OK_ONE(__saturatef, x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f)
OK_ONE(__frcp_rn, 1.0f / x)
OK_ONE(__fsqrt_rn, sqrtf(x))
OK_ONE(rcbrtf, (float)(1.0 / cbrt((double)x)))
OK_ONE(normcdff, (float)(0.5 * erfc(-(double)x * 0.70710678118654752440)))
OK_ONE(erfcxf, (float)(exp((double)x * x) * erfc((double)x)))
OK_ONE(sinpif, (float)sin(3.14159265358979323846 * remainder((double)x, 2.0)))
OK_ONE(cospif, (float)cos(3.14159265358979323846 * remainder((double)x, 2.0)))
OK_TWO(__powf, powf(x, y))
OK_TWO(__fdividef, x / y)
OK_TWO(__fadd_rn, x + y)
OK_TWO(__fsub_rn, x - y)
OK_TWO(__fmul_rn, ok::detail::opaque(x * y)) /* never fused with an addition */
OK_TWO(__fdiv_rn, x / y)
OK_TWO(fdividef, x / y)
OK_TWO(rhypotf, (float)(1.0 / hypot((double)x, (double)y)))
OK_MATH float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
OK_MATH float norm3df(float x, float y, float z) { return (float)sqrt((double)x * x + (double)y * y + (double)z * z); }
OK_MATH double rsqrt(double x) { return 1.0 / sqrt(x); }
OK_MATH float rsqrt(float x) { return 1.0f / sqrtf(x); }
OK_MATH double __dadd_rn(double x, double y) { return x + y; }
OK_MATH double __dmul_rn(double x, double y) { return ok::detail::opaque(x * y); }
OK_MATH double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
OK_MATH double __dsqrt_rn(double x) { return sqrt(x); }
OK_MATH double __drcp_rn(double x) { return 1.0 / x; }
OK_MATH double __ddiv_rn(double x, double y) { return x / y; }
OK_MATH double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
OK_MATH double sinpi(double x) { return sin(3.14159265358979323846 * remainder(x, 2.0)); }
OK_MATH double cospi(double x) { return cos(3.14159265358979323846 * remainder(x, 2.0)); }
OK_MATH void __sincosf(float x, float *s, float *c) { *s = sinf(x), *c = cosf(x); }
OK_MATH void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }

#undef assert
#define assert(condition)                                                                                               \
    ((condition) ? (void)0                                                                                              \
                 : ::ok::fail("%s:%d: assert failed: %s (thread %u, %u, %u)", __FILE__, __LINE__, #condition,           \
                              (unsigned)threadIdx.x, (unsigned)threadIdx.y, (unsigned)threadIdx.z))

#endif
