"""What saved values and gradients have in common in torch and JAX.

In: what a user's `save` and `backward` returned. Out: arrays apart from other values, and a gradient for every array
parameter, or an error that counts as the user counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentTypeError, ArgumentValueError
from .schema import Schema, each


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of an array in a template."""

    index: int


def split(name: str, saved: Any, is_array: Callable[[Any], bool]) -> tuple[list[Any], tuple[Any, ...]]:
    """The arrays of what `save` returned, and a template that holds everything else.

    Raises:
        ArgumentTypeError: `save` returned no tuple.
    """
    if not isinstance(saved, (tuple, list)):
        raise ArgumentTypeError(
            f"operator {name}: save returns a tuple of what backward needs, got {type(saved).__qualname__}"
        )
    arrays: list[Any] = []

    def place(item: Any) -> Any:
        if isinstance(item, (tuple, list)):
            return tuple(place(inner) for inner in item)
        if not is_array(item):
            return item
        arrays.append(item)
        return Slot(len(arrays) - 1)

    return arrays, tuple(place(item) for item in saved)


def rebuild(template: tuple[Any, ...], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """What `save` returned, with these arrays."""

    def value(item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(value(inner) for inner in item)
        return arrays[item.index] if isinstance(item, Slot) else item

    return tuple(value(item) for item in template)


def spread(template: tuple[Any, ...], values: Sequence[Any]) -> tuple[Any, ...]:
    """A value for every array of a template, None for everything else."""

    def value(item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(value(inner) for inner in item)
        return values[item.index] if isinstance(item, Slot) else None

    return tuple(value(item) for item in template)


def arranged(schema: Schema, likes: Sequence[Any], returned: Any, cast: Callable[[Any, Any], Any]) -> list[Any]:
    """The gradient of every array parameter.

    Args:
        schema: the operator's.
        likes: shape and dtype of every array parameter; a list of them for a list, None for None.
        returned: what `backward` returned.
        cast: gives a gradient the dtype of its parameter.

    Raises:
        ArgumentValueError: another number of gradients than of array parameters, or a shape that differs.
        ArgumentTypeError: a gradient that is no array.
    """
    names = [schema.params[index].name for index in schema.arrays]
    items = each(returned)
    if len(items) != len(names):
        raise ArgumentValueError(
            f"operator {schema.name}: backward returned {len(items)} gradients, expected {len(names)}, one for each array "
            f"parameter ({', '.join(names)}); use None where there is none"
        )

    def one(number: int, name: str, grad: Any, like: Any) -> Any:
        if grad is None or like is None:
            return None
        if isinstance(like, list):
            if not isinstance(grad, (tuple, list)) or len(grad) != len(like):
                raise ArgumentValueError(
                    f"operator {schema.name}: gradient {number}, of {name!r}: expected a list of {len(like)}"
                )
            return [one(number, name, g, k) for g, k in zip(grad, like, strict=True)]
        shape, dtype = like
        if not hasattr(grad, "shape"):
            raise ArgumentTypeError(
                f"operator {schema.name}: gradient {number}, of {name!r}: expected an array, got {grad!r}"
            )
        if tuple(grad.shape) != shape:
            raise ArgumentValueError(
                f"operator {schema.name}: gradient {number}, of {name!r}: expected shape {shape}, got {tuple(grad.shape)}"
            )
        return cast(grad, dtype)

    return [one(n + 1, name, grad, like) for n, (name, grad, like) in enumerate(zip(names, items, likes, strict=True))]
