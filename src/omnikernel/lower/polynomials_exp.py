"""exp and its relatives as straight-line vector code, f32 and f64.

Stage: lowering. In and out: `Num`, any number of lanes. Coefficients come from tools/minimax.py.

Method: x = n ln2 + r with |r| <= ln2 / 2 (Cody and Waite, 1980: n ln2 is taken away in two parts, so r keeps its
accuracy), exp(x) = 2^n exp(r). The factor 2^n is applied as two factors, so that overflow gives infinity and subnormal
results are rounded once, by the last product.
"""

from __future__ import annotations

from . import x86
from .number import Num, horner

# exp(r) = 1 + r + r^2 P(r)
EXP_F32 = (0.4999999403953552, 0.1666652113199234, 0.04166825860738754, 0.00836866907775402, 0.001382135902531445)
EXP_F64 = (
    0.5000000000000011,
    0.1666666666666643,
    0.041666666666527005,
    0.00833333333348358,
    0.0013888888944325907,
    0.00019841269529798477,
    2.4801492471879813e-05,
    2.7557565902885174e-06,
    2.7630447369013415e-07,
    2.5006464556348073e-08,
)
# exp2(r) = 1 + r P(r)
EXP2_F32 = (
    0.6931472420692444,
    0.24022655189037323,
    0.05550272390246391,
    0.009617063216865063,
    0.0013418213929980993,
    0.00015820233966223896,
)
LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
# The high parts have few enough bits that their product with n is exact.
LN2_HIGH_F32, LN2_LOW_F32 = float.fromhex("0x1.63p-1"), float.fromhex("-0x1.bd0106p-13")
LN2_HIGH_F64, LN2_LOW_F64 = float.fromhex("0x1.62e42ffp-1"), float.fromhex("-0x1.718432a1b0e26p-35")
# Beyond these the result is infinity or 0 anyway; within them n and both factors 2^(n/2) are ordinary numbers.
RANGE_F32, RANGE_F64 = (-105.0, 90.0), (-747.0, 711.0)


def whole_and_rest(x: Num) -> tuple[Num, Num]:
    """The integral n nearest to x / ln2, and x - n ln2. Needs |x / ln2| below 2^22."""
    magic = 1.5 * 2.0 ** (52 if x.is_double else 23)
    n = x.mad(LOG2E, magic) - magic
    high, low = (LN2_HIGH_F64, LN2_LOW_F64) if x.is_double else (LN2_HIGH_F32, LN2_LOW_F32)
    return n, n.mad(-low, n.mad(-high, x))


def near_zero(r: Num) -> Num:
    """exp(r) for |r| <= ln2 / 2."""
    return horner(r, (1.0, 1.0, *(EXP_F64 if r.is_double else EXP_F32)))


def scaled(p: Num, n: Num) -> Num:
    """p 2^n for integral n with |n| < 1100 (f64) or 160 (f32); overflow and subnormals as IEEE has them."""
    instruction = x86.scale(p.b, p.v, n.v)
    if instruction:
        return p.new(instruction)
    bits, bias = (52, 1023) if p.is_double else (23, 127)
    # The low bits of n + 1.5 * 2^bits + 2 bias are n + 2 bias. Its halves, shifted into place, are numbers 2^m.
    both = (n + (1.5 * 2.0**bits + 2 * bias)).bits()
    first = both.shift_down(1)
    second = both - first
    return (p * (first << bits).real()) * (second << bits).real()


def scaled_normal(p: Num, n: Num) -> Num:
    """p 2^n where 2^n and the result are normal numbers."""
    bits, bias = (52, 1023) if p.is_double else (23, 127)
    return p * ((n + (1.5 * 2.0**bits + bias)).bits() << bits).real()


def exp(x: Num) -> Num:
    """e^x."""
    low, high = RANGE_F64 if x.is_double else RANGE_F32
    n, r = whole_and_rest(x.at_most(high).at_least(low))
    # Of what lies further down, -inf in masked lanes above all, the factor is 0: an underflow costs some processors 200
    # cycles a vector.
    return scaled((x < low).where(0.0, near_zero(r)), n)


def exp_normal(x: Num) -> Num:
    """e^x where x is finite and e^x a normal number."""
    n, r = whole_and_rest(x)
    return scaled_normal(near_zero(r), n)


def exp2(x: Num) -> Num:
    """2^x; x - n is exact."""
    low, high = (-1077.0, 1025.0) if x.is_double else (-152.0, 129.0)
    below = x < low
    x = x.at_most(high).at_least(low)
    magic = 1.5 * 2.0 ** (52 if x.is_double else 23)
    n = (x + magic) - magic
    r = x - n
    # In f64 the rounding of r ln2 moves the result by less than 0.2 ulp.
    factor = near_zero(r * LN2) if x.is_double else horner(r, (1.0, *EXP2_F32))
    return scaled(below.where(0.0, factor), n)  # no underflow further down, as in exp
