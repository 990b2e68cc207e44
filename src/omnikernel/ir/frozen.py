"""Frozen dataclasses that are made fast: tile IR is many small objects.

`dataclass(frozen=True)` sets each field through `object.__setattr__`, which takes most of the time of making an object.
Here an object is filled while it is of a twin class whose fields may be set, and then becomes one of the frozen class,
which has the same slots.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def frozen(cls: type[T]) -> type[T]:
    """The class as `dataclass(frozen=True, slots=True, eq=False)` makes it, with a faster way to make its objects.

    They compare by identity, and are not meant to be pickled.
    """
    made: type[T] = _made_fast(dataclass(frozen=True, slots=True, eq=False, init=False)(cls))
    return made


@dataclass_transform(frozen_default=True)
def frozen_value(cls: type[T]) -> type[T]:
    """As `frozen`, but objects are equal where their fields are."""
    made: type[T] = _made_fast(dataclass(frozen=True, slots=True, init=False)(cls))
    return made


def _made_fast(made: Any) -> Any:
    twin = type(made.__name__, (), {"__slots__": tuple(f.name for f in fields(made))})
    scope: dict[str, Any] = {"_twin": twin, "_new": object.__new__, "_missing": MISSING}
    arguments, body = [], []
    for f in fields(made):
        name = f.name
        scope[f"_{name}"] = f.default if f.default_factory is MISSING else f.default_factory
        if f.default_factory is not MISSING:
            arguments.append(f"{name}=_missing")
            body.append(f"self.{name} = _{name}() if {name} is _missing else {name}")
        else:
            arguments.append(name if f.default is MISSING else f"{name}=_{name}")
            body.append(f"self.{name} = {name}")
    lines = ("self = _new(_twin)", *body, "self.__class__ = cls", "return self")
    exec(f"def __new__(cls, {', '.join(arguments)}):\n " + "\n ".join(lines), scope)
    made.__new__ = scope["__new__"]
    return made
