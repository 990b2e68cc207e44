"""Helpers of these tests: run one op by its meaning, and exact rounding by Python's fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from omnikernel.ir.tile import Block, Function, Kernel, Op, Region, Value
from omnikernel.ir.types import Pointer, Scalar, Tensor, Type
from omnikernel.reference import Interpreter
from omnikernel.reference.registry import DTYPES, Leave

# kind: (significand bits, least exponent of a normal, largest finite, fp8 that saturates)
FORMATS = {
    "f64": (53, -1022, float(np.finfo(np.float64).max)),
    "f32": (24, -126, float(np.finfo(np.float32).max)),
    "f16": (11, -14, 65504.0),
    "bf16": (8, -126, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)),
    "f8E5M2": (3, -14, 57344.0),
    "f8E4M3FN": (4, -6, 448.0),
}


def typed(kind: str, shape: Sequence[int] = ()) -> Type:
    element = Pointer(Scalar(kind[1:])) if kind.startswith("*") else Scalar(kind)
    return Tensor(tuple(shape), element) if len(shape) else element


def apply(
    name: str,
    args: Sequence[Any],
    kinds: Sequence[str],
    result: str,
    shape: Sequence[int] | None = None,
    **attributes: Any,
) -> Any:
    """Run one op on arrays; kinds are `f32`, `i8`, `*f32` (pointer) ... Returns the array of its only result."""
    (made,) = apply_many(name, args, kinds, [result], shape, **attributes)
    return made


def apply_many(
    name: str,
    args: Sequence[Any],
    kinds: Sequence[str],
    results: Sequence[str],
    shape: Sequence[int] | None = None,
    **attributes: Any,
) -> list[Any]:
    arrays = [np.asarray(a, np.int64 if k.startswith("*") else DTYPES[k]) for a, k in zip(args, kinds, strict=True)]
    operands = tuple(Value(f"a{i}", typed(k, a.shape)) for i, (a, k) in enumerate(zip(arrays, kinds, strict=True)))
    if shape is None:
        shape = np.broadcast_shapes(*(a.shape for a in arrays)) if arrays else ()
    made = tuple(Value(f"r{i}", typed(kind, shape)) for i, kind in enumerate(results))
    op = Op(name, operands, made, attributes)
    machine = Interpreter(empty_kernel(), (1, 1, 1))
    machine.frames.append(dict(zip(operands, arrays, strict=True)))
    with np.errstate(all="ignore"):
        assert machine.run_op(op, free=False) is None
    return [machine.frames[-1][value] for value in made]


def empty_kernel() -> Kernel:
    body = Region((Block("entry", (), (Op("tt.return"),)),))
    return Kernel((Function("k", (), (), body),))


def run_values(ops: Sequence[Op], wanted: Sequence[Value]) -> tuple[Any, ...]:
    """Run ops in one program and return the arrays of some values."""
    machine = Interpreter(empty_kernel(), (1, 1, 1))
    machine.frames.append({})
    with np.errstate(all="ignore"):
        outcome = machine.run_region(Region((Block("entry", (), (*ops, Op("tt.return", tuple(wanted)))),)), ())
    assert isinstance(outcome, Leave)
    return outcome.values


def round_exact(value: Fraction, kind: str, *, toward_zero: bool = False) -> float:
    """The value of a kind nearest to an exact number (ties to even), or the next toward zero. Zero loses its sign."""
    precision, least, largest = FORMATS[kind]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, least) - precision + 1)
    units = size / step
    whole = math.floor(units)
    rest = units - whole
    if not toward_zero and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)):
        whole += 1
    rounded = whole * step
    if rounded > Fraction(largest):
        rounded_float = largest if toward_zero or kind.startswith("f8") else math.inf
    else:
        rounded_float = float(rounded)
    return rounded_float if value > 0 else -rounded_float


def same(a: Any, b: Any) -> bool:
    """Bit for bit, any NaN equal to any NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "biu":
        return bool((a == b).all())
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return bool(((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))).all())


def edge_floats(kind: str, rng: np.random.Generator, count: int = 200) -> Any:
    """Random values over the whole exponent range of a kind, after its edge values."""
    dtype = DTYPES[kind]
    random = rng.integers(0, 1 << (8 * dtype.itemsize), count, dtype=np.dtype(f"u{dtype.itemsize}")).view(dtype)
    small = rng.normal(size=count).astype(np.float32).astype(dtype)
    tiny, top = ml_dtypes.finfo(dtype).smallest_subnormal, ml_dtypes.finfo(dtype).max
    edges = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, tiny, -tiny, top, -top, 0.5, 1.5, 2.5], dtype)
    return np.concatenate([edges, random, small])


def edge_integers(kind: str, rng: np.random.Generator, count: int = 200) -> Any:
    if kind == "i1":
        return rng.integers(0, 2, count).astype(bool)
    info = np.iinfo(DTYPES[kind])
    edges = np.array([0, 1, -1, 2, -2, 3, 7, info.min, info.max, info.min + 1, info.max - 1], DTYPES[kind])
    return np.concatenate(
        [
            edges,
            rng.integers(info.min, info.max, count, DTYPES[kind], endpoint=True),
            rng.integers(-9, 9, count).astype(DTYPES[kind]),
        ]
    )
