"""Where in a tile a lane is: index algebra of the shape ops.

A nest gives every dimension of its shape an `Ix`. Shape ops map the index of their result to the index of their
operand, so a whole chain of them costs nothing at run time. All extents are powers of two (Triton's rule), so a
reshape only moves bits: a lane pattern stays a pattern of constants.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..ir.tile import Op, Value
from ..ir.types import Tensor, shape_of
from ..llvm.emit import I64, LValue


@dataclass(slots=True, init=False, eq=False)
class Ix:
    """The index along one dimension: `base + pattern[lane]`. Never changed.

    Attributes:
        base: an i64 scalar, the same for all lanes.
        pattern: a constant a lane; () where all lanes have the same index.
        level: the innermost loop of the nest that base depends on (0: none).
        tag: tells indices apart that are written alike in different branches.
    """

    base: LValue
    pattern: tuple[int, ...] = ()
    level: int = 0
    tag: int = 0
    _hash: int = field(init=False, repr=False)

    def __init__(self, base: LValue, pattern: tuple[int, ...] = (), level: int = 0, tag: int = 0) -> None:
        self.base, self.pattern, self.level, self.tag = base, pattern, level, tag
        # Of the pattern only two lanes are hashed, and once: it is long, and indices are looked up all the time.
        self._hash = hash((base.text, level, tag, pattern[1:2], pattern[-1:]))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Ix)
            and self._hash == other._hash
            and self.base.text == other.base.text
            and self.pattern == other.pattern
            and self.level == other.level
            and self.tag == other.tag
        )

    @property
    def uniform(self) -> bool:
        return not self.pattern


Index = tuple[Ix, ...]
ZERO = Ix(LValue("0", I64))
# Makes the i64 scalar ((base >> shift) & mask) << left at a level of the nest.
Bits = Callable[[LValue, int, int, int, int], LValue]
# Makes the sum of two i64 scalars at a level of the nest.
Add = Callable[[LValue, LValue, int], LValue]


def uniform(index: Index) -> bool:
    """All lanes are at the same place."""
    for ix in index:  # noqa: SIM110 (three times as fast as `all`)
        if ix.pattern:
            return False
    return True


def _piece(parts: Sequence[tuple[Ix, int]], low: int, extent: int, bits: Bits, add: Add) -> Ix:
    """The index of a dimension of `extent` elements, each `low` elements of the row-major order apart.

    `parts` are the other shape's indices with the distance of their elements; all distances and extents are powers
    of two, and a base has zeros where its own pattern varies.
    """
    base: LValue | None = None
    pattern: tuple[int, ...] = ()
    level = tag = 0
    for ix, distance in parts:
        if ix.base.text != "0":
            shift = (low // distance).bit_length() - 1 if low >= distance else 0
            left = (distance // low).bit_length() - 1 if distance >= low else 0
            scalar = bits(ix.base, shift, (extent - 1) >> left if left else extent - 1, left, ix.level)
            if scalar.text != "0":
                level = max(level, ix.level)
                base = scalar if base is None else add(base, scalar, level)
        tag = max(tag, ix.tag)
        if ix.pattern:
            moved = tuple((p * distance // low) & (extent - 1) for p in ix.pattern)
            if any(moved):
                pattern = moved if not pattern else tuple(a + b for a, b in zip(pattern, moved, strict=True))
                level = max(level, ix.level)
    return Ix(base or ZERO.base, pattern, level, tag)


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    return strides


def reshape_index(index: Index, shape: Sequence[int], source: Sequence[int], bits: Bits, add: Add) -> Index:
    """The index in a tile of shape `source` of what lies at `index` in its row-major reshape to `shape`."""
    parts = [(ix, d) for ix, d, extent in zip(index, _strides(shape), shape, strict=True) if extent > 1]
    return tuple(
        ZERO if extent == 1 else _piece([(ix, d) for ix, d in parts], low, extent, bits, add)
        for extent, low in zip(source, _strides(source), strict=True)
    )


def flip_index(index: Index, axis: int, bits: Bits, add: Add) -> Index:
    """The index of the other element along an axis of two."""
    ix = index[axis]
    if ix.pattern:
        flipped = replace(ix, pattern=tuple(1 - p for p in ix.pattern))  # the base is 0
    elif ix.base.text in ("0", "1"):
        flipped = replace(ix, base=LValue("1" if ix.base.text == "0" else "0", I64))
    else:
        flipped = replace(ix, base=bits(add(ix.base, LValue("1", I64), ix.level), 0, 1, 0, ix.level))
    return (*index[:axis], flipped, *index[axis + 1 :])


@functools.lru_cache(maxsize=256)
def _partners(patterns: tuple[tuple[int, ...], ...], axis: int) -> tuple[int, ...] | None:
    lanes = len(patterns[axis])
    places = list(zip(*(p or (0,) * lanes for p in patterns), strict=True))
    lane_at = {place: lane for lane, place in enumerate(places)}
    found = [lane_at.get((*place[:axis], 1 - place[axis], *place[axis + 1 :])) for place in places]
    return None if None in found else tuple(lane for lane in found if lane is not None)


def partner_lanes(index: Index, axis: int) -> tuple[int, ...] | None:
    """For every lane the one at the other element along an axis of two; None where some partner is no lane."""
    return _partners(tuple(ix.pattern for ix in index), axis) if index[axis].pattern else None


SHAPE_OPS = frozenset(
    {"tt.expand_dims", "tt.broadcast", "tt.trans", "tt.reshape", "tt.splat", "tt.unsplat", "tile.flip"}
)
_MOVING = SHAPE_OPS | {"tile.partner", "tt.join", "tt.split", "tt.cat"}


def source_index(op: Op, index: Index, bits: Bits, add: Add) -> Index:
    """The index in the operand of a shape op of what lies at `index` in its result."""
    if op.name == "tt.splat":
        return ()
    if op.name == "tt.expand_dims":
        axis = op.attributes["axis"]
        return index[:axis] + index[axis + 1 :]
    source = shape_of(op.operands[0].type)
    if op.name == "tt.broadcast":
        return tuple([ZERO if extent == 1 else ix for extent, ix in zip(source, index, strict=True)])
    if op.name == "tt.unsplat":
        return tuple(ZERO for _ in source)
    if op.name == "tt.trans":
        moved = [ZERO] * len(source)
        for result_dim, source_dim in enumerate(op.attributes["order"]):
            moved[source_dim] = index[result_dim]
        return tuple(moved)
    if op.name in ("tile.flip", "tile.partner"):
        return flip_index(index, op.attributes["axis"], bits, add)
    return reshape_index(index, shape_of(op.results[0].type), source, bits, add)


def operand_index(value: Value, operand: Value, index: Index) -> Index:
    """The index of an elementwise op's operand: that of the result, or none for a scalar."""
    return index if isinstance(operand.type, Tensor) else ()


def symbolic_bits(base: LValue, shift: int, mask: int, left: int, level: int) -> LValue:
    """`Bits` that only names the scalar: for walking a tile without emitting code."""
    return LValue(f"({base.text}>>{shift}&{mask}<<{left})", I64)


def symbolic_add(a: LValue, b: LValue, level: int) -> LValue:
    return LValue(f"({a.text}+{b.text})", I64)


def operand_indices(op: Op, result: Value, index: Index, bits: Bits, add: Add) -> list[tuple[Value, Index]]:
    """What a tile's op reads for the element of one of its results at an index."""
    if op.name not in _MOVING:
        return [(operand, index if isinstance(operand.type, Tensor) else ()) for operand in op.operands]
    if op.name in SHAPE_OPS:
        return [(op.operands[0], source_index(op, index, bits, add))]
    if op.name == "tile.partner":
        near = partner_lanes(index, op.attributes["axis"]) is not None
        return [(op.operands[0], index if near else source_index(op, index, bits, add))]
    if op.name == "tt.join":
        return [(operand, index[:-1]) for operand in op.operands]
    if op.name == "tt.split":
        side = Ix(LValue(str(op.results.index(result)), I64))
        return [(op.operands[0], (*index, side))]
    half = shape_of(op.operands[0].type)[0]
    pattern = tuple(p & (half - 1) for p in index[0].pattern)
    base = bits(index[0].base, 0, half - 1, 0, index[0].level) if index[0].base.text != "0" else ZERO.base
    within = Ix(base, pattern if any(pattern) else (), index[0].level, index[0].tag)
    return [(operand, (within, *index[1:])) for operand in op.operands]  # tt.cat
