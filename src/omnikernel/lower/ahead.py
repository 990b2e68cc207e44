"""Fetches the next tile of an operand into the cache while the present one is multiplied.

A loop over tiles steps through memory by the same distance each time, but a row of a tile is too short, and the next row
too far away, for the processor to foresee it. So the loop notes where the tile began, takes the distance from the one
before, and the product asks for the lines of the tile that follows, a few with each register block. A wrong guess (the
first tile, the last one) costs a little time: a prefetch never faults and changes no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..ir.tile import Op, Value
from ..ir.types import shape_of
from ..llvm.emit import I64, Builder, LType, LValue
from .evaluate import Evaluator, pointee_memory
from .function import FunctionLowering
from .index import SHAPE_OPS, ZERO, Index, Ix, operand_indices, symbolic_add, symbolic_bits
from .nest import choose_lane_dim
from .prefetch import LINE, prefetch

FARTHEST = 1 << 26  # bytes between two tiles, beyond which they are not taken for neighbours


@dataclass(frozen=True, slots=True)
class Ahead:
    """The tile that is expected next: `lines` of memory, `across` of them in each of its runs.

    `start` is its first byte's address, `stride` the distance of two runs, and `step` that of the tile after it, all i64.
    """

    start: LValue
    stride: LValue
    step: LValue
    lines: int
    across: int

    def instead(self, b: Builder, packed: LValue, distance: int, there: LValue) -> Ahead:
        """The tile as it lies packed, at an address, where it is there already, and the next one at a distance."""
        start = b.select(there, packed, self.start)
        stride = b.select(there, b.integer(I64, LINE * self.across), self.stride)
        return replace(self, start=start, stride=stride, step=b.select(there, b.integer(I64, distance), self.step))

    def later(self, b: Builder, tiles: LValue) -> Ahead:
        """The tile that comes so many tiles after this one."""
        return replace(self, start=b.add(self.start, b.mul(tiles, self.step)))

    def fetch(self, b: Builder, number: LValue, blocks: int) -> None:
        """Ask for block `number`'s share of the lines, of `blocks` in all (both are powers of two)."""
        each = max(1, self.lines // blocks)
        first = b.and_(b.mul(number, b.integer(I64, each)), b.integer(I64, self.lines - 1))
        run = b.lshr(first, b.integer(I64, self.across.bit_length() - 1))
        within = b.and_(first, b.integer(I64, self.across - 1))
        at = b.add(self.start, b.add(b.mul(run, self.stride), b.mul(within, b.integer(I64, LINE))))
        for _ in range(0, each, self.across):
            pointer = b.cast("inttoptr", at, "ptr")
            prefetch(b, pointer, LINE * min(each, self.across), cache=2)
            at = b.add(at, self.stride)


def fetch(b: Builder, tiles: Sequence[Ahead], rows: tuple[LValue, int, int], columns: tuple[LValue, int, int]) -> None:
    """Ask for one block's share of each tile. `rows` and `columns` say where the block is, its extent, and the whole."""
    (i, height, m), (j, width, n) = rows, columns
    if not tiles:
        return
    down = b.lshr(i, b.integer(I64, height.bit_length() - 1))
    along = b.lshr(j, b.integer(I64, width.bit_length() - 1))
    number = b.add(b.mul(along, b.integer(I64, m // height)), down)
    for tile in tiles:
        tile.fetch(b, number, m * n // (height * width))


def expect(fl: FunctionLowering, value: Value) -> Ahead | None:
    """Where the tile comes from that a loop loads for `value` the next time; None where nothing is known of it."""
    shape = shape_of(value.type)
    if fl.trips == 1 or len(shape) != 2:
        return None
    corners = [_source(fl, value, (ZERO, ZERO))]
    if corners[0] is None:
        return None
    dim = choose_lane_dim(Evaluator(fl, flow=True), shape, lambda index: [(value, index)], lambda _: [])
    if dim < 0:
        return None
    one = Ix(LValue("1", I64))
    other = 1 - dim
    corners.append(_source(fl, value, (one, ZERO) if other == 0 else (ZERO, one)))
    if corners[1] is None:
        return None
    if not all(ix.base.text.isdigit() for corner in corners if corner for ix in corner[1]):
        return None  # behind a reshape: an index in symbols, of which no code can be made
    b = fl.b
    ev = Evaluator(fl, flow=True)
    places = []
    for pointer, index in (corners[0], corners[1]):
        address = ev.address(pointer, index)
        if not address.uniform:
            return None
        places.append(b.cast("ptrtoint", ev.scalar_pointer(address, pointee_memory(pointer))[0], "i64"))
    start, second = places
    size = LType(pointee_memory(corners[0][0])).bits // 8
    across = max(1, shape[dim] * size // LINE)
    moved = _moved(b, start)
    return Ahead(b.add(start, moved), b.sub(second, start), moved, shape[other] * across, across)


def _moved(b: Builder, start: LValue) -> LValue:
    """How far `start` is from the address before it in the row of addresses that this place of the program sees."""
    last = b.slot("i64", "tile", 8)
    b.slots.append(f"  store i64 0, ptr {last.text}")
    moved = b.sub(start, b.load(I64, last, 8))
    b.store(start, last, 8)
    near = b.icmp("ult", b.add(moved, b.integer(I64, FARTHEST)), b.integer(I64, 2 * FARTHEST))
    return b.select(near, moved, b.integer(I64, 0))


def _source(fl: FunctionLowering, value: Value, index: Index) -> tuple[Value, Index] | None:
    """The pointer tile of the only load behind a value, and the index there; None where addresses are loaded."""
    stack: list[tuple[Value, Index]] = [(value, index)]
    found: set[tuple[Value, Index]] = set()
    while stack:
        current, at = stack.pop()
        if current in fl.bindings:
            continue
        op = fl.definition(current)
        if op.name == "tt.load":
            found.add((op.operands[0], at))
        else:
            stack.extend(operand_indices(op, current, at, symbolic_bits, symbolic_add))
    if len(found) != 1:
        return None
    (source,) = found
    return source if is_computed(fl, source[0]) else None


def is_computed(fl: FunctionLowering, pointer: Value) -> bool:
    """Whether no part of an address is a tile from memory, nor dear."""
    return all(op is not None and (op.name in SHAPE_OPS or op.name in _CHEAP) for op in ops_behind(fl, pointer))


def ops_behind(fl: FunctionLowering, pointer: Value) -> Iterator[Op | None]:
    """The ops that make the tiles which a tile of addresses is made of, each once; None for a tile in the arena."""
    stack, seen = [pointer], set()
    while stack:
        current = stack.pop()
        if current in seen or not shape_of(current.type):
            continue
        seen.add(current)
        op = None if current in fl.bindings else fl.definition(current)
        yield op
        if op is not None:
            stack.extend(op.operands)


_CHEAP = frozenset(
    {"tt.addptr", "tt.make_range", "arith.constant", "arith.addi", "arith.subi", "arith.muli", "arith.extsi"}
    | {"arith.remsi", "arith.remui"}
)
