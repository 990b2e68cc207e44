"""Which ops of a function do nothing: no effect, and no result that is used."""

from __future__ import annotations

from ..ir.ops import SCHEMA
from ..ir.tile import Function, Op, Value, walk

_REDUCTION = ("tt.reduce", "tt.reduce.return")  # does nothing but what its region does


def dead_ops(function: Function) -> set[Op]:
    """The ops that may be dropped, those included that only others of them use."""
    ops = list(walk(function.body))
    uses: dict[Value, int] = {}
    for op in ops:
        for value in op.operands:
            uses[value] = uses.get(value, 0) + 1
        for successor in op.successors:
            for value in successor.operands:
                uses[value] = uses.get(value, 0) + 1
    dead: set[Op] = set()
    for op in reversed(ops):
        used = not op.results
        for result in op.results:
            used = used or uses.get(result, 0) > 0
        if not used and _without_effect(op):
            dead.add(op)
            for value in op.operands:
                uses[value] -= 1
    return dead


def _without_effect(op: Op) -> bool:
    if SCHEMA[op.name].pure:
        return True
    return op.name == "tt.reduce" and all(
        SCHEMA[inner.name].pure or inner.name in _REDUCTION for region in op.regions for inner in walk(region)
    )
