"""Reductions whose region cannot run on lanes: one element after the other, in the order of `reduce`.

The operands lie in buffers. Along the innermost axis the lanes of that order are elements of a small buffer, combined
chunk by chunk and then by halves; along any other axis one element is combined after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..ir.tile import Op
from ..ir.types import Tensor, element_of, shape_of
from ..llvm.emit import I64, LValue
from .evaluate import Buffer
from .function import FunctionLowering
from .lanes import Lanes
from .lookup import in_memory
from .nest import LANES
from .region import inline
from .scan import Cells


def reduce_in_order(fl: FunctionLowering, op: Op) -> None:
    """Lower a tt.reduce by its region on scalars."""
    b = fl.b
    shape, axis = shape_of(op.operands[0].type), op.attributes["axis"]
    outer, extent, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    taken = Cells(fl, [in_memory(fl, op, i) for i in range(len(op.operands))])
    made: list[Buffer] = []
    for result in op.results:
        rest = result.type.shape if isinstance(result.type, Tensor) else (1,)
        made.append(fl.buffer(rest, element_of(result.type)))
    given = Cells(fl, made)
    lanes = min(extent, LANES)
    parts = Cells(fl, [fl.buffer((lanes,), buffer.element) for buffer in made])

    def number(value: int) -> LValue:
        return b.integer(I64, value)

    def each(count: int | LValue, body: object, start: int = 0) -> None:
        stop = number(count) if isinstance(count, int) else count
        b.loop(number(start), stop, 1, [], lambda i, _: (body(i), [])[1])  # type: ignore[operator]

    def combine(old: Sequence[Lanes], new: Sequence[Lanes]) -> list[Lanes]:
        return inline(fl, op.regions[0], [*old, *new])

    def row(at: LValue) -> None:
        """The innermost axis: lanes, then halves of them."""
        start = b.mul(at, number(extent))
        each(lanes, lambda i: parts.store(i, taken.load(b.add(start, i))))

        def chunk(c: LValue) -> None:
            first = b.add(start, b.mul(c, number(lanes)))
            each(lanes, lambda i: parts.store(i, combine(parts.load(i), taken.load(b.add(first, i)))))

        each(extent // lanes, chunk, 1)

        def halve(step: LValue) -> None:
            half = b.lshr(number(lanes // 2), step)
            each(half, lambda i: parts.store(i, combine(parts.load(i), parts.load(b.add(i, half)))))

        each(lanes.bit_length() - 1, halve)
        given.store(at, parts.load(number(0)))

    def column(at: LValue) -> None:
        """Any other axis, for the element `at` of the result."""
        start = b.add(
            b.mul(b.binary("udiv", at, number(inner)), number(extent * inner)), b.binary("urem", at, number(inner))
        )
        given.store(at, taken.load(start))

        def step(i: LValue) -> None:
            given.store(at, combine(given.load(at), taken.load(b.add(start, b.mul(i, number(inner))))))

        each(extent, step, 1)

    each(outer * inner, row if inner == 1 else column)
    fl.cost += fl.trips * prod(shape) * 2
    for result, buffer, value in zip(op.results, made, given.load(number(0)), strict=True):
        fl.bind(result, buffer if isinstance(result.type, Tensor) else value)
