"""How integer ops act on linear forms: which sums and products of indices stay `constant + strides * indices`.

Only values that vary from lane to lane come here as forms. What is the same in every lane is computed at its own width,
wrapping as the op says, and enters a form as one term.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.tile import Constant, Op
from ..ir.types import Scalar, element_of
from .evaluate import Evaluator, linear_rule
from .index import Index, operand_index
from .linear import Linear, add


@linear_rule("tt.make_range")
def linear_make_range(ev: Evaluator, op: Op, index: Index) -> Linear:
    (ix,) = index
    terms = () if ix.base.text == "0" else ((ix.level, ix.base),)
    return Linear(op.attributes["start"], terms, ix.pattern, None, ix.level)


@linear_rule("arith.constant")
def linear_constant(ev: Evaluator, op: Op, index: Index) -> Linear | None:
    constant: Constant = op.attributes["value"]
    return (
        Linear(constant.integers()[0]) if constant.is_splat and element_of(op.results[0].type) != Scalar("i1") else None
    )


@linear_rule("arith.addi", "arith.subi")
def linear_add(ev: Evaluator, op: Op, index: Index) -> Linear | None:
    if not ev.function.varies(op.results[0], index):
        return None  # a scalar: computed as it stands, at its own width
    forms = [ev.linear(operand, operand_index(op.results[0], operand, index)) for operand in op.operands]
    if forms[0] is None or forms[1] is None:
        return None
    second = ev.scaled(forms[1], Linear(constant=-1)) if op.name == "arith.subi" else forms[1]
    return add(forms[0], second) if second is not None else None


@linear_rule("arith.muli")
def linear_multiply(ev: Evaluator, op: Op, index: Index) -> Linear | None:
    if not ev.function.varies(op.results[0], index):
        return None
    forms = [ev.linear(operand, operand_index(op.results[0], operand, index)) for operand in op.operands]
    if forms[0] is None or forms[1] is None:
        return None
    if forms[1].uniform:
        return ev.scaled(forms[0], forms[1])
    return ev.scaled(forms[1], forms[0]) if forms[0].uniform else None


@linear_rule("arith.extsi")
def linear_extend(ev: Evaluator, op: Op, index: Index) -> Linear | None:
    return ev.linear(op.operands[0], operand_index(op.results[0], op.operands[0], index))


@linear_rule("arith.remsi", "arith.remui")
def linear_remainder(ev: Evaluator, op: Op, index: Index) -> Linear | None:
    """`x % n` over lanes of consecutive x that do not pass a multiple of n, in the version that has checked it."""
    if (op.results[0], index) not in ev.linear_remainders:
        return None
    start = tuple(replace(ix, pattern=()) for ix in index)
    form = ev.linear(op.operands[0], index)
    if form is None:
        return None
    base = ev.uniform_linear(*ev.evaluate(op.results[0], start))
    return Linear(base.constant, base.terms, form.pattern, None, max(form.lanes_at, ev.known_level))
