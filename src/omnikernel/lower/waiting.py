"""Products of bytes of several trips of a loop, made at once.

A block of the result is loaded and stored once for all the tiles that wait, which takes as long as multiplying sixteen
steps of k. (For f32, a quarter as many a register, there is nothing to gain: measured.) Only products wait whose operands
are computed from memory that the kernel never writes, and whose sums nobody reads before the loop ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.tile import Op
from ..llvm.emit import I64, PTR, Builder, LValue
from .evaluate import Buffer
from .function import FunctionLowering

FIRST_CACHE = 32 << 10  # bytes of a panel of the right operand that a block goes through
SECOND_CACHE = 256 << 10  # of all tiles that wait
MOST = 8


@dataclass(frozen=True, slots=True)
class Waiting:
    """The pairs of tiles that wait for a product.

    Attributes:
        most: how many may.
        number: how many do when the trip begins.
        cell: where that number is kept.
        table: where the pairs' pointers are.
        full: whether all that wait are multiplied in this trip.
    """

    most: int
    number: LValue
    cell: LValue
    table: LValue
    full: LValue

    def room(self, fl: FunctionLowering, size: int) -> LValue:
        """Where this trip's tile of `size` bytes can wait."""
        size = (size + 63) & -64
        return fl.b.gep("i8", fl.lasting(size * self.most), fl.b.mul(self.number, fl.b.integer(I64, size)))

    def add(self, b: Builder, left: LValue, right: LValue) -> None:
        """One more pair of tiles waits."""
        for side, pointer in enumerate((left, right)):
            b.store(pointer, self._place(b, self.number, side), 8)
        b.store(b.select(self.full, b.integer(I64, 0), self.count(b)), self.cell, 8)

    def pair(self, b: Builder, number: LValue) -> tuple[LValue, LValue]:
        """A pair that waits."""
        return b.load(PTR, self._place(b, number, 0), 8), b.load(PTR, self._place(b, number, 1), 8)

    def _place(self, b: Builder, number: LValue, side: int) -> LValue:
        return b.gep("ptr", self.table, b.add(b.add(number, number), b.integer(I64, side)))

    def count(self, b: Builder) -> LValue:
        """How many pairs wait, this trip's included."""
        return b.add(self.number, b.integer(I64, 1))


def wait(fl: FunctionLowering, op: Op, panel: int, tiles: int) -> Waiting | None:
    """Let the tiles of a product wait until they are many, or the loop ends; None where they cannot.

    Args:
        fl: the function.
        op: the product.
        panel: bytes of the right operand that one block of the result goes through in a trip.
        tiles: bytes of both operands of a trip.
    """
    most = min(MOST, FIRST_CACHE // panel, SECOND_CACHE // tiles)
    most = 1 << (most.bit_length() - 1) if most else 0
    target, carried = fl.in_place.get(op), fl.bindings.get(op.operands[2])
    if most < 2 or fl.trip is None or target is None:
        return None
    if not isinstance(carried, Buffer) or carried.pointer != target.pointer:
        return None
    for which, value in enumerate(op.operands[:2]):
        if (op, which) not in fl.schedule.shared or value in fl.schedule.keep or value in fl.bindings:
            return None
    b = fl.b
    cell, table = b.slot("i64", "waiting", 8), b.slot(f"[{2 * most} x ptr]", "tiles", 8)
    b.slots.append(f"  store i64 0, ptr {cell.text}")
    number = b.load(I64, cell, 8)
    full = b.icmp("eq", number, b.integer(I64, most - 1))
    return Waiting(most, number, cell, table, b.or_(full, fl.trip.is_last(b)))
