"""Carry a scalar through a loop instead of a tile that only ever moves by a scalar.

`ptrs += BLOCK_K` makes a loop carry a tile of pointers. What it holds is the tile before the loop plus one number, so
only the number is carried, and the tile stays an affine expression: never materialised, and its loads stay consecutive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.tile import Block, Constant, Kernel, Op, Region, Value, walk
from ..ir.types import I64, Pointer, Scalar, Tensor, Type
from .rewrite import Rewriter


@dataclass(frozen=True, slots=True)
class _Carried:
    """A carried tile that moves by scalars: its position among the arguments, and the scalars of one trip."""

    position: int
    steps: tuple[Value, ...]  # scalars, or tiles of one constant


class _Uncarry(Rewriter):
    def __init__(self, made_by: Mapping[Value, Op]) -> None:
        super().__init__()
        self.made_by = made_by

    def op(self, op: Op) -> list[Op]:
        if op.name != "scf.for":
            return [self.rebuilt(op)]
        moving = [m for i in range(len(op.results)) if (m := self._moving(op, i))]
        return self._rebuild_loop(op, moving) if moving else [self.rebuilt(op)]

    # --- finding ---------------------------------------------------------------------------------------------------------

    def _moving(self, op: Op, position: int) -> _Carried | None:
        body = op.regions[0].block
        arg = body.args[1 + position]
        if not isinstance(arg.type, Tensor):
            return None
        element = arg.type.element
        if not isinstance(element, Pointer) and not (element.is_integer and element.bits >= 32):
            return None
        value = body.terminator.operands[position]
        steps: list[Value] = []
        inside = {r for inner in body.ops for r in inner.results}
        while value is not arg:
            maker = self.made_by.get(value)
            if (
                maker is None
                or maker.name != ("tt.addptr" if isinstance(element, Pointer) else "arith.addi")
                or value not in inside
            ):
                return None
            base, step = maker.operands
            if not isinstance(element, Pointer) and self._scalar(base) and not self._scalar(step):
                base, step = step, base
            if not self._scalar(step):
                return None
            steps.append(step)
            value = base
        return _Carried(position, tuple(steps))

    def _scalar(self, value: Value) -> bool:
        """A tile of one number."""
        maker = self.made_by.get(value)
        if maker is None:
            return False
        if maker.name == "tt.splat":
            return True
        if maker.name in ("tt.broadcast", "tt.expand_dims"):
            return self._scalar(maker.operands[0])
        return maker.name == "arith.constant" and maker.attributes["value"].is_splat

    # --- rewriting -------------------------------------------------------------------------------------------------------

    def _rebuild_loop(self, op: Op, moving: list[_Carried]) -> list[Op]:
        body = op.regions[0].block
        out: list[Op] = []
        inits = list(self.values(op.operands))
        args = list(body.args)
        results = list(op.results)
        after: list[Op] = []
        entry: list[Op] = []
        deltas: dict[int, Value] = {}
        for carried in moving:
            i = carried.position
            old = args[1 + i]
            kind = self._delta_type(old.type)
            start = _constant(f"{old.name}.start", kind, 0)
            out.append(start)
            first = inits[3 + i]
            inits[3 + i] = start.result
            delta = Value(f"{old.name}.moved", kind, old.loc)
            args[1 + i] = deltas[i] = delta
            entry += self._moved(old, first, delta)
            total = Value(f"{op.results[i].name}.moved", kind, op.loc)
            results[i] = total
            after += self._moved(op.results[i], first, total)
        ops = [*entry]
        for inner in body.ops[:-1]:
            ops.extend(self.op(inner))
        end = self.rebuilt(body.terminator)
        yielded = list(end.operands)
        for carried in moving:
            value = deltas[carried.position]
            for step in reversed(carried.steps):
                made, scalar = self._step(self.value(step), value.type)
                total = Value(f"{value.name}.next", value.type, op.loc)
                ops += [*made, Op("arith.addi", (value, scalar), (total,), loc=op.loc)]
                value = total
            yielded[carried.position] = value
        ops.append(end.replace(operands=tuple(yielded)))
        region = Region((Block(body.label, tuple(args), tuple(ops)),))
        out.append(op.replace(operands=tuple(inits), results=tuple(results), regions=(region,)))
        return out + after

    def _delta_type(self, type_: Type) -> Scalar:
        assert isinstance(type_, Tensor)
        return I64 if isinstance(type_.element, Pointer) else type_.element

    def _moved(self, old: Value, first: Value, delta: Value) -> list[Op]:
        """`old` as the tile before the loop plus what it has moved by."""
        assert isinstance(old.type, Tensor)
        tile = Value(f"{old.name}.delta", old.type.with_element(self._delta_type(old.type)), old.loc)
        name = "tt.addptr" if isinstance(old.type.element, Pointer) else "arith.addi"
        return [Op("tt.splat", (delta,), (tile,), loc=old.loc), Op(name, (first, tile), (old,), loc=old.loc)]

    def _step(self, step: Value, type_: Type) -> tuple[list[Op], Value]:
        """The scalar behind a tile of one number, in the type that is carried."""
        maker = self.made_by[step]
        while maker.name in ("tt.broadcast", "tt.expand_dims"):
            maker = self.made_by[maker.operands[0]]
        if maker.name == "arith.constant":
            made = _constant(f"{step.name}.scalar", type_, maker.attributes["value"].integers()[0])
            return [made], made.result
        scalar = self.value(maker.operands[0])
        if scalar.type == type_:
            return [], scalar
        wide = Value(f"{scalar.name}.wide", type_, scalar.loc)
        return [Op("arith.extsi", (scalar,), (wide,), loc=scalar.loc)], wide


def _constant(name: str, type_: Type, value: int) -> Op:
    assert isinstance(type_, Scalar)
    constant = Constant((value & ((1 << type_.bits) - 1),), type_)
    return Op("arith.constant", (), (Value(name, type_),), {"value": constant})


def uncarry(kernel: Kernel) -> Kernel:
    """Replace carried tiles of pointers and integers that move by scalars, innermost loops included."""
    made_by = {r: op for f in kernel.functions for op in walk(f.body) for r in op.results}
    return _Uncarry(made_by).kernel(kernel)
