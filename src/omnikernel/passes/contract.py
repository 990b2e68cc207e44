"""Fuse a product that feeds a sum into one `math.fma`, as a GPU's code generator does by default.

LLVM's NVPTX backend runs with FPOpFusion::Fast and fuses aggressively: also a product with other uses, and of two
products the one with fewer uses, the left one where they tie (DAGCombiner, visitFADDForFMACombine). Doing it here and not
by LLVM's flags keeps compiled code and reference equal bit for bit.
"""

from __future__ import annotations

from collections import Counter

from ..ir.tile import Block, Kernel, Op, Value, walk
from ..ir.types import FLOAT_BITS, Scalar, element_of
from .rewrite import Rewriter

_FUSED = frozenset(kind for kind in FLOAT_BITS if not kind.startswith("f8"))


class _Contract(Rewriter):
    def __init__(self, uses: Counter[Value]) -> None:
        super().__init__()
        self.uses = uses
        self.products: dict[Value, Op] = {}

    def block(self, block: Block) -> Block:
        # A product is fused only with a sum of its own block, as one selection DAG is one block.
        outer, self.products = self.products, {}
        made = super().block(block)
        self.products = outer
        return made

    def op(self, op: Op) -> list[Op]:
        new = self.rebuilt(op)
        if op.name == "arith.mulf":
            self.products[new.result] = new
        if op.name in ("arith.addf", "arith.subf"):
            element = element_of(op.result.type)
            if isinstance(element, Scalar) and element.kind in _FUSED:
                return self.fused(new)
        return [new]

    def fused(self, op: Op) -> list[Op]:
        left, right = op.operands
        first, second = self.products.get(left), self.products.get(right)
        if first and second and self.uses[left] > self.uses[right]:
            first = None
        if first:
            x, y = first.operands
            ops, c = self.negated(right, op) if op.name == "arith.subf" else ([], right)
            return [*ops, op.replace(name="math.fma", operands=(x, y, c), attributes={})]
        if second:
            x, y = second.operands
            ops, x = self.negated(x, op) if op.name == "arith.subf" else ([], x)
            return [*ops, op.replace(name="math.fma", operands=(x, y, left), attributes={})]
        return [op]

    def negated(self, value: Value, op: Op) -> tuple[list[Op], Value]:
        result = Value(f"{op.result.name}.neg", value.type, op.loc)
        return [Op("arith.negf", (value,), (result,), loc=op.loc)], result


def contract(kernel: Kernel) -> Kernel:
    """Fuse products into sums everywhere but in the regions of reductions, which run on values from elsewhere."""
    uses: Counter[Value] = Counter()
    for function in kernel.functions:
        for op in walk(function.body):
            uses.update(op.operands)
    return _Contract(uses).kernel(kernel)
