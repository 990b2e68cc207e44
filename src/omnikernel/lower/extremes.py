"""Maxima and minima of floats along lanes, as those of integers that are ordered like the floats.

A maximum of two floats that skips or keeps NaN and knows -0 from +0 takes x86 ten instructions without AVX-512. As the
result does not depend on the order, each element becomes an integer once, six instructions with the comparison, and the
lanes of one vector are reduced by a single LLVM intrinsic.

The integer of a float x (IEEE 754, 5.10: totalOrder) is its bits, those below the sign flipped where it is negative. NaN
becomes the least integer where it is skipped, and the greatest where it wins. A minimum is the maximum of what is left
with all signs flipped.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.tile import Op
from ..ir.types import Pointer, Scalar
from ..llvm.emit import DOUBLE, FLOAT, Builder, LType, LValue
from .function import FunctionLowering
from .lanes import Lanes, register_type
from .reduce import Combiner, ops_of_operands

# Whether the op gives the greatest, and whether it skips NaN.
_EXTREMES = {
    "arith.maxnumf": (True, True),
    "arith.minnumf": (False, True),
    "arith.maximumf": (True, False),
    "arith.minimumf": (False, False),
}


class Extremes(Combiner):
    """Combines each operand by one maximum or minimum of floats; carries integers."""

    def __init__(self, fl: FunctionLowering, op: Op, names: Sequence[str]) -> None:
        super().__init__(fl, op)
        self.orders = [_Order(fl.b, name, _float(t)) for name, t in zip(names, self.types, strict=True)]

    def unwrap(self, lanes: Sequence[Lanes]) -> list[LValue]:
        return [order.integer(v.wide(self.b)) for order, v in zip(self.orders, lanes, strict=True)]

    def start(self, bits: Sequence[int], lanes: int) -> list[LValue]:
        return [order.least(lanes) for order in self.orders]

    def fold(self, carried: list[LValue], new: list[LValue]) -> list[LValue]:
        return [self.b.intrinsic("smax", x.type, x, y) for x, y in zip(carried, new, strict=True)]

    def result(self, carried: list[LValue]) -> list[Lanes]:
        reduce = "llvm.vector.reduce.smax"
        greatest = [self.b.call(f"{reduce}.{v.type.suffix}", LType(v.type.scalar), v) for v in carried]
        return self.wrap([order.float(v) for order, v in zip(self.orders, greatest, strict=True)])


def extremes(fl: FunctionLowering, op: Op) -> Extremes | None:
    """The combiner of a reduction, if it takes maxima and minima of floats for which x86 has no single instruction."""
    if "avx2" not in fl.b.module.features or "avx512dq" in fl.b.module.features:
        return None
    names = ops_of_operands(op)
    return Extremes(fl, op, names) if names and all(name in _EXTREMES for name in names) else None


class _Order:
    """The integers of floats of one type for one op: its result is the float of the greatest."""

    def __init__(self, b: Builder, name: str, type_: LType) -> None:
        self.b, self.type = b, type_
        self.most, self.skips = _EXTREMES[name]

    def integer(self, x: LValue) -> LValue:
        b = self.b
        bits, unordered = b.cast("bitcast", x, f"i{x.type.bits}"), b.fcmp("uno", x, x)
        if not self.most:
            bits = b.xor(bits, self.sign(bits.type))
        if self.skips:  # all bits of a NaN are set, of which the flip makes the least integer
            return _flipped(b, b.or_(bits, b.cast("sext", unordered, bits.type.scalar)))
        return b.select(unordered, b.not_(self.sign(bits.type)), _flipped(b, bits))

    def float(self, integer: LValue) -> LValue:
        bits = _flipped(self.b, integer)
        if not self.most:
            bits = self.b.xor(bits, self.sign(bits.type))
        return self.b.cast("bitcast", bits, self.type.scalar)

    def least(self, lanes: int) -> LValue:
        """What is below or equal to all others: NaN where it is skipped, or else the worst infinity."""
        type_ = LType(f"i{self.type.bits}", lanes)
        infinity = 0x7FF << 52 if self.type.bits == 64 else 0xFF << 23
        return self.sign(type_) if self.skips else self.b.integer(type_, ~infinity)

    def sign(self, type_: LType) -> LValue:
        return self.b.integer(type_, 1 << type_.bits - 1)


def _float(element: Scalar | Pointer) -> LType:
    """The type in which numbers of that type are compared."""
    return DOUBLE if register_type(element) == DOUBLE else FLOAT


def _flipped(b: Builder, bits: LValue) -> LValue:
    """All but the sign flipped where the sign is set: from bits to what is ordered, and back."""
    sign = b.ashr(bits, b.integer(bits.type, bits.type.bits - 1))
    return b.xor(bits, b.lshr(sign, b.integer(bits.type, 1)))
