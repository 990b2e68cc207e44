"""Functions that are not exactly rounded: computed in a wider type, rounded once.

f32 and narrower are computed in f64; f64 in long double where the host's is wider, else in f64 itself. Compiled code
is compared with these by a stated bound in ulp. Subnormals are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.tile import Op
from . import narrow
from .registry import Array, Machine, Outcome, means, scalar_kind

Function = Callable[..., Array]


def by_element(function: Callable[..., Any]) -> Function:
    """A function of Python floats on arrays of floats, giving f64; what Python refuses gives NaN, as in C."""

    def guarded(*args: Any) -> float:
        try:
            return float(function(*map(float, args)))
        except (ValueError, OverflowError):
            return math.nan

    def apply(*args: Array) -> Array:
        return np.asarray(np.frompyfunc(guarded, len(args), 1)(*args)).astype(np.float64)

    return apply


def rsqrt(value: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(value))


erf = by_element(math.erf)

MATH: dict[str, Function] = {
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.rsqrt": rsqrt,
    "math.erf": erf,
}


def _widest(value: Array) -> Array:
    """Floats in the type that functions are computed in; integers as they are."""
    if value.dtype.kind in "biu":
        return value
    return value.astype(np.longdouble if value.dtype == np.float64 else np.float64)


def evaluate(function: Function, args: tuple[Array, ...], kind: str) -> Array:
    """A function of wide floats, rounded once to a float kind."""
    made = np.asarray(function(*map(_widest, args)))
    return narrow.narrow(made.astype(np.float64, copy=False), kind)


def _define(name: str, function: Function) -> None:
    @means(name)
    def meaning(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
        return [evaluate(function, args, scalar_kind(op).kind)]


for _name, _function in MATH.items():
    _define(_name, _function)
