"""An operator on a GPU's arrays of libraries that have no binding of their own, such as CuPy.

In: arguments with `__cuda_array_interface__`, all on one GPU. Out: new arrays of the library of the first of them. C++ and
shipped kernels take such arrays themselves. Triton's launches want torch's methods and torch's current stream: they get a
stand-in for each array, and run on the stream that the arrays' library is using.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..backend.places import place_of
from ..cpp import driver, gpu
from ..errors import ArgumentTypeError
from ..runtime.arrays import ITEMSIZE, ArrayView
from .arrays import Array, DType
from .formula import namespace_of
from .launches import Checker, EagerRun, Place, call, innermost, plain, results_of
from .numpy import dtype_of
from .schema import each

if TYPE_CHECKING:
    from .declare import Operator
    from .schema import Param


class DeviceArray(Array):
    """A GPU's array inside an operator's function."""

    __slots__ = ("view",)

    def __init__(self, value: Any, source: int = -1, view: ArrayView | None = None) -> None:
        super().__init__(value, source)
        self.view = view or _view(value)

    @property
    def dtype(self) -> DType:
        """The name of the dtype."""
        return DType(self.value.dtype)

    @property
    def device(self) -> str:
        """The kind of the device."""
        return "cuda"

    def stride(self, dimension: int) -> int:
        """The step along a dimension, in elements."""
        assert self.view.strides is not None
        return self.view.strides[dimension] // ITEMSIZE[self.view.dtype]

    def shares(self, other: Array) -> bool:
        """Whether two dense arrays have memory in common: those that the function made start at one address."""
        return isinstance(other, DeviceArray) and self.view.address == other.view.address and self.size > 0

    def seen_as(self, source: int) -> Array:
        """The same memory as the parameter of another number."""
        return DeviceArray(self.value, source, self.view)


def _view(value: Any) -> ArrayView:
    where = Place(words="an array inside of an operator")
    number = gpu.device_of(value)
    found = None if number is None else gpu.look(number)(value, where)
    if found is None:
        advice = "pass one with __cuda_array_interface__"
        raise where.type_error("an array of a GPU", f"a {type(value).__qualname__}", advice)
    return found


@dataclass(frozen=True, slots=True)
class Pointer:
    """What Triton wants of an array: an address, and a dtype by name. `device` says that it is on a GPU."""

    address: int
    dtype: str
    device: str = "cuda"

    def data_ptr(self) -> int:
        """The address."""
        return self.address


class DeviceRun(EagerRun):
    """A call on arrays of one GPU."""

    __slots__ = ("number", "space")

    def __init__(self, checker: Checker, space: Any, number: int) -> None:
        super().__init__(checker)
        self.space = space
        self.number = number

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new array of the library, on the library's current device."""
        return DeviceArray(self.space.empty(shape, dtype=_dtype(self.space, dtype)))

    def empty_like(self, array: Array) -> Array:
        """A new dense array."""
        return self.empty(array.shape, array.dtype)

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new array of zeros."""
        return DeviceArray(self.space.zeros(shape, dtype=_dtype(self.space, dtype)))

    def launch(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Check and run a launch, a Triton kernel's on the stream of the arrays' library."""
        if not hasattr(innermost(kernel), "params"):
            return super().launch(kernel, grid, args, kwargs)
        values = [plain(arg) for arg in (*args, *kwargs.values())]
        named = {name: _pointed(value) for name, value in kwargs.items()}
        with torch_stream(gpu.current_stream(values, self.number), self.number, innermost(kernel).__name__):
            return super().launch(kernel, grid, tuple(map(_pointed, args)), named)

    def inside(self, checker: Checker) -> DeviceRun:
        """A call of another operator."""
        return DeviceRun(checker, self.space, self.number)

    def wrap(self, value: Any) -> Array:
        """An array of the library."""
        return DeviceArray(value)

    def dense(self, array: Array) -> Array:
        """The array itself, or a copy by the library."""
        assert isinstance(array, DeviceArray)
        return array if is_dense(array.view) else DeviceArray(self.space.ascontiguousarray(array.value))

    def assign(self, target: Array, value: Array) -> None:
        """Copy elements."""
        target.value[...] = value.value


def _dtype(space: Any, name: str) -> Any:
    found = getattr(space, name, None)
    if found is None and dtype_of(name).isbuiltin == 1:  # CuPy takes NumPy's
        return dtype_of(name)
    if found is None:
        raise ArgumentTypeError(f"{space.__name__} has no dtype named {name!r}")
    return found


def _pointed(value: Any) -> Any:
    if not isinstance(value, DeviceArray):
        return value
    return Array(Pointer(value.view.address, str(value.dtype)), value.source)


@contextmanager
def torch_stream(stream: int, number: int, kernel: str) -> Iterator[None]:
    """Triton asks torch for the stream to launch on.

    Raises:
        ArgumentTypeError: torch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        raise ArgumentTypeError(
            f"kernel {kernel!r}: Triton launches on GPUs with torch's help, and torch is not installed; install it, or "
            f"ship the kernel prebuilt (omnikernel build)"
        )
    import torch

    cuda: Any = torch.cuda
    with cuda.device(number), cuda.stream(cuda.ExternalStream(stream) if stream else cuda.default_stream(number)):
        yield


def run_on(op: Operator, bound: Sequence[Any], out: Any = None) -> Any:
    """Call on bound arguments with at least one array of a GPU.

    Raises:
        ArgumentTypeError: no driver of a GPU, arrays of two devices, a library that cannot make arrays, or `out=`.
        ArgumentValueError: an array that is not dense, where the library cannot make it so.
    """
    if driver.driver() is None:
        raise ArgumentTypeError(
            f"operator {op.name}: got an array of a GPU, and there is no driver of an NVIDIA GPU here; copy it to the CPU first"
        )
    if out is not None:
        raise ArgumentTypeError(f"operator {op.name}: there is no out= for arrays of this library; use the result")
    arrays = list(_on_gpu(op, bound))
    space, number = namespace_of(arrays), gpu.device_of(arrays[0])
    if space is None and op.schema.results:
        kind = type(arrays[0])
        raise ArgumentTypeError(
            f"operator {op.name}: a {kind.__module__}.{kind.__qualname__} has no array-API namespace, so there is nothing to "
            f"make the results with; pass CuPy arrays or torch tensors"
        )
    assert number is not None
    run = DeviceRun(op.checker, space, number)
    with space.cuda.Device(number) if hasattr(space, "cuda") else nullcontext():
        values = [_argument(op, i, p, v, run) for i, (p, v) in enumerate(zip(op.schema.params, bound, strict=True))]
        args, kwargs = op.schema.arguments(values)
        results = results_of(op.schema, call(op.function, run, args, kwargs))
    op.check_wrote(run)
    return op.schema.packed(results)


def _on_gpu(op: Operator, bound: Sequence[Any]) -> Iterator[Any]:
    for index in op.schema.arrays:
        value = bound[index]
        for item in each(value):
            if place_of(item) == "gpu":
                yield item


def _argument(op: Operator, index: int, param: Param, value: Any, run: DeviceRun) -> Any:
    if not param.kind.is_array:
        return op.scalar(param, value)
    if value is None and param.kind.optional:
        return None
    if isinstance(value, (tuple, list)):
        return [_array(op, index, param, item, run) for item in value]
    return _array(op, index, param, value, run)


def _array(op: Operator, index: int, param: Param, value: Any, run: DeviceRun) -> DeviceArray:
    where = Place(words=f"operator {op.name}, argument {param.name!r}")
    if gpu.device_of(value) is None:
        got = f"a {type(value).__qualname__}"
        raise where.type_error(f"an array on cuda:{run.number}, where the others are", got, "move it there first")
    view = gpu.look(run.number)(value, where)
    assert view is not None
    if param.strided or is_dense(view):
        return DeviceArray(value, index, view)
    if param.mutated or not hasattr(run.space, "ascontiguousarray"):
        advice = "pass a dense copy, or declare the parameter strided"
        raise where.value_error("a dense array", f"one of strides {view.strides} in bytes", advice)
    return DeviceArray(run.space.ascontiguousarray(value), index)


def is_dense(view: ArrayView) -> bool:
    """Row-major, without gaps."""
    assert view.shape is not None and view.strides is not None
    step = ITEMSIZE[view.dtype]
    for extent, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if extent > 1 and stride != step:
            return 0 in view.shape
        step *= extent
    return True
