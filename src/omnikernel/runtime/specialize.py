"""Specialisation of arguments that Triton itself does not know: NumPy and JAX arrays, NumPy scalars, buffers ...

In: one argument, as Triton's binder hands it to `specialize_impl`. Out: the pair (type, key) that Triton makes for a
torch tensor of the same dtype and alignment, e.g. `("*fp32", "D")`, so that all libraries share one compiled kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .arrays import numpy_dtype, view

# Types that Triton's own C++ specialises well, by the root module of the type (builtins: int, float, str ...).
_NATIVE_MODULES = frozenset(("builtins", "torch", "triton"))


@cache
def _native() -> Callable[..., tuple[Any, Any]]:
    from triton._C.libtriton import native_specialize_impl

    found: Callable[..., tuple[Any, Any]] = native_specialize_impl
    return found


def plain(value: Any) -> Any:
    """A NumPy scalar (also of ml_dtypes) as the Python number that Triton expects; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def specialize(backend: Any, arg: Any, is_const: bool, specialize_value: bool, align: bool) -> tuple[Any, Any]:
    """Replaces Triton's `native_specialize_impl` for our backend; same parameters, same results.

    Args:
        backend: Triton's backend object; only handed on.
        arg: the argument of the launch.
        is_const: the parameter is annotated `tl.const`: the pointer type gets a `k`.
        specialize_value: divisibility and equality to 1 may be part of the key.
        align: alignment may be part of the key.

    Returns:
        The type of the parameter and its key: "D" for divisible by 16, "" for not, None for not specialised. For a tuple,
        a tuple of types and one of keys.

    Raises:
        ArgumentTypeError, ArgumentValueError: an array that no kernel on the CPU can take.
        TypeError: from Triton, for anything that is neither an array nor a scalar.
    """
    if isinstance(arg, np.ndarray):
        dtype = numpy_dtype(arg.dtype)
        if dtype is None or not arg.flags.aligned:
            view(arg)  # says what is wrong, if it is
        if dtype is not None:
            return _pointer(dtype, arg.ctypes.data, is_const, specialize_value, align)
    if isinstance(arg, np.generic):
        arg = arg.item()
    if type(arg) in (int, float, bool, type(None)):
        pair = _scalar(arg, specialize_value, align)
        if pair is not None:
            return pair
    if isinstance(arg, tuple):
        return _tuple(backend, arg)
    if type(arg).__module__.partition(".")[0] not in _NATIVE_MODULES or isinstance(arg, (bytearray, memoryview)):
        found = view(arg)
        if found is not None:
            return _pointer(found.dtype, found.address, is_const, specialize_value, align)
    try:
        return _native()(backend, arg, is_const, specialize_value, align)
    except KeyError:
        view(arg)  # says that Triton has no such dtype
        raise


def _scalar(arg: int | float | None, specialize_value: bool, align: bool) -> tuple[str, Any] | None:
    """As Triton's own; done here because Triton's first look at any argument imports torch where it is installed."""
    if arg is None:
        return "constexpr", None
    if isinstance(arg, bool):
        return "u1", None
    if isinstance(arg, float):
        return "fp32", None
    if specialize_value and arg == 1:
        return "constexpr", 1
    widths = (("i32", -(1 << 31), 1 << 31), ("i64", -(1 << 63), 1 << 63), ("u64", 1 << 63, 1 << 64))
    width = next((name for name, low, high in widths if low <= arg < high), None)
    if width is None:
        return None  # Triton says what is wrong
    return width, ("D" if align and arg % 16 == 0 else "") if specialize_value else None


def _pointer(dtype: str, address: int, is_const: bool, specialize_value: bool, align: bool) -> tuple[str, str | None]:
    dtype = "u1" if dtype == "i1" else dtype  # Triton's spelling of a bool in a signature
    name = f"*k{dtype}" if is_const else f"*{dtype}"
    if not specialize_value:
        return name, None
    return name, "D" if align and address % 16 == 0 else ""


def _tuple(backend: Any, arg: tuple[Any, ...]) -> tuple[Any, Any]:
    """Elements of a tuple are always specialised, as in Triton."""
    pairs = [specialize(backend, item, False, True, True) for item in arg]
    types, keys = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if hasattr(arg, "_fields"):
        return type(arg)(*types), type(arg)(*keys)
    return tuple(types), tuple(keys)
