"""Merge neighbouring reductions of one shape and axis into one op with more operands.

`tl.sum(x)` and `tl.sum(x * x)` then read x once, in one nest. Each result keeps its own chain of combinations, so no bit
of it changes. The first reduction moves down to the last: nothing between them may use its result or touch memory.
"""

from __future__ import annotations

from ..ir.ops import SCHEMA, Effect
from ..ir.tile import Block, Kernel, Op, Region, Value, walk
from ..ir.types import shape_of
from .rewrite import Rewriter, with_ops

# More operands than this fill the registers with what is carried.
MOST_OPERANDS = 4


def _simple(op: Op) -> bool:
    """A reduction whose region is one block of pure ops."""
    if op.name != "tt.reduce" or len(op.regions[0].blocks) != 1:
        return False
    return all(inner.name in SCHEMA and SCHEMA[inner.name].pure for inner in op.regions[0].block.ops[:-1])


def _still(op: Op) -> bool:
    """An op that a reduction may move past: no memory is written, nothing is ordered, no region runs."""
    row = SCHEMA.get(op.name)
    return row is not None and not op.regions and not row.terminator and row.effect in (Effect.NONE, Effect.READ)


class _Block:
    """A block that is being rebuilt around the last reduction, which the next one may join."""

    def __init__(self) -> None:
        self.made: list[Op] = []
        self.waiting: Op | None = None
        self.late: list[Op] = []  # pure ops on its results, which can stand behind the next reduction as well
        self.reached: set[Value] = set()  # its results, and what depends on them

    def flush(self) -> None:
        self.made += self.late
        self.waiting, self.late, self.reached = None, [], set()

    def uses_result(self, op: Op) -> bool:
        if not self.reached:
            return False
        inside = (v for region in op.regions for inner in walk(region) for v in inner.operands)
        return any(v in self.reached for v in (*op.operands, *inside))


class _Merge(Rewriter):
    def block(self, block: Block) -> Block:
        state = _Block()
        rewritten = super().block(block)
        for op in rewritten.ops:
            self.place(state, op)
        state.flush()
        return with_ops(rewritten, state.made)

    def place(self, state: _Block, op: Op) -> None:
        if state.waiting is not None and self.joins(state, op):
            state.made.remove(state.waiting)
            state.waiting = self.merged(state.waiting, op)
            state.made.append(state.waiting)
            state.reached |= set(op.results)
        elif _simple(op):
            state.flush()
            state.made.append(op)
            state.waiting, state.reached = op, set(op.results)
        elif state.waiting is not None and state.uses_result(op) and SCHEMA[op.name].pure:
            state.late.append(op)
            state.reached |= set(op.results)
        else:
            if state.uses_result(op) or not _still(op):
                state.flush()
            state.made.append(op)

    def joins(self, state: _Block, op: Op) -> bool:
        first = state.waiting
        return (
            first is not None
            and _simple(op)
            and op.attributes["axis"] == first.attributes["axis"]
            and shape_of(op.operands[0].type) == shape_of(first.operands[0].type)
            and len(first.operands) + len(op.operands) <= MOST_OPERANDS
            and not state.uses_result(op)
        )

    def merged(self, first: Op, second: Op) -> Op:
        """One reduction over the operands of both; the regions run one after the other."""
        a, b = first.regions[0].block, second.regions[0].block
        i, j = len(first.operands), len(second.operands)
        args = (*a.args[:i], *b.args[:j], *a.args[i:], *b.args[j:])
        end = a.terminator.replace(operands=(*a.terminator.operands, *b.terminator.operands))
        body = Block(a.label, args, (*a.ops[:-1], *b.ops[:-1], end))
        return second.replace(
            operands=(*first.operands, *second.operands),
            results=(*first.results, *second.results),
            regions=(Region((body,)),),
        )


def merge(kernel: Kernel) -> Kernel:
    """Merge reductions in every block."""
    if not any(op.name == "tt.reduce" for function in kernel.functions for op in walk(function.body)):
        return kernel
    return _Merge().kernel(kernel)
