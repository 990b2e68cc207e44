"""Reductions and dot products, each in the one order of operations that compiled code reproduces bit for bit.

Reduction of n elements (a power of two) along the innermost axis (what follows it has extent 1), L = min(n, 32) lanes:

    acc[l] = x[l]                                 for l < L
    acc[l] = combine(acc[l], x[c * L + l])        for c = 1, 2, .. n/L - 1
    acc[i] = combine(acc[i], acc[i + h])          for i < h, for h = L/2, L/4, .. 1

Along any other axis: acc = x[0], then acc = combine(acc, x[i]) for i = 1, 2, .. n - 1. The accumulated value is always
the first operand of the region, the new one the second.

Dot product: acc = c, then acc = fma(a[:, k], b[k, :], acc) for k = 0, 1, .. K - 1, in the accumulator's type. An f16 or
bf16 accumulator is kept in f32 and rounded once at the end. Integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..ir.ops import SCHEMA
from ..ir.tile import Op, Region, walk
from . import narrow
from .registry import DTYPES, Array, Machine, Outcome, means, scalar_kind, where

LANES = 32
Tiles = tuple[Array, ...]
Combine = Callable[[Tiles, Tiles], Tiles]


def is_elementwise(region: Region) -> bool:
    """Whether a region of one block does nothing but elementwise ops, so that it can run on whole arrays."""
    if len(region.blocks) != 1:
        return False
    *work, _end = walk(region)
    return all(SCHEMA[op.name].kind == "elementwise" for op in work)


def combiner(machine: Machine, region: Region) -> Combine:
    """A combine region as a function of accumulated and new slices."""
    if is_elementwise(region):

        def whole(old: Tiles, new: Tiles) -> Tiles:
            made = machine.run_region(region, (*old, *new), free=True).values
            return tuple(np.broadcast_to(m, o.shape) for m, o in zip(made, old, strict=True))

        return whole

    def each(old: Tiles, new: Tiles) -> Tiles:
        made = tuple(np.empty_like(o) for o in old)
        for at in np.ndindex(old[0].shape):
            args = [np.asarray(v[at]) for v in (*old, *new)]
            for array, value in zip(made, machine.run_region(region, args).values, strict=True):
                array[at] = value
        return made

    return each


def reduce_last(values: Tiles, combine: Combine) -> Tiles:
    """Reduce the last axis, whose extent is a power of two, in the order of the module's docstring."""
    extent = values[0].shape[-1]
    lanes = min(extent, LANES)
    total: Tiles = tuple(v[..., :lanes] for v in values)
    for low in range(lanes, extent, lanes):
        total = combine(total, tuple(v[..., low : low + lanes] for v in values))
    half = lanes // 2
    while half:
        total = combine(tuple(t[..., :half] for t in total), tuple(t[..., half : 2 * half] for t in total))
        half //= 2
    return tuple(t[..., 0] for t in total)


def reduce_other(values: Tiles, axis: int, combine: Combine) -> Tiles:
    """Reduce any axis but the innermost, one index after another."""

    def at(index: int) -> Tiles:
        return tuple(np.take(v, index, axis) for v in values)

    total = at(0)
    for index in range(1, values[0].shape[axis]):
        total = combine(total, at(index))
    return total


@means("tt.reduce")
def reduce(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    axis: int = op.attributes["axis"]
    extent = args[0].shape[axis]
    if extent & (extent - 1):
        raise ValueError(f"tt.reduce over {extent} elements at {where(op.loc)}: the extent must be a power of two")
    combine = combiner(machine, op.regions[0])
    if all(following == 1 for following in args[0].shape[axis + 1 :]):
        rest = args[0].shape[:axis] + args[0].shape[axis + 1 :]
        rows = tuple(v.reshape(args[0].shape[: axis + 1]) for v in args)
        return [v.reshape(rest) for v in reduce_last(rows, combine)]
    return [np.asarray(v) for v in reduce_other(args, axis, combine)]


@means("tt.dot")
def dot(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    a, b, c = args
    kind = scalar_kind(op)
    if kind.is_integer:
        return [_dot_integer(a, b, c)]
    wide = "f64" if kind.kind == "f64" else "f32"
    return [narrow.narrow(dot_float(a, b, c, wide), kind.kind)]


def dot_float(a: Array, b: Array, c: Array, kind: str) -> Array:
    """a (.., M, K) times b (.., K, N) plus c in f32 or f64, by fma in increasing k. Operands are widened exactly."""
    total = c.astype(DTYPES[kind])
    left, right = a.astype(DTYPES[kind]), b.astype(DTYPES[kind])
    for k in range(a.shape[-1]):
        total = narrow.fma(left[..., :, k, None], right[..., None, k, :], total, kind)
    return total


def _dot_integer(a: Array, b: Array, c: Array) -> Array:
    return np.asarray(c + np.matmul(a.astype(c.dtype), b.astype(c.dtype)))


__all__: Sequence[str] = ["LANES", "combiner", "dot_float", "is_elementwise", "reduce_last", "reduce_other"]
