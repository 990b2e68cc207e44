"""What the function of an operator sees of an array, the same in every library.

In: an array of a library. Out: an `Array` with `shape`, `size`, `dtype` (a name), strides in elements; everything else,
e.g. arithmetic, is the library's own, by `array.value`. `empty` and `empty_like` allocate in the library of the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..errors import OmnikernelError
from ..runtime import pool

if TYPE_CHECKING:
    from .launches import Run

_NATIVE = pool.native()


class DType(str):
    """The name of a dtype: NumPy's, torch's and JAX's are the same, e.g. "float32", "bfloat16".

    `DType(x)` takes a name, a NumPy, torch or Triton dtype, or a scalar class like `jnp.float32`.
    """

    __slots__ = ()

    def __new__(cls, dtype: Any) -> DType:
        if isinstance(dtype, DType):
            return dtype
        return str.__new__(cls, _dtype_name(dtype))


_TRITON_NAMES = {
    **{f"fp{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    "int1": "bool",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
}


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, str):
        return dtype
    module = type(dtype).__module__
    if module == "torch":
        return str(dtype).removeprefix("torch.")
    if module.startswith("triton"):
        return _TRITON_NAMES.get(str(dtype.name), str(dtype.name))
    return str(np.dtype(dtype).name)


class Owner(Protocol):
    """Where an array came from: the call that it belongs to."""


class _Array:
    """What is kept of an array; C has the same, to read it in launches."""

    __slots__ = ("source", "value")

    def __init__(self, value: Any, source: int = -1) -> None:
        self.value = value
        self.source = source


if not TYPE_CHECKING and _NATIVE is not None:
    _Array = _NATIVE.OperatorArray


class Array(_Array):
    """An array inside the function of an operator.

    `value` is the library's own array. `source` is the number of the parameter whose memory this is (or is a view of),
    -1 for memory that the function allocated, -2 for a view of that.
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        return tuple(self.value.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.value.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for extent in self.value.shape:
            size *= extent
        return size

    @property
    def dtype(self) -> DType:
        """The name of the dtype."""
        return DType(self.value.dtype)

    @property
    def device(self) -> str:
        """The kind of the device, "cpu" or "cuda" and the like: for an operator with another kernel for each."""
        return str(getattr(getattr(self.value, "device", None), "type", "cpu"))

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps along each dimension, in elements."""
        return tuple(self.stride(d) for d in range(self.ndim))

    def stride(self, dimension: int) -> int:
        """The step along a dimension, in elements."""
        shape = self.shape
        step = 1
        for extent in shape[dimension % len(shape) + 1 :]:
            step *= extent
        return step

    def numel(self) -> int:
        """The number of elements, as torch spells it."""
        return self.size

    def reshape(self, *shape: Any) -> Array:
        """The same elements in another shape; memory of a parameter stays memory of that parameter."""
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return type(self)(self.value.reshape(extents), view_of(self.source))

    def shares(self, other: Array) -> bool:
        """Whether two arrays of one library have memory in common."""
        if isinstance(self.value, np.ndarray):
            return bool(np.shares_memory(self.value, other.value))
        storage = getattr(self.value, "untyped_storage", None)
        return storage is not None and bool(storage()._cdata == other.value.untyped_storage()._cdata)

    def seen_as(self, source: int) -> Array:
        """The same memory as the parameter of another number, of an operator that is called inside."""
        return type(self)(self.value, source)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"an array inside an operator's function has no {name!r}: use omnikernel.empty, empty_like and launches; "
            f"the library's own array is its `.value`"
        )

    def __repr__(self) -> str:
        return f"Array({list(self.shape)}, {self.dtype}, {type(self.value).__name__})"


def view_of(source: int) -> int:
    """The source of a view of an array."""
    return source if source >= 0 else -2


class State(threading.local):
    """The operator call that runs in this thread, if any."""

    run: Run | None = None


state: State = State() if _NATIVE is None else _NATIVE.State()


def _run(what: str) -> Run:
    run = state.run
    if run is None:
        raise OmnikernelError(
            f"omnikernel.{what} is for the function of an operator (@omnikernel.op); use your library's"
        )
    return run


def empty(shape: Sequence[int] | int, dtype: Any) -> Array:
    """A new array with undefined content, in the library and on the device of the operator's first array.

    Args:
        shape: elements along each dimension.
        dtype: a name ("float32"), or a dtype of NumPy, torch or Triton.
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    return _run("empty").empty(extents, DType(dtype))


def empty_like(array: Array, *, dtype: Any = None, shape: Sequence[int] | None = None) -> Array:
    """A new dense array of the shape and dtype of `array`, with undefined content."""
    run = state.run or _run("empty_like")
    if dtype is None and shape is None:
        return run.empty_like(array)
    return run.empty(array.shape if shape is None else tuple(shape), array.dtype if dtype is None else DType(dtype))


def zeros(shape: Sequence[int] | int, dtype: Any) -> Array:
    """A new array of zeros; for outputs that a kernel adds to."""
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    return _run("zeros").zeros(extents, DType(dtype))


def zeros_like(array: Array, *, dtype: Any = None) -> Array:
    """A new dense array of zeros of the shape of `array`."""
    return zeros(array.shape, array.dtype if dtype is None else dtype)
