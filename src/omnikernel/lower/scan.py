"""Scans: running combinations along an axis, by any combine region, of any number of operands.

The order is the same on every machine (and in `reference/`): one element after the other along the axis, from its end
where the scan is reversed. The operands are computed into the results' buffers, and combined there in place. Lanes run
along another dimension: the one inside the axis as it lies, or, where the axis is innermost, rows turned into columns by
square blocks in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..ir.tile import Op
from ..ir.types import Pointer, Scalar, Tensor, shape_of
from ..llvm.emit import I64, LType, LValue
from .evaluate import Buffer
from .function import FunctionLowering, statement
from .lanes import Lanes
from .reduce import Combiner
from .region import inline, runs_on_lanes

INNER_LANES = 32
BLOCK = 8  # rows and columns of a turned block


class Cells:
    """Elements of row-major buffers of one shape, by their flat position."""

    def __init__(self, fl: FunctionLowering, buffers: Sequence[Buffer]) -> None:
        self.b = fl.b
        self.buffers = buffers

    def pointers(self, at: LValue) -> list[LValue]:
        return [self.b.gep(buffer.memory.scalar, buffer.pointer, at) for buffer in self.buffers]

    def load(self, at: LValue, lanes: int = 0) -> list[Lanes]:
        """Consecutive elements of every buffer."""
        made = []
        for pointer, buffer in zip(self.pointers(at), self.buffers, strict=True):
            type_ = LType(buffer.memory.scalar, lanes)
            made.append(self.value(self.b.load(type_, pointer, type_.bits // 8), buffer.element))
        return made

    def value(self, memory: LValue, element: Scalar | Pointer) -> Lanes:
        if isinstance(element, Scalar) and element.kind == "i1":
            return Lanes(element, self.b.icmp("ne", memory, self.b.zero(memory.type)))
        return Lanes(element, memory)

    def memory(self, value: Lanes) -> LValue:
        raw = value.raw(self.b)
        return self.b.cast("zext", raw, "i8") if raw.type.scalar == "i1" else raw

    def store(self, at: LValue, values: Sequence[Lanes]) -> None:
        for pointer, value in zip(self.pointers(at), values, strict=True):
            memory = self.memory(value)
            self.b.store(memory, pointer, memory.type.bits // 8)


Combine = Callable[[Sequence[Lanes], Sequence[Lanes]], list[Lanes]]


class Scan:
    """One scan over buffers: outer rows, the axis, and what lies inside it."""

    def __init__(self, fl: FunctionLowering, op: Op, buffers: Sequence[Buffer]) -> None:
        self.fl, self.b = fl, fl.b
        self.cells = Cells(fl, buffers)
        shape, axis = buffers[0].shape, op.attributes["axis"]
        self.outer, self.extent, self.inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
        self.reverse = bool(op.attributes.get("reverse"))
        self.combiner = Combiner(fl, op)
        self.on_lanes = runs_on_lanes(fl, op.regions[0])
        self.combine: Combine = (
            self.combiner if self.on_lanes else lambda old, new: inline(fl, op.regions[0], [*old, *new])
        )

    def number(self, value: int) -> LValue:
        return self.b.integer(I64, value)

    def loop(self, count: int, step: int, body: Callable[[LValue], None]) -> None:
        def trip(i: LValue, _: list[LValue]) -> list[LValue]:
            body(i)
            return []

        if count == step:
            body(self.number(0))
        else:
            self.b.loop(self.number(0), self.number(count), step, [], trip)

    def along(self, width: int, step: Callable[[LValue, list[Lanes] | None], list[Lanes]]) -> None:
        """Steps of `width` along the axis, in the scan's direction; a step gets what the one before it returned."""
        b, wrap, unwrap = self.b, self.combiner.wrap, self.combiner.unwrap
        last = self.extent - width
        carried = unwrap(step(self.number(last if self.reverse else 0), None))

        def trip(i: LValue, values: list[LValue]) -> list[LValue]:
            at = b.sub(self.number(last), i) if self.reverse else i
            return unwrap(step(at, wrap(values)))

        b.loop(self.number(width), self.number(self.extent), width, carried, trip)

    def run(self) -> None:
        if self.inner == 1 and self.on_lanes and min(self.outer, self.extent) > 1:
            self.turned(min(BLOCK, self.outer, self.extent))
            return
        lanes = min(self.inner, INNER_LANES) if self.on_lanes and self.inner > 1 else 0

        def column(row: LValue, place: LValue) -> None:
            start = self.b.add(self.b.mul(row, self.number(self.extent * self.inner)), place)

            def step(at: LValue, before: list[Lanes] | None) -> list[Lanes]:
                here = self.b.add(start, self.b.mul(at, self.number(self.inner)))
                values = self.cells.load(here, lanes)
                if before is None:
                    return values
                values = self.combine(before, values)
                self.cells.store(here, values)
                return values

            self.along(1, step)

        self.loop(self.outer, 1, lambda row: self.loop(self.inner, max(1, lanes), lambda place: column(row, place)))

    def turned(self, size: int) -> None:
        """The axis is innermost: blocks of `size` rows by `size` elements, combined as columns."""
        cells, count = self.cells, len(self.cells.buffers)

        def rows(first: LValue) -> None:
            def step(at: LValue, before: list[Lanes] | None) -> list[Lanes]:
                places = [
                    self.b.add(self.b.mul(self.b.add(first, self.number(r)), self.number(self.extent)), at)
                    for r in range(size)
                ]
                loaded = [[cells.memory(v) for v in cells.load(place, size)] for place in places]
                columns = [self.transposed([row[k] for row in loaded]) for k in range(count)]
                order = range(size - 1, -1, -1) if self.reverse else range(size)
                made: dict[int, list[LValue]] = {}
                for column in order:
                    values = [cells.value(columns[k][column], cells.buffers[k].element) for k in range(count)]
                    before = values if before is None else self.combine(before, values)
                    made[column] = [cells.memory(v) for v in before]
                assert before is not None
                back = [self.transposed([made[column][k] for column in range(size)]) for k in range(count)]
                for r, place in enumerate(places):
                    for k, pointer in enumerate(cells.pointers(place)):
                        value = back[k][r]
                        self.b.store(value, pointer, value.type.bits // 8)
                return before

            self.along(size, step)

        self.loop(self.outer, size, rows)

    def transposed(self, rows: list[LValue]) -> list[LValue]:
        """A square of vectors, rows as columns: at each step halves of twice as fine blocks change places."""
        size = len(rows)
        half = size // 2
        while half:
            made = list(rows)
            keep = [i if not i & half else size + i - half for i in range(size)]
            take = [i + half if not i & half else size + i for i in range(size)]
            for i in range(size):
                if not i & half:
                    made[i] = self.b.shuffle(rows[i], rows[i + half], keep)
                    made[i + half] = self.b.shuffle(rows[i], rows[i + half], take)
            rows = made
            half //= 2
        return rows


@statement("tt.scan")
def lower_scan(fl: FunctionLowering, op: Op) -> None:
    shape = shape_of(op.operands[0].type)
    fl.settle(op.operands, shape, keep=False)
    buffers = []
    for operand, result in zip(op.operands, op.results, strict=True):
        assert isinstance(result.type, Tensor)
        buffers.append(fl.materialise(operand, fl.buffer(shape, result.type.element)))
    scan = Scan(fl, op, buffers)
    if scan.extent > 1:
        scan.run()
    fl.cost += fl.trips * prod(shape) * (2.0 if scan.outer * scan.inner == 1 else 0.5)
    for result, buffer in zip(op.results, buffers, strict=True):
        fl.bind(result, buffer)
