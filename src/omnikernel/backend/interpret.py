"""Triton's interpreter (`TRITON_INTERPRET=1`), adapted: arrays of NumPy, JAX and others pass as they are.

Called with the interpreter's module once it is loaded. Torch tensors go their stock way; every other array is seen by
the kernel at its own address, so writes land in it, whatever its strides. Arrays that must not be written (JAX's,
read-only ones) are guarded: a store into them is an error naming the parameter, before it happens.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, ArgumentValueError, OmnikernelError
from .hooks import as_grid, wrap


class HostArray:
    """An array as the interpreter needs it: an address and a dtype; keeps the array alive."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.dtype = array.dtype
        self.shape = array.shape

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def element_size(self) -> int:
        return self.array.itemsize

    def stride(self, axis: int | None = None) -> Any:
        """Strides in elements, as torch's `stride`."""
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return strides if axis is None else strides[axis]


class _Held:
    """Keeps an argument out of the stock conversion, which knows torch tensors alone."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Guards(threading.local):
    """Address ranges that the launch running in this thread must not write: (first, end, why)."""

    ranges: tuple[tuple[int, int, str], ...] = ()


_guards = _Guards()


def as_numpy(value: Any, where: str) -> np.ndarray[Any, Any] | None:
    """The NumPy array over the memory of an array that is not a torch tensor; None for what is no array.

    Args:
        value: an argument of a launch.
        where: kernel and parameter, for errors.

    Raises:
        ArgumentTypeError: an array that the interpreter cannot address.
    """
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "data_ptr") or isinstance(value, str | bytes | int | float | np.generic):
        return None
    elif type(value).__module__.partition(".")[0] in ("jax", "jaxlib") or hasattr(value, "__array_interface__"):
        array = np.asarray(value)
    elif isinstance(value, bytearray | memoryview):
        array = np.asarray(memoryview(value))
    elif hasattr(value, "__dlpack__"):
        array = np.from_dlpack(value)
    else:
        return None
    if array.dtype.hasobject or not array.dtype.isnative or array.dtype.names:
        raise ArgumentTypeError(
            f"{where}: expected an array of numbers in native byte order, got dtype {array.dtype!s}; "
            "convert it with .astype()"
        )
    return array


class _Arguments:
    """Converts the arguments of one launch, and gathers what it must not write."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._writable: list[tuple[int, int]] = []
        self._guarded: list[tuple[int, int, str]] = []

    def hold(self, name: str, value: Any) -> Any:
        """Wrap what the stock conversion cannot take; NumPy scalars become Python's."""
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, tuple):
            held = [self.hold(f"{name}[{index}]", each) for index, each in enumerate(value)]
            return type(value)(*held) if hasattr(value, "_fields") else tuple(held)
        where = f"kernel {self._kernel}, parameter {name}"
        array = as_numpy(value, where)
        if array is not None:
            self._note(array, type(value), where)
            return _Held(HostArray(array))
        if hasattr(value, "data_ptr") and not hasattr(value, "untyped_storage") and not hasattr(value, "base"):
            return _Held(value)
        return value

    def _note(self, array: np.ndarray[Any, Any], kind: type, where: str) -> None:
        if array.size == 0:
            return
        first, end = np.lib.array_utils.byte_bounds(array)
        if array.flags.writeable:
            self._writable.append((first, end))
        else:
            what = "read-only array" if kind is np.ndarray else f"array of type {kind.__module__}.{kind.__qualname__}"
            self._guarded.append((first, end, f"{where}: the kernel writes into a {what}; pass a writable copy"))

    def guards(self) -> tuple[tuple[int, int, str], ...]:
        """Ranges not to be written. Memory that is also passed as a writable array may be."""
        return tuple(
            (first, end, why)
            for first, end, why in self._guarded
            if not any(low < end and first < high for low, high in self._writable)
        )


def _release(value: Any) -> Any:
    if isinstance(value, _Held):
        return value.value
    if isinstance(value, tuple):
        freed = [_release(each) for each in value]
        return type(value)(*freed) if hasattr(value, "_fields") else tuple(freed)
    return value


def _init_args_hst(stock: Callable[..., Any]) -> Callable[..., Any]:
    def init_args_hst(self: Any, args_dev: Any, kwargs: dict[str, Any]) -> Any:
        arguments = _Arguments(getattr(self.fn, "__name__", "?"))
        names = [*self.arg_names, *("?" for _ in args_dev[len(self.arg_names) :])]
        held = [arguments.hold(name, value) for name, value in zip(names, args_dev, strict=False)]
        named = {name: arguments.hold(name, value) for name, value in kwargs.items()}
        args_hst, kwargs_hst = stock(self, held, named)
        _guards.ranges = arguments.guards()
        return [_release(value) for value in args_hst], {name: _release(value) for name, value in kwargs_hst.items()}

    return init_args_hst


def _init(stock: Callable[..., Any]) -> Callable[..., Any]:
    """The interpreter takes grids as tuples of ints only."""

    def init(self: Any, fn: Any, arg_names: Any, grid: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, fn, arg_names, as_grid(grid), *args, **kwargs)

    return init


def _restore_args_dev(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Only tensors have anything to be copied back, and wrappers that are not torch's have no storage to copy."""

    def kept(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(kept(each) for each in value)
        own = hasattr(value, "data_ptr") and not hasattr(value, "untyped_storage") and not hasattr(value, "base")
        return None if own else value

    def restore(self: Any, args_dev: Any, args_hst: Any, kwargs: dict[str, Any], kwargs_hst: Any) -> None:
        stock(self, [kept(each) for each in args_dev], args_hst, {k: kept(v) for k, v in kwargs.items()}, kwargs_hst)

    return restore


def _call(stock: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        _adapt_libdevice(self._omnikernel_module)
        before = _guards.ranges
        try:
            return stock(self, *args, **kwargs)
        except Exception as error:
            # The interpreter keeps only the text of an error; ours is more use as it was raised.
            if isinstance(error.__cause__, OmnikernelError):
                raise error.__cause__ from None
            raise
        finally:
            _guards.ranges = before

    return call


def _refuse_guarded(addresses: Any, mask: Any) -> None:
    live = np.asarray(addresses)
    if mask is not None:
        live = live[np.broadcast_to(np.asarray(mask, bool), live.shape)]
    for first, end, why in _guards.ranges:
        if np.any((live >= first) & (live < end)):
            raise ArgumentValueError(why)


def _guarded_write(mask_at: int | None, pointer_at: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Check the addresses of a write; the operands are found by position."""

    def make(stock: Callable[..., Any]) -> Callable[..., Any]:
        def write(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _guards.ranges:
                mask = None if mask_at is None else args[mask_at].data
                _refuse_guarded(args[pointer_at].data, mask)
            return stock(self, *args, **kwargs)

        return write

    return make


def install(module: ModuleType) -> None:
    """Adapt `triton.runtime.interpreter`; a second call does nothing."""
    executor, builder = module.GridExecutor, module.InterpreterBuilder
    executor._omnikernel_module = module
    wrap(executor, "__init__", _init)
    wrap(executor, "_init_args_hst", _init_args_hst)
    wrap(executor, "_restore_args_dev", _restore_args_dev)
    wrap(executor, "__call__", _call)
    wrap(builder, "create_masked_store", _guarded_write(mask_at=2, pointer_at=0))
    wrap(builder, "create_atomic_cas", _guarded_write(mask_at=None, pointer_at=0))
    wrap(builder, "create_atomic_rmw", _guarded_write(mask_at=3, pointer_at=1))
    wrap(builder, "create_extern_elementwise", functools.partial(_extern, module))


def _adapt_libdevice(module: ModuleType) -> None:
    """Let the functions of the libdevice modules, which are empty or need a compiler, run in the interpreter."""
    import importlib

    from . import libdevice

    for name in ("libdevice", "cuda.libdevice", "hip.libdevice"):
        stub = importlib.import_module(f"triton.language.extra.{name}")
        if getattr(stub, "_omnikernel", False):
            continue
        for function in libdevice.TABLE:
            if hasattr(stub, function):
                setattr(stub, function, _interpreted(getattr(libdevice, function), module))
        stub._omnikernel = True  # type: ignore[attr-defined]


def _interpreted(function: Callable[..., Any], module: ModuleType) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = module.interpreter_semantic
        return function(*args, **kwargs)

    return call


def _extern(module: ModuleType, stock: Callable[..., Any]) -> Callable[..., Any]:
    def create(self: Any, library: str, path: str, symbol: str, operands: Any, result: Any, pure: bool) -> Any:
        from .numpy_libdevice import evaluate

        kind = result.scalar
        data = evaluate(symbol, [operand.data for operand in operands])
        if data is None:
            return stock(self, library, path, symbol, operands, result, pure)
        return module.TensorHandle(data.astype(module._get_np_dtype(kind)), kind)

    return create
