"""Which tiles are kept in the arena, and when they are computed.

In: a function and its pointer roots. Out: a `Schedule`. Every other tile stays an expression that each sink evaluates
for itself. A tile is kept

* EAGER, at the op that makes it: where what it reads may be overwritten before it is used, or where it is made outside
  a loop, is dear, and is used inside;
* at its FIRST use: where it is dear and used more than once in its own block, so that the first sink stores it in
  passing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import takewhile

from ..ir.ops import SCHEMA, Effect
from ..ir.tile import Block, Function, Op, Region, Value, walk
from ..ir.types import Tensor
from .alias import Roots
from .defer import deferred
from .exchange import kept_between
from .injective import is_injective
from .needed import Needed, needed
from .neighbours import store_groups
from .shared import Shared, shared


class Keep(Enum):
    """When a kept tile is computed."""

    EAGER = auto()
    FIRST = auto()


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the tiles of one function are kept.

    `sinks` maps every lazy tile to the ops that evaluate it.
    """

    keep: dict[Value, Keep]
    packed: frozenset[Value]  # tiles that a dot reads: narrow floats are kept as f32
    sinks: dict[Value, frozenset[Op]]
    groups: dict[Op, tuple[Op, ...]]  # the first of several stores that share a nest -> all of them
    deferred: tuple[Op, ...] = ()  # atomic additions that are made once for all programs of a thread
    repeatable: frozenset[Op] = frozenset()  # tile stores to what the function does not load: twice is as good as once
    shared: Mapping[tuple[Op, int], Shared] = field(default_factory=dict)  # operands of products that stay packed
    needed: Mapping[Op, Needed] = field(default_factory=dict)  # of products: masks of what is seen of them
    stored: Mapping[Op, tuple[Op, ...]] = field(default_factory=dict)  # products -> tiles defined after, and the store


# Rough nanoseconds a vector; what matters is which are more than a load and an add.
DEAR = 8.0
COST = {
    "math.exp": 12,
    "math.exp2": 10,
    "math.log": 14,
    "math.log2": 14,
    "math.sin": 20,
    "math.cos": 20,
    "math.erf": 16,
    "math.sqrt": 6,
    "math.rsqrt": 8,
    "arith.divf": 6,
    "tt.precise_divf": 6,
    "tt.precise_sqrt": 6,
    "arith.divsi": 10,
    "arith.divui": 10,
    "arith.remsi": 10,
    "arith.remui": 10,
    "arith.remf": 60,
    "tt.extern_elementwise": 20,
    "tt.load": 2,
}


_LAZY = {name for name, row in SCHEMA.items() if row.pure and row.kind in ("elementwise", "shape")} | {"tt.load"}


def is_lazy(op: Op) -> bool:
    """Ops whose tiles are evaluated where they are used."""
    if op.name not in _LAZY or not op.results:
        return False
    for result in op.results:  # noqa: SIM110 (several times as fast as `all`)
        if not isinstance(result.type, Tensor):
            return False
    return True


class _Scheduler:
    def __init__(self, function: Function, roots: Roots) -> None:
        self.roots = roots
        self.function = function
        self.place: dict[Op, tuple[Block, int]] = {}
        self.parent: dict[Block, Op | None] = {}
        self.users: dict[Value, list[Op]] = defaultdict(list)
        self.made_by: dict[Value, Op] = {}
        self.keep: dict[Value, Keep] = {}
        self.sinks: dict[Value, frozenset[Op]] = {}
        self.uses: dict[Value, frozenset[Op]] = {}
        self.cost: dict[Value, float] = {}
        self.lazy: dict[Op, None] = {}
        self.loaded: set[Value] = set()  # depends on a load
        self.cuts: set[Value] = set()  # of chains of compare-and-swaps
        self.groups: dict[Op, tuple[Op, ...]] = {}
        self.leader: dict[Op, Op] = {}  # a store of a group -> its first
        self.ops = walk(function.body)
        self.loads = [op.operands[0] for op in self.ops if op.name == "tt.load"]
        self._index(function.body, None)

    def _index(self, region: Region, parent: Op | None) -> None:
        for block in region.blocks:
            self.parent[block] = parent
            for group in store_groups(block, self.roots, self.loads):
                self.groups[group[0]] = group
                self.leader.update(dict.fromkeys(group, group[0]))
            for i, op in enumerate(block.ops):
                self.place[op] = block, i
                for value in op.operands:
                    self.users[value].append(op)
                for successor in op.successors:
                    for value in successor.operands:
                        self.users[value].append(op)
                for result in op.results:
                    self.made_by[result] = op
                for inner in op.regions:
                    self._index(inner, op)

    def ancestors(self, op: Op) -> Iterator[tuple[Block, int]]:
        """The places of an op and of the ops around it, innermost first."""
        current: Op | None = op
        while current is not None:
            block, at = self.place[current]
            yield block, at
            current = self.parent[block]

    def run(self) -> Schedule:
        lazy = self.lazy = dict.fromkeys([op for op in self.ops if is_lazy(op)])
        for op in lazy:
            own = COST.get(op.name, 1)
            behind = sum(self.cost.get(v, 0) for v in set(op.operands) if isinstance(v.type, Tensor))
            loads = not self.loaded.isdisjoint(op.operands)
            if op.name == "tt.load":  # addresses are cheap, unless they are loaded themselves: then this is a gather
                behind = DEAR if loads else 0
            for result in op.results:
                self.cost[result] = min(own + behind, 1000)
                if loads or op.name == "tt.load":
                    self.loaded.add(result)
        self.cuts = kept_between(list(lazy), self.users)
        for op in reversed(lazy):
            for result in op.results:
                self.decide(op, result)
        packed = frozenset(v for op in self.ops if op.name == "tt.dot" for v in op.operands[:2])
        waiting = deferred(self.function, self.roots) if self.function.public else ()
        seen = needed(self.function) if packed else {}
        again = shared(self.function, self.roots) if packed else {}
        repeatable = self._repeatable()
        unread = [product for product, number in again if number and (product, 0) in again]
        stored = {p: ops for p in unread if (ops := self._stored(p)) and ops[-1] in repeatable}
        return Schedule(self.keep, packed, self.sinks, self.groups, waiting, repeatable, again, seen, stored)

    def _stored(self, product: Op) -> tuple[Op, ...]:
        """The store without a mask that is all that becomes of a product, next to it but for tiles defined between."""
        block, at = self.place[product]
        following = block.ops[at + 1 :]
        between = (*takewhile(is_lazy, following),)
        store = following[len(between)]
        alone = self.users[product.result] == [store] and store not in self.leader
        if not alone or store.name != "tt.store" or len(store.operands) != 2 or store.operands[1] != product.result:
            return ()
        return (*between, store)

    def _repeatable(self) -> frozenset[Op]:
        if any(op.attributes.get("isVolatile") for op in self.ops if op.name == "tt.load"):
            return frozenset()
        stores = [op for op in self.ops if op.name == "tt.store" and isinstance(op.operands[0].type, Tensor)]
        return frozenset(
            op for op in stores if not any(self.roots.may_alias(op.operands[0], load) for load in self.loads)
        )

    def decide(self, op: Op, value: Value) -> None:
        sinks: set[Op] = set()  # where what is behind the value is read
        uses: set[Op] = set()  # what evaluates it: a sink, or a kept tile once
        for user in dict.fromkeys(self.users[value]):
            if user not in self.lazy:
                sinks.add(user)
                uses.add(user)
                continue
            kept = False
            for result in user.results:
                how = self.keep.get(result)
                kept = kept or how is not None
                sinks.update((user,) if how is Keep.EAGER else self.sinks[result])
            if kept:
                uses.add(user)
                continue
            for result in user.results:
                uses.update(self.uses[result])
        self.sinks[value], self.uses[value] = frozenset(sinks), frozenset(uses)
        if not sinks:
            return
        block, _ = self.place[op]
        nested = any(self.place[s][0] is not block for s in sinks)
        if value in self.cuts or (op.name == "tt.load" and self.clobbered(op, sinks)):
            self.keep[value] = Keep.EAGER
        elif self.broadcast_dear(value) or (self.worth_keeping(op, value) and self.repeated(op, uses)):
            self.keep[value] = Keep.EAGER if nested else Keep.FIRST

    def worth_keeping(self, op: Op, value: Value) -> bool:
        """Dear to compute again: by itself, or for all that comes together in it (a stage of a sort)."""
        cost = self.cost[value]
        if cost >= DEAR and COST.get(op.name, 1) >= 2:
            return True
        return cost >= 3 * DEAR and len({v for v in op.operands if isinstance(v.type, Tensor)}) > 1

    def broadcast_dear(self, value: Value) -> bool:
        """Dear, and about to be repeated along a dimension it does not have."""
        if self.own_dear(value) and isinstance(value.type, Tensor):
            return any(self._grows(user, value.type.size) for user in self.users[value])
        return False

    def own_dear(self, value: Value) -> bool:
        return COST.get(self.made_by[value].name, 1) >= DEAR - 2 and self.made_by[value].name != "tt.load"

    def _grows(self, user: Op, size: int) -> bool:
        if user.name == "tt.broadcast":
            result = user.result.type
            return isinstance(result, Tensor) and result.size > size
        if user.name in ("tt.expand_dims", "tt.reshape"):
            return any(self._grows(u, size) for u in self.users[user.result])
        return False

    def repeated(self, op: Op, sinks: set[Op]) -> bool:
        """It is evaluated more than once: by several sinks, or in a loop that it does not belong to."""
        if len({self.leader.get(sink, sink) for sink in sinks}) > 1:
            return True
        block, _ = self.place[op]
        for sink in sinks:
            for place, _ in self.ancestors(sink):
                if place is block:
                    break
                around = self.parent[place]
                if around is not None and around.name in ("scf.for", "scf.while"):
                    return True
        return False

    # --- memory ----------------------------------------------------------------------------------------------------------

    def clobbered(self, load: Op, sinks: set[Op]) -> bool:
        """Whether what the load reads may be written between it and a sink."""
        if load.attributes.get("isVolatile"):
            return True
        block, at = self.place[load]
        for sink in sinks:
            places = [(place, i) for place, i in self.ancestors(sink) if place is block]
            if not places:
                if any(self.writes(op, load) for op in self.ops if not op.regions):
                    return True
                continue
            (_, until) = places[0]
            if any(self.writes(op, load) for op in block.ops[at + 1 : until]):
                return True
            last = block.ops[until]
            if last is not sink:
                if self.writes(last, load):
                    return True
            elif self.writes(sink, load) and not self.in_place(load, sink):
                return True
        return False

    def writes(self, op: Op, load: Op) -> bool:
        """Whether an op, or one inside it, may write what a load reads, or orders it against other programs."""
        if op.regions:
            return any(
                self.writes(inner, load) for region in op.regions for block in region.blocks for inner in block.ops
            )
        row = SCHEMA.get(op.name)
        if row is None:
            return True
        if row.effect & Effect.ORDER:
            return True
        return bool(row.effect & Effect.WRITE) and self.roots.may_alias(op.operands[0], load.operands[0])

    def in_place(self, load: Op, store: Op) -> bool:
        """A store of each element where it was loaded from: one step of a nest loads its lanes before it stores."""
        if store.name != "tt.store" or store.operands[0] is not load.operands[0]:
            return False
        return is_injective(store.operands[0], self.made_by) and self._elementwise_path(load.results[0], store)

    def _elementwise_path(self, value: Value, sink: Op) -> bool:
        """Every way from value to the sink keeps each element at its place."""
        seen: set[Op] = set()
        stack = [*self.users[value]]
        while stack:
            user = stack.pop()
            if user is sink or user in seen:
                continue
            seen.add(user)
            if user in self.lazy and any(sink in self.sinks.get(r, ()) for r in user.results):
                if SCHEMA[user.name].kind == "shape" or user.name == "tt.load":
                    return False
                stack.extend(u for r in user.results for u in self.users[r])
        return True


def schedule(function: Function, roots: Roots) -> Schedule:
    """Decide what to keep of one function."""
    return _Scheduler(function, roots).run()
