"""Tiles of many small extents, as sorting makes them: (2, 2, 2, ..) for 1024 elements.

Lanes along one dimension of such a tile would be two. Its nest runs over one flat dimension instead, and the index of
every other is a few bits of the flat one, which for the lanes are constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..ir.tile import Op, Value
from ..ir.types import Tensor, shape_of
from ..llvm.emit import I64, LValue
from .evaluate import Address, Buffer, Evaluator
from .function import FunctionLowering
from .index import Add, Bits, Index, Ix, reshape_index, symbolic_add, symbolic_bits
from .lanes import Lanes
from .memory import OPEN, store_lanes
from .nest import Nest, choose_lane_dim, is_cube, shape_index
from .reduce import Combiner


def reduces_cube(op: Op) -> bool:
    """Whether a reduction is of such a tile."""
    return is_cube(shape_of(op.operands[0].type))


class CubeReduction:
    """One reduction over a small extent: all its elements at once, lanes along all other dimensions."""

    def __init__(self, fl: FunctionLowering, op: Op) -> None:
        self.fl, self.op = fl, op
        self.shape = shape_of(op.operands[0].type)
        self.axis = op.attributes["axis"]
        self.rest = self.shape[: self.axis] + self.shape[self.axis + 1 :]
        self.kept = fl.settle(op.operands, self.shape)
        self.buffers: list[Buffer] = []
        for result in op.results:
            assert isinstance(result.type, Tensor)
            self.buffers.append(fl.buffer(result.type.shape, result.type.element))
        self.combine = Combiner(fl, op)

    def places(self, index: Index, bits: Bits, add: Add) -> tuple[Index, list[Index]]:
        """The index in the result, and those of the elements that are combined for it."""
        rest = reshape_index(index, (prod(self.rest),), self.rest, bits, add)
        along = [Ix(LValue(str(i), I64)) for i in range(self.shape[self.axis])]
        return rest, [(*rest[: self.axis], ix, *rest[self.axis :]) for ix in along]

    def roots(self, index: Index) -> list[tuple[Value, Index]]:
        _, elements = self.places(index, symbolic_bits, symbolic_add)
        return [(v, at) for v in (*self.op.operands, *(v for v, _ in self.kept)) for at in elements]

    def emit(self) -> None:
        ev = Evaluator(self.fl)
        flat = (prod(self.rest),)
        nest = Nest(ev, flat, choose_lane_dim(ev, flat, self.roots, lambda _: []), self.roots, lambda _: [])
        index = shape_index(flat)

        def step() -> None:
            rest, elements = self.places(tuple(index), ev.bits, ev.sum)
            for at in elements:
                for tile, kept in self.kept:
                    self.fl.keep_lanes(ev, kept, tile, at)
            values = [[ev.spread(ev.evaluate(v, at), nest.lanes) for v in self.op.operands] for at in elements]
            for buffer, value in zip(self.buffers, self.total(values), strict=True):
                address = Address(buffer.pointer, 0, ev.buffer_form(buffer, rest))
                store_lanes(ev, address, (value, ev.level), OPEN, buffer.memory)

        nest.for_each([0], index, step)
        self.fl.cost += self.fl.trips * prod(self.shape) * 0.1

    def total(self, values: Sequence[list[Lanes]]) -> list[Lanes]:
        """In the order that every reduction has: by halves along the innermost axis, else one after the other."""
        left = list(values)
        if prod(self.shape[self.axis + 1 :]) == 1:
            while len(left) > 1:
                half = len(left) // 2
                left = [self.combine(a, b) for a, b in zip(left[:half], left[half:], strict=True)]
            return left[0]
        before = left[0]
        for value in left[1:]:
            before = self.combine(before, value)
        return before


def reduce_cube(fl: FunctionLowering, op: Op) -> None:
    """Lower a tt.reduce of such a tile."""
    reduction = CubeReduction(fl, op)
    reduction.emit()
    for result, buffer in zip(op.results, reduction.buffers, strict=True):
        fl.bind(result, buffer)
    fl.finish(reduction.kept)
