"""Steps of a random kernel that use block pointers and tensor descriptors, in the form that Triton rewrites them to.

Each is a base, i64 offsets a dimension (a splat start plus a range), i64 strides and, per dimension, `0 <= offset < extent`
as the mask. What lies outside is padding, zero or NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from program_drawer import FLOATS, FP8, Shape, Val
from program_steps import Steps


@dataclass(frozen=True)
class View:
    """A tensor that blocks are taken from: its base, its extents and strides as i64 values, and what they are."""

    base: Val
    extents: tuple[Val, ...]
    strides: tuple[Val, ...]
    lengths: tuple[int, ...]


class Blocks(Steps):
    """Each method named by a step draws it and puts its results into the pool."""

    def size(self, value: int) -> Val:
        """An i64 from an i32 parameter, as front ends make extents and strides, or a constant."""
        if self.chance(0.6):
            return self.w.cast("arith.extsi", self.parameter("i32", value), "i64")
        return self.w.constant(value, "i64")

    def view(self, kind: str, block: Shape, *, own: bool) -> View:
        """A tensor somewhat larger or smaller than a block; one for each program, or one for all."""
        lengths = tuple(self.number(max(1, extent // 2), 2 * extent + 3) for extent in block)
        steps, span = [0] * len(block), 1 if self.chance(0.9) else 2
        for axis in reversed(range(len(block))):
            steps[axis] = span
            span = span * lengths[axis] + (self.number(0, 4) if self.chance(0.3) else 0)
        base = self.array(kind, span * (self.programs if own else 1))
        if own:
            base = self.w.addptr(base, self.program_base(span))
        return View(base, tuple(map(self.size, lengths)), tuple(map(self.size, steps)), lengths)

    def start(self, length: int) -> Val:
        """Where a block begins: inside, before or past the tensor; a constant, a parameter or computed."""
        if self.chance(0.5):
            value = self.number(-3, length + 1)
            scalar = self.parameter("i32", value) if self.chance(0.5) else self.w.constant(value, "i32")
        else:
            scalar = self.w.binary("arith.andi", self.coerce(self.any_value(), "i32", ()), self.w.constant(7, "i32"))
        return self.w.cast("arith.extsi", scalar, "i64")

    def along(self, part: Val, axis: int, rank: int) -> Val:
        """A 1-d tile along one axis, with extents of 1 for the others."""
        for other in range(rank):
            if other != axis:
                part = self.w.expand(part, other)
        return part

    def offsets(self, block: Shape, starts: Sequence[Val]) -> list[Val]:
        """For each axis the i64 offsets of a block."""
        made = []
        for axis, (extent, start) in enumerate(zip(block, starts, strict=True)):
            lane = self.w.cast("arith.extsi", self.w.make_range(extent), "i64")
            made.append(self.along(self.w.binary("arith.addi", self.w.splat(start, (extent,)), lane), axis, len(block)))
        return made

    def place(self, view: View, block: Shape, offsets: Sequence[Val], checked: Sequence[int]) -> tuple[Val, Val | None]:
        """Pointers and mask of a block."""
        total: Val | None = None
        mask: Val | None = None
        for axis, at in enumerate(offsets):
            step = self.w.splat(view.strides[axis], at.shape)
            part = self.w.broadcast(self.w.binary("arith.muli", at, step), block)
            total = part if total is None else self.w.binary("arith.addi", total, part)
            if axis in checked:
                low = self.w.binary("arith.cmpi", at, self.w.constant(0, "i64", at.shape), "sge", "i1")
                high = self.w.binary("arith.cmpi", at, self.w.splat(view.extents[axis], at.shape), "slt", "i1")
                inside = self.w.broadcast(self.w.binary("arith.andi", low, high), block)
                mask = inside if mask is None else self.w.binary("arith.andi", mask, inside)
        assert total is not None
        return self.w.addptr(self.w.splat(view.base, block), total), mask

    def padding(self, kind: str, block: Shape) -> Val | None:
        if kind in FP8 or self.chance(0.3):
            return None
        nan = kind in FLOATS and self.chance(0.4)
        return self.w.constant(float("nan") if nan else 0, kind, block)

    def block_load(self) -> None:
        kind, block = self.kind(), self.shape()
        view = self.view(kind, block, own=self.chance(0.5))
        starts = [self.start(length) for length in view.lengths]
        pointers, mask = self.place(view, block, self.offsets(block, starts), range(len(block)))
        self.pool.append(self.w.load(pointers, mask, self.padding(kind, block)))

    def block_store(self) -> None:
        """Into a tensor of the program's own, or added to what is there."""
        value = self.any_value()
        if value.kind == "i1":
            value = self.w.cast("arith.extui", value, "i8")
        if not value.shape:
            value = self.w.splat(value, self.shape())
        view = self.view(value.kind, value.shape, own=True)
        starts = [self.start(length) for length in view.lengths]
        offsets = self.offsets(value.shape, starts)
        pointers, mask = self.place(view, value.shape, offsets, range(len(value.shape)))
        assert mask is not None
        if value.kind in ("i32", "i64", "f32", "f64") and self.chance(0.3):
            how = "fadd" if value.kind in FLOATS else self.choice(["add", "max", "umin"])
            types = f"({pointers.type}, {value.type}, {mask.type}) -> {value.type}"
            text = f"tt.atomic_rmw {how}, release, gpu, {pointers.name}, {value.name}, {mask.name} : {types}"
            self.w.op(value.kind, value.shape, text)
        else:
            self.w.store(pointers, value, mask)

    def block_loop(self) -> None:
        """A block that a loop moves along one axis, summed; the loop carries where it begins, or computes it."""
        kind, block = self.choice(["f32", "f16", "i32", "i8", "f64"]), self.shape()
        view = self.view(kind, block, own=self.chance(0.5))
        axis, carried = self.number(0, len(block) - 1), self.chance(0.5)
        starts = [self.start(length) for length in view.lengths]
        zero = self.w.constant(0, kind, block)
        advance = self.number(1, 2 * block[axis])
        low, high, one = (self.w.constant(v, "i32") for v in (0, self.number(0, 4), 1))
        inits = [zero, *([starts[axis]] if carried else [])]
        head, made = self.w.results([(v.kind, v.shape) for v in inits])
        index, args = Val(self.w.name(), "i32"), [Val(self.w.name(), v.kind, v.shape) for v in inits]
        binds = ", ".join(f"{a.name} = {v.name}" for a, v in zip(args, inits, strict=True))
        types = ", ".join(v.type for v in inits)
        self.w.line(
            f"{head} = scf.for {index.name} = {low.name} to {high.name} step {one.name} iter_args({binds}) -> ({types})  : i32 {{"
        )
        with self.w.inside():
            step = self.w.constant(advance, "i64")
            moved = self.w.binary("arith.muli", self.w.cast("arith.extsi", index, "i64"), step)
            starts[axis] = args[1] if carried else self.w.binary("arith.addi", starts[axis], moved)
            pointers, mask = self.place(view, block, self.offsets(block, starts), range(len(block)))
            value = self.w.load(pointers, mask, self.padding(kind, block))
            total = self.w.binary("arith.addf" if kind in FLOATS else "arith.addi", args[0], value)
            following = [total, *([self.w.binary("arith.addi", args[1], step)] if carried else [])]
            self.w.line(f"scf.yield {', '.join(v.name for v in following)} : {types}")
        self.w.line("}")
        self.pool.append(made[0])

    def row_gather(self) -> None:
        """Rows found by indices that may lie outside, as descriptors gather and scatter them."""
        kind, rows, columns = self.kind(), 1 << self.number(0, 5), 1 << self.number(0, 5)
        block = (rows, columns)
        view = self.view(kind, block, own=False)
        at = self.coerce(self.any_value(), "i32", (rows,))
        at = self.w.binary("arith.remsi", at, self.w.constant(view.lengths[0] + 2, "i32", at.shape))
        row = self.w.cast("arith.extsi", self.w.expand(at, 1), "i64")
        column = self.offsets(block, [self.w.constant(0, "i64"), self.start(view.lengths[1])])[1]
        pointers, mask = self.place(view, block, [row, column], (0, 1))
        self.pool.append(self.w.load(pointers, mask, self.padding(kind, block)))
