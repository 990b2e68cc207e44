"""Reductions by any combine region, of any number of operands, along any axis.

The order is fixed and the same on every machine (and in `reference/`): along the innermost axis, lanes of 32 elements
are combined chunk by chunk, then halves of the lanes with each other; along any other axis, one element after the other.
Where the region is one operation with a neutral element, the carried value starts from it; otherwise from the first
element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..ir.tile import Op, Region, Value
from ..ir.types import Scalar, Tensor, element_of, shape_of
from ..llvm.emit import LType, LValue
from .evaluate import Address, Evaluator, constant_lanes
from .function import FunctionLowering, statement
from .index import Index, Ix
from .lanes import ELEMENTWISE, Lanes, register_type
from .memory import OPEN, store_lanes
from .nest import LANES, Nest, choose_lane_dim, shape_index

_ALL = (1 << 64) - 1
# op -> bits of its neutral element, by the kind of number: 'i' any integer of n bits, or the float's name.
NEUTRAL_INTEGER = {
    "arith.addi": lambda n: 0,
    "arith.ori": lambda n: 0,
    "arith.xori": lambda n: 0,
    "arith.muli": lambda n: 1,
    "arith.andi": lambda n: (1 << n) - 1,
    "arith.maxsi": lambda n: 1 << (n - 1),
    "arith.minsi": lambda n: (1 << (n - 1)) - 1,
    "arith.maxui": lambda n: 0,
    "arith.minui": lambda n: (1 << n) - 1,
}
# -0 + x = x also for x = -0, which +0 would not keep; max and min that skip NaN start from it.
NEUTRAL_FLOAT = {
    "arith.addf": {"f32": 0x80000000, "f64": 1 << 63, "f16": 0x8000, "bf16": 0x8000},
    "arith.mulf": {"f32": 0x3F800000, "f64": 0x3FF << 52, "f16": 0x3C00, "bf16": 0x3F80},
    "arith.maxnumf": {"f32": 0x7FC00000, "f64": 0x7FF8 << 48, "f16": 0x7E00, "bf16": 0x7FC0},
    "arith.minnumf": {"f32": 0x7FC00000, "f64": 0x7FF8 << 48, "f16": 0x7E00, "bf16": 0x7FC0},
    "arith.maximumf": {"f32": 0xFF800000, "f64": 0xFFF << 52, "f16": 0xFC00, "bf16": 0xFF80},
    "arith.minimumf": {"f32": 0x7F800000, "f64": 0x7FF << 52, "f16": 0x7C00, "bf16": 0x7F80},
}


def neutral(op: Op) -> int | None:
    """The bits of the combine region's neutral element; None where the region is not one operation that has one."""
    ops = op.regions[0].block.ops if len(op.regions[0].blocks) == 1 else ()
    if len(ops) != 2 or len(op.results) != 1 or set(ops[0].operands) != set(op.regions[0].block.args):
        return None
    element = element_of(op.operands[0].type)
    if not isinstance(element, Scalar):
        return None
    if element.is_integer:
        maker = NEUTRAL_INTEGER.get(ops[0].name)
        return maker(element.bits) if maker else None
    return NEUTRAL_FLOAT.get(ops[0].name, {}).get(element.kind)


class Combiner:
    """Runs a combine region on lanes."""

    def __init__(self, fl: FunctionLowering, op: Op) -> None:
        self.fl = fl
        self.b = fl.b
        self.op = op
        self.types = [element_of(v.type) for v in op.operands]

    def __call__(self, left: Sequence[Lanes], right: Sequence[Lanes]) -> list[Lanes]:
        """combine(left, right), where left is what was accumulated."""
        region = self.op.regions[0]
        if len(region.blocks) != 1:
            raise self.fl.unsupported(self.op, "its region has more than one block")
        values = dict(zip(region.block.args, [*left, *right], strict=True))
        return self.run(region, values, max(v.lanes for v in [*left, *right]))

    def run(self, region: Region, values: dict[Value, Lanes], lanes: int) -> list[Lanes]:
        """Run one block; a branch inside computes both sides and selects, since its ops are pure."""
        for op in region.block.ops[:-1]:
            if op.name == "arith.constant":
                made: Sequence[Lanes] = [constant_lanes(self.b, element_of(op.result.type), op.attributes["value"].elements[0])]
            elif op.name == "scf.if":
                made = self.both(op, values, lanes)
            elif op.name == "tt.call":
                callee = self.fl.kernel.function(op.attributes["callee"])
                inner = dict(zip(callee.args, (self.value(v, values) for v in op.operands), strict=True))
                made = self.run(callee.body, inner, lanes)
            elif op.name in ELEMENTWISE:
                operands = [self.value(v, values).spread(self.b, lanes) for v in op.operands]
                made = ELEMENTWISE[op.name](self.b, op, operands)
            else:
                raise self.fl.unsupported(op, "in the region of a reduction")
            values.update(zip(op.results, made, strict=True))
        return [self.value(v, values).spread(self.b, lanes) for v in region.block.terminator.operands]

    def both(self, op: Op, values: dict[Value, Lanes], lanes: int) -> list[Lanes]:
        condition = self.value(op.operands[0], values).spread(self.b, lanes).raw(self.b)
        sides = [self.run(region, dict(values), lanes) if region.blocks else [] for region in op.regions]
        return [
            Lanes(r.type, self.b.select(condition, x.raw(self.b), y.raw(self.b)))  # type: ignore[arg-type]
            for r, x, y in zip(op.results, *sides, strict=True)
        ]

    def value(self, value: Value, values: dict[Value, Lanes]) -> Lanes:
        return values[value] if value in values else self.fl.scalar(value)

    def wrap(self, raws: Sequence[LValue]) -> list[Lanes]:
        """Carried values as lanes: narrow floats are carried as f32."""
        return [
            Lanes(t, wide=r) if r.type.scalar == "float" and register_type(t).scalar != "float" else Lanes(t, r)
            for t, r in zip(self.types, raws, strict=True)
        ]

    def unwrap(self, lanes: Sequence[Lanes]) -> list[LValue]:
        return [v.wide(self.b) for v in lanes]

    def halve(self, values: list[Lanes]) -> list[Lanes]:
        """Combine the halves of the lanes until one is left."""
        lanes = values[0].lanes
        while lanes > 1:
            half = lanes // 2
            low = [self.b.shuffle(v, None, range(half)) for v in self.unwrap(values)]
            high = [self.b.shuffle(v, None, range(half, lanes)) for v in self.unwrap(values)]
            values = self(self.wrap(low), self.wrap(high))
            lanes = half
        return self.wrap([self.b.extract(v, 0) for v in self.unwrap(values)]) if values[0].lanes else values


@statement("tt.reduce")
def lower_reduce(fl: FunctionLowering, op: Op) -> None:
    """Scalars for tiles of rank 1, otherwise buffers of the shape without the axis."""
    shape = shape_of(op.operands[0].type)
    axis = op.attributes["axis"] % len(shape)
    kept = fl.settle(op.operands, shape)
    buffers = [fl.buffer(r.type.shape, r.type.element) if isinstance(r.type, Tensor) else None for r in op.results]
    combine = Combiner(fl, op)
    operands = [*op.operands, *(v for v, _ in kept)]
    ev = Evaluator(fl)
    innermost = prod(shape[axis + 1 :]) == 1 and shape[axis] > 1

    def roots(index: Index) -> list[tuple[Value, Index]]:
        return [(v, index) for v in operands]

    others = [d for d in range(len(shape)) if d != axis]
    dim = axis if innermost else choose_lane_dim(ev, shape, roots, lambda _: [], others)
    nest = Nest(ev, shape, dim, roots, lambda _: [])
    index = shape_index(shape)
    before = fl.b._next

    def element() -> list[Lanes]:
        at = tuple(index)
        for value, buffer in kept:
            fl.keep_lanes(ev, buffer, value, at)
        lanes = nest.lanes if dim >= 0 else 0
        return [ev.spread(ev.evaluate(v, at), lanes) for v in op.operands]

    def finish(values: Sequence[Lanes]) -> None:
        for result, buffer, value in zip(op.results, buffers, values, strict=True):
            if buffer is None:
                fl.bind(result, Lanes(value.type, value.raw(fl.b)))
                continue
            at: list[Ix] = [ix for d, ix in enumerate(index) if d != axis]
            address = Address(buffer.pointer, 0, ev.buffer_form(buffer, tuple(at)))
            store_lanes(ev, address, (value, ev.level), OPEN, buffer.memory)

    def start(lanes: int) -> list[LValue] | None:
        bits = neutral(op)
        if bits is None:
            return None
        begin = constant_lanes(fl.b, combine.types[0], bits).wide(fl.b)
        return [fl.b.splat(begin, lanes) if lanes else begin]

    def along_lanes() -> None:
        inits = start(nest.lanes)
        step = lambda carried: combine.unwrap(combine(combine.wrap(carried), element()))  # noqa: E731
        one_chunk = nest.lanes == shape[axis] and nest.lanes <= LANES
        first = (lambda: combine.unwrap(element())) if inits is None or one_chunk else None
        carried = nest.lane_loop(index, inits or [], step, first)
        finish(combine.halve(combine.wrap(carried)))

    def along_axis(_: list[LValue]) -> list[LValue]:
        index[axis] = Ix(LValue("0", LType("i64")), (), ev.level, tag=fl.b._next)
        carried = combine.unwrap(element())
        step = lambda c: combine.unwrap(combine(combine.wrap(c), element()))  # noqa: E731
        carried = nest.scalar_loop(axis, index, carried, step, start=1) if shape[axis] > 1 else carried
        finish(combine.wrap(carried))
        return []

    if innermost:
        nest.for_each(others, index, along_lanes)
    else:
        outer = [d for d in others if d != dim]
        nest.for_each(outer, index, lambda: _lanes_then_axis(nest, index, along_axis, dim))
    fl.cost += fl.trips * (2 + 0.06 * (fl.b._next - before) * prod(shape) / max(1, nest.lanes))
    for result, made in zip(op.results, buffers, strict=True):
        if made is not None:
            fl.bind(result, made)
    fl.finish(kept)


def _lanes_then_axis(nest: Nest, index: list[Ix], along_axis: object, dim: int) -> None:
    if dim < 0:
        along_axis([])  # type: ignore[operator]
    else:
        nest.lane_loop(index, [], along_axis)  # type: ignore[arg-type]
