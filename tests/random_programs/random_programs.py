"""`draw(seed)`: a whole random kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from program_blocks import Blocks
from program_control import Control
from program_drawer import Program
from program_functions import Functions
from program_products import Products
from program_regions import Regions
from program_steps import Steps

WEIGHTS: dict[Callable[..., None], float] = {
    Steps.arithmetic: 14,
    Steps.float_chain: 4,
    Steps.fma: 1.5,
    Steps.unary: 4,
    Steps.compare: 3,
    Steps.select: 3,
    Steps.clamp: 0.7,
    Steps.cast: 4,
    Steps.bitcast: 1,
    Steps.mulhi: 0.5,
    Steps.move: 4,
    Steps.load: 4,
    Steps.store: 1,
    Steps.gather: 1,
    Steps.reduction: 3,
    Steps.arg_reduction: 1,
    Steps.scan: 1,
    Steps.join_or_split: 1,
    Steps.lookup: 0.8,
    Products.dot: 0.8,
    Products.scaled_dot: 0.3,
    Steps.atomic: 0.7,
    Steps.float_atomic: 0.4,
    Steps.compare_and_swap: 0.3,
    Steps.scalar_load: 1,
    Steps.branching_reduction: 0.4,
    Steps.extended: 0.5,
    Functions.function: 1.5,
    Functions.library_function: 1,
    Functions.precise: 0.5,
    Functions.rounding: 0.5,
    Blocks.block_load: 1.2,
    Blocks.block_store: 0.6,
    Blocks.block_loop: 0.6,
    Blocks.row_gather: 0.5,
    Regions.map_elementwise: 0.6,
    Regions.moments: 0.5,
    Regions.tile_call: 0.5,
    Control.for_loop: 2,
    Control.pointer_loop: 0.7,
    Control.if_else: 1.2,
    Control.if_only: 0.7,
    Control.while_loop: 0.7,
    Control.call: 0.5,
}


class Kernels(Control, Functions, Blocks, Regions, Products):
    """Draws steps by their weights."""

    def step(self) -> None:
        names, weights = zip(*WEIGHTS.items(), strict=True)
        chosen = self.rng.choice(len(names), p=np.array(weights) / sum(weights))
        names[chosen](self)


def is_disjoint(seed: int) -> bool:
    """Whether no two arguments of the program of a seed share memory, as code for disjoint arrays wants it."""
    return seed % 2 == 0


def draw(seed: int) -> Program:
    """The program of a seed."""
    d = Kernels(np.random.default_rng(seed))
    d.overlap = not is_disjoint(seed) and d.chance(0.6)
    grid = (d.number(1, 4), d.number(1, 2), 1) if d.chance(0.8) else (2, 1, 2)
    d.programs = int(np.prod(grid))
    d.budget = d.number(3, 22)
    early_return(d, grid)
    d.pool.append(d.pid)  # type: ignore[arg-type]
    if d.chance(0.5):
        d.pool.append(d.parameter("f32", float(np.float32(d.rng.normal()))))
    if d.chance(0.3):
        d.pool.append(d.parameter("i64", d.number(-(2**40), 2**40)))
    for _ in range(d.number(1, 3)):
        d.pool.append(d.load_tile())
    d.steps(d.budget)
    latest = d.pool[-3:]
    for value in latest if d.chance(0.3) else [d.pool[-1], d.any_value()]:
        d.store_tile(value)
    d.w.line("tt.return")
    params = ", ".join(f"{p.name}: {p.type}" for p in d.parameters)
    head = f"  tt.func public @kernel({params}) attributes {{noinline = false}} {{"
    text = "\n".join(["module {", head, *d.w.lines, "  }", *d.helpers, "}", ""])
    return Program(seed, text, d.arguments, grid)


def early_return(d: Control, grid: tuple[int, int, int]) -> None:
    """The linear program number, sometimes with a return before the work for some programs."""
    axes = [d.w.op("i32", (), f"tt.get_program_id {axis} : i32") for axis in "xyz"]
    counts = [d.w.op("i32", (), f"tt.get_num_programs {axis} : i32") for axis in "xy"]
    row = d.w.binary("arith.addi", d.w.binary("arith.muli", axes[2], counts[1]), axes[1])
    d.pid = d.w.binary("arith.addi", d.w.binary("arith.muli", row, counts[0]), axes[0])
    if not d.chance(0.12):
        return
    inside = d.w.binary("arith.cmpi", d.pid, d.w.constant(d.number(0, d.programs), "i32"), "slt", "i1")
    d.w.line(f"cf.cond_br {inside.name}, ^bb1, ^bb2")
    d.w.lines.append("  ^bb2:  // pred: ^bb0")
    d.w.line("tt.return")
    d.w.lines.append("  ^bb1:  // pred: ^bb0")
