"""Operands of products that stay packed: for the next trips of a loop, and for the next programs of a thread.

Programs that follow each other mostly share one operand, tile by tile: those of a column of the result load the same
tiles of B. So each trip of the loop has a slot of its own, in which the operand stays with the scalars that decided it;
where they are the same again, nothing is loaded, converted or turned. What the loop does not change has a single slot.

Slots that are never found again only fill the cache. So a program whose first trip differs from that of the one before
keeps its tiles only if those kept last were found at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir.tile import Op
from ..ir.types import I8
from ..llvm.emit import I64, PTR, Builder, LValue, Module
from ..passes.shared import Shared
from .ahead import Ahead, expect
from .evaluate import Buffer
from .function import FunctionLowering
from .waiting import Waiting

MOST_BYTES = 1 << 20  # of the slots of one operand
WORD = 8  # bytes of a scalar that is kept
LINE = 64
# What is known of an operand's slots, in words: how many are filled, the number of the trip, whether this program keeps
# its tiles, whether a kept one was found since; then the scalars of the program's first trip, and those of this one.
FILLED, TRIP, KEEPS, FOUND, SCALARS = range(5)
READY, NEXT_READY = 1, 2  # in the low bits of a slot's address


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operand is packed, and whether it lies there already; the same of the next trip, where it has a slot.

    Of the next trip also the distance of the slots.
    """

    pointer: LValue
    ready: LValue
    following: tuple[LValue, int, LValue] | None = None


def pack(
    fl: FunctionLowering, op: Op, number: int, size: int, make: Callable[[LValue], None], waiting: Waiting | None = None
) -> tuple[LValue, Place | None]:
    """Where an operand of `size` bytes lies packed, by `make` where it is not yet; with the place, where it stays."""
    where = place(fl, op, number, size, waiting.most if waiting else 1)
    if where is None:
        room = waiting.room(fl, size) if waiting else fl.buffer((size,), I8).pointer
        make(room)
        return room, None
    fl.b.when(fl.b.not_(where.ready), lambda: make(where.pointer))
    return where.pointer, where


def following(fl: FunctionLowering, op: Op, number: int, where: Place | None = None) -> Ahead | None:
    """What the loop around a product will load for an operand next; where it is packed already, that."""
    value, wanted = op.operands[number], fl.schedule.shared.get((op, number))
    stays = wanted is not None and wanted.loop is None  # what no trip changes is not loaded again
    ahead = None if stays or isinstance(fl.bindings.get(value), Buffer) else expect(fl, value)
    return ahead and (ahead.instead(fl.b, *where.following) if where and where.following else ahead)


def place(fl: FunctionLowering, op: Op, number: int, size: int, rooms: int = 1) -> Place | None:
    """The place of an operand of `size` bytes, for one trip; None where it is packed anew each time.

    It counts as packed from now on: what is not ready must be made. What is not kept stays for `rooms` trips.
    """
    wanted = fl.schedule.shared.get((op, number))
    if wanted is None:
        return None
    keys = [_word(fl.b, fl.raw(value)) for value in wanted.scalars]
    size = (size + LINE - 1) & -LINE
    if wanted.loop is None:
        return _single(fl, keys, size)
    stride = size + ((WORD * len(keys) + LINE - 1) & -LINE)
    if 2 * stride > MOST_BYTES:
        return None
    return _of_trip(fl, wanted, keys, (size, stride), rooms)


def _word(b: Builder, value: LValue) -> LValue:
    """The bits of a scalar as a word."""
    if value.type.scalar == "ptr":
        return b.cast("ptrtoint", value, "i64")
    if value.type.is_float:
        value = b.cast("bitcast", value, f"i{value.type.bits}")
    return b.cast("zext", value, "i64")


def _cells(fl: FunctionLowering, count: int, starts: Sequence[tuple[int, int]]) -> LValue:
    """Words that last from program to program; in memory, since as registers every loop would carry them."""
    cells = fl.lasting((WORD * count + LINE - 1) & -LINE)
    for number, start in starts:
        name = fl.b.fresh("cell")
        fl.b.slots.append(f"  %{name} = getelementptr i64, {cells}, i64 {number}")
        fl.b.slots.append(f"  store i64 {start}, ptr %{name}")
    return cells


def _at(b: Builder, words: LValue, number: LValue | int) -> LValue:
    return b.gep("i64", words, b.integer(I64, number) if isinstance(number, int) else number)


def _single(fl: FunctionLowering, keys: Sequence[LValue], size: int) -> Place:
    """The place of what no trip changes."""
    b = fl.b
    cells = _cells(fl, 1 + len(keys), [(FILLED, 0)])
    different = b.binary("xor", b.load(I64, cells, WORD), b.integer(I64, 1))
    b.store(b.integer(I64, 1), cells, WORD)
    for number, key in enumerate(keys, 1):
        cell = _at(b, cells, number)
        different = b.or_(different, b.xor(key, b.load(I64, cell, WORD)))
        b.store(key, cell, WORD)
    return Place(fl.lasting(size), b.icmp("eq", different, b.integer(I64, 0)))


def _of_trip(
    fl: FunctionLowering, wanted: Shared, keys: Sequence[LValue], extents: tuple[int, int], rooms: int
) -> Place:
    """The place of this trip's tile."""
    b = fl.b
    size, stride = extents
    count = MOST_BYTES // stride
    cells = _cells(fl, SCALARS + 2 * len(keys), [(FILLED, 0), (KEEPS, 1), (FOUND, 1)])
    slots = fl.lasting((count + rooms) * stride)
    assert wanted.loop is not None
    with b.within(fl.preheaders[wanted.loop]):
        b.store(b.integer(I64, 0), _at(b, cells, TRIP), WORD)
    for number, key in enumerate(keys, SCALARS + len(keys)):
        b.store(key, _at(b, cells, number), WORD)
    numbers = ", ".join(f"i64 {n}" for n in (count, rooms - 1, size, stride, len(keys)))
    found = b.emit(I64, f"call i64 @{_finder(b.module)}({cells}, {slots}, {numbers})")
    at = b.and_(found, b.integer(I64, -LINE))

    def flag(bit: int) -> LValue:
        return b.icmp("ne", b.and_(found, b.integer(I64, bit)), b.integer(I64, 0))

    pointer = b.cast("inttoptr", at, "ptr")
    return Place(pointer, flag(READY), (b.add(at, b.integer(I64, stride)), stride, flag(NEXT_READY)))


def _finder(module: Module) -> str:
    """The function that finds the slot of a trip, once a module: (cells, slots, count, rest, size, stride, scalars) -> place.

    `rest` is one less than the number of slots, a power of two, that what is not kept shares.
    """
    name = "slot.of.trip"
    head = f"define internal i64 @{name}("
    if any(text.startswith(head) for text in module.functions):
        return name
    b = Builder(module)
    cells, slots = LValue("%cells", PTR), LValue("%slots", PTR)
    names = ("count", "rest", "size", "stride", "scalars")
    count, rest, size, stride, scalars = (LValue(f"%{text}", I64) for text in names)
    none, one = b.integer(I64, 0), b.integer(I64, 1)

    def word(number: int) -> LValue:
        return b.load(I64, _at(b, cells, number), WORD)

    def replace(old: LValue, new: LValue) -> LValue:
        """Give words other values; whether they had them."""

        def step(i: LValue, carried: list[LValue]) -> list[LValue]:
            cell, value = _at(b, old, i), b.load(I64, _at(b, new, i), WORD)
            different = b.xor(value, b.load(I64, cell, WORD))
            b.store(value, cell, WORD)
            return [b.or_(carried[0], different)]

        return b.icmp("eq", b.loop(none, scalars, 1, [none], step)[0], none)

    trip, first = word(TRIP), _at(b, cells, SCALARS)
    b.store(b.add(trip, one), _at(b, cells, TRIP), WORD)
    now = _at(b, first, scalars)

    def decide() -> None:
        found = word(FOUND)
        same = replace(first, now)
        b.store(b.select(same, one, found), _at(b, cells, KEEPS), WORD)
        b.store(b.select(same, found, none), _at(b, cells, FOUND), WORD)

    b.when(b.icmp("eq", trip, none), decide)
    # The last slots are for what is not kept, and never count as filled.
    kept = b.and_(b.icmp("ne", word(KEEPS), none), b.icmp("ult", trip, count))
    slot = b.select(kept, trip, b.add(count, b.and_(trip, rest)))
    pointer = b.gep("i8", slots, b.mul(slot, stride))
    same, filled, following = replace(b.gep("i8", pointer, size), now), word(FILLED), b.add(slot, one)
    ready = b.and_(same, b.icmp("ult", slot, filled))
    next_ready = b.and_(ready, b.icmp("ult", following, filled))
    more = b.select(kept, b.intrinsic("umax", I64, filled, following), filled)
    b.store(more, _at(b, cells, FILLED), WORD)
    b.store(b.select(ready, one, word(FOUND)), _at(b, cells, FOUND), WORD)
    flags = b.add(b.cast("zext", ready, "i64"), b.shl(b.cast("zext", next_ready, "i64"), one))
    b.ret(b.or_(b.cast("ptrtoint", pointer, "i64"), flags))
    parameters = (*(f"{value.type} {value.text}" for value in (cells, slots, count, rest, size, stride, scalars)),)
    b.function(f"{head}{', '.join(parameters)})", "noinline nounwind ")
    return name
