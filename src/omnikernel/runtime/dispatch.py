"""The fast launch path: straight from the arguments of `kernel[grid](...)` to a compiled kernel that fits them.

In: what `JITFunction.run` gets. Out: the launch, done in C without Triton's binder, or None, and then nothing has happened
and the stock path must run (it compiles, and it reports errors). After the stock path, `remember` stores what it ran. A
call is left to the stock path whenever hooks, debug mode, changed globals or an unusual argument make its outcome
uncertain; so is every call where the C extension is missing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ..artefact import Parameter
from ..ir.types import Pointer, Scalar
from . import pool
from .launch import Executable, Launcher

_TABLE = "_omnikernel_table"  # attribute of a JITFunction
_POINTER, _INTEGER, _F32, _F64 = range(4)  # kinds of slots, as in dispatch.c
# Address, bytes of scratch, nanoseconds of a program, whether programs are handed out in order.
CodeOfVariant = tuple[int, int, float, bool]
_NOT_YET: CodeOfVariant = (0, 0, 0.0, True)
# What a launch looks at of `triton.knobs`, where Triton is not loaded: no hook, no debug mode.
_NO_KNOBS = SimpleNamespace(
    runtime=SimpleNamespace(add_stages_inspection_hook=None, debug=False, launch_enter_hook=None, launch_exit_hook=None)
)


@cache
def native_alone() -> ModuleType | None:
    """The C extension, told about NumPy: all that a launch needs where Triton is not loaded; None where it is missing."""
    native = pool.native()
    if native is None:
        return None
    pool.pool()  # sets the number of threads
    native.set_knobs(_NO_KNOBS)
    native.set_numpy_scalar(np.generic)
    sample = np.zeros((3, 4, 5), np.float32)[1:, ::-2, 3:]
    sample.flags.writeable = False
    native.setup_numpy(np.ndarray, sample, sample.ctypes.data, sample.shape, sample.strides, sample.dtype, False)
    return native


@cache
def native_with_triton() -> ModuleType | None:
    """The C extension, told about NumPy and Triton; None where it is missing."""
    native = native_alone()
    if native is None:
        return None
    import triton
    import triton.language as tl
    from triton.runtime.jit import JITFunction

    native.set_knobs(triton.knobs)
    native.register_identity(tl.dtype, False)
    native.register_identity(JITFunction, True)
    return native


@cache
def launcher(run: Any) -> Any:
    """What makes `kernel[grid]` in C, for launches that take the place of `run`; None without the C extension."""
    native = native_with_triton()
    if native is None:
        return None
    native.set_kernel_run(run)
    return native.launcher


def try_launch(jit_function: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Launch if a remembered kernel fits this call.

    Args:
        jit_function: a Triton JITFunction.
        grid: tuple, list, int or function of the bound arguments.
        args: positional arguments of the launch.
        kwargs: keyword arguments, options such as `num_warps` included, without `grid` and `warmup`.

    Returns:
        The compiled kernel (what `JITFunction.run` returns) after a launch; None where nothing was done.

    Raises:
        DeviceAssertionError: a `tl.device_assert` failed.
        Exception: whatever a grid function raised.
    """
    native = native_with_triton()
    return native.try_launch(jit_function, grid, args, kwargs) if native is not None else None


def remember(jit_function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], compiled_kernel: Any) -> bool:
    """Store what the stock path has just launched, for calls like this one.

    Args:
        jit_function, args, kwargs: as for `try_launch`.
        compiled_kernel: what the stock `JITFunction.run` returned.

    Returns:
        Whether later calls can take the fast path.
    """
    native = native_with_triton()
    launcher = getattr(compiled_kernel, "_run", None)
    if native is None or not isinstance(launcher, Launcher) or launcher.executable is None:
        return False
    table = _table(native, jit_function)
    register_tensors(native, args, kwargs)
    if table is None or table.key(args, kwargs) is None:
        return False
    slots = slots_of_call(launcher, jit_function.arg_names, args, kwargs)
    if slots is None:
        return False
    variants = variants_of(launcher.executable)
    debug = bool(sys.modules["triton"].knobs.runtime.debug)
    cache = cache_of(jit_function, compiled_kernel)
    stored: bool = table.add(args, kwargs, debug, compiled_kernel, launcher.executable, slots, *variants, cache)
    return stored


@contextmanager
def suspended() -> Iterator[None]:
    """Every launch takes the stock path meanwhile, in all threads."""
    native = native_with_triton()
    if native is not None:
        native.suspend(1)
    try:
        yield
    finally:
        if native is not None:
            native.suspend(-1)


def _table(native: ModuleType, jit_function: Any) -> Any:
    """The function's table, made at the first call; None where its parameters are not plain."""
    table = vars(jit_function).get(_TABLE)
    if table is None:
        kinds = {parameter.kind for parameter in jit_function.signature.parameters.values()}
        if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            return None
        parameters = jit_function.params
        names = tuple(parameter.name for parameter in parameters)
        constant = bytes(bool(parameter.is_constexpr) for parameter in parameters)
        defaults = {parameter.name: parameter.default for parameter in parameters if parameter.has_default}
        table = vars(jit_function)[_TABLE] = native.Table(names, constant, defaults)
    return table


def cache_of(jit_function: Any, compiled_kernel: Any) -> dict[Any, Any] | None:
    """The dict in which Triton keeps the kernel: once that is emptied, a launch compiles anew and tells the listeners."""
    for kept in getattr(jit_function, "device_caches", {}).values():
        if any(kernel is compiled_kernel for kernel in kept[0].values()):
            found: dict[Any, Any] = kept[0]
            return found
    return None


def variants_of(executable: Executable) -> list[CodeOfVariant]:
    """A kernel's code, for arrays that may share memory and for those that do not."""
    return [_variant(executable, disjoint) for disjoint in (False, True)]


def _variant(executable: Executable, disjoint: bool) -> CodeOfVariant:
    loaded = executable.loaded(disjoint)
    if loaded is None:
        return _NOT_YET
    return loaded.address, loaded.artefact.arena_bytes, loaded.artefact.cost, loaded.artefact.in_order


def slots_of_call(
    launcher: Launcher, names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[int, int, int, int, bool], ...] | None:
    """Where each parameter's value is in such a call; None where a parameter needs the stock path."""
    executable = launcher.executable
    assert executable is not None
    parameters = executable.artefact.parameters
    if len(parameters) != len(launcher.leaves) or executable.prints:  # tensor descriptors, output to be put in order
        return None
    keywords = list(kwargs)
    slots = []
    for leaf, parameter in zip(launcher.leaves, parameters, strict=True):
        position = leaf.path[0]
        described = slot_of(parameter)
        if len(leaf.path) != 1 or described is None:
            return None
        if position >= len(args):
            if names[position] not in keywords:  # a default value
                return None
            position = len(args) + keywords.index(names[position])
        slots.append((position, *described))
    return tuple(slots)


def slot_of(parameter: Parameter) -> tuple[int, int, int, bool] | None:
    """Kind, bits, bytes of an element, written; None for a type that C does not encode."""
    type_ = parameter.type
    if isinstance(type_, Pointer):
        if not isinstance(type_.pointee, Scalar):
            return None
        return _POINTER, 0, type_.pointee.bytes, parameter.written
    if type_.is_integer:
        return _INTEGER, type_.bits, 0, False
    kind = {"f32": _F32, "f64": _F64}.get(type_.kind)
    return None if kind is None else (kind, 0, 0, False)


def register_tensors(native: ModuleType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Let C read the torch tensors among the arguments of a call, from now on."""
    for value in (*args, *kwargs.values()):
        _register_exchange(native, type(value))


def _register_exchange(native: ModuleType, type_: type) -> None:
    """Let C read torch tensors. Subclasses may mean something else by their memory, so only the two plain types."""
    torch = sys.modules.get("torch")
    if torch is None or type_ not in (torch.Tensor, torch.nn.Parameter):
        return
    capsule = getattr(type_, "__dlpack_c_exchange_api__", None)
    if capsule is not None:
        native.register_exchange(type_, capsule)
