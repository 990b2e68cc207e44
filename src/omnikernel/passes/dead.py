"""Which ops of a function do nothing: no effect, and no result that is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from ..ir.ops import SCHEMA
from ..ir.tile import Function, Op, Value, walk

_PURE = frozenset(name for name, row in SCHEMA.items() if row.pure)
_REDUCTION = ("tt.reduce", "tt.reduce.return")  # does nothing but what its region does


def used(ops: Sequence[Op]) -> Counter[Value]:
    """How often each value is read."""
    uses = Counter(chain.from_iterable([op.operands for op in ops]))
    uses.update(chain.from_iterable(s.operands for op in ops if op.successors for s in op.successors))
    return uses


def dead_ops(function: Function) -> set[Op]:
    """The ops that may be dropped, those included that only others of them use."""
    ops = list(walk(function.body))
    return dropped(ops, used(ops), {})


def dropped(ops: Sequence[Op], uses: Counter[Value], instead: Mapping[Op, tuple[Value, ...]]) -> set[Op]:
    """The ops that may be dropped.

    Args:
        ops: all of a function, in order.
        uses: what `used` says of them; it is changed.
        instead: what some ops are going to use in place of their operands.
    """
    for op, operands in instead.items():
        uses.subtract(op.operands)
        uses.update(operands)
    dead: set[Op] = set()
    for op in reversed(ops):
        for result in op.results:
            if uses.get(result):
                break
        else:
            if op.results and (op.name in _PURE or _is_plain_reduction(op)):
                dead.add(op)
                for value in instead.get(op, op.operands):
                    uses[value] -= 1
    return dead


def _is_plain_reduction(op: Op) -> bool:
    """A reduction whose region has no effect."""
    return op.name == "tt.reduce" and all(
        inner.name in _PURE or inner.name in _REDUCTION for region in op.regions for inner in walk(region)
    )
