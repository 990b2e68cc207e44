"""Atomics: real ones, element by element in row-major order, so that other threads see each at most once.

Masked-off elements touch no memory and give 0. Types that no instruction adds (f16, bf16) go through a
compare-and-swap loop on their bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.tile import Op, Value
from ..ir.types import Pointer, Scalar, Tensor, element_of, shape_of
from ..llvm.emit import LType, LValue
from .evaluate import Address, Buffer, Evaluator, pointee_memory
from .function import FunctionLowering, statement
from .index import Index, operand_index
from .lanes import Lanes, is_narrow, register_type
from .memory import OPEN, store_lanes

# One thread's view of memory is what the order gives; the scopes of a GPU make no difference here.
ORDER = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
RMW = {
    "and": "and",
    "or": "or",
    "xor": "xor",
    "add": "add",
    "fadd": "fadd",
    "max": "max",
    "min": "min",
    "umax": "umax",
    "umin": "umin",
    "exch": "xchg",
}


def _as_integer(fl: FunctionLowering, value: Lanes) -> LValue:
    """The bits of a value, as memory holds them."""
    raw = value.raw(fl.b)
    if raw.type.scalar == "i1":
        return fl.b.cast("zext", raw, "i8")
    if raw.type.scalar == "ptr":
        return fl.b.cast("ptrtoint", raw, "i64")
    return fl.b.cast("bitcast", raw, f"i{raw.type.bits}")


def _from_integer(fl: FunctionLowering, value: LValue, element: Scalar | Pointer) -> Lanes:
    to = register_type(element)
    if to.scalar == "i1":
        return Lanes(element, fl.b.icmp("ne", value, fl.b.zero(value.type)))
    if to.scalar == "ptr":
        return Lanes(element, fl.b.cast("inttoptr", value, "ptr"))
    return Lanes(element, fl.b.cast("bitcast", value, to.scalar))


def _exchange(
    fl: FunctionLowering, op: Op, pointer: LValue, expected: LValue, desired: LValue
) -> tuple[LValue, LValue]:
    """A compare-and-swap; the old bits, and whether it was done."""
    b = fl.b
    order = ORDER[op.attributes.get("sem", "acq_rel")]
    fails = {"release": "monotonic", "acq_rel": "acquire"}.get(order, order)
    align = expected.type.bits // 8
    name = f"%{b.fresh('cas')}"
    b.line(f"{name} = cmpxchg {pointer}, {expected}, {desired} {order} {fails}, align {align}")
    pair = f"{{ {expected.type}, i1 }} {name}"
    return b.emit(expected.type, f"extractvalue {pair}, 0"), b.emit(LType("i1"), f"extractvalue {pair}, 1")


def _read_modify_write(fl: FunctionLowering, op: Op, pointer: LValue, value: Lanes) -> Lanes:
    b = fl.b
    kind = op.attributes["kind"]
    if kind not in RMW:
        raise fl.unsupported(op, f"atomic {kind}")
    order = ORDER[op.attributes.get("sem", "acq_rel")]
    element = value.type
    if kind == "fadd" and is_narrow(element):
        return _narrow_add(fl, op, pointer, value)
    operand = value.raw(b) if kind == "fadd" else _as_integer(fl, value)
    old = b.emit(operand.type, f"atomicrmw {RMW[kind]} {pointer}, {operand} {order}, align {operand.type.bits // 8}")
    return Lanes(element, old) if kind == "fadd" else _from_integer(fl, old, element)


def _narrow_add(fl: FunctionLowering, op: Op, pointer: LValue, value: Lanes) -> Lanes:
    """Add to an f16 or bf16: the sum is made outside and swapped in if nothing came between."""
    from .convert import round_to

    b = fl.b
    element = value.type
    assert isinstance(element, Scalar)
    memory = LType(f"i{element.bits}")
    seen = b.emit(memory, f"load atomic {memory}, {pointer} monotonic, align {element.bytes}")
    head, done = b.fresh("retry"), b.fresh("added")
    before = b.block
    b.jump(head)
    b.label(head)
    phi = b.named(f"%{b.fresh('seen')}", memory)
    place = b.reserve()
    total = b.fadd(Lanes(element, phi).wide(b), value.wide(b))
    rounded = Lanes(element, wide=round_to(b, total, element.kind))
    old, ok = _exchange(fl, op, pointer, phi, rounded.raw(b))
    latch = b.block
    b.fill(place, f"{phi.text} = phi {memory} [ {seen.text}, %{before} ], [ {old.text}, %{latch} ]")
    b.jump_if(ok, done, head)
    b.label(done)
    return Lanes(element, old)


def _swap(fl: FunctionLowering, op: Op, pointer: LValue, expected: Lanes, desired: Lanes) -> Lanes:
    old, _ = _exchange(fl, op, pointer, _as_integer(fl, expected), _as_integer(fl, desired))
    return _from_integer(fl, old, expected.type)


def _one(fl: FunctionLowering, op: Op, ev: Evaluator, index: Index, mask: Value | None) -> Lanes:
    """One element: its old value, or 0 where masked off."""
    b = fl.b
    values = [ev.evaluate(v, operand_index(op.operands[0], v, index))[0] for v in op.operands[1:] if v is not mask]
    address = ev.address(op.operands[0], index)
    pointer, _ = ev.scalar_pointer(address, pointee_memory(op.operands[0]))
    element = values[0].type

    def act() -> Sequence[LValue]:
        old = (
            _swap(fl, op, pointer, *values)
            if op.name == "tt.atomic_cas"
            else _read_modify_write(fl, op, pointer, values[0])
        )
        return [old.raw(b)]

    if mask is None:
        return Lanes(element, act()[0])
    on = ev.evaluate(mask, operand_index(op.operands[0], mask, index))[0].raw(b)
    (old,) = b.branch(on, act, lambda: [b.zero(register_type(element))])
    return Lanes(element, old)


@statement("tt.atomic_rmw", "tt.atomic_cas")
def lower_atomic(fl: FunctionLowering, op: Op) -> None:
    if op in fl.deferred:
        from .deferred import gather

        gather(fl, op)
        return
    mask = op.operands[2] if op.name == "tt.atomic_rmw" and len(op.operands) > 2 else None
    shape = shape_of(op.operands[0].type)
    if not shape:
        old = _one(fl, op, Evaluator(fl, flow=True), (), mask)
        fl.bind(op.result, old)
        return
    assert isinstance(op.result.type, Tensor)
    fl.settle(op.operands, shape, keep=False)
    results: Buffer = fl.buffer(shape, element_of(op.result.type))

    def step(ev: Evaluator, index: Index) -> None:
        old = _one(fl, op, ev, index, mask)
        address = Address(results.pointer, 0, ev.buffer_form(results, index))
        store_lanes(ev, address, (old, ev.level), OPEN, results.memory)

    fl.nest(shape, op.operands, step, scalar=True)
    fl.bind(op.result, results)
