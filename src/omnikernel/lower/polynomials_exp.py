"""exp and its relatives as straight-line vector code, f32 and f64.

Stage: lowering. In and out: `Num`, any number of lanes. Coefficients come from tools/minimax.py.

Method: x = n ln2 + r with |r| <= ln2 / 2 (Cody and Waite, 1980: n ln2 is taken away in two parts, so r keeps its
accuracy), exp(x) = 2^n exp(r). The factor 2^n is applied as two factors, so that overflow gives infinity and subnormal
results are rounded once, by the last product.
"""

from __future__ import annotations

from .number import Num, by_parts, horner

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
    instruction = _scalef(p, n)
    if instruction:
        return instruction
    bits, bias = (52, 1023) if p.is_double else (23, 127)
    # The low bits of m + 1.5 * 2^bits + bias are m + bias: shifted into place they are the number 2^m.
    magic = 1.5 * 2.0**bits + bias
    first = n.mad(0.5, magic)
    second = (n - (first - magic)) + magic
    return (p * (first.bits() << bits).real()) * (second.bits() << bits).real()


def scaled_normal(p: Num, n: Num) -> Num:
    """p 2^n where 2^n and the result are normal numbers."""
    bits, bias = (52, 1023) if p.is_double else (23, 127)
    return p * ((n + (1.5 * 2.0**bits + bias)).bits() << bits).real()


def _scalef(p: Num, n: Num) -> Num | None:
    """AVX-512's p 2^n; None where the target or the number of lanes does not have it."""
    features, lanes, full = p.b.module.features, p.v.lanes, 8 if p.is_double else 16
    if "avx512f" not in features:
        return None
    if lanes > full and lanes % full == 0:
        b = p.b
        parts = iter(range(0, lanes, full))
        return by_parts(p, full, lambda part: _part(part, Num(b, b.shuffle(n.v, None, range(at := next(parts), at + full)))))
    if lanes == full or ("avx512vl" in features and lanes in (full // 2, full // 4)):
        return _part(p, n)
    return None


def _part(p: Num, n: Num) -> Num:
    b, lanes, kind = p.b, p.v.lanes, "pd" if p.is_double else "ps"
    width = lanes * p.type.bits
    name = f"llvm.x86.avx512.mask.scalef.{kind}.{width}"
    mask = f"i{max(8, lanes)}"
    rounding = ", i32 4" if width == 512 else ""
    b.module.declare(name, p.type, [p.type, p.type, p.type, mask, *(["i32"] if rounding else [])])
    text = f"call {p.type} @{name}({p.v}, {n.v}, {p.type} zeroinitializer, {mask} -1{rounding})"
    return p.new(b.emit(p.type, text))


def exp(x: Num) -> Num:
    """e^x."""
    low, high = RANGE_F64 if x.is_double else RANGE_F32
    n, r = whole_and_rest(x.at_most(high).at_least(low))
    return scaled(near_zero(r), n)


def exp_normal(x: Num) -> Num:
    """e^x where x is finite and e^x a normal number."""
    n, r = whole_and_rest(x)
    return scaled_normal(near_zero(r), n)


def exp2(x: Num) -> Num:
    """2^x; x - n is exact."""
    low, high = (-1077.0, 1025.0) if x.is_double else (-152.0, 129.0)
    x = x.at_most(high).at_least(low)
    magic = 1.5 * 2.0 ** (52 if x.is_double else 23)
    n = (x + magic) - magic
    r = x - n
    # In f64 the rounding of r ln2 moves the result by less than 0.2 ulp.
    return scaled(near_zero(r * LN2) if x.is_double else horner(r, (1.0, *EXP2_F32)), n)
