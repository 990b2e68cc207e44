"""Loads and stores of lanes: one address, consecutive ones, or any."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.tile import Op
from ..ir.types import Pointer, Scalar, element_of
from ..llvm.emit import I1, I64, NON_TEMPORAL, LType, LValue
from .evaluate import Address, Evaluator, Placed, evaluates, memory_type, pointee_memory
from .index import Index, operand_index
from .lanes import Lanes

Mask = tuple[LValue | None, int]  # None where it holds; the level it is known at
OPEN: Mask = (None, 0)
SHORTEST_RUN = 8  # lanes side by side that are stored as a vector of their own


def from_memory(ev: Evaluator, value: LValue, element: Scalar | Pointer, wide: bool) -> Lanes:
    """What was loaded, as a value: a byte that holds an i1 is compared with zero."""
    if wide:
        return Lanes(element, wide=value)
    if isinstance(element, Scalar) and element.kind == "i1":
        return Lanes(element, ev.b.icmp("ne", value, ev.b.zero(value.type)))
    return Lanes(element, value)


def to_memory(ev: Evaluator, value: Lanes, wide: bool) -> LValue:
    """A value as it is stored."""
    raw = value.wide(ev.b) if wide else value.raw(ev.b)
    return ev.b.cast("zext", raw, "i8") if raw.type.scalar == "i1" else raw


def load_lanes(
    ev: Evaluator,
    address: Address,
    element: Scalar | Pointer,
    mask: Mask,
    other: Placed | None,
    *,
    wide: bool = False,
    volatile: bool = False,
) -> Placed:
    """Load the lanes of an address.

    Args:
        address: where from; its lanes decide how.
        mask: a scalar or vector i1 (None where it holds) with its level.
        other: what masked-off lanes give; 0 where None.
        wide: the memory holds f32 for a narrow float.
    """
    b = ev.b
    memory = LType("float") if wide else memory_type(element)
    align = memory.bits // 8
    on = mask[0]
    lanes = _lanes(address, on)
    level = max(address.level, mask[1])
    fallback = None
    if on and other and other[0].lanes > lanes:
        one = load_lanes(ev, address, element, mask, None, wide=wide, volatile=volatile)
        return _chosen(ev, one, on, other)
    if on:
        fallback = b.zero(LType(memory.scalar, lanes))
        if other:
            level = max(level, other[1])
            spread = ev.spread(other, lanes)
            with ev.at(other[1]):
                fallback = to_memory(ev, spread, wide)
    flags = " volatile" if volatile else ""
    if address.uniform:
        pointer, at = ev.scalar_pointer(address, memory.scalar)
        with ev.at(max(level, at)):
            loaded = _load_scalar(ev, memory, pointer, align, on, fallback, flags)
            return from_memory(ev, loaded, element, wide), max(level, at)
    if address.vector is None and address.linear.stride == 1:
        pointer, at = ev.scalar_pointer(address, memory.scalar)
        level = max(level, at)
        type_ = LType(memory.scalar, lanes)
        with ev.at(level):
            if on:
                pointer = _safe(ev, pointer, on)
                loaded = b.masked_load(type_, pointer, align, b.splat(on, lanes), fallback or b.zero(type_))
            else:
                loaded = b.load(type_, pointer, align)
            return from_memory(ev, loaded, element, wide), level
    if not on and not volatile and is_near(address):
        pointer, at = ev.scalar_pointer(address, memory.scalar)
        level = max(level, at)
        with ev.at(level):
            return from_memory(ev, _load_near(ev, memory, pointer, address.linear.pattern), element, wide), level
    pointers, at = ev.pointers(address, memory.scalar)
    level = max(level, at)
    type_ = LType(memory.scalar, lanes)
    with ev.at(level):
        lanes_on = b.splat(on, lanes) if on else b.integer(LType("i1", lanes), 1)
        loaded = b.gather(type_, b.splat(pointers, lanes), align, lanes_on, fallback or b.zero(type_))
        return from_memory(ev, loaded, element, wide), level


def _chosen(ev: Evaluator, loaded: Placed, on: LValue, other: Placed) -> Placed:
    """One place for all lanes where its mask is on, or else lanes that differ."""
    level, lanes = max(loaded[1], other[1]), other[0].lanes
    with ev.at(level):
        value = ev.b.select(on, ev.b.splat(loaded[0].raw(ev.b), lanes), other[0].raw(ev.b))
        return Lanes(other[0].type, raw=value), level


def is_near(address: Address) -> bool:
    """The lanes lie at constant distances, at least every other element between the first and the last being one."""
    pattern = address.linear.pattern
    if address.vector is not None or address.linear.scale is not None or not pattern:
        return False
    return max(pattern) - min(pattern) < 2 * len(pattern)


def _load_near(ev: Evaluator, memory: LType, pointer: LValue, pattern: tuple[int, ...]) -> LValue:
    """All from the first to the last, in one or two vectors, of which the lanes are picked: no gather.

    What lies between two elements of the tile is on a page of one of them, so nothing else is touched.
    """
    b = ev.b
    low, span = min(pattern), max(pattern) - min(pattern) + 1
    width = min(len(pattern), 1 << (span.bit_length() - 1))
    type_ = LType(memory.scalar, width)
    last = span - width

    def part(start: int) -> LValue:
        return b.load(type_, b.gep(memory.scalar, pointer, b.integer(I64, low + start)), memory.bits // 8)

    order = [p - low if p - low < width else p - low - last + width for p in pattern]
    return b.shuffle(part(0), part(last) if last else None, order)


def _store_near(ev: Evaluator, value: LValue, pointer: LValue, pattern: tuple[int, ...]) -> None:
    """Two vectors whose other lanes are masked off: no scatter. The lanes' places differ."""
    b = ev.b
    low, lanes = min(pattern), len(pattern)
    holders = {p - low: lane for lane, p in enumerate(pattern)}
    for start in (0, lanes):
        held = [holders.get(start + i) for i in range(lanes)]
        if any(lane is not None for lane in held):
            moved = b.shuffle(value, None, [lane or 0 for lane in held])
            mask = b.vector(LType("i1", lanes), ["false" if lane is None else "true" for lane in held])
            at = b.gep(value.type.scalar, pointer, b.integer(I64, low + start))
            b.masked_store(moved, at, value.type.bits // 8, mask)


def _run(pattern: tuple[int, ...]) -> int:
    """How many lanes lie side by side in each of the equal runs that a pattern consists of."""
    run = next((i for i in range(1, len(pattern)) if pattern[i] != pattern[0] + i), len(pattern))
    whole = run and len(pattern) % run == 0 and all(p == pattern[i - i % run] + i % run for i, p in enumerate(pattern))
    return run if whole else 0


def _lanes(address: Address, on: LValue | None) -> int:
    if address.vector:
        return address.vector[0].lanes
    return len(address.linear.pattern) or (on.lanes if on else 0)


def _load_scalar(
    ev: Evaluator, memory: LType, pointer: LValue, align: int, on: LValue | None, fallback: LValue | None, flags: str
) -> LValue:
    """One element for all lanes; where the mask is off in every lane, a place of our own is read instead."""
    b = ev.b
    if on is None:
        return _plain_load(ev, memory, pointer, align, flags)
    loaded = _plain_load(ev, memory, _safe(ev, pointer, on), align, flags)
    assert fallback is not None
    return b.select(on, b.splat(loaded, on.lanes), fallback) if on.lanes else b.select(on, loaded, fallback)


def _safe(ev: Evaluator, pointer: LValue, on: LValue) -> LValue:
    """The pointer, or a place of our own where the mask is off in every lane.

    A masked access touches no memory there either, but where that is not mapped, as beyond the end of an array, it takes
    x86 processors some hundred cycles to find out.
    """
    b = ev.b
    any_on = b.call(f"llvm.vector.reduce.or.{on.type.suffix}", I1, on) if on.lanes else on
    return b.select(any_on, pointer, ev.function.dummy)


def _plain_load(ev: Evaluator, memory: LType, pointer: LValue, align: int, flags: str) -> LValue:
    return ev.b.emit(memory, f"load{flags} {memory}, {pointer}, align {align}")


def store_lanes(
    ev: Evaluator,
    address: Address,
    value: Placed,
    mask: Mask,
    memory: LType,
    *,
    wide: bool = False,
    past_caches: int = 0,
) -> None:
    """Store lanes here and now, in the flow of the innermost loop. Of equal addresses the last lane wins.

    Args:
        past_caches: bytes that the address is a multiple of, where lanes side by side go past the caches.
    """
    b = ev.b
    on = mask[0]
    lanes = max(_lanes(address, on), value[0].lanes)
    align = memory.bits // 8
    if not lanes:
        pointer, _ = ev.scalar_pointer(address, memory.scalar)
        stored = to_memory(ev, value[0], wide)
        if on is None:
            b.store(stored, pointer, align)
        else:
            b.when(on, lambda: b.store(stored, pointer, align))
        return
    spread = ev.spread(value, lanes)
    stored = to_memory(ev, spread, wide)
    on = b.splat(on, lanes) if on else None
    if address.vector is None and address.linear.stride == 1:
        pointer, _ = ev.scalar_pointer(address, memory.scalar)
        if on is None and past_caches:
            b.store(stored, pointer, past_caches, NON_TEMPORAL)
        elif on is None:
            b.store(stored, pointer, align)
        else:
            b.masked_store(stored, _safe(ev, pointer, on), align, on)
        return
    run = _run(address.linear.pattern) if on is None and address.vector is None and address.linear.scale is None else 0
    if run >= SHORTEST_RUN:
        pointer, _ = ev.scalar_pointer(address, memory.scalar)
        for first in range(0, lanes, run):
            at = b.gep(memory.scalar, pointer, b.integer(I64, address.linear.pattern[first]))
            b.store(b.shuffle(stored, None, range(first, first + run)), at, align)
        return
    if on is None and is_near(address) and len(set(address.linear.pattern)) == lanes:
        pointer, _ = ev.scalar_pointer(address, memory.scalar)
        _store_near(ev, stored, pointer, address.linear.pattern)
        return
    pointers, _ = ev.pointers(address, memory.scalar)
    b.scatter(stored, b.splat(pointers, lanes), align, on or b.integer(LType("i1", lanes), 1))


@evaluates("tt.load")
def evaluate_load(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    result = op.results[0]
    at = [operand_index(result, operand, index) for operand in op.operands]
    mask = ev.mask(op.operands[1], at[1]) if len(op.operands) > 1 else OPEN
    address = ev.address(op.operands[0], at[0])
    other = ev.evaluate(op.operands[2], at[2]) if mask[0] and len(op.operands) > 2 else None
    return [
        load_lanes(ev, address, element_of(result.type), mask, other, volatile=bool(op.attributes.get("isVolatile")))
    ]


def store_at(ev: Evaluator, op: Op, index: Index) -> None:
    """One step of a tt.store: its lanes at an index."""
    pointer, value = op.operands[0], op.operands[1]
    stored = ev.evaluate(value, operand_index(pointer, value, index))
    mask = ev.mask(op.operands[2], operand_index(pointer, op.operands[2], index)) if len(op.operands) > 2 else OPEN
    address = ev.address(pointer, index)
    store_lanes(ev, address, stored, mask, LType(pointee_memory(pointer)), past_caches=ev.past_caches)
