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

    The left one lies row-major, the right one as (K / 4, N, 4). Without tile registers the left one is unsigned, and
    `excess` is what that adds to the sums of each column. Where tiles wait, all are multiplied, this pair being the last.
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
    waiting = None if tiles else wait(fl, op, min(VECTORS, n // 16) * 16 * k, k * (m + n))
    value = a if tiles else _unsigned(fl, a)

    def make_left(pointer: LValue) -> None:
        fl.materialise(value, Buffer(pointer, (m, k), I8))

    def make_right(pointer: LValue) -> None:
        _interleave(fl, b, pointer, None if tiles else _behind(fl, pointer, k * n))

    left, first = pack(fl, op, 0, m * k, make_left, waiting)
    right, second = pack(fl, op, 1, k * n + (0 if tiles else 4 * n), make_right, waiting)
    tiles_ahead = (following(fl, op, number, where) for number, where in enumerate((first, second)))
    if waiting:
        waiting.add(fl.b, left, right)
    excess = None if tiles else _behind(fl, right, k * n)
    return BytePair(left, right, excess, k, (*filter(None, tiles_ahead),), waiting)


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


def _interleave(fl: FunctionLowering, value: Value, woven: LValue, excess: LValue | None) -> None:
    """The right operand as (K / 4, N, 4) bytes, and 128 times the sum of each of its columns, where that is wanted."""
    b = fl.b
    bound = fl.bindings.get(value)
    buffer = bound if isinstance(bound, Buffer) else fl.materialise(value)
    k, n = buffer.shape
    row = LType("i8", 16)
    order = [part * 16 + column for column in range(16) for part in range(4)]

    def columns(j: LValue) -> None:
        def quad(i: LValue, carried: list[LValue]) -> Sequence[LValue]:
            at = b.add(b.mul(i, b.integer(I64, n)), j)
            rows = [b.load(row, b.gep("i8", buffer.pointer, b.add(at, b.integer(I64, r * n))), 1) for r in range(4)]
            pairs = [b.shuffle(rows[r], rows[r + 1], range(32)) for r in (0, 2)]
            together = b.shuffle(b.shuffle(pairs[0], pairs[1], range(64)), None, order)
            b.store(together, b.gep("i8", woven, b.add(b.mul(i, b.integer(I64, n)), b.mul(j, b.integer(I64, 4)))), 1)
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
    rows, vectors = min(ROWS, m), min(VECTORS, n // 16)
    cells = [(r, v) for r in range(rows) for v in range(vectors)]

    def block(i: LValue, j: LValue) -> None:
        corner = b.add(b.mul(i, b.integer(I64, n)), j)
        places = [b.gep("i32", target.pointer, b.add(corner, b.integer(I64, r * n + v * 16))) for r, v in cells]

        def tile(
            operands: tuple[LValue, LValue], over: LValue, following: Sequence[Ahead], sums: list[LValue]
        ) -> list[LValue]:
            column = b.gep("i32", over, j)
            less = [b.load(SUMS, b.gep("i32", column, b.integer(I64, v * 16)), 4) for v in range(vectors)]
            sums = [b.sub(total, less[v]) for total, (_, v) in zip(sums, cells, strict=True)]
            fetch(b, following, (i, rows, m), (j, 16 * vectors, n))
            return _terms(b, operands, (pair.depth, n), (i, j), (rows, vectors), sums)

        def waited(number: LValue, carried: list[LValue]) -> list[LValue]:
            assert pair.waiting is not None
            left, right = pair.waiting.pair(b, number)
            following = [ahead.later(b, number) for ahead in pair.following]
            return tile((left, right), _behind(fl, right, pair.depth * n), following, carried)

        sums = [b.zero(SUMS) if zero else b.load(SUMS, place, 4) for place in places]
        if pair.waiting:
            sums = b.loop(b.integer(I64, 0), pair.waiting.count(b), 1, sums, waited)
        else:
            sums = tile((pair.left, pair.right), excess, pair.following, sums)
        for place, value in zip(places, sums, strict=True):
            b.store(value, place, 4)

    b.repeat(n, 16 * vectors, lambda j: b.repeat(m, rows, lambda i: block(i, j)))
    fl.cost += fl.trips * m * n * pair.depth / 64 * 0.35


def _terms(
    b: Builder,
    operands: tuple[LValue, LValue],
    extents: tuple[int, int],
    corner: tuple[LValue, LValue],
    block: tuple[int, int],
    sums: list[LValue],
) -> list[LValue]:
    """The sums of a block with the terms of one tile: of both operands, of extents (k, n)."""
    (left, right), (k, n), (i, j), (rows, vectors) = operands, extents, corner, block

    def steps(kk: LValue, carried: list[LValue]) -> Sequence[LValue]:
        at = b.add(b.mul(kk, b.integer(I64, n)), b.mul(j, b.integer(I64, 4)))
        columns = [b.load(BYTES, b.gep("i8", right, b.add(at, b.integer(I64, v * 64))), 1) for v in range(vectors)]
        made: list[LValue] = []
        for r in range(rows):
            from_row = b.add(b.mul(b.add(i, b.integer(I64, r)), b.integer(I64, k)), kk)
            four = b.splat(b.load(LType("i32"), b.gep("i8", left, from_row), 1), 16)
            unsigned = b.emit(BYTES, f"bitcast {four} to {BYTES}")
            made += [_dot_product(b, carried[r * vectors + v], unsigned, columns[v]) for v in range(vectors)]
        return made

    return b.loop(b.integer(I64, 0), b.integer(I64, k), 4, sums, steps)
