"""Which operands of products may be found packed already: by an earlier trip of a loop, or by the program before.

In: a function and its pointer roots. Out: for each operand of a `tt.dot` that is computed from scalars and from memory
which the kernel never writes, these scalars. Where they are what they were when the operand was packed, so is the tile:
programs that follow each other mostly share the tiles of one operand, and what a loop does not change is packed once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.ops import SCHEMA, Effect
from ..ir.tile import Function, Op, Region, Value, walk
from ..ir.types import Tensor
from .alias import Roots

MOST_SCALARS = 6  # more cost too much to compare
_INVARIANT = frozenset({"arith.constant", "tt.get_num_programs"})


@dataclass(frozen=True, slots=True)
class Shared:
    """What decides an operand: scalars besides the kernel's arguments, and the loop whose trips change it, if one does."""

    scalars: tuple[Value, ...]
    loop: Op | None


def shared(function: Function, roots: Roots) -> dict[tuple[Op, int], Shared]:
    """What decides the operands of products, by product and number of the operand."""
    ops = list(walk(function.body))
    writers = [op for op in ops if (row := SCHEMA.get(op.name)) is None or row.effect & (Effect.WRITE | Effect.ORDER)]
    if not function.public or any(op.name == "tt.call" for op in ops):
        return {}
    if any(op.name != "tt.store" for op in writers):
        return {}
    finder = _Finder(frozenset(function.args), roots, [op.operands[0] for op in writers])
    finder.index(function.body, ())
    found: dict[tuple[Op, int], Shared] = {}
    for op in ops:
        for number in (0, 1) if op.name == "tt.dot" else ():
            scalars = finder.scalars(op.operands[number])
            around = finder.around_op[op]
            if scalars is None or len(scalars) > MOST_SCALARS:
                continue
            changes = bool(around) and any(around[-1] in finder.around.get(v, ()) for v in scalars)
            if changes and around[-1].name != "scf.for":
                continue
            found[op, number] = Shared(tuple(scalars), around[-1] if changes else None)
    return found


class _Finder:
    def __init__(self, arguments: frozenset[Value], roots: Roots, written: list[Value]) -> None:
        self.arguments = arguments
        self.roots = roots
        self.written = written
        self.made_by: dict[Value, Op] = {}
        self.around: dict[Value, tuple[Op, ...]] = {}  # the ops whose regions a value is made in, the outermost first
        self.around_op: dict[Op, tuple[Op, ...]] = {}

    def index(self, region: Region, around: tuple[Op, ...]) -> None:
        for block in region.blocks:
            self.around.update(dict.fromkeys(block.args, around))
            for op in block.ops:
                self.around_op[op] = around
                for result in op.results:
                    self.made_by[result] = op
                    self.around[result] = around
                for inner in op.regions:
                    self.index(inner, (*around, op))

    def scalars(self, tile: Value) -> list[Value] | None:
        """The scalars that decide a tile; None where something else does, too."""
        found: dict[Value, None] = {}
        seen: set[Value] = set()
        stack = [tile]
        while stack:
            value = stack.pop()
            if value in seen or value in self.arguments:
                continue
            seen.add(value)
            op = self.made_by.get(value)
            if not isinstance(value.type, Tensor):
                if op is None or op.name not in _INVARIANT:
                    found[value] = None
                continue
            if op is None or not self._same_again(op):
                return None
            stack += op.operands
        return list(found)

    def _same_again(self, op: Op) -> bool:
        """Whether a tile op gives the same for the same operands, at any time of a launch."""
        if op.name == "tt.load":
            unwritten = not any(self.roots.may_alias(op.operands[0], pointer) for pointer in self.written)
            return unwritten and not op.attributes.get("isVolatile")
        row = SCHEMA.get(op.name)
        return row is not None and row.pure and row.kind in ("elementwise", "shape")
