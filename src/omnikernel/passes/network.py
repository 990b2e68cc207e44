"""Fold chains of compare-and-swaps into one op, so that a sort is compiled as a loop over its stages.

`tl.sort` and `tl.topk` unroll about log2(n)^2 / 2 stages, each over the whole tile. A stage is

    y = x ^ xor_sum(x, axis);  r = select((x > y) != right, y, x)        with casts around the xor where x is no integer

with `right` given by the place of an element alone: its own bit of the flipped axis, perhaps turned by a higher bit
(stages whose order alternates). A chain of these, also with the halvings of a top-k (a reduction of an axis of two),
becomes `tile.network`, whose steps say bits instead of axes. This is the first of the passes, since a sort is thousands
of ops before it and one after it. In and out: tile IR; every bit of every value is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir.network import Step
from ..ir.ops import SCHEMA
from ..ir.tile import Block, Function, Kernel, Op, Region, Value, walk
from ..ir.types import I1, Scalar, Tensor, element_of, shape_of
from .dead import dead_ops, dropped, used
from .exchange import CASTS, flipped, has_partners
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
    """One step in the IR: the tile that it reads, and how many times."""

    source: Value
    step: Step
    uses: int
    compare: tuple[str, str] | None = None
    combine: str | None = None


class _Finder:
    """The chains of one function, by the op that makes their last value."""

    def __init__(self, function: Function) -> None:
        self.ops = list(walk(function.body))
        self.made: dict[Value, Op] = {result: op for op in self.ops for result in op.results}
        self.uses = used(self.ops)
        self.sides: dict[Value, tuple[int, int] | None] = {}
        self.chains: dict[Value, _Chain] = {}
        self.ends: dict[Op, _Chain] = {}
        self.region(function.body)

    def region(self, region: Region) -> None:
        for block in region.blocks:
            self.block(block)

    def block(self, block: Block) -> None:
        open_: dict[Value, Op] = {}
        for op in block.ops:
            if op.name == "arith.select":
                found = self.swap(op)
            elif op.name == "tt.reduce":
                found = self.halving(op)
            else:
                for inner in op.regions:
                    self.region(inner)
                continue
            if found is None:
                continue
            before = self.chains[found.source] if found.source in open_ else _Chain(found.source)
            fits = all(
                new is None or old is None or new == old
                for old, new in ((before.compare, found.compare), (before.combine, found.combine))
            )
            if not fits or self.uses[found.source] != found.uses:
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

    def partner(self, value: Value) -> tuple[Value, int, int] | None:
        """x, the axis, and how often x is read for it, where a value is the partner of x."""
        op = self.made.get(value)
        if op is None:
            return None
        if op.name == "arith.xori":
            found = flipped(op, self.made)
            return (*found, 2) if found else None
        inner = self.maker(op.operands[0], "arith.xori") if op.name in CASTS else None
        found = flipped(inner, self.made) if inner else None
        cast = self.maker(found[0], *CASTS) if found else None
        if found is None or cast is None or cast.operands[0].type != value.type:
            return None
        return cast.operands[0], found[1], 1

    def swap(self, op: Op) -> _Found | None:
        condition, y, x = op.operands
        differs = self.maker(condition, "arith.cmpi")
        if differs is None or differs.attributes["predicate"] != "ne" or not _sortable(op.result):
            return None
        partner = self.partner(y)
        if partner is None or partner[0] is not x:
            return None
        for greater, right in (differs.operands, differs.operands[::-1]):
            widened = self.maker(greater, "arith.extui")
            compared = self.maker(widened.operands[0] if widened else greater, "arith.cmpf", "arith.cmpi")
            side = self.side(right) if compared and compared.operands == (x, y) else None
            if compared is None or side is None:
                continue
            bit = len(shape_of(x.type)) - 1 - partner[1]
            others = side[0] ^ 1 << bit
            if others & (others - 1) or (others and others < 1 << bit):
                return None
            return _Found(
                x, Step(bit, *side), partner[2] + 2, compare=(compared.name, compared.attributes["predicate"])
            )
        return None

    def halving(self, op: Op) -> _Found | None:
        blocks = op.regions[0].blocks
        if len(op.operands) != 1 or len(blocks) != 1 or len(blocks[0].ops) != 2:
            return None
        combine, end = blocks[0].ops
        if combine.name == "arith.xori":  # what partners are found by
            return None
        if not _sortable(op.operands[0]) or not isinstance(op.result.type, Tensor):
            return None
        plain = combine.operands == blocks[0].args and combine.results == end.operands and not combine.attributes
        if not plain or SCHEMA[combine.name].kind != "elementwise":
            return None
        (x,) = op.operands
        bit = len(shape_of(x.type)) - 1 - op.attributes["axis"]
        return _Found(x, Step(bit), 1, combine=combine.name)

    def side(self, value: Value) -> tuple[int, int] | None:
        """A tile of 0 and 1 as the parity of some bits of an element's place: (bits, turned)."""
        if value not in self.sides:
            self.sides[value] = self.parity(value)
        return self.sides[value]

    def parity(self, value: Value) -> tuple[int, int] | None:
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
    def __init__(self, finder: _Finder) -> None:
        super().__init__()
        self.ends = finder.ends
        self.made = finder.made
        instead = {op: (self.start(chain),) for op, chain in finder.ends.items()}
        self.dead = dropped(finder.ops, finder.uses, instead)
        self.flat: dict[Value, Value] = {}  # a cube -> the network's own result, which it is a view of

    def start(self, chain: _Chain) -> Value:
        """The tile behind a chain in the shape that it had before."""
        source = chain.source
        while source in self.made and self.made[source].name == "tt.reshape":
            (source,) = self.made[source].operands
        return source

    def block(self, block: Block) -> Block:
        dead = self.dead
        return super().block(Block(block.label, block.args, tuple([op for op in block.ops if op not in dead])))

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
            Op("tile.network", (self.value(self.start(chain)),), (flat,), attributes, loc=op.loc),
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
    if not has_partners(kernel):
        return kernel
    functions = tuple(map(_folded, kernel.functions))
    return kernel if functions == kernel.functions else replace(kernel, functions=functions)


def _folded(function: Function) -> Function:
    finder = _Finder(function)
    if not finder.ends:
        return function
    made = _Fold(finder).function(function)
    return _Prune(made).function(made)
