"""Conversions between f32, f64 and the narrow floats (f16, bf16, fp8), as straight-line LLVM IR.

Stage: lowering. In: a value in raw form (bits as integers) or wide form (f32), see `lanes.Lanes`. Out: the other form,
or the value rounded onto the narrow type's grid. Nothing here may call a function: helpers such as `__truncsfhf2` are
missing on many hosts. f16 uses the hardware's conversions where the target has them; all else is integer code.

What a conversion gives at the edges follows the GPU: fp8 saturates (overflow and infinities give the largest finite
value of the sign), NaN stays NaN, rounding toward zero never makes an infinity of a finite number.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..llvm.emit import Builder, LValue

F16C = "f16c"


@dataclass(frozen=True, slots=True)
class Format:
    """The layout of a narrow float.

    `top` is the magnitude code of infinity or, without infinities, of the largest number. `fnuz` formats have neither
    infinities nor -0, and one NaN, whose code is that of -0.
    """

    exponent: int
    mantissa: int
    bias: int
    top: int
    nan: int
    largest: float
    fnuz: bool = False

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.width - 1)

    @property
    def infinite(self) -> bool:
        """Whether the format has infinities."""
        return self.top == ((1 << self.exponent) - 1) << self.mantissa and not self.fnuz


FORMATS = {
    "f16": Format(5, 10, 15, 0x7C00, 0x7E00, 65504.0),
    "bf16": Format(8, 7, 127, 0x7F80, 0x7FC0, float.fromhex("0x1.fep127")),
    "f8E5M2": Format(5, 2, 15, 0x7C, 0x7E, 57344.0),
    "f8E4M3FN": Format(4, 3, 7, 0x7E, 0x7F, 448.0),
    "f8E5M2FNUZ": Format(5, 2, 16, 0x7F, 0x80, 57344.0, True),
    "f8E4M3FNUZ": Format(4, 3, 8, 0x7F, 0x80, 240.0, True),
    "f8E4M3B11FNUZ": Format(4, 3, 11, 0x7F, 0x80, 30.0, True),
}


def has_f16c(b: Builder) -> bool:
    """Whether the target converts f16 in hardware (x86 F16C, or any aarch64)."""
    return F16C in b.module.features or "neon" in b.module.features


def bits_of(b: Builder, x: LValue) -> LValue:
    """The bits of a float or double as an integer of its width."""
    return b.cast("bitcast", x, "i32" if x.type.scalar == "float" else "i64")


def float_of(b: Builder, bits: LValue) -> LValue:
    """The float or double with these bits."""
    return b.cast("bitcast", bits, "float" if bits.type.scalar == "i32" else "double")


def is_nan(b: Builder, x: LValue) -> LValue:
    return b.fcmp("uno", x, b.zero(x.type))


def _and(b: Builder, x: LValue, mask: int) -> LValue:
    return b.and_(x, b.integer(x.type, mask))


def absolute(b: Builder, x: LValue) -> LValue:
    """|x| of a float or double."""
    return b.intrinsic("fabs", x.type, x)


def with_sign(b: Builder, magnitude: LValue, sign: LValue) -> LValue:
    """|magnitude| with the sign bit of the other."""
    return b.intrinsic("copysign", magnitude.type, magnitude, sign)


def single(b: Builder, wide: LValue) -> LValue:
    """A double rounded to f32.

    Behind a fence: LLVM takes the sign of `copysign(x, single(y))` from y itself, and moves a truncation to f16 into the
    `copysign`; the two together ask for a function from f64 to f16 that no library has.
    """
    nearest = b.cast("fptrunc", wide, "float")
    return b.intrinsic("arithmetic.fence", nearest.type, nearest)


# --- narrow to wide --------------------------------------------------------------------------------------------------


def widen(b: Builder, raw: LValue, kind: str) -> LValue:
    """The f32 of the same value as the narrow float with these bits.

    Args:
        raw: i16 or i8, scalar or vector.
        kind: a key of `FORMATS`.
    """
    form = FORMATS[kind]
    if kind == "bf16":
        return float_of(b, b.shl(b.cast("zext", raw, "i32"), b.integer(raw.type.of("i32"), 16)))
    if has_f16c(b):
        return _widen_through_half(b, raw, kind)
    word = b.cast("zext", raw, "i32")
    magnitude = _and(b, word, form.sign - 1)
    sign = b.shl(_and(b, word, form.sign), b.integer(word.type, 32 - form.width))
    # The narrow exponent read as an f32 exponent is off by the difference of the biases; a product with a power of two
    # puts that right, for subnormals too.
    shifted = float_of(b, b.shl(magnitude, b.integer(word.type, 23 - form.mantissa)))
    value = b.fmul(shifted, b.real(shifted.type, 2.0 ** (127 - form.bias)))
    if form.infinite:
        special = b.icmp("uge", magnitude, b.integer(word.type, form.top))
        bits = bits_of(b, value)
        value = float_of(b, b.select(special, b.or_(bits, b.integer(bits.type, 0x7F800000)), bits))
    value = float_of(b, b.or_(bits_of(b, value), sign))
    return value if form.infinite else _nan_by_code(b, raw, magnitude, value, form)


def _nan_by_code(b: Builder, raw: LValue, magnitude: LValue, value: LValue, form: Format) -> LValue:
    """NaN where the code is the format's only NaN (of either sign where it has signed zeros)."""
    code = raw if form.fnuz else magnitude
    found = b.icmp("eq", code, b.integer(code.type, form.nan))
    return b.select(found, b.real_bits(value.type, 0x7FC00000), value)


def _widen_through_half(b: Builder, raw: LValue, kind: str) -> LValue:
    """fp8 is a shifted f16 up to a power of two, and f16 is converted by hardware."""
    form = FORMATS[kind]
    if kind == "f16":
        return b.cast("fpext", b.cast("bitcast", raw, "half"), "float")
    word = b.cast("zext", raw, "i16")
    if kind == "f8E5M2":
        half = b.shl(word, b.integer(word.type, 8))
        return b.cast("fpext", b.cast("bitcast", half, "half"), "float")
    # The sign goes from bit 7 to bit 15, the rest to just below f16's exponent: a sign extension copies both at once.
    spread = b.shl(b.cast("sext", raw, "i16"), b.integer(word.type, 10 - form.mantissa))
    half = _and(b, spread, 0x8000 | (0x7F << (10 - form.mantissa)))
    wide = b.cast("fpext", b.cast("bitcast", half, "half"), "float")
    if form.exponent == 5:
        # A top exponent is an ordinary number here but an infinity or NaN in f16: rebuilt by the integer path's product.
        return _widen_top(b, raw, form)
    value = b.fmul(wide, b.real(wide.type, 2.0 ** (15 - form.bias)))
    return _nan_by_code(b, raw, _and(b, raw, 0x7F), value, form)


def _widen_top(b: Builder, raw: LValue, form: Format) -> LValue:
    word = b.cast("zext", raw, "i32")
    magnitude = _and(b, word, form.sign - 1)
    sign = b.shl(_and(b, word, form.sign), b.integer(word.type, 24))
    shifted = float_of(b, b.shl(magnitude, b.integer(word.type, 23 - form.mantissa)))
    value = b.fmul(shifted, b.real(shifted.type, 2.0 ** (127 - form.bias)))
    return _nan_by_code(b, raw, magnitude, float_of(b, b.or_(bits_of(b, value), sign)), form)


# --- wide to narrow --------------------------------------------------------------------------------------------------


def narrow_exact(b: Builder, wide: LValue, kind: str) -> LValue:
    """The bits (i16 or i8) of an f32 that the narrow type can hold.

    NaN stays NaN provided that its quiet bit is set, as it is after any arithmetic and after `round_to`.
    """
    form = FORMATS[kind]
    scalar = "i16" if form.width == 16 else "i8"
    if kind == "bf16":
        bits = bits_of(b, wide)
        return b.cast("trunc", b.lshr(bits, b.integer(bits.type, 16)), scalar)
    if has_f16c(b) and kind in ("f16", "f8E5M2"):
        half = b.cast("bitcast", b.cast("fptrunc", wide, "half"), "i16")
        if kind == "f16":
            return half
        return b.cast("trunc", b.lshr(half, b.integer(half.type, 8)), scalar)
    bits = bits_of(b, wide)
    # The inverse of `widen`: exact, since what falls below f32's normal numbers are the narrow type's own subnormals.
    scaled = bits_of(b, b.fmul(absolute(b, wide), b.real(wide.type, 2.0 ** (form.bias - 127))))
    code = b.lshr(scaled, b.integer(bits.type, 23 - form.mantissa))
    code = b.intrinsic("umin", code.type, code, b.integer(code.type, form.top))
    code = b.select(is_nan(b, wide), b.integer(code.type, form.nan & (form.sign - 1)), code)
    sign = _and(b, b.lshr(bits, b.integer(bits.type, 32 - form.width)), form.sign)
    if form.fnuz:
        negative_or_nan = b.select(is_nan(b, wide), b.integer(sign.type, form.sign), sign)
        zero = b.fcmp("oeq", wide, b.zero(wide.type))
        sign = b.select(zero, b.zero(sign.type), negative_or_nan)
    return b.cast("trunc", b.or_(code, sign), scalar)


def round_to(
    b: Builder,
    wide: LValue,
    kind: str,
    rounding: str = "rtne",
    *,
    saturate: bool | None = None,
    clean_nan: bool = False,
) -> LValue:
    """An f32 rounded to the grid of a narrow type, still as f32.

    Args:
        wide: f32, scalar or vector.
        kind: a key of `FORMATS`, or "f32", which changes nothing.
        rounding: `rtne` (to nearest, ties to even) or `rtz` (toward zero).
        saturate: overflow and infinities give the largest number; by default for fp8 only.
        clean_nan: any NaN of `wide` has its quiet bit set and its low 16 bits clear, as after arithmetic on bf16 values.
    """
    if kind == "f32":
        return wide
    form = FORMATS[kind]
    saturate = form.width == 8 if saturate is None else saturate
    if kind == "bf16":
        rounded = _round_bf16(b, wide, rounding, clean_nan)
        return _limit(b, rounded, form) if saturate else rounded
    if kind == "f16" and rounding == "rtne" and not saturate and has_f16c(b):
        return b.cast("fpext", b.cast("fptrunc", wide, "half"), "float")
    return _round_generic(b, wide, form, rounding, saturate)


def _round_bf16(b: Builder, wide: LValue, rounding: str, clean_nan: bool) -> LValue:
    bits = bits_of(b, wide)
    rounded = bits
    if rounding == "rtne":
        odd = _and(b, b.lshr(bits, b.integer(bits.type, 16)), 1)
        # A carry out of the mantissa moves to the next exponent, and past the last one to infinity, as it should.
        rounded = b.add(b.add(bits, b.integer(bits.type, 0x7FFF)), odd)
    rounded = _and(b, rounded, 0xFFFF0000)
    result = float_of(b, rounded)
    return result if clean_nan else b.select(is_nan(b, wide), b.real_bits(wide.type, 0x7FC00000), result)


def _limit(b: Builder, wide: LValue, form: Format) -> LValue:
    """The largest number of the sign where |wide| is beyond it; NaN is kept."""
    largest = b.real(wide.type, form.largest)
    magnitude = absolute(b, wide)
    return with_sign(b, b.select(b.fcmp("olt", largest, magnitude), largest, magnitude), wide)


def _round_generic(b: Builder, wide: LValue, form: Format, rounding: str, saturate: bool) -> LValue:
    """Adding and taking away a power of two that is 2^23 grid steps at the value's exponent rounds to the grid."""
    magnitude = absolute(b, wide)
    exponent = _and(b, bits_of(b, magnitude), 0x7F800000)
    lowest, highest = (128 - form.bias) << 23, (127 + 15) << 23
    exponent = b.intrinsic("umax", exponent.type, exponent, b.integer(exponent.type, lowest))
    exponent = b.intrinsic("umin", exponent.type, exponent, b.integer(exponent.type, highest))
    magic = float_of(b, b.add(exponent, b.integer(exponent.type, (23 - form.mantissa) << 23)))
    rounded = b.fsub(b.fadd(magnitude, magic), magic)
    if rounding == "rtz":
        step = b.fmul(magic, b.real(magic.type, 2.0**-23))
        rounded = b.select(b.fcmp("ogt", rounded, magnitude), b.fsub(rounded, step), rounded)
    largest = b.real(wide.type, form.largest)
    if saturate or rounding == "rtz":
        limited = b.select(b.fcmp("olt", largest, rounded), largest, rounded)
        if not saturate:  # an infinity is not an overflow
            infinity = b.real(wide.type, float("inf"))
            limited = b.select(b.fcmp("oeq", magnitude, infinity), infinity, limited)
    else:
        limited = b.select(b.fcmp("olt", largest, rounded), b.real(wide.type, float("inf")), rounded)
    result = with_sign(b, limited, wide)
    return b.fadd(result, b.zero(result.type)) if form.fnuz else result  # -0 + 0 is +0


def to_odd(b: Builder, wide: LValue) -> LValue:
    """A double rounded to f32 so that one more rounding to at most 22 bits gives the double's correct rounding.

    Rounding to odd: an inexact value becomes its neighbour with an odd last bit (Boldo and Melquiond, 2008).
    """
    nearest = single(b, wide)
    back = b.cast("fpext", nearest, "double")
    inexact = b.fcmp("one", back, wide)
    above = b.fcmp("ogt", absolute(b, back), absolute(b, wide))
    bits = bits_of(b, nearest)
    down = b.add(bits, b.cast("sext", above, "i32"))
    odd = b.or_(down, b.cast("zext", inexact, "i32"))
    return float_of(b, odd)


def to_float(b: Builder, wide: LValue, rounding: str = "rtne") -> LValue:
    """A double rounded to f32."""
    nearest = single(b, wide)
    if rounding == "rtne":
        return nearest
    back = b.cast("fpext", nearest, "double")
    above = b.fcmp("ogt", absolute(b, back), absolute(b, wide))
    above = b.and_(above, b.fcmp("one", absolute(b, wide), b.real(wide.type, float("inf"))))
    return float_of(b, b.add(bits_of(b, nearest), b.cast("sext", above, "i32")))


def narrow(b: Builder, value: LValue, kind: str, rounding: str = "rtne", *, saturate: bool | None = None) -> LValue:
    """A float or double rounded once to the type `kind` ("f32" or a narrow float), as f32 on its grid."""
    if value.type.scalar == "double":
        if kind == "f32":
            return to_float(b, value, rounding)
        value = to_odd(b, value)
    assert value.type.scalar == "float", value
    return round_to(b, value, kind, rounding, saturate=saturate)


def sum_to_odd(b: Builder, x: LValue, y: LValue) -> LValue:
    """x + y of doubles, rounded to odd: a later rounding to f32 or less is then correct.

    The exact error of the sum (Knuth's two-sum) says on which side of the rounded sum the exact one lies.
    """
    total = b.fadd(x, y)
    part = b.fsub(total, x)
    error = b.fadd(b.fsub(x, b.fsub(total, part)), b.fsub(y, part))
    bits = bits_of(b, total)
    even = b.icmp("eq", _and(b, bits, 1), b.zero(bits.type))
    # NaN and infinite sums have a NaN error, which compares as not inexact.
    inexact = b.and_(even, b.fcmp("one", error, b.zero(error.type)))
    # Toward the exact sum: one step up in magnitude where error and sum have one sign, else one step down.
    away = b.ashr(b.xor(bits_of(b, error), bits), b.integer(bits.type, 63))
    step = b.or_(away, b.integer(bits.type, 1))
    return float_of(b, b.select(inexact, b.add(bits, step), bits))


def fused(b: Builder, x: LValue, y: LValue, z: LValue) -> LValue:
    """x * y + z of f32 values with the product and sum kept to odd-rounded double precision.

    The product of two f32 is exact in double.
    """
    wide = [b.cast("fpext", v, "double") for v in (x, y, z)]
    return sum_to_odd(b, b.fmul(wide[0], wide[1]), wide[2])


def fused_bf16(b: Builder, x: LValue, y: LValue, z: LValue) -> LValue:
    """x * y + z of bf16 values (as f32), such that rounding to bf16 gives the correctly rounded result.

    The fused f32 result s rounds wrongly again only where it is a tie of bf16 but the exact result e is not. Then
    e - s comes either from z alone, the product being s, or from the product alone, z - s being exact: of the two sums
    below one has the sign of e - s and the other that sign or 0. Small values are scaled so that neither underflows.
    """
    total = b.fma(x, y, z)
    bits = bits_of(b, total)
    tie = b.icmp("eq", _and(b, bits, 0xFFFF), b.integer(bits.type, 0x8000))
    small = b.fcmp("olt", absolute(b, total), b.real(total.type, 2.0**-100))
    # A little down otherwise, lest the difference of two large numbers overflow; all these products are exact.
    scale = b.select(small, b.real(total.type, 2.0**32), b.real(total.type, 2.0**-2))
    square = b.select(small, b.real(total.type, 2.0**64), b.real(total.type, 2.0**-4))
    by_addend = b.fadd(b.fma(x, y, b.fneg(total)), z)
    by_product = b.fma(b.fmul(x, scale), b.fmul(y, scale), b.fsub(b.fmul(z, square), b.fmul(total, square)))
    rest = b.fadd(by_addend, by_product)
    inexact = b.and_(tie, b.fcmp("one", rest, b.zero(rest.type)))
    away = b.ashr(b.xor(bits_of(b, rest), bits), b.integer(bits.type, 31))
    step = b.or_(away, b.integer(bits.type, 1))
    return float_of(b, b.select(inexact, b.add(bits, step), bits))
