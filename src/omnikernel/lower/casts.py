"""Handlers of conversions between types, lane by lane.

Stage: lowering. In: one operand as `Lanes`. Out: the result's `Lanes`. Every conversion to a float rounds once, from
the exact value. Conversions to integers truncate and saturate; NaN gives 0. Sources:
https://mlir.llvm.org/docs/Dialects/ArithOps/ and https://triton-lang.org/main/dialects/TritonOps.html
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UnsupportedOp
from ..ir.tile import Op
from ..ir.types import Pointer, Scalar
from ..llvm.emit import SCALAR_BITS, Builder, LValue
from .arith import result_element
from .convert import narrow
from .lanes import REGISTER, Lanes, elementwise, is_narrow


@elementwise("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
def lower_integer_width(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """Sign- or zero-extends, or keeps the low bits."""
    element = result_element(op)
    assert isinstance(element, Scalar)
    signed = op.name not in ("arith.extui", "arith.index_castui")
    return [Lanes(element, raw=resize(b, operands[0].raw(b), REGISTER[element.kind], signed=signed))]


def resize(b: Builder, x: LValue, scalar: str, *, signed: bool) -> LValue:
    """An integer with the width of another LLVM integer type."""
    to, width = SCALAR_BITS[scalar], x.type.bits
    if to == width:
        return x
    return b.cast("trunc" if to < width else "sext" if signed else "zext", x, scalar)


ROUNDING = {"to_nearest_even": "rtne", "toward_zero": "rtz", "rtne": "rtne", "rtz": "rtz"}


def rounding_of(op: Op) -> str:
    """`rtne` or `rtz`, as the op says.

    Raises:
        UnsupportedOp: for another rounding mode.
    """
    name = op.attributes.get("rounding") or op.attributes.get("roundingmode") or "rtne"
    if name not in ROUNDING:
        raise UnsupportedOp(
            f"{op.loc}: {op.name} with rounding {name} is not supported on the CPU; use to_nearest_even or toward_zero"
        )
    return ROUNDING[name]


@elementwise("arith.extf", "arith.truncf", "tt.fp_to_fp")
def lower_float_width(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """One rounding from the exact value; narrowing to fp8 saturates."""
    element = result_element(op)
    assert isinstance(element, Scalar)
    if element == operands[0].type:
        return [operands[0]]
    return [float_to(b, operands[0].wide(b), element, rounding_of(op), operands[0].type)]


def float_to(b: Builder, wide: LValue, to: Scalar, rounding: str, source: Scalar | Pointer) -> Lanes:
    """A float (in wide form) as another float type."""
    if to.kind == "f64":
        return Lanes(to, raw=b.cast("fpext", wide, "double"))
    if to.kind == "f32":
        return Lanes(to, raw=narrow(b, wide, "f32", rounding) if wide.type.scalar == "double" else wide)
    if (getattr(source, "kind", ""), to.kind) in EXACT:
        return Lanes(to, wide=wide)
    return Lanes(to, wide=narrow(b, wide, to.kind, rounding))


# Narrow types whose every value another narrow type has.
EXACT = frozenset(
    [(small, large) for large in ("f16", "bf16") for small in ("f8E5M2", "f8E4M3FN", "f8E4M3FNUZ", "f8E4M3B11FNUZ")]
    + [("f8E5M2FNUZ", "bf16"), ("f8E5M2FNUZ", "f16")]
)


@elementwise("arith.sitofp", "arith.uitofp")
def lower_integer_to_float(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """One rounding to nearest even; a true i1 is -1.0 as signed."""
    element = result_element(op)
    assert isinstance(element, Scalar)
    return [integer_to(b, operands[0].raw(b), element, signed="sitofp" in op.name)]


def integer_to(b: Builder, x: LValue, to: Scalar, *, signed: bool) -> Lanes:
    """An integer as a float of the given type."""
    if x.type.bits < 32:  # vectors convert from 32 bits
        x, signed = b.cast("sext" if signed else "zext", x, "i32"), True
    opcode = "sitofp" if signed else "uitofp"
    if not is_narrow(to):
        return Lanes(to, raw=b.cast(opcode, x, REGISTER[to.kind]))
    if x.type.bits == 64:
        x = sticky(b, x, signed=signed)
    # Exact in double, so that the only roundings are to odd and then to the narrow type.
    return Lanes(to, wide=narrow(b, b.cast(opcode, x, "double"), to.kind))


def sticky(b: Builder, x: LValue, *, signed: bool) -> LValue:
    """An i64 that a double holds, and that rounds to a narrow float as x does.

    Where x needs more than 53 bits, its low 11 bits are replaced by one bit that says whether any was set: far below
    the 11 bits of precision of the widest narrow float.
    """
    low = b.and_(x, b.integer(x.type, 0x7FF))
    marked = b.or_(
        b.sub(x, low), b.shl(b.cast("zext", b.icmp("ne", low, b.zero(x.type)), "i64"), b.integer(x.type, 11))
    )
    limit = 1 << 53
    if signed:
        small = b.icmp("ult", b.add(x, b.integer(x.type, limit)), b.integer(x.type, 2 * limit))
    else:
        small = b.icmp("ult", x, b.integer(x.type, limit))
    return b.select(small, x, marked)


@elementwise("arith.fptosi", "arith.fptoui")
def lower_float_to_integer(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """Truncates; saturates out of range; NaN gives 0."""
    element = result_element(op)
    assert isinstance(element, Scalar)
    value = float_to_integer(b, operands[0].wide(b), REGISTER[element.kind], signed="fptosi" in op.name)
    return [Lanes(element, raw=value)]


def float_to_integer(b: Builder, x: LValue, scalar: str, *, signed: bool) -> LValue:
    """As llvm.fptosi.sat and llvm.fptoui.sat, whose own lowering to vectors is several times longer.

    A lane that plain fptosi leaves undefined is replaced by a select.
    """
    bits = SCALAR_BITS[scalar]
    low, high = _bounds(bits, signed=signed)
    nan = b.fcmp("uno", x, b.zero(x.type))
    if bits < 32:  # both bounds are floats: clamp, and convert by way of i32, which vectors can
        least, most = b.real(x.type, low), b.real(x.type, high)
        clamped = b.select(b.fcmp("olt", most, x), most, x)
        clamped = b.select(b.fcmp("ogt", least, clamped), least, clamped)
        whole = b.cast("fptosi", clamped, "i32")
        return b.cast("trunc", b.select(nan, b.zero(whole.type), whole), scalar)
    over = b.fcmp("oge", x, b.real(x.type, high + 1))
    least = b.real(x.type, low)
    if not signed:  # takes NaN to 0 too
        whole = b.cast("fptoui", b.select(b.fcmp("ogt", x, least), x, least), scalar)
        return b.select(over, b.integer(whole.type, high), whole)
    whole = b.cast("fptosi", b.select(b.fcmp("ogt", least, x), least, x), scalar)
    whole = b.select(over, b.integer(whole.type, high), whole)
    return b.select(nan, b.zero(whole.type), whole)


def _bounds(bits: int, *, signed: bool) -> tuple[int, int]:
    """The least and the greatest integer of a width; i1 holds -1 and 0 as signed."""
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


@elementwise("arith.bitcast")
def lower_bitcast(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """The same bits as another type of the width."""
    element = result_element(op)
    assert isinstance(element, Scalar)
    return [Lanes(element, raw=b.cast("bitcast", operands[0].raw(b), REGISTER[element.kind]))]


__all__ = ["float_to", "float_to_integer", "integer_to", "resize", "sticky"]
