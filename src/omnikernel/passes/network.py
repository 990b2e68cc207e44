"""Fold chains of compare-and-swaps into one op, so that a sort is compiled as a loop over its stages.

`tl.sort` and `tl.topk` unroll about log2(n)^2 / 2 stages, each over the whole tile. What `exchange` makes of a stage is

    y = flip(x);  c = x > y;  r = select(right, select(c, x, y), select(c, y, x))

with `right` given by the place of an element alone: its own bit of the flipped axis, perhaps turned by a higher bit
(stages whose order alternates). A chain of these, also with the halvings of a top-k (a reduction of an axis of two),
becomes `tile.network`, whose steps say bits instead of axes. In and out: tile IR; every bit of every value is kept.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from ..ir.network import Step
from ..ir.ops import SCHEMA
from ..ir.tile import Block, Function, Kernel, Op, Region, Value, walk
from ..ir.types import I1, Scalar, Tensor, element_of, shape_of
from .dead import dead_ops
from .exchange import has_flips
from .rewrite import Rewriter

# Fewer compare-and-swaps than this are as well computed where their result is used.
LEAST = 3


@dataclass(frozen=True, slots=True)
class _Chain:
    """What was found behind a value: the tile at its start, and what is done to it."""

    source: Value
    steps: tuple[Step, ...] = ()
    compare: tuple[str, str] | None = None  # op and predicate
    combine: str | None = None  # the op of its halvings

    @property
    def swaps(self) -> int:
        return sum(not step.halves for step in self.steps)


@dataclass(frozen=True, slots=True)
class _Found:
    """One step in the IR: the tile that it reads, and all ops that belong to it."""

    source: Value
    step: Step
    ops: frozenset[Op]
    compare: tuple[str, str] | None = None
    combine: str | None = None


class _Finder:
    """The chains of one function, by the op that makes their last value."""

    def __init__(self, function: Function) -> None:
        self.made: dict[Value, Op] = {}
        self.users: dict[Value, set[Op]] = defaultdict(set)
        self.chains: dict[Value, _Chain] = {}
        self.ends: dict[Op, _Chain] = {}
        dead = dead_ops(function)
        for op in walk(function.body):
            if op in dead:
                continue
            for result in op.results:
                self.made[result] = op
            for value in op.operands:
                self.users[value].add(op)
            for successor in op.successors:
                for value in successor.operands:
                    self.users[value].add(op)
        self.region(function.body)

    def region(self, region: Region) -> None:
        for block in region.blocks:
            self.block(block)
            for op in block.ops:
                for inner in op.regions:
                    self.region(inner)

    def block(self, block: Block) -> None:
        open_: dict[Value, Op] = {}
        for op in block.ops:
            found = self.swap(op) if op.name == "arith.select" else self.halving(op) if op.name == "tt.reduce" else None
            if found is None:
                continue
            before = self.chains[found.source] if found.source in open_ else _Chain(found.source)
            fits = all(
                new is None or old is None or new == old
                for old, new in ((before.compare, found.compare), (before.combine, found.combine))
            )
            if not fits or not self.users[found.source] <= found.ops:
                before = _Chain(found.source)
            if before.steps:
                del open_[found.source]
            self.chains[op.result] = _Chain(
                before.source,
                (*before.steps, found.step),
                before.compare or found.compare,
                before.combine or found.combine,
            )
            open_[op.result] = op
        for value, op in open_.items():
            if self.chains[value].swaps >= LEAST:
                self.ends[op] = self.chains[value]

    def maker(self, value: Value, *names: str) -> Op | None:
        op = self.made.get(value)
        return op if op is not None and op.name in names else None

    def swap(self, op: Op) -> _Found | None:
        right, high, low = op.operands
        if not _sortable(op.result):
            return None
        first, second = self.maker(high, "arith.select"), self.maker(low, "arith.select")
        if not first or not second or first.operands[0] is not second.operands[0]:
            return None
        x, y = first.operands[1:]
        flip = self.maker(y, "tile.flip")
        compared = self.maker(first.operands[0], "arith.cmpf", "arith.cmpi")
        if second.operands[1:] != (y, x) or not flip or flip.operands != (x,):
            return None
        if not compared or compared.operands != (x, y):
            return None
        bit = len(shape_of(x.type)) - 1 - flip.attributes["axis"]
        side = self.side(right)
        if side is None:
            return None
        others = side[0] ^ 1 << bit
        if others & (others - 1) or (others and others < 1 << bit):
            return None
        ops = frozenset((flip, compared, first, second))
        return _Found(x, Step(bit, *side), ops, compare=(compared.name, compared.attributes["predicate"]))

    def halving(self, op: Op) -> _Found | None:
        if len(op.operands) != 1 or not _sortable(op.operands[0]) or not isinstance(op.result.type, Tensor):
            return None
        blocks = op.regions[0].blocks
        if len(blocks) != 1 or len(blocks[0].ops) != 2:
            return None
        combine, end = blocks[0].ops
        plain = combine.operands == blocks[0].args and combine.results == end.operands and not combine.attributes
        if not plain or SCHEMA[combine.name].kind != "elementwise":
            return None
        (x,) = op.operands
        bit = len(shape_of(x.type)) - 1 - op.attributes["axis"]
        return _Found(x, Step(bit), frozenset((op,)), combine=combine.name)

    def side(self, value: Value) -> tuple[int, int] | None:
        """A tile of 0 and 1 as the parity of some bits of an element's place: (bits, turned)."""
        op = self.made.get(value)
        shape = shape_of(value.type)
        if op is None:
            return None
        if op.name == "arith.constant" and op.attributes["value"].is_splat:
            (element,) = op.attributes["value"].elements
            return (0, element) if element in (0, 1) else None
        if op.name == "arith.xori":
            left, right = (self.side(v) for v in op.operands)
            return (left[0] ^ right[0], left[1] ^ right[1]) if left and right else None
        if op.name == "arith.cmpi" and op.attributes["predicate"] == "ne":
            known = [self.side(v) for v in op.operands]
            for this, that in (known, known[::-1]):
                if that == (0, 0):
                    return this
            return None
        if op.name in ("tt.broadcast", "arith.extui", "tt.splat"):
            return self.side(op.operands[0])
        if op.name in ("tt.reshape", "tt.expand_dims", "tt.make_range") and sum(shape) - len(shape) == 1:
            while op is not None and op.name in ("tt.reshape", "tt.expand_dims"):
                op = self.made.get(op.operands[0])
            if op is not None and op.name == "tt.make_range" and op.attributes["start"] == 0:
                return 1 << (len(shape) - 1 - shape.index(2)), 0
        return None


def _sortable(value: Value) -> bool:
    """A tile of extents of two, of numbers."""
    kind = element_of(value.type)
    return set(shape_of(value.type)) == {2} and isinstance(kind, Scalar) and kind != I1


class _Fold(Rewriter):
    def __init__(self, ends: dict[Op, _Chain], made: dict[Value, Op]) -> None:
        super().__init__()
        self.ends = ends
        self.made = made
        self.flat: dict[Value, Value] = {}  # a cube -> the network's own result, which it is a view of

    def op(self, op: Op) -> list[Op]:
        chain = self.ends.get(op)
        if chain is not None:
            return self.network(op, chain)
        if op.name == "tt.reshape" and self.value(op.operands[0]) in self.flat:
            flat = self.flat[self.value(op.operands[0])]
            if flat.type == op.result.type:
                self.renamed[op.result] = flat
                return []
            return [op.replace(operands=(flat,))]
        return [self.rebuilt(op)]

    def network(self, op: Op, chain: _Chain) -> list[Op]:
        source = chain.source
        while source in self.made and self.made[source].name == "tt.reshape":
            (source,) = self.made[source].operands
        cube = op.result
        assert isinstance(cube.type, Tensor) and chain.compare is not None
        flat = Value(f"{cube.name}.flat", replace(cube.type, shape=(cube.type.size,)), op.loc)
        self.flat[cube] = flat
        name, predicate = chain.compare
        attributes = {
            "steps": tuple((step.bit, step.side, step.turned) for step in chain.steps),
            "compare": name,
            "predicate": predicate,
        }
        if chain.combine is not None:
            attributes["combine"] = chain.combine
        return [
            Op("tile.network", (self.value(source),), (flat,), attributes, loc=op.loc),
            Op("tt.reshape", (flat,), (cube,), loc=op.loc),
        ]


class _Prune(Rewriter):
    """Drops what has no user and no effect."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.dead = dead_ops(function)

    def op(self, op: Op) -> list[Op]:
        return [] if op in self.dead else [self.rebuilt(op)]


def network(kernel: Kernel) -> Kernel:
    """Fold the compare-and-swaps of every function; a kernel without any is returned as it is."""
    if not has_flips(kernel):
        return kernel
    return replace(kernel, functions=tuple(map(_folded, kernel.functions)))


def _folded(function: Function) -> Function:
    finder = _Finder(function)
    if not finder.ends:
        return function
    made = _Fold(finder.ends, finder.made).function(function)
    return _Prune(made).function(made)
