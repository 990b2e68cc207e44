"""Prebuilt kernels for JAX: from shapes and dtypes to the code that the XLA handler runs.

In: a call whose arrays are `Aval`s. Out: a `Compiled`, as for a kernel that Triton compiles; None where no form fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.types import Pointer
from ..ops.traced import Aval, Compiled
from ..runtime.arrays import ArrayView, Where, view_at

if TYPE_CHECKING:
    from .handles import Call, ShippedKernel


def look(value: Any, where: Where) -> ArrayView | None:
    """An aval as an aligned array of its dtype; anything else as it is."""
    return view_at(value.stand_in() if isinstance(value, Aval) else value, where)


def compile_for(kernel: ShippedKernel, call: Call, grid: Any) -> Compiled | None:
    """The form that fits, placed.

    Args:
        kernel: the kernel.
        call: its arguments, arrays as `Aval`s.
        grid: the launch's.
    """
    found = kernel.for_tracing(call, grid, look)
    if found is None:
        return None
    executable, extents, runtime = found
    parameters = executable.artefact.parameters
    arguments: list[tuple[int, Any]] = []
    for name, parameter, encode in zip(runtime, parameters, executable._encoders, strict=True):
        value = call.values[name]
        position = kernel.arg_names.index(name)
        is_array = isinstance(parameter.type, Pointer) and isinstance(value, Aval)
        arguments.append((position, value if is_array else encode(value)[0]))
    read, written = tuple(p.read for p in parameters), tuple(p.written for p in parameters)
    return Compiled(executable, extents, tuple(arguments), read, written)
