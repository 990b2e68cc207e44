/* ok::f16, ok::bf16, ok::f8e4m3, ok::f8e5m2: on a GPU CUDA's own types, on the CPU types with the same values.
 *
 * On the CPU arithmetic is done in f32 and rounded once to the type, which for + - * / and sqrt is the correctly rounded
 * result. Conversions round to nearest even; those to f8 saturate to the largest finite value, as CUDA's do.
 */
#ifndef OMNIKERNEL_FLOATS_H
#define OMNIKERNEL_FLOATS_H

#if OK_ON_GPU

#if defined(OK_USE_F16)
#include <cuda_fp16.h>
namespace ok { typedef __half f16; }
#endif
#if defined(OK_USE_BF16)
#include <cuda_bf16.h>
namespace ok { typedef __nv_bfloat16 bf16; }
#endif
#if defined(OK_USE_F8)
#include <cuda_fp8.h>
namespace ok { typedef __nv_fp8_e4m3 f8e4m3; typedef __nv_fp8_e5m2 f8e5m2; }
#endif

#else

namespace ok {
namespace detail {

OK_FN uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}
OK_FN float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* f32 to a float of E exponent and M mantissa bits, nearest even; infinities and NaN as IEEE has them. */
template <int E, int M> OK_FN uint32_t narrow(float value) {
    constexpr int bias = (1 << (E - 1)) - 1, drop = 23 - M;
    constexpr uint32_t infinity = ((1u << E) - 1) << M;
    uint32_t bits = bits_of(value), sign = (bits >> 31) << (E + M), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return infinity | ((1u << M) - 1); /* CUDA's NaN: all ones, positive */
    int exponent = (int)(magnitude >> 23) - 127 + bias;
    if (exponent >= (1 << E) - 1) return sign | infinity;
    if (exponent <= 0) { /* subnormal: the unit in the last place is fixed */
        int shift = drop + 1 - exponent;
        if (shift > 25) return sign;
        uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u, half = 1u << (shift - 1);
        uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1);
        return sign | (kept + (rest > half || (rest == half && (kept & 1))));
    }
    uint32_t rounded = magnitude + ((1u << (drop - 1)) - 1) + ((magnitude >> drop) & 1);
    return sign | ((rounded >> drop) - ((uint32_t)(127 - bias) << M));
}
template <int E, int M> OK_FN float widen(uint32_t bits) {
    constexpr int bias = (1 << (E - 1)) - 1;
    uint32_t sign = (bits >> (E + M)) << 31, exponent = (bits >> M) & ((1u << E) - 1), mantissa = bits & ((1u << M) - 1);
    if (exponent == (1u << E) - 1) return float_of(sign | 0x7f800000u | mantissa << (23 - M));
    if (exponent) return float_of(sign | (exponent + 127 - bias) << 23 | mantissa << (23 - M));
    float value = (float)mantissa * float_of((uint32_t)(127 + 1 - bias - M) << 23);
    return sign ? -value : value;
}

OK_FN uint16_t to_f16(float value) {
#if defined(__F16C__)
    typedef float floats __attribute__((vector_size(16)));
    typedef short shorts __attribute__((vector_size(16)));
    if (value != value) return 0x7fff;
    shorts found = __builtin_ia32_vcvtps2ph((floats){value, 0, 0, 0}, 0);
    return (uint16_t)found[0];
#else
    return (uint16_t)narrow<5, 10>(value);
#endif
}
OK_FN float from_f16(uint16_t bits) {
#if defined(__F16C__)
    typedef float floats __attribute__((vector_size(16)));
    typedef short shorts __attribute__((vector_size(16)));
    floats found = __builtin_ia32_vcvtph2ps((shorts){(short)bits, 0, 0, 0, 0, 0, 0, 0});
    return found[0];
#else
    return widen<5, 10>(bits);
#endif
}
OK_FN uint16_t to_bf16(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}
OK_FN float from_bf16(uint16_t bits) { return float_of((uint32_t)bits << 16); }
/* e4m3 has no infinity: 0x7f is NaN and 0x7e is 448. */
inline uint8_t to_e4m3(float value) {
    if (value != value) return 0x7f;
    uint8_t sign = (uint8_t)(bits_of(value) >> 31 << 7);
    float magnitude = value < 0 ? -value : value;
    if (magnitude > 448.0f) return sign | 0x7e;
    if (magnitude >= 256.0f) { /* the top binade, which the general code takes for infinity */
        int steps = (int)nearbyintf((magnitude - 256.0f) / 32.0f);
        return (uint8_t)(sign | (0x78 + (steps > 6 ? 6 : steps)));
    }
    return (uint8_t)narrow<4, 3>(value);
}
inline float from_e4m3(uint8_t bits) {
    if ((bits & 0x7f) == 0x7f) return float_of(0x7fc00000u);
    if ((bits & 0x78) == 0x78) return ((bits & 0x80) ? -1.0f : 1.0f) * (256.0f + 32.0f * (float)(bits & 7));
    return widen<4, 3>(bits);
}
inline uint8_t to_e5m2(float value) {
    if (value != value) return 0x7f;
    uint8_t sign = (uint8_t)(bits_of(value) >> 31 << 7);
    uint8_t found = (uint8_t)narrow<5, 2>(value);
    return (found & 0x7f) >= 0x7c ? (uint8_t)(sign | 0x7b) : found;
}

} /* namespace detail */

#define OK_FLOAT_TYPE(NAME, WORD, TO, FROM)                                                                             \
    struct NAME {                                                                                                       \
        WORD bits;                                                                                                      \
        NAME() = default;                                                                                               \
        OK_FN NAME(float value) : bits(TO(value)) {}                                                                    \
        OK_FN NAME(double value) : bits(TO(detail::odd(value))) {}                                                      \
        OK_FN NAME(int value) : NAME((double)value) {}                                                                  \
        OK_FN NAME(unsigned value) : NAME((double)value) {}                                                             \
        OK_FN NAME(long value) : NAME((double)value) {}                                                                 \
        OK_FN NAME(long long value) : NAME((double)value) {}                                                            \
        OK_FN operator float() const { return FROM(bits); }                                                             \
    };
#define OK_FLOAT_OPERATORS(NAME)                                                                                        \
    OK_FN NAME operator+(NAME a, NAME b) { return NAME((float)a + (float)b); }                                          \
    OK_FN NAME operator-(NAME a, NAME b) { return NAME((float)a - (float)b); }                                          \
    OK_FN NAME operator*(NAME a, NAME b) { return NAME((float)a * (float)b); }                                          \
    OK_FN NAME operator/(NAME a, NAME b) { return NAME((float)a / (float)b); }                                          \
    OK_FN NAME operator-(NAME a) { return NAME(-(float)a); }                                                            \
    OK_FN NAME &operator+=(NAME &a, NAME b) { return a = a + b; }                                                       \
    OK_FN NAME &operator-=(NAME &a, NAME b) { return a = a - b; }                                                       \
    OK_FN NAME &operator*=(NAME &a, NAME b) { return a = a * b; }                                                       \
    OK_FN NAME &operator/=(NAME &a, NAME b) { return a = a / b; }                                                       \
    OK_FN bool operator==(NAME a, NAME b) { return (float)a == (float)b; }                                              \
    OK_FN bool operator!=(NAME a, NAME b) { return (float)a != (float)b; }                                              \
    OK_FN bool operator<(NAME a, NAME b) { return (float)a < (float)b; }                                                \
    OK_FN bool operator>(NAME a, NAME b) { return (float)a > (float)b; }                                                \
    OK_FN bool operator<=(NAME a, NAME b) { return (float)a <= (float)b; }                                              \
    OK_FN bool operator>=(NAME a, NAME b) { return (float)a >= (float)b; }

namespace detail {
/* f64 to f32 by rounding to odd, so that a second rounding to a narrower type is as if it were the only one. */
OK_FN float odd(double value) {
    float near = (float)value;
    if ((double)near == value || near != near || near - near != 0.0f) return near;
    uint32_t bits = bits_of(near);
    if (bits & 1) return near;
    bool above = (double)(near < 0 ? -near : near) > (value < 0 ? -value : value);
    return float_of(above ? bits - 1 : bits + 1);
}
} /* namespace detail */

OK_FLOAT_TYPE(f16, uint16_t, detail::to_f16, detail::from_f16)
OK_FLOAT_TYPE(bf16, uint16_t, detail::to_bf16, detail::from_bf16)
OK_FLOAT_TYPE(f8e4m3, uint8_t, detail::to_e4m3, detail::from_e4m3)
OK_FLOAT_OPERATORS(f16)
OK_FLOAT_OPERATORS(bf16)
namespace detail {
OK_FN float from_e5m2(uint8_t bits) { return widen<5, 2>(bits); }
} /* namespace detail */
OK_FLOAT_TYPE(f8e5m2, uint8_t, detail::to_e5m2, detail::from_e5m2)

} /* namespace ok */

#endif
#endif
