"""Computes a tile into a buffer whose rows run across the memory it is loaded from.

A tile that is consecutive in memory along another dimension than its last one (a column-major operand, `tl.trans` of a
load) is read in vectors along that dimension, turned in registers a small square at a time, and stored in rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.ops import SCHEMA
from ..ir.tile import Value
from ..ir.types import shape_of
from ..llvm.emit import I64, Builder, LType, LValue
from .evaluate import Address, Buffer, Evaluator
from .index import Index, Ix
from .memory import to_memory
from .nest import Nest, choose_lane_dim, shape_index

if TYPE_CHECKING:
    from .function import FunctionLowering

# More ops than this behind a value, repeated for every row of a square, cost more to compile than turning saves.
MOST_OPS = 4

# The side of a square. LLVM tries to combine each shuffle with those before it: a square of 8 costs as much as 200 other
# instructions. From so many products on, each with operands of its own to turn, squares are smaller: flash attention
# compiles in nine tenths of the time (0.85 in bf16) and takes 1.01 of it to run. A single product of tiles of 64 that
# are all to be turned would take 1.2.
SIDE, SIDE_OF_MANY, MANY_PRODUCTS = 8, 4, 4


def turns(fl: FunctionLowering, value: Value, dim: int) -> bool:
    """Whether a tile whose lanes run along `dim` is worth turning: a load, at most converted, of some size."""
    shape = shape_of(value.type)
    if dim < 0 or dim == len(shape) - 1 or min(shape[dim], shape[-1]) < 8:
        return False
    seen: set[Value] = set()
    stack = [value]
    ops = 0
    while stack:
        current = stack.pop()
        if current in seen or current in fl.bindings:
            continue
        seen.add(current)
        op = fl.definition(current)
        if op.name == "tt.load":
            continue
        if SCHEMA[op.name].kind == "elementwise" and op.name != "arith.constant":
            ops += 1
        stack.extend(op.operands)
    return ops <= MOST_OPS


def crosses(fl: FunctionLowering, value: Value, pointer: Value) -> bool:
    """Whether a tile is loaded along one dimension and stored along the last: it is then turned on its way."""
    shape = shape_of(pointer.type)
    if len(shape) < 2 or value in fl.bindings or shape_of(value.type) != tuple(shape):
        return False
    ev = Evaluator(fl, flow=True)
    loaded = choose_lane_dim(ev, shape, lambda index: [(value, index)], lambda _: [])
    stored = choose_lane_dim(ev, shape, lambda _: [], lambda index: [(pointer, index)])
    return stored == len(shape) - 1 and turns(fl, value, loaded)


def transpose(b: Builder, rows: Sequence[LValue]) -> list[LValue]:
    """n vectors of n lanes as their columns: log2(n) rounds, each of which swaps squares of half the size."""
    rows = list(rows)
    n = len(rows)
    step = 1
    while step < n:
        left = [lane if not lane & step else n + lane - step for lane in range(n)]
        right = [lane + step if not lane & step else n + lane for lane in range(n)]
        for i in range(n):
            if not i & step:
                upper, lower = rows[i], rows[i + step]
                rows[i], rows[i + step] = b.shuffle(upper, lower, left), b.shuffle(upper, lower, right)
        step *= 2
    return rows


def materialise_turned(fl: FunctionLowering, value: Value, buffer: Buffer, dim: int) -> None:
    """Compute a tile into a row-major buffer, with lanes along `dim`."""
    shape = shape_of(value.type)
    last = len(shape) - 1
    side = SIDE if fl.products < MANY_PRODUCTS else SIDE_OF_MANY
    size = min(side, shape[dim], shape[last])
    ev = Evaluator(fl)
    b = fl.b
    columns: list[Ix] = []

    def roots(index: Index) -> list[tuple[Value, Index]]:
        return [(value, (*index[:last], column)) for column in columns]

    nest = Nest(ev, shape, dim, roots, lambda _: [])
    nest.lanes = size
    index = shape_index(shape)
    align = buffer.memory.bits // 8
    scalar = buffer.memory.scalar

    def evaluated(column: Ix) -> LValue:
        return to_memory(ev, ev.spread(ev.evaluate(value, (*index[:last], column)), size), buffer.wide)

    def one_by_one(corner: LValue) -> None:
        """Column by column and element by element: masked accesses are rare, and long where they are written out."""
        kept = b.scratch(LType(scalar, size), "column")
        first = columns[0].base

        def put(j: LValue) -> None:
            with ev.opened() as level:
                with ev.at(level):
                    column = Ix(b.add(first, j), (), level)
                b.store(evaluated(column), kept, align)
            top = b.gep(scalar, corner, j)

            def element(i: LValue) -> None:
                place = b.gep(scalar, top, b.mul(i, b.integer(I64, buffer.strides[dim])))
                b.store(b.load(buffer.memory, b.gep(scalar, kept, i), align), place, align)

            b.repeat(size, 1, element)

        b.repeat(size, 1, put)

    def square(carried: list[LValue]) -> list[LValue]:
        vectors = [evaluated(column) for column in columns] if nest.holds else []
        corner = [Ix(ix.base, (), ix.level, ix.tag) if d == dim else ix for d, ix in enumerate(index)]
        corner[last] = columns[0]
        address = Address(buffer.pointer, 0, ev.buffer_form(buffer, tuple(corner)))
        pointer, _ = ev.scalar_pointer(address, buffer.memory.scalar)
        if not nest.holds:
            one_by_one(pointer)
            return carried
        for number, row in enumerate(transpose(b, vectors)):
            place = b.gep(buffer.memory.scalar, pointer, b.integer(I64, number * buffer.strides[dim]))
            b.store(row, place, align)
        return carried

    def band(i: LValue) -> None:
        with ev.opened() as level:
            with ev.at(level):
                columns[:] = [Ix(b.add(i, b.integer(I64, j)) if j else i, (), level) for j in range(size)]
            index[last] = columns[0]
            nest.lane_loop(index, [], square)

    nest.for_each([d for d in range(last) if d != dim], index, lambda: b.repeat(shape[last], size, band))
