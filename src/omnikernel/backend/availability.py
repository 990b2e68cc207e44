"""Whether the backend can work in this process, and one warning where it cannot."""

from __future__ import annotations

import functools
import os
import warnings

_NEEDED = (
    "omnikernel.backend.cpu_compiler",
    "numpy",
    "llvmlite.binding",
    "omnikernel.llvm.jit",  # the compiler itself is needed where a kernel is not in the cache
    "omnikernel.runtime.launch",
)


def report(error: BaseException) -> None:
    """Warn that the backend is off, and why; the same reason is given once."""
    _warn(f"{type(error).__name__}: {error}")


@functools.cache
def _warn(reason: str) -> None:
    warnings.warn(
        f"omnikernel: Triton's backend `cpu` is not active: {reason}. `omnikernel info` tells more.",
        RuntimeWarning,
        stacklevel=3,
    )


@functools.cache
def usable() -> bool:
    """True when everything that compiling and launching needs can be imported; warns once where it cannot."""
    import importlib

    try:
        for name in _NEEDED:
            importlib.import_module(name)
    except Exception as error:
        report(error)
        return False
    return True


def selected() -> str:
    """The backend named by `TRITON_DEFAULT_BACKEND`, or "".

    Triton 3.6 does not read the variable, so there it selects nothing.
    """
    import triton

    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 7):
        return ""
    return os.environ.get("TRITON_DEFAULT_BACKEND", "")
