"""The walk that rewriting passes share: rebuild every op with its operands renamed, let a pass replace some."""

from __future__ import annotations

from dataclasses import replace

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
        return replace(kernel, functions=tuple(self.function(f) for f in kernel.functions))

    def function(self, function: Function) -> Function:
        return replace(function, body=self.region(function.body))

    def region(self, region: Region) -> Region:
        return Region(tuple(self.block(block) for block in region.blocks))

    def block(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            ops.extend(self.op(op))
        return Block(block.label, block.args, tuple(ops))

    def op(self, op: Op) -> list[Op]:
        return [self.rebuilt(op)]

    def rebuilt(self, op: Op) -> Op:
        """The op with renamed operands and rewritten regions; the same object where nothing changed."""
        operands = self.values(op.operands)
        successors = tuple(Successor(s.label, self.values(s.operands)) for s in op.successors)
        regions = tuple(self.region(r) for r in op.regions)
        if operands == op.operands and not op.regions and not op.successors:
            return op
        return op.replace(operands=operands, successors=successors, regions=regions)
