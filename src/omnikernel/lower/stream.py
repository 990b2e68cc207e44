"""Stores past the caches: what a launch writes is more than the last cache holds.

A plain store first reads the line that it writes to. A non-temporal one does not, and leaves what the caches hold where
it is; but it must fill whole lines, and what fits in a cache is sooner there. So the loop over a store's lanes is written
twice where a kernel waits for memory, and which of the two runs is decided once a thread, from the extents of the grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

from ..ir.tile import Kernel, Op, walk
from ..ir.types import shape_of
from ..llvm.emit import I64, LType, LValue, Section
from .evaluate import pointee_memory
from .function import FunctionLowering
from .lanes import Target

_CHEAP = {"math.absf", "math.absi", "math.floor", "math.ceil", "math.fma", "math.sqrt"}


def waits_for_memory(kernel: Kernel) -> bool:
    """A kernel without products, functions or sorts waits for memory."""
    return not any(
        name in ("tt.dot", "tt.dot_scaled", "tt.extern_elementwise", "tile.network")
        or (name.startswith("math.") and name not in _CHEAP)
        for name in _names(kernel)
    )


@dataclass(slots=True)
class Streaming:
    """Stores of a launch that may go past the caches.

    Attributes:
        entry: a place after the grid is read, before the first program.
        least: bytes that a launch writes beyond which they do.
        at_once: programs that one run of the body is for.
        decided: whether they do, for each of them.
    """

    entry: Section
    least: int
    at_once: int
    decided: list[LValue] = field(default_factory=list)


def may_stream(kernel: Kernel, target: Target) -> bool:
    """Whether any store of a kernel may go past the caches: on x86, where programs do not speak to each other.

    What goes past them may be seen after what is stored later.
    """
    speaks = any(name.startswith("tt.atomic") for name in _names(kernel))
    return target.triple.startswith("x86_64") and waits_for_memory(kernel) and not speaks


def _names(kernel: Kernel) -> Iterator[str]:
    return (op.name for f in kernel.functions for op in walk(f.body))


def streams(fl: FunctionLowering, ops: Sequence[Op]) -> LValue | None:
    """Whether stores of one nest go past the caches, decided at the function's entry; None where they never do.

    Only a store of its own, of every program's, to an array that the kernel does not read: what is read back is in a cache.
    """
    streaming = fl.streaming
    if streaming is None or len(ops) != 1 or fl.trips != 1 or ops[0] not in fl.schedule.repeatable:
        return None
    pointer = ops[0].operands[0]
    bytes_each = prod(shape_of(pointer.type)) * LType(pointee_memory(pointer)).bits // 8 // streaming.at_once
    b = fl.b
    with b.within(streaming.entry):
        programs = b.mul(b.mul(*(b.cast("zext", g, "i64") for g in fl.grid[:2])), b.cast("zext", fl.grid[2], "i64"))
        past = b.icmp("ugt", programs, b.integer(I64, max(1, streaming.least // max(1, bytes_each))))
    streaming.decided.append(past)
    return past


def fence(fl: FunctionLowering) -> None:
    """Before the function returns: what was stored past the caches is seen by other threads."""
    b = fl.b
    if fl.streaming is None or not fl.streaming.decided:
        return
    any_past = reduce(b.or_, fl.streaming.decided)
    b.module.declare("llvm.x86.sse.sfence", "void", [])
    b.when(any_past, lambda: b.line("call void @llvm.x86.sse.sfence()"))
