"""Which prebuilt form of a kernel fits a launch, and if none does, why not.

In: the values of a launch, as `seen` describes them. Out: a `Form`, or the reason for each form. The rules are those by which
Triton specialises arguments, so a prebuilt form runs exactly where Triton would have compiled the same; only an argument
declared `i64` or `u64` also takes what would fit fewer bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime.arrays import DTYPES, ArrayView, Where

Look = Callable[[Any, Where], ArrayView | None]
_NUMPY_NAMES = {triton: numpy for numpy, triton in DTYPES.items()}
_SAME = {"u1": "i1"}  # Triton's spelling of a bool in a signature
# Options that change no code for a CPU.
_GPU_OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "launch_pdl", "launch_cooperative_grid"})
_DEFAULTS = {"enable_fp_fusion": True, "debug": False}  # of the others


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as the rules see it: a dtype of Triton's ("" for no array), and an address or a plain value."""

    dtype: str
    value: Any

    @property
    def text(self) -> str:
        """For errors."""
        if not self.dtype:
            return repr(self.value)
        return f"an array of {_NUMPY_NAMES.get(self.dtype, self.dtype)}"

    def key(self, exact: bool) -> tuple[Any, ...]:
        """Equal keys fit the same forms. `exact`: some form has this parameter as a constant."""
        value = self.value
        if self.dtype:
            return self.dtype, value % 16 == 0
        if exact or type(value) not in (int, float):
            return type(value), value
        return (int, value == 1, value % 16 == 0, value.bit_length(), value < 0) if type(value) is int else (float,)


def seen(value: Any, where: Where, look: Look) -> Argument:
    """Look at an argument.

    Raises:
        ArgumentTypeError, ArgumentValueError: an array that cannot be passed, or no array and no number.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return Argument("", value)
    found = look(value, where)
    if found is None:
        advice = "pass an array of a library that is installed here"
        raise where.type_error("an array or a number", f"a {type(value).__qualname__}", advice)
    return Argument(found.dtype, found.address)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the Python function of a kernel. `default` is a value in a tuple, or empty."""

    name: str
    constant: bool
    default: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """One prebuilt form. `types` has every parameter that is not among `constants`, by name: its type and what is assumed.

    `about` is the manifest's entry, with what was built.
    """

    index: int
    types: Mapping[str, tuple[str, int | None]]
    constants: Mapping[str, Any]
    options: Mapping[str, Any]
    about: Mapping[str, Any]

    @property
    def text(self) -> str:
        """For people: `(*fp32, i32:16; BLOCK=1024)`."""
        types = ", ".join(kind if hint is None else f"{kind}:{hint}" for kind, hint in self.types.values())
        named = ", ".join(f"{k}={v!r}" for k, v in {**self.constants, **self.options}.items())
        return f"({types}; {named})" if named else f"({types})"

    @property
    def strength(self) -> int:
        """How much it assumes: of two that fit, the one that assumes more is faster."""
        exact = sum(kind[0] == "*" or kind not in ("i64", "u64") for kind, _ in self.types.values())
        return exact + 100 * sum(hint is not None for _, hint in self.types.values())

    def misfit(
        self,
        arguments: Mapping[str, Argument],
        options: Mapping[str, Any],
        parameters: Sequence[Parameter],
        gpu: Mapping[str, Any] | None,
    ) -> str | None:
        """Why this form does not fit; None where it does.

        Args:
            arguments: what is passed, by parameter.
            options: the launch options that are given.
            parameters: the kernel's.
            gpu: for a GPU, the options that its code was built with, defaults included.
        """
        for parameter in parameters:
            name = parameter.name
            argument = arguments.get(name)
            if name in self.types:
                reason = _mismatch(argument, *self.types[name]) if argument is not None else "no value"
            else:
                reason = _other_constant(self.constants[name], argument, parameter)
            if reason is not None:
                return f"{name}: {reason}"
        built = {**_DEFAULTS, **self.options} if gpu is None else gpu
        for name, value in options.items():
            ignored = gpu is None and name in _GPU_OPTIONS
            if not ignored and (name not in built or built[name] != value):
                return f"option {name}={value!r}: it was built with{f' {built[name]!r}' if name in built else 'out'}"
        return None


def _other_constant(built: Any, argument: Argument | None, parameter: Parameter) -> str | None:
    """Constants are the same where type and value are: `True` and `1` make other code."""
    if argument is None and not parameter.default:  # not given: the form says what it is
        return None
    given = argument.value if argument is not None else parameter.default[0]
    if argument is not None and argument.dtype:
        return f"expected the constant {built!r}, got {argument.text}"
    if type(given) is type(built) and given == built:
        return None
    return f"expected the constant {built!r}, got {given!r}"


def _mismatch(argument: Argument, kind: str, hint: int | None) -> str | None:
    expected = kind if hint is None else f"{kind} that {'is 1' if hint == 1 else 'is divisible by 16'}"
    if kind.startswith("*"):
        wanted = kind[1:].removeprefix("k")
        if argument.dtype == _SAME.get(wanted, wanted):
            if hint == 16 and argument.value % 16:
                return f"expected {kind} at an address divisible by 16, got {argument.text} at {argument.value:#x}"
            return None
        return f"expected {kind}, got {argument.text}"
    if argument.dtype:
        return f"expected {expected}, got {argument.text}"
    value = argument.value
    if not _is_of(value, kind):
        return f"expected {expected}, got {value!r}"
    fits = hint is None or (value == 1 if hint == 1 else value % 16 == 0)
    return None if fits else f"expected {expected}, got {value!r}"


def _is_of(value: Any, kind: str) -> bool:
    if kind in ("i1", "u1"):
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind.startswith(("fp", "bf")):
        return isinstance(value, float)
    if not isinstance(value, int):
        return False
    bits = int(kind[1:])
    if bits < 64:
        return -(1 << bits - 1) <= value < (1 << bits - 1) if kind[0] == "i" else 0 <= value < 1 << bits
    return -(1 << 63) <= value < 1 << 63 if kind[0] == "i" else 0 <= value < 1 << 64


def read_form(index: int, about: Mapping[str, Any], parameters: Sequence[Parameter]) -> Form:
    """A form as the manifest holds it."""
    constants = dict(about["constants"])
    free = [p.name for p in parameters if p.name not in constants]
    split = (text.partition(":") for text in about["signature"])
    types = {name: (kind, int(hint) if hint else None) for name, (kind, _, hint) in zip(free, split, strict=True)}
    return Form(index, types, constants, dict(about["options"]), about)


def read_parameters(entry: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """A kernel's parameters as the manifest holds them."""
    return tuple(Parameter(name, constant, tuple(default)) for name, constant, *default in entry["parameters"])
