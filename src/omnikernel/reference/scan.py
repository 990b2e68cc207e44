"""Scans and map_elementwise.

A scan goes along its axis one element after the other, from the end where it is reversed; the earlier, accumulated
value is the region's first operand.
"""

from __future__ import annotations

import numpy as np

from ..ir.tile import Op
from .reduce import combiner, is_elementwise
from .registry import Array, Machine, Outcome, dtype_of, means


@means("tt.scan")
def scan(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    axis: int = op.attributes["axis"]
    combine = combiner(machine, op.regions[0])
    order = range(args[0].shape[axis])
    if op.attributes.get("reverse"):
        order = order[::-1]
    made = [np.array(arg) for arg in args]
    lines = [np.moveaxis(m, axis, 0) for m in made]
    before = tuple(np.array(line[order[0]]) for line in lines)
    for at in order[1:]:
        before = combine(before, tuple(np.asarray(line[at]) for line in lines))
        for line, value in zip(lines, before, strict=True):
            line[at] = value
    return made


@means("tt.map_elementwise")
def map_elementwise(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """The region takes and gives `pack` neighbours of one operand (or result) after those of another."""
    pack: int = op.attributes.get("pack", 1)
    region = op.regions[0]
    shape = args[0].shape
    groups = [np.ravel(arg).reshape(-1, pack) for arg in args]
    made = [np.empty(groups[0].shape, dtype_of(result.type)) for result in op.results]
    if is_elementwise(region):
        columns = [np.asarray(group[:, k]) for group in groups for k in range(pack)]
        for i, value in enumerate(machine.run_region(region, columns, free=True).values):
            made[i // pack][:, i % pack] = value
    else:
        for row in range(len(groups[0])):
            cells = [np.asarray(group[row, k]) for group in groups for k in range(pack)]
            for i, value in enumerate(machine.run_region(region, cells).values):
                made[i // pack][row, i % pack] = value
    return [m.reshape(shape) for m in made]
