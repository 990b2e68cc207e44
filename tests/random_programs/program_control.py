"""Steps of a random kernel with a body of steps: loops, branches, calls."""

from __future__ import annotations

from collections.abc import Sequence

from program_drawer import COMPARE_INT, FP8, Val
from program_steps import Steps


class Control(Steps):
    """Each method named by a step draws it and puts its results into the pool."""

    def carried(self) -> list[Val]:
        chosen = [self.any_value() for _ in range(self.number(1, 3))]
        return [
            self.convert(v, "i8") if v.kind == "i1" else self.convert(v, "f32") if v.kind in FP8 else v for v in chosen
        ]

    def yielded(self, like: Sequence[Val]) -> None:
        values = [self.coerce(self.any_value(), v.kind, v.shape) for v in like]
        self.w.line(f"scf.yield {', '.join(v.name for v in values)} : {', '.join(v.type for v in values)}")

    def small_count(self) -> Val:
        """A number of trips from 0 to 5: a constant, a parameter, or computed."""
        if self.chance(0.3):
            return self.w.constant(self.number(0, 5), "i32")
        if self.chance(0.5):
            return self.parameter("i32", self.number(0, 5))
        scalar = self.coerce(self.any_value(), "i32", ())
        return self.w.binary("arith.andi", scalar, self.w.constant(3, "i32"))

    def for_loop(self) -> None:
        inits = self.carried()
        low, step = self.w.constant(self.number(-1, 1), "i32"), self.w.constant(self.number(1, 2), "i32")
        high = self.small_count()
        head, made = self.w.results([(v.kind, v.shape) for v in inits])
        index, args = Val(self.w.name(), "i32"), [Val(self.w.name(), v.kind, v.shape) for v in inits]
        binds = ", ".join(f"{a.name} = {v.name}" for a, v in zip(args, inits, strict=True))
        types = ", ".join(v.type for v in inits)
        self.w.line(
            f"{head} = scf.for {index.name} = {low.name} to {high.name} step {step.name} iter_args({binds}) -> ({types})  : i32 {{"
        )
        outer = list(self.pool)
        self.pool += [index, *args]
        with self.w.inside():
            if self.chance(0.4):
                self.load_by_index(index)
            self.steps(self.number(1, 4))
            self.yielded(inits)
        self.w.line("}")
        self.pool = [*outer, *made]

    def load_by_index(self, index: Val) -> None:
        """A tile that moves with the loop; the index is -1 .. 5."""
        kind, shape = self.kind(), self.shape()
        offsets, bound = self.index(shape)
        base = self.array(kind, 7 * bound)
        start = self.w.binary(
            "arith.muli", self.w.binary("arith.addi", index, self.w.constant(1, "i32")), self.w.constant(bound, "i32")
        )
        self.pool.append(self.w.load(self.tile_pointers(base, offsets, start)))

    def pointer_loop(self) -> None:
        """A loop that carries a tile of pointers and a sum."""
        kind, shape = self.choice(["f32", "f16", "i32"]), self.shape()
        offsets, bound = self.index(shape)
        trips = self.number(0, 5)
        base = self.array(kind, 7 * bound)
        start = self.w.addptr(self.w.splat(base, shape), offsets)
        zero = self.w.constant(0, kind, shape)
        low, high, one = (self.w.constant(v, "i32") for v in (0, trips, 1))
        advance = self.w.constant(bound, "i32", shape)
        head, made = self.w.results([(start.kind, shape), (kind, shape)])
        index, at, total = (
            Val(self.w.name(), "i32"),
            Val(self.w.name(), start.kind, shape),
            Val(self.w.name(), kind, shape),
        )
        self.w.line(
            f"{head} = scf.for {index.name} = {low.name} to {high.name} step {one.name} "
            f"iter_args({at.name} = {start.name}, {total.name} = {zero.name}) -> ({at.type}, {total.type})  : i32 {{"
        )
        with self.w.inside():
            value = self.w.load(at)
            more = self.w.binary("arith.addi" if kind == "i32" else "arith.addf", total, value)
            following = self.w.addptr(at, advance)
            self.w.line(f"scf.yield {following.name}, {more.name} : {at.type}, {more.type}")
        self.w.line("}")
        self.pool.append(made[1])

    def if_else(self) -> None:
        condition = self.coerce(self.any_value(), "i1", ())
        like = self.carried()
        head, made = self.w.results([(v.kind, v.shape) for v in like])
        self.w.line(f"{head} = scf.if {condition.name} -> ({', '.join(v.type for v in like)}) {{")
        for closing in ("} else {", "}"):
            outer = list(self.pool)
            with self.w.inside():
                self.steps(self.number(0, 3))
                if self.chance(0.15):
                    self.store_tile(self.any_value())
                self.yielded(like)
            self.w.line(closing)
            self.pool = outer
        self.pool += made

    def if_only(self) -> None:
        """Without results: its effect is a store."""
        condition = self.coerce(self.any_value(), "i1", ())
        self.w.line(f"scf.if {condition.name} {{")
        outer = list(self.pool)
        with self.w.inside():
            self.steps(self.number(0, 2))
            self.store_tile(self.any_value())
        self.w.line("}")
        self.pool = outer

    def while_loop(self) -> None:
        """Halves a counter until it is 0."""
        value = self.carried()[:1]
        count = self.small_count()
        types = ", ".join(["i32", *(v.type for v in value)])
        head, made = self.w.results([("i32", ()), *((v.kind, v.shape) for v in value)])
        names = [Val(self.w.name(), v.kind, v.shape) for v in (count, *value)]
        binds = ", ".join(f"{n.name} = {v.name}" for n, v in zip(names, (count, *value), strict=True))
        self.w.line(f"{head} = scf.while ({binds}) : ({types}) -> ({types}) {{")
        with self.w.inside():
            more = self.w.binary("arith.cmpi", names[0], self.w.constant(0, "i32"), "sgt", "i1")
            self.w.line(f"scf.condition({more.name}) {', '.join(n.name for n in names)} : {types}")
        self.w.line("} do {")
        args = [Val(self.w.name(), v.kind, v.shape) for v in names]
        self.w.line(f"^bb0({', '.join(f'{a.name}: {a.type}' for a in args)}):")
        outer = list(self.pool)
        self.pool += args
        with self.w.inside():
            self.steps(self.number(0, 3))
            half = self.w.binary("arith.shrsi", args[0], self.w.constant(1, "i32"))
            following = [half, *(self.coerce(self.any_value(), v.kind, v.shape) for v in value)]
            self.w.line(f"scf.yield {', '.join(v.name for v in following)} : {types}")
        self.w.line("}")
        self.pool = [*outer, *made]

    def call(self) -> None:
        """A function that was not inlined: scalars in, two scalars out, with a branch inside."""
        name = f"helper{len(self.helpers)}"
        integer, real = self.coerce(self.any_value(), "i32", ()), self.coerce(self.any_value(), "f32", ())
        self.helpers.append(
            HELPER.format(name=name, predicate=self.choice(COMPARE_INT), op=self.choice(["addf", "mulf", "minnumf"]))
        )
        head, made = self.w.results([("f32", ()), ("i32", ())])
        self.w.line(f"{head} = tt.call @{name}({integer.name}, {real.name}) : (i32, f32) -> (f32, i32)")
        self.pool += made


HELPER = """\
  tt.func private @{name}(%n: i32, %x: f32) -> (f32, i32) attributes {{noinline = true}} {{
    %zero = arith.constant 0 : i32
    %half = arith.constant 5.000000e-01 : f32
    %0 = arith.cmpi {predicate}, %n, %zero : i32
    cf.cond_br %0, ^bb1, ^bb2
  ^bb1:  // pred: ^bb0
    %1 = arith.{op} %x, %half : f32
    tt.return %1, %zero : f32, i32
  ^bb2:  // pred: ^bb0
    %2 = arith.muli %n, %n : i32
    tt.return %x, %2 : f32, i32
  }}"""
