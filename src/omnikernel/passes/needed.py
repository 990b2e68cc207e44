"""Which rows and columns of a product are ever seen: what a mask keeps from every store need not be computed.

In: a function. Out: for each `tt.dot` the masks, (M, 1) or (1, N), that hold wherever an element of its result is
stored. A tile at the ragged end of a matrix, or of a group of rows, is then multiplied only as far as it is filled.
Elements off the masks have any value: they may only pass through ops that keep every element at its place, and be
added to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..ir.ops import SCHEMA
from ..ir.tile import Function, Op, Region, Value
from ..ir.types import Tensor, shape_of


@dataclass(frozen=True, slots=True)
class Needed:
    """The masks of a product, and the tile ops behind them, in order; all else that they need stands before it."""

    masks: tuple[Value, ...]
    ops: tuple[Op, ...]


def needed(function: Function) -> dict[Op, Needed]:
    """What is needed of each product of which not all is."""
    finder = _Finder()
    finder.index(function.body, ())
    found: dict[Op, Needed] = {}
    for op in finder.place:
        if op.name == "tt.dot" and len(shape_of(op.result.type)) == 2:
            masks, loops = finder.masks(op.result)
            behind = {mask: finder.behind(mask, op, loops) for mask in masks}
            ops = {inner for inners in behind.values() for inner in inners or ()}
            kept = tuple(mask for mask in masks if behind[mask] is not None)
            if kept:
                found[op] = Needed(kept, tuple(sorted(ops, key=lambda inner: finder.place[inner])))
    return found


@dataclass(slots=True)
class _Finder:
    place: dict[Op, int] = field(default_factory=dict)  # in the order of the text
    around: dict[Value, tuple[Op, ...]] = field(default_factory=dict)  # the ops whose regions a value is made in
    made_by: dict[Value, Op] = field(default_factory=dict)
    users: dict[Value, list[tuple[Op, int]]] = field(default_factory=lambda: defaultdict(list))
    loops: dict[Op, Op] = field(default_factory=dict)  # the last op of a loop's body -> the loop

    def index(self, region: Region, around: tuple[Op, ...]) -> None:
        for block in region.blocks:
            self.around.update(dict.fromkeys(block.args, around))
            for op in block.ops:
                self.place[op] = len(self.place)
                for result in op.results:
                    self.made_by[result] = op
                    self.around[result] = around
                for at, value in enumerate(op.operands):
                    self.users[value].append((op, at))
                for successor in op.successors:
                    for value in successor.operands:
                        self.users[value].append((op, -1))
                for inner in op.regions:
                    self.index(inner, (*around, op))
                    if op.name == "scf.for":
                        self.loops[inner.block.terminator] = op

    def masks(self, result: Value) -> tuple[list[Value], set[Op]]:
        """The masks that every store of what comes from a tile has, and the loops that carry it on."""
        common: dict[Value, None] | None = None
        through: set[Op] = set()
        seen = {result}
        stack = [result]
        while stack:
            for user, at in self.users[stack.pop()]:
                if user.name == "tt.store" and at == 1:
                    own = _conjuncts(user.operands[2], self.made_by) if len(user.operands) > 2 else {}
                    common = {mask: None for mask in own if common is None or mask in common}
                    continue
                following = self._following(user, at)
                if following is None:
                    return [], through
                if user in self.loops:
                    through.add(self.loops[user])
                stack += [value for value in following if value not in seen]
                seen.update(following)
        return list(common or ()), through

    def _following(self, user: Op, at: int) -> tuple[Value, ...] | None:
        """Where an op passes each element of an operand on, at its own place; None where it does something else."""
        if user.name == "tt.dot":
            return user.results if at == 2 else None
        if user.name == "scf.for":
            return (user.regions[0].block.args[at - 2], user.results[at - 3]) if at >= 3 else None
        if user in self.loops:
            loop = self.loops[user]
            return loop.regions[0].block.args[at + 1], loop.results[at]
        row = SCHEMA.get(user.name)
        if row is None or not row.pure or row.kind != "elementwise":
            return None
        return user.results if all(isinstance(r.type, Tensor) for r in user.results) else None

    def behind(self, mask: Value, product: Op, loops: set[Op]) -> list[Op] | None:
        """The tile ops behind a mask; None where it is not known, or not the same, when the product is made."""
        found: list[Op] = []
        seen: set[Value] = set()
        stack = [mask]
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if not loops.isdisjoint(self.around.get(value, ())):
                return None  # it may be another one when the tile is stored, a trip later
            op = self.made_by.get(value)
            if not isinstance(value.type, Tensor):
                if op is not None and self.place[op] > self.place[product]:
                    return None
                if op is None and any(self.place[outer] > self.place[product] for outer in self.around.get(value, ())):
                    return None
                continue
            row = SCHEMA.get(op.name) if op is not None else None
            if op is None or row is None or not row.pure or row.kind not in ("elementwise", "shape"):
                return None
            found.append(op)
            stack += op.operands
        return found


def _conjuncts(mask: Value, made_by: Mapping[Value, Op]) -> dict[Value, None]:
    """The masks of one dimension that all hold where a mask of two does."""
    found: dict[Value, None] = {}
    stack = [mask]
    while stack:
        value = stack.pop()
        shape = shape_of(value.type)
        op = made_by.get(value)
        if len(shape) == 2 and 1 in shape:
            found[value] = None
        elif op is not None and op.name in ("arith.andi", "tt.broadcast"):
            stack += op.operands
    return found
