"""libdevice's arithmetic and conversions with an explicit rounding: toward zero (rz), down (rd) or up (ru).

Stage: lowering. In and out: `Num`, any number of lanes. Method: the correctly rounded result, and the sign of what it
leaves of the exact one; where that points the way of the rounding, the result moves to its neighbour. An f32 result
comes from doubles that hold the exact value, or round it to odd.
"""

from __future__ import annotations

from collections.abc import Callable

from . import arith
from .convert import sum_to_odd
from .exact import INFINITY, exponent_of, scaled
from .number import Num
from .special import product_error

Emitter = Callable[..., Num]
MODES = ("rz", "rd", "ru")
TINY, SCALE = 2.0**-900, 2.0**200


def _both(x: Num, y: Num) -> Num:
    return x.new(x.b.and_(x.v, y.v))


def adjusted(nearest: Num, rest: Num, mode: str) -> Num:
    """The result in the rounding `mode`.

    Args:
        nearest: the result rounded to nearest, f32 or f64.
        rest: a float with the sign of (exact result - nearest); 0 or NaN where that is exact or no number.
    """
    too_high, too_low = rest < 0.0, rest > 0.0
    bits = nearest.bits()
    negative, zero = bits < 0, nearest.equals(0.0)
    sign = 1 << (bits.type.bits - 1)
    below = zero.where(sign | 1, bits + negative.where(1, -1, like=bits), like=bits).real()
    above = zero.where(1, bits + negative.where(-1, 1, like=bits)).real()
    if mode == "rz":
        too_high, too_low = _both(too_high, nearest > 0.0), _both(too_low, nearest < 0.0)
    value = nearest
    if mode != "ru":
        value = too_high.where(below, value)
    if mode != "rd":
        value = too_low.where(above, value)
    return value


def to_single(exact: Num, mode: str) -> Num:
    """A double (also one rounded to odd) as f32."""
    nearest = exact.single()
    return adjusted(nearest, exact - nearest.double(), mode)


def _zero_sum(total: Num, x: Num, y: Num, mode: str) -> Num:
    """Rounding down makes an exact zero sum negative unless both terms are +0."""
    if mode != "rd":
        return total
    both_positive = (x.bits() | y.bits()) >= 0
    return _both(total.equals(0.0), total.new(total.b.not_(both_positive.v))).where(-0.0, total)


def add(mode: str) -> Emitter:
    def emit(x: Num, y: Num) -> Num:
        if not x.is_double:
            wide = x.new(sum_to_odd(x.b, x.double().v, y.double().v))
            return _zero_sum(to_single(wide, mode), x, y, mode)
        total, rest = _exact_sum(x, y)
        overflow = _both(total.abs().equals(INFINITY), _both(x.abs() < INFINITY, y.abs() < INFINITY))
        rest = overflow.where(-total, rest)
        return _zero_sum(adjusted(total, rest, mode), x, y, mode)

    return emit


def sub(mode: str) -> Emitter:
    return lambda x, y: add(mode)(x, -y)


def mul(mode: str) -> Emitter:
    def emit(x: Num, y: Num) -> Num:
        if not x.is_double:
            return to_single(x.double() * y.double(), mode)
        product = x * y
        # The error of a tiny product would itself underflow, and that of a vast one overflow.
        size = product.abs()
        factor = (size < TINY).where(SCALE, (size > 2.0**900).where(1 / SCALE, 1.0, like=product))
        rest = product_error(x * factor, y * factor, (product * factor) * factor)
        lost = x.new(x.b.and_(product.equals(0.0).v, x.b.and_(x.differs(0.0).v, y.differs(0.0).v)))
        rest = lost.where(x.const(1.0).copysign(product), rest)
        return adjusted(product, _overflow(rest, product, x, y), mode)

    return emit


def _overflow(rest: Num, result: Num, x: Num, y: Num) -> Num:
    """The rest of an infinity that finite operands made points back to zero."""
    made = _both(result.abs().equals(INFINITY), _both(x.abs() < INFINITY, y.abs() < INFINITY))
    return made.where(-result, rest)


def div(mode: str) -> Emitter:
    def emit(x: Num, y: Num) -> Num:
        if not x.is_double:
            wide, divisor = x.double(), y.double()
            quotient = wide / divisor
            nearest = quotient.single()
            back = nearest.double()
            # Where the double is an f32, the exact quotient may still lie beside it: the product is exact then.
            beside = (wide - back * divisor) * x.const(1.0).copysign(y).double()
            rest = quotient.equals(back).where(beside, quotient - back)
            return adjusted(nearest, y.equals(0.0).where(0.0, rest), mode)
        quotient = x / y
        factor = (x.abs() < TINY).where(SCALE, (x.abs() > 2.0**900).where(1 / SCALE, 1.0, like=x))
        scaled = quotient * factor
        product = scaled * y
        rest = ((x * factor - product) - product_error(scaled, y, product)) * x.const(1.0).copysign(y)
        exact = x.new(y.b.or_(y.equals(0.0).v, y.abs().equals(INFINITY).v))
        inside = exact.where(0.0, _overflow(rest, quotient, x, y))
        lost = x.new(x.b.and_(quotient.equals(0.0).v, x.b.and_(x.differs(0.0).v, (y.abs() < INFINITY).v)))
        return adjusted(quotient, lost.where(x.const(1.0).copysign(quotient), inside), mode)

    return emit


def rcp(mode: str) -> Emitter:
    return lambda x: div(mode)(x.const(1.0), x)


def sqrt(mode: str) -> Emitter:
    def emit(x: Num) -> Num:
        if not x.is_double:
            wide = x.double()
            root = wide.sqrt()
            nearest = root.single()
            back = nearest.double()
            return adjusted(nearest, root.equals(back).where(wide - back * back, root - back), mode)
        root = x.sqrt()
        tiny = x < TINY
        scaled = root * tiny.where(2.0**100, 1.0, like=x)
        square = scaled * scaled
        rest = (x * tiny.where(SCALE, 1.0, like=x) - square) - product_error(scaled, scaled, square)
        return adjusted(root, rest, mode)

    return emit


def fma(mode: str) -> Emitter:
    def emit(x: Num, y: Num, z: Num) -> Num:
        if x.is_double:
            nearest, rest = _fma_double(x, y, z)
            made, exactly_zero = adjusted(nearest, rest, mode), _both(nearest.equals(0.0), rest.equals(0.0))
        else:  # the product is exact in double, and the sum rounds to odd
            total = x.new(sum_to_odd(x.b, (x.double() * y.double()).v, z.double().v))
            made, exactly_zero = to_single(total, mode), total.equals(0.0)
        if mode != "rd":
            return made
        both_positive = ((x.bits() ^ y.bits()) | z.bits()) >= 0
        return _both(exactly_zero, x.new(x.b.not_(both_positive.v))).where(-0.0, made)

    return emit


# Bits between the product and the term from which on only the sign of the smaller one counts.
APART = 110


def _fma_double(x: Num, y: Num, z: Num) -> tuple[Num, Num]:
    """x y + z rounded to nearest, and a number with the sign of what that leaves.

    All is scaled so that the product lies in [1, 4): then it is the exact sum of two doubles, and so is every sum of
    two. The rest is summed as an expansion (Shewchuk, 1997), whose last component that is not 0 has its sign.
    """
    nearest = x.new(arith.fma(x.b, x.v, y.v, z.v))
    power = exponent_of(x) + exponent_of(y)
    gap = exponent_of(z) - power
    first, second = scaled(x, -exponent_of(x)), scaled(y, -exponent_of(y))
    product = first * second
    far_below = z.const(2.0**-APART).copysign(z)
    term = z.equals(0.0).where(0.0, (gap < -APART).where(far_below, scaled(z, -power)))
    expansion = [product_error(first, second, product), product]
    for number in (term, -scaled(nearest, -power)):
        carried, parts = number, []
        for part in expansion:
            carried, error = _exact_sum(carried, part)
            parts.append(error)
        expansion = [*parts, carried]
    rest = expansion[0]
    for part in expansion[1:]:
        rest = part.equals(0.0).where(rest, part)
    sign = x.const(1.0).copysign(x) * y.const(1.0).copysign(y)
    rest = _both(gap > APART, z.differs(0.0)).where(sign, rest)
    rest = x.new(x.b.or_(x.equals(0.0).v, y.equals(0.0).v)).where(0.0, rest)
    finite = _both(_both(x.abs() < INFINITY, y.abs() < INFINITY), z.abs() < INFINITY)
    rest = nearest.abs().equals(INFINITY).where(-nearest, rest)
    return nearest, finite.where(rest, 0.0)


def _exact_sum(x: Num, y: Num) -> tuple[Num, Num]:
    """x + y as a rounded sum and its error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def from_integer(scalar: str, mode: str, *, signed: bool) -> Emitter:
    """i32 or i64 as f32 or f64. An i64 is the sum of two doubles, its halves."""

    def emit(x: Num) -> Num:
        opcode = "sitofp" if signed else "uitofp"
        if x.type.bits == 32:
            wide = x.cast(opcode, "double")
            return wide if scalar == "double" else to_single(wide, mode)
        high = ((x >> 32) if signed else x.shift_down(32)).cast("trunc", "i32").cast(opcode, "double") * 2.0**32
        low = x.cast("trunc", "i32").cast("uitofp", "double")
        if scalar == "float":
            return to_single(x.new(sum_to_odd(x.b, high.v, low.v)), mode)
        total = high + low
        return adjusted(total, low - (total - high), mode)

    return emit


def double_to_float(mode: str) -> Emitter:
    return lambda x: to_single(x, mode)
