"""Which argument a pointer comes from, and which arguments a kernel reads and writes.

In: a function of tile IR. Out: `Roots`, the analysis that the schedule and the launcher's checks build on. A pointer
made from anything but an argument (an integer, a loaded pointer, a choice of two) has the root None: it may point
anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..ir.ops import SCHEMA, Effect
from ..ir.tile import Kernel, Op, Region, Value, walk
from ..ir.types import Pointer, Tensor

_ANY = object()
# What gives pointers into what its first operand points into.
_KEEPS = frozenset(
    {"tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.unsplat", "tt.bitcast"}
    | {"tile.flip", "tile.partner"}
)
_BACK = ("scf.for", "scf.while", "tt.call")  # what may pass pointers on to what stands before
_ACCESS = Effect.READ | Effect.WRITE


@dataclass(frozen=True, slots=True)
class Roots:
    """The argument behind each pointer value; `disjoint`: no two arguments of which one is written overlap."""

    of: Mapping[Value, Value | None]
    disjoint: bool

    def may_alias(self, a: Value, b: Value) -> bool:
        """Whether two pointers may reach the same byte."""
        left, right = self.of.get(a), self.of.get(b)
        return not self.disjoint or left is None or right is None or left is right


def _points(value: Value) -> bool:
    """A pointer, or a tile of them."""
    type_ = value.type
    return isinstance(type_.element if isinstance(type_, Tensor) else type_, Pointer)


@dataclass(slots=True)
class _Finder:
    kernel: Kernel
    roots: dict[Value, object] = field(default_factory=dict)
    changed: bool = True

    def join(self, value: Value, root: object) -> None:
        if not _points(value):
            return
        old = self.roots.get(value)
        new = root if old is None or old is root else _ANY
        if new is not old and root is not None:
            self.roots[value] = new
            self.changed = True

    def pass_on(self, sources: tuple[Value, ...], targets: tuple[Value, ...]) -> None:
        for source, target in zip(sources, targets, strict=False):
            self.join(target, self.roots.get(source))

    def visit(self, region: Region) -> None:
        blocks = {block.label: block for block in region.blocks}
        for block in region.blocks:
            for op in block.ops:
                if op.regions or op.name == "tt.call":
                    self.op(op)
                else:
                    self.plain(op)
                for successor in op.successors:
                    self.pass_on(successor.operands, blocks[successor.label].args)

    def op(self, op: Op) -> None:
        if op.name == "scf.for":
            body = op.regions[0].block
            self.pass_on(op.operands[3:], body.args[1:])
            self.visit(op.regions[0])
            for targets in (body.args[1:], op.results):
                self.pass_on(body.terminator.operands, targets)
            self.pass_on(op.operands[3:], op.results)
        elif op.name == "scf.while":
            before, after = op.regions[0].block, op.regions[1].block
            self.pass_on(op.operands, before.args)
            self.visit(op.regions[0])
            self.pass_on(before.terminator.operands[1:], after.args)
            self.visit(op.regions[1])
            self.pass_on(after.terminator.operands, before.args)
            self.pass_on(before.terminator.operands[1:], op.results)
        elif op.name == "scf.if":
            for region in op.regions:
                if region.blocks:
                    self.visit(region)
                    self.pass_on(region.block.terminator.operands, op.results)
        elif op.name == "tt.call":
            callee = self.kernel.function(op.attributes["callee"])
            self.pass_on(op.operands, callee.args)
            self.visit(callee.body)
            for block in callee.body.blocks:
                if block.terminator.name == "tt.return":
                    self.pass_on(block.terminator.operands, op.results)
        else:
            for region in op.regions:
                self.visit(region)
            self.plain(op)

    def plain(self, op: Op) -> None:
        keeps = op.name in _KEEPS
        for result in op.results:
            if _points(result):
                if keeps and _points(op.operands[0]):
                    self.join(result, self.roots.get(op.operands[0]))
                elif op.name == "arith.select":
                    self.join(result, self.roots.get(op.operands[1]))
                    self.join(result, self.roots.get(op.operands[2]))
                else:
                    self.join(result, _ANY)


def find_roots(kernel: Kernel, disjoint: bool) -> Roots:
    """Follow every pointer of a kernel back to an argument of its entry, to a fixed point over loops and branches."""
    finder = _Finder(kernel)
    for arg in kernel.entry.args:
        if isinstance(arg.type, Pointer):
            finder.roots[arg] = arg
    again = any(op.name in _BACK or op.successors for function in kernel.functions for op in walk(function.body))
    while finder.changed:
        finder.changed = False
        finder.visit(kernel.entry.body)
        if not again:  # all are met after what they depend on
            break
    return Roots({value: root if isinstance(root, Value) else None for value, root in finder.roots.items()}, disjoint)


def written_and_read(kernel: Kernel, roots: Roots) -> tuple[frozenset[Value], frozenset[Value]]:
    """The arguments of the entry that the kernel may write, and those it may read.

    Where a pointer of unknown origin is written (or read), every pointer argument counts as written (or read).
    """
    pointers = {arg for arg in kernel.entry.args if isinstance(arg.type, Pointer)}
    written: set[Value] = set()
    read: set[Value] = set()
    for function in kernel.functions:
        for op in walk(function.body):
            row = SCHEMA.get(op.name)
            if row is None or not row.effect & _ACCESS or op.name == "tt.call":
                continue
            root = roots.of.get(op.operands[0])
            touched = {root} if root is not None else pointers
            if row.effect & Effect.WRITE:
                written |= touched
            if row.effect & Effect.READ:
                read |= touched
    return frozenset(written), frozenset(read)
