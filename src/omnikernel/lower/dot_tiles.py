"""Products of 8-bit integers by AMX: sixteen rows by sixteen columns by 64 steps of k in one instruction, exact.

Four tile registers hold the sums of two by two tiles, two the left operand's rows and two the right one's columns, which
lie as for VNNI: four bytes of a column side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.tile import Op
from ..ir.types import I8, I32, element_of, shape_of
from ..llvm.emit import I64, PTR, LValue
from .ahead import Ahead, fetch
from .evaluate import Buffer
from .function import FunctionLowering

SIDE = 16  # rows, and columns of i32, of a tile register
DEPTH = 64  # bytes of a row of one
SUMS, LEFT, RIGHT = (0, 1, 2, 3), (4, 5), (6, 7)  # tile registers
FEATURES = frozenset({"amx-tile", "amx-int8", "avx512vnni"})


def takes_tiles(fl: FunctionLowering, op: Op) -> bool:
    """Whether a product is one of bytes that this machine and these tiles allow."""
    if element_of(op.operands[0].type) != I8 or element_of(op.result.type) != I32:
        return False
    shape = shape_of(op.operands[0].type)
    if len(shape) != 2 or not fl.b.module.features >= FEATURES:
        return False
    return shape[0] >= SIDE and shape[1] >= SIDE and shape_of(op.result.type)[1] >= SIDE


def multiply_tiles(
    fl: FunctionLowering, left: LValue, right: LValue, target: Buffer, k: int, zero: bool, following: Sequence[Ahead]
) -> None:
    """target = left @ right (+ target, unless `zero`); `left` is (M, K) bytes, `right` (K / 4, N, 4)."""
    b = fl.b
    m, n = target.shape
    depth, down, across = min(k, DEPTH), min(2, m // SIDE), min(2, n // SIDE)
    cells = [(r, v) for r in range(down) for v in range(across)]
    _configure(fl, depth)

    def block(i: LValue, j: LValue) -> None:
        row = [b.add(i, b.integer(I64, r * SIDE)) for r in range(down)]
        column = [b.add(j, b.integer(I64, v * SIDE)) for v in range(across)]

        def place(r: int, v: int) -> LValue:
            return b.gep("i32", target.pointer, b.add(b.mul(row[r], b.integer(I64, n)), column[v]))

        for r, v in cells:
            if zero:
                _tile(fl, "tilezero", SUMS[2 * r + v])
            else:
                _move(fl, "tileloadd64", SUMS[2 * r + v], place(r, v), 4 * n)
        fetch(b, following, (i, down * SIDE, m), (j, across * SIDE, n))

        def step(kk: LValue) -> None:
            for r in range(down):
                at = b.add(b.mul(row[r], b.integer(I64, k)), kk)
                _move(fl, "tileloadd64", LEFT[r], b.gep("i8", left, at), k)
            for v in range(across):
                at = b.add(b.mul(kk, b.integer(I64, n)), b.mul(column[v], b.integer(I64, 4)))
                _move(fl, "tileloadd64", RIGHT[v], b.gep("i8", right, at), 4 * n)
            for r, v in cells:
                _tile(fl, "tdpbssd", SUMS[2 * r + v], LEFT[r], RIGHT[v])

        b.repeat(k, depth, step)
        for r, v in cells:
            _move(fl, "tilestored64", SUMS[2 * r + v], place(r, v), 4 * n)

    b.repeat(n, across * SIDE, lambda j: b.repeat(m, down * SIDE, lambda i: block(i, j)))
    _tile(fl, "tilerelease")
    fl.cost += fl.trips * m * n * k / 512 * 0.35


def _configure(fl: FunctionLowering, depth: int) -> None:
    """Rows and bytes a row of the tile registers (Intel's manual, LDTILECFG: palette 1)."""
    rows, widths = [0] * 16, [0] * 16
    for register in (*SUMS, *LEFT, *RIGHT):
        rows[register] = depth // 4 if register in RIGHT else SIDE
        widths[register] = depth if register in LEFT else 4 * SIDE
    data = [1, *[0] * 15, *(byte for width in widths for byte in (width & 255, width >> 8)), *rows]
    module = fl.b.module
    name = module.constant(f"tiles.{len(module.globals)}", f"[64 x i8] [{', '.join(f'i8 {byte}' for byte in data)}]")
    module.declare("llvm.x86.ldtilecfg", "void", ["ptr"])
    fl.b.line(f"call void @llvm.x86.ldtilecfg({LValue(name, PTR)})")


def _tile(fl: FunctionLowering, name: str, *registers: int) -> None:
    fl.b.module.declare(f"llvm.x86.{name}", "void", ["i8"] * len(registers))
    fl.b.line(f"call void @llvm.x86.{name}({', '.join(f'i8 {register}' for register in registers)})")


def _move(fl: FunctionLowering, name: str, register: int, pointer: LValue, stride: int) -> None:
    """Load or store a tile register; `stride` in bytes."""
    fl.b.module.declare(f"llvm.x86.{name}", "void", ["i8", "ptr", "i64"])
    fl.b.line(f"call void @llvm.x86.{name}(i8 {register}, {pointer}, i64 {stride})")
