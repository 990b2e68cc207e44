"""Runs a kernel on NumPy: every program of the grid in order, every op by its meaning in `MEANS`.

In: a kernel of tile IR, as it stands (from the reader or after any pass), the argument slots as a launcher passes them,
the grid. Out: what the kernel writes to memory. It is the second opinion on compiled code: slow and plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, UnsupportedOp
from ..ir.tile import Function, Kernel, Op, Region, Value
from ..ir.types import Pointer, Scalar, Type, shape_of
from . import narrow
from .registry import DTYPES, MEANS, UNSIGNED, Array, Jump, Leave, Observer, dtype_of, where

Slot = int | float | bool | np.generic


@dataclass(slots=True)
class Interpreter:
    """The machine that meanings see. One program runs at a time; scopes are frames of function calls."""

    kernel: Kernel
    grid: tuple[int, int, int]
    observer: Observer | None = None
    program: tuple[int, int, int] = (0, 0, 0)
    frames: list[dict[Value, Array]] = field(default_factory=list)

    def values(self, names: Sequence[Value]) -> tuple[Array, ...]:
        frame = self.frames[-1]
        return tuple(frame[name] for name in names)

    def call(self, name: str, args: Sequence[Array]) -> tuple[Array, ...]:
        return self.run_function(self.kernel.function(name), args)

    def run_function(self, function: Function, args: Sequence[Array]) -> tuple[Array, ...]:
        """Run a function in a frame of its own. Its entry block may repeat the function's arguments, or have none."""
        self.frames.append(dict(zip(function.args, args, strict=True)))
        try:
            return self.run_region(function.body, args if function.body.blocks[0].args else ()).values
        finally:
            self.frames.pop()

    def run_region(self, region: Region, args: Sequence[Array], *, free: bool = False) -> Leave:
        """Run blocks from the first until a terminator leaves the region."""
        blocks = {block.label: block for block in region.blocks}
        block = region.blocks[0]
        frame = self.frames[-1]
        while True:
            frame.update(zip(block.args, args, strict=True))
            for op in block.ops:
                outcome = self.run_op(op, free)
                if outcome is not None:
                    break
            else:
                raise ValueError(f"block {block.label!r} of {self.kernel.entry.name} has no terminator")
            if isinstance(outcome, Leave):
                return outcome
            block, args = blocks[outcome.label], outcome.values

    def run_op(self, op: Op, free: bool) -> Leave | Jump | None:
        """Run one op: keep its results in the frame, or return what a terminator does."""
        meaning = MEANS.get(op.name)
        if meaning is None:
            raise UnsupportedOp(
                f"op {op.name} in {self.kernel.entry.name} at {where(op.loc)} has no meaning in the reference"
            )
        outcome = meaning(self, op, self.values(op.operands))
        if isinstance(outcome, Leave | Jump):
            return outcome
        for value, array in zip(op.results, outcome, strict=True):
            self.frames[-1][value] = array_of(array, value, op, free)
        return None


def array_of(array: Array, value: Value, op: Op, free: bool) -> Array:
    """A result as the array it must be: checked against its type, a splat given its shape."""
    made = np.asarray(array)
    if made.dtype != dtype_of(value.type):
        raise TypeError(f"{op.name} made {made.dtype} for {value!r}: a bug of the reference")
    if free:
        return made
    shape = shape_of(value.type)
    if made.shape == ():
        return np.broadcast_to(made, shape)
    if made.shape != shape:
        raise TypeError(f"{op.name} made shape {made.shape} for {value!r}: a bug of the reference")
    return made


def argument(slot: Slot, type_: Type, name: str) -> Array:
    """The value of one parameter.

    Args:
        slot: an address, an integer in the signed or unsigned range of its type, a bool, or a float.

    Raises:
        ArgumentTypeError: where the slot does not fit the parameter's type.
    """
    if isinstance(type_, Pointer):
        return np.array(_integer(slot, name, type_), np.int64)
    if not isinstance(type_, Scalar):
        raise ArgumentTypeError(f"parameter {name}: {type_} cannot be passed to the reference")
    if type_.is_float:
        return np.asarray(narrow.narrow(np.array(float(slot), np.float64), type_.kind))
    dtype = DTYPES[type_.kind]
    if dtype == np.bool_:
        return np.array(bool(slot))
    bits = UNSIGNED[8 * dtype.itemsize]
    return np.array(_integer(slot, name, type_) & int(np.iinfo(bits).max), bits).view(dtype)


def _integer(slot: Slot, name: str, type_: Type) -> int:
    if isinstance(slot, bool | int | np.integer | np.bool_):
        return int(slot)
    raise ArgumentTypeError(f"parameter {name}: expected an integer for {type_}, got {slot!r}")


def run(
    kernel: Kernel,
    slots: Sequence[Any],
    grid: tuple[int, int, int],
    *,
    observer: Observer | None = None,
) -> None:
    """Run every program of a grid, x fastest, as the IR stands.

    Args:
        kernel: the kernel; its entry's parameters are pointers and scalars.
        slots: one value a parameter: an integer address for a pointer (memory is read and written there), an int,
            bool or float for a scalar.
        grid: programs along x, y, z; a zero anywhere means no program.
        observer: is told of programs, memory accesses and branches.

    Raises:
        ArgumentTypeError: where slots and parameters do not match.
        UnsupportedOp: for an op without a meaning.
        DeviceAssertionError: where a `tt.assert` fails; later programs do not run.
    """
    entry = kernel.entry
    if len(slots) != len(entry.args):
        raise ArgumentTypeError(f"{entry.name} takes {len(entry.args)} arguments, got {len(slots)}")
    machine = Interpreter(kernel, grid, observer)
    with np.errstate(all="ignore"):
        args = [argument(slot, value.type, value.name) for slot, value in zip(slots, entry.args, strict=True)]
        for z in range(grid[2]):
            for y in range(grid[1]):
                for x in range(grid[0]):
                    machine.program = (x, y, z)
                    if observer is not None:
                        observer.program(x, y, z)
                    machine.run_function(entry, args)
