"""Fuse a product that feeds a sum into one `math.fma`, as a GPU's code generator does by default.

LLVM's NVPTX backend runs with FPOpFusion::Fast and fuses aggressively: also a product with other uses, and of two
products the one with fewer uses, the left one where they tie (DAGCombiner, visitFADDForFMACombine). Left is what LLVM has
made left: the operand of lower rank (`rank.py`), and never a term with a negative constant factor, which becomes a
subtraction. A tile is many scalars there, so a product is also seen through what only moves elements; and a product that
only one branch uses is sunk into it (InstCombine). Doing it here and not by LLVM's flags keeps compiled code and
reference equal bit for bit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from ..ir.tile import Block, Kernel, Op, Region, Value, walk
from ..ir.types import FLOAT_BITS, Scalar, element_of, like, shape_of
from .constants import splat_bits
from .rank import Ranks
from .rewrite import Rewriter

_FUSED = frozenset(kind for kind in FLOAT_BITS if not kind.startswith("f8"))
_MOVES = frozenset(("tt.splat", "tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.trans"))


@dataclass(frozen=True, slots=True)
class _Product:
    """x * y, or -(x * y), in a value that may have been moved since.

    Attributes:
        moves: the ops between the product and the value, the first one first.
        uses: how often a thread of a GPU uses it: a broadcast uses it often.
        alone: whether nothing uses what lies before the last of the moves.
    """

    x: Value
    y: Value
    uses: int
    negative: bool = False
    moves: tuple[Op, ...] = ()
    alone: bool = True


class _Contract(Rewriter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.uses: Counter[Value] = Counter()
        self.makers: dict[Value, Op] = {}
        for function in kernel.functions:
            for op in walk(function.body):
                self.uses.update(op.operands)
                for result in op.results:
                    self.makers[result] = op
        self.original = kernel
        self.products: dict[Value, _Product] = {}
        self.branching = False
        self.sunk: dict[Value, _Product] = {}

    @cached_property
    def ranks(self) -> Ranks:
        """Asked for only where both terms of a sum are products."""
        return Ranks(self.original)

    def region(self, region: Region) -> Region:
        if self.branching:
            inside: Counter[Value] = Counter()
            for op in walk(region):
                inside.update(op.operands)
            self.sunk = {v: p for v, p in self.products.items() if p.alone and 0 < self.uses[v] == inside[v]}
        return super().region(region)

    def block(self, block: Block) -> Block:
        # A product is fused only with a sum of its own block, as one selection DAG is one block.
        outer, self.products = self.products, self.sunk
        branching, self.branching, self.sunk = self.branching, False, {}
        made = super().block(block)
        self.products, self.branching = outer, branching
        return made

    def op(self, op: Op) -> list[Op]:
        self.branching = op.name == "scf.if"
        new = self.rebuilt(op)
        self.branching = False
        if op.name in ("arith.mulf", "arith.negf") or op.name in _MOVES:
            self.note(new)
        elif op.name in ("arith.addf", "arith.subf"):
            element = element_of(op.result.type)
            if isinstance(element, Scalar) and element.kind in _FUSED:
                return self.fused(new)
        return [new]

    def note(self, op: Op) -> None:
        """Remember what the op makes, if that is a product."""
        if op.name == "arith.mulf":
            minus = [self.sign(v) == -1 for v in op.operands]
            if not any(minus):
                x, y = op.operands
                self.products[op.result] = _Product(x, y, self.uses[op.result])
                return
            source = op.operands[minus.index(False)] if False in minus else op.operands[0]
        else:
            source = op.operands[0]
        found = self.products.get(source)
        if found is None:
            return
        alone = found.alone and self.uses[source] == 1
        if op.name in _MOVES:
            growth = max(1, prod(shape_of(op.result.type)) // max(1, prod(shape_of(source.type))))
            uses = max(found.uses, self.uses[op.result]) * growth
            self.products[op.result] = replace(found, moves=(*found.moves, op), uses=uses, alone=alone)
        else:
            uses = self.uses[op.result]
            self.products[op.result] = replace(found, negative=not found.negative, uses=uses, alone=alone)

    def fused(self, op: Op) -> list[Op]:
        left, right = op.operands
        first, second = self.products.get(left), self.products.get(right)
        if first and second and self.prefers_right(op, first, second):
            first = None
        if first:
            ops, x, y = self.factors(first, op, first.negative)
            more, c = self.negated(right, op) if op.name == "arith.subf" else ([], right)
            return [*ops, *more, op.replace(name="math.fma", operands=(x, y, c), attributes={})]
        if second:
            ops, x, y = self.factors(second, op, second.negative != (op.name == "arith.subf"))
            return [*ops, op.replace(name="math.fma", operands=(x, y, left), attributes={})]
        return [op]

    def prefers_right(self, op: Op, first: _Product, second: _Product) -> bool:
        """Which of two products LLVM fuses."""
        if first.uses != second.uses:
            return first.uses > second.uses
        left, right = op.operands
        swapped = self.ranks.of[right] < self.ranks.of[left]
        if op.name == "arith.subf":
            return swapped and self.is_minus(right, second)  # which made it an addition
        if swapped:
            return not self.is_minus(right, second)
        return self.is_minus(left, first)

    def is_minus(self, value: Value, product: _Product) -> bool:
        """Whether LLVM makes a positive term of this one, and a subtraction of the addition, or the reverse."""
        if product.negative:
            return True
        while product.moves and self.makers[value].name in _MOVES:
            value = self.makers[value].operands[0]
        return self.uses[value] == 1 and self.negative_constants(value) % 2 == 1

    def negative_constants(self, value: Value) -> int:
        """How many factors of a product that nothing else uses are negative constants."""
        op = self.makers.get(value)
        if op is None or op.name not in ("arith.mulf", "arith.divf") or self.uses[value] != 1:
            return 0
        return sum((self.sign(v) or 0) < 0 or self.negative_constants(v) for v in op.operands)

    def sign(self, value: Value) -> int | None:
        """-1 for the constant -1.0, -2 for any other negative constant, 1 for any other; None for no constant."""
        bits, element = splat_bits(value, self.makers), element_of(value.type)
        if bits is None or not isinstance(element, Scalar):
            return None
        if bits == _minus_one(element):
            return -1
        return -2 if bits >> (element.bits - 1) else 1

    def factors(self, product: _Product, op: Op, negative: bool) -> tuple[list[Op], Value, Value]:
        """The factors where the sum is, with the sign of the product in the first."""
        ops, x = self.moved(product.x, product, op)
        more, y = self.moved(product.y, product, op)
        ops += more
        if negative:
            more, x = self.negated(x, op)
            ops += more
        return ops, x, y

    def moved(self, value: Value, product: _Product, op: Op) -> tuple[list[Op], Value]:
        """A factor as the product was moved."""
        ops: list[Op] = []
        for move in product.moves:
            result = Value(f"{move.result.name}.factor", like(move.result.type, element_of(value.type)), op.loc)
            ops.append(move.replace(operands=(value,), results=(result,)))
            value = result
        return ops, value

    def negated(self, value: Value, op: Op) -> tuple[list[Op], Value]:
        result = Value(f"{op.result.name}.neg", value.type, op.loc)
        return [Op("arith.negf", (value,), (result,), loc=op.loc)], result


def _minus_one(element: Scalar) -> int:
    """The bits of -1.0."""
    return {"f16": 0xBC00, "bf16": 0xBF80, "f32": 0xBF800000, "f64": 0xBFF0000000000000}.get(element.kind, -1)


def contract(kernel: Kernel) -> Kernel:
    """Fuse products into sums everywhere but in the regions of reductions, which run on values from elsewhere."""
    return _Contract(kernel).kernel(kernel)
