"""Products of 8-bit integers by AVX-512 VNNI: four multiply-adds a lane of i32 in one instruction.

VPDPBUSD multiplies unsigned by signed bytes. The left operand is therefore shifted by 128, and what that adds to each
sum, 128 times the sum of the right operand's column, is subtracted beforehand; all of it modulo 2**32, so exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ..ir.tile import Constant, Op, Value
from ..ir.types import I8, I32, Tensor, element_of, shape_of
from ..llvm.emit import I64, Builder, LType, LValue
from .ahead import Ahead, fetch
from .dot_tiles import multiply_tiles, takes_tiles
from .evaluate import Buffer
from .function import FunctionLowering
from .panels import following, pack
from .waiting import Waiting, wait

BYTES = LType("i8", 64)
SUMS = LType("i32", 16)
ROWS, VECTORS = 8, 2


def takes(fl: FunctionLowering, op: Op) -> bool:
    """Whether a product is one of bytes that this machine and these tiles allow."""
    if element_of(op.operands[0].type) != I8 or element_of(op.result.type) != I32:
        return False
    shape = shape_of(op.operands[0].type)
    if len(shape) != 2 or fl.vector_bits < 512 or "avx512vnni" not in fl.b.module.features:
        return False
    return shape[1] % 4 == 0 and shape_of(op.result.type)[1] % 16 == 0


def _dot_product(b: Builder, sums: LValue, unsigned: LValue, signed: LValue) -> LValue:
    return b.call("llvm.x86.avx512.vpdpbusd.512", SUMS, sums, unsigned, signed)


@dataclass(frozen=True, slots=True)
class BytePair:
    """The operands of a product of bytes as they are multiplied, and the tiles to fetch meanwhile for the loop's next trip.

    The left one lies row-major, the right one as (N / width, K / 4, width, 4), where a block has that width. Without tile
    registers the left one is unsigned, and `excess` is what that adds to the sums of each column. Where tiles wait, all are
    multiplied, this pair being the last.
    """

    left: LValue
    right: LValue
    excess: LValue | None
    depth: int  # k
    following: tuple[Ahead, ...]
    waiting: Waiting | None = None


def pack_bytes(fl: FunctionLowering, op: Op) -> BytePair:
    """Both operands of a product of bytes."""
    a, b = op.operands[:2]
    fl.settle([a, b], (), keep=False)
    (m, k), n = shape_of(a.type), shape_of(op.result.type)[1]
    tiles = takes_tiles(fl, op)
    width = n if tiles else _width(n)
    waiting = None if tiles else wait(fl, op, width * k, k * (m + n))
    value = a if tiles else _unsigned(fl, a)

    def make_left(pointer: LValue) -> None:
        fl.materialise(value, Buffer(pointer, (m, k), I8))

    def make_right(pointer: LValue) -> None:
        _interleave(fl, b, pointer, width, None if tiles else _behind(fl, pointer, k * n))

    left, first = pack(fl, op, 0, m * k, make_left, waiting)
    right, second = pack(fl, op, 1, k * n + (0 if tiles else 4 * n), make_right, waiting)
    # What stays packed while tiles wait is so small that the cache keeps it; asking for it anew costs 2 %.
    places = enumerate((first, second))
    ahead = [following(fl, op, number, where) for number, where in places if not (waiting and where)]
    if waiting:
        waiting.add(fl.b, left, right)
    excess = None if tiles else _behind(fl, right, k * n)
    return BytePair(left, right, excess, k, (*filter(None, ahead),), waiting)


def _width(n: int) -> int:
    """Columns of a block of sums."""
    return 16 * min(VECTORS, n // 16)


def _behind(fl: FunctionLowering, pointer: LValue, size: int) -> LValue:
    return fl.b.gep("i8", pointer, fl.b.integer(I64, size))


def _unsigned(fl: FunctionLowering, value: Value) -> Value:
    """A tile of bytes plus 128."""
    assert isinstance(value.type, Tensor)
    top = Value(f"{value.name}.top", value.type)
    moved = Op("arith.xori", (value, top), (Value(f"{value.name}.unsigned", value.type),))
    fl.definitions[top] = Op("arith.constant", (), (top,), {"value": Constant((0x80,), value.type)})
    fl.definitions[moved.result] = moved
    return moved.result


def _interleave(fl: FunctionLowering, value: Value, woven: LValue, width: int, excess: LValue | None) -> None:
    """The right operand as (N / width, K / 4, width, 4) bytes; where wanted, 128 times the sum of each of its columns."""
    b = fl.b
    bound = fl.bindings.get(value)
    buffer = bound if isinstance(bound, Buffer) else fl.materialise(value)
    k, n = buffer.shape
    row = LType("i8", 16)
    order = [part * 16 + column for column in range(16) for part in range(4)]

    def columns(j: LValue) -> None:
        within = b.and_(j, b.integer(I64, width - 1))
        start = b.add(b.mul(b.sub(j, within), b.integer(I64, k)), b.mul(within, b.integer(I64, 4)))

        def quad(i: LValue, carried: list[LValue]) -> Sequence[LValue]:
            at = b.add(b.mul(i, b.integer(I64, n)), j)
            rows = [b.load(row, b.gep("i8", buffer.pointer, b.add(at, b.integer(I64, r * n))), 1) for r in range(4)]
            pairs = [b.shuffle(rows[r], rows[r + 1], range(32)) for r in (0, 2)]
            together = b.shuffle(b.shuffle(pairs[0], pairs[1], range(64)), None, order)
            b.store(together, b.gep("i8", woven, b.add(b.mul(i, b.integer(I64, width)), start)), 1)
            return [_dot_product(b, total, b.integer(BYTES, 0x80), together) for total in carried]

        totals = b.loop(b.integer(I64, 0), b.integer(I64, k), 4, [b.zero(SUMS)] if excess else [], quad)
        if excess:
            b.store(totals[0], b.gep("i32", excess, j), 4)

    b.repeat(n, 16, columns)


def multiply_bytes(fl: FunctionLowering, pair: BytePair, target: Buffer, zero: bool) -> None:
    """target = a @ b (+ target, unless `zero`) in i32; where pairs wait, when they are enough."""
    if pair.excess is None:
        multiply_tiles(fl, pair.left, pair.right, target, pair.depth, zero, pair.following)
    elif pair.waiting is None:
        _multiply_vectors(fl, pair, pair.excess, target, zero)
    else:
        fl.b.when(pair.waiting.full, partial(_multiply_vectors, fl, pair, pair.excess, target, zero))


def _multiply_vectors(fl: FunctionLowering, pair: BytePair, excess: LValue, target: Buffer, zero: bool) -> None:
    b = fl.b
    m, n = target.shape
    rows, vectors = min(ROWS, m), _width(n) // 16
    cells = [(r, v) for r in range(rows) for v in range(vectors)]

    def terms(
        operands: tuple[LValue, LValue],
        following: Sequence[Ahead],
        corner: tuple[LValue, LValue],
        sums: list[LValue],
    ) -> list[LValue]:
        fetch(b, following, (corner[0], rows, m), (corner[1], 16 * vectors, n))
        return _terms(b, operands, pair.depth, corner, (rows, vectors), sums)

    def block(i: LValue, j: LValue, less: Sequence[LValue]) -> None:
        at = b.add(b.mul(i, b.integer(I64, n)), j)
        places = [b.gep("i32", target.pointer, b.add(at, b.integer(I64, r * n + v * 16))) for r, v in cells]

        def waited(number: LValue, carried: list[LValue]) -> list[LValue]:
            assert pair.waiting is not None
            following = [ahead.later(b, number) for ahead in pair.following]
            return terms(pair.waiting.pair(b, number), following, (i, j), carried)

        sums = [b.zero(SUMS) if zero else b.load(SUMS, place, 4) for place in places]
        sums = [b.sub(total, less[v]) for total, (_, v) in zip(sums, cells, strict=True)]
        if pair.waiting:
            sums = b.loop(b.integer(I64, 0), pair.waiting.count(b), 1, sums, waited)
        else:
            sums = terms((pair.left, pair.right), pair.following, (i, j), sums)
        for place, value in zip(places, sums, strict=True):
            b.store(value, place, 4)

    def columns(j: LValue) -> None:
        less = _excess(fl, pair, excess, n, j, vectors)
        b.repeat(m, rows, lambda i: block(i, j, less))

    b.repeat(n, 16 * vectors, columns)
    fl.cost += fl.trips * m * n * pair.depth / 64 * 0.35


def _excess(fl: FunctionLowering, pair: BytePair, excess: LValue, n: int, j: LValue, vectors: int) -> list[LValue]:
    """What is too much in the sums of a block's columns."""
    b = fl.b

    def of_tile(over: LValue) -> list[LValue]:
        column = b.gep("i32", over, j)
        return [b.load(SUMS, b.gep("i32", column, b.integer(I64, v * 16)), 4) for v in range(vectors)]

    def waited(number: LValue, carried: list[LValue]) -> list[LValue]:
        assert pair.waiting is not None
        found = of_tile(_behind(fl, pair.waiting.pair(b, number)[1], pair.depth * n))
        return [b.add(total, one) for total, one in zip(carried, found, strict=True)]

    if pair.waiting is None:
        return of_tile(excess)
    return b.loop(b.integer(I64, 0), pair.waiting.count(b), 1, [b.zero(SUMS)] * vectors, waited)


def _terms(
    b: Builder,
    operands: tuple[LValue, LValue],
    k: int,
    corner: tuple[LValue, LValue],
    block: tuple[int, int],
    sums: list[LValue],
) -> list[LValue]:
    """The sums of a block with the terms of one tile: of both operands, k deep."""
    (left, right), (i, j), (rows, vectors) = operands, corner, block
    steps = 2 if k % 8 == 0 else 1
    first, panel = b.gep("i8", left, b.mul(i, b.integer(I64, k))), b.gep("i8", right, b.mul(j, b.integer(I64, k)))

    def some(kk: LValue, carried: list[LValue]) -> Sequence[LValue]:
        x, y = b.gep("i8", first, kk), b.gep("i8", panel, b.mul(kk, b.integer(I64, 16 * vectors)))
        for step in range(steps):
            at = 64 * vectors * step
            columns = [b.load(BYTES, b.gep("i8", y, b.integer(I64, at + v * 64)), 1) for v in range(vectors)]
            made: list[LValue] = []
            for r in range(rows):
                four = b.load(LType("i32"), b.gep("i8", x, b.integer(I64, r * k + 4 * step)), 1)
                unsigned = b.emit(BYTES, f"bitcast {b.splat(four, 16)} to {BYTES}")
                made += [_dot_product(b, carried[r * vectors + v], unsigned, columns[v]) for v in range(vectors)]
            carried = made
        return carried

    return b.loop(b.integer(I64, 0), b.integer(I64, k), 4 * steps, sums, some)
