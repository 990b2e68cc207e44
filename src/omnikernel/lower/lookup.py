"""Elements that say where others are: gather along an axis, and histogram."""

from __future__ import annotations

import functools
from math import prod

from ..ir.tile import Op
from ..ir.types import Tensor, element_of, shape_of
from ..llvm.emit import I64, LType, LValue
from .evaluate import Address, Buffer, Evaluator
from .function import FunctionLowering, statement
from .index import ZERO, Index
from .linear import Linear
from .memory import OPEN, load_lanes, store_lanes
from .nest import LANES


def in_memory(fl: FunctionLowering, op: Op, position: int) -> Buffer:
    """An operand as a buffer of its own type: the one it is in, or a new one."""
    value = op.operands[position]
    fl.settle([value], shape_of(value.type), keep=False)
    binding = fl.bindings.get(value)
    if isinstance(binding, Buffer) and not binding.wide:
        return binding
    assert isinstance(value.type, Tensor)
    return fl.materialise(value, fl.buffer(value.type.shape, value.type.element))


@statement("tt.gather")
def lower_gather(fl: FunctionLowering, op: Op) -> None:
    """Indices are unsigned; one past the end reads the last element."""
    b = fl.b
    source = in_memory(fl, op, 0)
    indices = op.operands[1]
    axis = op.attributes["axis"]
    assert isinstance(op.result.type, Tensor)
    shape = op.result.type.shape
    fl.settle([indices], shape, keep=False)
    element = op.result.type.element
    made = fl.buffer(shape, element)
    stride, extent = source.strides[axis], source.shape[axis]

    def step(ev: Evaluator, index: Index) -> None:
        chosen, level = ev.evaluate(indices, index)
        others = tuple(ZERO if d == axis else ix for d, ix in enumerate(index))
        form = ev.buffer_form(source, others)
        start, at = ev.pointers(Address(source.pointer, 0, form), source.memory.scalar)
        level = max(level, at)
        with ev.at(level):
            wide = b.integer_cast(chosen.raw(b), "i64", signed=False)
            wide = b.call(f"llvm.umin.{wide.type.suffix}", wide.type, wide, b.integer(wide.type, extent - 1))
            pointers = b.gep(source.memory.scalar, start, b.mul(wide, b.integer(wide.type, stride)))
        address = Address(pointers, level, Linear(), (pointers, level) if pointers.lanes else None)
        value = load_lanes(ev, address, element, OPEN, None)
        store_lanes(ev, Address(made.pointer, 0, ev.buffer_form(made, index)), value, OPEN, made.memory)

    fl.nest(shape, [indices], step)
    fl.bind(op.result, made)


# Tables that neighbouring elements count in by turns, so that one need not wait for the store of an equal one before it.
# The loop over them is short on purpose: a processor foresees that a load must wait for a store by where the two stand
# in the code, and in a long row of counts each place meets its equal too seldom to be foreseen.
TABLES = 4
# Elements whose bins are found before any of them is counted: a bin that was stored just now is read with a delay.
BATCH = 256


@statement("tt.histogram")
def lower_histogram(fl: FunctionLowering, op: Op) -> None:
    """Counts in several tables, which are then added; what is not counted goes to one bin more.

    An element's bits are an unsigned number, whatever its width.
    """
    b = fl.b
    assert isinstance(op.result.type, Tensor)
    (bins,) = op.result.type.shape
    element = element_of(op.result.type)
    shape = shape_of(op.operands[0].type)
    counts = fl.buffer((bins,), element)
    scalar, bytes_ = counts.memory, counts.memory.bits // 8
    fl.settle(op.operands, shape, keep=False)
    many = TABLES if bins <= min(1024, prod(shape)) else 1
    lanes = min(bins, LANES)
    row = bins + lanes  # the bin more, and whole vectors
    tables = fl.buffer((many * row,), element)
    batch = min(BATCH, prod(shape))
    places = b.slot(f"[{max(batch, LANES)} x i64]", b.fresh("places"), 64)

    def at(pointer: LValue, i: LValue | int) -> LValue:
        return b.gep(scalar.scalar, pointer, b.integer(I64, i) if isinstance(i, int) else i)

    def clear(i: LValue, _: list[LValue]) -> list[LValue]:
        b.store(b.zero(LType(scalar.scalar, lanes)), at(tables.pointer, i), bytes_)
        return []

    def step(ev: Evaluator, index: Index) -> None:
        width = max(len(ix.pattern) for ix in index)
        place = _counted_at(ev, op, index, bins, width)
        if not width:
            count(place, 0)
            return
        within = b.and_(index[-1].base, b.integer(I64, batch - 1))
        b.store(place, b.gep("i64", places, within), 8)
        b.when(b.icmp("eq", within, b.integer(I64, batch - width)), count_batch)

    def count_batch() -> None:
        turns = min(many, batch)

        def some(i: LValue, _: list[LValue]) -> list[LValue]:
            for k in range(turns):
                count(b.load(I64, b.gep("i64", b.gep("i64", places, i), b.integer(I64, k)), 8), k)
            return []

        b.loop(b.integer(I64, 0), b.integer(I64, batch), turns, [], some)

    def count(place: LValue, table: int) -> None:
        bin_ = at(at(tables.pointer, table * row), place)
        b.store(b.add(b.load(scalar, bin_, bytes_), b.integer(scalar, 1)), bin_, bytes_)

    def total(i: LValue, _: list[LValue]) -> list[LValue]:
        vector = LType(scalar.scalar, lanes)
        rows = [b.load(vector, at(at(tables.pointer, k * row), i), bytes_) for k in range(many)]
        b.store(functools.reduce(b.add, rows), at(counts.pointer, i), bytes_)
        return []

    b.loop(b.integer(I64, 0), b.integer(I64, many * row), lanes, [], clear)
    fl.nest(shape, op.operands[:1], step, masks=op.operands[1:])
    b.loop(b.integer(I64, 0), b.integer(I64, bins), lanes, [], total)
    fl.bind(op.result, counts)


def _counted_at(ev: Evaluator, op: Op, index: Index, bins: int, lanes: int) -> LValue:
    """The bin of each lane as i64, the one past the last for what is not counted."""
    b = ev.b
    mask, _ = ev.mask(op.operands[1], index) if len(op.operands) > 1 else OPEN
    raw = ev.spread(ev.evaluate(op.operands[0], index), lanes).raw(b)
    narrow = "i32" if raw.type.bits < 64 else "i64"
    wide = b.integer_cast(raw, narrow, signed=False)
    past = b.integer(wide.type, bins)
    found = b.intrinsic("umin", wide.type, wide, past)
    if mask is not None:
        found = b.select(b.splat(mask, lanes) if lanes else mask, found, past)
    return b.integer_cast(found, "i64", signed=False)
