"""f32 functions computed in f64 arithmetic, which makes short formulas accurate to about half an ulp of f32.

Stage: lowering. In and out: `Num` of double, of which the caller makes f32. Coefficients come from tools/minimax.py.
Near zero, where a formula cancels, the first terms of the series take over.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .exact import is_infinite
from .number import Num, horner
from .polynomials_exp import exp, exp2
from .polynomials_log import log
from .polynomials_trig import LIMIT_F64, cos_near, guarded, reduce_angle, sin_near

INFINITY, NAN, PI = math.inf, math.nan, math.pi
# atan(z) = z + z^3 P(z^2) for 0 <= z <= 1
ATAN = (
    -0.3333333311128605,
    0.1999998422714128,
    -0.1428532092479869,
    0.1110614333338379,
    -0.09053626865288829,
    0.07510495088972441,
    -0.06056905342528454,
    0.044178130857674934,
    -0.026546615457309096,
    0.011777787766994167,
    -0.003326134146393906,
    0.0004406303283419559,
)
SMALL = 2.0**-10  # below it two terms of a series are exact enough


def single(function: Callable[..., Num]) -> Callable[..., Num]:
    """The f32 function of a function of doubles."""

    def emit(*operands: Num) -> Num:
        return function(*(x.double() if x.type.scalar == "float" else x for x in operands)).single()

    return emit


def single_and_double(function: Callable[..., Num]) -> dict[str, Callable[..., Num]]:
    """The emitters of both types of a function whose formula in doubles is accurate for both."""
    return {"f32": single(function), "f64": function}


def expm1(x: Num) -> Num:
    near = (x + (x * x) * (x * (1 / 6) + 0.5)).copysign(x)
    return (x.abs() < SMALL).where(near, exp(x) - 1.0)


def exp10(x: Num) -> Num:
    return exp2(x * math.log2(10.0))


def log1p(x: Num) -> Num:
    """log(1 + x), times what rounding 1 + x lost (Goldberg, 1991, theorem 4)."""
    total = x + 1.0
    ratio = x / (total - 1.0)
    value = total.equals(1.0).where(x, log(total) * ratio)
    return x.equals(INFINITY).where(x, value)


def log10(x: Num) -> Num:
    return log(x) * (1 / math.log(10.0))


def sinh(x: Num) -> Num:
    e = exp(x)
    return (x.abs() < SMALL).where(x + (x * x) * x * (1 / 6), (e - 1.0 / e) * 0.5)


def cosh(x: Num) -> Num:
    e = exp(x)
    return (e + 1.0 / e) * 0.5


def asinh(x: Num) -> Num:
    size = x.abs()
    square = size * size
    far = log(size + (square + 1.0).sqrt())
    return (size < SMALL).where(size - square * size * (1 / 6), far).copysign(x)


def acosh(x: Num) -> Num:
    value = log(x + ((x - 1.0) * (x + 1.0)).sqrt())
    return (x < 1.0).where(NAN, value)


def atanh(x: Num) -> Num:
    far = log((x + 1.0) / (1.0 - x)) * 0.5
    return (x.abs() < SMALL).where(x + (x * x) * x * (1 / 3), far)


def atan2(y: Num, x: Num) -> Num:
    """The angle of the point (x, y); zeros and infinities as in C."""
    rise, run = y.abs(), x.abs()
    steep = rise > run
    low, high = steep.where(run, rise), steep.where(rise, run)
    ratio = low / high
    ratio = high.equals(0.0).where(0.0, low.equals(INFINITY).where(1.0, ratio))
    square = ratio * ratio
    angle = (ratio * square).mad(horner(square, ATAN), ratio)
    angle = steep.where(PI / 2 - angle, angle)
    angle = (x.bits() < 0).where(PI - angle, angle).copysign(y)
    return x.compare("uno", y).where(x + y, angle)


def atan(x: Num) -> Num:
    return atan2(x, x.const(1.0))


def asin(x: Num) -> Num:
    return atan2(x, ((1.0 - x) * (x + 1.0)).sqrt())


def acos(x: Num) -> Num:
    return atan2(((1.0 - x) * (x + 1.0)).sqrt(), x)


def tan(x: Num) -> Num:
    def fast() -> Num:
        n, r, _ = reduce_angle(x)
        sine, cosine = sin_near(r, None), cos_near(r, None)
        odd = (n & 1).differs(0)
        value = odd.where(-cosine, sine) / odd.where(sine, cosine)
        return x.equals(0.0).where(x, value)

    return guarded(x, LIMIT_F64, fast, "tan")


def _half_turns(x: Num, shift: int) -> Num:
    """sin (shift 0) or cos (shift 1) of pi x: n quarter turns are exact."""
    rest = x - (x * 0.5).nearest() * 2.0
    quarters = (rest * 2.0).nearest()
    angle = (rest - quarters * 0.5) * PI
    n = (quarters + 1.5 * 2.0**52).bits() + shift
    none = angle.const(0.0)
    value = (n & 1).differs(0).where(cos_near(angle, none), sin_near(angle, none))
    return (value.bits() ^ ((n & 2) << 62)).real()


def sinpi(x: Num) -> Num:
    return _half_turns(x, 0)


def cospi(x: Num) -> Num:
    return _half_turns(x, 1)


def power(x: Num, y: Num) -> Num:
    """x^y with C's special cases."""
    size = x.abs()
    value = exp(y * log(size))
    value = y.equals(0.0).where(1.0, size.equals(1.0).where(1.0, value))
    half = y * 0.5
    whole = y.equals(y.trunc())
    odd = whole.v, half.differs(half.trunc()).v
    negative = x.bits() < 0
    flipped = x.new(x.b.and_(x.b.and_(*odd), negative.v)).where(-value, value)
    # A negative number to a power that is no integer (every infinite power is one).
    undefined = x.b.and_((x < 0.0).v, x.b.and_((size < INFINITY).v, x.b.not_(whole.v)))
    result = x.new(undefined).where(NAN, flipped)
    # NaN, except for x^0 and 1^y.
    nan = x.b.and_(x.compare("uno", y).v, x.b.not_(x.b.or_(y.equals(0.0).v, x.equals(1.0).v)))
    return x.new(nan).where(x + y, result)


def power_of_integer(x: Num, n: Num) -> Num:
    return power(x, n.cast("sitofp", "double"))


def power_of_integer_by_libm(x: Num, n: Num) -> Num:
    return x.per_lane("pow", n.cast("sitofp", "double"))


def cbrt(x: Num) -> Num:
    return exp(log(x.abs()) * (1 / 3)).copysign(x)


def rcbrt(x: Num) -> Num:
    return exp(log(x.abs()) * (-1 / 3)).copysign(x)


def hypot(*parts: Num) -> Num:
    """The root of the sum of squares, which cannot overflow here; an infinity wins over NaN."""
    squares = parts[0] * parts[0]
    infinite = is_infinite(parts[0])
    for part in parts[1:]:
        squares = squares + part * part
        infinite = infinite | is_infinite(part)
    return infinite.where(INFINITY, squares.sqrt())


def rhypot(*parts: Num) -> Num:
    return 1.0 / hypot(*parts)


def chained(function: Callable[..., Num]) -> Callable[..., Num]:
    """A length of any number of sides from that of two. NaN beside finite sides gives NaN, though a part overflows."""

    def emit(first: Num, *others: Num) -> Num:
        length, infinite, unknown = first, is_infinite(first), first.is_nan()
        for other in others:
            length = function(length, other)
            infinite, unknown = infinite | is_infinite(other), unknown | other.is_nan()
        return (unknown & ~infinite).where(NAN, length)

    return emit


def reciprocal(function: Callable[..., Num]) -> Callable[..., Num]:
    return lambda *operands: 1.0 / function(*operands)
