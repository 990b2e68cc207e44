"""Host tensor descriptors (`triton.tools.tensor_descriptor.TensorDescriptor`) over arrays that are not torch's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True, slots=True)
class Held:
    """Keeps a value out of conversions that know torch tensors alone."""

    value: Any


def install(module: Any, wrap: Callable[[Any, str, Callable[[Any], Any]], None]) -> None:
    """Adapt `triton.tools.tensor_descriptor`; a second call does nothing."""
    wrap(module.TensorDescriptor, "__post_init__", _post_init)
    stock = module.TensorDescriptor.__dict__["from_tensor"]
    if not getattr(stock, "_omnikernel", False):
        made = staticmethod(_from_tensor(stock.__func__))
        made._omnikernel = True  # type: ignore[attr-defined]
        module.TensorDescriptor.from_tensor = made


def _stand_in(base: Any) -> Any:
    """What Triton's own checks of a descriptor read, for an array without torch's methods; None for no array."""
    from ..runtime.arrays import ITEMSIZE, view

    found = view(base, parameter="base of a TensorDescriptor")
    if found is None:
        return None
    floating = found.dtype.startswith(("fp", "bf"))
    dtype = _Dtype(found.dtype, ITEMSIZE[found.dtype], floating)
    return SimpleNamespace(data_ptr=lambda: found.address, dtype=dtype)


@dataclass(frozen=True, slots=True)
class _Dtype:
    name: str
    itemsize: int
    is_floating_point: bool

    def __str__(self) -> str:
        return self.name


def _post_init(stock: Callable[[Any], None]) -> Callable[[Any], None]:
    def post_init(self: Any) -> None:
        base = self.base
        if isinstance(base, Held):  # checked when the descriptor that holds the array itself was made
            return
        stand_in = None if hasattr(base, "data_ptr") else _stand_in(base)
        if stand_in is None:
            stock(self)
            return
        self.base = stand_in
        try:
            stock(self)
        finally:
            self.base = base

    return post_init


def _from_tensor(stock: Callable[..., Any]) -> Callable[..., Any]:
    def from_tensor(tensor: Any, block_shape: Any, *args: Any, **kwargs: Any) -> Any:
        if hasattr(tensor, "stride"):
            return stock(tensor, block_shape, *args, **kwargs)
        strides = [step // tensor.itemsize for step in _strides(tensor)]
        return _class()(tensor, list(tensor.shape), strides, block_shape, *args, **kwargs)

    return from_tensor


def _class() -> Any:
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor


def _strides(array: Any) -> tuple[int, ...]:
    from ..runtime.arrays import view

    found = view(array, parameter="tensor of a TensorDescriptor")
    if found is None or found.strides is None:
        raise TypeError(f"expected an array with strides, got a {type(array).__qualname__}")
    return found.strides
