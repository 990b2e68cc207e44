"""The entry of a compiled kernel: argument slots, the loop over programs, and the body of one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.tile import Kernel
from ..ir.types import Pointer, Scalar
from ..llvm.emit import I32, I64, PTR, Builder, LType, LValue, Module
from ..passes.schedule import Schedule
from . import registry  # noqa: F401
from .control import lower_blocks
from .deferred import begin, release
from .function import Frame, FunctionLowering
from .lanes import Lanes, Target, register_type
from .stream import Streaming, fence, may_stream, waits_for_memory

HEAD = "define i32 @{name}(ptr noalias readonly %args, ptr noalias readonly %grid, i64 %first, i64 %last, ptr noalias %arena, ptr noalias %fault)"

# LLVM's way to keep a function to 256-bit registers where it has 512-bit ones.
HALF_REGISTERS = '"prefer-vector-width"="256" "min-legal-vector-width"="256" '


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel as LLVM IR text."""

    text: str
    arena_bytes: int
    asserts: tuple[str, ...]
    cost: float  # estimated nanoseconds of one program


@dataclass(frozen=True, slots=True)
class Together:
    """The same kernel for `programs` programs at once, each the next one along the fastest axis of the grid."""

    kernel: Kernel
    schedules: dict[str, Schedule]
    programs: int


def lower_kernel(
    kernel: Kernel,
    schedules: dict[str, Schedule],
    target: Target,
    order: Sequence[int] = (0, 1, 2),
    together: Together | None = None,
) -> Lowered:
    """Lower a kernel to the text of one LLVM module with the symbol and ABI of `pipeline.Artefact`.

    Args:
        order: the axes of the grid in which programs follow each other, the fastest first.
        together: the kernel for several programs; `kernel` runs those that are left over.

    Raises:
        UnsupportedOp: for an op that has no lowering, naming the user's line.
    """
    module = Module(triple=target.triple, features=target.features)
    waits = waits_for_memory(kernel)
    narrow = waits and "avx512vl" in target.features
    if narrow:
        # A 512-bit access crosses a cache line wherever an array is not 64-byte aligned (NumPy's are 16), which costs
        # more than fewer instructions gain: 1.03 against 1.10 of torch.add at 2^20.
        module.vector_bits = 256
    b = Builder(module)
    arena = b.named("%arena", PTR)
    fl = FunctionLowering(b, kernel, schedules, arena, target.vector_bits)
    lowerings = [fl]
    if together:
        lowerings.append(FunctionLowering(b, together.kernel, together.schedules, arena, target.vector_bits))
    for lowering in lowerings:
        lowering.prefetches = target.prefetches and not lowering.products  # these have their own way, by tiles
        lowering.multiplies = waits  # in others the multipliers are busy, and the divider is not
    grid = _read_launch(b, kernel, lowerings)
    entry = b.section()
    if may_stream(kernel, target):
        for lowering in lowerings:
            at_once = together.programs if together and lowering is not fl else 1
            lowering.streaming = Streaming(entry, target.last_cache, at_once)
    programs = _Programs(b, grid, order)
    begin(fl, fl.schedule.deferred)
    if together:
        programs.run_together(fl, lowerings[1], together.programs)
    else:
        programs.run(fl)
    release(fl, fl.schedule.deferred)
    for lowering in lowerings:
        fence(lowering)
    b.ret(b.integer(I32, 0))
    if fl.arena_pointer is not fl.lasting_pointer:
        b.slots.append(f"  {fl.arena_pointer.text} = getelementptr i8, {fl.lasting_pointer}, i64 {fl.lasting_bytes}")
    b.function(HEAD.format(name=kernel.entry.name), "nounwind " + (HALF_REGISTERS if narrow else ""))
    room = max(lowering.arena.highest for lowering in lowerings)
    return Lowered(module.text, fl.lasting_bytes + room, tuple(fl.asserts), fl.cost)


def _read_launch(b: Builder, kernel: Kernel, lowerings: Sequence[FunctionLowering]) -> tuple[LValue, ...]:
    """Read the arguments and the grid, for every lowering; the extents of the grid."""
    for i, arg in enumerate(kernel.entry.args):
        value = _argument(b, b.gep("i64", LValue("%args", PTR), b.integer(I64, i)), arg.type)
        for lowering in lowerings:
            lowering.bind(arg, value)
    grid = tuple(b.load(I32, b.gep("i32", LValue("%grid", PTR), b.integer(I64, axis)), 4) for axis in range(3))
    for lowering in lowerings:
        lowering.grid, lowering.fault = grid, LValue("%fault", PTR)
    return grid


class _Programs:
    """The loop over the programs of a launch from `first` to `last`; it carries their ids, the fastest first."""

    first, last = LValue("%first", I64), LValue("%last", I64)

    def __init__(self, b: Builder, grid: Sequence[LValue], order: Sequence[int]) -> None:
        self.b = b
        self.order = order
        self.extents = [grid[axis] for axis in order]

    def start(self) -> list[LValue]:
        """The ids of the first program."""
        b = self.b
        wide = [b.cast("zext", g, "i64") for g in self.extents[:2]]
        x = b.binary("urem", self.first, wide[0])
        rows = b.binary("udiv", self.first, wide[0])
        ids = (x, b.binary("urem", rows, wide[1]), b.binary("udiv", rows, wide[1]))
        return [b.cast("trunc", v, "i32") for v in ids]

    def body(self, lowering: FunctionLowering, ids: Sequence[LValue]) -> None:
        """One run of the kernel's body, at a program."""
        lowering.programs = tuple(ids[self.order.index(axis)] for axis in range(3))
        frame = Frame(self.b.fresh("program.end"))
        lowering.frames.append(frame)
        lower_blocks(lowering, lowering.kernel.entry.body, self.b.fresh("block"))
        lowering.frames.pop()
        self.b.label(frame.exit)

    def run(self, fl: FunctionLowering) -> None:
        """One program after the other."""

        def program(_: LValue, ids: list[LValue]) -> list[LValue]:
            self.body(fl, ids)
            return _following(self.b, ids, self.extents)

        self.b.loop(self.first, self.last, 1, self.start(), program)

    def run_together(self, fl: FunctionLowering, several: FunctionLowering, count: int) -> None:
        """`count` programs at once where so many follow in a row of the grid, or else one."""
        b = self.b

        def step(values: list[LValue]) -> list[LValue]:
            i, *ids = values
            enough = b.icmp("sle", b.add(i, b.integer(I64, count)), self.last)
            room = b.icmp("uge", b.sub(self.extents[0], ids[0]), b.integer(I32, count))

            def all_of_them() -> list[LValue]:
                self.body(several, ids)
                return [b.add(ids[0], b.integer(I32, count - 1)), b.integer(I64, count)]

            def one() -> list[LValue]:
                self.body(fl, ids)
                return [ids[0], b.integer(I64, 1)]

            last, done = b.branch(b.and_(enough, room), all_of_them, one)
            following = _following(b, [last, *ids[1:]], self.extents)
            return [b.add(i, done), *following]

        b.loop_while([self.first, *self.start()], lambda values: b.icmp("slt", values[0], self.last), step)


def _argument(b: Builder, slot: LValue, type_: object) -> Lanes:
    """Read one 8-byte slot as a value of the parameter's type."""
    assert isinstance(type_, Scalar | Pointer)
    register = register_type(type_)
    memory = LType("i8") if register.scalar == "i1" else register
    value = b.load(memory, slot, 8)
    if register.scalar == "i1":
        value = b.icmp("ne", value, b.zero(memory))
    return Lanes(type_, value)


def _following(b: Builder, program: list[LValue], grid: list[LValue]) -> list[LValue]:
    """The ids of the next program: the first runs fastest."""
    x = b.add(program[0], b.integer(I32, 1))
    over = b.icmp("uge", x, grid[0])
    y = b.add(program[1], b.cast("zext", over, "i32"))
    x = b.select(over, b.integer(I32, 0), x)
    over = b.icmp("uge", y, grid[1])
    z = b.add(program[2], b.cast("zext", over, "i32"))
    return [x, b.select(over, b.integer(I32, 0), y), z]
