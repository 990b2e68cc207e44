"""Loop nests over a tile: which dimension the lanes run along, the loops, and their unmasked and masked versions.

One dimension of the nest's shape is the lane dimension: it is walked in chunks of lanes. Where masks of its loads and
stores are bounds (`base + lane < n`), the chunks before the bound run a version in which those masks are known to hold;
only the rest, at most a few chunks, tests lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from ..ir.tile import Op, Value
from ..ir.types import I1 as MASK
from ..ir.types import Scalar, element_of, shape_of
from ..llvm.emit import I1, I64, LValue
from .evaluate import Buffer, Evaluator
from .index import SHAPE_OPS, ZERO, Index, Ix, operand_index, operand_indices, source_index, symbolic_add, symbolic_bits
from .linear import arithmetic_step

# The lanes of a chunk. One number for every machine, since the order of a sum depends on it; LLVM splits it into the
# registers there are, and several of them in flight hide the latency of each.
LANES = 32

Root = tuple[Value, Index]
Step = Callable[[Index, list[LValue]], Sequence[LValue]]


@dataclass(frozen=True, slots=True)
class Bound:
    """A mask that holds for lanes below a bound: a comparison of consecutive integers with a uniform one."""

    mask: Value
    index: Index
    predicate: str
    left: Value
    right: Value
    left_index: Index
    right_index: Index


@dataclass(slots=True)
class Walked:
    """What lies behind the roots of a nest, found without emitting code."""

    bounds: list[Bound] = field(default_factory=list)
    uniform_masks: list[Root] = field(default_factory=list)
    remainders: list[tuple[Op, Index]] = field(default_factory=list)
    accesses: list[tuple[Op, Index]] = field(default_factory=list)
    reads: list[tuple[Buffer, Index]] = field(default_factory=list)
    masks: set[Root] = field(default_factory=set)  # that have been looked at


class Nest:
    """The loops over one shape."""

    def __init__(
        self,
        ev: Evaluator,
        shape: Sequence[int],
        lane_dim: int,
        roots: Callable[[Index], Iterable[Root]],
        masks: Callable[[Index], Iterable[Root]],
    ) -> None:
        """
        Args:
            shape: extents of the nest; () for a single point.
            lane_dim: the dimension that lanes run along; -1 for scalar loops only.
            roots: the values a step evaluates, at an index.
            masks: the masks of the step's own stores, at an index.
        """
        self.ev = ev
        self.b = ev.b
        self.shape = tuple(shape)
        self.lane_dim = lane_dim
        self.lanes = min(self.shape[lane_dim], LANES) if lane_dim >= 0 else 0
        self.roots = roots
        self.masks = masks

    # --- loops -----------------------------------------------------------------------------------------------------------

    def for_each(self, dims: Sequence[int], index: list[Ix], step: Callable[[], None]) -> None:
        """Run `step` in loops over `dims`, outermost first, with `index` set for each."""
        if not dims:
            step()
            return
        dim, rest = dims[0], dims[1:]

        def inner(carried: list[LValue]) -> Sequence[LValue]:
            self.for_each(rest, index, step)
            return []

        if dim == self.lane_dim:
            self.lane_loop(index, [], inner)
        else:
            self.scalar_loop(dim, index, [], inner)
        index[dim] = ZERO

    def scalar_loop(
        self,
        dim: int,
        index: list[Ix],
        inits: Sequence[LValue],
        step: Callable[[list[LValue]], Sequence[LValue]],
        start: int = 0,
    ) -> list[LValue]:
        """One loop over a dimension, element by element, with carried values."""
        extent = self.shape[dim]
        if extent - start == 0:
            return list(inits)
        if extent == 1:
            index[dim] = ZERO
            return list(step(list(inits)))

        def body(i: LValue, carried: list[LValue]) -> Sequence[LValue]:
            with self.ev.opened() as level:
                index[dim] = Ix(i, (), level)
                return step(carried)

        return self.b.loop(self.b.integer(I64, start), self.b.integer(I64, extent), 1, inits, body)

    def lane_loop(
        self,
        index: list[Ix],
        inits: Sequence[LValue],
        step: Callable[[list[LValue]], Sequence[LValue]],
        first: Callable[[], Sequence[LValue]] | None = None,
    ) -> list[LValue]:
        """The loop over the lane dimension: the full version up to the bound, the masked one for the rest.

        Args:
            inits: carried values, where there is no `first`.
            step: one chunk; gets and returns what is carried.
            first: the first chunk, where it makes the carried values instead of `inits`.
        """
        b, dim, extent = self.b, self.lane_dim, self.shape[self.lane_dim]
        pattern = tuple(range(self.lanes))
        full = Ix(LValue(f"%{b.fresh('lane')}", I64), pattern, self.ev.level + 1)
        index[dim] = full
        bound, known, remainders = self.full_bound(tuple(index), full)

        def chunk(
            ix: Ix, carried: list[LValue], facts: bool, make: Callable[[list[LValue]], Sequence[LValue]]
        ) -> Sequence[LValue]:
            ev = self.ev
            saved = ev.known, ev.linear_remainders, ev.known_level
            with ev.opened() as level:
                here = index[dim] = Ix(ix.base, ix.pattern, level, ix.tag)
                if facts:
                    ev.known |= frozenset((m, _with(i, full, here)) for m, i in known)
                    ev.linear_remainders |= frozenset((m, _with(i, full, here)) for m, i in remainders)
                    ev.known_level = level
                made = make(carried)
            ev.known, ev.linear_remainders, ev.known_level = saved
            return made

        at = b.integer(I64, 0)
        carried = list(inits)
        if first or extent == self.lanes:
            make = (lambda carried: first()) if first else step
            carried = self._one_chunk(pattern, bound, carried, chunk, make)
            if extent == self.lanes:
                return carried
            at = b.integer(I64, self.lanes)
        stop = b.integer(I64, extent)
        middle = stop if bound is None else b.intrinsic("smax", I64, bound, at)
        carried = b.loop(
            at, middle, self.lanes, carried, lambda i, c: chunk(full, c, True, step), name=full.base.text[1:]
        )
        if bound is not None:
            carried = b.loop(middle, stop, self.lanes, carried, lambda i, c: chunk(Ix(i, pattern, 0), c, False, step))
        return carried

    def _one_chunk(
        self,
        pattern: tuple[int, ...],
        bound: LValue | None,
        carried: list[LValue],
        chunk: Callable[..., Sequence[LValue]],
        make: Callable[[list[LValue]], Sequence[LValue]],
    ) -> list[LValue]:
        """The chunk at 0, without a loop."""
        b = self.b
        tag = len(b.slots) + b._next
        if bound is None:
            return list(chunk(Ix(ZERO.base, pattern, 0, tag + 1), carried, True, make))
        return b.branch(
            b.icmp("sgt", bound, b.integer(I64, 0)),
            lambda: chunk(Ix(ZERO.base, pattern, 0, tag + 1), carried, True, make),
            lambda: chunk(Ix(ZERO.base, pattern, 0, tag + 2), carried, False, make),
        )

    # --- bounds ----------------------------------------------------------------------------------------------------------

    def full_bound(self, index: Index, lane: Ix) -> tuple[LValue | None, list[Root], list[Root]]:
        """Up to where the masks are known to hold, and which; None for the bound where there is nothing to know."""
        walked = walk(self.ev, self.roots(index), self.masks(index), lane, self.shape[self.lane_dim])
        if not (walked.bounds or walked.uniform_masks or walked.remainders):
            return None, [], []
        b, extent = self.b, self.shape[self.lane_dim]
        bound = b.integer(I64, extent)
        known: list[Root] = []
        for term in walked.bounds:
            bound = b.intrinsic("smin", I64, bound, self._limit(term, lane, extent))
            known.append((term.mask, term.index))
        for mask, at in walked.uniform_masks:
            on, _ = self.ev.evaluate(mask, _with(at, lane, ZERO))
            bound = b.select(on.raw(b), bound, b.integer(I64, 0))
            known.append((mask, at))
        remainders: list[Root] = []
        for op, at in walked.remainders:
            bound = b.select(self._stays(op, at, lane, extent), bound, b.integer(I64, 0))
            remainders.append((op.results[0], at))
        bound = b.intrinsic("smax", I64, bound, b.integer(I64, 0))
        return b.and_(bound, b.integer(I64, -self.lanes)), known, remainders

    def _limit(self, term: Bound, lane: Ix, extent: int) -> LValue:
        """The number of leading lanes for which a comparison holds."""
        b = self.b
        x, _ = self.ev.evaluate(term.left, _with(term.left_index, lane, ZERO))
        y, _ = self.ev.evaluate(term.right, _with(term.right_index, lane, ZERO))
        signed = term.predicate[0] == "s"
        bits = x.raw(b).type.bits
        left, right = b.integer_cast(x.raw(b), "i64", signed=signed), b.integer_cast(y.raw(b), "i64", signed=signed)
        fits = self._fits(term.left, term.left_index, lane, extent)
        if term.predicate in ("sge", "sgt", "uge", "ugt"):  # holds from the first lane on, if there
            holds = b.icmp("sge" if term.predicate.endswith("ge") else "sgt", left, right)
            limit = b.select(holds, b.integer(I64, extent), b.integer(I64, 0))
        else:
            limit = b.sub(right, left)
            if term.predicate.endswith("le"):
                limit = b.add(limit, b.integer(I64, 1))
        if bits == 64:  # differences of 64-bit integers may wrap: only small ones are taken
            below = 1 << 62 if signed else 0
            low = b.icmp("ult", b.add(left, b.integer(I64, below)), b.integer(I64, (1 << 62) + below))
            also = b.icmp("ult", b.add(right, b.integer(I64, below)), b.integer(I64, (1 << 62) + below))
            return b.select(b.and_(fits, b.and_(low, also)), limit, b.integer(I64, 0))
        top = (1 << (bits - 1 if signed else bits)) - extent
        fits = b.and_(fits, b.icmp("sle", left, b.integer(I64, top)))
        return b.select(fits, limit, b.integer(I64, 0))

    def _fits(self, value: Value, at: Index, lane: Ix, extent: int) -> LValue:
        """Whether no narrow sum behind a sign extension wraps over the extent."""
        b = self.b
        fits = b.integer(I1, 1)
        for narrow, here in extended(self.ev, value, at):
            first, _ = self.ev.evaluate(narrow, _with(here, lane, ZERO))
            raw = first.raw(b)
            top = b.integer(raw.type, (1 << (raw.type.bits - 1)) - extent)
            fits = b.and_(fits, b.icmp("sle", raw, top))
        return fits

    def _stays(self, op: Op, at: Index, lane: Ix, extent: int) -> LValue:
        """Whether `x % n` passes no multiple of n over the extent, from an x that is not negative."""
        b = self.b
        start = _with(at, lane, ZERO)
        x, _ = self.ev.evaluate(op.operands[0], start)
        n, _ = self.ev.evaluate(op.operands[1], operand_index(op.results[0], op.operands[1], start))
        rest, _ = self.ev.evaluate(op.results[0], start)
        values = [b.integer_cast(v.raw(b), "i64") for v in (x, n, rest)]
        fits = b.icmp("sle", b.add(values[2], b.integer(I64, extent)), values[1])
        fits = b.and_(fits, self._fits(op.operands[0], at, lane, extent))
        top = (1 << (x.raw(b).type.bits - 1)) - extent
        fits = b.and_(fits, b.icmp("sle", values[0], b.integer(I64, top)))
        return b.and_(fits, b.icmp("sge", values[0], b.integer(I64, 0)))


def _with(index: Index, old: Ix, new: Ix) -> Index:
    return tuple(new if ix == old else ix for ix in index)


# --- walking without emitting ----------------------------------------------------------------------------------------------------


def walk(ev: Evaluator, roots: Iterable[Root], masks: Iterable[Root], lane: Ix, extent: int) -> Walked:
    """Find what a nest reads: its loads, the masks that are bounds along the lanes, remainders in addresses.

    Args:
        ev: the evaluator of the nest.
        roots: the values that a step evaluates.
        masks: the masks of the step's own stores.
        lane: the index along the lane dimension, as it stands in the roots' indices.
        extent: of the lane dimension.
    """
    found = Walked()
    seen: set[Root] = set()
    probe = _Probe(lane, Ix(ZERO.base, (0, *(1 << i for i in range(extent.bit_length() - 1))), lane.level))
    for mask, at in masks:
        _walk_mask(ev, mask, at, probe, found)
    stack = list(roots)
    while stack:
        value, at = stack.pop()
        if (value, at) in seen:
            continue
        seen.add((value, at))
        binding = ev.function.bindings.get(value)
        if binding is not None:
            if isinstance(binding, Buffer):
                found.reads.append((binding, at))
            continue
        op = ev.function.definition(value)
        if op.name == "tt.load":
            found.accesses.append((op, at))
            if len(op.operands) > 1:
                _walk_mask(ev, op.operands[1], operand_index(value, op.operands[1], at), probe, found)
        if (
            op.name in ("arith.remsi", "arith.remui")
            and probe.placed(at)
            and probe.consecutive(ev, op.operands[0], at)
            and not probe.varies(ev, op.operands[1], operand_index(value, op.operands[1], at))
        ):
            found.remainders.append((op, at))
        stack.extend(operand_indices(op, value, at, symbolic_bits, symbolic_add))
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
class _Probe:
    """Asks how a tile changes along the whole lane dimension, of which a chunk of lanes is but a part.

    Indices reach a tile by shape ops, which only move the bits of the lane number, and by linear arithmetic: what holds
    at 0 and at every power of two holds everywhere.
    """

    lane: Ix
    all: Ix

    def everywhere(self, index: Index) -> Index:
        return _with(index, self.lane, self.all)

    def varies(self, ev: Evaluator, value: Value, index: Index) -> bool:
        return ev.function.varies(value, self.everywhere(index))

    def consecutive(self, ev: Evaluator, value: Value, index: Index) -> bool:
        """The tile holds x, x + 1, x + 2 ... along the lane dimension."""
        return self.lane in index and lane_pattern(ev, value, self.everywhere(index)) == self.all.pattern

    def placed(self, index: Index) -> bool:
        """The index holds no scalar that is only named (by a reshape) and not emitted."""
        return all(ix == self.lane or (ix.uniform and not ix.base.text.startswith("(")) for ix in index)


def _walk_mask(ev: Evaluator, mask: Value, at: Index, probe: _Probe, found: Walked) -> None:
    """Take a mask apart into what can be known beforehand."""
    if (mask, at) in found.masks:
        return
    found.masks.add((mask, at))
    if probe.placed(at) and not probe.varies(ev, mask, at):
        found.uniform_masks.append((mask, at))
        return
    if mask in ev.function.bindings:
        return
    op = ev.function.definition(mask)
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
        op = ev.function.definition(current)
        if op.name == "arith.extsi":
            found.append((op.operands[0], at))
            stack.append((op.operands[0], at))
        elif op.name in ("arith.addi", "arith.subi", "arith.muli", "arith.remsi", "arith.remui"):
            stack += [(v, operand_index(current, v, at)) for v in op.operands]
        elif op.name in ("tt.expand_dims", "tt.broadcast", "tt.trans"):
            stack.append((op.operands[0], source_index(op, at, symbolic_bits, symbolic_add)))
    return found


def lane_pattern(ev: Evaluator, value: Value, index: Index) -> tuple[int, ...] | None:
    """The constants by which an integer or pointer tile differs from lane to lane; None where unknown, () for none."""
    known: _Patterns = {}
    stack = [(value, index)]
    while stack:  # from the far end of a chain of sums, since Python's stack is short
        current = stack[-1]
        waiting = [read for read in _pattern_reads(ev, *current) if read not in known]
        if waiting:
            stack.append(waiting[-1])
        else:
            _lane_pattern(ev, *stack.pop(), known)
    return known[value, index]


_Patterns = dict[Root, "tuple[int, ...] | None"]


def _pattern_reads(ev: Evaluator, value: Value, index: Index) -> list[Root]:
    """Whose patterns the pattern of a value is made of."""
    if not ev.function.varies(value, index) or value in ev.function.bindings:
        return []
    op = ev.function.definition(value)
    if op.name in SHAPE_OPS:
        return [(op.operands[0], source_index(op, index, symbolic_bits, symbolic_add))]
    if op.name in ("arith.extsi", "arith.remsi", "arith.remui"):
        return [(op.operands[0], operand_index(value, op.operands[0], index))]
    if op.name in ("arith.addi", "arith.subi", "tt.addptr", "arith.muli"):
        return [(v, operand_index(value, v, index)) for v in op.operands]
    return []


def _lane_pattern(ev: Evaluator, value: Value, index: Index, known: _Patterns) -> tuple[int, ...] | None:
    """Each value behind is asked once: sums may share their operands in every step of a long chain."""
    if (value, index) not in known:
        known[value, index] = _find_lane_pattern(ev, value, index, known)
    return known[value, index]


def _find_lane_pattern(ev: Evaluator, value: Value, index: Index, known: _Patterns) -> tuple[int, ...] | None:
    if not ev.function.varies(value, index):
        return ()
    if value in ev.function.bindings:
        return None
    op = ev.function.definition(value)
    if op.name in SHAPE_OPS:
        return _lane_pattern(ev, op.operands[0], source_index(op, index, symbolic_bits, symbolic_add), known)
    if op.name == "tt.make_range":
        return index[0].pattern
    if op.name in ("arith.extsi", "arith.remsi", "arith.remui"):
        return _lane_pattern(ev, op.operands[0], operand_index(value, op.operands[0], index), known)
    if op.name in ("arith.addi", "arith.subi", "tt.addptr", "arith.muli"):
        a, c = (_lane_pattern(ev, v, operand_index(value, v, index), known) for v in op.operands)
        if a is None or c is None:
            return None
        if op.name == "arith.muli":
            factor = constant_integer(ev, op.operands[1]) if a else constant_integer(ev, op.operands[0])
            varying = a or c
            return None if factor is None or (a and c) else tuple(p * factor for p in varying)
        sign = -1 if op.name == "arith.subi" else 1
        size = max(len(a), len(c))
        return tuple(p + sign * q for p, q in zip(a or (0,) * size, c or (0,) * size, strict=True))
    return None


def constant_integer(ev: Evaluator, value: Value) -> int | None:
    """The value of a constant (also splatted) integer."""
    if value in ev.function.bindings:
        return ev.function.constant_of.get(value)
    op = ev.function.definition(value)
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


def choose_lane_dim(
    ev: Evaluator,
    shape: Sequence[int],
    roots: Callable[[Index], Iterable[Root]],
    stores: Callable[[Index], Iterable[Root]],
    allowed: Iterable[int] | None = None,
) -> int:
    """The dimension along which most accesses are consecutive; the last one where that decides nothing."""
    best, choice = -1.0, -1
    for dim in allowed if allowed is not None else range(len(shape)):
        if shape[dim] == 1:
            continue
        lanes = min(shape[dim], LANES)
        lane = Ix(LValue("%?", I64), tuple(range(lanes)), 1)
        index = tuple(lane if d == dim else Ix(LValue(f"%?{d}", I64), (), 1) for d in range(len(shape)))
        score = 0.5 * dim / len(shape)
        walked = walk(ev, roots(index), [], lane, shape[dim])
        patterns = [
            (lane_pattern(ev, op.operands[0], operand_index(op.results[0], op.operands[0], at)), 1.0)
            for op, at in walked.accesses
        ]
        patterns += [(buffer_pattern(buffer, at), 0.5) for buffer, at in walked.reads]
        patterns += [(lane_pattern(ev, pointer, at), 2.0) for pointer, at in stores(index)]
        for pattern, weight in patterns:
            if pattern is not None:
                step = arithmetic_step(pattern) if pattern else 0
                score += weight * {1: 4, 0: 3}.get(step if step is not None else 9, 0)
        score = (score + 1) * min(lanes, 16)
        if score > best:
            best, choice = score, dim
    return choice


def buffer_pattern(buffer: Buffer, index: Index) -> tuple[int, ...]:
    """The offsets of the lanes in a buffer; () where they are all the same."""
    size = max((len(ix.pattern) for ix in index), default=0)
    offsets = [0] * size
    for ix, stride, extent in zip(index, buffer.strides, buffer.shape, strict=True):
        if extent > 1:
            offsets = [o + p * stride for o, p in zip(offsets, ix.pattern or (0,) * size, strict=True)]
    return tuple(offsets) if any(offsets) else ()


def shape_index(shape: Sequence[int]) -> list[Ix]:
    return [ZERO for _ in shape]


def identity(value: Value, index: Index) -> Index:
    """The index of a tile of the nest's own shape; none for a scalar."""
    return index if shape_of(value.type) else ()


def is_cube(shape: Sequence[int]) -> bool:
    """Whether a tile has many elements but only small extents, so that lanes must run along several dimensions."""
    return len(shape) > 1 and max(shape) < 8 and prod(shape) > max(shape)
