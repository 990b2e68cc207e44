"""Where along the lanes of a nest its masks are known to hold, found before any of its chunks runs.

A mask is taken apart into comparisons of consecutive integers with uniform ones (`base + lane < n`, `base + lane > 0`),
which hold from some lane on or up to some lane, and into what is the same in every lane. Remainders in addresses count
too: `x % n` is a plain sum as long as it passes no multiple of n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..ir.tile import Op, Value
from ..ir.types import I1 as MASK
from ..ir.types import Scalar, element_of
from ..llvm.emit import I1, I64, Builder, LValue
from .evaluate import Buffer, Evaluator
from .index import (
    SHAPE_OPS,
    ZERO,
    Index,
    Ix,
    operand_index,
    operand_indices,
    source_index,
    symbolic_add,
    symbolic_bits,
    uniform,
)
from .lanes import Lanes

Root = tuple[Value, Index]
_At = tuple[LValue, int]  # a scalar, and the level of the nest that it is known at


@dataclass(frozen=True, slots=True)
class Bound:
    """A mask that holds for lanes below a bound, or from one on: consecutive integers compared with a uniform one."""

    mask: Value
    index: Index
    predicate: str
    left: Value
    right: Value
    left_index: Index
    right_index: Index

    @property
    def lower(self) -> bool:
        """Whether it holds from a lane on."""
        return self.predicate in ("sge", "sgt", "uge", "ugt")


@dataclass(slots=True)
class Walked:
    """What lies behind the roots of a nest, found without emitting code."""

    bounds: list[Bound] = field(default_factory=list)
    uniform_masks: list[Root] = field(default_factory=list)
    remainders: list[tuple[Op, Index]] = field(default_factory=list)
    accesses: list[tuple[Op, Index]] = field(default_factory=list)
    reads: list[tuple[Buffer, Index]] = field(default_factory=list)
    masks: set[Root] = field(default_factory=set)  # that have been looked at
    whole_lane: bool = True  # no shape op takes bits of the lane's index, which is then any number


@dataclass(frozen=True, slots=True)
class Known:
    """Where all masks of `masks` hold: from lane `low` (None: the first, to the end of a whole chunk) to lane `high`.

    `count` is the number of lanes at which a chunk between them may begin. `remainders` are remainders that are plain
    sums there.
    """

    low: LValue | None
    high: LValue
    count: LValue
    masks: tuple[Root, ...]
    remainders: tuple[Root, ...]

    def holds(self, b: Builder, at: LValue) -> LValue:
        """Whether they hold in the chunk that begins at a lane."""
        if self.low is None:
            return b.icmp("slt", at, self.high)
        return b.icmp("ult", b.sub(at, self.low), self.count)


def known_chunks(
    ev: Evaluator, walked: Walked, lane: Ix, extent: int, lanes: int, *, anywhere: bool = False
) -> Known | None:
    """Emit the lanes between which the masks hold; None where there is nothing to know.

    Args:
        ev: the evaluator of the nest.
        walked: what lies behind the nest's roots, from `walk`.
        lane: the index along the lane dimension, as it stands in the roots' indices.
        extent: of the lane dimension.
        lanes: of a chunk.
        anywhere: chunks may begin at any lane, so that `low` is given, and `high` is no multiple of `lanes`.
    """
    if not (walked.bounds or walked.uniform_masks or walked.remainders):
        return None
    b = ev.b
    none = b.integer(I64, 0)
    low = _Folded(ev, "smax", none)
    high = _Folded(ev, "smin", b.integer(I64, extent))
    for term in walked.bounds:
        (low if term.lower else high).limits.append(limit(ev, term, lane, extent, extent if term.lower else 0))
    for mask, at in walked.uniform_masks:
        on, level = ev.evaluate(mask, replaced(at, lane, ZERO))
        high.conditions.append((on.raw(b), level))
    for op, at in walked.remainders:
        high.conditions.append(_stays(ev, op, at, lane, extent))
    masks = (*((term.mask, term.index) for term in walked.bounds), *walked.uniform_masks)
    remainders = tuple((op.results[0], at) for op, at in walked.remainders)
    if not (low.limits or anywhere):
        last, _ = high.value(lambda v: b.and_(b.intrinsic("smax", I64, v, none), b.integer(I64, -lanes)))
        return Known(None, last, last, masks, remainders)
    last, level = high.value(lambda v: v)
    first, at_first = low.value(lambda v: v)
    with ev.at(max(level, at_first)):
        count = b.sub(b.sub(last, first), b.integer(I64, lanes - 1))
        count = b.intrinsic("smax", I64, count, none)
    return Known(first, last, count, masks, remainders)


def first_off(ev: Evaluator, masks: Iterable[Value], dim: int, extent: int) -> LValue | None:
    """From which index along a dimension of two all of some masks are off; None where that is not known.

    Args:
        ev: an evaluator of straight-line code.
        masks: of extent 1 along the other dimension.
        dim: the dimension.
        extent: of the dimension.
    """
    lane = Ix(LValue("%lane", I64), tuple(range(min(extent, 32))), 1)
    index = (lane, ZERO) if dim == 0 else (ZERO, lane)
    walked = walk(ev, [], [(mask, index) for mask in masks], lane, extent)
    high = _Folded(ev, "smin", ev.b.integer(I64, extent))
    high.limits += [limit(ev, term, lane, extent, extent) for term in walked.bounds if not term.lower]
    if not high.limits:
        return None
    return high.value(lambda v: ev.b.intrinsic("smax", I64, v, ev.b.integer(I64, 0)))[0]


@dataclass(slots=True)
class _Folded:
    """The smallest (or largest) of some limits, 0 unless some conditions hold; each part at the level it is known at."""

    ev: Evaluator
    fold: str
    start: LValue
    limits: list[_At] = field(default_factory=list)
    conditions: list[_At] = field(default_factory=list)

    def value(self, finish: Callable[[LValue], LValue]) -> _At:
        """The fold, finished where its last limit is known, and its level."""
        b = self.ev.b
        total, level = self.start, 0
        for limit, at in sorted(self.limits, key=lambda item: item[1]):
            level = max(level, at)
            with self.ev.at(level):
                total = b.intrinsic(self.fold, I64, total, limit)
        with self.ev.at(level):
            total = finish(total)
        for on, at in sorted(self.conditions, key=lambda item: item[1]):
            level = max(level, at)
            with self.ev.at(level):
                total = b.select(on, total, b.integer(I64, 0))
        return total, level


def limit(ev: Evaluator, term: Bound, lane: Ix, extent: int, unknown: int) -> _At:
    """The lane up to which (for a lower bound: from which) a comparison holds; may lie outside the extent.

    Where integers may wrap on the way, it is `unknown`.
    """
    b = ev.b
    x, x_level = ev.evaluate(term.left, replaced(term.left_index, lane, ZERO))
    y, y_level = ev.evaluate(term.right, replaced(term.right_index, lane, ZERO))
    narrow = _narrow_sums(ev, term.left, term.left_index, lane)
    level = max(x_level, y_level, *(at for _, at in narrow), 0)
    signed = term.predicate[0] == "s"
    with ev.at(level):
        bits = x.raw(b).type.bits
        left, right = b.integer_cast(x.raw(b), "i64", signed=signed), b.integer_cast(y.raw(b), "i64", signed=signed)
        found = b.sub(right, left)
        if term.predicate.endswith(("le", "gt")):
            found = b.add(found, b.integer(I64, 1))
        fits = _fit(b, narrow, extent)
        if bits == 64:  # differences of 64-bit integers may wrap: only small ones are taken
            below = 1 << 62 if signed else 0
            for side in (left, right):
                small = b.icmp("ult", b.add(side, b.integer(I64, below)), b.integer(I64, (1 << 62) + below))
                fits = b.and_(fits, small)
        else:
            top = (1 << (bits - 1 if signed else bits)) - extent
            fits = b.and_(fits, b.icmp("sle", left, b.integer(I64, top)))
        return b.select(fits, found, b.integer(I64, unknown)), level


def _narrow_sums(ev: Evaluator, value: Value, at: Index, lane: Ix) -> list[_At]:
    """The first lane of every narrow sum behind a sign extension."""
    found = [ev.evaluate(narrow, replaced(here, lane, ZERO)) for narrow, here in extended(ev, value, at)]
    return [(lanes.raw(ev.b), level) for lanes, level in found]


def _fit(b: Builder, narrow: list[_At], extent: int) -> LValue:
    """Whether no narrow sum wraps over the extent."""
    fits = b.integer(I1, 1)
    for raw, _ in narrow:
        top = b.integer(raw.type, (1 << (raw.type.bits - 1)) - extent)
        fits = b.and_(fits, b.icmp("sle", raw, top))
    return fits


def _stays(ev: Evaluator, op: Op, at: Index, lane: Ix, extent: int) -> _At:
    """Whether `x % n` passes no multiple of n over the extent, from an x that is not negative."""
    b = ev.b
    start = replaced(at, lane, ZERO)
    x, x_level = ev.evaluate(op.operands[0], start)
    n, n_level = ev.evaluate(op.operands[1], operand_index(op.results[0], op.operands[1], start))
    rest, rest_level = ev.evaluate(op.results[0], start)
    narrow = _narrow_sums(ev, op.operands[0], at, lane)
    level = max(x_level, n_level, rest_level, *(at for _, at in narrow))
    with ev.at(level):
        values = [b.integer_cast(v.raw(b), "i64") for v in (x, n, rest)]
        fits = b.icmp("sle", b.add(values[2], b.integer(I64, extent)), values[1])
        fits = b.and_(fits, _fit(b, narrow, extent))
        top = (1 << (x.raw(b).type.bits - 1)) - extent
        fits = b.and_(fits, b.icmp("sle", values[0], b.integer(I64, top)))
        return b.and_(fits, b.icmp("sge", values[0], b.integer(I64, 0))), level


def replaced(index: Index, old: Ix, new: Ix) -> Index:
    """An index with one of its parts in place of another."""
    return tuple([new if ix is old or ix == old else ix for ix in index])


# --- walking without emitting ------------------------------------------------------------------------------------------------


def walk(
    ev: Evaluator, roots: Iterable[Root], masks: Iterable[Root], lane: Ix, extent: int, *, bounds: bool = True
) -> Walked:
    """Find what a nest reads: its loads, the masks that are bounds along the lanes, remainders in addresses.

    Args:
        ev: the evaluator of the nest.
        roots: the values that a step evaluates.
        masks: the masks of the step's own stores.
        lane: the index along the lane dimension, as it stands in the roots' indices.
        extent: of the lane dimension.
        bounds: masks and remainders are wanted, too.
    """
    found = Walked()
    bindings, definitions = ev.function.bindings, ev.function.definitions
    seen: set[Root] = set()
    probe = Probe.along(lane, extent)
    for mask, at in masks:
        _walk_mask(ev, mask, at, probe, found)

    def bits(base: LValue, shift: int, mask: int, left: int, level: int) -> LValue:
        found.whole_lane &= lane.base.text not in base.text
        return symbolic_bits(base, shift, mask, left, level)

    stack = list(roots)
    while stack:
        root = stack.pop()
        value, at = root
        binding = bindings.get(value)
        if isinstance(binding, Lanes):
            continue
        before = len(seen)
        seen.add(root)
        if len(seen) == before:  # it was there: asking first would hash a long index twice
            continue
        if binding is not None:
            found.reads.append((binding, at))
            continue
        op = definitions[value]
        if op.name == "tt.load":
            found.accesses.append((op, at))
            if bounds and len(op.operands) > 1:
                _walk_mask(ev, op.operands[1], operand_index(value, op.operands[1], at), probe, found)
        if (
            bounds
            and op.name in ("arith.remsi", "arith.remui")
            and probe.placed(at)
            and probe.consecutive(ev, op.operands[0], at)
            and not probe.varies(ev, op.operands[1], operand_index(value, op.operands[1], at))
        ):
            found.remainders.append((op, at))
        stack += operand_indices(op, value, at, bits, symbolic_add)
    return found


_MIRRORED = {
    "slt": "sgt",
    "sle": "sge",
    "sgt": "slt",
    "sge": "sle",
    "ult": "ugt",
    "ule": "uge",
    "ugt": "ult",
    "uge": "ule",
}


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks how a tile changes along the whole lane dimension, of which a chunk of lanes is but a part.

    Indices reach a tile by shape ops, which only move the bits of the lane number, and by linear arithmetic: what holds
    at 0 and at every power of two holds everywhere.
    """

    lane: Ix
    all: Ix

    @staticmethod
    def along(lane: Ix, extent: int) -> Probe:
        return Probe(lane, Ix(ZERO.base, (0, *[1 << i for i in range(extent.bit_length() - 1)]), lane.level))

    def everywhere(self, index: Index) -> Index:
        return replaced(index, self.lane, self.all)

    def varies(self, ev: Evaluator, value: Value, index: Index) -> bool:
        return ev.function.varies(value, self.everywhere(index))

    def consecutive(self, ev: Evaluator, value: Value, index: Index) -> bool:
        """The tile holds x, x + 1, x + 2 ... along the lane dimension."""
        return self.lane in index and lane_pattern(ev, value, self.everywhere(index)) == self.all.pattern

    def placed(self, index: Index) -> bool:
        """The index holds no scalar that is only named (by a reshape) and not emitted."""
        return all(ix == self.lane or (ix.uniform and not ix.base.text.startswith("(")) for ix in index)


def _walk_mask(ev: Evaluator, mask: Value, at: Index, probe: Probe, found: Walked) -> None:
    """Take a mask apart into what can be known beforehand."""
    if (mask, at) in found.masks:
        return
    found.masks.add((mask, at))
    if probe.placed(at) and not probe.varies(ev, mask, at):
        found.uniform_masks.append((mask, at))
        return
    if mask in ev.function.bindings:
        return
    op = ev.function.definitions[mask]
    if op.name in SHAPE_OPS:
        _walk_mask(ev, op.operands[0], source_index(op, at, symbolic_bits, symbolic_add), probe, found)
    elif op.name == "arith.andi":
        for operand in op.operands:
            _walk_mask(ev, operand, operand_index(mask, operand, at), probe, found)
    elif op.name == "arith.cmpi" and op.attributes["predicate"] in _MIRRORED and probe.placed(at):
        left, right = op.operands
        left_at, right_at = (operand_index(mask, v, at) for v in op.operands)
        predicate = op.attributes["predicate"]
        if not probe.varies(ev, left, left_at):
            left, right, left_at, right_at, predicate = right, left, right_at, left_at, _MIRRORED[predicate]
        if probe.consecutive(ev, left, left_at) and not probe.varies(ev, right, right_at):
            found.bounds.append(Bound(mask, at, predicate, left, right, left_at, right_at))


def extended(ev: Evaluator, value: Value, index: Index) -> list[Root]:
    """The narrow integers behind a linear form, whose own arithmetic may wrap before they are extended."""
    found: list[Root] = []
    seen: set[Root] = set()
    stack = [(value, index)]
    while stack:
        current, at = stack.pop()
        if (current, at) in seen or not at or current in ev.function.bindings or not ev.function.varies(current, at):
            continue
        seen.add((current, at))
        op = ev.function.definitions[current]
        if op.name == "arith.extsi":
            found.append((op.operands[0], at))
            stack.append((op.operands[0], at))
        elif op.name in ("arith.addi", "arith.subi", "arith.muli", "arith.remsi", "arith.remui"):
            stack += [(v, operand_index(current, v, at)) for v in op.operands]
        elif op.name in ("tt.expand_dims", "tt.broadcast", "tt.trans"):
            stack.append((op.operands[0], source_index(op, at, symbolic_bits, symbolic_add)))
    return found


_Pattern = tuple[int, ...] | None
Patterns = dict[Root, _Pattern]


def lane_pattern(ev: Evaluator, value: Value, index: Index, known: Patterns | None = None) -> _Pattern:
    """The constants by which an integer or pointer tile differs from lane to lane; None where unknown, () for none.

    Args:
        known: what was found so far at indices of the same lanes, and gets what is found now.
    """
    known = {} if known is None else known
    root = (value, index)
    stack = [(root, *_behind(ev, root, known))]
    while stack:  # from the far end of a chain of sums, since Python's stack is short
        current, op, reads = stack[-1]
        patterns = []
        for read in reads:
            pattern = known.get(read, _UNKNOWN)
            if pattern is _UNKNOWN:
                stack.append((read, *_behind(ev, read, known)))
                break
            patterns.append(pattern)
        else:
            if op is not None:
                known[current] = _pattern_of(ev, op, patterns)
            stack.pop()
    return known[root]


_UNKNOWN: _Pattern = (-1,)  # an object of its own


def _behind(ev: Evaluator, root: Root, known: Patterns) -> tuple[Op | None, list[Root]]:
    """What makes a value, and whose patterns its own is made of; no op where the pattern is known at once."""
    value, index = root
    if root in known:
        return None, []
    if uniform(index):
        known[root] = ()
        return None, []
    if value not in ev.function.bindings:
        op = ev.function.definitions[value]
        if op.name in SHAPE_OPS:
            return op, [(op.operands[0], source_index(op, index, symbolic_bits, symbolic_add))]
        if op.name in ("arith.extsi", "arith.remsi", "arith.remui"):
            return op, [(op.operands[0], operand_index(value, op.operands[0], index))]
        if op.name in ("arith.addi", "arith.subi", "tt.addptr", "arith.muli"):
            return op, [(v, operand_index(value, v, index)) for v in op.operands]
        if op.name == "tt.make_range":
            known[root] = index[0].pattern
            return None, []
    known[root] = None if ev.function.varies(value, index) else ()
    return None, []


def _pattern_of(ev: Evaluator, op: Op, patterns: list[_Pattern]) -> _Pattern:
    """The pattern of a value, from those of what it reads."""
    if len(patterns) != 2:
        return patterns[0]
    a, c = patterns
    if a is None or c is None:
        return None
    if op.name == "arith.muli":
        varying = a or c
        factor = constant_integer(ev, op.operands[1] if a else op.operands[0]) if varying else 1
        return None if factor is None or (a and c) else tuple([p * factor for p in varying])
    if not c or (not a and op.name != "arith.subi"):
        return a or c
    sign = -1 if op.name == "arith.subi" else 1
    return tuple([p + sign * q for p, q in zip(a or (0,) * len(c), c, strict=True)])


def constant_integer(ev: Evaluator, value: Value) -> int | None:
    """The value of a constant (also splatted) integer."""
    if value in ev.function.bindings:
        return ev.function.constant_of.get(value)
    op = ev.function.definitions[value]
    if op.name in SHAPE_OPS:
        return constant_integer(ev, op.operands[0])
    if op.name == "arith.constant" and op.attributes["value"].is_splat:
        element = element_of(value.type)
        return (
            op.attributes["value"].integers()[0]
            if isinstance(element, Scalar) and element.is_integer and element != MASK
            else None
        )
    return None
