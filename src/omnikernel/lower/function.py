"""Lowers the ops of a function in order: scalars at once, tiles when a sink asks for them.

`STATEMENTS` holds the handlers of everything that is not a lazy tile: sinks, control flow, program ids. A handler sees
the `FunctionLowering` and its op; what it binds (`bind`) is what later ops find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from ..errors import UnsupportedOp
from ..ir.ops import SCHEMA
from ..ir.tile import Block, Constant, Kernel, Op, Region, Value, walk
from ..ir.types import Pointer, Scalar, Tensor, element_of, shape_of
from ..llvm.emit import I32, I64, PTR, Builder, LType, LValue, Section
from ..passes.schedule import Keep, Schedule, is_lazy
from .evaluate import Buffer, Evaluator, evaluate_elementwise, memory_type
from .index import Add, Bits, Index, operand_index, operand_indices, reshape_index, symbolic_add, symbolic_bits, uniform
from .lanes import Lanes, is_narrow
from .memory import OPEN, store_at, store_lanes
from .nest import BYTE_LANES, Nest, choose_lane_dim, is_cube, moves_bytes, shape_index
from .shape import block_lanes
from .transpose import crosses, materialise_turned, turns

if TYPE_CHECKING:
    from .stream import Streaming

Statement = Callable[["FunctionLowering", Op], None]
STATEMENTS: dict[str, Statement] = {}


def statement(*names: str) -> Callable[[Statement], Statement]:
    """Register the handler of ops that are lowered where they stand."""

    def register(handler: Statement) -> Statement:
        STATEMENTS.update(dict.fromkeys(names, handler))
        return handler

    return register


@dataclass(slots=True)
class Arena:
    """Scratch memory of one program: a stack of tiles, whose highest mark is what a launch allocates."""

    top: int = 0
    highest: int = 0

    def take(self, size: int) -> int:
        """The offset of `size` bytes, 64-byte aligned."""
        at = self.top
        self.top += (size + 63) & ~63
        self.highest = max(self.highest, self.top)
        return at


@dataclass(slots=True)
class Frame:
    """What a function that is being lowered returns to: the kernel's own end, or the place of a call."""

    exit: str
    buffers: dict[int, Buffer] = field(default_factory=dict)  # of the results that are tiles
    returns: list[tuple[list[Lanes | None], str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Trip:
    """The trip of a counting loop: its index, the loop's end and step, in 64 bits."""

    index: LValue
    high: LValue
    step: LValue

    def is_last(self, b: Builder) -> LValue:
        """Whether no other follows. The distance to the end is positive, and fits 64 bits without a sign."""
        return b.icmp("ule", b.sub(self.high, self.index), self.step)


@dataclass(slots=True)
class Jump:
    """One way into a block: the scalars handed to its arguments, by their positions, and the label it comes from."""

    scalars: dict[int, LValue]
    origin: str


@dataclass(slots=True)
class BlockContext:
    """The blocks of the function body that is being lowered."""

    region: Region
    labels: dict[str, str]
    entries: dict[str, list[Jump]]
    buffers: dict[str, dict[int, Buffer]]


class FunctionLowering:
    """The state of lowering one kernel entry (and the functions that it calls, in place)."""

    def __init__(
        self, b: Builder, kernel: Kernel, schedules: dict[str, Schedule], arena: LValue, vector_bits: int
    ) -> None:
        self.b = b
        self.kernel = kernel
        self.schedules = schedules
        self.schedule = schedules[kernel.entry.name]
        self.arena = Arena()
        self.lasting_pointer = arena
        self.arena_pointer = b.named("%stack", PTR) if self.schedule.shared else arena  # behind what lasts
        self.lasting_bytes = 0
        self.preheaders: dict[Op, Section] = {}  # places before the first trip of a loop
        self.vector_bits = vector_bits
        self.dummy = b.slot("[64 x i8]", "dummy", 64)
        self.bindings: dict[Value, Lanes | Buffer] = {}
        self.constant_of: dict[Value, int] = {}
        self.definitions: dict[Value, Op] = {}
        self.pending: list[Value] = []  # kept at their first use
        self.in_place: dict[Op, Buffer] = {}  # where a dot adds to what a loop carries
        self.trip: Trip | None = None  # of the innermost counting loop
        self.made: set[Op] = set()  # stores that the product before them has made
        self.deferred: dict[Op, Value] = {}  # atomic additions that wait, with the tile that they are gathered in
        self.frames: list[Frame] = []
        self.blocks: list[BlockContext] = []
        self.calls: list[str] = []
        self.programs: tuple[LValue, ...] = ()
        self.grid: tuple[LValue, ...] = ()
        self.asserts: list[str] = []
        self.fault: LValue | None = None
        self.cost = 0.0
        self.trips = 1.0
        self.prefetches = False  # loops ask for what they read next
        self.multiplies = False  # by a reciprocal instead of dividing
        self.streaming: Streaming | None = None  # where stores may go past the caches
        self.products, self.product_tile = _products(kernel)
        self._varies: dict[tuple[Value, Index], bool] = {}
        self._constants: dict[Constant, Buffer] = {}

    # --- errors ----------------------------------------------------------------------------------------------------------

    def unsupported(self, op: Op, why: str = "") -> UnsupportedOp:
        """The error for an op that cannot be lowered, with the user's own line."""
        version = f" (Triton {self.kernel.version})" if self.kernel.version else ""
        reason = f": {why}" if why else " by the CPU backend"
        return UnsupportedOp(
            f"{op.loc}: in kernel {self.kernel.entry.name}: op {op.name}{version} is not supported{reason}"
        )

    # --- values ----------------------------------------------------------------------------------------------------------

    def definition(self, value: Value) -> Op:
        """The op that makes a lazy tile."""
        return self.definitions[value]

    def bind(self, value: Value, binding: Lanes | Buffer) -> None:
        self.bindings[value] = binding

    def scalar(self, value: Value) -> Lanes:
        """A scalar that has been computed."""
        binding = self.bindings[value]
        assert isinstance(binding, Lanes), value
        return binding

    def raw(self, value: Value) -> LValue:
        return self.scalar(value).raw(self.b)

    def varies(self, value: Value, index: Index) -> bool:
        """Whether the lanes of a value at an index may differ."""
        if uniform(index):
            return False
        known = self._varies
        asked = value, index
        answer = known.get(asked)
        if answer is not None:
            return answer
        stack = [asked]
        while stack:  # without recursion: chains of ops may be longer than Python's stack
            key = stack[-1]
            if key not in known:
                found = self._varies_itself(*key)
                if isinstance(found, bool):
                    known[key] = found
                else:
                    varies, waiting = False, None
                    for read in found:
                        if not uniform(read[1]):
                            answer = known.get(read)
                            varies |= bool(answer)
                            if answer is None and waiting is None:
                                waiting = read
                    if waiting is not None and not varies:
                        stack.append(waiting)
                        continue
                    known[key] = varies
            stack.pop()
        return known[asked]

    def _varies_itself(self, value: Value, index: Index) -> bool | list[tuple[Value, Index]]:
        """Whether a value varies, or else what decides it."""
        binding = self.bindings.get(value)
        if isinstance(binding, Lanes):
            return False
        if isinstance(binding, Buffer):
            return any(not ix.uniform and extent > 1 for ix, extent in zip(index, binding.shape, strict=True))
        op = self.definitions[value]
        if op.name == "tt.make_range":
            return True
        if op.name == "arith.constant":
            return not op.attributes["value"].is_splat
        if op.name in ("tt.join", "tt.cat") and not index[-1 if op.name == "tt.join" else 0].uniform:
            return True
        return operand_indices(op, value, index, symbolic_bits, symbolic_add)

    def constant_buffer(self, constant: Constant) -> Buffer:
        """A dense constant as read-only memory."""
        if constant not in self._constants:
            element = element_of(constant.type)
            memory = memory_type(element)
            integer = LType(f"i{memory.bits}")
            texts = ", ".join(f"{integer} {self.b.integer(integer, e).text}" for e in constant.elements)
            name = self.b.module.constant(
                f"dense.{len(self.b.module.globals)}", f"[{len(constant.elements)} x {integer}] [{texts}]"
            )
            self._constants[constant] = Buffer(LValue(name, PTR), shape_of(constant.type), element)
        return self._constants[constant]

    # --- the arena -------------------------------------------------------------------------------------------------------

    def buffer(self, shape: Sequence[int], element: Scalar | Pointer, *, wide: bool = False) -> Buffer:
        """A new tile in the arena. It lives until the end of the region that is being lowered."""
        size = LType("float").bits // 8 if wide else memory_type(element).bits // 8
        for extent in shape:
            size *= extent
        offset = self.arena.take(size)
        pointer = self.b.gep("i8", self.arena_pointer, self.b.integer(I64, offset))
        return Buffer(pointer, tuple(shape), element, wide)

    def lasting(self, size: int) -> LValue:
        """Memory that stays as it is from program to program, 64-byte aligned, for a multiple of 64 bytes."""
        name = self.b.fresh("lasting")
        self.b.slots.append(f"  %{name} = getelementptr i8, {self.lasting_pointer}, i64 {self.lasting_bytes}")
        self.lasting_bytes += size
        return self.b.named(f"%{name}", PTR)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A region of its own: its tiles are dropped at its end."""
        top, pending = self.arena.top, self.pending
        self.pending = []
        try:
            yield
        finally:
            self.arena.top, self.pending = top, pending

    # --- nests -----------------------------------------------------------------------------------------------------------

    def nest(
        self,
        shape: Sequence[int],
        values: Sequence[Value],
        step: Callable[[Evaluator, Index], None],
        *,
        stores: Sequence[Value] = (),
        masks: Sequence[Value] = (),
        scalar: bool = False,
        repeatable: bool = False,
        masked: bool = False,
        lane_dim: int | None = None,
        least_lanes: int = 0,
        streams: LValue | None = None,
    ) -> None:
        """Run a step for every chunk of lanes of a shape.

        Args:
            shape: the nest's extents.
            values: tiles of that shape (or scalars) that the step evaluates.
            step: emits one step.
            stores: the pointer tiles that the step stores through.
            masks: the masks of its stores.
            scalar: element by element, without lanes.
            repeatable: a step may run twice.
            lane_dim: the dimension that lanes run along, where it has been chosen; no matter for a cube.
            least_lanes: of a chunk, as far as the extent allows.
            masked: a step does nothing where all of the masks are off.
            streams: whether the nest's store goes past the caches; None where it never does.
        """
        ev = Evaluator(self)
        cube = tuple(shape)
        flat = not scalar and is_cube(cube)
        if flat:  # lanes run along all of it
            shape = (prod(cube),)

        def place(index: Index, bits: Bits, add: Add) -> Index:
            return reshape_index(index, shape, cube, bits, add) if flat else index

        def at(items: Sequence[Value]) -> Callable[[Index], list[tuple[Value, Index]]]:
            def roots(index: Index) -> list[tuple[Value, Index]]:
                where = place(index, symbolic_bits, symbolic_add)
                return [(v, where if shape_of(v.type) else ()) for v in items]

            return roots

        everything = [*values, *stores, *masks]
        if scalar or flat:
            dim = -1 if scalar else 0
        else:
            dim = choose_lane_dim(ev, shape, at(everything), at(stores)) if lane_dim is None else lane_dim
        aligned = at(stores[:1]) if repeatable and not flat else None
        nest = Nest(ev, shape, dim, at(everything), at(masks), aligned, masked=masked, streams=streams)
        if dim >= 0:
            least_lanes = max(least_lanes, block_lanes(self, everything) if flat else 0)
            nest.lanes = min(shape[dim], max(nest.lanes, least_lanes))
        index = shape_index(shape)
        order = [d for d in range(len(shape)) if d != dim] + ([dim] if dim >= 0 else [])
        before = self.b._next
        nest.for_each(order, index, lambda: step(ev, place(tuple(index), ev.bits, ev.sum)))
        self.cost += self.trips * (2 + 0.06 * (self.b._next - before) * prod(shape) / max(1, nest.lanes))

    def materialise(self, value: Value, into: Buffer | None = None) -> Buffer:
        """Compute a lazy tile into a buffer, in a nest of its own."""
        type_ = value.type
        assert isinstance(type_, Tensor)
        buffer = into or self.buffer(type_.shape, type_.element, wide=self.is_wide(value))
        self.settle([value], type_.shape, keep=False, skip=value)
        dim = -1
        if not is_cube(type_.shape):
            dim = choose_lane_dim(Evaluator(self, flow=True), type_.shape, lambda index: [(value, index)], lambda _: [])
        if turns(self, value, dim):
            materialise_turned(self, value, buffer, dim)
        else:
            least = BYTE_LANES if moves_bytes(self, value) else 0

            def step(ev: Evaluator, index: Index) -> None:
                self.keep_lanes(ev, buffer, value, index)

            self.nest(type_.shape, [value], step, lane_dim=dim, least_lanes=least)
        return buffer

    def is_wide(self, value: Value) -> bool:
        """A narrow float that a dot reads is kept as f32."""
        return value in self.schedule.packed and is_narrow(element_of(value.type))

    def keep_lanes(self, ev: Evaluator, buffer: Buffer, value: Value, index: Index) -> None:
        """Store the lanes of a tile at an index into its buffer."""
        from .evaluate import Address

        address = Address(buffer.pointer, 0, ev.buffer_form(buffer, index))
        store_lanes(ev, address, ev.evaluate(value, index), OPEN, buffer.memory, wide=buffer.wide)

    def settle(
        self, values: Sequence[Value], shape: Sequence[int], *, keep: bool = True, skip: Value | None = None
    ) -> list[tuple[Value, Buffer]]:
        """Before a sink: kept tiles that it is the first to use.

        Those that the sink's own nest meets element by element are returned, to be stored in passing; all others are
        computed here.
        """
        in_passing: list[tuple[Value, Buffer]] = []
        for value in [v for v in self.pending if v is not skip]:
            if value not in self.pending or value in self.bindings:
                continue
            reach = self._reach(value, values)
            if reach is None:
                continue
            self.pending.remove(value)
            if keep and reach and shape_of(value.type) == tuple(shape):
                assert isinstance(value.type, Tensor)
                in_passing.append((value, self.buffer(shape, value.type.element, wide=self.is_wide(value))))
            else:
                self.bind(value, self.materialise(value))
        return in_passing

    def _reach(self, value: Value, roots: Sequence[Value]) -> bool | None:
        """Whether a sink's operands use a tile: True at its own place only, False elsewhere too, None not at all."""
        found: bool | None = None
        seen: set[tuple[Value, bool]] = set()
        stack = [(root, True) for root in roots]
        while stack:
            current, direct = stack.pop()
            if (current, direct) in seen:
                continue
            seen.add((current, direct))
            if current is value:
                found = direct if found is None else (found and direct)
                continue
            if current in self.bindings or current not in self.definitions:
                continue
            op = self.definitions[current]
            moves = SCHEMA[op.name].kind == "shape" and op.name != "tt.make_range"
            stack.extend((operand, direct and not moves) for operand in op.operands)
        return found

    def finish(self, kept: Sequence[tuple[Value, Buffer]]) -> None:
        """After a sink's nest: what it stored in passing is now in its buffer."""
        for value, buffer in kept:
            self.bind(value, buffer)

    # --- blocks ----------------------------------------------------------------------------------------------------------

    def ops(self, block: Block) -> None:
        """Lower the ops of a block, with its terminator."""
        self.sequence(block.ops)

    def body(self, region: Region) -> Op:
        """Lower the only block of a structured region but its terminator, which is returned."""
        self.sequence(region.block.ops[:-1])
        return region.block.terminator

    def sequence(self, ops: Sequence[Op]) -> None:
        """Lower ops in order. Stores that share a nest stand at the first; pure ops between them come before it."""
        grouped: set[Op] = set()
        for at, op in enumerate(ops):
            if op in grouped:
                continue
            group = self.schedule.groups.get(op)
            if group is None:
                self.op(op)
                continue
            between = ops[at + 1 : ops.index(group[-1])]
            for inner in between:
                if inner not in group:
                    self.op(inner)
            grouped.update(group, between)
            lower_stores(self, group)

    def op(self, op: Op) -> None:
        if op.name not in SCHEMA:
            raise self.unsupported(op)
        if is_lazy(op):
            self.define(op)
            return
        handler = STATEMENTS.get(op.name, lower_scalar)
        handler(self, op)

    def define(self, op: Op) -> None:
        """A tile: nothing is emitted, unless it must be computed here."""
        for result in op.results:
            self.definitions[result] = op
            # A function called twice defines its values twice: what was bound by the first call is gone.
            self.bindings.pop(result, None)
            kept = self.schedule.keep.get(result)
            if kept is Keep.EAGER:
                self.bind(result, self.materialise(result))
            elif kept is Keep.FIRST:
                self.pending.append(result)


def _products(kernel: Kernel) -> tuple[int, int]:
    """How many products of tiles a kernel has, and the elements of its largest tile; 0 and 0 without products."""
    ops = [op for function in kernel.functions for op in walk(function.body)]
    products = sum(op.name == "tt.dot" for op in ops)
    return products, max(prod(shape_of(result.type)) for op in ops for result in op.results) if products else 0


def lower_scalar(fl: FunctionLowering, op: Op) -> None:
    """An op on scalars, emitted where it stands."""
    from .evaluate import EVALUATE

    row = SCHEMA[op.name]
    if not op.results or row.regions or any(isinstance(r.type, Tensor) for r in op.results):
        raise fl.unsupported(op)
    if op.name == "arith.constant":
        element = element_of(op.results[0].type)
        if isinstance(element, Scalar) and element.is_integer and element.bits > 1:
            fl.constant_of[op.results[0]] = op.attributes["value"].integers()[0]
    ev = Evaluator(fl, flow=True)
    for result in op.results:
        fl.definitions[result] = op
        fl.bindings.pop(result, None)
    handler = EVALUATE.get(op.name, evaluate_elementwise)
    for result, (lanes, _) in zip(op.results, handler(ev, op, ()), strict=True):
        fl.bind(result, lanes)


@statement("tt.unsplat")
def lower_unsplat(fl: FunctionLowering, op: Op) -> None:
    """A tile of one element, read as a scalar."""
    fl.settle([op.operands[0]], (), keep=False)
    ev = Evaluator(fl)
    from .index import ZERO

    lanes, _ = ev.evaluate(op.operands[0], tuple(ZERO for _ in shape_of(op.operands[0].type)))
    fl.bind(op.result, lanes)


@statement("tt.get_program_id")
def lower_program_id(fl: FunctionLowering, op: Op) -> None:
    fl.bind(op.result, Lanes(Scalar("i32"), fl.programs[op.attributes["axis"]]))


@statement("tt.get_num_programs")
def lower_num_programs(fl: FunctionLowering, op: Op) -> None:
    fl.bind(op.result, Lanes(Scalar("i32"), fl.grid[op.attributes["axis"]]))


@statement("ttg.barrier", "gpu.barrier")
def lower_barrier(fl: FunctionLowering, op: Op) -> None:
    """One thread runs a program, so ordering its own accesses for other programs is all there is to do."""
    fl.b.line("fence acq_rel")


@statement("llvm.intr.assume")
def lower_assume(fl: FunctionLowering, op: Op) -> None:
    """A promise that nothing here depends on."""


@statement("tt.store")
def lower_store(fl: FunctionLowering, op: Op) -> None:
    """A scalar store, or the sink of a tile."""
    if op in fl.made:
        return
    if shape_of(op.operands[0].type):
        lower_stores(fl, [op])
    else:
        store_at(Evaluator(fl, flow=True), op, ())


def lower_stores(fl: FunctionLowering, ops: Sequence[Op]) -> None:
    """Tile stores of one shape in one nest."""
    from .stream import streams

    shape = shape_of(ops[0].operands[0].type)
    kept = fl.settle([v for op in ops for v in op.operands], shape)
    turned = [op.operands[1] for op in ops if not kept and crosses(fl, op.operands[1], op.operands[0])]
    for value in turned:
        fl.bind(value, fl.materialise(value))

    def step(ev: Evaluator, index: Index) -> None:
        for value, buffer in kept:
            fl.keep_lanes(ev, buffer, value, index)
        for op in ops:
            store_at(ev, op, index)

    values = [*(op.operands[1] for op in ops), *(v for v, _ in kept)]
    masks = [mask for op in ops for mask in op.operands[2:]]
    repeatable = all(op in fl.schedule.repeatable for op in ops)
    masked = not kept and len(masks) == len(ops)
    pointers = [op.operands[0] for op in ops]
    fl.nest(
        shape,
        values,
        step,
        stores=pointers,
        masks=masks,
        repeatable=repeatable,
        masked=masked,
        streams=streams(fl, ops),
    )
    for value in turned:  # the buffer is these stores': what comes later may not be reached through here
        fl.bindings.pop(value, None)
    fl.finish(kept)


@statement("tt.assert")
def lower_assert(fl: FunctionLowering, op: Op) -> None:
    """Ends the launch where the condition does not hold."""
    assert fl.fault is not None
    fl.asserts.append(f"{op.loc}: {op.attributes.get('message', '')}")
    number = len(fl.asserts)
    condition = op.operands[0]
    shape = shape_of(condition.type)
    mask = list(op.operands[1:])

    def check(ev: Evaluator, index: Index) -> None:
        from .evaluate import Placed

        b = fl.b
        placed: list[Placed] = [ev.evaluate(v, operand_index(condition, v, index)) for v in (condition, *mask)]
        bad = b.not_(_as_bool(b, placed[0][0].raw(b)))
        if mask:
            lanes = max(p[0].lanes for p in placed)
            bad = b.and_(b.splat(bad, lanes), b.splat(placed[1][0].raw(b), lanes))
        some = b.call(f"llvm.vector.reduce.or.{bad.type.suffix}", LType("i1"), bad) if bad.lanes else bad
        fail, go = b.fresh("assert"), b.fresh("holds")
        b.jump_if(some, fail, go)
        b.label(fail)
        for axis, program in enumerate(fl.programs):
            b.store(program, b.gep("i32", fl.fault, b.integer(I64, axis)), 4)  # type: ignore[arg-type]
        b.ret(b.integer(I32, number))
        b.label(go)

    if not shape:
        check(Evaluator(fl, flow=True), ())
        return
    fl.settle([condition, *mask], shape, keep=False)
    fl.nest(shape, [condition, *mask], check)


def _as_bool(b: Builder, value: LValue) -> LValue:
    return value if value.type.scalar == "i1" else b.icmp("ne", value, b.zero(value.type))
