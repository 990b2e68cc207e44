"""Bit patterns of floating-point values, for every float type of tile IR: exact, without NumPy.

The literals of TTIR are decimal and read to the nearest value; the printer writes a short one that reads back.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction

from .types import FLOAT_BITS

# Exponent bits, stored fraction bits, exponent bias, and whether the type has infinities (and so many NaNs).
_LAYOUT = {
    "f16": (5, 10, 15, True),
    "bf16": (8, 7, 127, True),
    "f8E5M2": (5, 2, 15, True),
    "f8E4M3FN": (4, 3, 7, False),
    "f8E4M3FNUZ": (4, 3, 8, False),
    "f8E5M2FNUZ": (5, 2, 16, False),
    "f8E4M3B11FNUZ": (4, 3, 11, False),
}


def encode(value: float, kind: str) -> int:
    """The bits of a value in a float type: nearest, ties to even; overflow gives infinity, or NaN where there is none.

    Args:
        value: the value; a NaN gives the type's quiet NaN.
        kind: MLIR's name of the type, e.g. "bf16".

    Raises:
        KeyError: if `kind` names no float type.
    """
    negative = math.copysign(1.0, value) < 0
    if kind == "f64":
        return int.from_bytes(struct.pack("<d", value), "little")
    if kind == "f32":
        try:
            return int.from_bytes(struct.pack("<f", value), "little")
        except OverflowError:
            return negative << 31 | 0x7F800000
    exponent_bits, fraction_bits, bias, infinite = _LAYOUT[kind]
    sign = negative << (exponent_bits + fraction_bits)
    unsigned_zero = kind.endswith("UZ")  # negative zero's pattern is the NaN
    top = ((1 << exponent_bits) - 1) << fraction_bits
    quiet = top | 1 << (fraction_bits - 1) if infinite else top | (1 << fraction_bits) - 1
    if unsigned_zero:
        quiet = 1 << (exponent_bits + fraction_bits)
    if math.isnan(value):
        return quiet
    largest = top - 1 if infinite else top + (1 << fraction_bits) - (1 if unsigned_zero else 2)
    overflow = quiet if unsigned_zero else sign | (top if infinite else quiet)
    if math.isinf(value):
        return overflow
    bits = _rounded(abs(Fraction(value)), fraction_bits, bias)
    if bits > largest:
        return overflow
    return bits if unsigned_zero and not bits else sign | bits


def _rounded(exact: Fraction, fraction_bits: int, bias: int) -> int:
    """Exponent and fraction of a magnitude as one number: the hidden bit carries into the exponent's field."""
    if not exact:
        return 0
    exponent = max(exact.numerator.bit_length() - exact.denominator.bit_length(), 1 - bias)
    while exact >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exact < Fraction(2) ** exponent and exponent > 1 - bias:
        exponent -= 1
    scaled = round(exact / Fraction(2) ** (exponent - fraction_bits))  # Python rounds ties to even
    return ((exponent + bias - 1) << fraction_bits) + scaled


def decode(bits: int, kind: str) -> float:
    """The value of a bit pattern; every float type but f64 is contained in Python's float.

    Raises:
        KeyError: if `kind` names no float type.
    """
    if kind in ("f64", "f32"):
        size = FLOAT_BITS[kind] // 8
        (value,) = struct.unpack("<d" if size == 8 else "<f", bits.to_bytes(size, "little"))
        return float(value)
    exponent_bits, fraction_bits, bias, infinite = _LAYOUT[kind]
    magnitude = bits & (1 << (exponent_bits + fraction_bits)) - 1
    negative = bits >> (exponent_bits + fraction_bits)
    exponent, fraction = magnitude >> fraction_bits, magnitude & (1 << fraction_bits) - 1
    top = (1 << exponent_bits) - 1
    if kind.endswith("UZ"):
        if negative and not magnitude:
            return math.nan
    elif infinite and exponent == top:
        return math.nan if fraction else (-math.inf if negative else math.inf)
    elif not infinite and magnitude == (1 << (exponent_bits + fraction_bits)) - 1:
        return math.nan
    scale = max(exponent, 1) - bias - fraction_bits
    value = math.ldexp(fraction + ((1 << fraction_bits) if exponent else 0), scale)
    return -value if negative else value


def literal(bits: int, kind: str) -> str:
    """A decimal that reads back to these bits, short and near the exact value; infinities and NaNs in hexadecimal."""
    value = decode(bits, kind)
    if math.isnan(value) or math.isinf(value):
        return f"0x{bits:0{FLOAT_BITS[kind] // 4}X}"
    text = repr(value)
    if kind == "f32":  # the double nearest to an f32 takes many digits, the f32 itself at most nine
        text = next(t for t in (f"{value:.{digits}g}" for digits in range(1, 10)) if encode(float(t), kind) == bits)
    mantissa, mark, exponent = text.partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + mark + exponent
