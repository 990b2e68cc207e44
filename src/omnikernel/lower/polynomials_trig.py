"""sin and cos as straight-line vector code, f32 and f64, with a guarded slow path for huge arguments.

Stage: lowering. In and out: `Num`, any number of lanes. Coefficients come from tools/minimax.py.

Method: x = n pi/2 + r with |r| <= pi/4, pi/2 taken away in three parts; then sin(r) or cos(r) by n's parity. The
product of n and the first part is exact, and so is its difference from x, as long as n is small (`LIMIT`). A lane
beyond that gets its value from the C library, which reduces exactly; the lanes beside it keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable

from ..llvm.emit import LValue
from .arith import has_fma
from .number import Num, horner

SIN_F32 = (-0.1666666716337204, 0.008333379402756691, -0.00019853089179378003, 2.8330221084615914e-06)
COS_F32 = (0.04166664555668831, -0.0013887310633435845, 2.4432567443000153e-05)
SIN_F64 = (
    -0.1666666666666663,
    0.008333333333321915,
    -0.00019841269829455713,
    2.755731358155453e-06,
    -2.505074226200602e-08,
    1.5895943384847497e-10,
)
COS_F64 = (
    0.041666666666666595,
    -0.001388888888887335,
    2.4801587289010197e-05,
    -2.755731421979084e-07,
    2.087570579896039e-09,
    -1.135877083837084e-11,
)
TWO_OVER_PI = 0.6366197723675814
# pi/2 in parts of 24 bits (f32, fused), 33 and 53 bits (f32 in double), 53 bits (f64, fused), 33, 33, 53 bits (f64).
PARTS_F32 = ("0x1.921fb6p+0", "-0x1.777a5cp-25", "-0x1.ee59dap-50")
PARTS_F32_DOUBLE = ("0x1.921fb544p+0", "0x1.0b4611a626331p-34")
PARTS_F64 = ("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54", "-0x1.f1976b7ed8fbcp-110")
PARTS_F64_UNFUSED = ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2e037073p-69")
LIMIT_F32, LIMIT_F64 = 2.0**15, 2.0**20


def _magic(x: Num) -> float:
    return 1.5 * 2.0 ** (52 if x.is_double else 23)


def reduce_angle(x: Num) -> tuple[Num, Num, Num | None]:
    """n as an integer (its low bits), r, and in f64 what r leaves of x - n pi/2."""
    if x.is_double:
        return _reduce_double(x)
    if has_fma(x.b):
        shifted = x.mad(TWO_OVER_PI, _magic(x))
        n, r = shifted - _magic(x), x
        for part in PARTS_F32:
            r = n.mad(-float.fromhex(part), r)
        return shifted.bits(), r, None
    wide = x.double()
    shifted = wide * TWO_OVER_PI + _magic(wide)
    n = shifted - _magic(wide)
    high, low = map(float.fromhex, PARTS_F32_DOUBLE)
    return shifted.bits().cast("trunc", "i32"), ((wide - n * high) - n * low).single(), None


def _reduce_double(x: Num) -> tuple[Num, Num, Num]:
    shifted = x.mad(TWO_OVER_PI, _magic(x))
    n = shifted - _magic(x)
    first, second, third = map(float.fromhex, PARTS_F64 if has_fma(x.b) else PARTS_F64_UNFUSED)
    near = n.mad(-first, x)
    if has_fma(x.b):
        r = n.mad(-second, near)
        rest = n.mad(-third, n.mad(-second, near - r))
        return shifted.bits(), r, rest
    middle = near - n * second
    correction = n * third - ((near - middle) - n * second)
    r = middle - correction
    return shifted.bits(), r, (middle - r) - correction


def sin_near(r: Num, rest: Num | None) -> Num:
    """sin(r + rest) for |r| <= pi/4."""
    z = r * r
    if rest is None:
        return (z * r).mad(horner(z, SIN_F32), r)
    cube = z * r
    inner = horner(z, SIN_F64[1:])
    # sin(r + rest) is about sin(r) + rest (1 - r^2/2).
    return r - ((z * (rest * 0.5 - cube * inner) - rest) - cube * SIN_F64[0])


def cos_near(r: Num, rest: Num | None) -> Num:
    """cos(r + rest) for |r| <= pi/4."""
    z = r * r
    if rest is None:
        return (z * z).mad(horner(z, COS_F32), z.mad(-0.5, 1.0))
    half = z * 0.5
    lead = 1.0 - half
    return lead + (((1.0 - lead) - half) + ((z * z) * horner(z, COS_F64) - r * rest))


def _by_quadrant(n: Num, r: Num, rest: Num | None, shift: int) -> Num:
    """sin for shift 0, cos for shift 1: cos(x) = sin(x + pi/2)."""
    quadrant = n + shift if shift else n
    odd = (quadrant & 1).differs(0)
    value = odd.where(cos_near(r, rest), sin_near(r, rest))
    sign = (quadrant & 2) << (62 if r.is_double else 30)
    return (value.bits() ^ sign).real()


def guarded(x: Num, limit: float, fast: Callable[[], Num], symbol: str) -> Num:
    """fast(), but the C library's function in the lanes where limit < |x| < infinity."""
    size = x.abs()
    far = x.new(x.b.and_((size > limit).v, (size < float("inf")).v))
    near = fast()

    def slow() -> list[LValue]:
        return [far.where(x.per_lane(symbol), near).v]

    return x.new(x.b.branch(far.any().v, slow, lambda: [near.v])[0])


def _sine(x: Num, shift: int, symbol: str) -> Num:
    limit = LIMIT_F64 if x.is_double else LIMIT_F32
    name = symbol if x.is_double else f"{symbol}f"

    def fast() -> Num:
        # An infinity becomes NaN by the first product's difference from itself.
        value = _by_quadrant(*reduce_angle(x), shift)
        return value if shift else x.equals(0.0).where(x, value)  # sin(-0) is -0

    return guarded(x, limit, fast, name)


def sin(x: Num) -> Num:
    """The sine of x in radians."""
    return _sine(x, 0, "sin")


def cos(x: Num) -> Num:
    """The cosine of x in radians."""
    return _sine(x, 1, "cos")
