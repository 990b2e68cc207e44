"""The walk that rewriting passes share: rebuild every op with its operands renamed, let a pass replace some.

What no pass changes is kept as the same object, up to the whole kernel: then there is nothing to verify again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import is_

from ..ir.tile import Block, Function, Kernel, Op, Region, Successor, Value


class Rewriter:
    """Rebuilds a function. A pass overrides `op` and returns what stands in an op's place.

    `renamed` maps old values to the new ones that later ops are to use.
    """

    def __init__(self) -> None:
        self.renamed: dict[Value, Value] = {}

    def value(self, value: Value) -> Value:
        return self.renamed.get(value, value)

    def values(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(self.renamed.get(v, v) for v in values)

    def kernel(self, kernel: Kernel) -> Kernel:
        functions = tuple(self.function(f) for f in kernel.functions)
        return kernel if _same(functions, kernel.functions) else replace(kernel, functions=functions)

    def function(self, function: Function) -> Function:
        body = self.region(function.body)
        return function if body is function.body else replace(function, body=body)

    def region(self, region: Region) -> Region:
        blocks = tuple(self.block(block) for block in region.blocks)
        return region if _same(blocks, region.blocks) else Region(blocks)

    def block(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            ops.extend(self.op(op))
        return with_ops(block, ops)

    def op(self, op: Op) -> list[Op]:
        return [self.rebuilt(op)]

    def rebuilt(self, op: Op) -> Op:
        """The op with renamed operands and rewritten regions; the same object where nothing changed."""
        operands = op.operands
        if self.renamed and not self.renamed.keys().isdisjoint(operands):
            operands = self.values(operands)
        if not op.regions and not op.successors:
            return op if operands is op.operands else op.replace(operands=operands)
        successors = tuple(Successor(s.label, self.values(s.operands)) for s in op.successors)
        regions = tuple(self.region(r) for r in op.regions)
        passed = all(_same(new.operands, old.operands) for new, old in zip(successors, op.successors, strict=True))
        if operands is op.operands and passed and _same(regions, op.regions):
            return op
        return op.replace(operands=operands, successors=successors, regions=regions)


def with_ops(block: Block, ops: Sequence[Op]) -> Block:
    """The block with these ops; the same object where they are its own."""
    return block if _same(ops, block.ops) else Block(block.label, block.args, tuple(ops))


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether two sequences hold the same objects."""
    return len(new) == len(old) and all(map(is_, new, old))
