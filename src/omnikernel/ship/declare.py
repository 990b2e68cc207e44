"""`@omnikernel.prebuild`: what to build of a Triton kernel when its package is built, written beside the kernel.

In: signatures and constants, in the words of `omnikernel dump`. Out: the same kernel, with `Declaration`s that
`omnikernel build` reads. Nothing is compiled here, and launches do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import ArgumentTypeError, ArgumentValueError
from ..frontend import argument_type

_ATTRIBUTE = "_omnikernel_prebuild"
_PLAIN = (bool, int, float, str, type(None))
_Kernel = TypeVar("_Kernel")


@dataclass(frozen=True, slots=True)
class Declaration:
    """One form of a kernel: the types of its arguments that are no constants, and the values of those that are."""

    signature: tuple[str, ...]
    constants: tuple[tuple[str, Any], ...]


def prebuild(
    *signatures: str, constants: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
) -> Callable[[_Kernel], _Kernel]:
    """Declare forms of a kernel that a wheel of its package shall hold compiled; every signature with every set of constants.

    Args:
        signatures: types of the arguments that are no constants, in order: `"*fp32, *fp32, i32"`. After a colon, `16` means
            divisible by 16 and `1` equal to one, as Triton specialises them: `"*fp32, i32:1"`. For GPUs a signature without
            any colon is built twice: with all pointers divisible by 16, as most are, and as it stands.
        constants: values of `tl.constexpr` parameters (those with defaults may be left out), and launch options like
            `num_warps`; one set, or several.

    Returns:
        A decorator that gives the kernel back. It stands above `@triton.jit`, also more than once, and above
        `@triton.autotune`: a shipped kernel is not tuned, it takes the first declared form that fits.

    Raises:
        ArgumentTypeError, ArgumentValueError: a signature that is none, or a constant that is no plain value.
    """
    if not signatures:
        raise ArgumentValueError('prebuild: expected at least one signature, e.g. prebuild("*fp32, *fp32, i32")')
    sets = [dict(constants)] if isinstance(constants, Mapping) else [dict(one) for one in constants] or [{}]
    for name, value in (pair for one in sets for pair in one.items()):
        if not isinstance(value, _PLAIN):
            raise ArgumentTypeError(
                f"prebuild, constant {name!r}: expected a bool, int, float, str or None, got a {type(value).__qualname__}; "
                "a manifest cannot hold it"
            )
    declared = tuple(Declaration(_types(text), tuple(one.items())) for text in signatures for one in sets)

    def decorate(kernel: _Kernel) -> _Kernel:
        if not hasattr(kernel, "arg_names"):
            raise ArgumentTypeError(f"prebuild: expected a Triton kernel (@triton.jit), got {kernel!r}")
        # Decorators run from the bottom up; those nearer to the kernel come first.
        setattr(kernel, _ATTRIBUTE, (*declarations(kernel), *declared))
        return kernel

    return decorate


def declarations(kernel: Any) -> tuple[Declaration, ...]:
    """What is declared for a kernel; empty for anything else."""
    found = getattr(kernel, "__dict__", {}).get(_ATTRIBUTE, ())
    return tuple(found)


def _types(signature: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in signature.split(",") if part.strip())
    for part in parts:
        argument_type(part)
    return parts
