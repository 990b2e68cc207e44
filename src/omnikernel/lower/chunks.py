"""How the lanes between two bounds are walked: by whole chunks, by chunks that begin at cache lines, part by part.

The nest says what a chunk does; nothing here knows of tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from ..llvm.emit import I64, Builder, LType, LValue
from .beyond import unchanged

# Stores are aligned to lines of this many bytes, along dimensions of at least so many chunks.
CACHE_LINE = 64
ALIGN_FROM = 16
# The fewest lanes that a border tests at once.
BORDER_LANES = 8

Carry = Callable[[list[LValue]], Sequence[LValue]]  # from what is carried into a step to what is carried on
Chunk = Callable[[LValue, list[LValue]], Sequence[LValue]]  # the same, of a chunk that begins at a lane


@dataclass(frozen=True, slots=True)
class Lines:
    """The cache lines of a store: how many lanes lie before the first that begins one, and the size in bytes.

    `past` says whether the store goes past the caches; None where it never does.
    """

    skipped: LValue
    size: int
    past: LValue | None = None

    @staticmethod
    def after(b: Builder, address: LValue, element: int, lanes: int, streams: LValue | None) -> Lines:
        """The lines of elements of so many bytes, from the address of the first.

        Args:
            b: the builder.
            address: of lane 0.
            element: bytes of an element.
            lanes: of a chunk.
            streams: whether the store goes past the caches, if its elements are aligned.
        """
        before = b.sub(b.integer(I64, 0), b.cast("ptrtoint", address, "i64"))
        size = min(CACHE_LINE, lanes * element)
        before = b.and_(before, b.integer(I64, size - 1))
        skipped = b.lshr(before, b.integer(I64, element.bit_length() - 1))
        if streams is None:
            return Lines(skipped, size)
        whole = b.icmp("eq", b.and_(before, b.integer(I64, element - 1)), b.integer(I64, 0))
        return Lines(skipped, size, b.and_(streams, whole))


@dataclass(frozen=True, slots=True)
class Chunks:
    """Walks lanes in chunks of `lanes`.

    Attributes:
        b: the builder.
        lanes: of a chunk.
        past_caches: makes a chunk of stores to whole lines of so many bytes.
        in_parts: while it lasts, chunks have fewer lanes: the number that it gives.
    """

    b: Builder
    lanes: int
    past_caches: Callable[[int, Chunk], Chunk]
    in_parts: Callable[[], AbstractContextManager[int]]

    def whole(
        self,
        start: LValue,
        stop: LValue,
        carried: Sequence[LValue],
        chunk: Chunk,
        lines: Lines | None,
        *,
        clamp: bool = False,
    ) -> list[LValue]:
        """Whole chunks between two lanes; `clamp` where these are any lanes, so that the first and last chunk are moved.

        With `lines`, the second one begins at a line, and the last one ends at `stop` again: all between are aligned, at
        the price of one chunk more. A store across two lines costs twice as much as one within.
        """
        b = self.b
        if lines is None and not clamp:
            return b.loop(start, stop, self.lanes, carried, chunk)
        none, size = b.integer(I64, 0), b.integer(I64, self.lanes)
        least = b.integer(I64, ALIGN_FROM // 2 * self.lanes)
        begin = b.and_(start, b.integer(I64, -self.lanes)) if clamp else start
        back, end = none, stop
        if lines is not None:
            enough = b.icmp("sge", stop, least)
            uneven = b.and_(enough, b.icmp("ne", lines.skipped, none))
            back = b.select(uneven, b.sub(size, lines.skipped), none)
            end = b.select(uneven, b.add(stop, size), stop)
        if lines is None or lines.past is None:
            return self._moved(chunk, self.lanes, (start, stop), (begin, end), back)
        past = b.and_(lines.past, b.icmp("sge", b.sub(stop, start), least))
        plain = partial(self._moved, chunk, self.lanes, (start, stop), (begin, end), back)
        return b.branch(past, partial(self._past, start, stop, lines, chunk), plain)

    def _moved(
        self, chunk: Chunk, lanes: int, bounds: tuple[LValue, LValue], walk: tuple[LValue, LValue], back: LValue
    ) -> list[LValue]:
        """Chunks at every `lanes` along `walk`, each moved `back`, but never out of the bounds."""
        b = self.b
        last = b.sub(bounds[1], b.integer(I64, lanes))

        def moved(i: LValue, _: list[LValue]) -> Sequence[LValue]:
            at = b.intrinsic("smin", I64, b.sub(i, back), last)
            return chunk(b.intrinsic("smax", I64, at, bounds[0]), [])

        return b.loop(*walk, lanes, [], moved)

    def _past(self, start: LValue, stop: LValue, lines: Lines, chunk: Chunk) -> list[LValue]:
        """Chunks of whole lines, and what is left at both ends in parts.

        That is a chunk or more where it is no line of its own: no plain store touches a line that went past the caches.
        """
        b = self.b
        none, size, below = b.integer(I64, 0), b.integer(I64, self.lanes), b.integer(I64, self.lanes - 1)

        def rounded(uneven: LValue) -> LValue:
            return b.select(b.icmp("eq", uneven, none), none, b.add(uneven, size))

        low = b.add(start, rounded(b.and_(b.sub(lines.skipped, start), below)))
        high = b.sub(stop, rounded(b.and_(b.sub(stop, low), below)))
        b.loop(low, high, self.lanes, [], self.past_caches(lines.size, chunk))

        def side(number: LValue, _: list[LValue]) -> list[LValue]:
            first = b.icmp("eq", number, none)
            bounds = b.select(first, start, high), b.select(first, low, stop)
            return self._moved(chunk, part, bounds, bounds, none)

        with self.in_parts() as part:
            return b.loop(none, b.integer(I64, 2), 1, [], side)


class Kept:
    """Lanes in memory, of which some can be read and written."""

    def __init__(self, b: Builder, value: LValue, purpose: str) -> None:
        self.b = b
        self.mask = value.type.scalar == "i1"
        self.scalar = "i8" if self.mask else value.type.scalar
        self.align = LType(self.scalar).bits // 8
        self.place = b.scratch(LType(self.scalar, value.lanes), purpose)

    def store(self, value: LValue, offset: LValue) -> None:
        stored = self.b.cast("zext", value, "i8") if self.mask else value
        self.b.store(stored, self.b.gep(self.scalar, self.place, offset), self.align)

    def load(self, offset: LValue, lanes: int) -> LValue:
        value = self.b.load(LType(self.scalar, lanes), self.b.gep(self.scalar, self.place, offset), self.align)
        return self.b.icmp("ne", value, self.b.zero(value.type)) if self.mask else value


def by_parts(
    b: Builder,
    bounds: tuple[LValue, LValue],
    sizes: tuple[int, int],
    carried: Sequence[LValue],
    tested: Chunk,
    beyond: LValue | None,
    repeat: Callable[[LValue], None] | None,
) -> list[LValue]:
    """The lanes between two bounds, some at a time, so that a border's code is a fraction of the rest's.

    What is carried is in memory meanwhile, each part's lanes in their places, so that the order of a sum is that of whole
    chunks.

    Args:
        b: the builder.
        bounds: the first lane, where a chunk begins, and the one after the last.
        sizes: the lanes of a chunk and of a part.
        carried: lanes of a chunk.
        tested: what a part does.
        beyond: a lane from which on all parts are alike, if there is one: the loop is left once as many of them as make a
            chunk have changed nothing, since no later one will.
        repeat: what a part that leaves does for all that follow.
    """
    lanes, part = sizes
    kept = [Kept(b, v, f"border.{number}") for number, v in enumerate(carried)]
    none, whole = b.integer(I64, 0), b.integer(I64, lanes // part)

    def one(i: LValue, counted: list[LValue]) -> list[LValue]:
        offset = b.and_(i, b.integer(I64, lanes - 1)) if kept else none
        held = [k.load(offset, part) for k in kept]
        made = tested(i, held)
        for k, value in zip(kept, made, strict=True):
            k.store(value, offset)
        if beyond is None:
            return []
        same = b.and_(b.icmp("sge", i, beyond), unchanged(b, held, made))
        return [b.select(same, b.add(counted[0], b.integer(I64, 1)), none)]

    def leave(i: LValue, _: list[LValue], counted: list[LValue]) -> LValue:
        done = b.icmp("eq", counted[0], whole)
        if repeat is not None:
            b.when(done, lambda: repeat(i))
        return done

    def parts() -> Sequence[LValue]:
        for k, value in zip(kept, carried, strict=True):
            k.store(value, none)
        inits, settled = ([], None) if beyond is None else ([none], leave)
        b.loop(*bounds, part, inits, one, settled=settled, rare=True)
        return [k.load(none, lanes) for k in kept]

    if not carried:
        return list(parts())
    return b.branch(b.icmp("slt", *bounds), parts, lambda: carried, rare=True)
