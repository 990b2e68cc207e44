"""Math functions whose results are exact: rounding, classification, the parts of a float, integers' bits.

Stage: lowering. In and out: `Num`, any number of lanes. Meanings are C's, as the CUDA Libdevice User's Guide gives them.
"""

from __future__ import annotations

from .arith import absolute_integer, high_product, maxnum, minnum, per_lane
from .casts import float_to_integer
from .number import Num

INFINITY = float("inf")


def round_away(x: Num) -> Num:
    """To the nearest integral value, halves away from zero."""
    whole = x.trunc()
    # The difference is exact, so a half is seen as one.
    up = (x - whole).abs() >= 0.5
    return up.where(whole + x.const(1.0).copysign(x), whole).copysign(x)


def is_nan(x: Num) -> Num:
    return x.is_nan()


def is_infinite(x: Num) -> Num:
    return x.abs().equals(INFINITY)


def is_finite(x: Num) -> Num:
    return x.abs() < INFINITY


def sign_bit(x: Num) -> Num:
    return x.bits() < 0


def positive_difference(x: Num, y: Num) -> Num:
    """x - y where x > y, else +0; NaN is kept."""
    return x.compare("ole", y).where(0.0, x - y)


def saturate(x: Num) -> Num:
    """x within [0, 1]; NaN gives 0."""
    b = x.b
    return x.new(minnum(b, maxnum(b, x.v, x.const(0.0).v), x.const(1.0).v))


def to_integer(x: Num) -> Num:
    """An integral float as an i64, saturating; NaN gives 0."""
    return x.new(float_to_integer(x.b, x.v, "i64", signed=True))


def next_after(x: Num, y: Num) -> Num:
    """The neighbour of x toward y."""
    bits = x.bits()
    # Away from zero is one up in the magnitude's code.
    away = (y > x).v, (x > 0.0).v
    outward = x.new(x.b.not_(x.b.xor(*away)))
    moved = (bits + outward.where(1, -1, like=bits)).real()
    smallest = bits.const(1).real().copysign(y)
    moved = x.equals(0.0).where(smallest, moved)
    result = x.equals(y).where(y, moved)
    return x.compare("uno", y).where(x + y, result)


def exponent_of(x: Num) -> Num:
    """floor(log2(|x|)) as an integer, for finite x other than 0."""
    bits, low = (52, 2.0**-1022) if x.is_double else (23, 2.0**-126)
    tiny = x.abs() < low
    word = tiny.where(x * 2.0**bits, x).abs().bits()
    exponent = word.shift_down(bits) - (1023 if x.is_double else 127)
    return exponent - tiny.where(bits, 0, like=exponent)


def logb(x: Num) -> Num:
    """The exponent as a float; -inf for 0, inf for infinities."""
    made = exponent_of(x).cast("sitofp", x.type.scalar)
    size = x.abs()
    special = size.equals(0.0).where(-INFINITY, size)
    return x.new(x.b.and_((size > 0.0).v, (size < INFINITY).v)).where(made, special)


def ilogb(x: Num) -> Num:
    """The exponent as an i32; the least i32 for 0 and NaN, the greatest for infinities (CUDA)."""
    made = exponent_of(x)
    made = made.cast("trunc", "i32") if x.is_double else made
    size = x.abs()
    special = size.equals(INFINITY).where(2**31 - 1, -(2**31), like=made)
    return x.new(x.b.and_((size > 0.0).v, (size < INFINITY).v)).where(made, special)


def ldexp(x: Num, power: Num) -> Num:
    """x 2^power, rounded once where it becomes subnormal."""
    if not x.is_double:  # every such product is a normal double
        n = power.call("smax", power.const(-300)).call("smin", power.const(300)).cast("sext", "i64")
        return (x.double() * _power(n)).single()
    return scaled(x, power.call("smax", power.const(-3000)).call("smin", power.const(3000)).cast("sext", "i64"))


def scaled(x: Num, n: Num) -> Num:
    """A double times 2^n, rounded once where it becomes subnormal, for an i64 n within 3000 of 0."""
    # Factors that leave a rest of at most 1022 for the last one. A downward factor keeps 53 bits in hand: where it
    # makes a subnormal number, and so rounds, the last product is 0 anyway.
    for _ in range(2):
        part = (n < -1022).where(-969, (n > 1022).where(1022, 0, like=n))
        x, n = x * _power(part), n - part
    n = n.call("smax", n.const(-1022)).call("smin", n.const(1023))
    return x * _power(n)


def _power(n: Num) -> Num:
    """2^n as a double, for i64 n within the exponents of normal numbers."""
    return ((n + 1023) << 52).real()


# --- integers --------------------------------------------------------------------------------------------------------


def population(x: Num) -> Num:
    return _to_i32(x.call("ctpop"))


def leading_zeros(x: Num) -> Num:
    return _to_i32(_count(x, "ctlz"))


def first_set(x: Num) -> Num:
    """The position of the lowest set bit, from 1; 0 for 0."""
    return _to_i32(x.equals(0).where(0, _count(x, "cttz") + 1))


def reverse(x: Num) -> Num:
    return x.call("bitreverse")


def _count(x: Num, name: str) -> Num:
    """ctlz or cttz, which take a second argument: whether 0 is undefined."""
    full = f"llvm.{name}.{x.type.suffix}"
    x.b.module.declare(full, x.type, [x.type, "i1"])
    return x.new(x.b.emit(x.type, f"call {x.type} @{full}({x.v}, i1 false)"))


def _to_i32(x: Num) -> Num:
    return x.cast("trunc", "i32") if x.type.bits == 64 else x


def absolute(x: Num) -> Num:
    return x.new(absolute_integer(x.b, x.v))


def high_signed(x: Num, y: Num) -> Num:
    return x.new(high_product(x.b, x.v, y.v, signed=True)[1])


def high_unsigned(x: Num, y: Num) -> Num:
    return x.new(high_product(x.b, x.v, y.v, signed=False)[1])


def product24(x: Num, y: Num) -> Num:
    """The low 32 bits of the product of the low 24 bits, read as signed."""
    return ((x << 8) >> 8) * ((y << 8) >> 8)


def product24_unsigned(x: Num, y: Num) -> Num:
    return (x & 0xFFFFFF) * (y & 0xFFFFFF)


def average(x: Num, y: Num) -> Num:
    """(x + y) >> 1 without overflow, signed."""
    return (x & y) + ((x ^ y) >> 1)


def average_unsigned(x: Num, y: Num) -> Num:
    return (x & y) + (x ^ y).shift_down(1)


def average_up(x: Num, y: Num) -> Num:
    """(x + y + 1) >> 1 without overflow, signed."""
    return (x | y) - ((x ^ y) >> 1)


def average_up_unsigned(x: Num, y: Num) -> Num:
    return (x | y) - (x ^ y).shift_down(1)


def sum_of_difference(x: Num, y: Num, z: Num) -> Num:
    """|x - y| + z, signed."""
    return x.call("smax", y) - x.call("smin", y) + z


def sum_of_difference_unsigned(x: Num, y: Num, z: Num) -> Num:
    return x.call("umax", y) - x.call("umin", y) + z


def permute_bytes(x: Num, y: Num, selector: Num) -> Num:
    """Byte i of the result is byte (selector >> 4 i) & 7 of the eight bytes of x (low) and y."""
    result = x.const(0)
    for i in range(4):
        index = selector.shift_down(4 * i) & 7 if i else selector & 7
        chosen = (index & 4).differs(0).where(y, x)
        byte = chosen.shift_down((index & 3) << 3) & 0xFF
        result = result | (byte << (8 * i)) if i else byte
    return result


# --- bits ------------------------------------------------------------------------------------------------------------


def bits(x: Num) -> Num:
    return x.bits()


def from_bits(x: Num) -> Num:
    return x.real()


def high_word(x: Num) -> Num:
    return x.bits().shift_down(32).cast("trunc", "i32")


def low_word(x: Num) -> Num:
    return x.bits().cast("trunc", "i32")


def from_words(high: Num, low: Num) -> Num:
    return ((high.cast("zext", "i64") << 32) | low.cast("zext", "i64")).real()


def reciprocal_high(x: Num) -> Num:
    """1 / x with only the high 32 bits kept."""
    return ((1.0 / x).bits() & -(1 << 32)).real()


def jn(order: Num, x: Num) -> Num:
    """The Bessel function of the first kind and integer order."""
    return _bessel("jn", order, x)


def yn(order: Num, x: Num) -> Num:
    """The Bessel function of the second kind and integer order."""
    return _bessel("yn", order, x)


def _bessel(symbol: str, order: Num, x: Num) -> Num:
    wide = x if x.is_double else x.double()
    value = x.new(per_lane(x.b, symbol, wide.type, order.v, wide.v))
    return value if x.is_double else value.single()
