"""Checks a kernel against the op schema: after the reader, and after each pass.

In: a kernel. Out: nothing, or an error: UnsupportedOp where the kernel uses an op that has no row (the user's kernel
is beyond us), VerifyError where the kernel is malformed (a bug of ours). What is checked: definitions dominate uses;
counts of operands, results and regions; terminators; branches; what regions take and yield; shapes and types.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from ..errors import UnsupportedOp, VerifyError
from .ops import MANY, SCHEMA, Row
from .rules import RULES, Wrong, texts, types_of
from .tile import Block, Function, Kernel, Location, Op, Region, Value

_TYPE = attrgetter("type")


def unsupported(what: str, version: str, loc: Location, kernel: str = "") -> UnsupportedOp:
    """The error for what the backend does not compile; `what` is e.g. "op tt.foo"."""
    release = f" (Triton {version})" if version else ""
    where = f"\n  in kernel {kernel}" if kernel else "\n "
    place = f"{where}, at {loc}" if loc.file else where if kernel else ""
    reason = next((f": {why}" for start, why in _REASONS.items() if what.startswith(f"op {start}")), "")
    return UnsupportedOp(f"{what}{release} is not supported{reason}{place}")


# Beginnings of names of ops that will never be compiled here -> why, and what to do.
_REASONS = {
    "tt.elementwise_inline_asm": "assembly is written for one kind of GPU; write it in Triton, or call libdevice",
    "ttg.": "it describes how a GPU lays out or moves data; write the kernel in Triton, not Gluon",
    "ttng.": "it is an instruction of NVIDIA GPUs; write the kernel in Triton, not Gluon",
    "amdg.": "it is an instruction of AMD GPUs; write the kernel in Triton, not Gluon",
    "nvws.": "warps have no meaning on a CPU; turn warp specialisation off",
}


def verify(kernel: Kernel, stage: str = "", checked: set[Op] | None = None) -> None:
    """Checks a kernel.

    Args:
        kernel: the kernel, as the reader or a pass made it.
        stage: what made it, for messages.
        checked: the ops found right by themselves at an earlier stage, to which those of this one are added.

    Raises:
        UnsupportedOp: for an op that `ops.SCHEMA` has no row for.
        VerifyError: for anything else that is wrong, naming function, op and location.
    """
    for function in kernel.functions:
        _Verifier(kernel, function, stage, set() if checked is None else checked).run()


class _Verifier:
    """Walks one function with the set of values that are visible at each point."""

    def __init__(self, kernel: Kernel, function: Function, stage: str, checked: set[Op]) -> None:
        self.kernel, self.function, self.stage, self.checked = kernel, function, stage, checked
        self.visible: set[Value] = set()
        self.defined: set[Value] = set()
        self.alike: dict[tuple[object, ...], Op] = {}  # ops found right, by name and by the objects that say the rest

    def fail(self, message: str, op: Op | None = None) -> VerifyError:
        stage = f"after {self.stage}: " if self.stage else ""
        place = f": op {op.name} at {op.loc}" if op is not None else ""
        return VerifyError(f"{stage}kernel {self.function.name}{place}: {message}")

    def run(self) -> None:
        function = self.function
        if not function.body.blocks:
            return
        entry = function.body.blocks[0]
        if entry.args != function.args:
            raise self.fail("the entry block's arguments are not the function's")
        if function.arg_attributes and len(function.arg_attributes) != len(function.args):
            raise self.fail(f"{len(function.arg_attributes)} argument attributes for {len(function.args)} arguments")
        self.region(function.body, None)

    def region(self, region: Region, parent: Op | None) -> None:
        blocks = region.blocks
        if not blocks:
            return
        if len(blocks) == 1:
            added: list[Value] = []
            self.block(blocks[0], parent, {}, added)
            self.visible.difference_update(added)
            return
        labels = {block.label: block for block in blocks}
        if len(labels) != len(blocks):
            raise self.fail("two blocks have one label", parent)
        children = _children(blocks)
        open_blocks: list[tuple[int, list[Value]]] = [(0, [])]
        while open_blocks:  # a block and those it dominates see its values, the others do not
            at, added = open_blocks.pop()
            if at < 0:
                self.visible.difference_update(added)
                continue
            self.block(blocks[at], parent, labels, added)
            open_blocks.append((-1, added))
            open_blocks += [(child, []) for child in children[at]]

    def define(self, value: Value, op: Op | None, added: list[Value]) -> None:
        if value in self.defined:
            raise self.fail(f"{value!r} is defined twice", op)
        self.defined.add(value)
        self.visible.add(value)
        added.append(value)

    def block(self, block: Block, parent: Op | None, labels: dict[str, Block], added: list[Value]) -> None:
        for arg in block.args:
            self.define(arg, parent, added)
        if not block.ops:
            raise self.fail(f"block {block.label} is empty", parent)
        last = block.ops[-1]
        visible, defined, checked, alike = self.visible, self.defined, self.checked, self.alike
        for op in block.ops:
            if not visible.issuperset(op.operands):
                operand = next(operand for operand in op.operands if operand not in visible)
                raise self.fail(f"{operand!r} is used where it is not defined", op)
            if op is last or op.name == "tt.call":  # these depend on what is around them
                self.whole(op, op is last, parent, labels)
            elif op.regions or op not in checked:
                # Most ops of a long kernel are made of the same few types and attributes, each one and the same object.
                operands, results = map(_TYPE, op.operands), map(_TYPE, op.results)
                kind: tuple[object, ...] = op.name, id(op.attributes), tuple(map(id, operands)), tuple(map(id, results))
                if op.regions:
                    kind = (*kind, *[id(region.like or region) for region in op.regions])
                if kind not in alike or op.successors:
                    self.whole(op, False, parent, labels)
                    alike[kind] = op
                if not op.regions:
                    checked.add(op)
            for result in op.results:
                if result in defined:
                    self.define(result, op, added)  # says so
                defined.add(result)
                visible.add(result)
                added.append(result)

    def whole(self, op: Op, last: bool, parent: Op | None, labels: dict[str, Block]) -> None:
        """All that is asked of one op, but that its operands are defined."""
        row = SCHEMA.get(op.name)
        if row is None:
            raise unsupported(f"op {op.name}", self.kernel.version, op.loc, self.function.name)
        self.counts(op, row)
        if row.terminator != last:
            raise self.fail(
                "a terminator in the middle of a block" if row.terminator else "the block ends without a terminator", op
            )
        if op.successors:
            self.successors(op, labels)
        if row.terminator:
            self.ending(op, parent)
        for region in op.regions:
            self.region(region, op)
        self.rules(op)

    def counts(self, op: Op, row: Row) -> None:
        operands, results = row.operands, row.results
        right = operands[0] <= len(op.operands) <= operands[1] and results[0] <= len(op.results) <= results[1]
        if right and len(op.regions) == row.regions:
            return
        for what, count, (least, most) in (
            ("operands", len(op.operands), row.operands),
            ("results", len(op.results), row.results),
        ):
            if not least <= count <= most:
                wanted = str(least) if least == most else f"{least} or more" if most == MANY else f"{least} to {most}"
                raise self.fail(f"{count} {what}, expected {wanted}", op)
        if len(op.regions) != row.regions:
            raise self.fail(f"{len(op.regions)} regions, expected {row.regions}", op)

    def successors(self, op: Op, labels: dict[str, Block]) -> None:
        for successor in op.successors:
            target = labels.get(successor.label)
            if target is None:
                raise self.fail(f"no block ^{successor.label} in this region", op)
            for operand in successor.operands:
                if operand not in self.visible:
                    raise self.fail(f"{operand!r} is used where it is not defined", op)
            passed, taken = types_of(successor.operands), types_of(target.args)
            if passed != taken:
                raise self.fail(f"passes ({texts(passed)}) to ^{successor.label}, which takes ({texts(taken)})", op)

    def ending(self, op: Op, parent: Op | None) -> None:
        """The terminator fits what it ends."""
        wanted = _BRANCHES.get(op.name)
        if wanted is not None:
            if len(op.successors) < wanted:
                raise self.fail(f"{len(op.successors)} successors, expected {wanted}", op)
            return
        if op.successors:
            raise self.fail("has successors, but is no branch", op)
        if parent is None:
            if op.name == "tt.return" and types_of(op.operands) != self.function.results:
                raise self.fail(
                    f"returns ({texts(types_of(op.operands))}), expected ({texts(self.function.results)})", op
                )
            allowed: tuple[str, ...] = ("tt.return",)
        else:
            allowed = _ENDINGS.get(parent.name, ())
        if op.name not in allowed and op.name != "ub.unreachable":
            raise self.fail(f"cannot end {'a function' if parent is None else 'a region of ' + parent.name}", op)

    def rules(self, op: Op) -> None:
        row = SCHEMA[op.name]
        try:
            for rule in (RULES.get(row.kind), RULES.get(op.name)):
                if rule is not None:
                    rule(op)
            if op.name == "tt.call":
                self.call(op)
        except Wrong as wrong:
            raise self.fail(str(wrong), op) from None
        except (KeyError, TypeError) as error:
            raise self.fail(f"attribute or type missing: {error}", op) from error

    def call(self, op: Op) -> None:
        callee = op.attributes["callee"]
        try:
            function = self.kernel.function(callee)
        except KeyError:
            raise Wrong(f"no function @{callee}") from None
        if types_of(op.operands) != types_of(function.args) or types_of(op.results) != function.results:
            taken, given = texts(types_of(function.args)), texts(function.results)
            raise Wrong(
                f"@{callee} is ({taken}) -> ({given}), called as ({texts(types_of(op.operands))}) -> ({texts(types_of(op.results))})"
            )


_BRANCHES = {"cf.br": 1, "cf.cond_br": 2, "cf.switch": 1}
_ENDINGS = {
    "scf.for": ("scf.yield",),
    "scf.if": ("scf.yield",),
    "scf.while": ("scf.condition", "scf.yield"),
    "scf.execute_region": ("scf.yield",),
    "scf.index_switch": ("scf.yield",),
    "tt.reduce": ("tt.reduce.return",),
    "tt.scan": ("tt.scan.return",),
    "tt.map_elementwise": ("tt.map_elementwise.return",),
}


def _children(blocks: Sequence[Block]) -> list[list[int]]:
    """The dominator tree: for each block, those it dominates directly. Unreachable blocks hang below the entry.

    By Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
    """
    number = {block.label: i for i, block in enumerate(blocks)}
    targets = [
        [number[s.label] for op in block.ops[-1:] for s in op.successors if s.label in number] for block in blocks
    ]
    order = _postorder(targets)
    rank = {block: i for i, block in enumerate(order)}
    predecessors: list[list[int]] = [[] for _ in blocks]
    for block in order:
        for target in targets[block]:
            predecessors[target].append(block)
    above = {0: 0}
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            left, *others = [p for p in predecessors[block] if p in above]
            for right in others:
                while left != right:
                    if rank[left] < rank[right]:
                        left = above[left]
                    else:
                        right = above[right]  # noqa: PLW2901 (both walk up until they meet)
            if above.get(block) != left:
                above[block], changed = left, True
    children: list[list[int]] = [[] for _ in blocks]
    for block in range(1, len(blocks)):
        children[above.get(block, 0)].append(block)
    return children


def _postorder(targets: Sequence[Sequence[int]]) -> list[int]:
    """The blocks that are reached from the first, each after those reached from it; the first is last."""
    order: list[int] = []
    seen, stack = {0}, [(0, iter(targets[0]))]
    while stack:
        block, left = stack[-1]
        following = next((t for t in left if t not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(targets[following])))
    return order
