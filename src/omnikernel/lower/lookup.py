"""Elements that say where others are: gather along an axis, and histogram."""

from __future__ import annotations

from ..ir.tile import Op
from ..ir.types import Tensor, element_of, shape_of
from ..llvm.emit import I64, LType, LValue
from .evaluate import Address, Buffer, Evaluator
from .function import FunctionLowering, statement
from .index import ZERO, Index
from .linear import Linear
from .memory import OPEN, load_lanes, store_lanes


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


@statement("tt.histogram")
def lower_histogram(fl: FunctionLowering, op: Op) -> None:
    """Counts one element at a time; the element's bits are an unsigned number, whatever its width."""
    b = fl.b
    assert isinstance(op.result.type, Tensor)
    (bins,) = op.result.type.shape
    counts = fl.buffer((bins,), element_of(op.result.type))
    fl.settle(op.operands, shape_of(op.operands[0].type), keep=False)
    lanes = min(bins, 32)
    zero = b.zero(LType(counts.memory.scalar, lanes))
    scalar = counts.memory

    def clear(i: LValue, _: list[LValue]) -> list[LValue]:
        b.store(zero, b.gep(scalar.scalar, counts.pointer, i), scalar.bits // 8)
        return []

    b.loop(b.integer(I64, 0), b.integer(I64, bins), lanes, [], clear)

    def step(ev: Evaluator, index: Index) -> None:
        value = ev.evaluate(op.operands[0], index)[0].raw(b)
        wide = b.integer_cast(value, "i64", signed=False)
        counted = b.icmp("ult", wide, b.integer(I64, bins))
        if len(op.operands) > 1:
            counted = b.and_(counted, ev.evaluate(op.operands[1], index)[0].raw(b))

        def count() -> list[LValue]:
            place = b.gep(scalar.scalar, counts.pointer, wide)
            b.store(b.add(b.load(scalar, place, scalar.bits // 8), b.integer(scalar, 1)), place, scalar.bits // 8)
            return []

        b.branch(counted, count)

    fl.nest(shape_of(op.operands[0].type), op.operands, step, scalar=True)
    fl.bind(op.result, counts)
