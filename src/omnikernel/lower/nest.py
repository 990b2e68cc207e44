"""Loop nests over a tile: which dimension the lanes run along, the loops, and their unmasked and masked versions.

One dimension of the nest's shape is the lane dimension: it is walked in chunks of lanes. Where masks of its loads and
stores are bounds (`base + lane < n`), the chunks within the bounds run a version in which those masks are known to hold;
only the rest, at most a few chunks, tests lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING

from ..ir.tile import Value
from ..ir.types import Scalar, element_of
from ..llvm.emit import I64, LType, LValue
from .beyond import Beyond, confined
from .bounds import Known, Patterns, Root, Walked, known_chunks, lane_pattern, replaced, walk
from .chunks import ALIGN_FROM, BORDER_LANES, Carry, Chunk, Chunks, Lines, by_parts
from .evaluate import Buffer, Evaluator, pointee_memory
from .index import ZERO, Index, Ix
from .linear import arithmetic_step
from .prefetch import fetch, read_in_order

if TYPE_CHECKING:
    from .function import FunctionLowering

# The lanes of a chunk. One number for every machine, since the order of a sum depends on it; LLVM splits it into the
# registers there are, and several of them in flight hide the latency of each.
LANES = 32

# Kernels with products have shorter chunks, since their time is in the products: LLVM takes as long for a chunk as it has
# registers. Shortest are those of nests over a tile that has at most this part of the elements of the largest.
SMALL = 1 / 16


def chunk_lanes(fl: FunctionLowering, shape: Sequence[int], in_order: bool) -> int:
    """The most lanes of a chunk of a nest over a shape; `in_order` where lanes must be combined in the one order."""
    if in_order or not fl.product_tile:
        return LANES
    return LANES // 4 if prod(shape) <= SMALL * fl.product_tile else LANES // 2


# Chunks of bytes alone fill as many registers as those of f32 do.
BYTE_LANES = 64


def moves_bytes(fl: FunctionLowering, value: Value) -> bool:
    """Whether all that a tile is made of, from what is loaded on, are bytes."""
    seen: set[Value] = set()
    stack = [value]
    while stack:
        current = stack.pop()
        element = element_of(current.type)
        if current in seen:
            continue
        seen.add(current)
        if not isinstance(element, Scalar) or element.bits != 8:
            return False
        op = None if current in fl.bindings else fl.definition(current)
        if op is not None and op.name != "tt.load":
            stack.extend(op.operands)
    return True


class Nest:
    """The loops over one shape."""

    def __init__(
        self,
        ev: Evaluator,
        shape: Sequence[int],
        lane_dim: int,
        roots: Callable[[Index], Iterable[Root]],
        masks: Callable[[Index], Iterable[Root]],
        aligned: Callable[[Index], Iterable[Root]] | None = None,
        *,
        masked: bool = False,
        repeat: Callable[[LValue], None] | None = None,
        streams: LValue | None = None,
        in_order: bool = False,
    ) -> None:
        """
        Args:
            shape: extents of the nest; () for a single point.
            lane_dim: the dimension that lanes run along; -1 for scalar loops only.
            roots: the values a step evaluates, at an index.
            masks: the masks of the step's own stores, at an index.
            aligned: the pointer of a store whose chunks should begin at a cache line, at an index; then a step may run
                twice for some lanes, and carries nothing.
            masked: a step does nothing where all `masks` are off.
            streams: whether the store through `aligned` goes past the caches; None where it never does.
            repeat: what else a chunk does than to change what is carried, done for all chunks after one, in its place.
            in_order: what is carried depends on the order in which lanes are combined, which is that of `LANES`.
        """
        self.ev = ev
        self.b = ev.b
        self.shape = tuple(shape)
        self.lane_dim = lane_dim
        self.lanes = min(self.shape[lane_dim], chunk_lanes(ev.function, shape, in_order)) if lane_dim >= 0 else 0
        self.roots = roots
        self.masks = masks
        self.aligned = aligned
        self.holds = True  # in the version being written the masks that are bounds hold
        self.masked = masked
        self.repeat = repeat
        self.streams = streams

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
        step: Carry,
        start: int | LValue = 0,
        stop: LValue | None = None,
    ) -> list[LValue]:
        """One loop over a dimension, element by element, with carried values."""
        extent = self.shape[dim]
        if extent == start:
            return list(inits)
        if extent == 1:
            index[dim] = ZERO
            return list(step(list(inits)))

        def body(i: LValue, carried: list[LValue]) -> Sequence[LValue]:
            with self.ev.opened() as level:
                index[dim] = Ix(i, (), level)
                return step(carried)

        low = start if isinstance(start, LValue) else self.b.integer(I64, start)
        return self.b.loop(low, stop or self.b.integer(I64, extent), 1, inits, body)

    def lane_loop(
        self,
        index: list[Ix],
        inits: Sequence[LValue],
        step: Carry,
        first: Callable[[], Sequence[LValue]] | None = None,
    ) -> list[LValue]:
        """The loop over the lane dimension: the full version within the bounds, the masked one for the rest.

        Args:
            inits: carried values, where there is no `first`.
            step: one chunk; gets and returns what is carried.
            first: the first chunk, where it makes the carried values instead of `inits`.
        """
        b, dim, extent = self.b, self.lane_dim, self.shape[self.lane_dim]
        pattern = tuple(range(self.lanes))
        full = Ix(LValue("%lane", I64), pattern, self.ev.level + 1)  # stands for that of any chunk
        index[dim] = full
        at = tuple(index)
        walked = walk(self.ev, self.roots(at), self.masks(at), full, extent)
        inside = not (inits or first) and self._inside(walked, at)
        known = known_chunks(self.ev, walked, full, extent, self.lanes, anywhere=inside)
        ahead = read_in_order(self.ev, walked, full, extent)

        def chunk(ix: Ix, carried: list[LValue], holds: bool, make: Carry) -> Sequence[LValue]:
            ev = self.ev
            saved = ev.known, ev.linear_remainders, ev.known_level
            self.holds = holds
            with ev.opened() as level:
                here = index[dim] = Ix(ix.base, ix.pattern, level, ix.tag)
                if holds and known:
                    ev.known |= frozenset((m, replaced(i, full, here)) for m, i in known.masks)
                    ev.linear_remainders |= frozenset((m, replaced(i, full, here)) for m, i in known.remainders)
                    ev.known_level = level
                if holds:
                    fetch(ev, ahead, full, here, self.lanes)
                made = make(carried)
            ev.known, ev.linear_remainders, ev.known_level = saved
            return made

        def either(base: LValue, carried: list[LValue], make: Carry) -> Sequence[LValue]:
            """One chunk in the version that fits it."""
            tag = len(b.slots) + b._next
            on, off = Ix(base, pattern, 0, tag + 1), Ix(base, pattern, 0, tag + 2)
            if known is None:
                return chunk(on, carried, True, make)

            def border() -> Sequence[LValue]:
                if make is not step:  # what it makes is the start of all lanes
                    return chunk(off, carried, False, make)
                return self._border(base, b.add(base, b.integer(I64, self.lanes)), carried, tested)

            return b.branch(known.holds(b, base), lambda: chunk(on, carried, True, make), border)

        def known_to_hold(base: LValue, carried: list[LValue]) -> Sequence[LValue]:
            return chunk(Ix(base, tuple(range(self.lanes)), 0), carried, True, step)

        def tested(base: LValue, carried: list[LValue]) -> Sequence[LValue]:
            return chunk(Ix(base, tuple(range(self.lanes)), 0), carried, False, step)

        start, stop = b.integer(I64, 0), b.integer(I64, extent)
        carried = list(inits)
        if first or extent == self.lanes:
            carried = list(either(start, carried, (lambda _: first()) if first else step))
            if extent == self.lanes:
                return carried
            start = b.integer(I64, self.lanes)
        lines = None if carried or not walked.whole_lane else self._lines(at, full)
        beyond = Beyond(self.ev, walked, full, extent)
        if inside and known and known.low is not None:
            return self._moved_inside(known, beyond, lines, known_to_hold, tested)
        if known and known.low is not None:
            return self._chunks().whole(start, stop, carried, lambda i, c: either(i, c, step), lines)
        middle = b.intrinsic("smax", I64, known.high, start) if known else stop
        carried = self._chunks().whole(start, middle, carried, known_to_hold, lines)
        if known:
            if self.masked and beyond.bounds and all(beyond.off(*mask) for mask in self.masks(at)):
                stop = beyond.start()
            settles = bool(carried) and beyond.alike(self.roots(at))
            return self._border(middle, stop, carried, tested, beyond.start() if settles else None)
        return carried

    def _inside(self, walked: Walked, index: Index) -> bool:
        """Whether all is done by whole chunks between the bounds of the masks, where these are a chunk apart.

        The first chunk then begins and the last one ends at a bound: what they do twice is less than a chunk with a mask
        costs, of which some processors store each lane by itself.
        """
        several = self.shape[self.lane_dim] > self.lanes
        if self.aligned is None or not (several and self.masked and walked.whole_lane):
            return False
        return bool(walked.bounds) and confined(self.ev, walked, self.masks(index))

    def _moved_inside(
        self, known: Known, beyond: Beyond, lines: Lines | None, known_to_hold: Chunk, tested: Chunk
    ) -> list[LValue]:
        """Whole chunks between the bounds, or else chunks that test their lanes up to the end of what the bounds leave."""
        b = self.b
        assert known.low is not None
        start, stop = b.integer(I64, 0), b.integer(I64, self.shape[self.lane_dim])
        enough = b.icmp("ne", known.count, start)
        low, high = b.select(enough, known.low, start), b.select(enough, known.high, start)
        self._chunks().whole(low, high, [], known_to_hold, lines, clamp=True)
        stop = b.select(enough, start, beyond.start() if beyond.bounds else stop)
        return self._border(start, stop, [], tested)

    # --- ways through the lanes ------------------------------------------------------------------------------------------

    def _chunks(self) -> Chunks:
        return Chunks(self.b, self.lanes, self._past_caches, self._in_parts)

    def _past_caches(self, size: int, chunk: Chunk) -> Chunk:
        """A chunk whose stores go past the caches, to addresses that are multiples of `size`."""

        def stored(i: LValue, carried: list[LValue]) -> Sequence[LValue]:
            self.ev.past_caches = size
            made = chunk(i, carried)
            self.ev.past_caches = 0
            return made

        return stored

    def _lines(self, index: Index, lane: Ix) -> Lines | None:
        """Where the store's cache lines begin; None where that should not count."""
        if self.aligned is None or self.shape[self.lane_dim] < ALIGN_FROM * self.lanes:
            return None
        ((pointer, at),) = self.aligned(index)
        pattern = lane_pattern(self.ev, pointer, at)
        if not pattern or arithmetic_step(pattern) != 1:
            return None
        element = pointee_memory(pointer)
        address = self.ev.address(pointer, replaced(at, lane, ZERO))
        if not address.uniform:
            return None
        first, level = self.ev.scalar_pointer(address, element)
        with self.ev.at(level):
            return Lines.after(self.b, first, LType(element).bits // 8, self.lanes, self.streams)

    def _border(
        self, start: LValue, stop: LValue, carried: list[LValue], tested: Chunk, beyond: LValue | None = None
    ) -> list[LValue]:
        """The lanes between two, a register of them at a time."""
        lanes = self.lanes
        with self._in_parts() as part:
            return by_parts(self.b, (start, stop), (lanes, part), carried, tested, beyond, self.repeat)

    @contextmanager
    def _in_parts(self) -> Iterator[int]:
        """Meanwhile a chunk has the lanes of a register."""
        lanes = self.lanes
        self.lanes = min(lanes, max(BORDER_LANES, self.ev.function.vector_bits // 32))
        yield self.lanes
        self.lanes = lanes


def choose_lane_dim(
    ev: Evaluator,
    shape: Sequence[int],
    roots: Callable[[Index], Iterable[Root]],
    stores: Callable[[Index], Iterable[Root]],
    allowed: Iterable[int] | None = None,
) -> int:
    """The dimension along which most accesses are consecutive; the last one where that decides nothing."""
    candidates = [dim for dim in (range(len(shape)) if allowed is None else allowed) if shape[dim] > 1]
    if len(candidates) < 2:  # nothing to choose
        return candidates[0] if candidates else -1
    best, choice = -1.0, -1
    anywhere = tuple(Ix(LValue(f"%?{d}", I64), (), 1) for d in range(len(shape)))
    walked = walk(ev, roots(anywhere), [], anywhere[0], shape[0], bounds=False)
    # Where the shape ops on the way only choose among the indices, what is reached is the same for all dimensions.
    chosen = all(ix in anywhere or ix is ZERO for _, at in (*walked.accesses, *walked.reads) for ix in at)
    for dim in candidates:
        lanes = min(shape[dim], LANES)
        lane = Ix(LValue("%?", I64), tuple(range(lanes)), 1)
        index = replaced(anywhere, anywhere[dim], lane)
        score = 0.5 * dim / len(shape)
        if not chosen:
            walked = walk(ev, roots(index), [], lane, shape[dim], bounds=False)
        known: Patterns = {}
        patterns = [
            (lane_pattern(ev, op.operands[0], replaced(at, anywhere[dim], lane), known), 1.0)
            for op, at in walked.accesses
        ]
        patterns += [(buffer_pattern(buffer, replaced(at, anywhere[dim], lane)), 0.5) for buffer, at in walked.reads]
        patterns += [(lane_pattern(ev, pointer, at, known), 2.0) for pointer, at in stores(index)]
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
        if extent > 1 and ix.pattern:
            offsets = [o + p * stride for o, p in zip(offsets, ix.pattern, strict=True)]
    return tuple(offsets) if any(offsets) else ()


def shape_index(shape: Sequence[int]) -> list[Ix]:
    return [ZERO for _ in shape]


def is_cube(shape: Sequence[int]) -> bool:
    """Whether a tile has many elements but only small extents, so that lanes must run along several dimensions."""
    return len(shape) > 1 and max(shape) < 8 and prod(shape) > max(shape)
