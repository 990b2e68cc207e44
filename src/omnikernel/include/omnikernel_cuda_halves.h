/* CUDA's half and bf16 types and functions on the CPU, each alone and in pairs. Part of omnikernel_cuda_cpu.h.
 *
 * A function rounds once, as CUDA's does; NaN loses in __hmax and __hmin, and a comparison with NaN is false (the ones
 * whose names end in `u` are true).
 */
#ifndef OMNIKERNEL_CUDA_HALVES_H
#define OMNIKERNEL_CUDA_HALVES_H

typedef ok::f16 __half;
typedef ok::f16 half;
typedef ok::bf16 __nv_bfloat16;
typedef ok::bf16 nv_bfloat16;
typedef ok::f8e4m3 __nv_fp8_e4m3;
typedef ok::f8e5m2 __nv_fp8_e5m2;

#define OK_PAIR(NAME, T)                                                                                                \
    struct __attribute__((aligned(4))) NAME {                                                                           \
        T x, y;                                                                                                         \
        NAME() = default;                                                                                               \
        OK_FN constexpr NAME(T a, T b) : x(a), y(b) {}                                                                  \
    };
OK_PAIR(__half2, __half)
OK_PAIR(__nv_bfloat162, __nv_bfloat16)
typedef __half2 half2;
typedef __nv_bfloat162 nv_bfloat162;
OK_MATH __half2 make_half2(__half x, __half y) { return {x, y}; }
OK_MATH __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }

OK_ATOMIC(atomicAdd, __half, OK_UPDATE(__half, old + value))
OK_ATOMIC(atomicAdd, __nv_bfloat16, OK_UPDATE(__nv_bfloat16, old + value))
OK_MATH __half2 atomicAdd(__half2 *p, __half2 v) { return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)}; }
OK_MATH __nv_bfloat162 atomicAdd(__nv_bfloat162 *p, __nv_bfloat162 v) { return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)}; }

/* NAME(a) of one value, and NAME2(a) of a pair. */
#define OK_H1(T, T2, NAME, NAME2, EXPRESSION)                                                                           \
    OK_MATH T NAME(T a) { return EXPRESSION; }                                                                          \
    OK_MATH T2 NAME2(T2 a) { return {NAME(a.x), NAME(a.y)}; }
#define OK_H2(T, T2, NAME, NAME2, EXPRESSION)                                                                           \
    OK_MATH T NAME(T a, T b) { return EXPRESSION; }                                                                     \
    OK_MATH T2 NAME2(T2 a, T2 b) { return {NAME(a.x, b.x), NAME(a.y, b.y)}; }
#define OK_H3(T, T2, NAME, NAME2, EXPRESSION)                                                                           \
    OK_MATH T NAME(T a, T b, T c) { return EXPRESSION; }                                                                \
    OK_MATH T2 NAME2(T2 a, T2 b, T2 c) { return {NAME(a.x, b.x, c.x), NAME(a.y, b.y, c.y)}; }
/* A comparison: of one value, of a pair to 1.0 and 0.0, of a pair at once, and each true where a value is NaN. */
#define OK_HCMP(T, T2, NAME, TEST)                                                                                      \
    OK_MATH bool __h##NAME(T a, T b) { return (float)a TEST(float) b && a == a && b == b; }                             \
    OK_MATH bool __h##NAME##u(T a, T b) { return (float)a TEST(float) b || a != a || b != b; }                          \
    OK_MATH T2 __h##NAME##2(T2 a, T2 b) { return {T(__h##NAME(a.x, b.x) ? 1.0f : 0.0f), T(__h##NAME(a.y, b.y) ? 1.0f : 0.0f)}; } \
    OK_MATH T2 __h##NAME##u2(T2 a, T2 b) { return {T(__h##NAME##u(a.x, b.x) ? 1.0f : 0.0f), T(__h##NAME##u(a.y, b.y) ? 1.0f : 0.0f)}; } \
    OK_MATH bool __hb##NAME##2(T2 a, T2 b) { return __h##NAME(a.x, b.x) && __h##NAME(a.y, b.y); }                       \
    OK_MATH bool __hb##NAME##u2(T2 a, T2 b) { return __h##NAME##u(a.x, b.x) && __h##NAME##u(a.y, b.y); }

#define OK_HALVES(T, T2)                                                                                                \
    OK_H2(T, T2, __hadd, __hadd2, a + b)                                                                                \
    OK_H2(T, T2, __hsub, __hsub2, a - b)                                                                                \
    OK_H2(T, T2, __hmul, __hmul2, a *b)                                                                                 \
    OK_H2(T, T2, __hdiv, __h2div, a / b)                                                                                \
    OK_H2(T, T2, __hadd_rn, __hadd2_rn, a + b)                                                                          \
    OK_H2(T, T2, __hsub_rn, __hsub2_rn, a - b)                                                                          \
    OK_H2(T, T2, __hmul_rn, __hmul2_rn, a *b)                                                                           \
    OK_H2(T, T2, __hadd_sat, __hadd2_sat, T(__saturatef((float)(a + b))))                                               \
    OK_H2(T, T2, __hsub_sat, __hsub2_sat, T(__saturatef((float)(a - b))))                                               \
    OK_H2(T, T2, __hmul_sat, __hmul2_sat, T(__saturatef((float)(a * b))))                                               \
    OK_H3(T, T2, __hfma, __hfma2, T(ok::detail::fused((float)a, (float)b, (float)c)))                                   \
    OK_H3(T, T2, __hfma_sat, __hfma2_sat, T(__saturatef((float)__hfma(a, b, c))))                                       \
    OK_H3(T, T2, __hfma_relu, __hfma2_relu, T(ok::detail::relu((float)__hfma(a, b, c))))                                \
    OK_H2(T, T2, __hmax, __hmax2, T(fmaxf((float)a, (float)b)))                                                         \
    OK_H2(T, T2, __hmin, __hmin2, T(fminf((float)a, (float)b)))                                                         \
    OK_H2(T, T2, __hmax_nan, __hmax2_nan, a != a || b != b ? T(NAN) : __hmax(a, b))                                     \
    OK_H2(T, T2, __hmin_nan, __hmin2_nan, a != a || b != b ? T(NAN) : __hmin(a, b))                                     \
    OK_H1(T, T2, __hneg, __hneg2, -a)                                                                                   \
    OK_H1(T, T2, __habs, __habs2, T(fabsf((float)a)))                                                                   \
    OK_H1(T, T2, hceil, h2ceil, T(ceilf((float)a)))                                                                     \
    OK_H1(T, T2, hfloor, h2floor, T(floorf((float)a)))                                                                  \
    OK_H1(T, T2, htrunc, h2trunc, T(truncf((float)a)))                                                                  \
    OK_H1(T, T2, hrint, h2rint, T(nearbyintf((float)a)))                                                                \
    OK_H1(T, T2, hsqrt, h2sqrt, T(sqrtf((float)a)))                                                                     \
    OK_H1(T, T2, hrsqrt, h2rsqrt, T(1.0 / sqrt((double)(float)a)))                                                      \
    OK_H1(T, T2, hrcp, h2rcp, T(1.0f / (float)a))                                                                       \
    OK_H1(T, T2, hexp, h2exp, T(exp((double)(float)a)))                                                                 \
    OK_H1(T, T2, hexp2, h2exp2, T(exp2((double)(float)a)))                                                              \
    OK_H1(T, T2, hexp10, h2exp10, T(pow(10.0, (double)(float)a)))                                                       \
    OK_H1(T, T2, hlog, h2log, T(log((double)(float)a)))                                                                 \
    OK_H1(T, T2, hlog2, h2log2, T(log2((double)(float)a)))                                                              \
    OK_H1(T, T2, hlog10, h2log10, T(log10((double)(float)a)))                                                           \
    OK_H1(T, T2, hsin, h2sin, T(sin((double)(float)a)))                                                                 \
    OK_H1(T, T2, hcos, h2cos, T(cos((double)(float)a)))                                                                 \
    OK_H1(T, T2, htanh, h2tanh, T(tanh((double)(float)a)))                                                              \
    OK_HCMP(T, T2, eq, ==)                                                                                              \
    OK_HCMP(T, T2, ne, !=)                                                                                              \
    OK_HCMP(T, T2, lt, <)                                                                                               \
    OK_HCMP(T, T2, le, <=)                                                                                              \
    OK_HCMP(T, T2, gt, >)                                                                                               \
    OK_HCMP(T, T2, ge, >=)                                                                                              \
    OK_MATH bool __hisnan(T a) { return a != a; }                                                                       \
    OK_MATH int __hisinf(T a) { return isinf((float)a) ? ((float)a > 0 ? 1 : -1) : 0; }                                 \
    OK_MATH T2 __hisnan2(T2 a) { return {T(a.x != a.x ? 1.0f : 0.0f), T(a.y != a.y ? 1.0f : 0.0f)}; }                   \
    OK_MATH T2 operator+(T2 a, T2 b) { return __hadd2(a, b); }                                                          \
    OK_MATH T2 operator-(T2 a, T2 b) { return __hsub2(a, b); }                                                          \
    OK_MATH T2 operator*(T2 a, T2 b) { return __hmul2(a, b); }                                                          \
    OK_MATH T2 operator/(T2 a, T2 b) { return __h2div(a, b); }                                                          \
    OK_MATH T2 operator-(T2 a) { return __hneg2(a); }                                                                   \
    OK_MATH T2 &operator+=(T2 &a, T2 b) { return a = a + b; }                                                           \
    OK_MATH T2 &operator-=(T2 &a, T2 b) { return a = a - b; }                                                           \
    OK_MATH T2 &operator*=(T2 &a, T2 b) { return a = a * b; }                                                           \
    OK_MATH T2 &operator/=(T2 &a, T2 b) { return a = a / b; }                                                           \
    OK_MATH bool operator==(T2 a, T2 b) { return __hbeq2(a, b); }                                                       \
    OK_MATH bool operator!=(T2 a, T2 b) { return __hbneu2(a, b); }                                                      \
    OK_MATH float __low2float(T2 a) { return (float)a.x; }                                                              \
    OK_MATH float __high2float(T2 a) { return (float)a.y; }

namespace ok {
namespace detail {
OK_FN float relu(float x) { return x < 0.0f ? 0.0f : x; } /* a NaN stays one */
} /* namespace detail */
} /* namespace ok */
OK_HALVES(__half, __half2)
OK_HALVES(__nv_bfloat16, __nv_bfloat162)

/* Conversions. H: half or bfloat16 in the names of one value, H2 of a pair. */
#define OK_HCONVERT(T, T2, H, H2)                                                                                       \
    OK_MATH float __##H##2float(T a) { return (float)a; }                                                               \
    OK_MATH float2 __##H2##2float2(T2 a) { return {(float)a.x, (float)a.y}; }                                           \
    OK_MATH T __float2##H(float a) { return T(a); }                                                                     \
    OK_MATH T __float2##H##_rn(float a) { return T(a); }                                                                \
    OK_MATH T __double2##H(double a) { return T(a); }                                                                   \
    OK_MATH T2 __float2##H2##_rn(float a) { return {T(a), T(a)}; }                                                      \
    OK_MATH T2 __floats2##H2##_rn(float a, float b) { return {T(a), T(b)}; }                                            \
    OK_MATH T2 __float22##H2##_rn(float2 a) { return {T(a.x), T(a.y)}; }                                                \
    OK_MATH T2 __##H##2##H2(T a) { return {a, a}; }                                                                     \
    OK_MATH T2 __halves2##H2(T a, T b) { return {a, b}; }                                                               \
    OK_MATH T __low2##H(T2 a) { return a.x; }                                                                           \
    OK_MATH T __high2##H(T2 a) { return a.y; }                                                                          \
    OK_MATH T2 __low2##H2(T2 a) { return {a.x, a.x}; }                                                                  \
    OK_MATH T2 __high2##H2(T2 a) { return {a.y, a.y}; }                                                                 \
    OK_MATH T2 __lows2##H2(T2 a, T2 b) { return {a.x, b.x}; }                                                           \
    OK_MATH T2 __highs2##H2(T2 a, T2 b) { return {a.y, b.y}; }                                                          \
    OK_MATH T __int2##H##_rn(int a) { return T(a); }                                                                    \
    OK_MATH T __uint2##H##_rn(unsigned a) { return T(a); }                                                              \
    OK_MATH T __short2##H##_rn(short a) { return T((int)a); }                                                           \
    OK_MATH T __ushort2##H##_rn(unsigned short a) { return T((int)a); }                                                 \
    OK_MATH int __##H##2int_rn(T a) { return __float2int_rn((float)a); }                                                \
    OK_MATH int __##H##2int_rz(T a) { return __float2int_rz((float)a); }                                                \
    OK_MATH int __##H##2int_rd(T a) { return __float2int_rd((float)a); }                                                \
    OK_MATH int __##H##2int_ru(T a) { return __float2int_ru((float)a); }                                                \
    OK_MATH unsigned __##H##2uint_rn(T a) { return __float2uint_rn((float)a); }                                         \
    OK_MATH unsigned __##H##2uint_rz(T a) { return __float2uint_rz((float)a); }                                         \
    OK_MATH T __ushort_as_##H(unsigned short bits) { T h; h.bits = bits; return h; }                                    \
    OK_MATH unsigned short __##H##_as_ushort(T h) { return h.bits; }                                                    \
    OK_MATH T __short_as_##H(short bits) { T h; h.bits = (uint16_t)bits; return h; }                                    \
    OK_MATH short __##H##_as_short(T h) { return (short)h.bits; }
OK_HCONVERT(__half, __half2, half, half2)
OK_HCONVERT(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
OK_MATH __half2 __lowhigh2highlow(__half2 a) { return {a.y, a.x}; }
OK_MATH __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 a) { return {a.y, a.x}; }

#endif
