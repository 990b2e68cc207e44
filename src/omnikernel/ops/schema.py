"""The schema of an operator, read from the annotations of its function.

In: a Python function. Out: a `Schema`: its parameters and results with their kinds, and the same as a torch schema string.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import OmnikernelError
from .arrays import Array, DType


class SchemaError(OmnikernelError, TypeError):
    """A declaration that no schema can say."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a parameter or a result is: `base` (array, int, float, bool, str or dtype), perhaps None, perhaps a list."""

    base: str
    optional: bool = False
    many: bool = False

    @property
    def is_array(self) -> bool:
        """An array, an optional array or a list of arrays."""
        return self.base == "array"


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter. `mutated`: a kernel writes it. `strided`: it is passed as it is, whatever its strides."""

    name: str
    kind: Kind
    default: Any = inspect.Parameter.empty
    keyword_only: bool = False
    mutated: bool = False
    strided: bool = False

    @property
    def has_default(self) -> bool:
        """The parameter may be left out."""
        return self.default is not inspect.Parameter.empty


_EXACT = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True, slots=True)
class Schema:
    """Parameters in order, and results; `single`: the function returns one result, not a tuple."""

    name: str
    params: tuple[Param, ...]
    results: tuple[Kind, ...]
    single: bool

    @property
    def arrays(self) -> tuple[int, ...]:
        """Positions of the parameters that are arrays."""
        return tuple(i for i, param in enumerate(self.params) if param.kind.is_array)

    @property
    def exact(self) -> tuple[tuple[int, type], ...]:
        """Positions of the single scalars, with the one type that needs no conversion."""
        return tuple((i, _EXACT[p.kind.base]) for i, p in enumerate(self.params) if p.kind.base in _EXACT)

    @property
    def fills(self) -> dict[int, tuple[Any, ...]]:
        """The defaults that complete a call with positional arguments alone, by their number."""
        defaults = [param.default for param in self.params]
        needed = max((i + 1 for i, param in enumerate(self.params) if not param.has_default), default=0)
        return {count: tuple(defaults[count:]) for count in range(needed, len(defaults) + 1)}

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The value of every parameter, in order.

        Raises:
            TypeError: a missing, unknown or doubled argument, as Python says it for a function.
        """
        positional = [param for param in self.params if not param.keyword_only]
        if len(args) > len(positional):
            raise TypeError(f"{self.name}() takes {len(positional)} positional arguments but {len(args)} were given")
        given = dict(zip((param.name for param in positional), args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{self.name}() got multiple values for argument {name!r}")
            if all(param.name != name for param in self.params):
                raise TypeError(f"{self.name}() got an unexpected keyword argument {name!r}")
            given[name] = value
        missing = [param.name for param in self.params if param.name not in given and not param.has_default]
        if missing:
            raise TypeError(f"{self.name}() is missing {', '.join(map(repr, missing))}")
        return tuple(given.get(param.name, param.default) for param in self.params)

    def arguments(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """A value for every parameter as the arguments of a call: by position, and by keyword."""
        args = [value for value, param in zip(values, self.params, strict=True) if not param.keyword_only]
        return args, {p.name: value for value, p in zip(values, self.params, strict=True) if p.keyword_only}

    def packed(self, results: Sequence[Any]) -> Any:
        """Results as a call gives them: one, a tuple, or None."""
        return results[0] if self.single else tuple(results) or None

    def torch(self) -> str:
        """The schema without the name, as `torch.library` reads it, e.g. `(Tensor x, float eps=1e-05) -> Tensor`."""
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        parts = []
        for index, param in enumerate(self.params):
            if param.keyword_only and (index == 0 or not self.params[index - 1].keyword_only):
                parts.append("*")
            mark = f"({next(letters)}!)" if param.mutated else ""
            default = f"={_literal(param)}" if param.has_default else ""
            parts.append(f"{_torch_type(param.kind, mark)} {param.name}{default}")
        results = [_torch_type(kind, "") for kind in self.results]
        returns = results[0] if self.single else f"({', '.join(results)})"
        return f"({', '.join(parts)}) -> {returns}"


def each(value: Any) -> Sequence[Any]:
    """The items of a list or tuple, or else the value alone."""
    return value if isinstance(value, (tuple, list)) else (value,)


_TORCH = {"array": "Tensor", "int": "SymInt", "float": "float", "bool": "bool", "str": "str", "dtype": "ScalarType"}


def _torch_type(kind: Kind, mark: str) -> str:
    return f"{_TORCH[kind.base]}{mark}{'[]' if kind.many else ''}{'?' if kind.optional else ''}"


def _literal(param: Param) -> str:
    value = param.default
    if value is None:
        return "None"
    if isinstance(value, bool):
        return str(value)
    if param.kind.base == "dtype":
        return str(DType(value))
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(str(item) for item in value) + "]"
    return repr(value)


_BASES = {Array: "array", int: "int", float: "float", bool: "bool", str: "str", DType: "dtype"}
_ALLOWED = (
    "Array, Array | None, list[Array], int, float, bool, str, DType, tuples or lists of numbers, and `| None` of these"
)


def read_schema(function: Callable[..., Any], name: str, mutates: Sequence[str], strided: Sequence[str]) -> Schema:
    """Read the annotations of an operator's function.

    Args:
        function: the function; every parameter and the result are annotated.
        name: the operator's name, `namespace::name`.
        mutates: the parameters that its kernels write.
        strided: the parameters that are passed as they are, whatever their strides.

    Raises:
        SchemaError: an annotation is missing or says what a schema cannot, or `mutates` or `strided` name no array.
    """
    namespace, separator, short = name.partition("::")
    if not separator or not namespace.isidentifier() or not short.isidentifier():
        raise SchemaError(f"an operator is named 'namespace::name', got {name!r}")
    try:
        hints = typing.get_type_hints(function)
    except NameError as error:
        raise SchemaError(f"operator {name}: an annotation cannot be resolved: {error}") from error
    params = []
    for parameter in inspect.signature(function).parameters.values():
        where = f"operator {name}, parameter {parameter.name!r}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise SchemaError(f"{where}: expected a fixed list of parameters, got *args or **kwargs; use list[Array]")
        if parameter.name not in hints:
            raise SchemaError(f"{where}: expected an annotation ({_ALLOWED}), got none")
        kind = _kind(hints[parameter.name], where)
        keyword_only = parameter.kind == parameter.KEYWORD_ONLY
        mutated, keeps = parameter.name in mutates, parameter.name in strided
        if (mutated or keeps) and not kind.is_array:
            raise SchemaError(f"{where}: only an array can be mutated or strided, got {hints[parameter.name]}")
        if kind.is_array and parameter.default not in (parameter.empty, None):
            raise SchemaError(f"{where}: the default of an array can only be None, got {parameter.default!r}")
        params.append(Param(parameter.name, kind, parameter.default, keyword_only, mutated, keeps))
    unknown = [word for word in (*mutates, *strided) if all(word != param.name for param in params)]
    if unknown:
        have = ", ".join(param.name for param in params)
        raise SchemaError(f"operator {name}: mutates or strided names {unknown[0]!r}; the parameters are {have}")
    if not any(param.kind.is_array and not param.kind.optional for param in params):
        raise SchemaError(f"operator {name}: expected at least one array parameter, which decides the library")
    if "return" not in hints:
        raise SchemaError(
            f"operator {name}: expected an annotation of the result, got none; use `-> Array` or `-> None`"
        )
    results, single = _results(hints["return"], f"operator {name}, the result")
    if not results and not mutates:
        raise SchemaError(f"operator {name}: returns nothing and mutates nothing; declare mutates=(...)")
    return Schema(name, tuple(params), results, single)


def _results(hint: Any, where: str) -> tuple[tuple[Kind, ...], bool]:
    if hint in (None, type(None)):
        return (), False
    if typing.get_origin(hint) is tuple and Ellipsis not in typing.get_args(hint):
        kinds = tuple(_kind(inner, where) for inner in typing.get_args(hint))
        single = False
    else:
        kinds, single = (_kind(hint, where),), True
    for kind in kinds:
        if kind != Kind("array"):
            raise SchemaError(f"{where}: expected Array, a tuple of Array or None, got {hint}")
    return kinds, single


def _kind(hint: Any, where: str) -> Kind:
    if hint in _BASES:
        return Kind(_BASES[hint])
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in inner if one is not type(None)]
        if len(rest) == 1 and len(inner) == 2:
            base = _kind(rest[0], where)
            return Kind(base.base, True, base.many)
    if origin in (list, tuple, Sequence):
        items = {one for one in inner if one is not Ellipsis}
        if len(items) == 1:
            item = _kind(items.pop(), where)
            if not item.many and not item.optional and item.base in ("array", "int", "float", "bool"):
                return Kind(item.base, False, True)
    raise SchemaError(f"{where}: expected {_ALLOWED}, got {hint}")
