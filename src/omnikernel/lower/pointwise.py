"""map_elementwise: a function of scalars, with control flow of its own, for every few elements of tiles.

A function without control flow runs on lanes; any other element by element.
"""

from __future__ import annotations

from math import prod

from ..ir.tile import Op
from ..ir.types import Tensor, shape_of
from ..llvm.emit import I64, LValue
from .evaluate import Address, Buffer, Evaluator
from .function import FunctionLowering, statement
from .index import Index
from .lookup import in_memory
from .memory import OPEN, store_lanes
from .reduce import Combiner
from .region import inline, runs_on_lanes
from .scan import Cells


@statement("tt.map_elementwise")
def lower_map_elementwise(fl: FunctionLowering, op: Op) -> None:
    """The region takes and gives the elements of one operand (or result) after those of another."""
    pack = op.attributes.get("pack", 1)
    shape = shape_of(op.operands[0].type)
    region = op.regions[0]
    made = []
    for result in op.results:
        assert isinstance(result.type, Tensor)
        made.append(fl.buffer(shape, result.type.element))
    if pack == 1:
        fl.settle(op.operands, shape, keep=False)
        on_lanes = runs_on_lanes(fl, region)
        combiner = Combiner(fl, op)

        def step(ev: Evaluator, index: Index) -> None:
            placed = [ev.evaluate(v, index) for v in op.operands]
            lanes = max(value.lanes for value, _ in placed)
            values = [ev.spread(p, lanes) for p in placed]
            if on_lanes:
                with ev.at(ev.level):  # where what it makes may also be splatted
                    results = combiner.run(region, dict(zip(region.block.args, values, strict=True)), lanes)
            else:
                results = inline(fl, region, values)
            for buffer, value in zip(made, results, strict=True):
                address = Address(buffer.pointer, 0, ev.buffer_form(buffer, index))
                store_lanes(ev, address, (value, ev.level), OPEN, buffer.memory)

        fl.nest(shape, op.operands, step, scalar=not on_lanes)
    else:
        _packed(fl, op, pack, made)
    for result, buffer in zip(op.results, made, strict=True):
        fl.bind(result, buffer)


def _packed(fl: FunctionLowering, op: Op, pack: int, made: list[Buffer]) -> None:
    """Several neighbours at a time, from buffers."""
    b = fl.b
    taken = Cells(fl, [in_memory(fl, op, i) for i in range(len(op.operands))])
    given = Cells(fl, made)

    def step(first: LValue, _: list[LValue]) -> list[LValue]:
        places = [b.add(first, b.integer(I64, k)) for k in range(pack)]
        loaded = [taken.load(place) for place in places]
        args = [loaded[k][i] for i in range(len(op.operands)) for k in range(pack)]
        results = inline(fl, op.regions[0], args)
        for k, place in enumerate(places):
            given.store(place, results[k::pack])
        return []

    size = prod(shape_of(op.operands[0].type))
    b.loop(b.integer(I64, 0), b.integer(I64, size), pack, [], step)
    fl.cost += fl.trips * size
