"""Triton's autotuner, adapted for arrays of any library and for timing without torch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from . import places
from .benchmark import bench


def install(autotuner: Any, wrap: Callable[[Any, str, Callable[[Any], Any]], None]) -> None:
    """Adapt `triton.runtime.autotuner.Autotuner`."""
    wrap(autotuner.Autotuner, "__init__", _init)
    wrap(autotuner.Autotuner, "run", _run)
    wrap(autotuner.Autotuner, "check_disk_cache", _check_disk_cache)


def _array(value: Any, name: str) -> Any:
    """A writable NumPy array over the memory of an array argument that has no torch methods.

    Raises:
        ArgumentTypeError: the array cannot be written from here.
    """
    import numpy as np

    from ..errors import ArgumentTypeError

    try:
        array = value if isinstance(value, np.ndarray) else np.asarray(memoryview(value))
    except TypeError:
        array = None
    if array is None or not array.flags.writeable:
        raise ArgumentTypeError(
            f"autotuning: argument {name} is to be reset or restored between runs, but {type(value).__name__} "
            "cannot be written in place; pass a writable NumPy array or a torch tensor"
        )
    return array


def zero(value: Any, name: str) -> None:
    """Set an array argument to zero, in place."""
    if hasattr(value, "zero_"):
        value.zero_()
    else:
        _array(value, name)[...] = 0


def saved(value: Any, name: str) -> Any:
    """A copy of an array argument, for `restore`."""
    return value.clone() if hasattr(value, "clone") else _array(value, name).copy()


def restore(value: Any, name: str, copy_: Any) -> None:
    """Write a copy made by `saved` back."""
    if hasattr(value, "copy_"):
        value.copy_(copy_)
    else:
        _array(value, name)[...] = copy_


def _reset_hooks(tuner: Any) -> None:
    """Triton's own hooks for `reset_to_zero` and `restore_value`, for arrays of any library."""

    def before(arguments: dict[str, Any], reset_only: bool = False) -> None:
        for name in tuner.reset_to_zero:
            if arguments[name] is not None:
                zero(arguments[name], name)
        if not reset_only:
            kept = [name for name in tuner.restore_value if arguments[name] is not None]
            tuner.restore_copies = {name: saved(arguments[name], name) for name in kept}

    def after(arguments: dict[str, Any], exception: BaseException | None) -> None:
        for name, kept in tuner.restore_copies.items():
            restore(arguments[name], name, kept)
        tuner.restore_copies = {}

    tuner.restore_copies = {}
    if not tuner.user_defined_pre_hook and (tuner.reset_to_zero or tuner.restore_value):
        tuner.pre_hook = before
    if not tuner.user_defined_post_hook and tuner.restore_value:
        tuner.post_hook = after


def _interpreted(tuner: Any) -> bool:
    fn = tuner.fn
    while fn is not None:
        if type(fn).__name__ == "InterpretedFunction":
            return True
        fn = getattr(fn, "fn", None)
    return False


def _init(stock: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        _reset_hooks(self)
        if self._do_bench is None and _interpreted(self):
            self._do_bench = bench  # the interpreter needs no driver, so its timer must not ask for one

    return init


def _run(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Tune for the device of the arrays: Triton keeps one result and one timer whatever the device."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _interpreted(self):
            return stock(self, *args, **kwargs)
        wanted = places.driver_for(places.place_of_all((*args, *kwargs.values())))
        if wanted is None:
            return stock(self, *args, **kwargs)
        with places.using(wanted):
            twin = _twin(self, "cpu" if places.is_ours(wanted) else "gpu")
            result = stock(twin, *args, **kwargs)
            self.best_config = twin.best_config
            return result

    return run


def _twin(tuner: Any, place: str) -> Any:
    """The tuner's other self for the device that is not the default."""
    twins = tuner.__dict__.setdefault("_omnikernel_twins", {})
    if place not in twins:
        twin = copy.copy(tuner)
        twin.cache = {}
        twin.__dict__.pop("do_bench", None)
        _reset_hooks(twin)
        twins[place] = twin
    return twins[place]


def _check_disk_cache(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A damaged file of tuning results is measured anew."""

    def check(self: Any, tuning_key: Any, configs: Any, bench_fn: Callable[[], Any]) -> Any:
        from triton.runtime.driver import driver

        measuring = False

        def measure() -> None:
            nonlocal measuring
            measuring = True
            bench_fn()

        try:
            return stock(self, tuning_key, configs, measure)
        except (ValueError, KeyError, TypeError):
            if measuring or not places.is_ours(driver.active):
                raise
            bench_fn()
            return False

    return check


def without_graph(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`triton.testing.do_bench_cudagraph`: the CPU has no graphs, its plain timer serves."""

    def do_bench_cudagraph(fn: Callable[[], Any], rep: float = 20, *args: Any, **kwargs: Any) -> Any:
        from triton.runtime.driver import driver

        if not places.is_ours(driver.active):
            return stock(fn, rep, *args, **kwargs)
        names = ("grad_to_none", "quantiles", "return_mode")
        return bench(fn, rep=rep, **dict(zip(names, args, strict=False)), **kwargs)

    return do_bench_cudagraph
