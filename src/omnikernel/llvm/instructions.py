"""The instructions of one function as text: names, lines and blocks, constants, arithmetic and vectors.

`emit.Builder` adds what is made of several of them: structured control, and memory.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any

from .outline import Loop
from .values import PTR, SCALAR_BITS, LType, LValue, Module, float_bits_text, float_text


def flatten(lines: Iterable[str | Section]) -> list[str]:
    flat: list[str] = []
    mixed: Iterable[Any] = lines
    for kind, group in groupby(mixed, type):  # most lines are text: runs of them are added at once
        if kind is str:
            flat += group
        else:
            for section in group:
                flat += flatten(section.lines)
    return flat


@functools.lru_cache(maxsize=4096)
def _integer(type_: LType, value: int) -> LValue:
    bits = type_.bits
    value &= (1 << bits) - 1
    signed = value - (1 << bits) if value >> (bits - 1) else value
    text = ("true" if value else "false") if bits == 1 else str(signed)
    return LValue(f"splat ({type_.scalar} {text})" if type_.lanes else text, type_)


@functools.lru_cache(maxsize=256)
def _lane_numbers(lanes: tuple[int, ...]) -> str:
    return f"<{len(lanes)} x i32> <" + ", ".join([f"i32 {lane}" for lane in lanes]) + ">"


_SUMS = ("add", "sub")
_Sources = tuple[tuple[LValue, ...], bool]  # what a value is made of, and whether it is a sum


class Section:
    """A place in a function that can be written to later, e.g. the preheader of a loop already begun.

    `block` is the label of the block in which the section ends.
    """

    __slots__ = ("block", "lines")

    def __init__(self, block: str) -> None:
        self.lines: list[str | Section] = []
        self.block = block


class _Within:
    """Writing to the end of a section; a class, since a generator's context costs three times as much."""

    __slots__ = ("into", "saved", "section")

    def __init__(self, into: Instructions, section: Section) -> None:
        self.into = into
        self.section = section

    def __enter__(self) -> None:
        into, section = self.into, self.section
        self.saved = into.lines, into.block, into.closed
        into.lines, into.block, into.closed = section.lines, section.block, False

    def __exit__(self, *_: object) -> None:
        into = self.into
        self.section.block = into.block
        into.lines, into.block, into.closed = self.saved


class Instructions:
    """Writes the body of one function, instruction by instruction.

    `block` is the label of the block being written. Slots (`alloca`) go to the entry block and are promoted to
    registers by LLVM's sroa. `section` leaves a place for code that is found to belong there only later; `within`
    writes to it.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str | Section] = []
        self.slots: list[str] = []
        self.block = "entry"
        self.closed = False  # the current block has its terminator
        self.types: dict[str, LType] = {}  # of all that is defined, by its name
        self.loops: list[Loop] = []
        self._next = 0
        self._true: LValue | None = None
        self._scratch: dict[tuple[int, str], LValue] = {}
        self._sources: dict[str, _Sources] = {}
        self._asked: set[str] = set()  # names of what `known_in_part` has looked at
        self._constants: set[str] = set()  # of those what LLVM may find to be constant, the same in all lanes
        self._partly: set[str] = set()  # of those vectors in which it may know some lanes and not the others

    # --- names, lines, blocks --------------------------------------------------------------------------------------------

    def fresh(self, hint: str = "") -> str:
        self._next += 1
        return f"{hint}.{self._next}" if hint else f"v{self._next}"

    def emit(self, type_: LType, text: str, hint: str = "") -> LValue:
        """Append `%fresh = text` and return it as a value of the given type."""
        self._next += 1  # as `fresh` and `named` do: half of all calls would be of them
        name = f"%{hint}.{self._next}" if hint else f"%v{self._next}"
        self.lines.append(f"  {name} = {text}")
        self.types[name] = type_
        return LValue(name, type_)

    def named(self, name: str, type_: LType) -> LValue:
        """A value that is defined under that name."""
        self.types[name] = type_
        return LValue(name, type_)

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Start a block; the block before must have its terminator."""
        assert self.closed or not self.lines, f"block {self.block} has no terminator"
        self.lines.append(f"{name}:")
        self.block = name
        self.closed = False

    def jump(self, target: str) -> None:
        if not self.closed:
            self.line(f"br label %{target}")
            self.closed = True

    def jump_if(self, condition: LValue, yes: str, no: str, weights: str = "") -> None:
        self.line(f"br i1 {condition.text}, label %{yes}, label %{no}{weights}")
        self.closed = True

    def ret(self, value: LValue | None = None) -> None:
        self.line(f"ret {value}" if value else "ret void")
        self.closed = True

    def unreachable(self) -> None:
        self.line("unreachable")
        self.closed = True

    def reserve(self) -> Section:
        """Reserve a line, to be filled by `fill` (phis whose incoming values are not known yet)."""
        place = Section(self.block)
        self.lines.append(place)
        return place

    def fill(self, place: Section, text: str) -> None:
        place.lines.append(f"  {text}")

    def section(self) -> Section:
        """Leave a place here to be written to by `within`; what follows starts a block of its own.

        So code with branches may be written to the section later without changing the label that phis further down
        name as their predecessor.
        """
        assert not self.closed
        place = self.reserve()
        following = self.fresh("next")
        self.jump(following)
        self.label(following)
        return place

    def within(self, section: Section) -> AbstractContextManager[None]:
        """Write to the end of a section instead of the end of the function."""
        return _Within(self, section)

    def phi(self, type_: LType, incoming: Iterable[tuple[LValue, str]]) -> LValue:
        return self.emit(type_, f"phi {type_} " + ", ".join(f"[ {v.text}, %{label} ]" for v, label in incoming))

    def slot(self, type_: LType | str, hint: str = "slot", align: int = 0) -> LValue:
        """A stack slot in the entry block. Small ones only: tiles live in the arena."""
        name = f"%{self.fresh(hint)}"
        self.slots.append(f"  {name} = alloca {type_}" + (f", align {align}" if align else ""))
        return self.named(name, PTR)

    def scratch(self, type_: LType, purpose: str = "scratch") -> LValue:
        """A stack slot for a vector that is read back at once: all of a size and a purpose share one."""
        key = (type_.bits * type_.lanes // 8, purpose)
        if key not in self._scratch:
            self._scratch[key] = self.slot(f"[{key[0]} x i8]", purpose, 64)
        return self._scratch[key]

    # --- constants -------------------------------------------------------------------------------------------------------

    def integer(self, type_: LType, value: int) -> LValue:
        """An integer constant (wrapped to the width), splatted where the type has lanes."""
        return _integer(type_, value)

    def real(self, type_: LType, value: float) -> LValue:
        """A float or double constant of the nearest value, splatted where the type has lanes."""
        text = float_text(type_.scalar, value)
        return LValue(f"splat ({type_.scalar} {text})" if type_.lanes else text, type_)

    def real_bits(self, type_: LType, bits: int) -> LValue:
        text = float_bits_text(type_.scalar, bits)
        return LValue(f"splat ({type_.scalar} {text})" if type_.lanes else text, type_)

    def vector(self, type_: LType, texts: Sequence[str]) -> LValue:
        """A vector constant of scalar texts, one a lane."""
        return LValue("<" + ", ".join(f"{type_.scalar} {t}" for t in texts) + ">", type_)

    def iota(self, scalar: str, lanes: int, start: int = 0, step: int = 1) -> LValue:
        """<start, start + step, ...>."""
        return self.vector(LType(scalar, lanes), [str(start + step * i) for i in range(lanes)])

    def zero(self, type_: LType) -> LValue:
        return LValue(
            "zeroinitializer"
            if type_.lanes
            else (
                "null"
                if type_.scalar == "ptr"
                else "0x0000000000000000"
                if type_.is_float
                else "false"
                if type_.scalar == "i1"
                else "0"
            ),
            type_,
        )

    def splat(self, value: LValue, lanes: int) -> LValue:
        """The scalar in every lane; a scalar stays one where lanes is 0, a vector of as many lanes is returned as is."""
        if value.lanes == lanes:
            return value
        assert value.lanes == 0, (value, lanes)
        type_ = LType(value.type.scalar, lanes)
        if not value.text.startswith("%") and value.type.scalar != "ptr":
            return LValue(f"splat ({value.type.scalar} {value.text})", type_)
        one = self.emit(type_, f"insertelement {type_.text} poison, {value}, i32 0")
        made = self.emit(type_, f"shufflevector {one}, {type_.text} poison, <{lanes} x i32> zeroinitializer")
        return self._made_of(made, value)

    # --- arithmetic ------------------------------------------------------------------------------------------------------

    def binary(self, opcode: str, a: LValue, b: LValue) -> LValue:
        assert a.type is b.type, (opcode, a, b)
        made = self.emit(a.type, f"{opcode} {a.type.text} {a.text}, {b.text}")
        self._sources[made.text] = (a, b), opcode in _SUMS
        return made

    def add(self, a: LValue, b: LValue) -> LValue:
        return self.binary("add", a, b)

    def sub(self, a: LValue, b: LValue) -> LValue:
        return self.binary("sub", a, b)

    def mul(self, a: LValue, b: LValue) -> LValue:
        return self.binary("mul", a, b)

    def and_(self, a: LValue, b: LValue) -> LValue:
        return self.binary("and", a, b)

    def or_(self, a: LValue, b: LValue) -> LValue:
        return self.binary("or", a, b)

    def xor(self, a: LValue, b: LValue) -> LValue:
        return self.binary("xor", a, b)

    def shl(self, a: LValue, b: LValue) -> LValue:
        return self.binary("shl", a, b)

    def lshr(self, a: LValue, b: LValue) -> LValue:
        return self.binary("lshr", a, b)

    def ashr(self, a: LValue, b: LValue) -> LValue:
        return self.binary("ashr", a, b)

    def fadd(self, a: LValue, b: LValue) -> LValue:
        return self.binary("fadd", a, b)

    def fsub(self, a: LValue, b: LValue) -> LValue:
        return self.binary("fsub", a, b)

    def fmul(self, a: LValue, b: LValue) -> LValue:
        return self.binary("fmul", a, b)

    def fdiv(self, a: LValue, b: LValue) -> LValue:
        return self.binary("fdiv", a, b)

    def fneg(self, a: LValue) -> LValue:
        return self.emit(a.type, f"fneg {a}")

    def not_(self, a: LValue) -> LValue:
        return self.xor(a, self.integer(a.type, -1))

    def fma(self, a: LValue, b: LValue, c: LValue) -> LValue:
        """a * b + c with one rounding."""
        return self.intrinsic("fma", a.type, a, b, c)

    def icmp(self, predicate: str, a: LValue, b: LValue) -> LValue:
        assert a.type is b.type, (predicate, a, b)
        return self._made_of(self.emit(a.type.of("i1"), f"icmp {predicate} {a.type.text} {a.text}, {b.text}"), a, b)

    def fcmp(self, predicate: str, a: LValue, b: LValue) -> LValue:
        assert a.type == b.type, (predicate, a, b)
        return self._made_of(self.emit(a.type.of("i1"), f"fcmp {predicate} {a}, {b.text}"), a, b)

    def select(self, condition: LValue, a: LValue, b: LValue) -> LValue:
        """a where condition, else b; a scalar condition selects whole vectors."""
        assert a.type == b.type, (a, b)
        type_ = a.type.text
        made = self.emit(a.type, f"select {condition}, {type_} {a.text}, {type_} {b.text}")
        return self._made_of(made, condition, a, b)

    def cast(self, opcode: str, a: LValue, scalar: str) -> LValue:
        """zext, sext, trunc, fpext, fptrunc, sitofp, uitofp, bitcast, ptrtoint, inttoptr to as many lanes of scalar."""
        type_ = a.type.of(scalar)
        return (
            a
            if type_ == a.type and opcode in ("zext", "sext", "trunc", "bitcast", "fpext", "fptrunc")
            else self._made_of(self.emit(type_, f"{opcode} {a.type.text} {a.text} to {type_.text}"), a)
        )

    def integer_cast(self, a: LValue, scalar: str, *, signed: bool = True) -> LValue:
        """An integer resized to another width."""
        to, from_ = SCALAR_BITS[scalar], a.type.bits
        return self.cast("trunc" if to < from_ else "sext" if signed else "zext", a, scalar)

    def intrinsic(self, name: str, type_: LType, *args: LValue) -> LValue:
        """Call `llvm.<name>.<type>` overloaded on its result type alone."""
        return self.call(f"llvm.{name}.{type_.suffix}", type_, *args)

    def call(self, name: str, type_: LType, *args: LValue) -> LValue:
        """Call a function or intrinsic by its full name, declaring it."""
        if name not in self.module.declarations:
            self.module.declare(name, type_, [a.type for a in args])
        return self._made_of(self.emit(type_, f"call {type_.text} @{name}({', '.join(map(str, args))})"), *args)

    # --- vectors ---------------------------------------------------------------------------------------------------------

    def extract(self, vector: LValue, lane: int) -> LValue:
        return self.emit(LType(vector.type.scalar), f"extractelement {vector}, i32 {lane}")

    def insert(self, vector: LValue, value: LValue, lane: int) -> LValue:
        return self.emit(vector.type, f"insertelement {vector}, {value}, i32 {lane}")

    def shuffle(self, a: LValue, b: LValue | None, lanes: Sequence[int]) -> LValue:
        """Lanes of a (0 ..) and b (a.lanes ..) in the given order."""
        type_ = LType(a.type.scalar, len(lanes))
        other = b if b else LValue("poison", a.type)
        made = self.emit(type_, f"shufflevector {a}, {other}, {_lane_numbers(tuple(lanes))}")
        return self._made_of(made, a, b or a)

    def hidden_true(self) -> LValue:
        """An i1 that is true, and that LLVM does not know to be."""
        if self._true is None:
            self._true = self.slot("[1 x i8]", "true")
            self.slots.append(f"  store i8 1, ptr {self._true.text}")
        byte = self.emit(LType("i8"), f"load volatile i8, {self._true}, align 1")
        return self.icmp("ne", byte, self.integer(byte.type, 0))

    def _made_of(self, made: LValue, *sources: LValue, total: bool = False) -> LValue:
        """The value, noted for `known_in_part` as made of others.

        Args:
            total: a sum, of which nothing is known where something unknown is added.
        """
        self._sources[made.text] = sources, total
        return made

    def known_in_part(self, value: LValue) -> bool:
        """Whether LLVM may find some lanes of a vector that is computed to be constant, and not the others."""
        constants, partly = self._constants, self._partly
        stack = [value.text]
        while stack:  # from the far end, since Python's stack is short
            text = stack[-1]
            made_of = None if text in self._asked else self._sources.get(text)
            if made_of is None:
                stack.pop()
                continue
            behind = [source.text for source in made_of[0]]
            waiting = [other for other in behind if other in self._sources and other not in self._asked]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            self._asked.add(text)
            uneven = any(other[0] == "<" or other in partly for other in behind)
            unknown = any(other[0] == "%" and other not in constants and other not in partly for other in behind)
            if not unknown:
                (partly if uneven else constants).add(text)
            elif uneven and not made_of[1]:
                partly.add(text)
        return value.text in partly
