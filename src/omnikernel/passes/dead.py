"""Which ops of a function do nothing: no effect, and no result that is used."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from ..ir.ops import SCHEMA
from ..ir.tile import Function, Op, walk

_REDUCTION = ("tt.reduce", "tt.reduce.return")  # does nothing but what its region does


def dead_ops(function: Function) -> set[Op]:
    """The ops that may be dropped, those included that only others of them use."""
    ops = list(walk(function.body))
    uses = Counter(chain.from_iterable(op.operands for op in ops))
    uses.update(chain.from_iterable(s.operands for op in ops if op.successors for s in op.successors))
    dead: set[Op] = set()
    for op in reversed(ops):
        for result in op.results:
            if uses.get(result):
                break
        else:
            if op.results and _without_effect(op):
                dead.add(op)
                uses.subtract(op.operands)
    return dead


def _without_effect(op: Op) -> bool:
    if SCHEMA[op.name].pure:
        return True
    return op.name == "tt.reduce" and all(
        SCHEMA[inner.name].pure or inner.name in _REDUCTION for region in op.regions for inner in walk(region)
    )
