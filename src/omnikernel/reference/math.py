"""Functions that are not exactly rounded: computed in a wider type, rounded once.

f32 and narrower are computed in f64; f64 in long double where the host's is wider, else in f64 itself. Compiled code
is compared with these by a stated bound in ulp. Subnormals are kept.

`EXTERN` gives libdevice functions by name without `__nv_` and without the `f` of the f32 variant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import UnsupportedOp
from ..ir.tile import Op
from . import narrow
from .floats import maxnum, minnum
from .registry import Array, Machine, Outcome, dtype_of, means, scalar_kind, where

Function = Callable[..., Array]


def by_element(function: Callable[..., float]) -> Function:
    """A function of Python floats on f64 arrays; what Python raises becomes what C gives."""

    def guarded(*args: float) -> float:
        try:
            return float(function(*map(float, args)))
        except (ValueError, OverflowError):
            return math.nan

    lifted = np.frompyfunc(guarded, 1, 1)

    def apply(value: Array) -> Array:
        return np.asarray(lifted(value)).astype(np.float64)

    return apply


def _gamma(x: float) -> float:
    if x == 0.0:
        return math.copysign(math.inf, x)
    if x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf


def _log_gamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _erf(value: Array) -> Array:
    return by_element(math.erf)(value)


def _rsqrt(value: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(value))


def _round_away(value: Array) -> Array:
    """C's round: halves away from zero."""
    whole = np.trunc(value)
    return np.copysign(np.where(np.abs(value - whole) >= 0.5, whole + np.copysign(1.0, value), whole), value)


def _scaled(value: Array, power: Array) -> Array:
    return np.ldexp(value, np.clip(power, -100000, 100000).astype(np.int32))


MATH: dict[str, Function] = {
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.rsqrt": _rsqrt,
    "math.erf": _erf,
}

EXTERN: dict[str, Function] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(x.dtype.type(10.0), x),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinpi": lambda x: np.sin(np.fmod(x, 2.0) * x.dtype.type(math.pi)),
    "cospi": lambda x: np.cos(np.fmod(x, 2.0) * x.dtype.type(math.pi)),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "cbrt": np.cbrt,
    "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "erf": _erf,
    "erfc": by_element(math.erfc),
    "tgamma": by_element(_gamma),
    "lgamma": by_element(_log_gamma),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": _round_away,
    "fabs": np.abs,
    "pow": np.power,
    "powi": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "fmod": np.fmod,
    "remainder": lambda x, y: np.asarray(np.vectorize(_remainder, otypes=[np.float64])(x, y)),
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0.0)),
    "fmax": maxnum,
    "fmin": minnum,
    "ldexp": _scaled,
    "scalbn": _scaled,
    "div_rn": np.divide,
    "add_rn": np.add,
    "mul_rn": np.multiply,
}
EXACT = frozenset({"ldexp", "scalbn", "nextafter", "fmod"})
# Functions whose results are integers or bool.
PREDICATES: dict[str, Function] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinited": np.isfinite,
    "finite": np.isfinite,
    "signbit": np.signbit,
    "llrint": np.rint,
    "llround": _round_away,
}
# libdevice spells the variant by suffix: tanhf and tanh, but isnanf and isnand, fsqrt_rn and dsqrt_rn.
RENAMED = {
    "finitef": "finite",
    "isfinited": "finite",
    "isnand": "isnan",
    "isinfd": "isinf",
    "signbitd": "signbit",
    "fsqrt_rn": "sqrt",
    "dsqrt_rn": "sqrt",
    "fdiv_rn": "div_rn",
    "ddiv_rn": "div_rn",
    "fadd_rn": "add_rn",
    "dadd_rn": "add_rn",
    "fmul_rn": "mul_rn",
    "dmul_rn": "mul_rn",
    "frsqrt_rn": "rsqrt",
    "fast_expf": "exp",
    "fast_exp10f": "exp10",
    "fast_logf": "log",
    "fast_log2f": "log2",
    "fast_log10f": "log10",
    "fast_sinf": "sin",
    "fast_cosf": "cos",
    "fast_tanf": "tan",
    "fast_tanhf": "tanh",
    "fast_powf": "pow",
    "fast_fdividef": "div_rn",
}


def _remainder(x: float, y: float) -> float:
    return math.nan if math.isinf(x) or y == 0 or math.isnan(x) or math.isnan(y) else math.remainder(x, y)


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


def extern_function(symbol: str) -> tuple[str, Function | None]:
    """The plain name of a libdevice symbol, and its function where this module has it."""
    name = symbol.removeprefix("__nv_")
    known: dict[str, Any] = {**EXTERN, **PREDICATES}
    name = RENAMED.get(name, name)
    if name not in known and name.endswith("f"):
        name = name[:-1]
    return name, known.get(name)


@means("tt.extern_elementwise")
def extern_elementwise(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """A libdevice function, found by attribute `symbol`."""
    symbol: str = op.attributes["symbol"]
    name, function = extern_function(symbol)
    kind = scalar_kind(op)
    if name == "fma":
        return [narrow.fma(args[0], args[1], args[2], kind.kind)]
    if name in ("abs", "llabs"):
        return [np.abs(args[0])]
    if function is None:
        raise UnsupportedOp(f"the function {symbol!r} at {where(op.loc)} has no meaning in the reference")
    if name in PREDICATES:
        made = np.asarray(function(narrow.widen(args[0])))
        dtype = dtype_of(op.result.type)
        return [narrow.to_integer(made, dtype, unsigned=False) if made.dtype.kind == "f" else made.astype(dtype)]
    if name in EXACT:  # in the type itself: the neighbour of an f64 is not that of an f32
        return [narrow.narrow(np.asarray(function(*args)).astype(narrow.computing(kind.kind)), kind.kind)]
    return [evaluate(function, args, kind.kind)]
