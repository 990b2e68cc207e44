"""The order in which a launch runs its programs: along memory, where no program can see another.

In: a kernel and its pointer roots. Out: the axes of the grid, the one that runs fastest first.

Triton starts x first, and on a GPU neighbouring programs run at the same time, so it hardly matters which axis walks along
the rows of a matrix. Here one program follows another: with x down the rows, a tile of 64 columns leaves each page of
memory after four cache lines, before the prefetcher has understood. So the axis whose step is the smallest runs fastest. Kernels with products keep
their order: there it decides what stays in the cache, and authors choose it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.ops import SCHEMA, Effect
from ..ir.tile import Kernel, Op, Value, walk
from ..ir.types import Scalar, element_of
from .alias import Roots, written_and_read

AXES = (0, 1, 2)
_SHAPE = frozenset({"tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.trans", "tt.reshape"})

# By how many elements a value changes from one program of an axis to the next; None where only the launch knows.
Steps = Mapping[int, int | None]


def program_order(kernel: Kernel, roots: Roots) -> tuple[int, ...]:
    """The axes of the grid, the fastest first; x, y, z where the order could be seen or nothing speaks against it."""
    if not independent(kernel, roots):
        return AXES
    steps = _Steps(kernel)
    accesses = [(op.name == "tt.store", steps.of(op.operands[0])) for op in _ops(kernel) if _is_access(op)]
    for axis in AXES[1:]:
        near = [stored for stored, found in accesses if _nearer(found, axis)]
        against = any(axis in found and not _nearer(found, axis) for _, found in accesses)
        if any(near) and not against:
            return (axis, *(other for other in AXES if other != axis))
    return AXES


def independent(kernel: Kernel, roots: Roots) -> bool:
    """Whether no program can see what another one does: nothing read is written, nothing waits, nothing is reported."""
    if not roots.disjoint:
        return False
    if any(_is_seen(op) or SCHEMA[op.name].kind == "dot" for op in _ops(kernel)):
        return False
    written, read = written_and_read(kernel, roots)
    return not written & read


def may_wait(kernel: Kernel) -> bool:
    """Whether a program may wait for another one, or says something that is expected in order.

    It can wait only by atomics, or by loads that are volatile: a plain load may be done once for all trips of a loop.
    """
    return any(_is_seen(op) or op.attributes.get("isVolatile") for op in _ops(kernel))


def _is_seen(op: Op) -> bool:
    """Whether others may see when an op is done. Of a call they see what is done in the function."""
    row = SCHEMA.get(op.name)
    return row is None or (op.name != "tt.call" and bool(row.effect & (Effect.ORDER | Effect.HOST)))


def _ops(kernel: Kernel) -> list[Op]:
    return [op for function in kernel.functions for op in walk(function.body)]


def _is_access(op: Op) -> bool:
    return op.name in ("tt.load", "tt.store")


def _nearer(steps: Steps, axis: int) -> bool:
    """Whether an axis moves an access by a known number of elements, and x by more or by an unknown one."""
    step = steps.get(axis)
    if step is None or 0 not in steps:
        return False
    first = steps[0]
    return first is None or abs(first) > abs(step)


class _Steps:
    """Finds the steps of values; what is asked for again is kept."""

    def __init__(self, kernel: Kernel) -> None:
        self.definitions: dict[Value, Op] = {}
        self.carried: dict[Value, Value] = {}  # a loop's argument -> where it starts
        for op in _ops(kernel):
            for result in op.results:
                self.definitions[result] = op
            if op.name == "scf.for":
                self.carried.update(zip(op.regions[0].block.args[1:], op.operands[3:], strict=False))
        self.known: dict[Value, Steps] = {}

    def of(self, value: Value) -> Steps:
        """The steps of a value, without recursion: chains of ops may be longer than Python's stack."""
        stack = [value]
        while stack:
            current = stack[-1]
            waiting = [v for v in self._behind(current) if v not in self.known]
            if current in self.known or not waiting:
                stack.pop()
                self.known.setdefault(current, self._find(current))
            else:
                stack.extend(waiting)
        return self.known[value]

    def _behind(self, value: Value) -> tuple[Value, ...]:
        if value in self.carried:
            return (self.carried[value],)
        op = self.definitions.get(value)
        return op.operands if op and not op.regions else ()

    def _find(self, value: Value) -> Steps:
        if value in self.carried:
            return self.known[self.carried[value]]
        op = self.definitions.get(value)
        if op is None:
            return {}
        if op.name == "tt.get_program_id":
            return {op.attributes["axis"]: 1}
        parts = [self.known[v] for v in self._behind(value)]
        if op.name in ("arith.addi", "arith.subi", "tt.addptr"):
            return _sum(parts[0], parts[1], -1 if op.name == "arith.subi" else 1)
        if op.name == "arith.muli":
            return self._product(op, parts)
        if op.name in _SHAPE or op.name in ("arith.extsi", "arith.extui", "arith.trunci"):
            return parts[0]
        return dict.fromkeys((axis for part in parts for axis in part), None)

    def _product(self, op: Op, parts: list[Steps]) -> Steps:
        varying = [i for i, part in enumerate(parts) if part]
        if not varying:
            return {}
        factor = self._constant(op.operands[1 - varying[0]]) if len(varying) == 1 else None
        return {
            axis: None if factor is None or step is None else step * factor
            for part in parts
            for axis, step in part.items()
        }

    def _constant(self, value: Value) -> int | None:
        op = self.definitions.get(value)
        if op is not None and op.name in _SHAPE:
            return self._constant(op.operands[0])
        if op is None or op.name != "arith.constant":
            return None
        element = element_of(value.type)
        if not (isinstance(element, Scalar) and element.is_integer and op.attributes["value"].is_splat):
            return None
        number: int = op.attributes["value"].integers()[0]
        return number


def _sum(a: Steps, b: Steps, sign: int) -> Steps:
    found = dict(a)
    for axis, step in b.items():
        before = found.get(axis, 0)
        found[axis] = None if step is None or before is None else before + sign * step
    return {axis: step for axis, step in found.items() if step != 0}
