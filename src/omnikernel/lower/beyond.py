"""What lies beyond the bounds of a nest's masks: chunks that load and store nothing, and so are all alike.

A block of the next power of two is often much longer than its row. Where every load of a chunk is masked off and nothing
else in it depends on where the chunk is, each such chunk gives the same lanes: a store of them does nothing, and a
reduction that one of them leaves as it was stays so in all that follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..ir.ops import SCHEMA
from ..ir.tile import Value
from ..llvm.emit import I64, Builder, LValue
from .bounds import Bound, Probe, Root, Walked, limit
from .evaluate import Evaluator
from .index import SHAPE_OPS, Index, Ix, operand_index, operand_indices, source_index, symbolic_add, symbolic_bits


def confined(ev: Evaluator, walked: Walked, masks: Iterable[Root]) -> bool:
    """Whether every mask is off outside the lanes for which all that is known of a nest's masks holds."""
    known = {*((t.mask, t.index) for t in walked.bounds), *walked.uniform_masks}
    return not walked.remainders and all(known <= set(_parts(ev, *mask)) for mask in masks)


def _parts(ev: Evaluator, mask: Value, index: Index) -> Iterator[Root]:
    """A mask, and the masks that all hold where it does."""
    stack = [(mask, index)]
    while stack:
        value, at = stack.pop()
        yield value, at
        if value in ev.function.bindings:
            continue
        op = ev.function.definition(value)
        if op.name in SHAPE_OPS:
            stack.append((op.operands[0], source_index(op, at, symbolic_bits, symbolic_add)))
        elif op.name == "arith.andi":
            stack += [(v, operand_index(value, v, at)) for v in op.operands]


class Beyond:
    """The lanes of one nest from which on none of the masks that are upper bounds holds."""

    def __init__(self, ev: Evaluator, walked: Walked, lane: Ix, extent: int) -> None:
        self.ev, self.lane, self.extent = ev, lane, extent
        self.bounds: dict[Root, Bound] = {(t.mask, t.index): t for t in walked.bounds if not t.lower}
        self.probe = Probe.along(lane, extent)

    def off(self, mask: Value, index: Index) -> bool:
        """Whether a mask holds nowhere beyond the bounds: one of its parts is a bound."""
        return any(part in self.bounds for part in _parts(self.ev, mask, index))

    def alike(self, roots: Iterable[Root]) -> bool:
        """Whether the lanes of each value are the same in every chunk beyond the bounds."""
        if not self.bounds:
            return False
        stack = list(roots)
        seen: set[Root] = set()
        while stack:
            value, at = stack.pop()
            if (value, at) in seen or not self.probe.varies(self.ev, value, at):
                continue
            seen.add((value, at))
            if value in self.ev.function.bindings:
                return False
            if self.off(value, at):
                continue
            op = self.ev.function.definition(value)
            if op.name == "tt.load":
                if len(op.operands) < 2 or not self.off(op.operands[1], operand_index(value, op.operands[1], at)):
                    return False
                stack += [(v, operand_index(value, v, at)) for v in op.operands[2:]]
            elif op.operands and (op.name in SHAPE_OPS or SCHEMA[op.name].kind == "elementwise"):
                stack += operand_indices(op, value, at, symbolic_bits, symbolic_add)
            else:
                return False
        return True

    def start(self) -> LValue:
        """The first lane beyond all bounds, where that is known, or else the extent."""
        b = self.ev.b
        first = b.integer(I64, 0)
        limits = [limit(self.ev, term, self.lane, self.extent, self.extent) for term in self.bounds.values()]
        level = 0
        for value, at in sorted(limits, key=lambda item: item[1]):
            level = max(level, at)
            with self.ev.at(level):
                first = b.intrinsic("smax", I64, first, value)
        with self.ev.at(level):
            return b.intrinsic("smin", I64, first, b.integer(I64, self.extent))


def unchanged(b: Builder, before: Iterable[LValue], after: Iterable[LValue]) -> LValue:
    """Whether values are the same, bit for bit."""
    same = b.integer(I64.of("i1"), 1)
    for x, y in zip(before, after, strict=True):
        integer = f"i{x.type.bits}"
        differ = b.binary("xor", b.cast("bitcast", x, integer), b.cast("bitcast", y, integer))
        some = (
            b.call(f"llvm.vector.reduce.or.{differ.type.suffix}", I64.of(integer), differ) if differ.lanes else differ
        )
        same = b.and_(same, b.icmp("eq", some, b.zero(some.type)))
    return same
