"""Does an operator return one of its inputs? Found when it is declared, where its function can be run without arrays.

In: the function and its schema. Out: an `AliasError`, or nothing. The function runs on stand-ins of one element, launches
turned off, with as many dimensions as it asks for. One that needs real arrays is undecided here and checked by every call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Array, DType
from .launches import AliasError, Checker, MutationError, call, results_of
from .numpy import NumpyArray, Plan
from .schema import Param, Schema

_RANKS = (2, 1, 3, 4, 0)
_SCALARS: dict[str, Any] = {"int": 1, "float": 1.0, "bool": True, "str": "", "dtype": DType("float32")}


def check(function: Callable[..., Any], schema: Schema) -> None:
    """Run the function on stand-ins and look at what it returns.

    Raises:
        AliasError: a result is a parameter, or a view of one.
        MutationError: it calls an operator that writes a parameter which is not declared as mutated.
    """
    checker = Checker(schema)
    for rank in _RANKS:
        values = [_stand_in(param, index, rank) for index, param in enumerate(schema.params)]
        args, kwargs = schema.arguments(values)
        try:
            results = results_of(schema, call(function, Plan(checker), args, kwargs))
        except (AliasError, MutationError):
            raise
        except Exception:  # undecided: other dimensions, or the first call, which says what is wrong
            continue
        _shares(schema, values, results)
        return


def _stand_in(param: Param, index: int, rank: int) -> Any:
    kind = param.kind
    if kind.is_array:
        made = [NumpyArray(np.zeros((1,) * rank, np.float32), index) for _ in range(2 if kind.many else 1)]
        return made if kind.many else made[0]
    if param.has_default and param.default is not None:
        return param.default
    value = _SCALARS[kind.base]
    return (value, value) if kind.many else value


def _shares(schema: Schema, values: list[Any], results: tuple[Any, ...]) -> None:
    """A result that the function made by other means than `empty` may still be a view of an input."""
    for index, result in enumerate(results):
        for param, value in zip(schema.params, values, strict=True):
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, Array) and isinstance(result, np.ndarray) and np.shares_memory(result, item.value):
                    raise AliasError(
                        f"operator {schema.name}: result {index} shares memory with the input {param.name!r}; return a new "
                        f"array, or declare mutates=({param.name!r},) and -> None"
                    )
