"""Logarithms as straight-line vector code, f32 and f64.

Stage: lowering. In and out: `Num`, any number of lanes. Coefficients come from tools/minimax.py.

Method: x = 2^k m with 3/4 <= m < 3/2, which an instruction of AVX-512 gives and integers give as well, so that a value is
the same in a lane and alone; f = m - 1 (exact), log(x) = k ln2 + log(1 + f). In f64 log(1 + f) is written in
s = f / (2 + f), as in Sun's fdlibm, with coefficients of our own.
"""

from __future__ import annotations

from . import x86
from .number import Num, horner
from .polynomials_exp import LN2_HIGH_F32, LN2_HIGH_F64, LN2_LOW_F32, LN2_LOW_F64

# log(1 + f) = f - f^2/2 + f^3 P(f)
LOG_F32 = (
    0.33333319425582886,
    -0.2500027120113373,
    0.20001770555973053,
    -0.1665395200252533,
    0.14216303825378418,
    -0.12638096511363983,
    0.12129182368516922,
    -0.10450004786252975,
    0.04799598455429077,
)
# log((1 + s) / (1 - s)) = 2 s + s^3 P(s^2)
LOG_F64 = (
    0.666666666666666,
    0.40000000000056396,
    0.28571428555930223,
    0.22222224282697398,
    0.18181666785700148,
    0.15391080367419943,
    0.1317415210657784,
    0.138391895825389,
)
INFINITY, NAN = float("inf"), float("nan")


def exponent_and_fraction(x: Num) -> tuple[Num, Num]:
    """k and f of the method above, as floats, for positive finite x. Subnormals are scaled up first."""
    exponent, mantissa = x86.exponent(x.b, x.v), x86.mantissa(x.b, x.v)
    if exponent is not None and mantissa is not None:
        k, m = x.new(exponent), x.new(mantissa)
        return (m < 1.0).where(k + 1.0, k), m - 1.0
    bits, low, root = (52, 2.0**-1022, 0x3FE8000000000000) if x.is_double else (23, 2.0**-126, 0x3F400000)  # of 3/4
    tiny = x < low
    word = tiny.where(x * 2.0**bits, x).bits()
    k = _shift_exponent(word - root, bits)
    fraction = (word - (k << bits)).real() - 1.0
    k_real = k.cast("sitofp", "float") if not x.is_double else _small_to_double(k)
    return k_real + tiny.where(-float(bits), 0.0, like=fraction), fraction


def _shift_exponent(word: Num, bits: int) -> Num:
    if bits == 23:
        return word >> bits
    # AVX2 has no arithmetic shift of 64 bits: shift in zeros around a bias instead.
    return (word + (1024 << 52)).shift_down(bits) - 1024


def _small_to_double(k: Num) -> Num:
    """An i64 of few bits as a double: AVX2 cannot convert i64."""
    magic = 0x4338000000000000  # the bits of 1.5 * 2^52
    return (k + magic).real() - 1.5 * 2.0**52


def with_specials(x: Num, value: Num) -> Num:
    """log(0) = -inf, log of negative numbers and NaN = NaN, log(inf) = inf; else the value."""
    instruction = x86.logarithm_specials(x.b, x.v, value.v)
    if instruction is not None:
        return x.new(instruction)
    value = x.equals(0.0).where(-INFINITY, value)
    value = (x < 0.0).where(NAN, value)
    return x.compare("uge", INFINITY).where(x, value)  # NaN too


def log(x: Num) -> Num:
    """The natural logarithm."""
    k, f = exponent_and_fraction(x)
    if not x.is_double:
        square = f * f
        tail = k.mad(LN2_LOW_F32, (square * f) * horner(f, LOG_F32))
        tail = square.mad(-0.5, tail)
        return with_specials(x, k.mad(LN2_HIGH_F32, f + tail))
    half, correction = _parts(f)
    return with_specials(x, k.mad(LN2_HIGH_F64, f - (half - k.mad(LN2_LOW_F64, correction))))


def _parts(f: Num) -> tuple[Num, Num]:
    """f^2/2 and c such that log(1 + f) = f - (f^2/2 - c), in f64."""
    s = f / (f + 2.0)
    z = s * s
    half = (f * f) * 0.5
    return half, s * (half + z * horner(z, LOG_F64))


def log_scaled(x: Num, high: float, low: float) -> Num:
    """log(1 + f) times a constant, given as the sum of two parts, plus k: the logarithm of another base."""
    k, f = exponent_and_fraction(x)
    if x.is_double:
        half, correction = _parts(f)
    else:
        square = f * f
        half, correction = square * 0.5, (square * f) * horner(f, LOG_F32)
    # The leading part keeps half its bits, so that its product with the high part of the constant is exact.
    mask = -(1 << 32) if x.is_double else -(1 << 12)
    first = ((f - half).bits() & mask).real()
    rest = ((f - first) - half) + correction
    return _join(x, k, first, rest, high, low)


def _join(x: Num, k: Num, first: Num, rest: Num, high: float, low: float) -> Num:
    small = rest.mad(high, (rest + first) * low)
    top = first * high
    total = k + top
    return with_specials(x, total + (((k - total) + top) + small))


LOG2E_HIGH_F64, LOG2E_LOW_F64 = float.fromhex("0x1.71547652p+0"), float.fromhex("0x1.705fc2eefa2p-33")
LOG2E_HIGH_F32, LOG2E_LOW_F32 = float.fromhex("0x1.716p+0"), float.fromhex("-0x1.7135a8p-13")


def log2(x: Num) -> Num:
    """The binary logarithm; exact for powers of two."""
    if x.is_double:
        return log_scaled(x, LOG2E_HIGH_F64, LOG2E_LOW_F64)
    return log_scaled(x, LOG2E_HIGH_F32, LOG2E_LOW_F32)
