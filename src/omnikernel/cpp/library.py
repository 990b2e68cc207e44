"""A library that was built, in this process: its entries, the pool that they run on, the errors that they report.

In: the path of a shared object and slots of arguments. Out: the entry has run for every program of the grid, on the threads of
`runtime.pool`, which also serves `ok::parallel_for`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import OmnikernelError
from ..runtime.pool import native, pool
from .places import located
from .source import Function


class KernelError(OmnikernelError):
    """A kernel or a function reported a mistake while it ran: an index out of bounds, a failed assert, a divergence."""


class _Report(ctypes.Structure):
    """Where a launch leaves the text of its first error; ok::detail::Report in the header."""

    _fields_ = (("program", ctypes.c_int64), ("lock", ctypes.c_char), ("text", ctypes.c_char * 1015))


class Library:
    """A shared object that was built, and its functions' entries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.ok_set_pool.argtypes = (ctypes.c_void_p,)
        self._library.ok_set_pool(_pool_address())
        self._entries: dict[str, tuple[int, int]] = {}

    def entry(self, function: Function) -> tuple[int, int]:
        """The address of the entry, and the scratch that a thread of a block needs."""
        found = self._entries.get(function.name)
        if found is None:
            address = ctypes.cast(self._library[f"ok_entry_{function.name}"], ctypes.c_void_p).value or 0
            scratch = (
                ctypes.c_uint64.in_dll(self._library, f"ok_scratch_{function.name}").value if function.is_kernel else 0
            )
            found = self._entries[function.name] = (address, scratch)
        return found

    def run(self, function: Function, values: list[int], grid: tuple[int, int, int], threads: int, cost: float) -> None:
        """Run a function or every block of a kernel.

        Raises:
            KernelError: what it reported, with the block where it is a kernel.
        """
        address, scratch = self.entry(function)
        report = _Report(2**63 - 1, b"\0", b"")
        packed = (ctypes.c_uint64 * (len(values) + 1))(*values, ctypes.addressof(report))
        failure = pool().run(address, bytes(packed), grid, scratch * (threads + 1) + 64, cost)
        if failure is not None:
            _, x, y, z = failure
            text = located(report.text.decode(errors="replace"), self.path)
            if function.is_kernel:
                raise KernelError(f"kernel {function.name!r}, block ({x}, {y}, {z}): {text}")
            raise KernelError(f"function {function.name!r}: {text}")


_PoolCall = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


@cache
def _pool_callback() -> Any:
    """The pool as C++ calls it, by way of Python."""

    def run(entry: int, slots: int, chunks: int) -> None:
        pool().run(entry, ctypes.string_at(slots, 8), (chunks, 1, 1), 0, 0.0)

    return _PoolCall(run)


def _pool_address() -> int:
    """The address of the pool's function: the C extension's own where it has one."""
    own = getattr(native(), "pool_address", None)
    if own is not None:
        pool()  # sets the number of threads
        return int(own())
    return ctypes.cast(_pool_callback(), ctypes.c_void_p).value or 0
