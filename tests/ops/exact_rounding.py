"""Correct rounding by other means than the code under test: in scaled integers of long double, and in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from elementwise_jit import DTYPES

# significand bits with the hidden one, least exponent of a normal number, largest number, overflow gives
FORMATS = {
    "f64": (53, -1022, float(np.finfo(np.float64).max), "inf"),
    "f32": (24, -126, float(np.finfo(np.float32).max), "inf"),
    "f16": (11, -14, 65504.0, "inf"),
    "bf16": (8, -126, 255 * 2.0**120, "inf"),
    "f8E5M2": (3, -14, 57344.0, "largest"),
    "f8E4M3FN": (4, -6, 448.0, "largest"),
    "f8E5M2FNUZ": (3, -15, 57344.0, "largest"),
    "f8E4M3FNUZ": (4, -7, 240.0, "largest"),
    "f8E4M3B11FNUZ": (4, -10, 30.0, "largest"),
}


def to_format(values: np.ndarray, kind: str, rounding: str = "rtne") -> np.ndarray:
    """Exact values (any float or integer dtype) rounded once to a type, as an array of it."""
    bits, least, largest, overflow = FORMATS[kind]
    with np.errstate(all="ignore"):
        x = values.astype(np.longdouble)
        _, exponent = np.frexp(np.where(np.isfinite(x), x, 0))
        step = np.ldexp(np.longdouble(1), np.maximum(exponent - 1, least) - (bits - 1))
        scaled = x / step
        rounded = (np.trunc if rounding == "rtz" else np.rint)(scaled) * step
        rounded = np.where(np.isfinite(x), rounded, x)
        beyond = np.abs(rounded) > largest
        if overflow == "largest":
            rounded = np.where(beyond, np.copysign(largest, x), rounded)
        elif rounding == "rtz":
            rounded = np.where(beyond & np.isfinite(x), np.copysign(largest, x), rounded)
        else:
            rounded = np.where(beyond, np.copysign(np.inf, x), rounded)
        if kind.endswith("FNUZ"):
            rounded = np.where(rounded == 0, 0, rounded)
        return rounded.astype(np.float64).astype(DTYPES[kind])


def fraction_to_format(value: Fraction, kind: str) -> float:
    """The value of an exact fraction rounded to nearest even in a type with infinities."""
    bits, least, largest, _ = FORMATS[kind]
    if not value:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, least) - (bits - 1))
    rounded = round(size / step) * step  # Python rounds ties to even
    result = float("inf") if rounded > largest else float(rounded)
    return -result if value < 0 else result
