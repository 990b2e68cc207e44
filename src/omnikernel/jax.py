"""Triton kernels in JAX programs: `triton_call`, as jax-triton spells it, on the CPU.

In: JAX values, a kernel, the shapes of its outputs, a grid. Out: JAX values. Works under `jit`, `vmap` (one launch with a
longer grid), `scan`, `shard_map`, `jax.export`; for derivatives declare an operator (`omnikernel.op`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .errors import ArgumentTypeError, ArgumentValueError
from .ops import xla
from .ops.arrays import DType
from .ops.jax import Cell, place
from .ops.launches import innermost
from .ops.traced import Aval, compile_for

__all__ = ["export_checks", "triton_call"]


def triton_call(
    *args: Any,
    kernel: Any,
    out_shape: Any,
    grid: Any,
    input_output_aliases: Mapping[int, int] | None = None,
    **meta: Any,
) -> Any:
    """Launch a kernel on JAX values.

    Args:
        args: the kernel's arguments without its outputs: JAX or NumPy arrays are pointers, Python numbers are scalars. A
            `jax.Ref` is a pointer that the kernel may write.
        kernel: a Triton kernel, also under `triton.autotune` and `triton.heuristics`.
        out_shape: a pytree of `jax.ShapeDtypeStruct`; the outputs come after `args` among the kernel's parameters. The
            kernel writes every element it wants defined.
        grid: a tuple, an int, or a function of the kernel's arguments by name.
        input_output_aliases: number of an argument -> number of an output: the output starts as that argument's content,
            and is the same parameter of the kernel as the argument. XLA copies unless the argument is donated.
        meta: constants of the kernel and options such as `num_warps`.

    Returns:
        The outputs, in the structure of `out_shape`.

    Raises:
        ArgumentTypeError, ArgumentValueError: an argument, alias or grid that does not fit; a kernel that writes an
            argument which is no output.
    """
    outs, tree = jax.tree.flatten(out_shape)
    aliases = dict(input_output_aliases or {})
    name = innermost(kernel).__name__
    refs: dict[int, Any] = {}
    cells: list[Any] = []
    for index, arg in enumerate(args):
        value = arg
        if isinstance(arg, jax.Ref):
            refs[index] = arg
            value = arg[...]
        cells.append(_cell(value) if isinstance(value, (jax.Array, np.ndarray)) else value)
    made_outs: list[Cell | None] = []
    for number, out in enumerate(outs):
        source = next((i for i, o in aliases.items() if o == number), None)
        made_outs.append(None if source is not None else Cell(tuple(out.shape), DType(out.dtype)))
        if source is not None:
            _check_alias(name, cells, source, out)
    if any(not 0 <= o < len(outs) for o in aliases.values()):
        raise ArgumentValueError(f"kernel {name!r}: input_output_aliases {aliases} names an output beyond {len(outs)}")
    arguments = [*cells, *(cell for cell in made_outs if cell is not None)]
    avals = [Aval(a.shape, a.dtype) if isinstance(a, Cell) else a for a in arguments]
    made = compile_for(kernel, avals, meta, grid)
    used: dict[int, tuple[Cell, list[int]]] = {}
    names = innermost(kernel).arg_names
    for index, (position, value) in enumerate(made.arguments):
        if not isinstance(value, Aval):
            continue
        cell = arguments[position]
        used.setdefault(id(cell), (cell, []))[1].append(index)
        if made.written[index] and position < len(args) and position not in aliases and position not in refs:
            raise ArgumentTypeError(
                f"kernel {name!r} stores through its parameter {names[position]!r}, which is an input; JAX arrays are "
                f"immutable: name it in input_output_aliases, pass a jax.Ref, or make it an output"
            )
    for (cell, _), value in zip(used.values(), place(made, list(used.values())), strict=True):
        cell.value = value
    for index, ref in refs.items():
        ref[...] = cells[index].read()
    sources = {o: i for i, o in aliases.items()}
    found = [cells[sources[n]].read() if cell is None else cell.read() for n, cell in enumerate(made_outs)]
    return jax.tree.unflatten(tree, found)


def _cell(value: Any) -> Cell:
    array = jnp.asarray(value)
    return Cell(tuple(array.shape), DType(array.dtype), array)


def _check_alias(name: str, cells: list[Any], source: int, out: Any) -> None:
    cell = cells[source] if 0 <= source < len(cells) else None
    if not isinstance(cell, Cell):
        raise ArgumentTypeError(f"kernel {name!r}: input_output_aliases names argument {source}, which is no array")
    if cell.shape != tuple(out.shape) or cell.dtype != DType(out.dtype):
        raise ArgumentValueError(
            f"kernel {name!r}: argument {source} of {cell.dtype}{list(cell.shape)} cannot share memory with an output of "
            f"{DType(out.dtype)}{list(out.shape)}"
        )


def export_checks() -> list[Any]:
    """What `jax.export.export(f, disabled_checks=omnikernel.jax.export_checks())` needs to know our calls as stable.

    An exported program carries its kernels; the process that runs it imports `omnikernel.jax` first.
    """
    return [jax.export.DisabledSafetyCheck.custom_call(xla.TARGET)]


xla.ready()
