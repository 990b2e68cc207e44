"""The reference under `torch.compile`, and what Inductor says of the program that it made."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import OmnikernelError
from .verdict import Compiled

# How Inductor's programs call what they did not generate. Views and allocations are no work.
_CALL = re.compile(r"(?<![\w.])(?:extern_kernels\.(\w+)\(|torch\.ops\.(\w+)\.(\w+)(?:\.\w+)?\()")
_NO_WORK = {"view", "reshape", "as_strided", "empty_strided", "detach", "set_"}


class CompileError(OmnikernelError):
    """`torch.compile` failed on the reference."""


def compile_reference(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], Compiled]:
    """Compile a function for these arguments, calling it once.

    Raises:
        CompileError: with the text of torch's error.
    """
    import torch
    from torch._dynamo.utils import counters
    from torch._functorch import config as functorch
    from torch._inductor import config, metrics
    from torch._inductor.utils import run_and_get_code

    compiled = torch.compile(function, dynamic=False)
    metrics.reset()
    counters.clear()
    try:
        # From the cache there would be nothing to count.
        uncached = config.patch(fx_graph_cache=False), functorch.patch(enable_autograd_cache=False)
        with uncached[0], uncached[1], _bytes_counted(), warnings.catch_warnings():
            # `omnikernel.namespace` in a reference; what it keeps depends on types alone.
            warnings.filterwarnings("ignore", message="Dynamo detected a call to a `functools.lru_cache`")
            _, programs = run_and_get_code(compiled, *args, **kwargs)
    except Exception as error:
        raise CompileError(f"torch.compile fails on the reference {function}: {error}") from error
    calls = tuple(name for program in programs for name in library_calls(program))
    kernels = sum(map(kernel_launches, programs)) or metrics.generated_kernel_count
    made = Compiled(kernels, calls, metrics.num_bytes_accessed or None, sum(counters["graph_break"].values()))
    return compiled, made


def kernel_launches(program: str) -> int:
    """How often a program of Inductor's launches kernels that it generated. (`generated_kernel_count` counts loop nests on
    the CPU, several of which make a kernel.)"""
    names = re.findall(r"^(\w+) = async_compile\.\w+\(", program, re.MULTILINE)
    return sum(len(re.findall(rf"(?<![\w.]){name}(?:\.run)?\(", _calls(program))) for name in names)


def library_calls(program: str) -> list[str]:
    """The library functions that a program of Inductor's calls, in order, e.g. `mm` or `aten.topk`."""
    found = []
    for match in _CALL.finditer(_calls(program)):
        name = match[1] or match[3]
        if name not in _NO_WORK:
            found.append(match[1] or f"{match[2]}.{match[3]}")
    return found


def _calls(program: str) -> str:
    """The part of a program that runs: what follows the kernels' own text."""
    return program.partition("async_compile.wait(")[2] or program


@contextmanager
def _bytes_counted() -> Iterator[None]:
    """Inductor counts bytes only while its metrics are logged: log them to nobody."""
    from torch._inductor import compile_fx

    log: logging.Logger | None = getattr(compile_fx, "inductor_metrics_log", None)
    if log is None:
        yield
        return
    level, propagate, handlers = log.level, log.propagate, log.handlers
    log.propagate, log.handlers = False, [logging.NullHandler()]
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.propagate, log.handlers = propagate, handlers
