"""Our compile errors, as Triton's callers expect them: also instances of `triton.compiler.errors.CompilationError`.

Imported only while compiling: Triton's own modules are not loaded when the backend is discovered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from triton.compiler.errors import CompilationError

from ..errors import OmnikernelError, ParseError, UnresolvedSymbol, UnsupportedOp, VerifyError

_KINDS: tuple[type[OmnikernelError], ...] = (UnsupportedOp, ParseError, VerifyError, UnresolvedSymbol)


def _rebuild(kind: type[OmnikernelError], message: str) -> Exception:
    failure: Exception = compilation_error(kind)(message)
    return failure


def compilation_error(kind: type[OmnikernelError]) -> type[Any]:
    """The class that is both `kind` and Triton's `CompilationError`; made of one message, with no AST node."""
    return _ERRORS[kind]


def _derived(kind: type[OmnikernelError]) -> type[Any]:

    def init(self: Any, message: str) -> None:
        Exception.__init__(self, message)
        self.src = self.node = None
        self.error_message = self.message = message

    def reduce(self: Any) -> tuple[Any, ...]:
        return _rebuild, (kind, self.message)

    members = {"__init__": init, "__reduce__": reduce, "__module__": __name__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind, CompilationError), members)


_ERRORS = {kind: _derived(kind) for kind in _KINDS}


@contextmanager
def as_compilation_errors(kernel: str) -> Iterator[None]:
    """Turn what says "this kernel cannot be compiled" into Triton's kind of error, naming the kernel."""
    try:
        yield
    except _KINDS as error:
        text = str(error)
        message = text if re.search(rf"\bkernel\W+{re.escape(kernel)}\b", text) else f"kernel {kernel}: {text}"
        raise compilation_error(next(kind for kind in _KINDS if isinstance(error, kind)))(message) from error
