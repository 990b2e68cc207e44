"""Omnikernel: stock Triton kernels, compiled to native code on the CPU.

Installing the package is enough: Triton finds the backend `cpu` by its entry point, and `kernel[grid](...)` takes NumPy
arrays, torch CPU tensors and everything else that DLPack or the array interface describes. The names here are imported
when they are first used, so that `import omnikernel` costs next to nothing and loads no framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cpp.loading import load, load_inline
    from .ops.arrays import Array, DType, empty, empty_like, zeros, zeros_like
    from .ops.declare import Operator, op
    from .ops.formula import namespace, vjp_of
    from .ops.sizes import cdiv, next_power_of_2
    from .runtime.pool import get_num_threads, set_num_threads
    from .runtime.prepare import PreparedLaunch, prepare
    from .ship.declare import prebuild
    from .ship.handles import shipped

__version__ = "0.1.0"

# Public name -> the module that holds it.
_LAZY = {
    "Array": ".ops.arrays",
    "DType": ".ops.arrays",
    "Operator": ".ops.declare",
    "PreparedLaunch": ".runtime.prepare",
    "cdiv": ".ops.sizes",
    "empty": ".ops.arrays",
    "empty_like": ".ops.arrays",
    "get_num_threads": ".runtime.pool",
    "load": ".cpp.loading",
    "load_inline": ".cpp.loading",
    "namespace": ".ops.formula",
    "next_power_of_2": ".ops.sizes",
    "op": ".ops.declare",
    "prebuild": ".ship.declare",
    "prepare": ".runtime.prepare",
    "set_num_threads": ".runtime.pool",
    "shipped": ".ship.handles",
    "vjp_of": ".ops.formula",
    "zeros": ".ops.arrays",
    "zeros_like": ".ops.arrays",
}
__all__ = [
    "Array",
    "DType",
    "Operator",
    "PreparedLaunch",
    "__version__",
    "cdiv",
    "empty",
    "empty_like",
    "get_num_threads",
    "load",
    "load_inline",
    "namespace",
    "next_power_of_2",
    "op",
    "prebuild",
    "prepare",
    "set_num_threads",
    "shipped",
    "vjp_of",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'omnikernel' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
