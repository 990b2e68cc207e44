"""Gather, histogram, sorting networks: elements found by the bits of others, or by their place."""

from __future__ import annotations

import numpy as np

from ..ir.network import combination, comparison, steps_of
from ..ir.tile import Op
from ..ir.types import shape_of
from .registry import MEANS, Array, Jump, Leave, Machine, Outcome, bits_of, dtype_of, means


@means("tt.gather")
def gather(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """An index past the end reads the last element."""
    source, indices = args
    axis: int = op.attributes["axis"]
    clamped = np.minimum(bits_of(indices).astype(np.uint64), np.uint64(source.shape[axis] - 1)).astype(np.int64)
    places: list[Array] = list(np.indices(clamped.shape, sparse=True))
    places[axis] = clamped
    return [source[tuple(places)]]


@means("tt.histogram")
def histogram(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """Neither masked-off elements nor those that are no bin's number count."""
    values, *mask = args
    (bins,) = shape_of(op.result.type)
    wide = np.ravel(bits_of(values)).astype(np.uint64)
    counted = wide < bins
    if mask:
        counted &= np.ravel(mask[0])
    counts = np.bincount(wide[counted].astype(np.int64), minlength=bins)
    return [counts.astype(dtype_of(op.result.type))]


@means("tile.network")
def network(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """Compare-and-swaps of partners, and halvings, one step after the other."""
    x = np.ravel(args[0])
    compare = comparison(op)
    for step in steps_of(op):
        if step.halves:
            pairs = x.reshape(-1, 2, 1 << step.bit)
            x = np.ravel(_apply(machine, combination(op), pairs[:, 0], pairs[:, 1]))
            continue
        place = np.arange(x.size)
        other = x[place ^ (1 << step.bit)]
        greater = _apply(machine, compare, x, other)
        right = np.bitwise_count(place & step.side) % 2 != step.turned
        x = np.where(greater == right, x, other)
    return [x]


def _apply(machine: Machine, op: Op, *args: Array) -> Array:
    outcome = MEANS[op.name](machine, op, args)
    assert not isinstance(outcome, Leave | Jump)
    return outcome[0]
