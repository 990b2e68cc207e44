"""Triton's launches, adapted for the CPU: arrays of any library, grids of any form, a driver by the arrays' device.

Everything here wraps a function of Triton's and hands over to it unchanged for launches that are not ours.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import dependencies, descriptors, diskcache, places, release, tuning

_LOCK = threading.RLock()
_MARK = "_omnikernel"  # on a wrapper: it is ours, and is not wrapped again


def wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace the attribute `name` by `make(attribute)`, once."""
    stock = getattr(owner, name)
    if getattr(stock, _MARK, False):
        return
    wrapper = functools.wraps(stock)(make(stock))
    setattr(wrapper, _MARK, True)
    setattr(owner, name, wrapper)


def install() -> None:
    """Adapt Triton's runtime; a second call does nothing. Needs `triton.runtime` and `triton.compiler` loaded."""
    names = (
        "compiler.compiler",
        "runtime.driver",
        "testing",
        "runtime.autotuner",
        "runtime.jit",
        "runtime.cache",
        "tools.tensor_descriptor",
    )
    # By name: `triton.runtime` has an attribute `driver` that is not the module.
    compiler, drivers, testing, autotuner, jit, cache, descriptor = (
        importlib.import_module(f"triton.{name}") for name in names
    )
    with _LOCK:
        if not getattr(drivers.DriverConfig, _MARK, False):
            places.make_active_a_thread_matter(drivers.DriverConfig)
            setattr(drivers.DriverConfig, _MARK, True)
        wrap(drivers, "_create_driver", _create_driver)
        wrap(jit, "create_function_from_signature", _create_binder)
        wrap(jit.JITFunction, "run", _run)
        wrap(jit.JITFunction, "__getitem__", functools.partial(_getitem, jit.JITFunction.run))
        wrap(compiler, "get_cache_manager", diskcache.checked_manager)
        wrap(compiler.CompiledKernel, "_init_handles", _init_handles)
        if hasattr(compiler.CompiledKernel, "__del__"):  # from Triton 3.8 on
            wrap(compiler.CompiledKernel, "__del__", _delete)
        wrap(compiler.CompiledKernel, "__getitem__", _launch_compiled)
        wrap(testing, "do_bench_cudagraph", tuning.without_graph)
        dependencies.install(jit, wrap)
        release.install(cache, wrap)
        tuning.install(autotuner, wrap)
        descriptors.install(descriptor, wrap)


def _create_driver(stock: Callable[[], Any]) -> Callable[[], Any]:
    """Asking the GPU drivers whether they are active imports torch; skip that where there can be no GPU."""

    def create() -> Any:
        from triton.backends import backends

        from .availability import usable
        from .cpu_driver import CPUDriver

        if (
            not os.environ.get("TRITON_DEFAULT_BACKEND")
            and "torch" not in sys.modules
            and backends.keys() <= {"cpu", "nvidia", "amd"}
            and no_gpu()
            and usable()
        ):
            return CPUDriver()
        return stock()

    return create


def no_gpu() -> bool:
    """Linux shows no device file of an NVIDIA or AMD GPU (`/dev/dxg`: either, under WSL)."""
    devices = Path("/dev")
    return sys.platform == "linux" and not any(
        (devices / name).exists() for name in ("nvidiactl", "nvidia0", "nvidia-caps", "dxg", "kfd")
    )


def _create_binder(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Specialise arrays that Triton does not know, and NumPy scalars; in binders of our backend only."""

    def create(signature: Any, params: Any, backend: Any) -> Any:
        binder = stock(signature, params, backend)
        if backend.target.backend != "cpu":
            return binder
        from ..runtime.specialize import specialize

        binder.__globals__["specialize_impl"] = specialize
        return _plain_constants(binder, {param.name for param in params if param.is_constexpr})

    return create


def _plain_constants(binder: Callable[..., Any], constexprs: set[str]) -> Callable[..., Any]:
    """NumPy scalars that are constant, or made so for being 1, become Python's: the front end computes with those."""
    import numpy as np

    def bind(*args: Any, **kwargs: Any) -> Any:
        bound, specialization, options = binder(*args, **kwargs)
        for index, (name, value) in enumerate(bound.items()):
            if isinstance(value, np.generic) and specialization[index][0] == "constexpr":
                bound[name] = value.item()
                if name in constexprs:
                    specialization[index] = ("constexpr", bound[name])
        return bound, specialization, options

    return bind


def _name_argument(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise again, with the names of kernel and parameter, what is wrong with an array among the arguments, if any."""
    from ..runtime.arrays import view

    for name, value in (*zip(kernel.arg_names, args, strict=False), *kwargs.items()):
        for item in value if isinstance(value, tuple) else (value,):
            view(item, kernel.__name__, name)


def _run(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Launch by the cached path where it can, else as Triton does, by the driver of the arrays' device."""

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not warmup:
            kernel = dispatch.try_launch(self, grid, args, kwargs)
            if kernel is not None:
                return kernel
        from triton.runtime.driver import driver

        wanted = None
        if not (places.is_ours(driver.active) and places.is_ours(driver.default)):
            wanted = places.driver_for(places.place_of_all((*args, *kwargs.values())))
        with places.using(wanted):
            if not places.is_ours(driver.active):
                return stock(self, *args, grid=grid, warmup=warmup, **kwargs)
            try:
                with dependencies.remembered():
                    kernel = stock(self, *args, grid=as_grid(grid), warmup=warmup, **kwargs)
            except (TypeError, ValueError, RuntimeError):
                if not warmup:  # Triton specialises arguments without saying which is which
                    _name_argument(self, args, kwargs)
                raise
        if not warmup and kernel is not None:
            dispatch.remember(self, args, kwargs, kernel)
        return kernel

    # Importing the launch path takes NumPy along: not before the first launch.
    dispatch = _Lazy("..runtime.dispatch")
    return run


def _getitem(run: Callable[..., Any], stock: Callable[..., Any]) -> Callable[..., Any]:
    """What launches in C where `JITFunction.run`, for which it stands, is still `run`, and the launch is a known one."""
    dispatch = _Lazy("..runtime.dispatch")

    def getitem(self: Any, grid: Any) -> Any:
        launcher = dispatch.launcher(run)
        return stock(self, grid) if launcher is None else launcher(self, grid, stock, None)

    return getitem


class _Lazy:
    """A module of ours, imported when first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self._name, __package__), attribute)
        setattr(self, attribute, found)
        return found


def as_grid(grid: Any) -> Any:
    """A grid as Triton takes it: a tuple of ints. Lists, bare ints and NumPy ints are accepted; functions stay so.

    Raises:
        TypeError: the grid is not made of whole numbers.
        ValueError: more than three dimensions, or none.
    """
    if grid is None:
        return None
    if callable(grid):
        return lambda meta: as_grid(grid(meta))
    entries = (grid,) if hasattr(grid, "__index__") and not hasattr(grid, "__len__") else tuple(grid)
    if not 1 <= len(entries) <= 3:
        raise ValueError(f"a grid has one to three dimensions, got {entries!r}")
    try:
        return tuple(entry.__index__() for entry in entries)
    except AttributeError:
        raise TypeError(f"a grid is made of whole numbers, got {entries!r}") from None


def _init_handles(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Load a kernel by the driver of the target it was compiled for, whichever is active."""

    def init_handles(self: Any) -> None:
        if self.module is not None:
            return
        ours = self.metadata.target.backend == "cpu"
        with places.using(places.driver_for("cpu" if ours else "gpu")):
            stock(self)

    return init_handles


def _delete(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Our code is dropped with its Executable: the then active driver, perhaps a GPU's, is not asked to unload it."""

    def delete(self: Any) -> None:
        target = getattr(getattr(self, "metadata", None), "target", None)
        if getattr(target, "backend", "") != "cpu":
            stock(self)

    return delete


def _launch_compiled(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled[grid]` with a grid of fewer than three dimensions."""

    def launch(self: Any, grid: Any) -> Any:
        if self.metadata.target.backend == "cpu" and not callable(grid):
            grid = (*as_grid(grid), 1, 1)[:3]
        return stock(self, grid)

    return launch
