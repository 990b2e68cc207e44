"""The little that the examples must know about arrays, whichever library they come from.

NumPy arrays, torch tensors and JAX arrays are told apart by what they can do, so no library but NumPy is imported.
"""

from __future__ import annotations

import numpy as np


def empty(like, shape=None, dtype=None):
    """An uninitialised array of the kind of `like`; `dtype` is None (as `like`), "float32" or "int32".

    JAX arrays are immutable, so a kernel cannot write to one: for them the result is a NumPy array.
    """
    shape = tuple(like.shape) if shape is None else tuple(shape)
    if hasattr(like, "new_empty"):
        return _as_dtype(like.new_empty(shape), dtype)
    return np.empty(shape, np.dtype(dtype or like.dtype))


def zeros(like, shape, dtype=None):
    """As `empty`, filled with zeros."""
    if hasattr(like, "new_zeros"):
        return _as_dtype(like.new_zeros(tuple(shape)), dtype)
    return np.zeros(tuple(shape), np.dtype(dtype or like.dtype))


def _as_dtype(tensor, dtype):
    return {None: lambda: tensor, "float32": tensor.float, "int32": tensor.int}[dtype]()


def strides(x) -> tuple[int, ...]:
    """Strides in elements."""
    if hasattr(x, "new_empty"):
        return tuple(x.stride())
    if isinstance(x, np.ndarray):
        return tuple(s // x.itemsize for s in x.strides)
    steps = [1]  # JAX: always dense rows
    for n in reversed(x.shape[1:]):
        steps.append(steps[-1] * n)
    return tuple(reversed(steps))


def float64(x) -> np.ndarray:
    """The values as a float64 NumPy array."""
    if hasattr(x, "new_empty"):
        x = x.detach().double().numpy()
    return np.asarray(x).astype(np.float64)


def max_error(got, want: np.ndarray) -> float:
    """The largest |got - want| / (1 + |want|)."""
    return float(np.max(np.abs(float64(got) - want) / (1 + np.abs(want)), initial=0.0))
