"""Regions on scalars: combine regions with effects or real control flow, and those of map_elementwise.

Most combine regions are a few elementwise ops, which `reduce.Combiner` runs on lanes. What may load, store, print, loop or
jump is lowered here instead, in place, as often as it is run.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.tile import Op, Region
from .control import lower_blocks
from .function import Frame, FunctionLowering, statement
from .lanes import ELEMENTWISE, Lanes


def runs_on_lanes(fl: FunctionLowering, region: Region) -> bool:
    """Whether a region is nothing but elementwise ops, choices between such, and calls of functions of such."""
    if len(region.blocks) != 1:
        return False
    for op in region.block.ops[:-1]:
        if op.name == "tt.call":
            if not runs_on_lanes(fl, fl.kernel.function(op.attributes["callee"]).body):
                return False
        elif op.name == "scf.if":
            if not all(runs_on_lanes(fl, inner) for inner in op.regions if inner.blocks):
                return False
        elif op.name not in ELEMENTWISE and op.name != "arith.constant":
            return False
    return True


def inline(fl: FunctionLowering, region: Region, args: Sequence[Lanes]) -> list[Lanes]:
    """Lower a region on scalars here and now; what its terminator returns.

    May be called any number of times: each call lowers a copy.
    """
    for arg, value in zip(region.blocks[0].args, args, strict=True):
        fl.bind(arg, value)
    if len(region.blocks) == 1:
        with fl.scope():
            end = fl.body(region)
        return [fl.scalar(v) for v in end.operands]
    frame = Frame(fl.b.fresh("region.end"))
    fl.frames.append(frame)
    with fl.scope():
        lower_blocks(fl, region, fl.b.fresh("region"))
    fl.frames.pop()
    fl.b.label(frame.exit)
    values = []
    for i, first in enumerate(frame.returns[0][0]):
        assert first is not None
        incoming = [(one.raw(fl.b), origin) for returned, origin in frame.returns if (one := returned[i]) is not None]
        values.append(Lanes(first.type, fl.b.phi(incoming[0][0].type, incoming)))
    return values


@statement("tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return")
def lower_region_return(fl: FunctionLowering, op: Op) -> None:
    """The end of a region of several blocks."""
    frame = fl.frames[-1]
    values = [Lanes(fl.scalar(v).type, fl.raw(v)) for v in op.operands]
    frame.returns.append((list(values), fl.b.block))
    fl.b.jump(frame.exit)
