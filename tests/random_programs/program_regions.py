"""Steps of a random kernel with regions and functions: of several operands, with branches, with tiles passed in and out."""

from __future__ import annotations

from program_drawer import FLOATS, INTEGERS, Shape, Val
from program_steps import Steps


class Regions(Steps):
    """Each method named by a step draws it and puts its results into the pool."""

    def tiles(self, kinds: tuple[str, ...] = (*INTEGERS, *FLOATS)) -> list[Val]:
        return [v for v in self.pool if v.shape and v.kind in kinds]

    def map_elementwise(self) -> None:
        """A region with a branch on one or two neighbours at a time, of one or two tiles."""
        tiles = self.tiles()
        if not tiles:
            return
        first = self.choice(tiles[-4:])
        inputs = [first, *([self.coerce(self.any_value(), self.kind(), first.shape)] if self.chance(0.5) else [])]
        pack = 2 if first.shape[-1] > 1 and self.chance(0.4) else 1
        outputs = [v.kind for v in inputs]
        made = [Val("", kind, first.shape) for kind in outputs]
        head, made = self.w.results([(v.kind, v.shape) for v in made])
        names = ", ".join(v.name for v in inputs)
        self.w.line(f'{head} = "tt.map_elementwise"({names}) <{{pack = {pack} : i32}}> ({{')
        args = [Val(self.w.name(), kind) for kind in outputs for _ in range(pack)]
        self.w.line(f"^bb0({', '.join(f'{a.name}: {a.kind}' for a in args)}):")
        with self.w.inside():
            self.map_body(args)
        types = ", ".join(v.type for v in inputs)
        result = made[0].type if len(made) == 1 else f"({', '.join(v.type for v in made)})"
        self.w.line(f"}}) : ({types}) -> {result}")
        self.pool += made

    def map_body(self, args: list[Val]) -> None:
        """Exchanges, or combines with a constant, on a condition: by blocks or by a structured branch."""
        integer = args[0].kind in INTEGERS
        limit = self.w.constant(2, args[0].kind)
        goes = self.w.binary(
            "arith.cmpi" if integer else "arith.cmpf", args[0], limit, "slt" if integer else "olt", "i1"
        )
        kinds = ", ".join(a.kind for a in args)
        plain = ", ".join(a.name for a in args)
        if self.chance(0.5):
            results = [Val(self.w.name(), a.kind) for a in args]
            self.w.line(f"cf.cond_br {goes.name}, ^bb1, ^bb2({plain} : {kinds})")
            self.w.line("^bb1:  // pred: ^bb0")
            changed = self.changed(args)
            self.w.line(f"cf.br ^bb2({', '.join(v.name for v in changed)} : {kinds})")
            heads = ", ".join(f"{r.name}: {r.kind}" for r in results)
            self.w.line(f"^bb2({heads}):  // 2 preds: ^bb0, ^bb1")
        else:
            head, results = self.w.results([(a.kind, ()) for a in args])
            self.w.line(f"{head} = scf.if {goes.name} -> ({kinds}) {{")
            changed = self.changed(args)
            self.w.line(f"scf.yield {', '.join(v.name for v in changed)} : {kinds}")
            self.w.line("} else {")
            self.w.line(f"scf.yield {plain} : {kinds}")
            self.w.line("}")
        self.w.line(f"tt.map_elementwise.return {', '.join(r.name for r in results)} : {kinds}")

    def changed(self, args: list[Val]) -> list[Val]:
        """New values, each from its own and from a neighbour of its kind, in the reverse order."""
        made = []
        for a in args:
            others = [b for b in reversed(args) if b.kind == a.kind]
            op = self.choice(["addi", "muli", "subi"] if a.kind in INTEGERS else ["addf", "mulf", "minnumf"])
            made.append(self.w.binary(f"arith.{op}", a, others[0]))
        return made

    def moments(self) -> None:
        """A reduction or a scan of three operands: count, mean and squared deviations, merged as Welford does."""
        tiles = self.tiles(("f32", "f64"))
        if not tiles:
            return
        value = self.choice(tiles[-4:])
        kind, axis = value.kind, self.number(0, len(value.shape) - 1)
        one, zero = (self.w.constant(v, kind, value.shape) for v in (1.0, 0.0))
        scan = self.chance(0.4)
        shape: Shape = value.shape if scan else value.shape[:axis] + value.shape[axis + 1 :]
        head, made = self.w.results([(kind, shape)] * 3)
        name = "tt.scan" if scan else "tt.reduce"
        reverse = f", reverse = {self.choice(['true', 'false'])}" if scan else ""
        self.w.line(f'{head} = "{name}"({value.name}, {zero.name}, {one.name}) <{{axis = {axis} : i32{reverse}}}> ({{')
        args = [Val(self.w.name(), kind) for _ in range(6)]
        self.w.line(f"^bb0({', '.join(f'{a.name}: {kind}' for a in args)}):")
        with self.w.inside():
            mean, square, weight, mean2, square2, weight2 = args
            delta = self.w.binary("arith.subf", mean2, mean)
            total = self.w.binary("arith.addf", weight, weight2)
            share = self.w.binary("arith.divf", weight2, total)
            middle = self.w.binary("arith.addf", mean, self.w.binary("arith.mulf", delta, share))
            spread = self.w.binary("arith.mulf", self.w.binary("arith.mulf", delta, delta), weight)
            squares = self.w.binary("arith.addf", square, square2)
            both = self.w.binary("arith.addf", squares, self.w.binary("arith.mulf", spread, share))
            self.w.line(f"{name}.return {middle.name}, {both.name}, {total.name} : {kind}, {kind}, {kind}")
        operands, results = ", ".join([value.type] * 3), ", ".join([made[0].type] * 3)
        self.w.line(f"}}) : ({operands}) -> ({results})")
        self.pool += made

    def tile_call(self) -> None:
        """A function that was not inlined: tiles and a scalar in, a tile and a scalar out, with an early return."""
        tiles = self.tiles()
        if not tiles:
            return
        a = self.choice(tiles[-4:])
        b = self.coerce(self.any_value(), a.kind, a.shape)
        n = self.coerce(self.any_value(), "i32", ())
        name = f"helper{len(self.helpers)}"
        ops = ["addi", "muli", "xori", "maxsi"] if a.kind in INTEGERS else ["addf", "mulf", "subf", "maximumf"]
        body = TILE_HELPER.format(
            name=name,
            tile=a.type,
            axis=self.choice("xyz"),
            one=f"arith.{self.choice(ops)}",
            two=f"arith.{self.choice(ops)}",
        )
        self.helpers.append(body)
        for _ in range(self.number(1, 2)):
            head, made = self.w.results([(a.kind, a.shape), ("i32", ())])
            self.w.line(
                f"{head} = tt.call @{name}({a.name}, {b.name}, {n.name}) : ({a.type}, {a.type}, i32) -> ({a.type}, i32)"
            )
            self.pool += made
            a, b = b, made[0]


TILE_HELPER = """\
  tt.func private @{name}(%a: {tile}, %b: {tile}, %n: i32) -> ({tile}, i32) attributes {{noinline = true}} {{
    %three = arith.constant 3 : i32
    %0 = tt.get_program_id {axis} : i32
    %1 = arith.addi %n, %0 : i32
    %2 = arith.cmpi sgt, %1, %three : i32
    cf.cond_br %2, ^bb1, ^bb2
  ^bb1:  // pred: ^bb0
    %3 = {one} %a, %b : {tile}
    tt.return %3, %1 : {tile}, i32
  ^bb2:  // pred: ^bb0
    %4 = {two} %b, %a : {tile}
    tt.return %4, %n : {tile}, i32
  }}"""
