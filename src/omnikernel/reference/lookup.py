"""Gather and histogram: elements found by the bits of others, read as unsigned numbers."""

from __future__ import annotations

import numpy as np

from ..ir.tile import Op
from ..ir.types import shape_of
from .registry import Array, Machine, Outcome, bits_of, dtype_of, means


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
