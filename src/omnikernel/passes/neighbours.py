"""Which stores share a nest: neighbouring ones of one shape that cannot see each other.

In: a block and its pointer roots. Out: groups of stores. A group runs chunk by chunk, each store in turn, so what they have
in common (loads, masks, expressions) is computed once a chunk. That is unobservable where no two of them may write the
same byte, nothing between them reads what one has written, and no load of the function reads what a later one writes: the
next chunk of an earlier store would find it changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir.ops import SCHEMA
from ..ir.tile import Block, Op, Value
from ..ir.types import Tensor, shape_of
from .alias import Roots


def _tile_store(op: Op) -> bool:
    return op.name == "tt.store" and isinstance(op.operands[0].type, Tensor)


def _group(block: Block, start: int, roots: Roots, loads: Sequence[Value]) -> tuple[Op, ...]:
    """The stores from `start` on that can share its nest."""
    first = block.ops[start]
    stores = [first]
    for op in block.ops[start + 1 :]:
        if _tile_store(op):
            pointer = op.operands[0]
            same = shape_of(pointer.type) == shape_of(first.operands[0].type)
            if not same or _meets(pointer, stores, roots) or any(roots.may_alias(pointer, load) for load in loads):
                break
            stores.append(op)
        elif op.name == "tt.load":
            if not isinstance(op.operands[0].type, Tensor) or _meets(op.operands[0], stores, roots):
                break
        elif op.name not in SCHEMA or not SCHEMA[op.name].pure:
            break
    return tuple(stores)


def _meets(pointer: Value, stores: list[Op], roots: Roots) -> bool:
    return any(roots.may_alias(pointer, store.operands[0]) for store in stores)


def store_groups(block: Block, roots: Roots, loads: Sequence[Value]) -> Iterator[tuple[Op, ...]]:
    """Groups of two or more stores of one block, in order; `loads` are the pointers that the function loads from."""
    at = 0
    while at < len(block.ops):
        group = _group(block, at, roots, loads) if _tile_store(block.ops[at]) else ()
        if len(group) > 1:
            yield group
            at = block.ops.index(group[-1])
        at += 1
