"""A kernel compiled for JAX values: from avals and numbers to a `Call` of the XLA handler.

In: a Triton kernel, its arguments (shapes and dtypes, or numbers), a grid. Out: the compiled kernel with the place of
every parameter, before any data exists. Shared by operators and `omnikernel.jax.triton_call`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, ArgumentValueError
from ..ir.types import Pointer
from ..runtime.arrays import DTYPES
from ..runtime.launch import Executable, Launcher, executable
from .numpy import dtype_of


@dataclass(frozen=True, slots=True)
class Aval:
    """A shape and a dtype's name."""

    shape: tuple[int, ...]
    dtype: str

    def stand_in(self) -> Any:
        """An array of one aligned element, to specialise a kernel for the dtype; XLA's buffers are aligned too."""
        return _SCRATCH.view(dtype_of(self.dtype))[:1]

    def zeros(self) -> Any:
        """A whole array, to tune a kernel with."""
        return np.zeros(self.shape, dtype_of(self.dtype))


def _aligned() -> Any:
    whole = np.zeros(128, np.uint8)
    skip = -whole.ctypes.data % 64
    return whole[skip : skip + 64]


_SCRATCH = _aligned()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel ready to be placed: `arguments[i]` is what parameter i of the executable gets: an `Aval`, or its bits."""

    kernel: Executable
    grid: tuple[int, int, int]
    arguments: tuple[tuple[int, Any], ...]  # position among the kernel's arguments, value
    read: tuple[bool, ...]
    written: tuple[bool, ...]


def compile_for(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> Compiled:
    """Compile a kernel for arguments of these shapes and dtypes.

    Args:
        kernel: a JITFunction, or one under autotuners and heuristics; an autotuner measures now, on arrays of zeros.
        args: positional arguments: `Aval` for arrays, numbers, None.
        kwargs: keyword arguments, options such as `num_warps` included; an `Aval` may be among them.
        grid: a tuple, an int, or a function of the arguments by name.

    Raises:
        ArgumentTypeError, ArgumentValueError: a kernel, grid or argument that cannot be used here.
    """
    if hasattr(kernel, "compile_for"):  # C++ and CUDA C++
        own: Compiled = kernel.compile_for(args, kwargs, grid)
        return own
    kernel, named = _chosen(kernel, list(args), dict(kwargs), grid)
    names = list(kernel.arg_names)
    if len(args) > len(names):
        raise ArgumentTypeError(
            f"kernel {kernel.__name__!r}: expected at most {len(names)} arguments ({', '.join(names)}), got {len(args)}"
        )
    for name, value in (*zip(names, args, strict=False), *named.items()):
        if isinstance(value, Aval) and value.dtype not in DTYPES:
            raise ArgumentTypeError(
                f"kernel {kernel.__name__!r}, parameter {name!r}: expected an array of a dtype that Triton has, got one of "
                f"{value.dtype}; convert it first, e.g. to float32"
            )
    plain = [_stand_in(arg) for arg in args]
    plain_named = {name: _stand_in(value) for name, value in named.items()}
    extents = _grid(kernel.__name__, grid, {**dict(zip(names, args, strict=False)), **named}, kernel)
    compiled = kernel.warmup(*plain, grid=extents, **plain_named)
    if compiled.metadata.target.backend != "cpu":
        raise ArgumentTypeError(
            f"kernel {kernel.__name__!r} was compiled for {compiled.metadata.target.backend}, not cpu"
        )
    launcher, code = Launcher(compiled.src, compiled.metadata), executable(compiled.asm["so"])
    parameters = code.artefact.parameters
    if len(parameters) != len(launcher.leaves) or any(leaf.descriptor for leaf in launcher.leaves):
        raise ArgumentTypeError(
            f"kernel {kernel.__name__!r}: tensor descriptors cannot be passed from JAX; use pointers"
        )
    defaults = {p.name: p.default for p in kernel.params if p.has_default}
    values = [*args, *(named.get(name, defaults.get(name)) for name in names[len(args) :])]
    arguments: list[tuple[int, Any]] = []
    for leaf, parameter, encode in zip(launcher.leaves, parameters, code._encoders, strict=True):
        value = leaf.of(values)
        if isinstance(parameter.type, Pointer) and isinstance(value, Aval):
            arguments.append((leaf.path[0], value))
        else:
            arguments.append((leaf.path[0], encode(value)[0]))
    return Compiled(
        code, extents, tuple(arguments), tuple(p.read for p in parameters), tuple(p.written for p in parameters)
    )


def _stand_in(value: Any) -> Any:
    if isinstance(value, Aval):
        return value.stand_in()
    return tuple(_stand_in(item) for item in value) if isinstance(value, tuple) else value


def _chosen(kernel: Any, args: list[Any], kwargs: dict[str, Any], grid: Any) -> tuple[Any, dict[str, Any]]:
    """The JITFunction under autotuners and heuristics, and the keyword arguments that they choose."""
    while not hasattr(kernel, "params"):
        if hasattr(kernel, "configs"):
            kwargs |= _tuned(kernel, args, kwargs, grid)
        elif hasattr(kernel, "values"):
            given = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
            for name, choose in kernel.values.items():
                kwargs[name] = given[name] = choose(given)
        else:
            raise ArgumentTypeError(f"expected a Triton kernel (@triton.jit), got {kernel!r}")
        kernel = kernel.fn
    return kernel, kwargs


def _tuned(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> dict[str, Any]:
    config = kernel.configs[0]
    if len(kernel.configs) > 1:
        arrays = [arg.zeros() if isinstance(arg, Aval) else arg for arg in args]
        named = {name: value.zeros() if isinstance(value, Aval) else value for name, value in kwargs.items()}
        kernel.run(*arrays, grid=grid, warmup=False, **named)
        config = kernel.best_config
    return {name: value for name, value in config.all_kwargs().items() if value is not None}


def _grid(name: str, grid: Any, given: dict[str, Any], kernel: Any) -> tuple[int, int, int]:
    if callable(grid):
        defaults = {p.name: p.default for p in kernel.params if p.has_default}
        grid = grid({**defaults, **given})
    entries = (grid,) if hasattr(grid, "__index__") else tuple(grid)
    try:
        extents = [entry.__index__() for entry in entries]
    except AttributeError:
        raise ArgumentTypeError(f"kernel {name!r}: expected a grid of whole numbers, got {entries!r}") from None
    if not 1 <= len(extents) <= 3 or any(not 0 <= extent < 1 << 31 for extent in extents):
        raise ArgumentValueError(
            f"kernel {name!r}: expected a grid of one to three numbers from 0 to 2147483647, got {tuple(extents)}"
        )
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z
