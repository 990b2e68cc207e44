"""Ranks of values, as LLVM's Reassociate has them: it puts the operand of lower rank first in a commutative op.

That order decides which of two products a GPU fuses into their sum. Arguments come first, then the blocks in their order.
In a block, what cannot move (a load, what a loop carries, a call) has the rank of its place, and an expression is one
above the highest of its operands (Transforms/Scalar/Reassociate.cpp, BuildRankMap and getRank).
"""

from __future__ import annotations

from math import prod

from ..ir.ops import SCHEMA
from ..ir.tile import Block, Kernel, Op, Value
from ..ir.types import Scalar, element_of, shape_of

# Bits of a rank below its block's.
_BLOCK = 16
_THREADS = 128  # of a program with the default num_warps
_ACCESS = 16  # bytes that a thread loads at once
_FIXED_KINDS = frozenset(("memory", "reduce", "lookup", "dot"))
# What is a call on a GPU: approximate functions and quotients, libdevice; and what must not be moved past a branch.
_FIXED = frozenset(
    (
        *("tt.call", "tt.extern_elementwise", "tt.precise_divf", "tt.precise_sqrt", "arith.divf", "arith.remf"),
        *("arith.divsi", "arith.divui", "arith.remsi", "arith.remui"),
        *("math.exp", "math.exp2", "math.log", "math.log2", "math.sin", "math.cos"),
        *("math.sqrt", "math.rsqrt", "math.erf"),
    )
)
# No instruction at all, or one that LLVM does not count.
_NOTHING = frozenset(("tt.splat", "tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.trans", "arith.negf"))


class Ranks:
    """`of[value]` for every value of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.of: dict[Value, int] = {}
        self._blocks = 2
        self._place = 0
        for function in kernel.functions:
            for block in function.body.blocks:
                self._block(block, entry=block is function.body.blocks[0])

    def _next_block(self) -> None:
        self._blocks += 1
        self._place = self._blocks << _BLOCK

    def _fix(self, values: tuple[Value, ...], steps: int = 1) -> None:
        for value in values:
            self._place += steps
            self.of[value] = self._place

    def _block(self, block: Block, *, entry: bool = False) -> None:
        if entry:
            for argument in block.args:
                self._blocks += 1
                self.of[argument] = self._blocks
        self._next_block()
        if not entry:
            self._fix(block.args)
        for op in block.ops:
            self._op(op)

    def _op(self, op: Op) -> None:
        kind = SCHEMA[op.name].kind
        if op.regions and kind == "control":
            for region in op.regions:
                for block in region.blocks:
                    self._block(block)
            self._next_block()
            self._fix(op.results)
        elif kind in _FIXED_KINDS or op.name in _FIXED:
            self._fix(op.results, _accesses(op))
            if op.name == "tt.load":  # what is loaded is taken out of a register
                self.of[op.result] += 1
        elif op.name == "arith.constant":
            self.of[op.result] = 0
        else:
            # Numbers of threads and programs are read from registers: as low as can be.
            highest = max((self.of.get(v, 0) for v in op.operands), default=0)
            for result in op.results:
                self.of[result] = highest + (op.name not in _NOTHING)


def _accesses(op: Op) -> int:
    """Into how many instructions a thread of a GPU splits an op, by the sizes that are usual."""
    if not op.results:
        return 0
    lanes = prod(shape_of(op.results[0].type)) // _THREADS
    if op.name == "tt.load":
        element = element_of(op.result.type)
        lanes = lanes * (element.bytes if isinstance(element, Scalar) else 8) // _ACCESS
    return max(1, lanes)
