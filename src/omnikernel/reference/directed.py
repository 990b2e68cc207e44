"""Arithmetic and conversions with an explicit rounding: to nearest, toward zero, down or up.

The nearest result is computed first; where the exact one, a fraction, lies on the wrong side of it, the neighbour is
taken. Slow, and plain.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from . import narrow
from .registry import Array, bits_of

Exact = Callable[..., Fraction]


def _error_sign(exact: Exact, nearest: Array, args: tuple[Array, ...]) -> Array:
    """The sign of exact - nearest; 0 where an operand is no finite number or nothing is exact."""

    def one(value: Any, *operands: Any) -> int:
        numbers = [float(o) if isinstance(o, float | np.floating) else int(o) for o in operands]
        if any(isinstance(n, float) and not math.isfinite(n) for n in numbers) or math.isnan(float(value)):
            return 0
        if math.isinf(float(value)):
            try:
                exact(*map(Fraction, numbers))
            except ZeroDivisionError:
                return 0
            return -1 if value > 0 else 1
        difference = exact(*map(Fraction, numbers)) - Fraction(float(value))
        return (difference > 0) - (difference < 0)

    return np.asarray(np.frompyfunc(one, 1 + len(args), 1)(nearest, *args)).astype(np.int8)


def step(nearest: Array, error: Array, mode: str) -> Array:
    """The result of a rounding mode, from the nearest value and the sign of the exact one's distance from it."""
    down = (error < 0) & (mode == "rd" or (mode == "rz") & (nearest > 0))
    up = (error > 0) & (mode == "ru" or (mode == "rz") & (nearest < 0))
    low, high = (np.nextafter(nearest, nearest.dtype.type(end)) for end in (-np.inf, np.inf))
    return np.where(down, low, np.where(up, high, nearest))


ARITHMETIC: dict[str, tuple[Callable[..., Array], Exact]] = {
    "add": (np.add, lambda a, b: a + b),
    "sub": (np.subtract, lambda a, b: a - b),
    "mul": (np.multiply, lambda a, b: a * b),
    "div": (np.divide, lambda a, b: a / b),
    "rcp": (np.reciprocal, lambda a: 1 / a),
}
ROUND: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_CONVERSION = re.compile(r"(float|double)2(int|uint|ll|ull)_(r.)")
_FROM_INTEGER = re.compile(r"(int|uint|ll|ull)2(float|double)_(r.)")
_ARITHMETIC = re.compile(r"[fd](add|sub|mul|div|rcp|sqrt)_(r.)")
_FMA = re.compile(r"fmaf?_(r.)")


def rounded_by_name(name: str, args: tuple[Array, ...], dtype: np.dtype[Any]) -> Array | None:
    """The function of a libdevice name such as `fadd_rd` or `float2int_rz`; None where the name is none of these."""
    if match := _CONVERSION.fullmatch(name):
        return narrow.to_integer(ROUND[match[3]](args[0]), dtype, unsigned=match[2].startswith("u"))
    if match := _FROM_INTEGER.fullmatch(name):
        whole = bits_of(args[0]) if match[1].startswith("u") else args[0]
        nearest = whole.astype(dtype)
        return step(nearest, _error_sign(lambda a: a, nearest, (whole,)), match[3])
    if name.startswith("double2float_"):
        nearest = args[0].astype(np.float32)
        return step(nearest, _error_sign(lambda a: a, nearest, args), name[-2:])
    if match := _FMA.fullmatch(name):
        a, b, c = args
        nearest = narrow.fma(a, b, c, "f64" if dtype == np.float64 else "f32")
        made = step(nearest, _error_sign(lambda x, y, z: x * y + z, nearest, args), match[1])
        return _zero_down(made, np.signbit(a) ^ np.signbit(b), np.signbit(c), match[1])
    if match := _ARITHMETIC.fullmatch(name):
        return _arithmetic(match[1], match[2], args)
    return None


def _arithmetic(name: str, mode: str, args: tuple[Array, ...]) -> Array:
    if name == "sqrt":
        nearest = np.sqrt(args[0])
        return step(nearest, _root_error(nearest, args[0]), mode)
    function, exact = ARITHMETIC[name]
    nearest = np.asarray(function(*args))
    made = step(nearest, _error_sign(exact, nearest, args), mode)
    if name in ("add", "sub"):
        second = np.signbit(args[1]) ^ (name == "sub")
        return _zero_down(made, np.signbit(args[0]), second, mode)
    return made


def _root_error(nearest: Array, value: Array) -> Array:
    def one(root: Any, square: Any) -> int:
        if not math.isfinite(square) or square <= 0:
            return 0
        difference = Fraction(float(square)) - Fraction(float(root)) ** 2
        return (difference > 0) - (difference < 0)

    return np.asarray(np.frompyfunc(one, 2, 1)(nearest, value)).astype(np.int8)


def _zero_down(made: Array, first: Array, second: Array, mode: str) -> Array:
    """A sum that is exactly 0 is -0 when rounding down, unless both terms are +0 or above."""
    negative = (made == 0) & (first | second)
    return np.where(negative, made.dtype.type(-0.0), made) if mode == "rd" else made
