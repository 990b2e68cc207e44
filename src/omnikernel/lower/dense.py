"""Tiles that lie in memory as they would in the arena: row after row. Products read and write them there.

A small product outside a loop spends half of its time on copies of its operands and of its result. In a loop the left
operand may have gaps between its rows, of which a block reads few at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..ir.tile import Op, Value
from ..ir.types import Scalar, element_of, shape_of
from ..llvm.emit import I64, LType, LValue
from .ahead import is_computed, ops_behind
from .bounds import Known, Root, Walked, known_chunks, walk
from .evaluate import Evaluator, pointee_memory
from .function import FunctionLowering
from .index import SHAPE_OPS, ZERO, Index, Ix, operand_index, source_index, symbolic_add, symbolic_bits
from .linear import arithmetic_step

PAGE = 4096  # bytes; rows at multiples of it share their sets
_REMAINDERS = ("arith.remsi", "arith.remui")


@dataclass(frozen=True, slots=True)
class Dense:
    """A tile in memory.

    Attributes:
        pointer: to its first element.
        holds: whether it lies there as is said here and no mask is off; None where that is sure.
        stride: the distance of two rows, an i64; None where there are no gaps.
    """

    pointer: LValue
    holds: LValue | None
    stride: LValue | None = None


def loaded(fl: FunctionLowering, value: Value, element: Scalar, *, gaps: bool = False) -> Dense | None:
    """Where a tile is loaded from, if nothing is done to it and it may be dense, or have `gaps` between its rows."""
    op = None if value in fl.bindings else fl.definitions.get(value)
    if op is None or op.name != "tt.load" or op.attributes.get("isVolatile") or element_of(value.type) != element:
        return None
    return _dense(fl, op.operands[0], op.operands[1] if len(op.operands) > 1 else None, gaps)


def stored(fl: FunctionLowering, op: Op) -> LValue | None:
    """Where a product is stored to, if that is sure to be dense; the store is done with then.

    The product makes it itself, block by block, since the kernel reads nothing of what it writes.
    """
    ops = fl.schedule.stored.get(op)
    if ops is None:
        return None
    fl.definitions.update((result, inner) for inner in ops for result in inner.results)
    found = _dense(fl, ops[-1].operands[0], None, False)
    if found is None or found.holds is not None:
        return None
    fl.made.add(ops[-1])
    return found.pointer


def _dense(fl: FunctionLowering, pointer: Value, mask: Value | None, gaps: bool) -> Dense | None:
    shape = shape_of(pointer.type)
    if not shape or not is_computed(fl, pointer) or not _affine(fl, pointer):
        return None
    ev, b = Evaluator(fl, flow=True), fl.b
    conditions: list[LValue] = []
    stride: LValue | None = None
    for dim, extent in enumerate(shape):
        if extent == 1:
            continue
        form = ev.address(pointer, _along(shape, dim))
        step = arithmetic_step(form.linear.pattern) if form.vector is None and form.linear.pattern else None
        wanted = prod(shape[dim + 1 :])
        if step is None:
            return None
        scale = form.linear.scale
        if scale is None and step == wanted:
            continue
        scaled = b.mul(scale[1], b.integer(I64, step)) if scale else b.integer(I64, step)
        if gaps and dim == len(shape) - 2:
            stride = scaled
            conditions += _spread(fl, stride, LType(pointee_memory(pointer)).bits // 8)
        elif scale is None:
            return None
        elif fl.trips == 1:
            conditions.append(b.icmp("eq", scaled, b.integer(I64, wanted)))
        else:  # mostly a part of the rows of a larger matrix
            return None
    if mask is not None:
        on = _all_on(ev, mask, shape)
        if on is None:
            return None
        conditions += on
    address = ev.address(pointer, (ZERO,) * len(shape))
    first, _ = ev.scalar_pointer(address, pointee_memory(pointer))
    holds: LValue | None = None
    for condition in conditions:
        holds = condition if holds is None else b.and_(holds, condition)
    return Dense(first, holds, stride)


def _spread(fl: FunctionLowering, stride: LValue, size: int) -> list[LValue]:
    """The condition that rows do not all fall on the same few sets of a small second-level cache."""
    if fl.vector_bits >= 512:  # processors with such registers have 1 MB and more
        return []
    b = fl.b
    within = b.and_(b.mul(stride, b.integer(I64, size)), b.integer(I64, PAGE - 1))
    return [b.icmp("ne", within, b.integer(I64, 0))]


def _along(shape: tuple[int, ...], dim: int, base: str = "0") -> Index:
    lane = Ix(LValue(base, I64), tuple(range(shape[dim])), 1)
    return tuple(lane if d == dim else ZERO for d in range(len(shape)))


def _affine(fl: FunctionLowering, pointer: Value) -> bool:
    """Whether an address is a sum of indices times scalars: no remainder, no product of two tiles."""
    for op in ops_behind(fl, pointer):
        if op is None or op.name in _REMAINDERS:
            return False
        if op.name == "arith.muli" and all(_varies(fl, v) for v in op.operands):
            return False
    return True


def _varies(fl: FunctionLowering, value: Value) -> bool:
    shape = shape_of(value.type)
    return any(extent > 1 and fl.varies(value, _along(shape, dim)) for dim, extent in enumerate(shape))


def _all_on(ev: Evaluator, mask: Value, shape: tuple[int, ...]) -> list[LValue] | None:
    """The conditions that no lane of a mask is off; None where that cannot be told from its borders.

    Each part of a mask may depend on one dimension only, so that its lanes along that one are all there are.
    """
    b = ev.b
    conditions: list[LValue] = []
    dims: dict[Value, int] = {}
    for dim, extent in enumerate(shape):
        if extent == 1:
            continue
        at = _along(shape, dim, "%lane")
        walked = walk(ev, [], [(mask, at)], at[dim], extent)
        known = known_chunks(ev, walked, at[dim], extent, extent)
        if known is None or not _explained(ev, (mask, at), walked, dim, dims):
            return None
        conditions += _whole(ev, known, extent)
    if not dims and not conditions:
        conditions = [ev.evaluate(mask, (ZERO,) * len(shape))[0].raw(b)]
    return conditions


def _whole(ev: Evaluator, known: Known, extent: int) -> list[LValue]:
    b = ev.b
    found = [b.icmp("sge", known.high, b.integer(I64, extent))]
    if known.low is not None:
        found.append(b.icmp("sle", known.low, b.integer(I64, 0)))
    return found


def _explained(ev: Evaluator, root: Root, walked: Walked, dim: int, dims: dict[Value, int]) -> bool:
    """Whether all parts of a mask are known bounds along a dimension, or the same there."""
    same, bounds = set(walked.uniform_masks), {(t.mask, t.index) for t in walked.bounds}
    stack = [root]
    while stack:
        value, at = stack.pop()
        if (value, at) in same:
            continue
        if (value, at) in bounds:
            if dims.setdefault(value, dim) != dim:
                return False
            continue
        op = None if value in ev.function.bindings else ev.function.definition(value)
        if op is not None and op.name in SHAPE_OPS:
            stack.append((op.operands[0], source_index(op, at, symbolic_bits, symbolic_add)))
        elif op is not None and op.name == "arith.andi":
            stack += [(v, operand_index(value, v, at)) for v in op.operands]
        else:
            return False
    return True
