"""Lazy ops that put two tiles together or take one apart: join, split, cat. Nothing is copied for them.

A lane's place in the result says which operand it is of and where in it; both operands have a value at that place, so
both may be evaluated and one chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..ir.tile import Op, Value
from ..ir.types import shape_of
from ..llvm.emit import I1, I64, LType, LValue
from ..passes.exchange import BLOCK
from .evaluate import Evaluator, Placed, evaluates
from .index import Index, operand_indices, partner_lanes
from .lanes import Lanes

if TYPE_CHECKING:
    from .function import FunctionLowering


@evaluates("tt.split")
def evaluate_split(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    return [ev.evaluate(*operand_indices(op, result, index, ev.bits, ev.sum)[0]) for result in op.results]


@evaluates("tile.partner")
def evaluate_partner(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    """A shuffle where every lane's partner is a lane; otherwise the operand at the other place."""
    order = partner_lanes(index, op.attributes["axis"])
    value, level = ev.evaluate(*operand_indices(op, op.result, index, ev.bits, ev.sum)[0])
    if order is None or not value.lanes:
        return [(value, level)]
    with ev.at(level):
        return [(value.each(lambda form: ev.b.shuffle(form, None, order)), level)]


def block_lanes(function: FunctionLowering, values: Sequence[Value]) -> int:
    """How many lanes a nest needs so that every partner it reads is one of them; 0 where it reads none."""
    seen: set[Value] = set()
    stack = list(values)
    while stack:
        current = stack.pop()
        if current in seen or current in function.bindings:
            continue
        seen.add(current)
        op = function.definition(current)
        if op.name == "tile.partner":
            return BLOCK
        stack.extend(op.operands)
    return 0


@evaluates("tt.join")
def evaluate_join(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    side = index[-1]
    rest = index[:-1]
    if side.uniform:
        return [_choose(ev, op, [rest, rest], side.base, side.level)]
    places, compact = _distinct(rest)
    if len(compact) < 2:
        return [_blend(ev, op, [rest, rest], side.pattern)]
    # Lanes that differ in nothing but the side: each operand is evaluated once a place.
    count = len(compact)
    dense = tuple(
        replace(ix, pattern=tuple(lanes)) if any(lanes) else replace(ix, pattern=())
        for ix, lanes in zip(rest, zip(*compact, strict=True), strict=True)
    )
    placed = [ev.evaluate(operand, dense) for operand in op.operands]
    order = [place + count * right for place, right in zip(places, side.pattern, strict=True)]
    level = max(at for _, at in placed)
    left, right = (ev.spread(p, count) for p in placed)
    with ev.at(level):
        return [(_both(ev, left, right, lambda a, b: ev.b.shuffle(a, b, order)), level)]


@evaluates("tt.cat")
def evaluate_cat(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    half = shape_of(op.operands[0].type)[0]
    reads = [at for _, at in operand_indices(op, op.result, index, ev.bits, ev.sum)]
    first = index[0]
    pattern = tuple(int(p >= half) for p in first.pattern)
    if any(pattern):  # a chunk spans both, and then starts at 0
        return [_blend(ev, op, reads, pattern)]
    if first.base.text == "0":
        return [ev.evaluate(op.operands[0], reads[0])]
    side = ev.bits(first.base, half.bit_length() - 1, 1, 0, first.level)
    return [_choose(ev, op, reads, side, first.level)]


def _choose(ev: Evaluator, op: Op, reads: Sequence[Index], side: LValue, level: int) -> Placed:
    """All lanes are of one operand, given by a scalar 0 or 1."""
    if side.text in ("0", "1"):
        return ev.evaluate(op.operands[int(side.text)], reads[int(side.text)])
    placed = [ev.evaluate(operand, at) for operand, at in zip(op.operands, reads, strict=True)]
    level = max(level, *(at for _, at in placed))
    lanes = max(value.lanes for value, _ in placed)
    left, right = (ev.spread(p, lanes) for p in placed)
    with ev.at(level):
        second = ev.b.icmp("ne", side, ev.b.integer(I64, 0))
        return _both(ev, left, right, lambda a, b: ev.b.select(second, b, a)), level


def _blend(ev: Evaluator, op: Op, reads: Sequence[Index], sides: Sequence[int]) -> Placed:
    """Lane by lane from one operand or the other."""
    placed = [ev.evaluate(operand, at) for operand, at in zip(op.operands, reads, strict=True)]
    level = max(at for _, at in placed)
    left, right = (ev.spread(p, len(sides)) for p in placed)
    mask = ev.b.vector(LType(I1.scalar, len(sides)), ["true" if side else "false" for side in sides])
    with ev.at(level):
        return _both(ev, left, right, lambda a, b: ev.b.select(mask, b, a)), level


def _both(ev: Evaluator, left: Lanes, right: Lanes, merge: Callable[[LValue, LValue], LValue]) -> Lanes:
    """Merge in the form that both have."""
    if left.has_wide and right.has_wide:
        return Lanes(left.type, wide=merge(left.wide(ev.b), right.wide(ev.b)))
    return Lanes(left.type, merge(left.raw(ev.b), right.raw(ev.b)))


def _distinct(index: Index) -> tuple[list[int], list[tuple[int, ...]]]:
    """The places that the lanes of an index take, each once, and for every lane the number of its place."""
    lanes = max((len(ix.pattern) for ix in index), default=0)
    seen: dict[tuple[int, ...], int] = {}
    places = []
    for lane in range(lanes):
        key = tuple(ix.pattern[lane] if ix.pattern else 0 for ix in index)
        places.append(seen.setdefault(key, len(seen)))
    return places, list(seen)
