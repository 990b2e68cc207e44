"""An operator on arrays of any other library: those with DLPack, and an array-API namespace for the results.

In: the arguments of a call with arrays of a library that has no binding of its own, perhaps NumPy's among them. Out: new
arrays of the library of the first such array, made by its `from_dlpack`; NumPy's where it has no namespace. In the CPU's
memory they are NumPy arrays to the kernels, over the same memory; those on GPUs are handled by `device.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend.places import place_of
from ..errors import ArgumentTypeError
from .arrays import Array, DType, view_of
from .declare import library_of
from .formula import namespace_of
from .launches import Checker
from .numpy import NumpyArray, NumpyRun, memory_of
from .numpy import run_on as run_on_numpy
from .schema import each

if TYPE_CHECKING:
    from .declare import Operator


class ForeignArray(Array):
    """An array inside an operator's function: `memory` is its NumPy view, `value` the library's own array."""

    __slots__ = ("_own", "_space", "memory")

    def __init__(self, value: Any, source: int = -1, memory: Any = None, space: Any = None) -> None:
        self._own = value
        self.source = source
        self.memory = memory_of(value, "an array inside of an operator") if memory is None else memory
        self._space = namespace_of((value,)) if space is None else space

    @property
    def value(self) -> Any:
        """The library's own array."""
        return self._own if self._own is not None else given_back(self.memory, self._space)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        return tuple(self.memory.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self.memory.ndim)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self.memory.size)

    @property
    def dtype(self) -> DType:
        """The name of the dtype."""
        return DType(self.memory.dtype)

    @property
    def device(self) -> str:
        """The kind of the device."""
        return "cpu"

    def stride(self, dimension: int) -> int:
        """The step along a dimension, in elements."""
        return int(self.memory.strides[dimension] // self.memory.itemsize)

    def reshape(self, *shape: Any) -> Array:
        """The same elements in another shape; memory of a parameter stays memory of that parameter."""
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return ForeignArray(None, view_of(self.source), self.memory.reshape(extents), self._space)

    def shares(self, other: Array) -> bool:
        """Whether two arrays have memory in common."""
        return isinstance(other, ForeignArray) and bool(np.shares_memory(self.memory, other.memory))

    def seen_as(self, source: int) -> Array:
        """The same memory as the parameter of another number."""
        return ForeignArray(self._own, source, self.memory, self._space)


def given_back(memory: np.ndarray[Any, Any], space: Any) -> Any:
    """An array of a library over the memory of a NumPy array; the NumPy array where there is no namespace.

    Raises:
        ArgumentTypeError: the library has no such dtype.
    """
    if space is None:
        return memory
    try:
        return space.from_dlpack(memory)
    except (BufferError, TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"a result of {memory.dtype} cannot become an array of {space.__name__}, which says: {error}; "
            f"pass NumPy arrays instead"
        ) from error


class ForeignRun(NumpyRun):
    """A call on arrays of a library with this namespace."""

    __slots__ = ("space",)

    def __init__(self, checker: Checker, space: Any) -> None:
        super().__init__(checker)
        self.space = space

    def empty(self, shape: tuple[int, ...], dtype: DType) -> ForeignArray:
        """A new array, or the caller's."""
        return ForeignArray(None, -1, super().empty(shape, dtype).value, self.space)

    def empty_like(self, array: Array) -> Array:
        """A new dense array."""
        return self.empty(array.shape, array.dtype)

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new array of zeros, or the caller's, filled with zeros."""
        found = self.empty(shape, dtype)
        found.memory[...] = 0
        return found

    def launch(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Check and run a launch, on the memory of the arrays."""
        named = {name: _in_numpy(value) for name, value in kwargs.items()}
        return super().launch(kernel, grid, tuple(map(_in_numpy, args)), named)

    def inside(self, checker: Checker) -> ForeignRun:
        """A call of another operator."""
        return ForeignRun(checker, self.space)

    def wrap(self, value: Any) -> Array:
        """An array of the library, or NumPy's."""
        if isinstance(value, np.ndarray):
            return ForeignArray(None, -1, value, self.space)
        return ForeignArray(value, -1, None, self.space)

    def dense(self, array: Array) -> Array:
        """The array itself, or a copy."""
        assert isinstance(array, ForeignArray)
        memory = array.memory
        return array if memory.flags.c_contiguous else ForeignArray(None, -1, memory.copy(order="C"), self.space)

    def assign(self, target: Array, value: Array) -> None:
        """Copy elements."""
        assert isinstance(target, ForeignArray) and isinstance(value, ForeignArray)
        target.memory[...] = value.memory


def _in_numpy(value: Any) -> Any:
    return NumpyArray(value.memory, value.source) if isinstance(value, ForeignArray) else value


def bind(op: Operator) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """The function that handles calls whose first argument is such an array."""
    named_out = any(param.name == "out" for param in op.schema.params)

    def handle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = None if named_out else kwargs.pop("out", None)
        return op.dispatch(op.schema.bind(args, kwargs), out)

    return handle


def _items(op: Operator, bound: Sequence[Any]) -> Iterator[Any]:
    for index in op.schema.arrays:
        value = bound[index]
        yield from each(value)


def run_on(op: Operator, bound: Sequence[Any], out: Any = None) -> Any:
    """Call on bound arguments with arrays of other libraries, and NumPy's, among them.

    Raises:
        ArgumentTypeError, ArgumentValueError: as for NumPy arrays, or an array that no kernel can take.
    """
    arrays = [item for item in _items(op, bound) if library_of(item) == "protocol"]
    if any(place_of(item) == "gpu" for item in arrays):
        from .device import run_on as run_on_device

        return run_on_device(op, bound, out)
    space = namespace_of(arrays)
    given: dict[int, Any] = {}  # the library's array by its memory, for those that are passed as they are

    def lowered(value: Any, where: str) -> Any:
        if isinstance(value, (tuple, list)):
            return [lowered(item, where) for item in value]
        if library_of(value) != "protocol":
            return value
        memory = memory_of(value, where)
        given[id(memory)] = value
        return memory

    def wrap(memory: Any, index: int) -> Array:
        return ForeignArray(given.get(id(memory)), index, memory, space)

    values = [
        lowered(value, f"operator {op.name}, argument {param.name!r}") if param.kind.is_array else value
        for param, value in zip(op.schema.params, bound, strict=True)
    ]
    return run_on_numpy(op, values, out, ForeignRun(op.checker, space), wrap)
