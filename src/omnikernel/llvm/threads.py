"""Code generation of several modules at once.

LLVM may be used by any number of threads as long as each has a context of its own (LLVM Programmer's Manual, "Threads and
LLVM"). llvmlite holds one lock for all of LLVM, since its users share a context. Here they do not: only the call that
generates code, which takes nearly all of the time, is made without that lock.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from llvmlite.binding import ffi

from ..processors import available_threads

Prepare = Callable[[], tuple[Any, Any]]


def objects(prepare: Sequence[Prepare]) -> list[bytes]:
    """Generate object code.

    Args:
        prepare: for each module what makes a target machine and the module, in a context of its own.

    Raises:
        RuntimeError: LLVM's message.
    """
    first, *others = works = [_Work(each) for each in prepare]
    helpers = [_started(work) for work in others] if available_threads() > 1 and _emit() else []
    try:
        first.run()
    finally:
        for work, helper in zip_longest(others, helpers):
            if helper:
                helper.join()
            else:
                work.run()
    return [work.result() for work in works]


def _started(work: _Work) -> threading.Thread | None:
    """A thread that does the work; None where Python starts no more threads, at its end."""
    helper = threading.Thread(target=work.run, name="omnikernel-llvm")
    try:
        helper.start()
    except RuntimeError:
        return None
    return helper


class _Work:
    """Object code that some thread makes."""

    def __init__(self, prepare: Prepare) -> None:
        self.prepare = prepare
        self.data = b""
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.data = _object(*self.prepare())
        except Exception as error:  # raised again where the result is asked for
            self.error = error

    def result(self) -> bytes:
        if self.error:
            raise self.error
        return self.data


def _object(machine: Any, module: Any) -> bytes:
    emit = _emit()
    if emit is None:
        data: bytes = machine.emit_object(module)
        return data
    message = ctypes.c_char_p()
    buffer = emit(machine, module, 1, ctypes.byref(message))
    if not buffer:
        raise RuntimeError((message.value or b"LLVM gave no reason").decode())
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@functools.cache
def _emit() -> Any:
    """llvmlite's function for object code, without its lock; None where llvmlite keeps it elsewhere."""
    try:
        locked = ffi.lib.LLVMPY_TargetMachineEmitToMemory
        emit = ctypes.CDLL(None, handle=ffi.lib._handle).LLVMPY_TargetMachineEmitToMemory
        emit.argtypes, emit.restype = locked.argtypes, locked.restype
    except AttributeError:
        return None
    return emit
