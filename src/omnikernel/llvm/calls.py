"""What takes time in LLVM: through llvmlite, or without its lock.

LLVM may be used by any number of threads as long as each has a context of its own (LLVM Programmer's Manual, "Threads and
LLVM"). llvmlite holds one lock for all of LLVM, since its users share a context. A function that llvmlite keeps elsewhere
one day is called through llvmlite, with the lock.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

_EMIT = "LLVMPY_TargetMachineEmitToMemory"


@functools.cache
def _function(name: str) -> Any:
    """A function of llvmlite's library; None where it is not found."""
    try:
        locked = getattr(ffi.lib, name)
        found = getattr(ctypes.CDLL(None, handle=ffi.lib._handle), name)
        found.argtypes, found.restype = locked.argtypes, locked.restype
    except AttributeError:
        return None
    return found


def may_be_apart() -> bool:
    """Whether code can be generated without the lock."""
    return _function(_EMIT) is not None


@dataclass(frozen=True, slots=True)
class Calls:
    """LLVM's functions, for modules in contexts of their own where `apart`, else in llvmlite's context.

    All raise RuntimeError with LLVM's message.
    """

    apart: bool

    def parse(self, text: str) -> Any:
        """The module of LLVM IR text."""
        function = self._without_lock("LLVMPY_ParseAssembly")
        context = llvm.create_context() if self.apart else None
        if function is None:
            return llvm.parse_assembly(text, context)
        with ffi.OutputString() as message:
            module = llvm.ModuleRef(function(context, text.encode(), message), context)
            if message:
                module.close()
                raise RuntimeError(f"LLVM IR parsing error\n{message}")
        return module

    def verify(self, module: Any) -> None:
        """Check a module."""
        function = self._without_lock("LLVMPY_VerifyModule")
        if function is None:
            module.verify()
            return
        with ffi.OutputString() as message:
            if function(module, message):
                raise RuntimeError(str(message))

    def run(self, passes: Any, function: Any, builder: Any) -> None:
        """Run the passes of a manager on a function."""
        runs = self._without_lock("LLVMPY_RunNewFunctionPassManager")
        if runs is None:
            passes.run(function, builder)
        else:
            runs(passes, function, builder)

    def emit_object(self, machine: Any, module: Any) -> bytes:
        """Generate object code."""
        emit = self._without_lock(_EMIT)
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

    def _without_lock(self, name: str) -> Any:
        return _function(name) if self.apart else None
