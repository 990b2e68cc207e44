"""Threads of a launch: how many, and who runs which programs.

In: the address of a compiled kernel, its argument slots and the grid. Out: every program has run once, or the assert that
failed first. The work is done by the C extension's pool where there is one, and by `PythonPool` otherwise: same order of
programs (increasing), same results, a start that costs tens of microseconds more.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Protocol

from .. import config
from ..processors import available_threads

INLINE_BELOW_NS = 30_000.0  # waking a thread costs about as much
CHUNKS_PER_THREAD = 16

Grid = tuple[int, int, int]
Failure = tuple[int, int, int, int]  # number of the assert, x, y, z
_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
)


class Pool(Protocol):
    """What both pools can do."""

    def run(self, address: int, slots: bytes, grid: Grid, arena_bytes: int, cost: float, /) -> Failure | None: ...

    def set_num_threads(self, count: int, /) -> None: ...

    def get_num_threads(self) -> int: ...


@cache
def native() -> ModuleType | None:
    """The C extension, or None where it was not built or `OMNIKERNEL_NO_NATIVE` forbids it."""
    if not config.native_allowed():
        return None
    try:
        return importlib.import_module("omnikernel._native")
    except ImportError:
        return None


@cache
def pool() -> Pool:
    """The pool of this process."""
    chosen: Pool = native() or PythonPool()  # the module has the functions of the protocol
    chosen.set_num_threads(config.num_threads() or available_threads())
    return chosen


def set_num_threads(count: int) -> None:
    """How many threads a launch may use, the calling one included.

    Raises:
        ValueError: `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"expected at least 1 thread, got {count}")
    pool().set_num_threads(count)


def get_num_threads() -> int:
    """How many threads a launch may use, the calling one included."""
    return pool().get_num_threads()


class PythonPool:
    """The pool without the C extension: ctypes calls, which release the GIL, on executor threads.

    As in C: chunks of programs are handed out in increasing order, the caller takes part, it waits only for chunks that
    a thread has begun, and a launch that finds the pool busy runs inline.
    """

    def __init__(self) -> None:
        self._threads = 1
        self._arenas = threading.local()
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """A forked child has none of the parent's threads, and its lock may have been held by one."""
        self._busy = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0

    def set_num_threads(self, count: int, /) -> None:
        self._threads = count

    def get_num_threads(self) -> int:
        return self._threads

    def run(self, address: int, slots: bytes, grid: Grid, arena_bytes: int, cost: float, /) -> Failure | None:
        """Run every program of the grid; the failed assert of the lowest program, if any."""
        programs = grid[0] * grid[1] * grid[2]
        if programs <= 0:
            return None
        entry = _ENTRY(address)
        arguments = ctypes.create_string_buffer(slots, max(8, len(slots)))
        extents = (ctypes.c_int32 * 3)(*grid)

        def call(first: int, last: int) -> Failure | None:
            fault = (ctypes.c_int32 * 3)()
            code = entry(arguments, extents, first, last, self._arena(arena_bytes), fault)
            return (code, *fault) if code else None

        threads = min(self._threads, programs)
        small = 0 < cost * programs < INLINE_BELOW_NS
        if threads < 2 or small or not self._busy.acquire(blocking=False):
            return call(0, programs)
        try:
            return self._share(call, programs, threads)
        finally:
            self._busy.release()

    def _share(self, call: Callable[[int, int], Failure | None], programs: int, threads: int) -> Failure | None:
        chunk = max(1, programs // (threads * CHUNKS_PER_THREAD))
        starts = itertools.count(0, chunk)  # next() is atomic under the GIL
        failures: dict[int, Failure] = {}

        def work() -> None:
            while (first := next(starts)) < programs:
                if failures and first > min(failures):  # a lower program failed; the launch is lost
                    continue
                failure = call(first, min(first + chunk, programs))
                if failure is not None:
                    failures[first] = failure

        helpers = [self._workers(threads - 1).submit(work) for _ in range(threads - 1)]
        work()
        _join(helpers)
        return failures[min(failures)] if failures else None

    def _workers(self, count: int) -> ThreadPoolExecutor:
        if self._executor is None or self._size < count:
            if self._executor is not None:
                self._executor.shutdown(wait=False)
            self._executor, self._size = ThreadPoolExecutor(count, "omnikernel"), count
        return self._executor

    def _arena(self, size: int) -> int:
        """The 64-byte aligned scratch memory of this thread, kept for its next launch."""
        held: tuple[int, int, object] | None = getattr(self._arenas, "held", None)
        if held is None or held[1] < size:
            block = ctypes.create_string_buffer(size + 64)
            held = (ctypes.addressof(block) + 63 & ~63, size, block)
            self._arenas.held = held
        return held[0]


def _join(helpers: list[Future[None]]) -> None:
    """Wait for the helpers that have begun; those that have not find nothing left to do."""
    for helper in helpers:
        if not helper.cancel():
            helper.result()


def native_missing() -> str | None:
    """Why the C extension is not in use; None where it is."""
    if native() is not None:
        return None
    if not config.native_allowed():
        return "OMNIKERNEL_NO_NATIVE is set"
    return f"not built for Python {sys.version_info.major}.{sys.version_info.minor}"
