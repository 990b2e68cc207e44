"""Whether the elements of a tile of pointers are known to point to different places.

In: a pointer tile and the ops behind it. Out: yes, or not known. A tile that is loaded from and stored to through such
pointers may be read and written element by element; where two elements share a place, every load must come before any
store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..ir.tile import Op, Value
from ..ir.types import Scalar, element_of, shape_of

Strides = tuple[int, ...]  # elements from one index to the next, a dimension


def is_injective(pointers: Value, made_by: Mapping[Value, Op]) -> bool:
    """No two elements point to the same place, whatever the arguments."""
    strides = _Finder(made_by).strides(pointers)
    if strides is None:
        return False
    reach = 1  # elements between the lowest and the highest place so far, and one more
    for stride, extent in sorted((abs(s), e) for s, e in zip(strides, shape_of(pointers.type), strict=True) if e > 1):
        if stride < reach:
            return False
        reach += stride * (extent - 1)
    return True


@dataclass(frozen=True, slots=True)
class _Finder:
    made_by: Mapping[Value, Op]
    known: dict[Value, Strides | None] = field(default_factory=dict)

    def strides(self, value: Value) -> Strides | None:
        """How far a tile of integers or pointers moves along each dimension; None where that is not one constant."""
        if value not in self.known:
            self.known[value] = self._find(value)
        return self.known[value]

    def _find(self, value: Value) -> Strides | None:
        shape = shape_of(value.type)
        if not shape:
            return ()
        op = self.made_by.get(value)
        if op is None:
            return None
        if op.name == "tt.splat" or (op.name == "arith.constant" and op.attributes["value"].is_splat):
            return (0,) * len(shape)
        if op.name == "tt.make_range":
            return (1,)
        if op.name in ("tt.addptr", "arith.addi", "arith.subi"):
            left, right = (self.strides(v) for v in op.operands)
            if left is None or right is None:
                return None
            sign = -1 if op.name == "arith.subi" else 1
            return tuple(a + sign * b for a, b in zip(left, right, strict=True))
        if op.name == "arith.muli":
            return self._product(op)
        if op.name in ("arith.extsi", "tt.expand_dims", "tt.broadcast", "tt.trans"):
            source = self.strides(op.operands[0])
            return source and _moved(op, source)
        return None

    def _product(self, op: Op) -> Strides | None:
        for tile, factor in (op.operands, op.operands[::-1]):
            by = _constant(factor, self.made_by)
            strides = self.strides(tile)
            if by is not None and strides is not None:
                return tuple(s * by for s in strides)
        return None


def _moved(op: Op, source: Strides) -> Strides:
    """The strides of the result of a shape op (or a sign extension)."""
    if op.name == "tt.expand_dims":
        axis = op.attributes["axis"]
        return (*source[:axis], 0, *source[axis:])
    if op.name == "tt.trans":
        return tuple(source[d] for d in op.attributes["order"])
    if op.name == "tt.broadcast":
        extents = shape_of(op.operands[0].type)
        return tuple(0 if extent == 1 else s for s, extent in zip(source, extents, strict=True))
    return source


def _constant(value: Value, made_by: Mapping[Value, Op]) -> int | None:
    """The one number of a constant tile or scalar."""
    op = made_by.get(value)
    while op is not None and op.name in ("tt.splat", "tt.broadcast", "tt.expand_dims"):
        op = made_by.get(op.operands[0])
    element = element_of(value.type)
    if op is None or op.name != "arith.constant" or not op.attributes["value"].is_splat:
        return None
    return int(op.attributes["value"].integers()[0]) if isinstance(element, Scalar) and element.is_integer else None
