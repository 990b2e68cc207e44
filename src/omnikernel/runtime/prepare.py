"""Prepared launches: `launch = prepare(kernel, grid, *args, **kwargs)`, then `launch()` or `launch(*args)`, in a microsecond.

A call means what `kernel[grid](...)` means. Where its arguments are of the kind that it was prepared for, C runs the code
that is known; any other call is an ordinary launch, which specialises and compiles as needed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ArgumentTypeError
from . import dispatch
from .launch import Launcher, extents_of, flatten_descriptor
from .pool import native as extension


class PreparedLaunch(Protocol):
    """A launch of one kernel with one grid and one set of constants, made by `prepare`."""

    @property
    def direct(self) -> bool:
        """Whether calls of the prepared kind run at once. False: each is an ordinary launch, as without the C extension."""

    def __call__(self, *args: Any) -> Any:
        """Launch, and return when all programs are done.

        Args:
            args: the run-time arguments: every parameter that is no `tl.constexpr` and was given to `prepare`, in the
                kernel's order. None at all: those that it was prepared with, which it keeps alive.

        Returns:
            The compiled kernel, as `kernel[grid](...)` does.

        Raises:
            TypeError: another number of arguments, or keywords.
            Exception: whatever the ordinary launch, or a grid function, raises.
        """


@dataclass(frozen=True, slots=True)
class OrdinaryLaunch:
    """The same call through Triton: what a prepared launch falls back to, and what it is where nothing can be prepared."""

    kernel: Any
    grid: Any
    arguments: Mapping[str, Any]  # those at run time, by name
    constants: Mapping[str, Any]  # the other arguments
    options: Mapping[str, Any]  # num_warps and the like

    direct = False

    def __call__(self, *args: Any) -> Any:
        if args and len(args) != len(self.arguments):
            raise ArgumentTypeError(
                f"kernel {self.kernel.__name__!r}: expected the {len(self.arguments)} run-time arguments "
                f"({', '.join(self.arguments)}) of a prepared launch, or none for those it was prepared with; "
                f"got {len(args)}"
            )
        return self.run(args or tuple(self.arguments.values()))

    def run(self, values: Sequence[Any], *, warmup: bool = False) -> Any:
        """Launch (or, as `warmup`, compile) with these run-time arguments."""
        given = {**self.constants, **dict(zip(self.arguments, values, strict=True))}
        leading = []  # by position, since a parameter may be called `grid`
        for name in self.kernel.arg_names:
            if name not in given:
                break
            leading.append(given.pop(name))
        return self.kernel.run(*leading, grid=self.grid, warmup=warmup, **given, **self.options)


def prepare(kernel: Any, grid: Any, *args: Any, **kwargs: Any) -> PreparedLaunch:
    """Compile a kernel for a kind of arguments, without running it, and return a launch that skips all that can be.

    The kind is what Triton specialises on: the dtypes of arrays and whether they begin at 16 bytes, and of integers the
    width and whether they are 1 or divisible by 16. Sizes, strides and values may change from call to call; arguments of
    another kind, a changed global, a launch hook and the like make a call an ordinary one.

    Args:
        kernel: a `@triton.jit` function. For an autotuned one: its `fn`, with the constants of the chosen configuration.
        grid: as in `kernel[grid]`; a function is called at every launch.
        args, kwargs: as in `kernel[grid](...)`, constants and options included.

    Returns:
        The launch. `launch()` runs on these arguments, `launch(*others)` on other ones.

    Raises:
        ArgumentTypeError: no `@triton.jit` function, arguments that do not fit its parameters, or a grid that is none.
        ArgumentValueError: a value that its parameter cannot take, or a grid out of range.
    """
    own = getattr(kernel, "prepare", None)
    if own is not None:  # prebuilt, without Triton
        prepared: PreparedLaunch = own(grid, args, kwargs)
        return prepared
    import triton

    if isinstance(kernel, (triton.runtime.autotuner.Autotuner, triton.runtime.autotuner.Heuristics)):
        raise ArgumentTypeError(
            f"expected a @triton.jit function, got {type(kernel).__name__} of {kernel.base_fn.__name__!r}: prepare its "
            "`.fn` with the constants that it would choose, such as `**kernel.best_config.kwargs`"
        )
    if not hasattr(kernel, "arg_names") or not hasattr(kernel, "run"):
        raise ArgumentTypeError(f"expected a @triton.jit function, got {kernel!r}")
    ordinary = _ordinary(kernel, checked_grid(kernel, grid), args, kwargs)
    return _direct(ordinary) or ordinary


def checked_grid(kernel: Any, grid: Any) -> Any:
    """A grid for many launches: three extents, or a function.

    Raises:
        ArgumentTypeError, ArgumentValueError: it is none.
    """
    return grid if callable(grid) else extents_of(kernel.__name__, (grid,) if hasattr(grid, "__index__") else grid)


def _ordinary(kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OrdinaryLaunch:
    options = {name: value for name, value in kwargs.items() if name not in kernel.arg_names}
    try:
        bound = kernel.signature.bind(*args, **{name: kwargs[name] for name in kwargs if name not in options})
    except TypeError as error:
        raise ArgumentTypeError(f"kernel {kernel.__name__!r}: {error}") from None
    constant = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    given = bound.arguments
    return OrdinaryLaunch(
        kernel,
        grid,
        {name: value for name, value in given.items() if name not in constant},
        {name: value for name, value in given.items() if name in constant},
        options,
    )


def _direct(ordinary: OrdinaryLaunch) -> PreparedLaunch | None:
    """The launch in C; None where the kernel is not ours, or has what C does not know."""
    kernel, values = ordinary.kernel, tuple(ordinary.arguments.values())
    compiled = ordinary.run(values, warmup=True)
    target = getattr(getattr(compiled, "metadata", None), "target", None)
    if getattr(target, "backend", None) != "cpu":
        return None
    compiled._init_handles()
    launcher = compiled._run
    assert isinstance(launcher, Launcher)
    executable = launcher.load(compiled.function)
    defaults = {parameter.name: parameter.default for parameter in kernel.params if parameter.has_default}
    given = {**defaults, **ordinary.constants, **ordinary.arguments}
    runtime: list[Any] = []
    for leaf in launcher.leaves:
        value = leaf.of([given[name] for name in kernel.arg_names])
        runtime.extend(flatten_descriptor(value) if leaf.descriptor else (value,))
    executable.variant(executable.is_disjoint(*executable.encode(runtime)))
    slots = dispatch.slots_of_call(launcher, kernel.arg_names, (), dict(ordinary.arguments))
    if extension() is None or slots is None:
        return None
    native = dispatch.native_with_triton()
    assert native is not None
    dispatch.register_tensors(native, values, {})
    debug = bool(sys.modules["triton"].knobs.runtime.debug)
    try:
        made: PreparedLaunch = native.Prepared(
            kernel,
            ordinary,
            ordinary.grid,
            tuple(ordinary.arguments),
            {**defaults, **ordinary.constants},
            values,
            debug,
            compiled,
            executable,
            slots,
            *dispatch.variants_of(executable),
            dispatch.cache_of(kernel, compiled),
        )
    except ValueError:  # an argument of a kind that C does not read
        return None
    return made
