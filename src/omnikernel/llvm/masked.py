"""Masked loads and stores of consecutive lanes where the machine has no instruction for them.

LLVM makes a branch for every lane of such an access, 32 of them at most places: on AVX2 those of three accesses of
8 or 16 bits took longer to compile than all else in a matrix product. Here it is a loop over the lanes of the mask that
are on, and one vector where all of them are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .values import I1, I32, I64, LType, LValue

if TYPE_CHECKING:
    from .emit import Builder

# Fewer lanes are as short one by one; more do not fit the integer that holds the mask.
LEAST, MOST = 8, 64


def by_lane(b: Builder, type_: LType, mask: LValue) -> bool:
    """Whether an access of that type is made lane by lane: the target has no instruction, and the mask is no constant."""
    wanted = {"avx512bw", "sve"} if type_.bits < 32 else {"avx", "avx512bw", "sve"}
    return LEAST <= type_.lanes <= MOST and not (wanted & b.module.features) and mask.text.startswith("%")


def load(b: Builder, type_: LType, pointer: LValue, align: int, mask: LValue, other: LValue) -> LValue:
    """What `llvm.masked.load` gives."""
    bits, full = _bits(b, mask)

    def lane_by_lane() -> list[LValue]:
        kept = b.scratch(type_)
        b.store(other, kept, 64)
        _each(b, bits, lambda at: _move(b, type_.scalar, pointer, kept, at, align))
        return [b.load(type_, kept, 64)]

    return b.branch(full, lambda: [b.load(type_, pointer, align)], lane_by_lane)[0]


def store(b: Builder, value: LValue, pointer: LValue, align: int, mask: LValue) -> None:
    """What `llvm.masked.store` does."""
    bits, full = _bits(b, mask)

    def whole() -> list[LValue]:
        b.store(value, pointer, align)
        return []

    def lane_by_lane() -> list[LValue]:
        kept = b.scratch(value.type)
        b.store(value, kept, 64)
        _each(b, bits, lambda at: _move(b, value.type.scalar, kept, pointer, at, align))
        return []

    b.branch(full, whole, lane_by_lane)


def _bits(b: Builder, mask: LValue) -> tuple[LValue, LValue]:
    """The mask as an integer, a bit a lane, and whether all are on."""
    narrow = LType(f"i{mask.lanes}")
    bits = b.emit(narrow, f"bitcast {mask} to {narrow}")
    full = b.icmp("eq", bits, b.integer(narrow, -1))
    wide = I64 if mask.lanes > I32.bits else I32
    return (bits if narrow == wide else b.cast("zext", bits, wide.scalar)), full


def _each(b: Builder, bits: LValue, body: Callable[[LValue], None]) -> None:
    """Run `body` for the number of every bit that is on, from the lowest up."""
    type_ = bits.type

    def step(values: list[LValue]) -> list[LValue]:
        (left,) = values
        at = b.intrinsic("cttz", type_, left, LValue("true", I1))
        body(b.cast("zext", at, "i64"))
        return [b.and_(left, b.sub(left, b.integer(type_, 1)))]

    b.loop_while([bits], lambda values: b.icmp("ne", values[0], b.zero(type_)), step)


def _move(b: Builder, scalar: str, source: LValue, target: LValue, at: LValue, align: int) -> None:
    b.store(b.load(LType(scalar), b.gep(scalar, source, at), align), b.gep(scalar, target, at), align)
