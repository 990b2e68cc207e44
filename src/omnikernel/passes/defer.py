"""Finds atomic additions that a thread may gather for all its programs and make once.

In: a function and its pointer roots. Out: the ops. An atomic instruction costs as much as dozens of plain ones, and one
that adds a tile to the same place in every program (a histogram, the gradient of a weight) is nearly all that its kernel
does. Nobody can tell when such an addition is made, before the launch is over, if

* its result is not used, and its address and mask are the same in every program;
* nothing else in the kernel touches that memory, but other additions of the kind;
* no program can see what another has written, wait for it, or end the launch.

Sums of integers are the same in any order; those of floats come in no fixed order as atomics either.
"""

from __future__ import annotations

from ..ir.ops import SCHEMA, Effect
from ..ir.tile import Function, Op, Value, walk
from ..ir.types import Tensor, element_of
from .alias import Roots

LARGEST = 1 << 14  # elements of a tile: what is gathered should stay in a near cache
KINDS = {"add": "arith.addi", "fadd": "arith.addf"}
_WIDE_FLOATS = ("f32", "f64")  # narrower ones would round each partial sum


def deferred(function: Function, roots: Roots) -> tuple[Op, ...]:
    """The additions of a kernel's entry that can wait, in order; none where one of them cannot."""
    if not roots.disjoint or len(function.body.blocks) != 1:
        return ()
    block = function.body.block
    atomics = [op for op in block.ops if op.name == "tt.atomic_rmw"]
    if not atomics:
        return ()
    others = [op for op in walk(function.body) if op not in atomics]
    used = {v for op in (*others, *atomics) for v in op.operands}
    made_by = {result: op for op in block.ops for result in op.results}
    if not all(_can_wait(op, used, made_by) for op in atomics):
        return ()
    return tuple(atomics) if _unseen(atomics, others, roots) else ()


def _can_wait(op: Op, used: set[Value], made_by: dict[Value, Op]) -> bool:
    type_ = op.result.type
    if op.attributes["kind"] not in KINDS or op.result in used:
        return False
    if not isinstance(type_, Tensor) or type_.size > LARGEST:
        return False
    if op.attributes["kind"] == "fadd" and str(element_of(type_)) not in _WIDE_FLOATS:
        return False
    return all(common_ops(v, made_by) is not None for v in (op.operands[0], *op.operands[2:]))


def common_ops(value: Value, made_by: dict[Value, Op]) -> set[Op] | None:
    """The ops behind a value, where it is the same in every program; None where it may not be."""
    found: set[Op] = set()
    stack = [value]
    while stack:
        op = made_by.get(stack.pop())
        if op is None or op in found:  # a parameter of the kernel
            continue
        if not SCHEMA[op.name].pure or op.regions or op.name == "tt.get_program_id":
            return None
        found.add(op)
        stack.extend(op.operands)
    return found


def _unseen(atomics: list[Op], others: list[Op], roots: Roots) -> bool:
    """Whether nothing else reaches what the atomics add to, and no program sees another's writes."""
    kinds = {(roots.of.get(op.operands[0]), op.attributes["kind"]) for op in atomics}
    written = {root for root, _ in kinds}
    if len(kinds) > len(written):
        return False
    read = set()
    for op in others:
        row = SCHEMA.get(op.name)
        if row is None or op.name == "tt.call" or row.effect & (Effect.ORDER | Effect.HOST):
            return False
        if row.effect & Effect.READ:
            read.add(roots.of.get(op.operands[0]))
        if row.effect & Effect.WRITE:
            root = roots.of.get(op.operands[0])
            if root in written:
                return False
            written.add(root)
    return None not in written | read and not written & read
