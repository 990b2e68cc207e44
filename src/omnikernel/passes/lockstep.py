"""Several neighbouring programs in lock step: the kernel once more, its tiles with a dimension of programs in front.

In: a kernel whose programs cannot see each other, its pointer roots, and the axis of the grid that runs fastest. Out: a
kernel that does the work of `Lockstep.programs` programs, or None where that gains nothing: it is compiled beside the
kernel itself, which runs the programs that are left over.

A running sum along the only dimension of a tile is a chain of additions, each waiting for the one before. On a GPU many
programs hide that from each other; here those of several programs run side by side, in the lanes of a register.

The values of each program stay as they are: only the order in which programs take turns changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ..ir.ops import SCHEMA
from ..ir.tile import Block, Kernel, Op, Region, Value, walk
from ..ir.types import Pointer, Scalar, Tensor, Type, element_of, shape_of
from .alias import Roots
from .order import independent
from .rewrite import Rewriter

SHORTEST = 8  # elements of a row whose running sums are worth it
TILE_BYTES = 128 * 1024  # no tile of the programs together is larger
_MOVED = frozenset({"tt.splat", "tt.expand_dims", "tt.broadcast", "tt.trans", "tt.reshape", "tt.unsplat"})
_MEMORY = frozenset({"tt.load", "tt.store"})
_ALONG = frozenset({"tt.reduce", "tt.scan"})


@dataclass(frozen=True, slots=True)
class Lockstep:
    """A kernel that does the work of some programs, each the next one along an axis of the grid."""

    kernel: Kernel
    programs: int
    axis: int


def lockstep(kernel: Kernel, roots: Roots, axis: int) -> Lockstep | None:
    """The kernel for several programs at once; None where it is not possible or nothing is gained."""
    ops = list(walk(kernel.entry.body))
    count = _wanted(ops)
    if count < 2 or len(kernel.functions) > 1 or len(kernel.entry.body.blocks) > 1:
        return None
    if not independent(kernel, roots):
        return None
    differing = _differing(ops, axis)
    if differing is None or any(_bytes(v.type) * count > TILE_BYTES for v in differing):
        return None
    body = _Together(differing, count, axis).region(kernel.entry.body)
    entry = replace(kernel.entry, body=body)
    return Lockstep(replace(kernel, functions=(entry,)), count, axis)


def _bytes(type_: Type) -> int:
    if not isinstance(type_, Tensor):
        return 0
    return type_.size * _width(type_) // 8


# --- whether it pays -----------------------------------------------------------------------------------------------------------


def _wanted(ops: list[Op]) -> int:
    """How many programs together would gain something; 1 for none.

    Four hide what one addition waits for the one before, at 32 bits or more as well as eight do, and are there more
    often. Where a step takes longer, as with narrow floats, which are rounded each time, eight gain half as much again.
    """
    chains = [op for op in ops if op.name == "tt.scan" and _chain(op)]
    if not chains:
        return 1
    quick = all(len(op.regions[0].block.ops) == 2 and _width(op.operands[0].type) >= 32 for op in chains)
    return 4 if quick else 8


def _width(type_: Type) -> int:
    """Bits of an element."""
    return element_of(type_).bits


def _chain(op: Op) -> bool:
    """A scan of one row."""
    shape, axis = shape_of(op.operands[0].type), int(op.attributes["axis"])
    return prod(shape) == shape[axis] >= SHORTEST


# --- what differs between programs ---------------------------------------------------------------------------------------------


def _differing(ops: list[Op], axis: int) -> set[Value] | None:
    """The values that are another one in each program; None where an op cannot take several of them."""
    found: set[Value] = set()
    inner = {op for outer in ops if outer.name in _ALONG for op in walk(outer.regions[0])}
    inner |= {op.regions[0].block.terminator for op in ops if op.name == "scf.for"}  # the loops themselves see to those
    changed = True
    while changed:
        before = len(found)
        for op in ops:
            if op not in inner and not _spread(op, found, axis):
                return None
        changed = len(found) > before
    return found


def _spread(op: Op, found: set[Value], axis: int) -> bool:
    """Add the results of an op that differ; False where it has no meaning for several programs."""
    if op.name == "tt.get_program_id":
        if op.attributes["axis"] == axis:
            found.update(op.results)
        return True
    if op.name == "scf.for":
        block = op.regions[0].block
        if found.intersection(op.operands[:3]):
            return False
        carried = zip(op.operands[3:], block.args[1:], block.terminator.operands, op.results, strict=True)
        for values in carried:
            if found.intersection(values):
                found.update(values[1::2])  # the argument and the result
        return True
    if not found.intersection(op.operands):
        return True
    if op.name in _ALONG and any(v in found for inner in walk(op.regions[0]) for v in inner.operands):
        return False
    if op.name == "tt.store" and op.operands[0] not in found:
        return False
    row = SCHEMA.get(op.name)
    found.update(op.results)
    return op.name in _MOVED | _MEMORY | _ALONG or (row is not None and row.kind == "elementwise" and row.pure)


# --- rewriting -----------------------------------------------------------------------------------------------------------------


class _Together(Rewriter):
    """Gives the values that differ a first dimension."""

    def __init__(self, differing: set[Value], count: int, axis: int) -> None:
        super().__init__()
        self.differing, self.count, self.axis = differing, count, axis

    def wide(self, type_: Type) -> Tensor:
        element = element_of(type_)
        assert isinstance(element, Scalar | Pointer)
        return Tensor((self.count, *shape_of(type_)), element)

    def made(self, value: Value) -> Value:
        """The value of all programs that stands for one that differs."""
        self.renamed[value] = Value(value.name, self.wide(value.type), value.loc)
        return self.renamed[value]

    def lifted(self, value: Value, out: list[Op]) -> Value:
        """The value of all programs, also where it is the same in each."""
        if value in self.differing:
            return self.renamed[value]
        wide = self.wide(value.type)
        if not shape_of(value.type):
            return _emit(out, "tt.splat", value, wide)
        one = Tensor((1, *shape_of(value.type)), wide.element)
        return _emit(out, "tt.broadcast", _emit(out, "tt.expand_dims", value, one, axis=0), wide)

    def op(self, op: Op) -> list[Op]:
        if op.name == "scf.for":
            return self.loop(op)
        if not self.differing.intersection((*op.operands, *op.results)):
            return [self.rebuilt(op)]
        out: list[Op] = []
        if op.name == "tt.get_program_id":
            first = Value(op.result.name, op.result.type, op.loc)
            out.append(op.replace(results=(first,)))
            wide = self.wide(op.result.type)
            everywhere = _emit(out, "tt.splat", first, wide)
            places = Value(f"{first.name}.places", wide, op.loc)
            out.append(Op("tt.make_range", (), (places,), {"start": 0, "end": self.count}, loc=op.loc))
            out.append(Op("arith.addi", (everywhere, places), (self.made(op.result),), loc=op.loc))
            return out
        if op.name == "tt.splat":
            return self.splat(op)
        operands = tuple(self.lifted(v, out) for v in op.operands)
        results = tuple(self.made(v) for v in op.results)
        attributes = dict(op.attributes)
        if op.name in _ALONG or op.name == "tt.expand_dims":
            attributes["axis"] += 1
        if op.name == "tt.trans":
            attributes["order"] = (0, *(d + 1 for d in attributes["order"]))
        name = "tt.reshape" if op.name == "tt.unsplat" else op.name
        out.append(op.replace(name=name, operands=operands, results=results, attributes=attributes))
        return out

    def splat(self, op: Op) -> list[Op]:
        """A number a program, everywhere in the tile of each."""
        out: list[Op] = []
        value = self.renamed[op.operands[0]]
        wide = self.made(op.result)
        shape = shape_of(op.result.type)
        element = element_of(op.result.type)
        assert isinstance(element, Scalar | Pointer)
        for rank in range(1, len(shape) + 1):
            value = _emit(out, "tt.expand_dims", value, Tensor((self.count, *(1,) * rank), element), axis=rank)
        out.append(Op("tt.broadcast", (value,), (wide,), loc=op.loc))
        return out

    def loop(self, op: Op) -> list[Op]:
        block = op.regions[0].block
        out: list[Op] = []
        carried = [v in self.differing for v in block.args[1:]]
        inits = [self.lifted(v, out) if on else self.value(v) for v, on in zip(op.operands[3:], carried, strict=True)]
        args = [self.made(v) if on else v for v, on in zip(block.args[1:], carried, strict=True)]
        ops: list[Op] = []
        for inner in block.ops[:-1]:
            ops.extend(self.op(inner))
        end = block.terminator
        ends = [self.lifted(v, ops) if on else self.value(v) for v, on in zip(end.operands, carried, strict=True)]
        ops.append(end.replace(operands=tuple(ends)))
        region = Region((Block(block.label, (block.args[0], *args), tuple(ops)),))
        results = tuple(self.made(v) if on else v for v, on in zip(op.results, carried, strict=True))
        out.append(op.replace(operands=(*self.values(op.operands[:3]), *inits), results=results, regions=(region,)))
        return out


def _emit(out: list[Op], name: str, value: Value, type_: Tensor, **attributes: int) -> Value:
    made = Value(f"{value.name}.all", type_, value.loc)
    out.append(Op(name, (value,), (made,), attributes, loc=value.loc))
    return made
