"""What kernels find in place of `triton.language.extra.cuda` (and its `utils`) on the CPU.

The number of warps is no part of a compiled kernel's key here, so a kernel that computes with it would get whatever
number it was compiled with first: such kernels are refused. Everything else is Triton's own; what of it is written in
GPU assembly is refused by the lowering.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from triton.language import core

from ..errors import UnsupportedOp

NAMES = ("triton.language.extra.cuda", "triton.language.extra.cuda.utils")


def _refused(name: str) -> Any:
    def function(_semantic: Any = None) -> Any:
        raise UnsupportedOp(
            f"tl.extra.cuda.{name}() has no meaning on the CPU, where a program is one thread; "
            "pass the number as a constexpr argument"
        )

    function.__name__ = function.__qualname__ = name
    return core.builtin(function)


class _Extra(ModuleType):
    """Triton's module, but for the functions about warps."""

    def __getattr__(self, name: str) -> Any:
        import triton.language.extra.cuda as stock

        return getattr(stock, name)


@functools.cache
def module() -> ModuleType:
    """The module to be seen under `NAMES`."""
    made = _Extra(NAMES[0])
    made.num_warps, made.num_threads = _refused("num_warps"), _refused("num_threads")  # type: ignore[attr-defined]
    return made
