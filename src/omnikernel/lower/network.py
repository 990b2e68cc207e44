"""Sorting networks: a tile in memory, changed in place, stage after stage.

A stage whose partners lie within one row of `ROW` elements is done in registers, together with its neighbours of that
kind; one whose partners lie further apart goes over pairs of rows. Stages that differ only in distances and directions
share their code and are driven by a table, so that the code for 65,536 elements is that for 128.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ..ir.network import Step, combination, comparison, steps_of
from ..ir.tile import Op
from ..ir.types import Tensor, shape_of
from ..llvm.emit import I32, I64, LType, LValue
from .evaluate import Buffer
from .function import FunctionLowering, statement
from .lanes import ELEMENTWISE, Lanes

ROW = 32


@dataclass(frozen=True, slots=True)
class Code:
    """What several stages may share.

    `kind` is "near" (swaps within a row), "far" (of two rows), "pair" (a halving within rows) or "fold" (of two rows).
    """

    kind: str
    swaps: tuple[tuple[int, tuple[int, ...]], ...] = ()  # bit, and which lanes take the greater one
    directed: bool = False  # the greater and the smaller change places in some rows
    bit: int = 0


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass over the tile: `count` rows (or pairs of rows) by a code, and what it is told.

    `distance` is the number of rows between partners as a power of two, `mask` the bit of a row's number that turns
    the direction, or 0; `turned` turns it everywhere.
    """

    code: Code
    count: int
    distance: int = 0
    mask: int = 0
    turned: int = 0

    @property
    def row(self) -> tuple[int, ...]:
        return self.count, self.distance, self.mask, self.turned


def plan(steps: Sequence[Step], size: int, width: int) -> list[Stage]:
    """The passes over a tile of `size` elements in rows of `width`."""
    stages: list[Stage] = []
    bits = width.bit_length() - 1
    for step in steps:
        rows = max(1, size // width)
        if step.halves:
            near = step.bit < bits
            code = Code("pair", bit=step.bit) if near else Code("fold")
            size //= 2
            stages.append(Stage(code, max(1, size // width), 0 if near else step.bit - bits))
            continue
        if step.bit >= bits:
            other = step.side ^ (1 << step.bit)
            stages.append(Stage(Code("far"), rows // 2, step.bit - bits, other >> bits, step.turned))
            continue
        mask = step.side >> bits
        turned = 0 if mask else step.turned
        lanes = tuple(((lane & step.side).bit_count() + turned) % 2 for lane in range(width))
        stage = Stage(Code("near", ((step.bit, lanes),), mask != 0), rows, 0, mask, step.turned if mask else 0)
        last = stages[-1] if stages else None
        if last and last.code.kind == "near" and last.code.directed == stage.code.directed and last.row == stage.row:
            merged = Code("near", (*last.code.swaps, *stage.code.swaps), stage.code.directed)
            stages[-1] = Stage(merged, *last.row)
        else:
            stages.append(stage)
    return stages


class Network:
    """Emits the passes over one buffer."""

    def __init__(self, fl: FunctionLowering, op: Op, buffer: Buffer, width: int) -> None:
        self.b = fl.b
        self.op = op
        self.compare = comparison(op)
        self.buffer = buffer
        self.type = LType(buffer.memory.scalar, width)

    def number(self, value: int) -> LValue:
        return self.b.integer(I64, value)

    def row(self, at: LValue) -> LValue:
        """Where a row begins."""
        return self.b.gep(self.type.scalar, self.buffer.pointer, self.b.mul(at, self.number(self.type.lanes)))

    def load(self, pointer: LValue) -> LValue:
        return self.b.load(self.type, pointer, self.type.bits // 8)

    def store(self, value: LValue, pointer: LValue) -> None:
        self.b.store(value, pointer, self.type.bits // 8)

    def greater(self, x: LValue, y: LValue) -> LValue:
        operands = [Lanes(self.buffer.element, v) for v in (x, y)]
        return ELEMENTWISE[self.compare.name](self.b, self.compare, operands)[0].raw(self.b)

    def combined(self, x: LValue, y: LValue) -> LValue:
        op = combination(self.op)
        return ELEMENTWISE[op.name](self.b, op, [Lanes(self.buffer.element, v) for v in (x, y)])[0].raw(self.b)

    def run(self, stages: Sequence[Stage]) -> None:
        codes = list(dict.fromkeys(stage.code for stage in stages))
        if len(codes) == len(stages):
            for stage in stages:
                self.stage(stage.code, [self.number(v) for v in stage.row])
            return
        table = ", ".join(f"i32 {v}" for stage in stages for v in (codes.index(stage.code), *stage.row))
        fields = 1 + len(stages[0].row)
        kind = f"[{fields * len(stages)} x i32]"
        name = self.b.module.constant(f"network.{len(self.b.module.globals)}", f"{kind} [{table}]")

        def field(start: LValue, k: int) -> LValue:
            pointer = self.b.gep("i32", LValue(name, self.buffer.pointer.type), self.b.add(start, self.number(k)))
            return self.b.load(I32, pointer, 4)

        def one(start: LValue) -> None:
            which = field(start, 0)
            row = [self.b.cast("zext", field(start, 1 + k), "i64") for k in range(fields - 1)]
            for number, code in enumerate(codes):
                chosen = self.b.icmp("eq", which, self.b.integer(I32, number))
                self.b.when(chosen, partial(self.stage, code, row))

        self.b.repeat(fields * len(stages), fields, one)

    def stage(self, code: Code, row: Sequence[LValue]) -> None:
        """One pass, told the fields of `Stage.row`."""
        count, distance, mask, turned = row

        def at(i: LValue, _: list[LValue]) -> list[LValue]:
            if code.kind == "near":
                self.near(code, i, mask, turned)
            elif code.kind == "far":
                self.far(i, distance, mask, turned)
            elif code.kind == "pair":
                self.pair(code.bit, i)
            else:
                low, high = self.partners(i, distance)
                self.store(self.combined(self.load(self.row(low)), self.load(self.row(high))), self.row(i))
            return []

        self.b.loop(self.number(0), count, 1, [], at)

    def direction(self, place: LValue, mask: LValue, turned: LValue) -> LValue:
        """Whether the greater and the smaller change places in a row."""
        b = self.b
        return b.xor(b.icmp("ne", b.and_(place, mask), self.number(0)), b.icmp("ne", turned, self.number(0)))

    def near(self, code: Code, at: LValue, mask: LValue, turned: LValue) -> None:
        pointer = self.row(at)

        def swapped(turn: int) -> LValue:
            x = self.load(pointer)
            for bit, right in code.swaps:
                y = self.b.shuffle(x, None, [lane ^ (1 << bit) for lane in range(self.type.lanes)])
                greater = self.greater(x, y)
                high, low = self.b.select(greater, x, y), self.b.select(greater, y, x)
                lanes = self.type.lanes
                x = self.b.shuffle(high, low, [lane + lanes * (right[lane] == turn) for lane in range(lanes)])
            return x

        if code.directed:
            turns = self.direction(at, mask, turned)
            (value,) = self.b.branch(turns, lambda: [swapped(1)], lambda: [swapped(0)])
        else:
            value = swapped(0)
        self.store(value, pointer)

    def partners(self, at: LValue, distance: LValue) -> tuple[LValue, LValue]:
        """The rows of a pair: its number with an unset and with a set bit put in."""
        b = self.b
        one = self.number(1)
        apart = b.shl(one, distance)
        below = b.and_(at, b.sub(apart, one))
        low = b.or_(b.shl(b.sub(at, below), one), below)
        return low, b.or_(low, apart)

    def far(self, at: LValue, distance: LValue, mask: LValue, turned: LValue) -> None:
        """Where the direction is turned, the rows change their parts."""
        b = self.b
        low, high = self.partners(at, distance)
        turns = self.direction(low, mask, turned)
        first, second = self.row(b.select(turns, high, low)), self.row(b.select(turns, low, high))
        x, y = self.load(first), self.load(second)
        self.store(b.select(self.greater(x, y), y, x), first)
        self.store(b.select(self.greater(y, x), y, x), second)

    def pair(self, bit: int, at: LValue) -> None:
        """Partners within rows: two rows become one."""
        first = self.b.shl(at, self.number(1))
        x, y = self.load(self.row(first)), self.load(self.row(self.b.or_(first, self.number(1))))
        lanes = [lane for lane in range(2 * self.type.lanes) if not lane >> bit & 1]
        low, high = (self.b.shuffle(x, y, [lane + away for lane in lanes]) for away in (0, 1 << bit))
        self.store(self.combined(low, high), self.row(at))


@statement("tile.network")
def lower_network(fl: FunctionLowering, op: Op) -> None:
    source = op.operands[0]
    shape = shape_of(source.type)
    assert isinstance(op.result.type, Tensor) and isinstance(source.type, Tensor)
    element, size = source.type.element, source.type.size
    steps = steps_of(op)
    width = min(ROW, size)
    halved = any(step.halves for step in steps)  # reads two rows, also of a tile that has one
    room = fl.buffer((max(size, 2 * width if halved else width),), element)
    fl.settle([source], shape, keep=False)
    fl.materialise(source, Buffer(room.pointer, shape, element))
    stages = plan(steps, size, width)
    Network(fl, op, room, width).run(stages)
    fl.cost += fl.trips * sum(stage.count * (4 + 2 * len(stage.code.swaps)) for stage in stages)
    fl.bind(op.result, Buffer(room.pointer, shape_of(op.result.type), element))
