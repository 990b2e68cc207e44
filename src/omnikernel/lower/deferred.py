"""Atomic additions gathered over the programs of a chunk: a tile of sums in the arena, added to memory at the end.

Which additions may wait, and why, is decided in `passes/defer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..ir.tile import Op, Value
from ..ir.types import Tensor, element_of
from ..llvm.emit import LValue
from ..passes.defer import KINDS, common_ops
from .atomic import lower_atomic
from .evaluate import Buffer, constant_lanes
from .function import FunctionLowering
from .nest import LANES
from .reduce import neutral_bits


def begin(fl: FunctionLowering, ops: Sequence[Op]) -> None:
    """Before the first program: a tile of neutral elements for each addition."""
    b = fl.b
    for op in ops:
        element = element_of(op.result.type)
        bits = neutral_bits(KINDS[op.attributes["kind"]], element)
        assert bits is not None
        assert isinstance(op.result.type, Tensor)
        sums = fl.buffer(op.result.type.shape, element)
        lanes = min(op.result.type.size, LANES)
        start = b.splat(constant_lanes(b, element, bits).raw(b), lanes)
        b.repeat(op.result.type.size, lanes, partial(_fill, fl, sums, start))
        total = Value(f"{op.result.name}.total", op.result.type)
        fl.bind(total, sums)
        fl.deferred[op] = total


def _fill(fl: FunctionLowering, sums: Buffer, start: LValue, at: LValue) -> None:
    fl.b.store(start, fl.b.gep(sums.memory.scalar, sums.pointer, at), sums.memory.bits // 8)


def gather(fl: FunctionLowering, op: Op) -> None:
    """In a program: the values are added to the tile. What the mask turns off is added too, and never leaves it."""
    total, value = fl.deferred[op], op.operands[1]
    sums = fl.bindings[total]
    assert isinstance(sums, Buffer)
    name = KINDS[op.attributes["kind"]]
    more = Op(name, (total, value), (Value(f"{total.name}.more", total.type),), loc=op.loc)
    fl.settle([value], sums.shape, keep=False)
    fl.definitions[more.result] = more
    fl.materialise(more.result, sums)


def release(fl: FunctionLowering, ops: Sequence[Op]) -> None:
    """After the last program: the atomic additions themselves, whose addresses and masks are computed anew."""
    cost = fl.cost
    made_by = {result: made for made in fl.kernel.entry.body.block.ops for result in made.results} if ops else {}
    for op in ops:
        needed: set[Op] = set()
        for value in (op.operands[0], *op.operands[2:]):
            needed |= common_ops(value, made_by) or set()
        for again in fl.kernel.entry.body.block.ops:
            if again in needed:
                fl.op(again)
        total = fl.deferred.pop(op)
        lower_atomic(fl, op.replace(operands=(op.operands[0], total, *op.operands[2:])))
    fl.cost = cost  # of a program, to which this does not belong
