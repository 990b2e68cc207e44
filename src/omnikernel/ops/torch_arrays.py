"""Tensors inside the function of an operator: what it sees of them, where new ones come from, and which are refused.

In: the arguments of a call. Out: `TorchArray`s of one device, dense where the operator wants them dense.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ArgumentTypeError
from ..runtime.arrays import DTYPES as TRITON_DTYPES
from .arrays import Array, DType
from .launches import AliasError, Checker, EagerRun, OffMixin, plain
from .schema import each

if TYPE_CHECKING:
    from .declare import Operator
    from .schema import Param

_NAMES: dict[torch.dtype, DType] = {
    dtype: DType(dtype) for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)
}
_DTYPES = {str(name): dtype for dtype, name in _NAMES.items()}  # plain strings: Dynamo reads them
USABLE = frozenset(dtype for name, dtype in _DTYPES.items() if name in TRITON_DTYPES)


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of a name.

    Raises:
        ArgumentTypeError: torch has none of this name.
    """
    found = _DTYPES.get(name)
    if found is None:
        raise ArgumentTypeError(f"torch has no dtype named {name!r}")
    return found


def from_numpy(value: Any) -> torch.Tensor:
    """A tensor over the memory of a NumPy array; ml_dtypes go by their bits."""
    import numpy as np

    dtype = _DTYPES.get(DType(value.dtype))
    if dtype is None:
        raise ArgumentTypeError(f"torch has no dtype {value.dtype}; convert the NumPy array first")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        if value.dtype.isbuiltin == 1:
            return torch.from_numpy(value)
        return torch.from_numpy(value.view(np.dtype(f"i{value.dtype.itemsize}"))).view(dtype)


class TorchArray(Array):
    """A tensor inside an operator's function."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """The number of elements."""
        size: int = self.value.numel()
        return size

    @property
    def dtype(self) -> DType:
        """The name of the dtype."""
        return _NAMES[self.value.dtype]

    def stride(self, dimension: int) -> int:
        """The step along a dimension, in elements."""
        step: int = self.value.stride(dimension)
        return step


class TorchRun(EagerRun):
    """A call on tensors of one device."""

    __slots__ = ("device",)

    def __init__(self, checker: Checker, device: torch.device) -> None:
        self.checker = checker
        self.launched = False
        self.wrote = frozenset()
        self.device = device

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new tensor."""
        return TorchArray(torch.empty(shape, dtype=dtype_of(dtype), device=self.device))

    def empty_like(self, array: Array) -> Array:
        """A new dense tensor."""
        value = array.value
        if type(value) is torch.Tensor and value.is_contiguous():  # dense as it is, and torch reads one argument less
            return TorchArray(torch.empty_like(value))
        return TorchArray(torch.empty_like(value, memory_format=torch.contiguous_format))

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new tensor of zeros."""
        return TorchArray(torch.zeros(shape, dtype=dtype_of(dtype), device=self.device))

    def inside(self, checker: Checker) -> TorchRun:
        """A call of another operator, launches as here."""
        return type(self)(checker, self.device)

    def wrap(self, value: Any) -> Array:
        """A tensor, or a NumPy array over whose memory one is made."""
        return TorchArray(value if isinstance(value, torch.Tensor) else from_numpy(value))

    def dense(self, array: Array) -> Array:
        """The tensor itself, or a copy."""
        return array if array.value.is_contiguous() else TorchArray(array.value.contiguous())

    def assign(self, target: Array, value: Array) -> None:
        """Copy elements."""
        target.value.copy_(value.value)


class FakeRun(OffMixin, TorchRun):
    """The same with launches turned off: for fake and meta tensors, also of symbolic sizes."""

    __slots__ = ()


class InlineRun(TorchRun):
    """Launches become part of the traced graph, for programs that must hold their kernels (AOTInductor)."""

    __slots__ = ()

    def launch(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Trace a launch as `torch.library.wrap_triton` does, heuristics evaluated now."""
        names = kernel.arg_names
        values = [plain(arg) for arg in args]
        named = {name: plain(value) for name, value in kwargs.items()}
        while hasattr(kernel, "values") and not hasattr(kernel, "params"):
            for name, choose in kernel.values.items():
                named[name] = choose({**dict(zip(names, values, strict=False)), **named})
            kernel = kernel.fn
        wrap: Any = torch.library.wrap_triton(kernel)
        wrap[grid](*values, **named)


def arguments_of(
    op: Operator, bound: Sequence[Any], copied: list[tuple[Any, Any]]
) -> tuple[list[Any], dict[str, Any], Any]:
    """Arguments of the function: dense arrays where the parameter is not strided, and the device of the first."""
    args, kwargs, device = [], {}, None
    for index, (param, value) in enumerate(zip(op.schema.params, bound, strict=True)):
        wrapped: Any
        if not param.kind.is_array:
            wrapped = op.scalar(param, value)
        elif value is None and param.kind.optional:
            wrapped = None
        elif param.kind.many:
            wrapped = [_array(op, index, param, item, copied) for item in value]
            device = _same_device(op, param, wrapped, device)
        else:
            wrapped = _array(op, index, param, value, copied)
            device = _same_device(op, param, [wrapped], device)
        if param.keyword_only:
            kwargs[param.name] = wrapped
        else:
            args.append(wrapped)
    return args, kwargs, device


def _array(op: Operator, index: int, param: Param, value: Any, copied: list[tuple[Any, Any]]) -> TorchArray:
    where = f"operator {op.name}, argument {param.name!r}"
    if not isinstance(value, torch.Tensor):
        raise ArgumentTypeError(f"{where}: expected a tensor, got a {type(value).__qualname__}")
    if value.layout != torch.strided:
        layout = str(value.layout).removeprefix("torch.")
        raise ArgumentTypeError(f"{where}: expected a strided tensor, got one of layout {layout}; pass .to_dense()")
    if value.dtype not in USABLE:
        raise ArgumentTypeError(
            f"{where}: expected a dtype that Triton has, got {value.dtype}; convert it first"
            + (", e.g. by torch.view_as_real" if value.is_complex() else "")
        )
    if param.strided or value.is_contiguous():
        return TorchArray(value, index)
    dense = value.contiguous()
    if param.mutated:
        copied.append((value, dense))
    return TorchArray(dense, index)


def _same_device(op: Operator, param: Param, arrays: Sequence[TorchArray], device: Any) -> Any:
    for array in arrays:
        here = array.value.device
        if device is not None and here != device:
            raise ArgumentTypeError(
                f"operator {op.name}, argument {param.name!r}: expected a tensor on {device}, as the ones before, "
                f"got one on {here}; move it with .to({str(device)!r})"
            )
        device = here
    return device


def check_memory(op: Operator, bound: Sequence[Any], returned: Any, results: Sequence[Any]) -> None:
    """A result that the function made by other means than `empty` may still be a view of an input."""
    if all(isinstance(item, TorchArray) for item in each(returned)):
        return
    inputs = {}
    for param, value in zip(op.schema.params, bound, strict=True):
        for item in each(value):
            if isinstance(item, torch.Tensor) and item.numel():
                inputs[item.untyped_storage().data_ptr()] = param.name
    for index, result in enumerate(results):
        name = inputs.get(result.untyped_storage().data_ptr()) if result.numel() else None
        if name is not None:
            raise AliasError(
                f"operator {op.name}: result {index} shares memory with the input {name!r}; return a new array, or "
                f"declare mutates=({name!r},) and -> None"
            )
