"""What is compared: an operator, its reference, and the arguments for both, as torch has them.

In: `MODULE:operator` or `FILE:operator`, and options. Out: a `Subject`. What is missing is an error that says how to give it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, ArgumentValueError
from ..ops.declare import Operator
from ..ops.schema import Param

# Tolerances where none are stated: some units of the dtype's last place, for sums of another order.
TOLERANCES = {"float64": (1e-9, 1e-9), "float32": (1e-4, 1e-5), "float16": (1e-2, 1e-3), "bfloat16": (3e-2, 1e-2)}
_SHAPE = re.compile(r"(?:(?P<name>\w+)=)?(?P<sizes>\d+(?:[x,]\d+)*)(?::(?P<dtype>\w+))?")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line may say of a subject's arguments.

    `shapes`: `1024x1024`, `x=1024x1024:bfloat16`; `values`: `eps=1e-5`; `inputs` and `reference`: a function, `MODULE:name`.
    """

    shapes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    inputs: str = ""
    reference: str = ""
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """An operator, its reference, and a call's arguments. Without a stated tolerance, it goes by the dtype."""

    operator: Operator
    reference: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    rtol: float | None = None
    atol: float | None = None

    @property
    def mutated(self) -> tuple[str, ...]:
        """The parameters that a call writes."""
        return tuple(param.name for param in self.operator.schema.params if param.mutated)


def load(spec: str) -> Any:
    """The object that `MODULE:name` or `FILE:name` names; the current folder and the file's are importable.

    Raises:
        ArgumentValueError: there is no such module, file or name.
    """
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise ArgumentValueError(f"expected MODULE:name or FILE:name, got {spec!r}")
    module = _run_file(Path(place)) if place.endswith(".py") else _import(place)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        named = list({id(v): n for n, v in reversed(vars(module).items()) if isinstance(v, Operator)}.values())[::-1]
        has = f"its operators are {', '.join(named)}" if named else "it has no operators"
        raise ArgumentValueError(f"{place} has no {name!r}; {has}")
    return found


def _run_file(path: Path) -> Any:
    if not path.is_file():
        raise ArgumentValueError(f"there is no file {path}")
    package = path.resolve()
    parts = [package.stem]
    while (package.parent / "__init__.py").is_file():  # a module of a package needs its name for its relative imports
        package = package.parent
        parts.insert(0, package.name)
    folder = str(package.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(".".join(parts))


def _import(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise ArgumentValueError(f"there is no module {name!r} in {here} or among those installed") from error


def subject(spec: str, options: Options, device: str) -> Subject:
    """The subject that the command line describes, its arrays as tensors on `device`.

    Raises:
        ArgumentTypeError: the name is no operator.
        ArgumentValueError: it has no reference, or no arguments to call it with.
    """
    operator = load(spec)
    if not isinstance(operator, Operator):
        kind = type(operator).__qualname__
        raise ArgumentTypeError(f"{spec} is a {kind}; expected an operator, a function under @omnikernel.op")
    stated = operator.reference
    reference = load(options.reference) if options.reference else stated.function if stated is not None else None
    if reference is None:
        raise ArgumentValueError(
            f"operator {operator.name} has no reference to be compared with; give one, written with torch's functions or "
            f"omnikernel.namespace(x)'s: {_short(operator)}.def_reference(lambda {_names(operator)}: ...), or --reference MODULE:function"
        )
    args, kwargs = _positional(operator, *_arguments(operator, options))
    rtol = options.rtol if options.rtol is not None else stated.rtol if stated is not None else None
    atol = options.atol if options.atol is not None else stated.atol if stated is not None else None
    return Subject(
        operator,
        reference,
        tuple(to_torch(value, device) for value in args),
        {name: to_torch(value, device) for name, value in kwargs.items()},
        rtol,
        atol,
    )


def _short(operator: Operator) -> str:
    return operator.name.rpartition("::")[2]


def _names(operator: Operator) -> str:
    return ", ".join(param.name for param in operator.schema.params)


def _arguments(operator: Operator, options: Options) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if options.inputs:
        return _made(load(options.inputs)(), options.inputs)
    if options.shapes:
        return (), _from_shapes(operator, options)
    if operator.example is not None:
        args, kwargs = _made(operator.example(), f"the example of {operator.name}")
        return args, {**kwargs, **_values(operator, options)}
    first = next(param.name for param in operator.schema.params if param.kind.is_array)
    raise ArgumentValueError(
        f"operator {operator.name}: with which arguments? Say --shape 1024x1024 for every array, --shape {first}=1024x1024:float16 "
        f"for one, --inputs MODULE:function for a function that returns them, or give the operator an example for good: "
        f"{_short(operator)}.def_example(lambda: ...), which returns ({_names(operator)}) as a tuple or a dict"
    )


def _positional(
    operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments, by position as far as that goes: a reference may have other names for its parameters."""
    left, found = dict(kwargs), list(args)
    for param in operator.schema.params[len(args) :]:
        if param.keyword_only or param.name not in left:
            break
        found.append(left.pop(param.name))
    return tuple(found), left


def _made(found: Any, what: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as a function gave them: a tuple, a dict by name, or one array alone."""
    if isinstance(found, Mapping):
        return (), dict(found)
    if isinstance(found, (tuple, list)):
        return tuple(found), {}
    if found is None:
        raise ArgumentValueError(f"{what} returns None; expected the arguments as a tuple or a dict by name")
    return (found,), {}


def _from_shapes(operator: Operator, options: Options) -> dict[str, Any]:
    """Arrays of normal random numbers for every array parameter, by the shapes given."""
    params = {param.name: param for param in operator.schema.params}
    shapes: dict[str, tuple[tuple[int, ...], str]] = {}
    for text in options.shapes:
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise ArgumentValueError(f"--shape {text}: expected sizes as in 1024x1024, x=1024x1024 or x=1024:float16")
        name = match["name"] or ""
        if name and (name not in params or not params[name].kind.is_array):
            arrays = ", ".join(p.name for p in params.values() if p.kind.is_array)
            raise ArgumentValueError(f"--shape {text}: {operator.name} has no array {name!r}; it has {arrays}")
        sizes = tuple(int(size) for size in re.split("[x,]", match["sizes"]))
        shapes[name] = (sizes, match["dtype"] or "float32")
    found: dict[str, Any] = _values(operator, options)
    generator = np.random.default_rng(0)
    for param in params.values():
        if param.kind.is_array and param.name not in found:
            chosen = shapes.get(param.name, None if param.kind.optional else shapes.get(""))
            if chosen is not None:
                found[param.name] = _random(operator, param, *chosen, generator)
    missing = [p.name for p in params.values() if p.name not in found and not p.has_default and not p.kind.optional]
    if missing:
        advice = " ".join(f"--shape {n}=..." if params[n].kind.is_array else f"--set {n}=..." for n in missing)
        raise ArgumentValueError(f"operator {operator.name}: {', '.join(missing)} not given; add {advice}")
    return found


def _random(operator: Operator, param: Param, sizes: tuple[int, ...], dtype: str, generator: Any) -> Any:
    from ..ops.numpy import dtype_of

    if param.kind.many:
        raise ArgumentValueError(f"operator {operator.name}: {param.name} is a list of arrays; give it by --inputs")
    if dtype not in TOLERANCES:
        raise ArgumentValueError(
            f"--shape {param.name}: arrays are made of {', '.join(TOLERANCES)}, got {dtype!r}; others come by --inputs"
        )
    return generator.standard_normal(sizes, np.float32).astype(dtype_of(dtype))


def _values(operator: Operator, options: Options) -> dict[str, Any]:
    """What `--set` gives, as Python literals."""
    found = {}
    for text in options.values:
        name, equals, value = text.partition("=")
        if not equals or all(param.name != name for param in operator.schema.params):
            raise ArgumentValueError(f"--set {text}: expected NAME=VALUE with one of {_names(operator)}")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def to_torch(value: Any, device: str) -> Any:
    """An argument with its arrays, of whatever library, as tensors on a device."""
    import torch

    from ..ops.declare import library_of
    from ..ops.torch import from_numpy

    if isinstance(value, (tuple, list)):
        return type(value)(to_torch(item, device) for item in value)
    library = library_of(value)
    if not library:
        return value
    tensor = value if isinstance(value, torch.Tensor) else from_numpy(np.array(value))
    return tensor.detach().to(device)


def tolerances(subject: Subject, dtypes: Sequence[str]) -> tuple[float, float]:
    """The tolerance that applies: stated, else of the coarsest dtype among those given."""
    known = [TOLERANCES[name] for name in dtypes if name in TOLERANCES] or [(0.0, 0.0)]
    rtol, atol = (max(column) for column in zip(*known, strict=True))
    return (rtol if subject.rtol is None else subject.rtol, atol if subject.atol is None else subject.atol)
