"""Float arithmetic, comparisons, min and max, and conversions. One rounding to the type an op.

f16, bf16 and fp8 are computed in f32 and rounded to nearest even after each op; f32 and f64 in themselves. Which NaN
an op gives is not defined.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.tile import Op
from . import narrow
from .integers import COMPARE
from .registry import Array, Machine, Outcome, bits_of, constant, dtype_of, from_bits, means, scalar_kind

Binary = Callable[[Array, Array], Array]


def _rounded(*names: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """Register a function of wide arrays as the meaning of ops whose result is rounded to the result type."""

    def register(function: Callable[..., Array]) -> Callable[..., Array]:
        def meaning(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
            wide = [narrow.widen(a) for a in args]
            return [narrow.narrow(np.asarray(function(*wide)), scalar_kind(op).kind)]

        means(*names)(meaning)
        return function

    return register


_rounded("arith.addf")(np.add)
_rounded("arith.subf")(np.subtract)
_rounded("arith.mulf")(np.multiply)
_rounded("arith.divf", "tt.precise_divf")(np.divide)
_rounded("arith.remf")(np.fmod)
_rounded("math.floor")(np.floor)
_rounded("math.ceil")(np.ceil)
_rounded("math.sqrt", "tt.precise_sqrt")(np.sqrt)


def _choose(first_wins: Binary, a: Array, b: Array) -> Array:
    """a where it wins, else b; of two zeros of unlike sign, the order -0 < +0 decides."""
    tie = (a == b) & np.signbit(a) & ~np.signbit(b)
    first = ~tie if first_wins is np.greater else tie
    return np.where(np.where(a == b, first, first_wins(a, b)), a, b)


def _skip_nan(first_wins: Binary) -> Binary:
    def choose(a: Array, b: Array) -> Array:
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, _choose(first_wins, a, b)))

    return choose


def _keep_nan(first_wins: Binary) -> Binary:
    def choose(a: Array, b: Array) -> Array:
        return np.where(np.isnan(a), a, np.where(np.isnan(b), b, _choose(first_wins, a, b)))

    return choose


maxnum, minnum = _skip_nan(np.greater), _skip_nan(np.less)
maximum, minimum = _keep_nan(np.greater), _keep_nan(np.less)
_rounded("arith.maxnumf")(maxnum)
_rounded("arith.minnumf")(minnum)
_rounded("arith.maximumf")(maximum)
_rounded("arith.minimumf")(minimum)


@means("arith.negf", "math.absf")
def sign_bit(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """Flips or clears the sign bit, also of NaN."""
    (value,) = args
    bits = bits_of(value)
    top = bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    made = bits ^ top if op.name == "arith.negf" else bits & ~top
    if scalar_kind(op).kind.endswith("FNUZ"):  # no -0: those bits are the NaN
        made = np.where((bits & ~top) == 0, bits, made)
    return [from_bits(made, value.dtype)]


@means("tt.clampf")
def clampf(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """min(max(x, low), high); where NaN is not propagated, NaN gives the lower bound, or the one that `nan` says."""
    value, low, high = (narrow.widen(a) for a in args)
    propagate = op.attributes.get("propagateNan", "none")
    if propagate == "all":
        made = minimum(maximum(value, low), high)
    elif propagate == "none" and op.attributes.get("nan") == "high":
        made = maxnum(minnum(value, high), low)
    elif propagate == "none":
        made = minnum(maxnum(value, low), high)
    else:
        raise ValueError(f"tt.clampf with propagateNan {propagate!r} at {op.loc}: expected none or all")
    return [narrow.narrow(made, scalar_kind(op).kind)]


@means("arith.cmpf")
def cmpf(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """Ordered predicates are false on NaN, unordered ones true."""
    a, b = (narrow.widen(x) for x in args)
    predicate: str = op.attributes["predicate"]
    unordered = np.isnan(a) | np.isnan(b)
    if predicate in ("false", "true"):
        return [np.full(unordered.shape, predicate == "true")]
    if predicate in ("ord", "uno"):
        return [unordered if predicate == "uno" else ~unordered]
    made = COMPARE[predicate[1:]](a, b)
    return [made | unordered if predicate[0] == "u" else made & ~unordered]


@means("arith.select")
def select(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    condition, yes, no = args
    return [np.where(condition, yes, no)]


@means("math.fma")
def fused(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    a, b, c = args
    return [narrow.fma(a, b, c, scalar_kind(op).kind)]


@means("arith.extf", "arith.truncf", "tt.fp_to_fp")
def convert(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """Exact where it widens; else to nearest even, or toward zero where the attribute says so."""
    (value,) = args
    rounding = op.attributes.get("roundingmode") or op.attributes.get("rounding") or "rtne"
    kind = scalar_kind(op).kind
    wide = narrow.widen(value)
    if rounding in ("rtne", "to_nearest_even"):
        return [narrow.narrow(wide, kind)]
    if rounding in ("rtz", "toward_zero"):
        return [narrow.narrow_toward_zero(wide, kind)]
    raise ValueError(f"{op.name} with rounding {rounding!r} at {op.loc}: expected rtne or rtz")


@means("arith.sitofp", "arith.uitofp")
def from_integer(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [narrow.from_integer(args[0], scalar_kind(op).kind, unsigned=op.name == "arith.uitofp")]


@means("arith.fptosi", "arith.fptoui")
def to_integer(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [narrow.to_integer(args[0], dtype_of(op.result.type), unsigned=op.name == "arith.fptoui")]


@means("arith.constant")
def literal(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """A splat stays a 0-d array; the interpreter gives it its shape."""
    made = constant(op.attributes["value"])
    return [made if made.ndim == 0 else made.reshape(getattr(op.result.type, "shape", ()))]


@means("ub.poison")
def poison(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [np.zeros((), dtype_of(op.result.type))]
