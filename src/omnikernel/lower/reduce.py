"""Reductions by any combine region, of any number of operands, along any axis.

The order is fixed and the same on every machine (and in `reference/`): along the innermost axis, lanes of 32 elements
are combined chunk by chunk, then halves of the lanes with each other; along any other axis, one element after the other.
Where the region is one operation with a neutral element, the carried value starts from it; otherwise from the first
element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from ..ir.tile import Op, Region, Value, walk
from ..ir.types import Pointer, Scalar, Tensor, element_of, shape_of
from ..llvm.emit import I64, LType, LValue
from .ahead import is_computed
from .bounds import walk as walk_nest
from .evaluate import Address, Buffer, Evaluator, constant_lanes, pointee_memory
from .function import FunctionLowering, statement
from .index import Index, Ix, operand_index
from .lanes import ELEMENTWISE, Lanes, register_type
from .memory import OPEN, load_lanes, store_lanes
from .nest import Nest, choose_lane_dim, shape_index
from .prefetch import prefetch

# Rows that a reduction over an outer axis takes at once: walking further down in each chunk of columns would read more
# places of memory side by side than the hardware fetches ahead.
ROWS = 8
_ALL = (1 << 64) - 1
# op -> bits of its neutral element, by the kind of number: 'i' any integer of n bits, or the float's name.
NEUTRAL_INTEGER: dict[str, Callable[[int], int]] = {
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


def ops_of_operands(op: Op) -> list[str] | None:
    """The one op that combines each operand; None where the region is more than such an op of its own for each."""
    if len(op.regions[0].blocks) != 1:
        return None
    block = op.regions[0].block
    count = len(op.operands)
    made_by = {inner.results[0]: inner for inner in block.ops[:-1] if len(inner.results) == 1}
    if len(block.ops) != count + 1:
        return None
    names: list[str] = []
    for k, returned in enumerate(block.terminator.operands):
        inner = made_by.get(returned)
        if inner is None or set(inner.operands) != {block.args[k], block.args[count + k]}:
            return None
        names.append(inner.name)
    return names


def in_any_order(op: Op) -> bool:
    """Whether the result does not depend on the order of the elements: all but sums and products of floats."""
    names = ops_of_operands(op)
    return neutral(op) is not None and not {"arith.addf", "arith.mulf"} & set(names or ())


def neutral(op: Op) -> list[int] | None:
    """The bits of each operand's neutral element; None where the region is more than an operation of its own for each."""
    names = ops_of_operands(op) or []
    found = [neutral_bits(name, element_of(value.type)) for name, value in zip(names, op.operands, strict=False)]
    known = [bits for bits in found if bits is not None]
    return known if known and len(known) == len(op.operands) else None


def neutral_bits(name: str, element: Scalar | Pointer) -> int | None:
    """The bits of an op's neutral element; None where it has none."""
    if not isinstance(element, Scalar):
        return None
    if element.is_integer:
        maker = NEUTRAL_INTEGER.get(name)
        return maker(element.bits) if maker else None
    return NEUTRAL_FLOAT.get(name, {}).get(element.kind)


class Combiner:
    """Runs a combine region on lanes."""

    def __init__(self, fl: FunctionLowering, op: Op) -> None:
        self.fl = fl
        self.b = fl.b
        self.op = op
        self.types = [element_of(v.type) for v in op.operands]
        self.mixes_masks = any(
            inner.name in ("arith.andi", "arith.ori", "arith.xori") and element_of(inner.result.type) == Scalar("i1")
            for inner in walk(op.regions[0])
        )

    def __call__(self, left: Sequence[Lanes], right: Sequence[Lanes]) -> list[Lanes]:
        """combine(left, right), where left is what was accumulated."""
        region = self.op.regions[0]
        if len(region.blocks) != 1:
            raise self.fl.unsupported(self.op, "its region has more than one block")
        lanes = max(v.lanes for v in [*left, *right])
        part = self.fl.vector_bits // max(register_type(t).bits for t in self.types)
        if self.mixes_masks and lanes > part:
            return self.in_parts(left, right, lanes, part)
        values = dict(zip(region.block.args, [*left, *right], strict=True))
        return self.run(region, values, lanes)

    def in_parts(self, left: Sequence[Lanes], right: Sequence[Lanes], lanes: int, part: int) -> list[Lanes]:
        """A register of lanes at a time: LLVM packs wider masks into bytes before it combines them."""
        b = self.b
        wide = [[v.wide(b) for v in values] for values in (left, right)]
        made = []
        for start in range(0, lanes, part):
            taken = [[b.shuffle(v, None, range(start, start + part)) for v in values] for values in wide]
            made.append(self.unwrap(self(*(self.wrap(values) for values in taken))))
        while len(made) > 1:
            size = made[0][0].lanes
            pairs = zip(made[::2], made[1::2], strict=True)
            made = [[b.shuffle(x, y, range(2 * size)) for x, y in zip(*pair, strict=True)] for pair in pairs]
        return self.wrap(made[0])

    def run(self, region: Region, values: dict[Value, Lanes], lanes: int) -> list[Lanes]:
        """Run one block; a branch inside computes both sides and selects, since its ops are pure."""
        for op in region.block.ops[:-1]:
            if op.name == "arith.constant":
                made: Sequence[Lanes] = [
                    constant_lanes(self.b, element_of(op.result.type), op.attributes["value"].elements[0])
                ]
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
            Lanes(element_of(r.type), self.b.select(condition, x.raw(self.b), y.raw(self.b)))
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

    def start(self, bits: Sequence[int], lanes: int) -> list[LValue]:
        """The neutral elements as they are carried."""
        values = (constant_lanes(self.b, t, n).wide(self.b) for t, n in zip(self.types, bits, strict=True))
        return [self.b.splat(v, lanes) for v in values]

    def fold(self, carried: list[LValue], new: list[LValue]) -> list[LValue]:
        """What is carried on, from what was and `unwrap` of new elements."""
        return self.unwrap(self(self.wrap(carried), self.wrap(new)))

    def result(self, carried: list[LValue]) -> list[Lanes]:
        """Combine the halves of the lanes until one is left."""
        values = self.wrap(carried)
        lanes = values[0].lanes
        while lanes > 1:
            half = lanes // 2
            low = [self.b.shuffle(v, None, range(half)) for v in self.unwrap(values)]
            high = [self.b.shuffle(v, None, range(half, lanes)) for v in self.unwrap(values)]
            values = self(self.wrap(low), self.wrap(high))
            lanes = half
        return self.wrap([self.b.extract(v, 0) for v in self.unwrap(values)]) if values[0].lanes else values


class _Reduction:
    """The nest of one tt.reduce."""

    def __init__(self, fl: FunctionLowering, op: Op) -> None:
        self.fl, self.b, self.op = fl, fl.b, op
        self.shape = shape_of(op.operands[0].type)
        self.axis = op.attributes["axis"] % len(self.shape)
        self.kept = fl.settle(op.operands, self.shape)
        self.buffers = [
            fl.buffer(r.type.shape, r.type.element) if isinstance(r.type, Tensor) else None for r in op.results
        ]
        self.combine = Combiner(fl, op)
        self.ev = Evaluator(fl)
        self.others = [d for d in range(len(self.shape)) if d != self.axis]
        # Nothing lies after the axis, so its elements are neighbours: lanes run along it.
        self.innermost = prod(self.shape[self.axis + 1 :]) == 1 and self.shape[self.axis] > 1
        dim = self.axis
        if not self.innermost:
            dim = choose_lane_dim(self.ev, self.shape, self.roots, lambda _: [], self.others)
        repeat = self.keep_again if self.kept else None
        in_order = self.innermost and not in_any_order(op)
        self.nest = Nest(self.ev, self.shape, dim, self.roots, lambda _: [], repeat=repeat, in_order=in_order)
        self.index = shape_index(self.shape)

    def roots(self, index: Index) -> list[tuple[Value, Index]]:
        return [(v, index) for v in (*self.op.operands, *(v for v, _ in self.kept))]

    def emit(self) -> None:
        before = self.b._next
        if self.innermost:
            self.nest.for_each(self.others, self.index, self.along_lanes)
        else:
            dim = self.nest.lane_dim
            outer = [d for d in self.others if d != dim]
            order = outer + ([dim] if dim >= 0 else [])
            bits = neutral(self.op) if dim >= 0 and self.shape[dim] > self.nest.lanes else None
            if bits is None or self.shape[self.axis] <= ROWS:
                self.nest.for_each(order, self.index, self.along_axis)
            else:
                self.nest.for_each(outer, self.index, lambda: self.in_groups(dim, bits))
        steps = prod(self.shape) / max(1, self.nest.lanes)
        self.fl.cost += self.fl.trips * (2 + 0.06 * (self.b._next - before) * steps)

    def element(self, combine: Combiner) -> list[LValue]:
        """The operands at the index, as they are carried."""
        at = tuple(self.index)
        for value, buffer in self.kept:
            self.fl.keep_lanes(self.ev, buffer, value, at)
        return combine.unwrap([self.ev.spread(self.ev.evaluate(v, at), self.nest.lanes) for v in self.op.operands])

    def step(self, carried: list[LValue]) -> list[LValue]:
        return self.combine.fold(carried, self.element(self.combine))

    def keep_again(self, chunk: LValue) -> None:
        """Store what one chunk has kept for all that follow, too."""
        b, ev, nest = self.b, self.ev, self.nest

        def address(buffer: Buffer, base: LValue) -> Address:
            lane = Ix(base, tuple(range(nest.lanes)), ev.level, b._next)
            at = tuple(lane if d == nest.lane_dim else ix for d, ix in enumerate(self.index))
            return Address(buffer.pointer, 0, ev.buffer_form(buffer, at))

        def copy(i: LValue, _: list[LValue]) -> list[LValue]:
            with ev.opened():
                for buffer, lanes in kept:
                    store_lanes(ev, address(buffer, i), lanes, OPEN, buffer.memory, wide=buffer.wide)
            return []

        with ev.opened():
            kept = [
                (buffer, load_lanes(ev, address(buffer, chunk), buffer.element, OPEN, None, wide=buffer.wide))
                for _, buffer in self.kept
            ]
            following = b.add(chunk, b.integer(I64, nest.lanes))
            b.loop(following, b.integer(I64, nest.shape[nest.lane_dim]), nest.lanes, [], copy)

    def along_lanes(self) -> None:
        """Chunks of lanes into one vector, then its halves into each other."""
        from .extremes import extremes

        combine = extremes(self.fl, self.op) or self.combine
        bits = neutral(self.op)

        def step(carried: list[LValue]) -> list[LValue]:
            return combine.fold(carried, self.element(combine))

        if bits is None or self.nest.lanes == self.shape[self.axis]:
            carried = self.nest.lane_loop(self.index, [], step, lambda: self.element(combine))
        else:
            carried = self.nest.lane_loop(self.index, combine.start(bits, self.nest.lanes), step)
        self.finish(combine.result(carried))

    def along_axis(self) -> None:
        """One element after the other, for a chunk of lanes of another dimension."""
        self.index[self.axis] = Ix(LValue("0", I64), (), self.ev.level, tag=self.b._next)
        carried = self.element(self.combine)
        if self.shape[self.axis] > 1:
            carried = self.nest.scalar_loop(self.axis, self.index, carried, self.step, start=1)
        self.finish(self.combine.wrap(carried))

    def in_groups(self, dim: int, bits: Sequence[int]) -> None:
        """Some rows at a time for all chunks of columns; between, what was accumulated is in the results' buffers."""
        b = self.b
        begin = [constant_lanes(b, t, n).wide(b) for t, n in zip(self.combine.types, bits, strict=True)]

        def columns(first: LValue) -> None:
            def rows() -> None:
                start = b.icmp("eq", first, b.integer(I64, 0))
                inits = [
                    b.select(start, b.splat(none, self.nest.lanes), so_far.wide(b))
                    for none, so_far in zip(begin, self.so_far(), strict=True)
                ]
                stop = b.add(first, b.integer(I64, ROWS))

                def step(carried: list[LValue]) -> list[LValue]:
                    self.fetch_ahead()
                    return self.step(carried)

                self.finish(self.combine.wrap(self.nest.scalar_loop(self.axis, self.index, inits, step, first, stop)))

            self.nest.for_each([dim], self.index, rows)

        def group(first: LValue, _: list[LValue]) -> list[LValue]:
            with self.ev.opened():
                columns(first)
            return []

        b.loop(b.integer(I64, 0), b.integer(I64, self.shape[self.axis]), ROWS, [], group)

    def fetch_ahead(self) -> None:
        """Ask for the same columns of the next group's row: it is too far away for the processor to foresee."""
        b, ev, dim = self.b, self.ev, self.nest.lane_dim
        here, lane = self.index[self.axis], self.index[dim]
        further = replace(here, base=ev.sum(here.base, b.integer(I64, ROWS), here.level))
        index = tuple(further if d == self.axis else ix for d, ix in enumerate(self.index))
        walked = walk_nest(ev, self.roots(index), [], lane, self.shape[dim])
        if walked.bounds and not ev.known:
            return  # at the edge
        for op, at in walked.accesses:
            pointer = op.operands[0]
            place = operand_index(op.results[0], pointer, at)
            if further not in place or not is_computed(self.fl, pointer) or any("(" in ix.base.text for ix in place):
                continue
            address = ev.address(pointer, place)
            if address.vector is None and address.linear.stride == 1:
                element = pointee_memory(pointer)
                start, level = ev.scalar_pointer(address, element)
                with ev.at(max(level, ev.level)):
                    prefetch(b, start, self.nest.lanes * LType(element).bits // 8, cache=2)

    def place(self, buffer: Buffer) -> Address:
        """Where the results at the index are kept."""
        at = tuple(ix for d, ix in enumerate(self.index) if d != self.axis)
        return Address(buffer.pointer, 0, self.ev.buffer_form(buffer, at))

    def so_far(self) -> list[Lanes]:
        """What the results' buffers hold at the index."""
        buffers = [buffer for buffer in self.buffers if buffer]
        return [load_lanes(self.ev, self.place(buffer), buffer.element, OPEN, None)[0] for buffer in buffers]

    def finish(self, values: Sequence[Lanes]) -> None:
        for result, buffer, value in zip(self.op.results, self.buffers, values, strict=True):
            if buffer is None:
                self.fl.bind(result, Lanes(value.type, value.raw(self.b)))
                continue
            store_lanes(self.ev, self.place(buffer), (value, self.ev.level), OPEN, buffer.memory)


@statement("tt.reduce")
def lower_reduce(fl: FunctionLowering, op: Op) -> None:
    """Scalars for tiles of rank 1, otherwise buffers of the shape without the axis."""
    from .cube import reduce_cube, reduces_cube
    from .ordered import reduce_in_order
    from .region import runs_on_lanes

    if not runs_on_lanes(fl, op.regions[0]):
        reduce_in_order(fl, op)
        return
    if reduces_cube(op):
        reduce_cube(fl, op)
        return
    reduction = _Reduction(fl, op)
    reduction.emit()
    for result, buffer in zip(op.results, reduction.buffers, strict=True):
        if buffer is not None:
            fl.bind(result, buffer)
    fl.finish(reduction.kept)
