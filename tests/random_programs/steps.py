"""The steps of a random kernel: one op, or one structured op with a body of steps. And `draw`, which strings them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from generator import (
    BITS,
    BOOL_OPS,
    COMPARE_FLOAT,
    COMPARE_INT,
    FLOAT_OPS,
    FLOATS,
    FP8,
    INT_OPS,
    INTEGERS,
    MAX_TILE,
    Drawer,
    Program,
    Shape,
    Val,
    type_text,
)


class Steps(Drawer):
    """Each method named by a step draws it and puts its results into the pool."""

    def step(self) -> None:
        names, weights = zip(*WEIGHTS.items(), strict=True)
        chosen = self.rng.choice(len(names), p=np.array(weights) / sum(weights))
        names[chosen](self)

    def steps(self, count: int) -> None:
        for _ in range(count):
            if self.budget > 0:
                self.budget -= 1
                self.step()

    # --- elementwise ---------------------------------------------------------------------------------------------------

    def pair(self, kinds: Sequence[str]) -> tuple[Val, Val]:
        """Two values of one type."""
        a = self.any_value(kinds)
        b = self.any_value(kinds)
        if not a.shape:
            a, b = b, a
        return a, self.coerce(b, a.kind, a.shape)

    def arithmetic(self) -> None:
        a, b = self.pair((*INTEGERS, *FLOATS, "i1"))
        ops = BOOL_OPS if a.kind == "i1" else INT_OPS if a.kind in INTEGERS else FLOAT_OPS
        self.pool.append(self.w.binary(f"arith.{self.choice(ops)}", a, b))

    def float_chain(self) -> None:
        """A multiply that feeds an add: what fusing may contract."""
        a, b = self.pair(FLOATS)
        product = self.w.binary("arith.mulf", a, b)
        c = self.coerce(self.any_value(FLOATS), a.kind, a.shape)
        operands = (product, c) if self.chance(0.5) else (c, product)
        self.pool.append(self.w.binary(f"arith.{self.choice(['addf', 'subf'])}", *operands))

    def fma(self) -> None:
        a, b = self.pair(FLOATS)
        c = self.coerce(self.any_value(FLOATS), a.kind, a.shape)
        self.pool.append(self.w.op(a.kind, a.shape, f"math.fma {a.name}, {b.name}, {c.name} : {a.type}"))

    def unary(self) -> None:
        a = self.any_value((*FLOATS, "f32", *INTEGERS))
        if a.kind in INTEGERS:
            self.pool.append(self.w.unary("math.absi", a))
            return
        self.pool.append(
            self.w.unary(self.choice(["arith.negf", "math.absf", "math.floor", "math.ceil", "math.sqrt"]), a)
        )

    def compare(self) -> None:
        a, b = self.pair((*INTEGERS, *FLOATS))
        integer = a.kind in INTEGERS
        predicate = self.choice(COMPARE_INT if integer else COMPARE_FLOAT)
        self.pool.append(self.w.binary("arith.cmpi" if integer else "arith.cmpf", a, b, predicate, "i1"))

    def select(self) -> None:
        a, b = self.pair((*INTEGERS, *FLOATS))
        condition = self.coerce(self.any_value(), "i1", () if self.chance(0.2) else a.shape)
        if a.shape and not condition.shape:
            condition = self.w.splat(condition, a.shape)
        self.pool.append(self.w.select(condition, a, b))

    def clamp(self) -> None:
        a = self.any_value(FLOATS)
        low, high = sorted([self.choice([-2.0, -0.5, 0.0]), self.choice([0.5, 1.0, 8.0])])
        names = [a.name, *(self.w.constant(v, a.kind, a.shape).name for v in (low, high))]
        mode = self.choice(["none", "all"])
        self.pool.append(self.w.op(a.kind, a.shape, f"tt.clampf {', '.join(names)}, propagateNan = {mode} : {a.type}"))

    def cast(self) -> None:
        kinds = (*INTEGERS, *FLOATS, "i1", *(FP8 if self.chance(0.2) else ()))
        self.pool.append(self.convert(self.any_value(), self.choice(kinds)))

    def bitcast(self) -> None:
        """From floats only where no NaN is left: its bits are not defined."""
        a = self.any_value((*INTEGERS, *FLOATS))
        targets = [k for k in (*INTEGERS, *FLOATS) if BITS[k] == BITS[a.kind] and k != a.kind]
        if not targets:
            return
        if a.kind in FLOATS:
            ordered = self.w.binary("arith.cmpf", a, a, "ord", "i1")
            a = self.w.select(ordered, a, self.w.constant(0.0, a.kind, a.shape))
        self.pool.append(self.w.cast("arith.bitcast", a, self.choice(targets)))

    def mulhi(self) -> None:
        a, b = self.pair(("i32", "i64"))
        self.pool.append(self.w.binary("tt.mulhiui", a, b))

    # --- shape, memory, reductions ---------------------------------------------------------------------------------------

    def move(self) -> None:
        a = self.any_value()
        if len(a.shape) == 2 and self.chance(0.6):
            shape = (a.shape[1], a.shape[0])
            self.pool.append(self.w.reshaped("tt.trans", a, shape, " {order = array<i32: 1, 0>}"))
        elif not a.shape:
            self.pool.append(self.w.splat(a, self.shape()))
        elif len(a.shape) == 1 and self.chance(0.5):
            axis, extent = self.number(0, 1), 1 << self.number(0, 4)
            wide = self.w.expand(a, axis)
            shape = (extent, a.shape[0]) if axis == 0 else (a.shape[0], extent)
            if int(np.prod(shape)) <= MAX_TILE:
                self.pool.append(self.w.broadcast(wide, shape))
        else:
            size = int(np.prod(a.shape))
            rows = 1 << self.number(0, size.bit_length() - 1)
            shape = (rows, size // rows) if self.chance(0.6) else (size,)
            self.pool.append(self.w.reshaped("tt.reshape", a, shape))

    def load(self) -> None:
        self.pool.append(self.load_tile())

    def gather(self) -> None:
        self.pool.append(self.gather_tile())

    def reduction(self) -> None:
        tiles = [v for v in self.pool if v.shape]
        if tiles:
            self.pool.append(self.reduce(self.choice(tiles[-4:])))

    def arg_reduction(self) -> None:
        """Value and index, by the region that front ends write."""
        tiles = [v for v in self.pool if v.shape and v.kind in ("f32", "i32", "f16", "bf16")]
        if not tiles:
            return
        value = self.choice(tiles)
        axis = self.number(0, len(value.shape) - 1)
        index = self.fit_range(value.shape, axis)
        rest = value.shape[:axis] + value.shape[axis + 1 :]
        head, made = self.w.results([(value.kind, rest), ("i32", rest)])
        a, i, b, j = (Val(self.w.name(), k) for k in (value.kind, "i32", value.kind, "i32"))
        self.w.line(f'{head} = "tt.reduce"({value.name}, {index.name}) <{{axis = {axis} : i32}}> ({{')
        self.w.line(f"^bb0({', '.join(f'{v.name}: {v.kind}' for v in (a, i, b, j))}):")
        integer = value.kind in INTEGERS
        name, equal = ("arith.cmpi", "eq") if integer else ("arith.cmpf", "oeq")
        greater = self.choice(["sgt", "slt"] if integer else ["ogt", "olt"])
        with self.w.inside():
            same = self.w.binary(name, a, b, equal, "i1")
            earlier = self.w.binary("arith.cmpi", i, j, "slt", "i1")
            tie = self.w.binary("arith.andi", same, earlier)
            wins = self.w.binary("arith.ori", self.w.binary(name, a, b, greater, "i1"), tie)
            v, k = self.w.select(wins, a, b), self.w.select(wins, i, j)
            self.w.line(f"tt.reduce.return {v.name}, {k.name} : {v.kind}, i32")
        self.w.line(f"}}) : ({value.type}, {index.type}) -> ({made[0].type}, {made[1].type})")
        self.pool.extend(made)

    def fit_range(self, shape: Shape, axis: int) -> Val:
        """The index along an axis, as a tile."""
        index = self.w.make_range(shape[axis])
        if len(shape) == 2:
            index = self.w.expand(index, 1 - axis)
        return self.w.broadcast(index, shape)

    def dot(self) -> None:
        m, k, n = (1 << self.number(1, 5) for _ in range(3))
        operand, accumulator = self.choice(
            [("f32", "f32"), ("f16", "f32"), ("bf16", "f32"), ("f16", "f16"), ("i8", "i32"), ("f64", "f64")]
        )
        a = (
            self.coerce(self.any_value(FLOATS), operand, (m, k))
            if self.chance(0.5)
            else self.load_tile(operand, (m, k))
        )
        b = self.load_tile(operand, (k, n))
        c = (
            self.coerce(self.any_value(), accumulator, (m, n))
            if self.chance(0.5)
            else self.w.constant(0, accumulator, (m, n))
        )
        precision = "" if accumulator in ("i32", "f64") else ", inputPrecision = ieee"
        text = f"tt.dot {a.name}, {b.name}, {c.name}{precision} : {a.type} * {b.type} -> {c.type}"
        self.pool.append(self.w.op(c.kind, c.shape, text))

    def atomic(self) -> None:
        """A sum into places that all programs share; the order of integer sums does not matter."""
        kind = self.choice(["i32", "i64"])
        value = self.coerce(self.any_value(), kind)
        if not value.shape:
            value = self.w.splat(value, (self.choice([1, 4]),))
        offsets, bound = self.index(value.shape)
        base = self.parameter(f"*{kind}", np.zeros(bound, f"i{BITS[kind] // 8}"))
        pointers = self.w.addptr(self.w.splat(base, value.shape), offsets)
        mask = self.coerce(self.any_value(), "i1", value.shape)
        how = self.choice(["add", "max", "umin", "xor", "or", "and"])
        types = f"({pointers.type}, {value.type}, {mask.type}) -> {value.type}"
        self.pool.append(
            self.w.op(
                kind,
                value.shape,
                f"tt.atomic_rmw {how}, acq_rel, gpu, {pointers.name}, {value.name}, {mask.name} : {types}",
            )
        )

    # --- control ---------------------------------------------------------------------------------------------------------

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
        base = self.parameter(f"*{kind}", draw_for_loop(self, kind, bound))
        start = self.w.binary(
            "arith.muli", self.w.binary("arith.addi", index, self.w.constant(1, "i32")), self.w.constant(bound, "i32")
        )
        self.pool.append(self.w.load(self.tile_pointers(base, offsets, start)))

    def pointer_loop(self) -> None:
        """A loop that carries a tile of pointers and a sum."""
        kind, shape = self.choice(["f32", "f16", "i32"]), self.shape()
        offsets, bound = self.index(shape)
        trips = self.number(0, 5)
        base = self.parameter(f"*{kind}", draw_for_loop(self, kind, bound))
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


def draw_for_loop(drawer: Drawer, kind: str, bound: int) -> np.ndarray:
    """An array that a tile of `bound` elements may cross seven times."""
    from generator import draw_array

    made: np.ndarray = draw_array(drawer.rng, kind, 7 * bound)
    return made


WEIGHTS: dict[Callable[[Steps], None], float] = {
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
    Steps.gather: 1,
    Steps.reduction: 3,
    Steps.arg_reduction: 1,
    Steps.dot: 0.8,
    Steps.atomic: 0.7,
    Steps.for_loop: 2,
    Steps.pointer_loop: 0.7,
    Steps.if_else: 1.2,
    Steps.if_only: 0.7,
    Steps.while_loop: 0.7,
    Steps.call: 0.5,
}


def draw(seed: int) -> Program:
    """The program of a seed."""
    d = Steps(np.random.default_rng(seed))
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


def early_return(d: Steps, grid: tuple[int, int, int]) -> None:
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


__all__ = ["draw", "type_text"]
