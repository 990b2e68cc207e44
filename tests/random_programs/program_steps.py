"""Steps of a random kernel without control flow: arithmetic, casts, shapes, memory, reductions, atomics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from program_drawer import (
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
    Shape,
    Val,
)


class Steps(Drawer):
    """Each method named by a step draws it and puts its results into the pool."""

    def step(self) -> None:
        """Draw one step; `random_programs` says how often each comes."""
        raise NotImplementedError

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
        """From floats only where no NaN is left."""
        a = self.any_value((*INTEGERS, *FLOATS))
        targets = [k for k in (*INTEGERS, *FLOATS) if BITS[k] == BITS[a.kind] and k != a.kind]
        if not targets:
            return
        if a.kind in FLOATS:
            a = self.ordered(a)
        self.pool.append(self.w.cast("arith.bitcast", a, self.choice(targets)))

    def ordered(self, a: Val) -> Val:
        """A float with 0 for NaN, whose sign and bits are not defined."""
        ordered = self.w.binary("arith.cmpf", a, a, "ord", "i1")
        return self.w.select(ordered, a, self.w.constant(0.0, a.kind, a.shape))

    def mulhi(self) -> None:
        a, b = self.pair(("i32", "i64"))
        self.pool.append(self.w.binary("tt.mulhiui", a, b))

    # --- shape, memory, reductions ---------------------------------------------------------------------------------------

    def move(self) -> None:
        a = self.any_value()
        if len(a.shape) > 1 and self.chance(0.6):
            order = [int(i) for i in self.rng.permutation(len(a.shape))]
            shape = tuple(a.shape[i] for i in order)
            self.pool.append(
                self.w.reshaped("tt.trans", a, shape, f" {{order = array<i32: {', '.join(map(str, order))}>}}")
            )
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

    def store(self) -> None:
        self.store_tile(self.any_value())

    def gather(self) -> None:
        self.pool.append(self.gather_tile())

    def reduction(self) -> None:
        tiles = [v for v in self.pool if v.shape]
        if tiles:
            self.pool.append(self.reduce(self.choice(tiles[-4:])))

    def scan(self) -> None:
        tiles = [v for v in self.pool if v.shape and v.kind not in FP8]
        if not tiles:
            return
        value = self.choice(tiles[-4:])
        axis, reverse = self.number(0, len(value.shape) - 1), "true" if self.chance(0.4) else "false"
        made = Val(self.w.name(), value.kind, value.shape)
        self.w.line(f'{made.name} = "tt.scan"({value.name}) <{{axis = {axis} : i32, reverse = {reverse}}}> ({{')
        self.combine_region(value.kind, "tt.scan")
        self.w.line(f"}}) : ({value.type}) -> {made.type}")
        self.pool.append(made)

    def join_or_split(self) -> None:
        """Two tiles into one and one into two."""
        a, b = self.pair((*INTEGERS, *FLOATS))
        if a.shape and a.shape[-1] == 2 and len(a.shape) > 1 and self.chance(0.6):
            rest = a.shape[:-1]
            left, right = (Val(self.w.name(), a.kind, rest) for _ in range(2))
            self.w.line(f"{left.name}, {right.name} = tt.split {a.name} : {a.type} -> {left.type}")
            self.pool += [left, right]
        elif len(a.shape) == 1 and self.chance(0.4):
            made = Val(self.w.name(), a.kind, (2 * a.shape[0],))
            self.w.line(f"{made.name} = tt.cat {a.name}, {b.name} : {a.type} -> {made.type}")
            self.pool.append(made)
        elif 0 < len(a.shape) < 3:
            made = Val(self.w.name(), a.kind, (*a.shape, 2))
            self.w.line(f"{made.name} = tt.join {a.name}, {b.name} : {a.type} -> {made.type}")
            self.pool.append(made)

    def lookup(self) -> None:
        """Elements chosen by computed indices, and counts of values."""
        tiles = [v for v in self.pool if v.shape and v.kind in (*INTEGERS, *FLOATS)]
        if not tiles:
            return
        source = self.choice(tiles)
        axis = self.number(0, len(source.shape) - 1)
        at = self.coerce(self.any_value(), self.choice(["i32", "i32", "i64"]), source.shape)
        at = self.w.binary("arith.andi", at, self.w.constant(source.shape[axis] - 1, at.kind, at.shape))
        text = (
            f"tt.gather {source.name}[{at.name}] {{axis = {axis} : i32}} : ({source.type}, {at.type}) -> {source.type}"
        )
        self.pool.append(self.w.op(source.kind, source.shape, text))
        if len(at.shape) == 1 and at.kind == "i32" and self.chance(0.5):
            made = Val(self.w.name(), "i32", (1 << self.number(0, 6),))
            self.w.line(f"{made.name} = tt.histogram {at.name} : {at.type} -> {made.type}")
            self.pool.append(made)

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
        for other in range(len(shape)):
            if other != axis:
                index = self.w.expand(index, other)
        return self.w.broadcast(index, shape)

    def atomic(self) -> None:
        """A sum into places that all programs share; the order of integer sums does not matter."""
        kind = self.choice(["i32", "i64"])
        value = self.coerce(self.any_value(), kind)
        if not value.shape:
            value = self.w.splat(value, (self.choice([1, 4]),))
        offsets, bound = self.index(value.shape)
        base = self.array(kind, bound)
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

    def float_atomic(self) -> None:
        """Sums of floats, exchanges: their order is fixed only within a program, so each has places of its own."""
        kind = self.choice(["f32", "f64", "f16", "bf16"])
        value = self.coerce(self.any_value(), kind)
        shape = value.shape or (2,)
        value = self.w.splat(value, shape) if not value.shape else value
        offsets, bound = self.index(shape)
        base = self.w.addptr(self.array(kind, bound * self.programs), self.program_base(bound))
        pointers = self.w.addptr(self.w.splat(base, shape), offsets)
        how = "fadd" if kind in ("f16", "bf16") or self.chance(0.8) else "exch"
        mask = self.coerce(self.any_value(), "i1", shape)
        types = f"({pointers.type}, {value.type}, {mask.type}) -> {value.type}"
        text = f"tt.atomic_rmw {how}, relaxed, gpu, {pointers.name}, {value.name}, {mask.name} : {types}"
        self.pool.append(self.w.op(kind, shape, text))

    def compare_and_swap(self) -> None:
        kind = self.choice(["i32", "i64"])
        base = self.array(kind, 1)
        expected = self.w.load(base) if self.chance(0.5) else self.w.constant(self.literal(kind), kind)
        value = self.coerce(self.any_value((kind, "i8", "i16")), kind, ())
        types = f"({base.type}, {kind}, {kind}) -> {kind}"
        text = f"tt.atomic_cas acq_rel, gpu, {base.name}, {expected.name}, {value.name} : {types}"
        self.pool.append(self.w.op(kind, (), text))

    def scalar_load(self) -> None:
        kind = self.kind()
        base = self.array(kind, self.programs)
        assert self.pid is not None
        at = self.w.addptr(base, self.pid)
        mask = self.coerce(self.any_value(), "i1", ()) if self.chance(0.4) else None
        other = self.w.constant(self.literal(kind), kind) if mask is not None and self.chance(0.6) else None
        self.pool.append(self.w.load(at, mask, other))

    def branching_reduction(self) -> None:
        """A region that branches, so that it cannot run on whole tiles."""
        tiles = [v for v in self.pool if v.shape and v.kind in (*INTEGERS, *FLOATS)]
        if not tiles:
            return
        value = self.choice(tiles)
        axis = self.number(0, len(value.shape) - 1)
        kind, rest = value.kind, value.shape[:axis] + value.shape[axis + 1 :]
        made, a, b = Val(self.w.name(), kind, rest), Val(self.w.name(), kind), Val(self.w.name(), kind)
        integer = kind in INTEGERS
        self.w.line(f'{made.name} = "tt.reduce"({value.name}) <{{axis = {axis} : i32}}> ({{')
        self.w.line(f"^bb0({a.name}: {kind}, {b.name}: {kind}):")
        with self.w.inside():
            less = self.w.binary("arith.cmpi" if integer else "arith.cmpf", a, b, "slt" if integer else "olt", "i1")
            result = Val(self.w.name(), kind)
            self.w.line(f"{result.name} = scf.if {less.name} -> ({kind}) {{")
            total = self.w.binary("arith.addi" if integer else "arith.addf", a, b)
            self.w.line(f"scf.yield {total.name} : {kind}")
            self.w.line("} else {")
            self.w.line(f"scf.yield {b.name} : {kind}")
            self.w.line("}")
            self.w.line(f"tt.reduce.return {result.name} : {kind}")
        self.w.line(f"}}) : ({value.type}) -> {made.type}")
        self.pool.append(made)

    def extended(self) -> None:
        """Sums with carry, and products of double width."""
        a, b = self.pair(INTEGERS)
        name = self.choice(["addui", "mului", "mulsi"])
        second = "i1" if name == "addui" else a.kind
        head, made = self.w.results([(a.kind, a.shape), (second, a.shape)])
        types = f"{a.type}, {made[1].type}" if name == "addui" else a.type
        self.w.line(f"{head} = arith.{name}_extended {a.name}, {b.name} : {types}")
        self.pool += made
