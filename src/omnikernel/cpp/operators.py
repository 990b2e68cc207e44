"""C++ functions and CUDA kernels inside operators, and inside `jax.jit` by `omnikernel.jax.triton_call`.

In: a launch while the function of an operator runs. Out: what the operator's binding makes of it: run, turned off, or traced
for JAX. `Launchable` is what ops/launches.py and ops/traced.py ask of a kernel: which parameters it writes (those that are
not const), a run, and for JAX the entry as a kernel of the XLA handler, with sizes and strides as scalars.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..artefact import Artefact
from ..errors import ArgumentTypeError
from ..runtime.arrays import Where
from .arguments import bind, check_sizes, dimensions, expected_array, names_of, scalar_bits
from .source import Function, Type

_FAULT = "an index out of bounds, a failed assert or a divergence; call it on NumPy arrays for the text"


def current_run() -> Any:
    """The operator call that runs in this thread, if any."""
    module = sys.modules.get("omnikernel.ops.arrays")
    return module.state.run if module is not None else None


@dataclass(frozen=True, slots=True)
class Written:
    """What a compiled kernel writes: position and name of parameters."""

    written_positions: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Linked:
    """An entry and how to call it, as the XLA handler's table takes it."""

    address: int
    artefact: Artefact

    @property
    def identity(self) -> str:
        """What the code is, for programs that call it."""
        return self.artefact.texts["ttir"]

    def variant(self, disjoint: bool) -> Linked:
        """The code for arrays that share no memory, or may: here one and the same."""
        return self


class Launchable:
    """A function or kernel as operators and JAX see it.

    Args:
        function: its signature.
        run: runs it: called with the dimensions of a launch, arguments and keyword arguments.
        link: called with the dimensions; gives the entry's address, scratch, cost, the grid and further slots.
        identity: what the code depends on.
    """

    def __init__(
        self,
        function: Function,
        run: Callable[..., None],
        link: Callable[[Any], LinkedEntry],
        identity: Callable[[], str],
    ) -> None:
        self.function = function
        self.__name__ = function.name
        self.arg_names = [parameter.name for parameter in function.parameters]
        self._run = run
        self._link = link
        self._identity = identity

    @cached_property
    def _written(self) -> Written:
        found = enumerate(self.function.parameters)
        return Written(tuple((i, p.name) for i, p in found if p.type.form != "scalar" and not p.type.const))

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Written:
        """What a launch would write; nothing runs."""
        return self._written

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Written:
        """Launch it."""
        self._run(grid, args, kwargs)
        return self._written

    def compile_for(self, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> Any:
        """The kernel for arrays of these shapes and dtypes, as `omnikernel.ops.traced.compile_for` gives it.

        Raises:
            ArgumentTypeError: an argument that does not fit the signature.
        """
        from ..ops.traced import Aval, Compiled

        function = self.function
        arguments: list[tuple[int, Any]] = []
        for position, (parameter, value) in enumerate(
            zip(function.parameters, bind(function, args, kwargs), strict=True)
        ):
            where = Where(function.name, parameter.name)
            if parameter.type.form == "scalar":
                arguments.append((position, scalar_bits(parameter.type, value, where)))
                continue
            if not isinstance(value, Aval):
                raise where.type_error(
                    expected_array(parameter.type), repr(value), f"the parameter is {parameter.type}"
                )
            _check(parameter.type, value, where)
            arguments.append((position, value))
            if parameter.type.form == "view":
                arguments.extend((position, number) for number in (*value.shape, *_dense(value.shape)))
        if function.sizes:
            given = zip(function.parameters, bind(function, args, kwargs), strict=True)
            check_sizes(function, {p.name: tuple(v.shape) for p, v in given if isinstance(v, Aval)})
        written = {position for position, _ in self._written.written_positions}
        entry = self._link(grid)
        end = len(function.parameters)
        arguments.extend((end, number) for number in (*entry.slots, 0))  # the last: no report
        name = f"{self._identity()} {function.name} {entry.scratch}"
        artefact = Artefact(
            function.name, name.encode(), (), entry.scratch, (_FAULT,), entry.cost, texts={"ttir": name}
        )
        return Compiled(
            Linked(entry.address, artefact),  # type: ignore[arg-type]
            entry.grid,
            tuple(arguments),
            tuple(isinstance(value, Aval) and position not in written for position, value in arguments),
            tuple(isinstance(value, Aval) and position in written for position, value in arguments),
        )


@dataclass(frozen=True, slots=True)
class LinkedEntry:
    """A launch of an entry: where it is, its scratch, its estimated cost a program, the grid, the slots after the parameters'."""

    address: int
    scratch: int
    cost: float
    grid: tuple[int, int, int]
    slots: tuple[int, ...]


def _check(type_: Type, aval: Any, where: Where) -> None:
    if type_.dtype and aval.dtype != names_of(type_.dtype):
        advice = f"convert it, or change the parameter's type {type_}"
        raise where.type_error(expected_array(type_), f"one of {aval.dtype}", advice)
    if type_.form == "view" and len(aval.shape) != type_.rank:
        got = f"one of {dimensions(len(aval.shape))}, shape {tuple(aval.shape)}"
        raise where.type_error(expected_array(type_), got, f"reshape it, or change the parameter's type {type_}")


def _dense(shape: Sequence[int]) -> list[int]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return strides[::-1]


def refuse_result(function: Function) -> None:
    """Inside an operator there is nobody to take a number from a C++ function.

    Raises:
        ArgumentTypeError: the function returns one.
    """
    if function.result is not None:
        raise ArgumentTypeError(
            f"function {function.name!r} returns {function.result}; inside an operator write results through arrays"
        )
