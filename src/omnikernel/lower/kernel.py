"""The entry of a compiled kernel: argument slots, the loop over programs, and the body of one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.tile import Kernel, walk
from ..ir.types import Pointer, Scalar
from ..llvm.emit import I32, I64, PTR, Builder, LType, LValue, Module
from ..passes.schedule import Schedule
from . import registry  # noqa: F401
from .control import lower_blocks
from .deferred import begin, release
from .function import Frame, FunctionLowering
from .lanes import Lanes, Target, register_type

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


def lower_kernel(
    kernel: Kernel, schedules: dict[str, Schedule], target: Target, order: Sequence[int] = (0, 1, 2)
) -> Lowered:
    """Lower a kernel to the text of one LLVM module with the symbol and ABI of `pipeline.Artefact`.

    Args:
        order: the axes of the grid in which programs follow each other, the fastest first.

    Raises:
        UnsupportedOp: for an op that has no lowering, naming the user's line.
    """
    module = Module(triple=target.triple, features=target.features)
    narrow = _moves_memory(kernel) and "avx512vl" in target.features
    if narrow:
        module.vector_bits = 256
    b = Builder(module)
    entry = kernel.entry
    fl = FunctionLowering(b, kernel, schedules, LValue("%arena", PTR), target.vector_bits)
    fl.fault = LValue("%fault", PTR)
    for i, arg in enumerate(entry.args):
        slot = b.gep("i64", LValue("%args", PTR), b.integer(I64, i))
        fl.bind(arg, _argument(b, slot, arg.type))
    grid = [b.load(I32, b.gep("i32", LValue("%grid", PTR), b.integer(I64, axis)), 4) for axis in range(3)]
    fl.grid = tuple(grid)
    extents = [grid[axis] for axis in order]
    wide = [b.cast("zext", g, "i64") for g in extents[:2]]
    first = LValue("%first", I64)
    x = b.binary("urem", first, wide[0])
    rows = b.binary("udiv", first, wide[0])
    start = [b.cast("trunc", v, "i32") for v in (x, b.binary("urem", rows, wide[1]), b.binary("udiv", rows, wide[1]))]

    def program(_: LValue, carried: list[LValue]) -> list[LValue]:
        fl.programs = tuple(carried[order.index(axis)] for axis in range(3))
        frame = Frame(b.fresh("program.end"))
        fl.frames.append(frame)
        lower_blocks(fl, entry.body, b.fresh("block"))
        fl.frames.pop()
        b.label(frame.exit)
        return _following(b, carried, extents)

    begin(fl, fl.schedule.deferred)
    b.loop(first, LValue("%last", I64), 1, start, program)
    release(fl, fl.schedule.deferred)
    b.ret(b.integer(I32, 0))
    if fl.arena_pointer is not fl.lasting_pointer:
        b.slots.append(f"  {fl.arena_pointer.text} = getelementptr i8, {fl.lasting_pointer}, i64 {fl.lasting_bytes}")
    b.function(HEAD.format(name=entry.name), "nounwind " + (HALF_REGISTERS if narrow else ""))
    return Lowered(module.text, fl.lasting_bytes + fl.arena.highest, tuple(fl.asserts), fl.cost)


def _moves_memory(kernel: Kernel) -> bool:
    """A kernel without products, functions or sorts waits for memory.

    It then runs on 256-bit registers: a 512-bit access crosses a cache line wherever an array is not 64-byte aligned
    (NumPy's are 16), which costs more than fewer instructions gain: 1.03 against 1.10 of torch.add at 2^20.
    """
    cheap = {"math.absf", "math.absi", "math.floor", "math.ceil", "math.fma", "math.sqrt"}
    ops = (op for f in kernel.functions for op in walk(f.body))
    return not any(
        op.name in ("tt.dot", "tt.dot_scaled", "tt.extern_elementwise", "tile.network")
        or (op.name.startswith("math.") and op.name not in cheap)
        for op in ops
    )


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
