"""Control flow, calls, program ids, and the ops that only speak to the host."""

from __future__ import annotations

import numpy as np

from ..errors import DeviceAssertionError
from ..ir.tile import Op, Successor
from .integers import unsigned
from .registry import Array, Jump, Leave, Machine, Outcome, dtype_of, means, where


@means("scf.yield", "tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return", "tt.return", "scf.condition")
def leave(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return Leave(op, args)


def _jump(machine: Machine, target: Successor) -> Jump:
    return Jump(target.label, machine.values(target.operands))


@means("cf.br")
def branch(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return _jump(machine, op.successors[0])


@means("cf.cond_br")
def branch_if(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    taken = bool(args[0])
    if machine.observer is not None:
        machine.observer.branch(op, taken)
    return _jump(machine, op.successors[0 if taken else 1])


@means("scf.for")
def for_loop(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """The index never wraps: a loop ends when the next index would reach the upper bound."""
    low, high, step, *carried = args
    dtype = low.dtype
    read = unsigned if op.attributes.get("unsigned") else np.asarray
    first, last, by = (int(read(bound)) for bound in (low, high, step))
    if by <= 0:
        raise ValueError(f"scf.for with step {by} at {where(op.loc)}: the step must be positive")
    for index in range(first, last, by):
        at = np.array(index & ((1 << (8 * dtype.itemsize)) - 1), f"u{dtype.itemsize}").view(dtype)
        carried = list(machine.run_region(op.regions[0], [at, *carried]).values)
    return carried


@means("scf.while")
def while_loop(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    before, after = op.regions
    carried = args
    while True:
        go_on, *passed = machine.run_region(before, carried).values
        if not bool(go_on):
            return passed
        carried = machine.run_region(after, passed).values


@means("scf.if")
def choose(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    taken = bool(args[0])
    if machine.observer is not None:
        machine.observer.branch(op, taken)
    region = op.regions[0 if taken else 1]
    return machine.run_region(region, ()).values if region.blocks else ()


@means("tt.call")
def call(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return machine.call(op.attributes["callee"], args)


@means("tt.get_program_id")
def get_program_id(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [np.array(machine.program[op.attributes["axis"]], dtype_of(op.result.type))]


@means("tt.get_num_programs")
def get_num_programs(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [np.array(machine.grid[op.attributes["axis"]], dtype_of(op.result.type))]


@means("ttg.barrier", "gpu.barrier", "llvm.intr.assume")
def nothing(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """One thread runs a program, in order: a barrier has nothing to wait for."""
    return []


@means("tt.assert")
def device_assert(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """Fails where the condition is false; where a mask is given, only in its lanes."""
    condition, *mask = args
    if bool(np.any(~condition & mask[0] if mask else ~condition)):
        message = op.attributes.get("message", "")
        raise DeviceAssertionError(
            f"{machine.kernel.entry.name}: device_assert failed in program {machine.program} at {where(op.loc)}: {message}"
        )
    return []
