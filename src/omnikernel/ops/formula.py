"""Derivatives left to the library: for the backward of a backward, which is rarely worth a kernel.

In: a formula written with the array functions that torch, JAX and NumPy share. Out: a `backward` for `def_vjp`, by
`torch.func.vjp` or `jax.vjp`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError
from .declare import library_of


def namespace(*arrays: Any) -> Any:
    """The module of array functions for these arrays: `torch`, `jax.numpy`, another's array-API namespace, or `numpy`."""
    libraries = {library_of(array) for array in arrays}
    if "jax" in libraries:
        return sys.modules["jax"].numpy
    if "torch" in libraries:
        return sys.modules["torch"]
    return namespace_of(arrays) or np


def namespace_of(arrays: Iterable[Any]) -> Any:
    """The array-API namespace of the first array of no library that is known by name; None where there is none.

    CuPy's arrays do not say theirs, but its module is one.
    """
    for array in arrays:
        if library_of(array) != "protocol":
            continue
        if hasattr(array, "__array_namespace__"):
            return array.__array_namespace__()
        module = sys.modules.get(type(array).__module__.partition(".")[0])
        if all(hasattr(module, name) for name in ("empty", "zeros", "from_dlpack")):
            return module
    return None


def vjp_of(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A `backward` that differentiates a formula of the saved values.

    Args:
        formula: called with what `save` returned, gives the same results as the operator, by array functions alone. What
            is no floating-point array among them is a constant.

    Returns:
        `backward(saved, *grads)`, with a gradient for every array among the saved values, None for integer arrays.
    """

    def backward(saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        arrays = [i for i, value in enumerate(saved) if library_of(value)]
        inputs = [i for i in arrays if _is_float(saved[i])]

        def of(*values: Any) -> Any:
            whole = list(saved)
            for i, value in zip(inputs, values, strict=True):
                whole[i] = value
            return formula(*whole)

        library = library_of(saved[inputs[0]])
        if library == "torch":
            _, pull = sys.modules["torch"].func.vjp(of, *(saved[i] for i in inputs))
        elif library == "jax":
            _, pull = sys.modules["jax"].vjp(of, *(saved[i] for i in inputs))
        else:
            raise ArgumentTypeError("vjp_of: NumPy has no derivatives; call the operator on torch or JAX arrays")
        found = dict(zip(inputs, pull(grads[0] if len(grads) == 1 else tuple(grads)), strict=True))
        return tuple(found.get(i) for i in arrays)

    return backward


def _is_float(array: Any) -> bool:
    return "float" in str(array.dtype)
