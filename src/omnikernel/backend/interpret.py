"""Triton's interpreter (`TRITON_INTERPRET=1`), adapted: arrays of NumPy, JAX and others pass as they are.

Called with the interpreter's module once it is loaded. Torch tensors go their stock way; every other array is seen by
the kernel at its own address, so writes land in it, whatever its strides. Arrays that must not be written (JAX's,
read-only ones) are guarded: a store into them is an error naming the parameter, before it happens.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, ArgumentValueError, OmnikernelError
from ..runtime.arrays import ArrayView, Where, view
from .descriptors import Held
from .hooks import as_grid, wrap


class HostArray:
    """An array as the interpreter needs it: an address and a dtype; keeps the array alive."""

    def __init__(self, view: ArrayView) -> None:
        self._view = view
        self.dtype = view.dtype
        self.shape = view.shape

    def data_ptr(self) -> int:
        return self._view.address


Range = tuple[int, int, ArgumentTypeError | ArgumentValueError]


class _Guards(threading.local):
    """Address ranges that the launch running in this thread must not write: (first, end, error)."""

    ranges: tuple[Range, ...] = ()


_guards = _Guards()


class _Arguments:
    """Converts the arguments of one launch, and gathers what it must not write."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._writable: list[tuple[int, int]] = []
        self._guarded: list[Range] = []

    def hold(self, name: str, value: Any) -> Any:
        """Wrap what the stock conversion cannot take; NumPy scalars become Python's."""
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, tuple):
            held = [self.hold(f"{name}[{index}]", each) for index, each in enumerate(value)]
            return type(value)(*held) if hasattr(value, "_fields") else tuple(held)
        if type(value).__name__ == "TensorDescriptor":
            described = copy.copy(value)
            described.base = self.hold(f"{name}.base", value.base)
            return described
        if _is_tensor(value):
            return value
        found = view(value, self._kernel, name)
        if found is None:
            return value
        self._note(found, name)
        return Held(HostArray(found))

    def _note(self, found: ArrayView, name: str) -> None:
        if found.extent is None or found.extent[0] == found.extent[1]:
            return
        if found.writeable:
            self._writable.append(found.extent)
            return
        where, expected = Where(self._kernel, name), "an array that the kernel can write"
        if found.library == "jax":
            advice = "JAX arrays are immutable: pass a NumPy array to write into"
            self._guarded.append((*found.extent, where.type_error(expected, "a JAX array", advice)))
        else:
            kind = f"a read-only {found.library} array"
            self._guarded.append((*found.extent, where.value_error(expected, kind, "pass a writable copy")))

    def guards(self) -> tuple[Range, ...]:
        """Ranges not to be written. Memory that is also passed as a writable array may be."""
        return tuple(
            (first, end, error)
            for first, end, error in self._guarded
            if not any(low < end and first < high for low, high in self._writable)
        )


def _is_tensor(value: Any) -> bool:
    """A torch tensor, or Triton's wrapper or descriptor of one: the stock conversion takes it."""
    return hasattr(value, "untyped_storage") or type(value).__module__.startswith("triton.")


def _release(value: Any) -> Any:
    if isinstance(value, Held):
        return value.value
    if type(value).__name__ == "TensorDescriptor":
        value.base = _release(value.base)
        return value
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
        return value if _is_tensor(value) else None

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
    for first, end, error in _guards.ranges:
        if np.any((live >= first) & (live < end)):
            raise error


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
    def create(self: Any, library: str, path: str, symbol: str, operands: Any, *rest: Any) -> Any:
        from .numpy_libdevice import evaluate

        kind = rest[0].scalar
        data = evaluate(symbol, [operand.data for operand in operands])
        if data is None:
            return stock(self, library, path, symbol, operands, *rest)
        return module.TensorHandle(data.astype(module._get_np_dtype(kind)), kind)

    return create
