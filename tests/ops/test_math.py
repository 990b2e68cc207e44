"""Every row of the table of math functions against its reference, within the stated bound, on every target."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from elementwise_jit import DTYPES, LIBM, TARGETS, externals, run, same_bits
from exact_rounding import to_format
from math_reference import check, mp_function

from omnikernel.errors import UnsupportedOp
from omnikernel.lower.math import MATH

INF, NAN = math.inf, math.nan
SPECIAL = [
    0.0,
    -0.0,
    INF,
    -INF,
    NAN,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    1.5,
    3.0,
    -3.0,
    1e10,
    -1e10,
    1e30,
    5e-324,
    -5e-324,
]
SPECIAL += [
    1e-45,
    -1e-45,
    1e-40,
    2.0**-126,
    2.0**-1022,
    1e-310,
    3.4e38,
    -3.4e38,
    1.7e308,
    1e-20,
    -1e-20,
    88.7228,
    88.73,
]
SPECIAL += [
    -87.33,
    -103.9,
    -103.98,
    709.78,
    709.79,
    -745.13,
    -745.14,
    127.99,
    128.0,
    -149.0,
    -150.0,
    1023.9,
    1024.0,
    -1075.0,
]

# Dense sweeps beyond the random bits: (low, high) of a linear grid.
RANGES: dict[str, tuple[float, float]] = {
    "exp": (-104, 89),
    "exp2": (-150, 129),
    "exp10": (-45, 39),
    "expm1": (-20, 89),
    "log": (0, 4),
    "log2": (0, 4),
    "log10": (0, 4),
    "log1p": (-1, 3),
    "sin": (-300, 300),
    "cos": (-300, 300),
    "tan": (-300, 300),
    "erf": (-5, 5),
    "erfc": (-4, 10.5),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atanh": (-1, 1),
    "acosh": (1, 9),
    "tgamma": (-10, 35),
    "lgamma": (0.1, 100),
}


def _fdim(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x) | np.isnan(y), NAN, np.where(x > y, x - y, 0))


def _hypot(*parts: np.ndarray) -> np.ndarray:
    infinite = np.any([np.isinf(p) for p in parts], axis=0)
    return np.where(infinite, INF, np.sqrt(sum(p * p for p in parts)))


def _round(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole), x)


# References in long double. Where there is none in NumPy, mpmath's at fewer points.
ONE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "frsqrt_rn": lambda x: 1 / np.sqrt(x),
    "exp10": lambda x: np.power(np.longdouble(10), x),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": _round,
    "fabs": np.abs,
    "saturate": lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1) + 0.0),
}
SLOW: dict[str, Callable[..., np.ndarray]] = {
    "erf": lambda x: np.copysign(mp_function(mpmath.erf)(x), x),
    "erfc": lambda x: mp_function(mpmath.erfc)(np.clip(x, -30, 30)),
    "sinpi": mp_function(mpmath.sinpi),
    "cospi": mp_function(mpmath.cospi),
}
TWO: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "fmod": np.fmod,
    "copysign": np.copysign,
    "fdim": _fdim,
    "fdividef": np.divide,
}


def _erfcx(x: Any) -> Any:
    if x < 200:
        return mpmath.exp(x * x) * mpmath.erfc(x)
    return (1 - 1 / (2 * x**2) + 3 / (4 * x**4) - 15 / (8 * x**6)) / (x * mpmath.sqrt(mpmath.pi))


def _inverse_erfc(x: Any) -> Any:
    """By Newton's method on log(erfc), in the tail that holds x."""
    if not 0 < x < 2:
        raise ValueError
    if x > 1:
        return -_inverse_erfc(2 - x)
    if x > 0.9:
        return mpmath.erfinv(1 - x)
    y = mpmath.sqrt(-mpmath.log(x) - mpmath.log(-mpmath.log(x) + 1) / 2) if x < 0.1 else 1 - x
    for _ in range(9):
        tail = mpmath.erfc(y)
        y += mpmath.log(tail / x) * tail * mpmath.exp(y * y) * mpmath.sqrt(mpmath.pi) / 2
    return y


def _inverse_erf(x: Any) -> Any:
    return mpmath.erfinv(x) if abs(x) < 0.1 else mpmath.sign(x) * _inverse_erfc(1 - abs(x))


# Functions that mpmath evaluates slowly: at points of their own, special values by hand.
RARE: dict[str, tuple[Callable[..., Any], dict[str, np.ndarray], list[tuple[float, float]]]] = {
    "erfcx": (
        _erfcx,
        {
            "f32": np.concatenate([np.linspace(-9.3, 20, 900), 10.0 ** np.arange(-30, 37)]),
            "f64": np.concatenate([np.linspace(-26.6, 40, 900), 10.0 ** np.arange(-300, 300, 7)]),
        },
        [(INF, 0.0), (-INF, INF), (-30.0, INF), (NAN, NAN)],
    ),
    "normcdf": (
        lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
        {"f32": np.linspace(-14, 7, 900), "f64": np.linspace(-38, 9, 900)},
        [(INF, 1.0), (-INF, 0.0), (-50.0, 0.0), (0.0, 0.5), (NAN, NAN)],
    ),
    "erfinv": (
        _inverse_erf,
        dict.fromkeys(
            ("f32", "f64"),
            np.concatenate(
                [np.linspace(-0.9999, 0.9999, 500), 1 - 2.0 ** -np.arange(5, 23), 10.0 ** -np.arange(1, 38)]
            ),
        ),
        [(1.0, INF), (-1.0, -INF), (1.5, NAN), (-2.0, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (NAN, NAN)],
    ),
    "erfcinv": (
        _inverse_erfc,
        {
            "f32": np.concatenate([np.linspace(0.001, 1.999, 500), 10.0 ** -np.arange(1, 45)]),
            "f64": np.concatenate([np.linspace(0.001, 1.999, 500), 10.0 ** -np.arange(1, 308, 3)]),
        },
        [(0.0, INF), (2.0, -INF), (3.0, NAN), (-1.0, NAN), (1.0, 0.0), (NAN, NAN)],
    ),
    "normcdfinv": (
        lambda x: -mpmath.sqrt(2) * _inverse_erfc(2 * x),
        {
            "f32": np.concatenate([np.linspace(0.001, 0.999, 500), 10.0 ** -np.arange(1, 45)]),
            "f64": np.concatenate([np.linspace(0.001, 0.999, 500), 10.0 ** -np.arange(1, 308, 3)]),
        },
        [(0.0, -INF), (1.0, INF), (2.0, NAN), (-1.0, NAN), (NAN, NAN)],
    ),
    "cyl_bessel_i0": (
        lambda x: mpmath.besseli(0, x),
        {
            "f32": np.linspace(-89, 89, 500),
            "f64": np.concatenate([np.linspace(-30, 30, 500), np.linspace(30, 712, 100)]),
        },
        [(0.0, 1.0), (INF, INF), (-INF, INF), (1e30, INF), (NAN, NAN)],
    ),
    "cyl_bessel_i1": (
        lambda x: mpmath.besseli(1, x),
        {
            "f32": np.linspace(-89, 89, 500),
            "f64": np.concatenate([np.linspace(-30, 30, 500), np.linspace(30, 712, 100)]),
        },
        [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (-1e30, -INF), (NAN, NAN)],
    ),
}


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in RARE for k in MATH[n].emit])
def test_rare(name: str, kind: str) -> None:
    function, grids, special = RARE[name]
    grid = grids[kind].astype(DTYPES[kind])
    x = np.concatenate([grid, np.array([at for at, _ in special], DTYPES[kind])])
    with np.errstate(all="ignore"):
        exact = np.concatenate([mp_function(function)(grid), np.array([value for _, value in special], np.longdouble)])
    for target in TARGETS:
        check(name, kind, [x], exact, target, 8)


def points(name: str, kind: str, count: int) -> np.ndarray:
    """A linear grid, random bits and special values."""
    rng = np.random.default_rng(len(name))
    low, high = RANGES.get(name, (-10.0, 10.0))
    dtype = DTYPES[kind]
    with np.errstate(all="ignore"):
        raw = rng.integers(0, 256, count // 2 * dtype.itemsize).astype(np.uint8).view(dtype)
        small = (rng.standard_normal(count // 8) * 2.0 ** rng.integers(-30, 1, count // 8)).astype(dtype)
        grid = np.linspace(low, high, count // 2).astype(dtype)
        wide = np.linspace(low * 8, high * 8, count // 8).astype(dtype) if kind == "f64" else grid[:0]
        return np.concatenate([grid, raw, small, wide, np.array(SPECIAL).astype(dtype)])


CASES = [(n, k) for n in ONE for k in MATH[n].emit]


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in (*ONE, *SLOW, *RARE) for k in MATH[n].emit])
def test_a_value_does_not_depend_on_its_neighbours(name: str, kind: str) -> None:
    symbol = f"__nv_{name}{'f' if kind == 'f32' else ''}"
    x = points(name, kind, 800)
    order = np.random.default_rng(3).permutation(x.size)
    (straight,) = run("tt.extern_elementwise", [x], [kind], 8, "host", symbol=symbol)
    for lanes in (8, 0, 2, 32):  # alone, and among fewer and more than a register holds
        (mixed,) = run("tt.extern_elementwise", [x[order]], [kind], lanes, "host", symbol=symbol)
        same_bits(mixed, straight[order])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_one_operand(name: str, kind: str, target: str) -> None:
    x = points(name, kind, 100_000 if target == "host" else 20_000)
    with np.errstate(all="ignore"):
        exact = ONE[name](x.astype(np.longdouble))
    for lanes in (16, 0) if target == "host" else (8,):
        check(name, kind, [x], exact, target, lanes)


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in SLOW for k in MATH[n].emit])
def test_one_operand_by_mpmath(name: str, kind: str) -> None:
    x = points(name, kind, 3000)
    exact = SLOW[name](x)
    for target in TARGETS:
        check(name, kind, [x], exact, target, 16)


def pairs(kind: str, count: int = 20_000) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    dtype = DTYPES[kind]
    with np.errstate(all="ignore"):
        special = [m.ravel().astype(dtype) for m in np.meshgrid(SPECIAL[:20], SPECIAL[:20])]
        raw = [rng.integers(0, 256, count * dtype.itemsize).astype(np.uint8).view(dtype) for _ in range(2)]
        near = [(rng.standard_normal(count) * 2.0 ** rng.integers(-6, 7, count)).astype(dtype) for _ in range(2)]
        whole = [rng.integers(-9, 10, count).astype(dtype) for _ in range(2)]
    return [np.concatenate(parts) for parts in zip(special, raw, near, whole, strict=True)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in TWO for k in MATH[n].emit])
def test_two_operands(name: str, kind: str, target: str) -> None:
    inputs = pairs(kind)
    with np.errstate(all="ignore"):
        exact = TWO[name](*(x.astype(np.longdouble) for x in inputs))
    check(name, kind, inputs, exact, target, 8)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sin", "cos", "rsqrt", "floor", "ceil", "erf"])
def test_narrow(name: str, kind: str) -> None:
    """f32 accuracy, then one rounding: the correctly rounded result but for near ties. Every value of the type."""
    x = np.arange(65536, dtype=np.uint32).astype(np.uint16).view(DTYPES[kind])
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble)
        exact = np.array([math.erf(v) for v in x.astype(float)]) if name == "erf" else ONE[name](wide)
        want = to_format(exact, kind)
    (got,) = run(f"math.{name}", [x], [kind])
    same = got.view(np.uint16) == want.view(np.uint16)
    same |= np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32))
    assert np.mean(~same) < 0.001
    assert np.all(np.abs(got.view(np.int16)[~same].astype(int) - want.view(np.int16)[~same]) <= 1)


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sin", "cos", "rsqrt", "erf", "floor", "ceil"])
def test_math_ops_are_the_rows(name: str) -> None:
    for kind in ("f32", "f64"):
        x = points(name, kind, 500)
        for lanes in (0, 1, 4, 16, 32):
            (op,) = run(f"math.{name}", [x], [kind], lanes)
            symbol = f"__nv_{name}{'f' if kind == 'f32' else ''}"
            (extern,) = run("tt.extern_elementwise", [x], [kind], lanes, symbol=symbol)
            same_bits(op, extern)


@pytest.mark.parametrize("target", TARGETS)
def test_only_the_c_librarys_functions_are_called(target: str) -> None:
    arity = {"pow": 2, "fma": 3, "norm3d": 3, "rnorm3d": 3, "norm4d": 4, "rnorm4d": 4}
    two = {*TWO, "nextafter", "remainder", "fmax", "fmin"}
    for name in [
        *ONE,
        *SLOW,
        *TWO,
        "fma",
        "nextafter",
        "remainder",
        "fmax",
        "fmin",
        "norm3d",
        "norm4d",
        "lgamma",
        "tgamma",
    ]:
        for kind in MATH[name].emit:
            count = arity.get(name, 2 if name in two else 1)
            symbol = f"__nv_{name}{'f' if kind == 'f32' else ''}"
            assert externals("tt.extern_elementwise", [kind] * count, [kind], 8, target, symbol=symbol) <= LIBM, name


def test_huge_angles() -> None:
    """One huge lane among ordinary ones takes the exact path, and spoils no other."""
    for kind in ("f32", "f64"):
        x = np.array([1e22, 1.0, -2.5, 3e7, 0.1, INF, NAN, 1e30] * 4, DTYPES[kind])
        with np.errstate(all="ignore"):
            for name, function in (("sin", mpmath.sin), ("cos", mpmath.cos)):
                check(name, kind, [x], mp_function(function)(x), "host", 16)


def test_unknown_symbol_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="'__nv_nonsense'"):
        run("tt.extern_elementwise", [np.ones(4, np.float32)], ["f32"], symbol="__nv_nonsense")


def test_wrong_type_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="popc of f32"):
        run("tt.extern_elementwise", [np.ones(4, np.float32)], ["i32"], symbol="__nv_popc")


def test_page_is_up_to_date() -> None:
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, str(root / "tools" / "math_table.py"), "--check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
