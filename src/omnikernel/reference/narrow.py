"""Rounding to a float type, once: narrow floats, round toward zero, and sums that must not round twice.

In: float or integer arrays of any shape. Out: arrays of the dtype of a float kind, rounded once from the exact value.

Two roundings in a row differ from one where the first lands on a midpoint of the second. The cure is to make the
first rounding one to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd", IEEE Trans. Computers 57(4), 2008): an inexact result takes the neighbour whose last bit is set, so
it is never a midpoint, and with two bits to spare the second rounding sees all it needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import NARROW_FLOATS
from .registry import DTYPES, UNSIGNED, Array, bits_of, from_bits

# The largest finite value of each fp8 kind.
LARGEST = {
    "f8E5M2": 57344.0,
    "f8E4M3FN": 448.0,
    "f8E4M3FNUZ": 240.0,
    "f8E5M2FNUZ": 57344.0,
    "f8E4M3B11FNUZ": 30.0,
}
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def widen(value: Array) -> Array:
    """A narrow float as f32, exactly; f32 and f64 as they are."""
    return value if value.dtype in (F32, F64) else value.astype(F32)


def computing(kind: str) -> np.dtype[Any]:
    """The dtype that operations on a float kind are computed in."""
    return F64 if kind == "f64" else F32


def round_to_odd(value: Array) -> Array:
    """f64 to f32, rounded to odd; NaN and infinities are kept."""
    nearest = value.astype(F32)
    back = nearest.astype(F64)
    bits = bits_of(nearest).astype(np.int64)
    inexact = (back != value) & ~np.isnan(value)
    away = inexact & (np.abs(back) > np.abs(value))
    bits = np.where(inexact, (bits - away) | 1, bits)
    return from_bits(bits.astype(np.uint32), F32)


def narrow(value: Array, kind: str) -> Array:
    """Round f32 or f64 to a float kind, to nearest even, once; fp8 saturates (NaN stays NaN).

    What GPUs do: f32 inf to e5m2 gives 57344, to e4m3 448.
    """
    dtype = DTYPES[kind]
    if value.dtype == dtype:
        return value
    if kind not in NARROW_FLOATS:
        return value.astype(dtype)
    single = round_to_odd(value) if value.dtype == F64 else value.astype(F32, copy=False)
    if kind.startswith("f8"):
        top = F32.type(LARGEST[kind])
        single = np.clip(single, -top, top)
    return single.astype(dtype)


def narrow_toward_zero(value: Array, kind: str) -> Array:
    """Round f32 or f64 to a float kind, toward zero. A finite value past the range gives the largest finite one."""
    nearest = narrow(value, kind)
    bits = bits_of(nearest)
    away = np.abs(nearest.astype(F64)) > np.abs(value.astype(F64))
    return from_bits((bits - away).astype(bits.dtype), nearest.dtype)


def from_integer(value: Array, kind: str, *, unsigned: bool) -> Array:
    """An integer array (signed dtypes or bool) as a float kind, rounded once to nearest even."""
    if value.dtype == np.bool_:
        value = value.astype(np.int8) * (1 if unsigned else -1)
    whole = value.view(UNSIGNED[8 * value.dtype.itemsize]) if unsigned else value
    if kind not in NARROW_FLOATS:
        return whole.astype(DTYPES[kind])
    negative = np.zeros(whole.shape, np.bool_) if unsigned else whole < 0
    magnitude = whole.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - magnitude, magnitude)
    # Past 53 bits, fold what f64 cannot hold into one sticky bit.
    sticky = (magnitude & np.uint64(0x7FF)) != 0
    folded = (magnitude & ~np.uint64(0x7FF)) | (sticky.astype(np.uint64) << np.uint64(11))
    exact = np.where(magnitude >> np.uint64(53) != 0, folded, magnitude).astype(F64)
    return narrow(np.where(negative, -exact, exact), kind)


def to_integer(value: Array, dtype: np.dtype[Any], *, unsigned: bool) -> Array:
    """A float array truncated to integers of a signed dtype or bool; saturates, and NaN gives 0.

    `unsigned`: the range is that of unsigned integers, the result their bits.
    """
    wide = np.trunc(value.astype(F64))
    wide = np.where(np.isnan(wide), 0.0, wide)
    if dtype == np.bool_:  # a 1-bit integer: 0 and 1, or 0 and -1
        return np.asarray(wide >= 1.0 if unsigned else wide <= -1.0)
    bits = 8 * dtype.itemsize
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    whole = UNSIGNED[bits] if unsigned else dtype
    over, under = wide >= float(high), wide <= float(low)
    inside = np.where(over | under, 0.0, wide).astype(whole)
    made = np.where(over, whole.type(high), np.where(under, whole.type(low), inside))
    return made.astype(whole, copy=False).view(dtype)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error (Knuth); f64, no overflow."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def odd_sum(a: Array, b: Array) -> Array:
    """a + b in f64, rounded to odd."""
    total, error = two_sum(a, b)
    even = (bits_of(np.asarray(total)) & np.uint64(1)) == 0
    inexact = np.isfinite(total) & (error != 0) & even
    return np.where(inexact, np.nextafter(total, np.copysign(np.inf, error)), total)


def fma(a: Array, b: Array, c: Array, kind: str) -> Array:
    """a * b + c with one rounding to a float kind.

    Args:
        a, b, c: arrays of the kind's dtype, or for kinds below f64 of any narrower dtype; shapes broadcast.
        kind: the float kind of the result.
    """
    if kind == "f64":
        return _fma64(a.astype(F64), b.astype(F64), c.astype(F64))
    # Products of two 24-bit significands are exact in f64, and no exponent of f32 leaves its range.
    return narrow(odd_sum(np.asarray(a.astype(F64) * b.astype(F64)), c.astype(F64)), kind)


def _fma64(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond's algorithm where no step can overflow or underflow, exact integers elsewhere."""
    a, b, c = np.broadcast_arrays(a, b, c)
    high, low = _two_product(a, b)
    t_high, t_low = two_sum(c, low)
    v_high, v_low = two_sum(high, t_high)
    made = np.asarray(v_high + odd_sum(t_low, v_low))
    # A product that overflows on its own is still finite next to an infinity.
    plain = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, a * b + c)
    plainly = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)
    made = np.where(plainly, plain, made)
    safe = _moderate(a, 400) & _moderate(b, 400) & ((c == 0) | _moderate(c, 800)) & (made != 0)
    risky = ~plainly & ~safe
    if risky.any():
        made = made.copy()
        rows = zip(a[risky].tolist(), b[risky].tolist(), c[risky].tolist(), strict=True)
        made[risky] = [_fma_exact(x, y, z) for x, y, z in rows]
    return made


def _moderate(value: Array, exponent: int) -> Array:
    size = np.abs(value)
    return np.asarray((size > 2.0**-exponent) & (size < 2.0**exponent))


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its exact error (Dekker, with Veltkamp's splitting)."""
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    product = a * b
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _split(value: Array) -> tuple[Array, Array]:
    scaled = value * 134217729.0  # 2**27 + 1
    high = scaled - (scaled - value)
    return high, value - high


def _fma_exact(a: float, b: float, c: float) -> float:
    """By Python's integers: its float division of integers rounds once, also to subnormals."""
    (an, ad), (bn, bd), (cn, cd) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    numerator, denominator = an * bn * cd + cn * ad * bd, ad * bd * cd
    if numerator == 0:
        return a * b + c  # the sign of an exact zero follows the signs of the two terms
    try:
        return numerator / denominator
    except OverflowError:
        return float("inf") if numerator > 0 else float("-inf")
