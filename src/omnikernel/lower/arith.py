"""Handlers of arithmetic, comparison and selection, lane by lane.

Stage: lowering. In: operands as `Lanes`. Out: LLVM IR text and the results' `Lanes`. Nothing here traps, whatever the
operands: masked-off lanes are computed too. Sources: https://mlir.llvm.org/docs/Dialects/ArithOps/ and the rows of
`ir/ops.py`; what LLVM leaves undefined gives what a GPU gives.

Narrow floats (f16, bf16, fp8) are computed in f32 and rounded once. For + - * / and sqrt of at most 11-bit significands
that is the correctly rounded result, since f32 has more than twice as many bits plus two.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from ..ir.tile import Op
from ..ir.types import Pointer, Scalar, element_of
from ..llvm.emit import Builder, LType, LValue
from . import x86
from .convert import FORMATS, bits_of, float_of, fused, fused_bf16, is_nan, round_to, single, to_odd
from .divide import divide, divide_rounded
from .lanes import Lanes, elementwise, is_narrow

Emit = Callable[[Builder, LValue, LValue], LValue]


def result_element(op: Op, index: int = 0) -> Scalar | Pointer:
    """The element type of a result."""
    return element_of(op.results[index].type)


def result_kind(op: Op) -> str:
    """The kind of the element of the only result, which must not be a pointer."""
    element = result_element(op)
    assert isinstance(element, Scalar), op
    return element.kind


def rounded(b: Builder, op: Op, wide: LValue, *, clean_nan: bool = False) -> list[Lanes]:
    """The result of a float op computed in f32 (or f64): rounded to the op's type where that is narrow."""
    element = result_element(op)
    if not is_narrow(element):
        return [Lanes(element, raw=wide)]
    return [Lanes(element, wide=round_to(b, wide, result_kind(op), clean_nan=clean_nan))]


def exact(op: Op, wide: LValue) -> list[Lanes]:
    """The result of a float op that gives one of its operands, or a value that the type holds anyway."""
    element = result_element(op)
    return [Lanes(element, wide=wide) if is_narrow(element) else Lanes(element, raw=wide)]


# --- integers --------------------------------------------------------------------------------------------------------

RING = {"addi": "add", "subi": "sub", "muli": "mul", "andi": "and", "ori": "or", "xori": "xor"}


@elementwise(*(f"arith.{name}" for name in RING))
def lower_ring(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """Two's complement ring and bitwise operations; they wrap."""
    left, right = (v.raw(b) for v in operands)
    return [Lanes(result_element(op), raw=b.binary(RING[op.name.split(".")[1]], left, right))]


@elementwise("arith.divsi", "arith.divui", "arith.remsi", "arith.remui")
def lower_divide(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """x/0 = all ones, x%0 = x, min/-1 = min, min%-1 = 0."""
    left, right = (v.raw(b) for v in operands)
    quotient, remainder = divide(b, left, right, signed=op.name.endswith("si"))
    return [Lanes(result_element(op), raw=(quotient if "div" in op.name else remainder)())]


@elementwise("arith.ceildivsi", "arith.ceildivui", "arith.floordivsi")
def lower_rounded_divide(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """The truncated quotient, corrected by one where the exact one lies beyond it."""
    left, right = (v.raw(b) for v in operands)
    value = divide_rounded(b, left, right, signed=op.name.endswith("si"), up="ceil" in op.name)
    return [Lanes(result_element(op), raw=value)]


@elementwise("arith.shli", "arith.shrsi", "arith.shrui")
def lower_shift(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """A shift by the width or more gives 0, or copies of the sign."""
    value, amount = (v.raw(b) for v in operands)
    width = value.type.bits
    kind = op.name.removeprefix("arith.")
    if width == 1:
        result = value if kind == "shrsi" else b.and_(value, b.not_(amount))
    elif kind == "shrsi":
        result = b.ashr(value, b.intrinsic("umin", amount.type, amount, b.integer(amount.type, width - 1)))
    else:
        shifted = b.shl(value, amount) if kind == "shli" else b.lshr(value, amount)
        inside = b.icmp("ult", amount, b.integer(amount.type, width))
        result = b.select(inside, shifted, b.zero(value.type))
    return [Lanes(result_element(op), raw=result)]


@elementwise("arith.cmpi")
def lower_cmpi(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    left, right = (v.raw(b) for v in operands)
    return [Lanes(result_element(op), raw=b.icmp(op.attributes["predicate"], left, right))]


@elementwise("arith.maxsi", "arith.maxui", "arith.minsi", "arith.minui")
def lower_integer_order(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    left, right = (v.raw(b) for v in operands)
    most, signed = "max" in op.name, op.name.endswith("si")
    if left.type.bits == 1:  # as a signed number the set bit is -1, so signed order is the reverse
        value = b.or_(left, right) if most != signed else b.and_(left, right)
    else:
        value = b.intrinsic(f"{'s' if signed else 'u'}{'max' if most else 'min'}", left.type, left, right)
    return [Lanes(result_element(op), raw=value)]


@elementwise("math.absi")
def lower_absi(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """|min| wraps to min."""
    return [Lanes(result_element(op), raw=absolute_integer(b, operands[0].raw(b)))]


def absolute_integer(b: Builder, x: LValue) -> LValue:
    """|x| of signed integers, wrapping."""
    if x.type.bits == 1:
        return x
    b.module.declare(f"llvm.abs.{x.type.suffix}", x.type, [x.type, "i1"])
    return b.emit(x.type, f"call {x.type} @llvm.abs.{x.type.suffix}({x}, i1 false)")


def high_product(b: Builder, x: LValue, y: LValue, *, signed: bool) -> tuple[LValue, LValue]:
    """The low and the high half of the double-width product."""
    width = x.type.bits
    double = {1: "i8", 8: "i16", 16: "i32", 32: "i64", 64: "i128"}[width]
    if width == 64 and x.lanes:
        return b.mul(x, y), _high_product_64(b, x, y, signed=signed)
    extend = "sext" if signed else "zext"
    product = b.mul(b.cast(extend, x, double), b.cast(extend, y, double))
    high = b.lshr(product, b.integer(product.type, width))
    return b.cast("trunc", product, x.type.scalar), b.cast("trunc", high, x.type.scalar)


def _high_product_64(b: Builder, x: LValue, y: LValue, *, signed: bool) -> LValue:
    """The high 64 bits from four 32-bit products, which vectors have; i128 would be computed lane by lane."""
    low = b.integer(x.type, 0xFFFFFFFF)
    half = b.integer(x.type, 32)
    x0, x1, y0, y1 = b.and_(x, low), b.lshr(x, half), b.and_(y, low), b.lshr(y, half)
    middle = b.add(b.mul(x1, y0), b.lshr(b.mul(x0, y0), half))
    other = b.add(b.mul(x0, y1), b.and_(middle, low))
    high = b.add(b.add(b.mul(x1, y1), b.lshr(middle, half)), b.lshr(other, half))
    if not signed:
        return high
    sign = b.integer(x.type, 63)
    high = b.sub(high, b.and_(b.ashr(x, sign), y))
    return b.sub(high, b.and_(b.ashr(y, sign), x))


@elementwise("arith.mului_extended", "arith.mulsi_extended")
def lower_extended_product(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    left, right = (v.raw(b) for v in operands)
    halves = high_product(b, left, right, signed="mulsi" in op.name)
    return [Lanes(result_element(op, i), raw=half) for i, half in enumerate(halves)]


@elementwise("tt.mulhiui")
def lower_mulhiui(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    left, right = (v.raw(b) for v in operands)
    return [Lanes(result_element(op), raw=high_product(b, left, right, signed=False)[1])]


@elementwise("arith.addui_extended")
def lower_extended_sum(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    left, right = (v.raw(b) for v in operands)
    total = b.add(left, right)
    carry = b.and_(left, right) if left.type.bits == 1 else b.icmp("ult", total, left)
    return [Lanes(result_element(op), raw=total), Lanes(result_element(op, 1), raw=carry)]


# --- floats ----------------------------------------------------------------------------------------------------------


@elementwise("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "tt.precise_divf")
def lower_float_binary(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """IEEE operations, rounded to nearest even."""
    left, right = (v.wide(b) for v in operands)
    opcode = {"addf": "fadd", "subf": "fsub", "mulf": "fmul"}.get(op.name.split(".")[1], "fdiv")
    return rounded(b, op, b.binary(opcode, left, right), clean_nan=True)


def per_lane(b: Builder, symbol: str, type_: LType, *args: LValue) -> LValue:
    """Call a C library function lane by lane; `type_` is the result's type with as many lanes as the arguments."""
    scalar = LType(type_.scalar)
    if not type_.lanes:
        return b.call(symbol, scalar, *args)
    value = LValue("poison", type_)
    for lane in range(type_.lanes):
        value = b.insert(value, b.call(symbol, scalar, *(b.extract(a, lane) for a in args)), lane)
    return value


@elementwise("arith.remf")
def lower_remf(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """C's fmod, which is exact; so it is for narrow floats computed in f32."""
    left, right = (v.wide(b) for v in operands)
    return exact(op, per_lane(b, "fmod" if left.type.scalar == "double" else "fmodf", left.type, left, right))


@elementwise("arith.negf")
def lower_negf(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """Flips the sign bit, of NaN too."""
    return _on_sign(b, op, operands[0], b.fneg, "xor", -1)


@elementwise("math.absf")
def lower_absf(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """Clears the sign bit, of NaN too."""
    return _on_sign(b, op, operands[0], lambda x: b.intrinsic("fabs", x.type, x), "and", 0)


def _on_sign(
    b: Builder, op: Op, operand: Lanes, emit: Callable[[LValue], LValue], opcode: str, flip: int
) -> Sequence[Lanes]:
    element = result_element(op)
    assert isinstance(element, Scalar)
    if not is_narrow(element):
        return [Lanes(element, raw=emit(operand.raw(b)))]
    form = FORMATS[element.kind]
    if form.fnuz:  # the code of -0 is NaN
        return [Lanes(element, wide=round_to(b, emit(operand.wide(b)), element.kind))]
    if operand.has_wide:
        return [Lanes(element, wide=emit(operand.wide(b)))]
    raw = operand.raw(b)
    return [Lanes(element, raw=b.binary(opcode, raw, b.integer(raw.type, form.sign if flip else form.sign - 1)))]


@elementwise("arith.cmpf")
def lower_cmpf(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    left, right = (v.wide(b) for v in operands)
    return [Lanes(result_element(op), raw=b.fcmp(op.attributes["predicate"], left, right))]


def maximum(b: Builder, x: LValue, y: LValue) -> LValue:
    """The greater; NaN where either is NaN; -0 is below +0."""
    return _propagating(b, x, y, most=True)


def minimum(b: Builder, x: LValue, y: LValue) -> LValue:
    """The lesser; NaN where either is NaN; -0 is below +0."""
    return _propagating(b, x, y, most=False)


def _propagating(b: Builder, x: LValue, y: LValue, *, most: bool) -> LValue:
    instruction = x86.extremum(b, x, y, most=most)
    if instruction is None:
        return b.intrinsic("maximum" if most else "minimum", x.type, x, y)
    return b.select(b.fcmp("uno", x, y), b.fadd(x, y), instruction)


def maxnum(b: Builder, x: LValue, y: LValue) -> LValue:
    """The greater, or the other one where one is NaN; -0 is below +0."""
    return _skipping(b, x, y, most=True)


def minnum(b: Builder, x: LValue, y: LValue) -> LValue:
    """The lesser, or the other one where one is NaN; -0 is below +0."""
    return _skipping(b, x, y, most=False)


def _skipping(b: Builder, x: LValue, y: LValue, *, most: bool) -> LValue:
    for one, other in ((x, y), (y, x)):
        # With a number a comparison does, one instruction on x86: NaN fails it, and so does the zero of the other sign,
        # as long as the number is the zero that wins.
        number = _number(one)
        if number is not None and not math.isnan(number) and (number or (math.copysign(1, number) > 0) == most):
            return b.select(b.fcmp("ogt" if most else "olt", other, one), other, one)
    # VRANGE skips quiet NaN only, so signalling ones are made quiet first: by VRANGE of a value with itself, since LLVM 22
    # cannot lower llvm.canonicalize once it has narrowed one to two lanes.
    quiet = [x86.extremum(b, v, v, most=most) for v in (x, y)]
    if quiet[0] is not None and quiet[1] is not None:
        instruction = x86.extremum(b, quiet[0], quiet[1], most=most)
        assert instruction is not None
        return instruction
    # Not llvm.maximumnum: LLVM 22 gives NaN for (NaN, y) on x86 where it knows that y is no NaN.
    extreme = maximum(b, x, y) if most else minimum(b, x, y)
    without_y = b.select(b.fcmp("uno", y, y), x, extreme)
    return b.select(b.fcmp("uno", x, x), y, without_y)


def _number(value: LValue) -> float | None:
    """The value of a float constant, splatted or not; None for anything else."""
    text = value.text.removeprefix(f"splat ({value.type.scalar} ").removesuffix(")")
    return struct.unpack("<d", int(text, 16).to_bytes(8, "little"))[0] if text.startswith("0x") else None


ORDER: dict[str, Emit] = {"maximumf": maximum, "minimumf": minimum, "maxnumf": maxnum, "minnumf": minnum}


@elementwise(*(f"arith.{name}" for name in ORDER))
def lower_float_order(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    left, right = (v.wide(b) for v in operands)
    return exact(op, ORDER[op.name.split(".")[1]](b, left, right))


@elementwise("tt.clampf")
def lower_clampf(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """min(max(x, low), high); NaN gives the lower bound, or what `propagateNan` and `nan` say."""
    x, low, high = (v.wide(b) for v in operands)
    keep = op.attributes.get("propagateNan", "none") == "all"
    if keep:
        return exact(op, minimum(b, maximum(b, x, low), high))
    if op.attributes.get("nan") == "high":
        return exact(op, maxnum(b, minnum(b, x, high), low))
    return exact(op, minnum(b, maxnum(b, x, low), high))


@elementwise("arith.select")
def lower_select(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """The condition may be one i1 for whole vectors."""
    condition, yes, no = operands
    element = result_element(op)
    # Bits are the cheaper form to select, but a value that is wide already would have to be packed first.
    if is_narrow(element) and (yes.has_wide or no.has_wide):
        return [Lanes(element, wide=b.select(condition.raw(b), yes.wide(b), no.wide(b)))]
    return [Lanes(element, raw=b.select(condition.raw(b), yes.raw(b), no.raw(b)))]


def has_fma(b: Builder) -> bool:
    """Whether the target multiplies and adds in one instruction."""
    return "fma" in b.module.features or "avx512f" in b.module.features or "neon" in b.module.features


def fma(b: Builder, x: LValue, y: LValue, z: LValue) -> LValue:
    """x * y + z of f32 or f64 with one rounding; f64 without hardware support calls C's fma."""
    if has_fma(b):
        return b.fma(x, y, z)
    if x.type.scalar == "double":
        return per_lane(b, "fma", x.type, x, y, z)
    return single(b, fused(b, x, y, z))


@elementwise("math.fma")
def lower_fma(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """One rounding, to the op's own type."""
    x, y, z = (v.wide(b) for v in operands)
    if not is_narrow(result_element(op)):
        return exact(op, fma(b, x, y, z))
    kind = result_kind(op)
    if kind == "bf16" and has_fma(b):
        value = fused_bf16(b, x, y, z)
    elif kind == "f16":
        # In double only a sum far from any tie of f16 can be inexact: its terms are multiples of 2^-48.
        wide = [b.cast("fpext", v, "double") for v in (x, y, z)]
        value = to_odd(b, b.fadd(b.fmul(wide[0], wide[1]), wide[2]))
    else:
        value = to_odd(b, fused(b, x, y, z))
    return rounded(b, op, value, clean_nan=True)


@elementwise("math.sqrt", "tt.precise_sqrt")
def lower_sqrt(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """Correctly rounded."""
    x = operands[0].wide(b)
    return rounded(b, op, b.intrinsic("sqrt", x.type, x), clean_nan=True)


__all__ = ["absolute_integer", "bits_of", "exact", "float_of", "fma", "has_fma", "is_nan", "per_lane", "rounded"]
