"""libdevice's exact functions, integer functions, and those by the C library, against Python's integers and mpmath."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from elementwise_jit import DTYPES, TARGETS, run, same_bits
from math_reference import check, mp_function

INF, NAN = math.inf, math.nan


def floats(kind: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    dtype = DTYPES[kind]
    with np.errstate(all="ignore"):
        raw = rng.integers(0, 256, 2000 * dtype.itemsize).astype(np.uint8).view(dtype)
        tiny = (rng.integers(-50, 51, 200) * float(np.finfo(dtype).smallest_subnormal)).astype(dtype)
        edges = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            2.5,
            -3.5,
            INF,
            -INF,
            NAN,
            float(np.finfo(dtype).max),
            2.0**23,
            2.0**52,
        ]
        return np.concatenate([np.array(edges * 20).astype(dtype), raw, tiny, rng.standard_normal(500).astype(dtype)])


def call(name: str, inputs: list[np.ndarray], out: str, target: str, suffix: str = "") -> np.ndarray:
    return run("tt.extern_elementwise", inputs, [out], 8, target, symbol=f"__nv_{name}{suffix}")[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_parts_of_floats(kind: str, target: str) -> None:
    x, suffix, sort = floats(kind), "f" if kind == "f32" else "", "f" if kind == "f32" else "d"
    y = np.random.default_rng(2).permutation(x)
    with np.errstate(all="ignore"):
        same_bits(call("nextafter", [x, y], kind, target, suffix), np.nextafter(x, y))
        _, exponent = np.frexp(x)
        usual = np.isfinite(x) & (x != 0)
        want = np.where(usual, exponent - 1.0, np.where(x == 0, -INF, np.abs(x))).astype(x.dtype)
        same_bits(call("logb", [x], kind, target, suffix), want)
        whole = np.where(usual, exponent - 1, np.where(np.isinf(x), 2**31 - 1, -(2**31))).astype(np.int32)
        same_bits(call("ilogb", [x], "i32", target, suffix), whole)
        same_bits(call("isnan", [x], "i32", target, sort), np.isnan(x).astype(np.int32))
        same_bits(call("isinf", [x], "i32", target, sort), np.isinf(x).astype(np.int32))
        finite = "finite" if kind == "f32" else "isfinite"
        same_bits(call(finite, [x], "i32", target, sort), np.isfinite(x).astype(np.int32))
        same_bits(call("signbit", [x], "i32", target, sort), np.signbit(x).astype(np.int32))
        same_bits(call("fmax", [x, y], kind, target, suffix)[np.isnan(y)], x[np.isnan(y)])
        both = np.isfinite(x) & np.isfinite(y) & (y != 0)
        exact = [math.remainder(float(a), float(b)) for a, b in zip(x[both], y[both], strict=True)]
        same_bits(call("remainder", [x[both], y[both]], kind, target, suffix), np.array(exact).astype(x.dtype))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_scaling(kind: str, target: str) -> None:
    """Powers of two up to those that carry the least subnormal to infinity; subnormal results are rounded once."""
    x = floats(kind)
    rng = np.random.default_rng(3)
    reach = 290 if kind == "f32" else 2200
    power = rng.integers(-reach, reach, len(x)).astype(np.int32)
    power[::7] = rng.choice(np.array([0, 1, -1, 2**31 - 1, -(2**31)], np.int32), len(power[::7]))
    with np.errstate(all="ignore"):
        want = np.ldexp(x.astype(np.longdouble), np.clip(power, -5000, 5000)).astype(x.dtype)
    for name in ("ldexp", "scalbn"):
        same_bits(call(name, [x, power], kind, target, "f" if kind == "f32" else ""), want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_rounding_to_integers(kind: str, target: str) -> None:
    x = np.concatenate([floats(kind), (np.arange(-300, 300) / 4).astype(DTYPES[kind])])
    rounds: dict[str, Callable[[float], int]] = {
        "llrint": round,
        "llround": lambda v: int(math.copysign(math.floor(abs(v) + 0.5) if abs(v) < 2**51 else abs(v), v)),
    }
    for name, rounded in rounds.items():
        clamped = [
            0 if math.isnan(v) else rounded(v) if abs(v) < 1e19 else int(math.copysign(2**64, v)) for v in x.tolist()
        ]
        # abs(v) + 0.5 is inexact just below a half
        clamped = [0 if abs(v) < 0.5 else c for v, c in zip(x.tolist(), clamped, strict=True)]
        want = np.array([min(max(c, -(2**63)), 2**63 - 1) for c in clamped], np.int64)
        same_bits(call(name, [x], "i64", target, "f" if kind == "f32" else ""), want)


def _bytes(x: int, y: int, selector: int) -> int:
    data = x | y << 32
    return sum((data >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i for i in range(4))


def _low24(x: int) -> int:
    return (x & 0x7FFFFF) - (x & 0x800000)


# name: operands, meaning on unsigned integers (True) or signed ones
INTEGERS: dict[str, tuple[int, bool, Callable[..., int]]] = {
    "popc": (1, True, int.bit_count),
    "ffs": (1, True, lambda x: (x & -x).bit_length()),
    "abs": (1, False, abs),
    "mulhi": (2, False, lambda x, y: x * y >> 32),
    "umulhi": (2, True, lambda x, y: x * y >> 32),
    "mul24": (2, True, lambda x, y: _low24(x) * _low24(y)),
    "umul24": (2, True, lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF)),
    "hadd": (2, False, lambda x, y: (x + y) >> 1),
    "uhadd": (2, True, lambda x, y: (x + y) >> 1),
    "rhadd": (2, False, lambda x, y: (x + y + 1) >> 1),
    "urhadd": (2, True, lambda x, y: (x + y + 1) >> 1),
    "sad": (3, False, lambda x, y, z: abs(x - y) + z),
    "usad": (3, True, lambda x, y, z: abs(x - y) + z),
    "byte_perm": (3, True, _bytes),
    "clz": (1, True, lambda x: 32 - x.bit_length()),
    "brev": (1, True, lambda x: int(f"{x:032b}"[::-1], 2)),
}
LONG: dict[str, tuple[int, bool, Callable[..., int]]] = {
    "popcll": (1, True, int.bit_count),
    "ffsll": (1, True, lambda x: (x & -x).bit_length()),
    "clzll": (1, True, lambda x: 64 - x.bit_length()),
    "brevll": (1, True, lambda x: int(f"{x:064b}"[::-1], 2)),
    "llabs": (1, False, abs),
    "mul64hi": (2, False, lambda x, y: x * y >> 64),
    "umul64hi": (2, True, lambda x, y: x * y >> 64),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*INTEGERS, *LONG])
def test_integers(name: str, target: str) -> None:
    kind, bits = ("i32", 32) if name in INTEGERS else ("i64", 64)
    count, unsigned, meaning = (INTEGERS | LONG)[name]
    dtype = DTYPES[kind]
    rng = np.random.default_rng(4)
    edges = np.array([0, 1, -1, 2, np.iinfo(dtype).max, np.iinfo(dtype).min, 0x800000, 0x7FFFFF] * 8, dtype)
    columns = []
    for i in range(count):
        many = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 500, dtype) >> rng.integers(0, bits, 500).astype(
            dtype
        )
        columns.append(np.concatenate([np.roll(edges, i * 3), many]))
    rows = zip(*([int(v) % (1 << bits) if unsigned else int(v) for v in c] for c in columns), strict=True)
    out = "i32" if name in ("popcll", "ffsll", "clzll") else kind
    width = DTYPES[out].itemsize * 8
    want = (
        np.array([meaning(*row) % (1 << width) for row in rows], np.uint64).astype(f"u{width // 8}").view(DTYPES[out])
    )
    same_bits(call(name, columns, out, target), want)


def test_bits() -> None:
    x = np.random.default_rng(5).integers(0, 2**64, 500, dtype=np.uint64).view(np.int64)
    low, high = (x & 0xFFFFFFFF).astype(np.uint32).view(np.int32), (x >> 32).astype(np.int32)
    real = x.view(np.float64)
    same_bits(call("double2loint", [real], "i32", "host"), low)
    same_bits(call("double2hiint", [real], "i32", "host"), high)
    assert call("hiloint2double", [high, low], "f64", "host").tobytes() == real.tobytes()
    assert call("longlong_as_double", [x], "f64", "host").tobytes() == x.tobytes()
    assert call("float_as_int", [low.view(np.float32)], "i32", "host").tobytes() == low.tobytes()
    assert call("uint_as_float", [low], "f32", "host").tobytes() == low.tobytes()


def norm(*parts: Any) -> Any:
    return mpmath.sqrt(sum(p * p for p in parts))


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    ("name", "count", "meaning"),
    [
        ("norm3d", 3, norm),
        ("norm4d", 4, norm),
        ("rnorm3d", 3, lambda *p: 1 / norm(*p)),
        ("rnorm4d", 4, lambda *p: 1 / norm(*p)),
        ("lgamma", 1, lambda x: mpmath.log(abs(mpmath.gamma(x)))),
        ("tgamma", 1, mpmath.gamma),
        ("j0", 1, lambda x: mpmath.besselj(0, x)),
        ("j1", 1, lambda x: mpmath.besselj(1, x)),
    ],
)
def test_by_mpmath(name: str, count: int, meaning: Callable[..., Any], kind: str) -> None:
    rng = np.random.default_rng(6)
    inputs = [rng.uniform(3, 30, 400).astype(DTYPES[kind]) for _ in range(count)]
    if name in ("j0", "j1"):  # near its zeros the error in ulp has no bound
        exact = mp_function(meaning)(*inputs)
        inputs = [x[np.abs(exact) > 0.05] for x in inputs]
    for target in TARGETS:
        check(name, kind, inputs, mp_function(meaning)(*inputs), target, 8)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(("name", "count"), [("norm3d", 3), ("norm4d", 4), ("rnorm3d", 3), ("rnorm4d", 4)])
def test_lengths_of_sides_that_are_no_numbers(name: str, count: int, kind: str) -> None:
    """An infinite side wins over NaN; a finite one does not, however long."""
    top = float(np.finfo(DTYPES[kind]).max)
    rows = list(itertools.product((1.0, top, -top, INF, -INF, NAN), repeat=count))
    columns = [np.array(column, DTYPES[kind]) for column in zip(*rows, strict=True)]
    got = call(name, columns, kind, "host", "f" if kind == "f32" else "")
    infinite = np.array([any(map(math.isinf, row)) for row in rows])
    unknown = np.array([any(map(math.isnan, row)) for row in rows])
    assert np.all(got[infinite] == (0 if name.startswith("r") else INF))
    assert np.all(np.isnan(got[unknown & ~infinite]))
    assert not np.any(np.isnan(got[~unknown]))


def test_special_values_of_the_gamma_function() -> None:
    x = np.array([1.0, 2.0, 0.0, -0.0, INF, -1.5, NAN, 172.0])
    same_bits(call("tgamma", [x], "f64", "host")[[0, 1, 2, 3, 4, 6]], np.array([1.0, 1.0, INF, -INF, INF, NAN]))
    same_bits(call("lgamma", [x], "f64", "host")[[0, 1, 2, 3, 4, 6]], np.array([0.0, 0.0, INF, INF, INF, NAN]))


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_integer_powers_and_orders(kind: str) -> None:
    suffix = "f" if kind == "f32" else ""
    x = np.linspace(0.5, 3, 200).astype(DTYPES[kind])
    n = np.random.default_rng(7).integers(-9, 10, 200).astype(np.int32)
    power = np.array([mpmath.mpf(float(a)) ** int(k) for a, k in zip(x, n, strict=True)]).astype(float)
    np.testing.assert_allclose(call("powi", [x, n], kind, "host", suffix), power, rtol=2e-7 if kind == "f32" else 4e-16)
    order = np.abs(n) % 4
    bessel = [float(mpmath.besselj(int(k), float(a))) for k, a in zip(order, x, strict=True)]
    np.testing.assert_allclose(
        call("jn", [order, x], kind, "host", suffix), bessel, rtol=1e-6 if kind == "f32" else 1e-13
    )
