"""Recognise the partner of an element along an axis of two, which `tl.sort`, `tl.topk` and `tl.flip` spell by xor.

Triton's library has no op for it: it writes `x ^ xor_sum(x, axis)`, since a ^ (a ^ b) = b. Here that becomes `tile.flip`
(an index with one bit turned, which costs nothing), or `tile.partner` where the element itself is wanted too and its
neighbour is near enough to be had by a shuffle. No reduction remains. A compare-and-swap

    select((x > y) != right, y, x)        with y the partner of x

then becomes select(right, select(x > y, x, y), select(x > y, y, x)): a minimum and a maximum, of which each element
takes one by its place. Long chains of these are none of ours: `network` has made one op of each before. In and out: tile
IR; every bit of every value is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from ..ir.ops import SCHEMA
from ..ir.tile import Constant, Function, Kernel, Op, Value, walk
from ..ir.types import I1, Tensor, element_of, shape_of
from .dead import dead_ops
from .rewrite import Rewriter

# Elements that one step of a nest holds in registers, so that partners within them are shuffled. The same for every
# machine and type: 8 registers of f32 where they have 512 bits.
BLOCK = 128
CASTS = ("tt.bitcast", "arith.bitcast")


class _Exchange(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.made: dict[Value, Op] = {}

    def op(self, op: Op) -> list[Op]:
        built = self.rebuilt(op)
        name = op.name
        made = [built]
        if name == "arith.xori":
            made = self.flip(built) or made
        elif name in CASTS:
            made = self.cast(built) or made
        elif name == "arith.select":
            made = self.swap(built) or made
        for new in made:
            for result in new.results:
                self.made[result] = new
        return made

    def maker(self, value: Value, *names: str) -> Op | None:
        """The op that makes a value, if it is one of these."""
        op = self.made.get(value)
        return op if op is not None and op.name in names else None

    def flip(self, op: Op) -> list[Op] | None:
        found = flipped(op, self.made)
        return [op.replace(name="tile.flip", operands=found[:1], attributes={"axis": found[1]})] if found else None

    def cast(self, op: Op) -> list[Op] | None:
        """cast(flip(cast(x))) of x's own type."""
        flip = self.maker(op.operands[0], "tile.flip")
        back = flip and self.maker(flip.operands[0], *CASTS)
        if flip and back and back.operands[0].type == op.result.type:
            return [op.replace(name="tile.flip", operands=back.operands, attributes=flip.attributes)]
        return None

    def swap(self, op: Op) -> list[Op] | None:
        """A compare-and-swap, as a minimum and a maximum."""
        condition, y, x = op.operands
        flip = self.maker(y, "tile.flip")
        differs = self.maker(condition, "arith.cmpi")
        if not flip or flip.operands != (x,) or not differs or differs.attributes["predicate"] != "ne":
            return None
        for greater, right in (differs.operands, differs.operands[::-1]):
            widened = self.maker(greater, "arith.extui")
            compared = self.maker(widened.operands[0] if widened else greater, "arith.cmpf", "arith.cmpi")
            if not compared or set(compared.operands) != {x, y}:
                continue
            narrow = element_of(right.type) == I1
            if not narrow and not (widened and self.is_bit(right)):
                continue
            ops: list[Op] = []
            side = right if narrow else self.as_condition(right, op, ops)
            chosen = []
            for name, first, second in (("high", x, y), ("low", y, x)):
                value = Value(f"{op.result.name}.{name}", op.result.type, op.loc)
                ops.append(op.replace(operands=(compared.result, first, second), results=(value,)))
                chosen.append(value)
            return [*ops, op.replace(operands=(side, *chosen))]
        return None

    def as_condition(self, bit: Value, op: Op, ops: list[Op]) -> Value:
        """A tile of 0 and 1 as i1, compared before it is broadcast."""
        wide = self.maker(bit, "tt.broadcast")
        source = wide.operands[0] if wide else bit
        assert isinstance(source.type, Tensor) and isinstance(bit.type, Tensor)
        zero = Value(f"{op.result.name}.zero", source.type, op.loc)
        condition = Value(f"{op.result.name}.right", replace(source.type, element=I1), op.loc)
        constant = {"value": Constant((0,), source.type)}
        ops.append(Op("arith.constant", (), (zero,), constant, loc=op.loc))
        ops.append(Op("arith.cmpi", (source, zero), (condition,), {"predicate": "ne"}, loc=op.loc))
        if wide is None:
            return condition
        result = Value(f"{op.result.name}.right.all", replace(bit.type, element=I1), op.loc)
        ops.append(wide.replace(operands=(condition,), results=(result,)))
        return result

    def is_bit(self, value: Value) -> bool:
        """An integer known to be 0 or 1 everywhere."""
        op = self.made.get(value)
        if op is None:
            return False
        if op.name == "tt.make_range":
            return bool(op.attributes["start"] >= 0 and op.attributes["end"] <= 2)
        if op.name == "arith.constant":
            return set(op.attributes["value"].elements) <= {0, 1}
        if op.name in ("tt.reshape", "tt.broadcast", "tt.expand_dims", "tt.splat", "arith.xori"):
            return all(self.is_bit(v) for v in op.operands)
        return False


def flipped(op: Op, made: Mapping[Value, Op]) -> tuple[Value, int] | None:
    """x and the axis, where an op is x ^ broadcast(expand_dims(reduce(x, xor))) along an axis of two."""
    for x, other in (op.operands, op.operands[::-1]):
        wide = made.get(other)
        if wide is None or wide.name != "tt.broadcast":
            continue
        tall = made.get(wide.operands[0])
        if tall is None or tall.name not in ("tt.expand_dims", "tt.reshape"):
            continue
        total = made.get(tall.operands[0])
        if total is not None and total.operands == (x,) and _is_xor(total):
            axis = int(total.attributes["axis"])
            shape = shape_of(x.type)
            if shape[axis] == 2 and shape_of(tall.results[0].type) == (*shape[:axis], 1, *shape[axis + 1 :]):
                return x, axis
    return None


def _is_xor(op: Op) -> bool:
    """A reduction of one operand by xor."""
    if op.name != "tt.reduce" or len(op.operands) != 1 or len(op.regions[0].blocks) != 1:
        return False
    block = op.regions[0].block
    inner = block.ops[0]
    return (
        len(block.ops) == 2
        and inner.name == "arith.xori"
        and set(inner.operands) == set(block.args)
        and block.terminator.operands == inner.results
    )


class _Sweep(Rewriter):
    """Drops what has no user, and turns near flips of what is used itself into partners."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        ops = list(walk(function.body))
        self.dead = dead_ops(function)
        flips = {op.result for op in ops if op.name == "tile.flip"}
        # A flip together with another operand of one op.
        self.met = {
            (other, flip)
            for op in ops
            for flip in flips.intersection(op.operands)
            for other in op.operands
            if op not in self.dead
        }

    def op(self, op: Op) -> list[Op]:
        if op in self.dead:
            return []
        if op.name == "tile.flip" and (op.operands[0], op.result) in self.met and _near(op):
            return [op.replace(name="tile.partner")]
        return [self.rebuilt(op)]


def _near(flip: Op) -> bool:
    """A tile of extents of two, whose partners lie in one block."""
    shape = shape_of(flip.operands[0].type)
    return set(shape) == {2} and prod(shape[flip.attributes["axis"] :]) <= BLOCK


def exchange(kernel: Kernel) -> Kernel:
    """Turn the partners of every function into flips; a kernel without any is returned as it is."""
    if not has_partners(kernel):
        return kernel
    made = _Exchange().kernel(kernel)
    return made if has_flips(made) else kernel


def partners(kernel: Kernel) -> Kernel:
    """Drop what the flips have made useless, and say which flips are near."""
    if not has_flips(kernel):
        return kernel
    return replace(kernel, functions=tuple(_Sweep(f).function(f) for f in kernel.functions))


def has_partners(kernel: Kernel) -> bool:
    """Whether anything is reduced by xor, as partners are found."""
    return any(op.name == "tt.reduce" and _is_xor(op) for f in kernel.functions for op in walk(f.body))


def has_flips(kernel: Kernel) -> bool:
    """Whether any partner has been found."""
    return any(op.name == "tile.flip" for f in kernel.functions for op in walk(f.body))


_FLIPS = ("tile.flip", "tile.partner")


def kept_between(lazy: Sequence[Op], users: Mapping[Value, Sequence[Op]]) -> set[Value]:
    """The tiles at which a chain of compare-and-swaps is cut: what is behind them is computed once, into memory.

    Args:
        lazy: the ops whose tiles are evaluated where they are used, in order.
        users: the ops that read each value.
    """
    kept: set[Value] = set()
    if not any(op.name in _FLIPS for op in lazy):
        return kept
    network: set[Value] = set()  # has an element and its partner behind it, every lane at its own place
    turned: set[Value] = set()  # has any flip behind it
    for op in lazy:
        elementwise = SCHEMA[op.name].kind == "elementwise"
        flips = op.name in _FLIPS
        for result in op.results:
            meets = flips and any(op.operands[0] in user.operands for user in users[result])
            if meets or (elementwise and any(v in network for v in op.operands)):
                network.add(result)
            if flips or any(v in turned for v in op.operands):
                turned.add(result)
            moved = any(not _stays(user) for user in users[result])
            flipped = len(users[result]) > 1 and any(user.name == "tile.flip" for user in users[result])
            if (result in network and moved) or (result in turned and flipped):
                kept.add(result)
                network.discard(result)
                turned.discard(result)
    return kept


def _stays(op: Op) -> bool:
    """An op that reads every element at its own place, or near it."""
    return op.name == "tile.partner" or SCHEMA[op.name].kind == "elementwise"
