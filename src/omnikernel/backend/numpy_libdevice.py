"""NumPy meaning of libdevice's common functions, for Triton's interpreter.

f32 functions are computed in f64 and rounded once by the caller, so they are as exact as can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = Any


def _each(function: Callable[..., float]) -> Callable[..., Array]:
    """A function of Python floats, for arrays; what has no value (domain, pole) is NaN or infinite as in C."""

    def one(*values: float) -> float:
        try:
            return function(*values)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return np.vectorize(one, otypes=[np.float64])


def _half_away(x: Array) -> Array:
    """Round to nearest, ties away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


_UNARY: dict[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2.0)),
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "exp": np.exp,
    "exp10": lambda x: np.power(10.0, x),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fabs": np.abs,
    "finite": np.isfinite,
    "floor": np.floor,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "lgamma": _each(math.lgamma),
    "llrint": np.rint,
    "llround": _half_away,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "rint": np.rint,
    "round": _half_away,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "signbit": np.signbit,
    "sin": np.sin,
    "sinh": np.sinh,
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2.0)),
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "tgamma": _each(math.gamma),
    "trunc": np.trunc,
}
_BINARY: dict[str, Callable[..., Array]] = {
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.maximum(x - y, 0.0)),
    "fmod": np.fmod,
    "hypot": np.hypot,
    "ldexp": np.ldexp,
    "pow": np.power,
    "powi": np.power,
    "remainder": _each(math.remainder),
    "scalbn": np.ldexp,
}
# Not to be widened: the neighbour of a float depends on its width.
_EXACT: dict[str, Callable[..., Array]] = {"nextafter": np.nextafter}


def evaluate(symbol: str, operands: Sequence[Array]) -> Array | None:
    """The value of `__nv_<name>` on arrays; None where this module does not know the function."""
    name = symbol.removeprefix("__nv_")
    if name.startswith("fast_"):
        name = name.removeprefix("fast_").removesuffix("f")
    # f32 forms end in f (and some f64 forms of predicates in d), which may also be the last letter of a name: erf.
    for candidate in (name, name.removesuffix("f"), name.removesuffix("d")):
        for table in (_UNARY, _BINARY, _EXACT):
            if candidate in table:
                values = operands if table is _EXACT else [_wide(operand) for operand in operands]
                with np.errstate(all="ignore"):
                    return np.asarray(table[candidate](*values))
    return None


def _wide(operand: Array) -> Array:
    array = np.asarray(operand)
    return array.astype(np.float64) if array.dtype.kind == "f" else array
