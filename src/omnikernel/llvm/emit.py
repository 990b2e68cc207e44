"""The LLVM boundary: a builder of LLVM IR text with fixed lane vectors.

In: calls of `Builder` methods by the lowering. Out: the text of one module (`Module.text`). Text is an order of
magnitude cheaper to make than llvmlite's object model, which also lacks bfloat and vector intrinsics.

A value is an `LValue`: its text and its type. `lanes == 0` is a scalar; any other number a vector of that many lanes.
Every arithmetic method works on both alike. Loops, branches and phis are structured (`loop`, `branch`, `select`), so
no caller places a label by hand except for the blocks of an unstructured function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import masked
from .instructions import Instructions, Section, flatten
from .outline import Loop, outline
from .values import (
    DOUBLE,
    FLOAT,
    I1,
    I8,
    I16,
    I32,
    I64,
    NON_TEMPORAL,
    PTR,
    RARELY,
    SCALAR_BITS,
    LType,
    LValue,
    Module,
    float_bits_text,
    float_text,
)

__all__ = [
    "DOUBLE", "FLOAT", "I1", "I8", "I16", "I32", "I64", "NON_TEMPORAL", "PTR", "SCALAR_BITS",
    "Builder", "LType", "LValue", "Module", "Section", "float_bits_text", "float_text",
]  # fmt: skip

Body = Callable[[LValue, list[LValue]], Sequence[LValue]]


class Builder(Instructions):
    """Writes the body of one function: instructions, loops and branches around them, and what they do to memory."""

    # --- structured control ----------------------------------------------------------------------------------------------

    def loop(
        self,
        low: LValue,
        high: LValue,
        step: int | LValue,
        inits: Sequence[LValue],
        body: Body,
        *,
        unsigned: bool = False,
        name: str = "",
        settled: Callable[[LValue, list[LValue], list[LValue]], LValue] | None = None,
        rare: bool = False,
    ) -> list[LValue]:
        """`for i in range(low, high, step)` with loop-carried values, tested at the top.

        Args:
            low, high: bounds of one integer type; no trip where low >= high.
            step: a positive step.
            inits: initial values of what the loop carries.
            body: called once with the index and the carried values; returns their next values.
            name: the index's name (unique in the function), for callers that must know it beforehand.
            settled: from the index and what was carried before and after a trip, whether to leave with the former.

        Returns:
            The carried values after the loop.
        """
        head, work, done = self.fresh("for"), self.fresh("body"), self.fresh("done")
        before = self.block
        self.loops.append(Loop(head, done, before))
        self.jump(head)
        self.label(head)
        index = self.named(f"%{name or self.fresh('i')}", low.type)
        carried = [self.named(f"%{self.fresh('c')}", v.type) for v in inits]
        phis = [self.reserve() for _ in range(1 + len(inits))]
        go = self.icmp("ult" if unsigned else "slt", index, high)
        self.jump_if(go, work, done, RARELY if rare else "")
        self.label(work)
        after = list(body(index, carried))
        assert [a.type for a in after] == [v.type for v in inits], (after, inits)
        step_value = step if isinstance(step, LValue) else self.integer(low.type, step)
        following = self.add(index, step_value)
        leave = settled(index, carried, after) if settled else None
        self._merge(phis, [index, *carried], ([low, *inits], before), ([following, *after], self.block))
        if leave:
            self.jump_if(leave, done, head)
        else:
            self.jump(head)
        self.label(done)
        return carried

    def repeat(self, extent: int | LValue, step: int, body: Callable[[LValue], None]) -> None:
        """`for i in range(0, extent, step)` in 64 bits, with nothing carried."""

        def carry_nothing(i: LValue, _: list[LValue]) -> Sequence[LValue]:
            body(i)
            return []

        high = extent if isinstance(extent, LValue) else self.integer(I64, extent)
        self.loop(self.integer(I64, 0), high, step, [], carry_nothing)

    def loop_while(
        self,
        inits: Sequence[LValue],
        go: Callable[[list[LValue]], LValue],
        body: Callable[[list[LValue]], Sequence[LValue]],
    ) -> list[LValue]:
        """`values = inits; while go(values): values = body(values)`; the values after the loop."""
        head, work, done = self.fresh("while"), self.fresh("do"), self.fresh("done")
        before = self.block
        self.jump(head)
        self.label(head)
        values = [self.named(f"%{self.fresh('c')}", v.type) for v in inits]
        phis = [self.reserve() for _ in inits]
        self.jump_if(go(values), work, done)
        self.label(work)
        after = body(values)
        self._merge(phis, values, (inits, before), (after, self.block))
        self.jump(head)
        self.label(done)
        return values

    def _merge(
        self,
        places: Sequence[Section],
        values: Sequence[LValue],
        entry: tuple[Sequence[LValue], str],
        latch: tuple[Sequence[LValue], str],
    ) -> None:
        """The phis at a loop's head, from what comes in with the block that it comes from, and from what a trip leaves."""
        for place, value, first, last in zip(places, values, entry[0], latch[0], strict=True):
            sources = f"[ {first.text}, %{entry[1]} ], [ {last.text}, %{latch[1]} ]"
            self.fill(place, f"{value.text} = phi {value.type.text} {sources}")

    def when(self, condition: LValue, body: Callable[[], None]) -> None:
        """`if condition: body()`."""

        def run() -> Sequence[LValue]:
            body()
            return []

        self.branch(condition, run)

    def branch(
        self,
        condition: LValue,
        yes: Callable[[], Sequence[LValue]],
        no: Callable[[], Sequence[LValue]] | None = None,
        *,
        rare: bool = False,
    ) -> list[LValue]:
        """`if condition: yes() else: no()`; both return the same types, which are merged by phis."""
        then, other, done = self.fresh("then"), self.fresh("else"), self.fresh("endif")
        origin = self.block
        self.jump_if(condition, then, other if no else done, RARELY if rare else "")
        self.label(then)
        left = list(yes())
        left_end = self.block
        self.jump(done)
        right: list[LValue] = []
        right_end = origin
        if no:
            self.label(other)
            right = list(no())
            right_end = self.block
            self.jump(done)
        self.label(done)
        assert len(left) == len(right)
        return [self.phi(a.type, [(a, left_end), (b, right_end)]) for a, b in zip(left, right, strict=True)]

    # --- memory ----------------------------------------------------------------------------------------------------------

    def gep(self, scalar: str, pointer: LValue, index: LValue) -> LValue:
        """The address index elements of scalar past pointer (a vector of addresses where either has lanes)."""
        lanes = pointer.type.lanes or index.type.lanes
        operands = f"{pointer.type.text} {pointer.text}, {index.type.text} {index.text}"
        return self.emit(LType("ptr", lanes) if lanes else PTR, f"getelementptr {scalar}, {operands}")

    def load(self, type_: LType, pointer: LValue, align: int, flags: str = "") -> LValue:
        return self.emit(type_, f"load {type_.text}, {pointer.type.text} {pointer.text}, align {align}{flags}")

    def store(self, value: LValue, pointer: LValue, align: int, flags: str = "") -> None:
        self.line(f"store {value}, {pointer}, align {align}{flags}")

    def masked_load(self, type_: LType, pointer: LValue, align: int, mask: LValue, other: LValue) -> LValue:
        """Lanes of mask from consecutive addresses, the others from `other`; masked-off lanes touch no memory.

        LLVM 22's x86 backend loads all lanes of a register whose part of the mask it finds to be zero only while it
        splits a vector over registers. What it may find so is kept from it.
        """
        if masked.by_lane(self, type_, mask):
            return masked.load(self, type_, pointer, align, mask, other)
        if self.known_in_part(mask):  # by xor, which LLVM does not move past an `and` with the constant
            mask = self.xor(mask, self.splat(self.not_(self.hidden_true()), mask.lanes))
        name = f"llvm.masked.load.{type_.suffix}.p0"
        self.module.declare(name, type_, ["ptr", "i32", mask.type, type_])
        return self.emit(type_, f"call {type_} @{name}({pointer}, i32 {align}, {mask}, {other})")

    def masked_store(self, value: LValue, pointer: LValue, align: int, mask: LValue) -> None:
        """Lanes of mask to consecutive addresses; masked-off lanes touch no memory.

        LLVM 22's x86 backend stores too many bytes where a truncated or widened value meets a constant mask of one lane:
        it makes a scalar store of the wider type. Such a mask is kept from becoming a constant.
        """
        type_ = value.type
        if masked.by_lane(self, type_, mask):
            masked.store(self, value, pointer, align, mask)
            return
        whole = type_.bits * type_.lanes >= 128 and (type_.bits == 64 or (type_.is_float and type_.bits == 32))
        if not whole:
            mask = self.and_(mask, self.splat(self.hidden_true(), mask.lanes))
        name = f"llvm.masked.store.{value.type.suffix}.p0"
        self.module.declare(name, "void", [value.type, "ptr", "i32", mask.type])
        self.line(f"call void @{name}({value}, {pointer}, i32 {align}, {mask})")

    def gather(self, type_: LType, pointers: LValue, align: int, mask: LValue, other: LValue) -> LValue:
        name = f"llvm.masked.gather.{type_.suffix}.{pointers.type.suffix}"
        self.module.declare(name, type_, [pointers.type, "i32", mask.type, type_])
        return self.emit(type_, f"call {type_} @{name}({pointers}, i32 {align}, {mask}, {other})")

    def scatter(self, value: LValue, pointers: LValue, align: int, mask: LValue) -> None:
        """Store lane by lane in increasing order where mask; the last of equal addresses wins."""
        name = f"llvm.masked.scatter.{value.type.suffix}.{pointers.type.suffix}"
        self.module.declare(name, "void", [value.type, pointers.type, "i32", mask.type])
        self.line(f"call void @{name}({value}, {pointers}, i32 {align}, {mask})")

    # --- the whole function ----------------------------------------------------------------------------------------------

    def function(self, head: str, attributes: str = "") -> None:
        """Close the function: `head` is its signature, e.g. `define i32 @k(ptr %args)`. Adds it to the module."""
        assert self.closed, f"block {self.block} has no terminator"
        body, loops = outline(
            list(flatten(self.lines)),
            self.loops,
            self.types,
            self.slots,
            attributes,
            f"loop.{len(self.module.functions)}.",
        )
        self.module.functions += [
            *loops,
            "\n".join([f"{head} {attributes}{{".replace("  ", " "), "entry:", *self.slots, *body, "}"]),
        ]
