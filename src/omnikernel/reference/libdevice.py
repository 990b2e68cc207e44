"""`tt.extern_elementwise`: NVIDIA's libdevice functions by symbol (CUDA Libdevice User's Guide).

Four tables, by the plain name of a function: `FLOAT` functions are computed wide and rounded once, `EXACT` ones in the
type itself, `INTEGER` ones on Python's integers, `TO_INTEGER` ones give an integer or a bool. Arithmetic and conversions
with an explicit rounding are in `directed`. A symbol that none of them knows is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..errors import UnsupportedOp
from ..ir.tile import Op
from ..ir.types import Scalar
from . import narrow
from .directed import rounded_by_name
from .floats import maxnum, minnum
from .math import Function, by_element, erf, evaluate, rsqrt
from .registry import Array, Machine, Outcome, bits_of, dtype_of, from_bits, means, scalar_kind, where


def _gamma(x: float) -> float:
    if x == 0.0:
        return math.copysign(math.inf, x)
    if x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    try:
        return math.gamma(x)
    except OverflowError:
        return math.copysign(math.inf, x)


def _log_gamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _round_away(value: Array) -> Array:
    """C's round: halves away from zero."""
    whole = np.trunc(value)
    return np.copysign(np.where(np.abs(value - whole) >= 0.5, whole + np.copysign(1.0, value), whole), value)


def _scaled(value: Array, power: Array) -> Array:
    return np.ldexp(value, np.clip(power, -100000, 100000).astype(np.int32))


def _log_of_exponent(value: Array) -> Array:
    """C's logb: the exponent of a float as a float."""
    _, exponent = np.frexp(value)
    made = np.where(value == 0, -np.inf, exponent - 1.0)
    return np.where(np.isfinite(value), made, np.abs(value))


def _norm(*args: Array) -> Array:
    squares = sum(np.square(a) for a in args)
    infinite = np.any([np.isinf(a) for a in np.broadcast_arrays(*args)], axis=0)
    return np.where(infinite, np.inf, np.sqrt(squares))


def _turns(function: Function) -> Function:
    """sin or cos of pi times x; exact at halves."""

    def apply(x: Array) -> Array:
        quarter = np.rint(2 * np.fmod(x, 2.0))
        rest = np.fmod(x, 2.0) - quarter / 2
        angle = rest * x.dtype.type(math.pi)
        sine, cosine = np.sin(angle), np.cos(angle)
        turn = np.where(np.isfinite(quarter), quarter, 0).astype(np.int64) + (1 if function is np.cos else 0)
        made = np.choose(turn % 4, [sine, cosine, -sine, -cosine])
        return np.where(np.isfinite(x), made, np.nan)

    return apply


FLOAT: dict[str, Function] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(x.dtype.type(10.0), x),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "logb": _log_of_exponent,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinpi": _turns(np.sin),
    "cospi": _turns(np.cos),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "rsqrt": rsqrt,
    "cbrt": np.cbrt,
    "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "erf": erf,
    "erfc": by_element(math.erfc),
    "normcdf": by_element(lambda x: 0.5 * math.erfc(-x / math.sqrt(2.0))),
    "tgamma": by_element(_gamma),
    "lgamma": by_element(_log_gamma),
    "pow": np.power,
    "powi": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "rhypot": lambda x, y: 1.0 / np.hypot(x, y),
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": lambda *args: 1.0 / _norm(*args),
    "rnorm4d": lambda *args: 1.0 / _norm(*args),
    "fdividef": np.divide,
}
EXACT: dict[str, Function] = {
    "sqrt": np.sqrt,  # exactly rounded, so not by way of a wider type: that would round f64 twice
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": _round_away,
    "fabs": np.abs,
    "fmod": np.fmod,
    "remainder": by_element(math.remainder),
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0)).astype(x.dtype),
    "fmax": maxnum,
    "fmin": minnum,
    "ldexp": _scaled,
    "scalbn": _scaled,
    "saturate": lambda x: minnum(maxnum(x, np.zeros_like(x)), np.ones_like(x)),
}
TO_INTEGER: dict[str, Function] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "finite": np.isfinite,
    "signbit": np.signbit,
    "llrint": np.rint,
    "llround": _round_away,
    "ilogb": lambda x: np.where(x == 0, -np.inf, np.where(np.isnan(x), -np.inf, _log_of_exponent(x))),
}


def _byte_perm(x: int, y: int, selector: int) -> int:
    data = (x % 2**32) | (y % 2**32) << 32
    return sum((data >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i for i in range(4))


def _signed24(x: int) -> int:
    low = x & 0xFFFFFF
    return low - (1 << 24) if low >> 23 else low


def _reversed(bits: int) -> Callable[[int], int]:
    return lambda x: int(f"{x:0{bits}b}"[::-1], 2)


def _first_set(x: int) -> int:
    return (x & -x).bit_length()


# name: (function of Python's integers, whether they are read unsigned)
INTEGER: dict[str, tuple[Callable[..., int], bool]] = {
    "popc": (int.bit_count, True),
    "popcll": (int.bit_count, True),
    "clz": (lambda x: 32 - x.bit_length(), True),
    "clzll": (lambda x: 64 - x.bit_length(), True),
    "ffs": (_first_set, True),
    "ffsll": (_first_set, True),
    "brev": (_reversed(32), True),
    "brevll": (_reversed(64), True),
    "byte_perm": (_byte_perm, True),
    "mulhi": (lambda x, y: x * y >> 32, False),
    "umulhi": (lambda x, y: x * y >> 32, True),
    "mul64hi": (lambda x, y: x * y >> 64, False),
    "umul64hi": (lambda x, y: x * y >> 64, True),
    "mul24": (lambda x, y: _signed24(x) * _signed24(y), False),
    "umul24": (lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF), True),
    "hadd": (lambda x, y: (x + y) >> 1, False),
    "uhadd": (lambda x, y: (x + y) >> 1, True),
    "rhadd": (lambda x, y: (x + y + 1) >> 1, False),
    "urhadd": (lambda x, y: (x + y + 1) >> 1, True),
    "sad": (lambda x, y, z: abs(x - y) + z, False),
    "usad": (lambda x, y, z: abs(x - y) + z, True),
    "abs": (abs, False),
    "llabs": (abs, False),
    "max": (max, False),
    "min": (min, False),
    "umax": (max, True),
    "umin": (min, True),
}
# The same bits as another type, or half of them.
BITS = frozenset(
    {
        "int_as_float",
        "uint_as_float",
        "float_as_int",
        "float_as_uint",
        "longlong_as_double",
        "double_as_longlong",
    }
)
# Names whose variants are not spelt by an `f` at the end.
RENAMED = {
    "isfinited": "finite",
    "isnand": "isnan",
    "isinfd": "isinf",
    "signbitd": "signbit",
    "fast_fdividef": "fdividef",
    "frsqrt_rn": "rsqrt",
}


def plain_name(symbol: str) -> str:
    """The name of the function of a symbol, without prefix, variant and precision."""
    name = symbol.removeprefix("__nv_")
    name = RENAMED.get(name, name).removeprefix("fast_")
    known = FLOAT.keys() | EXACT.keys() | TO_INTEGER.keys() | INTEGER.keys() | BITS | {"fma"}
    return name if name in known or not name.endswith("f") else name[:-1]


def _on_integers(name: str, args: tuple[Array, ...], dtype: np.dtype[np.generic]) -> Array:
    function, unsigned = INTEGER[name]
    read = tuple(bits_of(a) if unsigned else a for a in args)
    top = (1 << (8 * dtype.itemsize)) - 1
    made = np.frompyfunc(lambda *values: function(*map(int, values)) & top, len(read), 1)(*read)
    return np.asarray(made).astype(f"u{dtype.itemsize}").view(dtype)


def _halves(name: str, args: tuple[Array, ...]) -> Array | None:
    """Doubles put together from two words and taken apart."""
    if name == "hiloint2double":
        high, low = (bits_of(a).astype(np.uint64) for a in args)
        return from_bits(high << np.uint64(32) | low, np.dtype(np.float64))
    if name in ("double2loint", "double2hiint"):
        bits = bits_of(args[0]) >> np.uint64(32 if name == "double2hiint" else 0)
        return bits.astype(np.uint32).view(np.int32)
    return None


@means("tt.extern_elementwise")
def extern_elementwise(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """A libdevice function, found by attribute `symbol`."""
    symbol: str = op.attributes["symbol"]
    name = plain_name(symbol)
    kind, dtype = scalar_kind(op), dtype_of(op.result.type)
    if name in FLOAT:
        return [evaluate(FLOAT[name], args, kind.kind)]
    if name in EXACT:
        return [_exact(EXACT[name], args, kind)]
    if name in TO_INTEGER:
        made = np.asarray(TO_INTEGER[name](narrow.widen(args[0])))
        return [narrow.to_integer(made, dtype, unsigned=False) if made.dtype.kind == "f" else made.astype(dtype)]
    if name in INTEGER:
        return [_on_integers(name, args, dtype)]
    if name in BITS:
        return [from_bits(bits_of(args[0]), dtype)]
    if name == "fma":
        return [narrow.fma(args[0], args[1], args[2], kind.kind)]
    other = _halves(name, args)
    if other is None:
        other = rounded_by_name(symbol.removeprefix("__nv_"), args, dtype)
    if other is None:
        raise UnsupportedOp(f"the function {symbol!r} at {where(op.loc)} has no meaning in the reference")
    return [other]


def _exact(function: Function, args: tuple[Array, ...], kind: Scalar) -> Array:
    wide = tuple(a if a.dtype.kind in "biu" else narrow.widen(a) for a in args)
    return narrow.narrow(np.asarray(function(*wide)).astype(narrow.computing(kind.kind)), kind.kind)
