"""libdevice's arithmetic and conversions with an explicit rounding, against fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from elementwise_jit import DTYPES, TARGETS, run, same_bits
from exact_rounding import fraction_to_format

INF, NAN = math.inf, math.nan
MODES = ("rn", "rz", "rd", "ru")


def values(kind: str, count: int = 400, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    dtype = DTYPES[kind]
    with np.errstate(all="ignore"):
        raw = rng.integers(0, 256, count * dtype.itemsize).astype(np.uint8).view(dtype)
        near = (rng.standard_normal(count) * 2.0 ** rng.integers(-30, 30, count)).astype(dtype)
        whole = rng.integers(-20, 21, count).astype(dtype)
        top, small = float(np.finfo(dtype).max), float(np.finfo(dtype).smallest_subnormal)
        edges = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, top, -top, small, -small, 3.0, 1e-30, 7e30, top / 2, 2 * small]
        return np.concatenate([np.array(edges * 16, np.float64).astype(dtype), raw, near, whole])


def directed(nearest: float, compare: Callable[[float], int], mode: str, dtype: np.dtype) -> float:
    """The neighbour that the mode asks for. `compare(y)` is the sign of (exact - y)."""
    if mode == "rn":
        return nearest
    side = compare(nearest)
    if side > 0 and (mode == "ru" or (mode == "rz" and nearest < 0)):
        return float(np.nextafter(dtype.type(nearest), dtype.type(INF)))
    if side < 0 and (mode == "rd" or (mode == "rz" and nearest > 0)):
        return float(np.nextafter(dtype.type(nearest), dtype.type(-INF)))
    return nearest


def rounded(exact: Fraction, kind: str, mode: str, negative_zero: bool) -> float:
    def compare(y: float) -> int:
        if math.isinf(y):
            return -1 if y > 0 else 1
        return (exact > Fraction(y)) - (exact < Fraction(y))

    nearest = fraction_to_format(exact, kind)
    if exact == 0 or nearest == 0:
        nearest = -0.0 if negative_zero else 0.0
    return directed(nearest, compare, mode, DTYPES[kind])


def sum_sign(x: float, y: float, mode: str) -> bool:
    """Whether an exact zero sum is -0."""
    both = math.copysign(1, x) < 0, math.copysign(1, y) < 0
    return any(both) if mode == "rd" else all(both)


def wanted(op: str, row: tuple[float, ...], kind: str, mode: str) -> float:
    x, y = row[0], row[1] if len(row) > 1 else 1.0
    if op == "rcp":
        op, x, y = "div", 1.0, row[0]
    if op == "sub":
        op, y = "add", -y
    plain = {"add": lambda: np.float64(x) + y, "mul": lambda: np.float64(x) * y, "div": lambda: np.float64(x) / y}
    if op == "fma":
        if math.isinf(row[2]) and math.isfinite(x) and math.isfinite(y):
            return row[2]  # the product is finite before it is rounded
        if not all(map(math.isfinite, row)):
            return float(np.float64(x) * y + row[2])
        exact = Fraction(x) * Fraction(y) + Fraction(row[2])
        minus = sum_sign(math.copysign(1, x) * math.copysign(1, y), row[2], mode) if exact == 0 else exact < 0
        return rounded(exact, kind, mode, minus)
    if op == "sqrt":
        if not (x > 0 and math.isfinite(x)):
            return float(np.sqrt(np.float64(x)))
        root = Fraction(math.isqrt(int(Fraction(x) * 4**1200)), 2**1200)  # floor to 1200 bits
        exact_root = root * root == Fraction(x)
        nearest = fraction_to_format(root if exact_root else root + Fraction(1, 2**1201), kind)
        return directed(
            nearest, lambda g: (Fraction(x) > Fraction(g) ** 2) - (Fraction(x) < Fraction(g) ** 2), mode, DTYPES[kind]
        )
    if not (math.isfinite(x) and math.isfinite(y)) or (op == "div" and y == 0):
        return float(plain[op]())
    exact = {"add": Fraction.__add__, "mul": Fraction.__mul__, "div": Fraction.__truediv__}[op](
        Fraction(x), Fraction(y)
    )
    if op == "add":
        minus = sum_sign(x, y, mode) if exact == 0 else exact < 0
    else:
        minus = math.copysign(1, x) * math.copysign(1, y) < 0
    return rounded(exact, kind, mode, minus)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    ("op", "count"), [("add", 2), ("sub", 2), ("mul", 2), ("div", 2), ("rcp", 1), ("sqrt", 1), ("fma", 3)]
)
def test_arithmetic(op: str, count: int, kind: str, target: str) -> None:
    columns = [np.random.default_rng(i).permutation(values(kind, seed=i)) for i in range(count)]
    letter = "f" if kind == "f32" else "d"
    for mode in MODES:
        symbol = f"__nv_{letter}{op}_{mode}" if op != "fma" else f"__nv_fma{'f' if kind == 'f32' else ''}_{mode}"
        with np.errstate(all="ignore"):
            want = [wanted(op, tuple(map(float, row)), kind, mode) for row in zip(*columns, strict=True)]
            for lanes in (0, 8):
                (got,) = run("tt.extern_elementwise", columns, [kind], lanes, target, symbol=symbol)
                same_bits(got, np.array(want).astype(DTYPES[kind]))


def integers(kind: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    bits = 32 if kind == "i32" else 64
    top = 1 << (bits - 1)
    shifted = rng.integers(-top, top, 600) >> rng.integers(0, bits, 600)
    near = [(1 << k) + d for k in range(bits - 1) for d in (-1, 0, 1)]
    return np.array([*shifted.tolist(), *near, *(-n for n in near), 0, top - 1, -top], DTYPES[kind])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", MODES)
def test_from_integers(mode: str, target: str) -> None:
    for name, kind in (("int", "i32"), ("ll", "i64")):
        x = integers(kind)
        for prefix in ("", "u"):
            exact = [int(v) for v in (x.view(f"u{x.dtype.itemsize}") if prefix else x)]
            for to, result in (("float", "f32"), ("double", "f64")):
                want = np.array([rounded(Fraction(v), result, mode, False) for v in exact]).astype(DTYPES[result])
                symbol = f"__nv_{prefix}{name}2{to}_{mode}"
                (got,) = run("tt.extern_elementwise", [x], [result], 8, target, symbol=symbol)
                same_bits(got, want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", MODES)
def test_to_integers(mode: str, target: str) -> None:
    whole = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}[mode]
    for name, kind in (("float", "f32"), ("double", "f64")):
        x = np.concatenate([values(kind), (np.arange(-400, 400) / 4).astype(DTYPES[kind])])
        for to, result, bits in (("int", "i32", 32), ("ll", "i64", 64)):
            for prefix in ("", "u"):
                low, high = (0, (1 << bits) - 1) if prefix else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
                exact = [
                    0 if math.isnan(v) else low if v < low else high if v > high else int(v) for v in whole(x).tolist()
                ]
                want = (
                    np.array([v % (1 << bits) for v in exact], np.uint64).astype(f"u{bits // 8}").view(DTYPES[result])
                )
                symbol = f"__nv_{name}2{prefix}{to}_{mode}"
                (got,) = run("tt.extern_elementwise", [x], [result], 8, target, symbol=symbol)
                same_bits(got, want)


@pytest.mark.parametrize("mode", MODES)
def test_double_to_float(mode: str) -> None:
    x = values("f64")
    finite = np.isfinite(x)
    with np.errstate(all="ignore"):
        want = [
            rounded(Fraction(float(v)), "f32", mode, math.copysign(1, v) < 0) if ok else float(v)
            for v, ok in zip(x, finite, strict=True)
        ]
        (got,) = run("tt.extern_elementwise", [x], ["f32"], 8, symbol=f"__nv_double2float_{mode}")
        same_bits(got, np.array(want).astype(np.float32))


def hard_sums(kind: str) -> list[np.ndarray]:
    """Products that a term nearly cancels, lies far below or far above, or meets among subnormal numbers."""
    rng = np.random.default_rng(5)
    dtype, count = DTYPES[kind], 160
    lowest = math.log2(float(np.finfo(dtype).smallest_subnormal))
    exponents = {"f32": 120, "f64": 1000}[kind]
    x = rng.uniform(1, 2, 5 * count) * rng.choice([-1, 1], 5 * count)
    y, z = rng.uniform(1, 2, 5 * count), np.zeros(5 * count)
    power = rng.integers(-exponents // 2, exponents // 2, 5 * count).astype(float)
    x[:count] = np.round(x[:count] * 64) / 64  # with few bits, so that sums are exact at times
    y[:count] = np.round(y[:count] * 64) / 64
    x, y = x.astype(dtype), y.astype(dtype)
    product = (x * y).astype(dtype)
    z[:count] = -product[:count]
    z[count : 2 * count] = np.nextafter(-product[count : 2 * count], 0)
    gaps = rng.choice([-170, -112, -111, -110, -109, -54, -53, 53, 54, 109, 110, 111, 112, 160], count)
    if kind == "f32":
        gaps = gaps // 4
    z[2 * count : 3 * count] = rng.choice([-1.0, 1.0, 1.5], count) * 2.0**gaps
    power[3 * count :] = lowest + rng.integers(-3, 4, 2 * count)
    z[3 * count : 4 * count] = rng.choice([-2.0, -1.0, 1.0, 3.0], count) * 2.0 ** rng.integers(0, 3, count)
    half = np.floor(power / 2)
    with np.errstate(all="ignore"):
        z = np.where(np.arange(5 * count) < 3 * count, z * 2.0**power, z * 2.0**lowest)
        return [v.astype(dtype) for v in (x * 2.0**half, y * 2.0 ** (power - half), z)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_fused_sums_that_nearly_vanish(kind: str, target: str) -> None:
    columns = hard_sums(kind)
    for mode in MODES:
        with np.errstate(all="ignore"):
            want = [wanted("fma", tuple(map(float, row)), kind, mode) for row in zip(*columns, strict=True)]
        symbol = f"__nv_fma{'f' if kind == 'f32' else ''}_{mode}"
        (got,) = run("tt.extern_elementwise", columns, [kind], 8, target, symbol=symbol)
        same_bits(got, np.array(want).astype(DTYPES[kind]))
