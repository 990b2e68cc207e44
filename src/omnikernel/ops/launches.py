"""Launches inside the function of an operator: run and checked, turned off, or recorded.

In: `kernel[grid](...)` while an operator's function runs in this thread. Out: whatever the current `Run` makes of it. Every
other launch goes to Triton untouched. The check holds the declaration against the kernel's own stores, as the compiler
sees them: an array that is written but not declared in `mutates` is an error before the first launch.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ArgumentTypeError, ArgumentValueError, OmnikernelError
from ..runtime import dispatch, pool
from ..runtime.arrays import Where, view_at
from .arrays import Array, DType, state

if TYPE_CHECKING:
    from .schema import Schema

_MARK = "_omnikernel_ops"
_NOTHING: frozenset[int] = frozenset()
_NATIVE = pool.native()


class MutationError(OmnikernelError, TypeError):
    """The kernels of an operator write other arrays than its declaration says."""


class AliasError(OmnikernelError, TypeError):
    """An operator returned one of its inputs, or a view of it."""


@dataclass(frozen=True, slots=True)
class Place(Where):
    """An array that an error is about, in words."""

    words: str = ""

    def __str__(self) -> str:
        return self.words


class Run(Protocol):
    """One call of an operator's function: where its arrays come from, and what its launches do."""

    checker: Checker

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Array: ...

    def empty_like(self, array: Array) -> Array: ...

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Array: ...

    def launch(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    # what a call of another operator inside the function needs, see nested.py

    def inside(self, checker: Checker) -> Run:
        """A run of the same kind, for the launches of another operator."""
        ...

    def wrap(self, value: Any) -> Array:
        """An array of the library, as the function sees it."""
        ...

    def dense(self, array: Array) -> Array:
        """The array itself where it is row-major without gaps, else a copy."""
        ...

    def assign(self, target: Array, value: Array) -> None:
        """Copy the elements of one array to another."""
        ...

    def note(self, source: int) -> None:
        """The parameter of this number is written."""
        ...


def install() -> None:
    """Let the current `Run` take over `kernel[grid]`, and shorten `triton.cdiv` on the host; a second call does nothing."""
    jit = importlib.import_module("triton.runtime.jit")
    _shorten(jit.ConstexprFunction)
    _wrap(jit.KernelInterface)
    for kind in (jit.JITFunction, *_others()):
        if "__getitem__" in vars(kind):
            _wrap(kind)


def _others() -> list[Any]:
    tuner = importlib.import_module("triton.runtime.autotuner")
    found = [tuner.Autotuner, tuner.Heuristics]
    if importlib.import_module("triton").knobs.runtime.interpret:
        found.append(importlib.import_module("triton.runtime.interpreter").InterpretedFunction)
    return found


def _wrap(owner: Any) -> None:
    stock = owner.__getitem__
    if getattr(stock, _MARK, False):
        return

    @functools.wraps(stock)
    def getitem(self: Any, grid: Any) -> Any:
        run = state.run
        if run is None:
            return stock(self, grid)
        if _NATIVE is not None:
            return _NATIVE.launcher(self, grid, stock, run)
        return lambda *args, **kwargs: run.launch(self, grid, args, kwargs)

    setattr(getitem, _MARK, True)
    owner.__getitem__ = getitem


def _shorten(owner: Any) -> None:
    """Calls on the host with Python ints go straight to the function: Triton's way costs several times what it computes.

    It looks through every argument for a `constexpr`, by names that it imports in each call. An int is none, and a call
    without keywords is no call by the code generator, which names `_semantic`: there the result is the function's own.
    Every other call is left to Triton, symbolic sizes too.
    """
    stock = owner.__call__
    if getattr(stock, _MARK, False):
        return

    @functools.wraps(stock)
    def call_(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            return stock(self, *args, **kwargs)
        for arg in args:
            if type(arg) is not int:
                return stock(self, *args)
        return self.fn(*args)

    setattr(call_, _MARK, True)
    owner.__call__ = call_


def plain(value: Any) -> Any:
    """The library's array inside an `Array`; anything else as it is."""
    return value.value if isinstance(value, Array) else value


# ---- which arguments a kernel writes ----


def innermost(kernel: Any) -> Any:
    """The JITFunction under autotuners and heuristics."""
    while hasattr(kernel, "fn") and not hasattr(kernel, "params"):
        kernel = kernel.fn
    return kernel


def written_arguments(compiled: Any, kernel: Any) -> tuple[tuple[int, str], ...]:
    """Position and name of the kernel's parameters that a compiled kernel stores through.

    Args:
        compiled: what a launch or a warm-up returned.
        kernel: the kernel, for its parameters' names.
    """
    from ..artefact import Parameter
    from ..runtime.cache import unpack
    from ..runtime.launch import Launcher

    names = innermost(kernel).arg_names
    launcher = Launcher(compiled.src, compiled.metadata)
    parameters: Sequence[Parameter]
    if compiled.metadata.target.backend == "cpu":
        parameters = unpack(compiled.asm["so"]).parameters
    else:
        parameters = _of_text(compiled.asm["ttir"])
    if len(parameters) != len(launcher.leaves):  # tensor descriptors take several parameters each: all count as written
        return tuple((leaf.path[0], names[leaf.path[0]]) for leaf in launcher.leaves if leaf.descriptor)
    found = {leaf.path[0] for leaf, p in zip(launcher.leaves, parameters, strict=True) if p.written}
    return tuple((position, names[position]) for position in sorted(found))


def _of_text(ttir: str) -> Sequence[Any]:
    """The parameters of a kernel compiled for another device, from its TTIR."""
    from ..artefact import Parameter
    from ..passes.alias import find_roots, written_and_read
    from ..ttir import parse

    kernel = parse(ttir, "")
    written, read = written_and_read(kernel, find_roots(kernel, True))
    return [Parameter(a.name, a.type, a in read, a in written) for a in kernel.entry.args]  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Seen:
    """A kernel that was checked; `plain`: it is a JITFunction, with no autotuner or heuristics around it."""

    kernel: Any
    plain: bool


class Checker:
    """Holds the launches of an operator against its `mutates`."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._written: dict[Any, tuple[tuple[int, str], ...]] = {}  # compiled kernel -> what it writes
        self.seen: dict[int, Seen] = {}  # by id (hashing a kernel is slow): those checked before their first launch
        self.mutable = frozenset(i for i, param in enumerate(schema.params) if param.mutated)

    def before(self, kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Seen:
        """Check a kernel that this operator has not launched yet: compile it, and look at its stores.

        Raises:
            MutationError: it writes an input that is not declared.
        """
        values = [plain(arg) for arg in args]
        compiled = kernel.warmup(*values, grid=grid, **{name: plain(value) for name, value in kwargs.items()})
        for one in compiled if isinstance(compiled, (list, tuple)) else (compiled,):
            if hasattr(one, "metadata") or hasattr(one, "written_positions"):  # the interpreter compiles nothing
                self.written(one, kernel, args, kwargs)
        found = self.seen[id(kernel)] = Seen(kernel, hasattr(kernel, "params"))
        return found

    def written(self, compiled: Any, kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> frozenset[int]:
        """The parameters of the operator that this launch writes.

        Raises:
            MutationError: one of them is not declared.
        """
        positions = self._written.get(compiled)
        if positions is None:
            known = hasattr(compiled, "metadata")
            positions = written_arguments(compiled, kernel) if known else getattr(compiled, "written_positions", ())
            self._written[compiled] = positions
        found = _NOTHING
        for position, name in positions:
            array = args[position] if position < len(args) else kwargs.get(name)
            if isinstance(array, Array) and array.source >= 0:
                if array.source not in self.mutable:
                    self._refuse(kernel, name, array.source)
                found |= {array.source}
        return found

    def blame(self, kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Say which argument of a failed launch is wrong; Triton looks at arguments without saying which is which.

        Raises:
            ArgumentTypeError, ArgumentValueError: an array that no kernel can take.
        """
        one = innermost(kernel)
        for name, value in (*zip(one.arg_names, args, strict=False), *kwargs.items()):
            words = f"kernel {one.__name__!r}, parameter {name!r}"
            if isinstance(value, Array) and value.source >= 0:
                words = f"operator {self.schema.name}, argument {self.schema.params[value.source].name!r} ({words})"
            view_at(plain(value), Place(words=words))

    def _refuse(self, kernel: Any, name: str, source: int) -> None:
        parameter = self.schema.params[source].name
        declared = ", ".join(repr(p.name) for p in self.schema.params if p.mutated) or "nothing"
        raise MutationError(
            f"operator {self.schema.name}: kernel {innermost(kernel).__name__!r} stores through its parameter {name!r}, "
            f"which is the operator's {parameter!r}, but the declaration mutates {declared}; "
            f"add mutates=({parameter!r},), or give the kernel an array from omnikernel.empty_like({parameter})"
        )


class EagerRun:
    """Launches run, on real arrays. A library's binding adds where arrays come from."""

    __slots__ = ("checker", "launched", "wrote")

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.launched = False
        self.wrote: frozenset[int] = frozenset()

    def launch(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Check and run a launch."""
        checker = self.checker
        values: list[Any] = []
        for arg in args:  # a comprehension is a call of its own before Python 3.12
            values.append(arg.value if isinstance(arg, Array) else arg)
        named = kwargs
        for name, value in kwargs.items():
            if isinstance(value, Array):
                named = {**named, name: value.value}
        try:
            seen = checker.seen.get(id(kernel)) or checker.before(kernel, grid, args, kwargs)
            native = dispatch.native_with_triton() if seen.plain else None
            compiled = None if native is None else native.try_launch(kernel, grid, tuple(values), named)
            if compiled is None:
                compiled = kernel.run(*values, grid=grid, warmup=False, **named)
        except (ArgumentTypeError, ArgumentValueError):
            checker.blame(kernel, args, kwargs)
            raise
        self.launched = True
        wrote = checker.written(compiled, kernel, args, kwargs)
        if wrote:
            self.wrote |= wrote
        return compiled

    def note(self, source: int) -> None:
        """A call of another operator writes the parameter of this number."""
        self.wrote |= {source}


if _NATIVE is not None:
    _NATIVE.set_checked_launch(EagerRun.launch)


class OffMixin:
    """Launches are turned off: shapes and dtypes only."""

    __slots__ = ()

    def launch(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Nothing happens; a grid function is not called."""
        return None

    def note(self, source: int) -> None:
        """Nothing is written."""


def call(function: Callable[..., Any], run: Run, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator's function with its launches going to `run`."""
    before = state.run
    state.run = run
    try:
        return function(*args, **kwargs)
    finally:
        state.run = before


def results_of(schema: Schema, returned: Any) -> tuple[Any, ...]:
    """What the function returned, as the library's arrays; errors as of `checked_results`."""
    return tuple(plain(item) for item in checked_results(schema, returned))


def checked_results(schema: Schema, returned: Any) -> Sequence[Any]:
    """What the function returned, in a sequence.

    Raises:
        AliasError: an input or a view of it.
        TypeError: another number of results than declared, or no array.
    """
    if not schema.results:
        if returned is not None:
            raise TypeError(f"operator {schema.name}: declared -> None, but the function returned {returned!r}")
        return ()
    items = (returned,) if schema.single else returned
    if not isinstance(items, (tuple, list)) or len(items) != len(schema.results):
        got = f"{len(items)} results" if isinstance(items, (tuple, list)) else f"{items!r}"
        raise TypeError(f"operator {schema.name}: declared {len(schema.results)} results, the function returned {got}")
    for index, item in enumerate(items):
        if item is None or isinstance(item, (int, float, str, bool)):
            raise TypeError(
                f"operator {schema.name}: result {index} is declared an array, the function returned {item!r}"
            )
        if isinstance(item, Array) and item.source >= 0:
            name = schema.params[item.source].name
            raise AliasError(
                f"operator {schema.name}: result {index} is the input {name!r} or a view of it; frameworks need results of "
                f"their own memory. Return a new array (omnikernel.empty_like), or declare mutates=({name!r},) and "
                f"-> None; a caller who has an array for the result passes out="
            )
        for earlier, other in enumerate(items[:index]):
            if other is item:
                raise AliasError(f"operator {schema.name}: result {index} is the same array as an earlier result")
            views = isinstance(item, Array) and isinstance(other, Array) and -2 in (item.source, other.source)
            if views and item.shares(other):
                raise AliasError(
                    f"operator {schema.name}: results {earlier} and {index} share memory; frameworks need results of their own "
                    f"memory: make one of them by omnikernel.empty"
                )
    return items
