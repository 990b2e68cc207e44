"""Evaluates tile values at an index, lane by lane, where a loop nest asks for them.

Tiles are lazy: an op that makes one emits nothing until a sink (a store, a reduction, a dot operand ...) asks for the
value at an index. The evaluator then walks the ops behind it, once an index, and emits every scalar or vector
instruction at the outermost loop level that its operands allow, so that what does not vary in the inner loop is not
computed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.frozen import frozen_value
from ..ir.tile import Constant, Op, Value
from ..ir.types import Pointer, Scalar, Tensor, element_of
from ..llvm.emit import I1, I64, Builder, LType, LValue, Section
from .index import SHAPE_OPS, Index, operand_index, operand_indices, reshape_index, source_index
from .lanes import ELEMENTWISE, Lanes, is_narrow, register_type
from .linear import Linear, add
from .reciprocal import DIVISIONS, by_reciprocal

if TYPE_CHECKING:
    from .function import FunctionLowering

Placed = tuple[Lanes, int]  # a value and the loop level it is known at
# Ops that may wait for each other before the rest is evaluated without recursion. Each takes a few Python frames.
DEEP = 30
_HERE = nullcontext()
SUMS = frozenset(("arith.addi", "arith.subi", "arith.muli", "arith.extsi"))


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A tile in the arena: row-major, elements as in memory (narrow floats as f32 where `wide`).

    With a `panel` the tile is cut into panels of so many columns, each of which is row-major and follows the one before.
    """

    pointer: LValue
    shape: tuple[int, ...]
    element: Scalar | Pointer
    wide: bool = False
    panel: int = 0

    @property
    def strides(self) -> tuple[int, ...]:
        """Distances of neighbours, in elements; along the columns within a panel."""
        strides = [1] * len(self.shape)
        for d in range(len(self.shape) - 2, -1, -1):
            strides[d] = strides[d + 1] * self.shape[d + 1]
        if self.panel:
            strides[-2] = self.panel
        return tuple(strides)

    @property
    def memory(self) -> LType:
        """The LLVM type of an element in memory."""
        return LType("float") if self.wide else memory_type(self.element)


@frozen_value
class Address:
    """Where a tile of pointers points: a root and a linear form in elements, or a vector of addresses.

    `vector` (with its level) replaces the linear form where lanes follow no constant or single run-time stride.
    """

    root: LValue
    root_level: int
    linear: Linear
    vector: tuple[LValue, int] | None = None

    @property
    def uniform(self) -> bool:
        return self.vector is None and self.linear.uniform

    @property
    def level(self) -> int:
        """The innermost level that the address depends on."""
        return max(self.root_level, self.linear.level, self.vector[1] if self.vector else 0)


def memory_type(element: Scalar | Pointer) -> LType:
    """How an element lies in memory: as in a register, but i1 as a byte."""
    register = register_type(element)
    return LType("i8") if register.scalar == "i1" else register


def is_true(value: LValue) -> bool:
    return value.text in ("true", "splat (i1 true)")


class Evaluator:
    """Values of one nest (or of straight-line scalar code, where `flow`)."""

    def __init__(self, function: FunctionLowering, *, flow: bool = False) -> None:
        self.function = function
        self.b: Builder = function.b
        self.flow = flow
        self.sections: list[Section] = [] if flow else [self.b.section()]
        self.memo: dict[Any, tuple[Any, int]] = {}  # what was made, and the level that it is valid at
        # Masks known to hold for every lane of the version of the nest that is being written.
        self.known: frozenset[tuple[Value, Index]] = frozenset()
        self.linear_remainders: frozenset[tuple[Value, Index]] = frozenset()
        self.past_caches = 0  # bytes that stores are aligned to where they go past the caches; 0 where they do not
        self.depth = 0  # of ops that wait for others to be evaluated
        self.known_level = 0  # nothing that relies on such knowledge may stand further out

    # --- places ----------------------------------------------------------------------------------------------------------

    @property
    def level(self) -> int:
        """The innermost level open now."""
        return len(self.sections) - 1 if self.sections else 0

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open a level at this place of the code (the start of a loop body or a branch)."""
        self.sections.append(self.b.section())
        try:
            yield self.level
        finally:
            closed = self.level
            self.sections.pop()
            if closed:
                for key in [key for key, entry in self.memo.items() if entry[1] >= closed]:
                    del self.memo[key]

    def once(self, key: Any, level: int, make: Callable[..., Any], *args: Any) -> Any:
        """What `make` emits of the arguments at a level, made once while that level is open."""
        # What was made further in than it is wanted now does not dominate this use, and is made again.
        found = self.memo.get(key)
        if found is None or found[1] > level:
            with self.at(level):
                found = make(*args), level
            self.memo[key] = found
        return found[0]

    def at(self, level: int) -> AbstractContextManager[None]:
        """Write at a level: at the end of what already stands at the start of that loop's body."""
        return _HERE if self.flow else self.b.within(self.sections[level])

    def bits(self, base: LValue, shift: int, mask: int, left: int, level: int) -> LValue:
        """((base >> shift) & mask) << left, kept."""
        if not mask:
            return self.b.integer(I64, 0)
        key = "bits", base.text, shift, mask, left
        found: LValue = self.once(key, level, _bits, self.b, base, shift, mask, left)
        return found

    def sum(self, a: LValue, b: LValue, level: int) -> LValue:
        found: LValue = self.once(("sum", a.text, b.text), level, self.b.add, a, b)
        return found

    def product(self, a: LValue, b: LValue, level: int) -> LValue:
        found: LValue = self.once(("product", a.text, b.text), level, self.b.mul, a, b)
        return found

    # --- values ----------------------------------------------------------------------------------------------------------

    def evaluate(self, value: Value, index: Index) -> Placed:
        """The value at an index, and the level it was computed at."""
        key = (value, index)
        if self.known and key in self.known:
            return Lanes(Scalar("i1"), LValue("true", I1)), self.known_level
        found = self.memo.get(key)
        if found is not None:
            return found
        binding = self.function.bindings.get(value)
        if isinstance(binding, Lanes):
            return binding, 0
        if isinstance(binding, Buffer):
            found = self.memo[key] = self.read_buffer(binding, index)
            return found
        op = self.function.definitions[value]
        if self.depth >= DEEP:
            self._evaluate_behind(value, index)
        self.depth += 1
        made = EVALUATE.get(op.name, evaluate_elementwise)(self, op, index)
        self.depth -= 1
        if len(op.results) == 1:
            (found,) = made
            self.memo[key] = found
            return found
        for result, placed in zip(op.results, made, strict=True):
            self.memo[result, index] = placed
        return self.memo[key]

    def _evaluate_behind(self, value: Value, index: Index) -> None:
        """Evaluate the elementwise ops behind a value from the far end, since Python's stack is short."""
        stack = [(value, index)]
        while stack:
            current, at = stack[-1]
            waiting = [read for read in self._behind(current, at) if read not in self.memo]
            if waiting:
                stack.append(waiting[0])
                continue
            stack.pop()
            if stack:
                self.evaluate(current, at)

    def _behind(self, value: Value, index: Index) -> list[tuple[Value, Index]]:
        """What an elementwise or a shape op reads that is such an op itself."""
        op = self.function.definitions[value]
        if op.name in SHAPE_OPS:
            reads = [(op.operands[0], self.source(op, index))]
        elif op.name == "tile.partner":
            reads = operand_indices(op, value, index, self.bits, self.sum)
        elif op.name in EVALUATE:
            return []
        else:
            reads = [(v, operand_index(op.results[0], v, index)) for v in op.operands]
        return [read for read in reads if read not in self.known and self.function.bindings.get(read[0]) is None]

    def spread(self, placed: Placed, lanes: int) -> Lanes:
        """A value in every lane, splatted (and a narrow float widened) at the level where it is known."""
        value, level = placed
        if value.lanes == lanes and (level == self.level or not is_narrow(value.type)):
            return value
        key = ("spread", id(value), lanes)
        made: Lanes = self.once(key, level, _spread, self.b, value, lanes)[0]
        return made

    def mask(self, value: Value | None, index: Index) -> tuple[LValue | None, int]:
        """A mask at an index and its level; None where it is known to hold."""
        if value is None:
            return None, 0
        lanes, level = self.evaluate(value, index)
        raw = lanes.raw(self.b)
        return (None if is_true(raw) else raw), level

    def source(self, op: Op, index: Index) -> Index:
        return source_index(op, index, self.bits, self.sum)

    # --- linear forms ----------------------------------------------------------------------------------------------------

    def linear(self, value: Value, index: Index) -> Linear | None:
        """An integer value as a linear form in i64; None where its lanes have no such form."""
        key = ("linear", value, index)
        found = self.memo.get(key)
        if found is None:
            if self.depth >= DEEP:
                self._linear_behind(value, index)
            self.depth += 1
            made = self._linear(value, index)
            self.depth -= 1
            found = self.memo[key] = made, made.level if made else self.level
        form: Linear | None = found[0]
        return form

    def _linear_behind(self, value: Value, index: Index) -> None:
        """Find the linear forms behind a sum from the far end, as `_evaluate_behind` does."""
        stack = [(value, index)]
        while stack:
            current, at = stack[-1]
            waiting = [read for read in self._summands(current, at) if ("linear", *read) not in self.memo]
            if waiting:
                stack.append(waiting[0])
                continue
            stack.pop()
            if stack:
                self.linear(current, at)

    def _summands(self, value: Value, index: Index) -> list[tuple[Value, Index]]:
        """Whose linear forms the form of a value is made of, where that is a sum, a product or a moved one."""
        if self.function.bindings.get(value) is not None:
            return []
        op = self.function.definitions[value]
        if op.name in SHAPE_OPS:
            return [(op.operands[0], self.source(op, index))]
        if op.name not in SUMS or not self.function.varies(value, index):
            return []
        return [(v, operand_index(op.results[0], v, index)) for v in op.operands]

    def _linear(self, value: Value, index: Index) -> Linear | None:
        if self.function.bindings.get(value) is None:
            op = self.function.definitions[value]
            if op.name in SHAPE_OPS:
                return self.linear(op.operands[0], self.source(op, index))
            rule = LINEAR.get(op.name)
            if rule:
                found = rule(self, op, index)
                if found is not None:
                    return found
        if not self.function.varies(value, index):
            return self.uniform_linear(*self.evaluate(value, index))
        return None

    def uniform_linear(self, lanes: Lanes, level: int) -> Linear:
        """A scalar as a linear form."""
        raw = lanes.raw(self.b)
        if not raw.text.startswith("%"):
            return Linear(constant={"true": -1, "false": 0}.get(raw.text) if raw.type == I1 else int(raw.text))  # type: ignore[arg-type]
        with self.at(level):
            wide = self.b.integer_cast(raw, "i64")
        return Linear(terms=((level, wide),))

    def scaled(self, form: Linear, factor: Linear) -> Linear | None:
        """form * factor, where factor is uniform."""
        if not factor.terms:
            by = factor.constant
            terms = tuple([(level, self.product(term, self.b.integer(I64, by), level)) for level, term in form.terms])
            pattern = form.pattern if by == 1 else tuple([p * by for p in form.pattern]) if by else ()
            return Linear(form.constant * by, terms if by else (), pattern, form.scale if by else None, form.lanes_at)
        if form.pattern and form.scale:
            return None
        total, level = self.total(factor)
        terms = tuple((max(at, level), self.product(term, total, max(at, level))) for at, term in form.terms)
        if form.constant:
            terms += ((level, self.product(total, self.b.integer(I64, form.constant), level)),)
        return Linear(0, terms, form.pattern, (level, total) if form.pattern else None, form.lanes_at)

    def total(self, form: Linear) -> tuple[LValue, int]:
        """The uniform part of a linear form as one i64 scalar."""
        value: LValue | None = None
        level = 0
        for at, term in sorted(form.terms, key=lambda t: t[0]):
            level = max(level, at)
            value = term if value is None else self.sum(value, term, level)
        if value is None:
            return self.b.integer(I64, form.constant), 0
        return (self.sum(value, self.b.integer(I64, form.constant), level), level) if form.constant else (value, level)

    # --- addresses -------------------------------------------------------------------------------------------------------

    def address(self, value: Value, index: Index) -> Address:
        """Where a pointer, or a tile of pointers at an index, points."""
        # A pointer that was advanced often is followed from its far end, since Python's stack is short.
        chain: list[tuple[Any, Op, Index]] = []
        key = ("address", value, index)
        found = self.memo.get(key)
        while found is None:
            op = None if value in self.function.bindings else self.function.definitions[value]
            if op is not None and op.name in SHAPE_OPS:
                behind = self.source(op, index)
            elif op is not None and op.name == "tt.addptr":
                behind = operand_index(value, op.operands[0], index)
            else:
                made = self._root(value, index)
                found = self.memo[key] = made, made.level
                break
            chain.append((key, op, index))
            value, index = op.operands[0], behind
            key = ("address", value, index)
            found = self.memo.get(key)
        address: Address = found[0]
        for key, op, index in reversed(chain):
            if op.name == "tt.addptr":
                address = self._advanced(op, index, address)
            self.memo[key] = address, address.level
        return address

    def _root(self, value: Value, index: Index) -> Address:
        """Where a pointer points that is neither moved nor advanced from another one."""
        lanes, level = self.evaluate(value, index)
        raw = lanes.raw(self.b)
        if raw.lanes:
            return Address(raw, level, Linear(), (raw, level))
        return Address(raw, level, Linear())

    def _advanced(self, op: Op, index: Index, base: Address) -> Address:
        offset_index = operand_index(op.results[0], op.operands[1], index)
        offset = self.linear(op.operands[1], offset_index)
        if base.vector is None and offset is not None:
            both = add(base.linear, offset)
            if both is not None:
                return Address(base.root, base.root_level, both)
        element = pointee_memory(op.results[0])
        if base.vector is None and base.linear.uniform:  # a scalar base and a vector of offsets: what gathers take
            pointer, level = self.scalar_pointer(base, element)
        else:
            pointer, level = self.pointers(base, element)
        lanes, offset_level = self.evaluate(op.operands[1], offset_index)
        level = max(level, offset_level)
        with self.at(level):
            wide = self.b.integer_cast(lanes.raw(self.b), "i64")
            moved = self.b.gep(element, pointer, wide)
        return Address(moved, level, Linear(), (moved, level) if moved.lanes else None)

    def scalar_pointer(self, address: Address, element: str) -> tuple[LValue, int]:
        """The uniform part of a linear address: a pointer a loop level, each from the one outside it."""
        pointer, level = address.root, address.root_level
        constants = [(0, self.b.integer(I64, address.linear.constant))] if address.linear.constant else []
        for at, term in sorted([*address.linear.terms, *constants], key=lambda t: t[0]):
            level = max(level, at)
            key = ("gep", element, pointer.text, term.text)
            pointer = self.once(key, level, self.b.gep, element, pointer, term)
        return pointer, level

    def pointers(self, address: Address, element: str) -> tuple[LValue, int]:
        """A vector of addresses, one a lane (or one scalar where all are the same)."""
        if address.vector:
            return address.vector
        pointer, level = self.scalar_pointer(address, element)
        if address.linear.uniform:
            return pointer, level
        pattern = address.linear.pattern
        offsets = self.b.vector(LType("i64", len(pattern)), [str(p) for p in pattern])
        if address.linear.scale:
            scale_level, scale = address.linear.scale
            level = max(level, scale_level)
            with self.at(scale_level):
                offsets = self.b.mul(self.b.splat(scale, len(pattern)), offsets)
        with self.at(level):
            return self.b.gep(element, pointer, offsets), level

    def read_buffer(self, buffer: Buffer, index: Index) -> Placed:
        from .memory import OPEN, load_lanes

        form = self.buffer_form(buffer, index)
        address = Address(buffer.pointer, 0, form)
        # What a loop of this nest writes may be read in it, so a buffer is read where it is asked for.
        return load_lanes(self, address, buffer.element, OPEN, None, wide=buffer.wide)

    def buffer_form(self, buffer: Buffer, index: Index) -> Linear:
        """The offset of an element of a buffer."""
        form = Linear()
        strides, shape = buffer.strides, buffer.shape
        if buffer.panel:
            rows, columns = shape[-2:]
            parts = (columns // buffer.panel, buffer.panel)
            index = (*index[:-1], *reshape_index(index[-1:], (columns,), parts, self.bits, self.sum))
            strides, shape = (*strides[:-1], rows * buffer.panel, 1), (*shape[:-1], *parts)
        for ix, stride, extent in zip(index, strides, shape, strict=True):
            if extent == 1:
                continue
            terms = () if ix.base.text == "0" else ((ix.level, ix.base),)
            part = self.scaled(Linear(0, terms, ix.pattern, None, ix.level), Linear(constant=stride))
            assert part is not None
            both = add(form, part)
            assert both is not None
            form = both
        return form


def _bits(b: Builder, base: LValue, shift: int, mask: int, left: int) -> LValue:
    value = b.lshr(base, b.integer(I64, shift)) if shift else base
    value = b.and_(value, b.integer(I64, mask))
    return b.shl(value, b.integer(I64, left)) if left else value


def _spread(b: Builder, value: Lanes, lanes: int) -> tuple[Lanes, Lanes]:
    """A value in every lane, and the value itself: kept together, it stays alive, and its id its own."""
    return value.with_wide(b).spread(b, lanes), value


def pointee_memory(value: Value) -> str:
    """The LLVM scalar that a pointer steps over."""
    pointer = element_of(value.type)
    assert isinstance(pointer, Pointer)
    return memory_type(element_of(pointer.pointee)).scalar


Evaluate = Callable[[Evaluator, Op, Index], Sequence[Placed]]
EVALUATE: dict[str, Evaluate] = {}
LinearRule = Callable[[Evaluator, Op, Index], "Linear | None"]
LINEAR: dict[str, LinearRule] = {}


def evaluates(*names: str) -> Callable[[Evaluate], Evaluate]:
    """Register how the results of an op are had at an index, each with its level."""

    def register(handler: Evaluate) -> Evaluate:
        EVALUATE.update(dict.fromkeys(names, handler))
        return handler

    return register


def linear_rule(*names: str) -> Callable[[LinearRule], LinearRule]:
    """Register how an integer op acts on linear forms; None where it does not."""

    def register(handler: LinearRule) -> LinearRule:
        LINEAR.update(dict.fromkeys(names, handler))
        return handler

    return register


def evaluate_elementwise(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    """Any op that means the same lane by lane."""
    handler = ELEMENTWISE.get(op.name)
    if handler is None:
        raise ev.function.unsupported(op)
    placed = [ev.evaluate(v, index if isinstance(v.type, Tensor) else ()) for v in op.operands]
    shortcut = _shortcut(ev, op, placed)
    if shortcut:
        return [shortcut]
    level = lanes = 0
    for value, at in placed:
        level, lanes = max(level, at), max(lanes, value.lanes)
    if op.name in DIVISIONS:
        quotient = by_reciprocal(ev, placed, level, lanes)
        if quotient:
            return [quotient]
    operands = [ev.spread(p, lanes) for p in placed]
    with ev.at(level):
        return [(result, level) for result in handler(ev.b, op, operands)]


def _shortcut(ev: Evaluator, op: Op, placed: Sequence[Placed]) -> Placed | None:
    """What masks known to hold leave of `and`, `or` and `select`."""
    if op.name == "arith.select" and is_true(placed[0][0].raw(ev.b)):
        return placed[1]
    if op.name == "arith.andi" and element_of(op.results[0].type) == Scalar("i1"):
        for one, other in ((0, 1), (1, 0)):
            if is_true(placed[one][0].raw(ev.b)):
                return placed[other][0], max(placed[0][1], placed[1][1])
    return None


@evaluates(*SHAPE_OPS)
def evaluate_shape(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    return [ev.evaluate(op.operands[0], ev.source(op, index))]


@evaluates("tt.make_range")
def evaluate_make_range(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    (ix,) = index
    b = ev.b
    start = op.attributes["start"]
    with ev.at(ix.level):
        base = b.integer_cast(ix.base, "i32") if ix.base.text != "0" else b.integer(LType("i32"), 0)
        if ix.uniform:
            return [(Lanes(Scalar("i32"), b.add(base, b.integer(base.type, start)) if start else base), ix.level)]
        offsets = b.vector(LType("i32", len(ix.pattern)), [str(p + start) for p in ix.pattern])
        if ix.base.text == "0":
            return [(Lanes(Scalar("i32"), offsets), ix.level)]
        return [(Lanes(Scalar("i32"), b.add(b.splat(base, len(ix.pattern)), offsets)), ix.level)]


@evaluates("arith.constant")
def evaluate_constant(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    constant: Constant = op.attributes["value"]
    element = element_of(op.results[0].type)
    if constant.is_splat:
        return [(constant_lanes(ev.b, element, constant.elements[0]), 0)]
    return [ev.read_buffer(ev.function.constant_buffer(constant), index)]


def constant_lanes(b: Builder, element: Scalar | Pointer, bits: int) -> Lanes:
    """A scalar constant given by its bit pattern."""
    register = register_type(element)
    if register.scalar in ("float", "double"):
        return Lanes(element, b.real_bits(register, bits))
    if register.scalar == "ptr":
        return Lanes(element, b.zero(register))
    return Lanes(element, b.integer(register, bits))


@evaluates("ub.poison")
def evaluate_poison(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    return [(constant_lanes(ev.b, element_of(op.results[0].type), 0), 0)]


@evaluates("tt.addptr")
def evaluate_addptr(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    address = ev.address(op.results[0], index)
    pointer, level = ev.pointers(address, pointee_memory(op.results[0]))
    return [(Lanes(element_of(op.results[0].type), pointer), level)]


@evaluates("tt.bitcast", "tt.ptr_to_int", "tt.int_to_ptr")
def evaluate_pointer_cast(ev: Evaluator, op: Op, index: Index) -> Sequence[Placed]:
    element = element_of(op.results[0].type)
    source = element_of(op.operands[0].type)
    if not isinstance(element, Pointer) and not isinstance(source, Pointer):
        return evaluate_elementwise(ev, op.replace(name="arith.bitcast"), index)
    lanes, level = ev.evaluate(op.operands[0], index)
    raw = lanes.raw(ev.b)
    to = register_type(element)
    opcode = "bitcast" if to.scalar == raw.type.scalar else "ptrtoint" if raw.type.scalar == "ptr" else "inttoptr"
    with ev.at(level):
        return [(Lanes(element, ev.b.cast(opcode, raw, to.scalar)), level)]
