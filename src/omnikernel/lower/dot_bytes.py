"""Products of 8-bit integers by AVX-512 VNNI: four multiply-adds a lane of i32 in one instruction.

VPDPBUSD multiplies unsigned by signed bytes. The left operand is therefore shifted by 128, and what that adds to each
sum, 128 times the sum of the right operand's column, is subtracted beforehand; all of it modulo 2**32, so exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.tile import Op, Value
from ..ir.types import I8, I32, Tensor, element_of, shape_of
from ..llvm.emit import I64, Builder, LType, LValue
from .ahead import Ahead, fetch
from .dot_tiles import multiply_tiles, takes_tiles
from .evaluate import Buffer
from .function import FunctionLowering

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


def _bytes(fl: FunctionLowering, value: Value) -> Buffer:
    """An operand as a row-major tile of bytes of its own."""
    assert isinstance(value.type, Tensor)
    fl.settle([value], value.type.shape, keep=False)
    return fl.materialise(value)


def _shifted(fl: FunctionLowering, value: Value) -> LValue:
    """The left operand plus 128, as unsigned bytes: (M, K)."""
    b = fl.b
    buffer = _bytes(fl, value)
    m, k = buffer.shape
    lanes = min(64, m * k)
    moved = fl.buffer((m * k,), I8).pointer
    type_ = LType("i8", lanes)

    def step(i: LValue) -> None:
        byte = b.load(type_, b.gep("i8", buffer.pointer, i), 1)
        b.store(b.xor(byte, b.integer(type_, 0x80)), b.gep("i8", moved, i), 1)

    b.repeat(m * k, lanes, step)
    return moved


def _interleaved(fl: FunctionLowering, value: Value, *, sums: bool = True) -> tuple[LValue, LValue]:
    """The right operand as (K / 4, N, 4) bytes, and (where `sums`) 128 times the sum of each of its columns."""
    b = fl.b
    buffer = _bytes(fl, value)
    k, n = buffer.shape
    woven = fl.buffer((k * n,), I8).pointer
    excess = fl.buffer((n,), I32).pointer
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

        totals = b.loop(b.integer(I64, 0), b.integer(I64, k), 4, [b.zero(SUMS)] * sums, quad)
        for total in totals:
            b.store(total, b.gep("i32", excess, j), 4)

    b.repeat(n, 16, columns)
    return woven, excess


def multiply_bytes(fl: FunctionLowering, op: Op, target: Buffer, zero: bool, following: Sequence[Ahead] = ()) -> None:
    """target = a @ b (+ target, unless `zero`) in i32, while the `following` tiles are fetched."""
    b = fl.b
    m, k = shape_of(op.operands[0].type)
    n = shape_of(op.result.type)[1]
    if takes_tiles(fl, op):
        right, _ = _interleaved(fl, op.operands[1], sums=False)
        multiply_tiles(fl, _bytes(fl, op.operands[0]).pointer, right, target, k, zero, following)
        return
    left = _shifted(fl, op.operands[0])
    right, excess = _interleaved(fl, op.operands[1])
    rows, vectors = min(ROWS, m), min(VECTORS, n // 16)
    cells = [(r, v) for r in range(rows) for v in range(vectors)]

    def block(i: LValue, j: LValue) -> None:
        corner = b.add(b.mul(i, b.integer(I64, n)), j)

        def place(r: int, v: int) -> LValue:
            return b.gep("i32", target.pointer, b.add(corner, b.integer(I64, r * n + v * 16)))

        over = [b.load(SUMS, b.gep("i32", excess, b.add(j, b.integer(I64, v * 16))), 4) for v in range(vectors)]
        sums = [b.sub(b.zero(SUMS) if zero else b.load(SUMS, place(r, v), 4), over[v]) for r, v in cells]

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

        fetch(b, following, (i, rows, m), (j, 16 * vectors, n))
        sums = b.loop(b.integer(I64, 0), b.integer(I64, k), 4, sums, steps)
        for (r, v), value in zip(cells, sums, strict=True):
            b.store(value, place(r, v), 4)

    b.repeat(n, 16 * vectors, lambda j: b.repeat(m, rows, lambda i: block(i, j)))
    fl.cost += fl.trips * m * n * k / 64 * 0.35
