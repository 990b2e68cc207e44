"""Float arithmetic, order and comparison against exact rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from elementwise_jit import DTYPES, HOST, LIBM, TARGETS, externals, run, same_bits
from exact_rounding import fraction_to_format, to_format

FLOATS = ("f16", "bf16", "f32", "f64")
NARROW = ("f16", "bf16")
EDGES = (0.0, -0.0, 1.0, -1.0, 1.5, 0.5, 3.0, np.inf, -np.inf, np.nan, 1e-7, -6e-8, 65504.0, -65504.0, 1e-40, 3e38)


def floats(kind: str, count: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pairs: all pairs of edge values, random bits (signalling NaN and subnormals among them), near magnitudes."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[kind]
    with np.errstate(all="ignore"):
        left, right = (m.ravel().astype(dtype) for m in np.meshgrid(EDGES, EDGES))
        raw = [rng.integers(0, 256, count * dtype.itemsize).astype(np.uint8).view(dtype) for _ in range(2)]
        near = [(rng.standard_normal(count) * 2.0 ** rng.integers(-3, 4, count)).astype(dtype) for _ in range(2)]
        largest = float(np.finfo(dtype).max) if kind in ("f16", "f32", "f64") else 3.39e38
        tiny = [
            (rng.integers(-40, 40, count) * (2.0**-24 if kind == "f16" else 2.0**-133)).astype(dtype) for _ in range(2)
        ]
        huge = [(rng.uniform(-1, 1, count) * largest).astype(dtype) for _ in range(2)]
    return tuple(np.concatenate(parts) for parts in zip((left, right), raw, near, tiny, huge, strict=True))  # type: ignore[return-value]


BINARY = {"arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide}


def ieee(name: str, kind: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The correctly rounded result: NumPy's own for f32 and f64; long double has enough digits for the narrow ones."""
    with np.errstate(all="ignore"):
        if kind in ("f32", "f64"):
            return BINARY[name](left, right)
        return to_format(BINARY[name](left.astype(np.longdouble), right.astype(np.longdouble)), kind)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", [*BINARY, "tt.precise_divf"])
def test_binary(name: str, kind: str, target: str) -> None:
    left, right = floats(kind)
    want = ieee("arith.divf" if name.startswith("tt") else name, kind, left, right)
    for lanes in (0, 1, 4, 16, 32) if name == "arith.addf" else (0, 16):
        same_bits(run(name, [left, right], [kind], lanes, target)[0], want)
    assert not externals(name, [kind, kind], [kind], 16, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FLOATS)
def test_remainder(kind: str, target: str) -> None:
    left, right = floats(kind)
    with np.errstate(all="ignore"):
        want = np.fmod(left.astype(np.float64), right.astype(np.float64)).astype(DTYPES[kind])
    for lanes in (0, 8):
        same_bits(run("arith.remf", [left, right], [kind], lanes, target)[0], want)
    assert externals("arith.remf", [kind, kind], [kind], 8, target) == {"fmod" if kind == "f64" else "fmodf"}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FLOATS)
def test_fma(kind: str, target: str) -> None:
    rng = np.random.default_rng(7)
    x, y = floats(kind, 150)
    z = rng.permutation(floats(kind, 150, seed=1)[0])
    # Products that lie exactly between two numbers, with an addend far below: the case that rounds wrongly twice.
    halves = np.array([1 + 2.0**-7, 1 + 2.0**-4, 1.5, 1 + 2.0**-10], np.float64)
    a, b = (m.ravel() for m in np.meshgrid(halves, halves))
    for c in (2.0**-60, -(2.0**-60), 2.0**-20, -(2.0**-20), 0.0):
        x, y = np.append(x, a.astype(x.dtype)), np.append(y, b.astype(x.dtype))
        z = np.append(z, np.full(len(a), c).astype(x.dtype))
    with np.errstate(all="ignore"):
        loose = (x.astype(np.longdouble) * y.astype(np.longdouble) + z.astype(np.longdouble)).astype(np.float64)
    finite = np.isfinite(x.astype(float)) & np.isfinite(y.astype(float)) & np.isfinite(z.astype(float))
    exact = [
        fraction_to_format(Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)), kind) if ok else float(other)
        for p, q, r, ok, other in zip(x, y, z, finite, loose, strict=True)
    ]
    with np.errstate(all="ignore"):
        want = np.array(exact).astype(x.dtype)
    for lanes in (0, 4, 16):
        (got,) = run("math.fma", [x, y, z], [kind], lanes, target)
        zero = want.astype(float) == 0  # a fraction has no signed zero
        assert np.all(got[zero].astype(float) == 0)
        same_bits(got[~zero], want[~zero])
    called = externals("math.fma", [kind] * 3, [kind], 8, target)
    assert called <= ({"fma"} if kind == "f64" and target == "sse2" else set())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", NARROW)
def test_fma_next_to_ties(kind: str, target: str) -> None:
    """Sums of a product and an addend far smaller, far larger, or as large; also where either is subnormal or vast."""
    rng = np.random.default_rng(9)
    count, bits, low, high = 6000, *((8, -133, 100) if kind == "bf16" else (11, -24, 4))

    def number(exponent: np.ndarray) -> np.ndarray:
        digits = rng.integers(1 << (bits - 1), 1 << bits, count) * rng.choice([-1.0, 1.0], count)
        with np.errstate(all="ignore"):
            return np.ldexp(digits, exponent).astype(DTYPES[kind])

    first = rng.integers(low, high, count)
    second = np.where(
        rng.random(count) < 0.5, low - 7 - first + rng.integers(-12, 12, count), rng.integers(low, high, count)
    )
    x, y = number(first), number(np.clip(second, low, high))
    exponent = np.frexp(x.astype(float) * y.astype(float))[1] - bits
    distance = rng.choice(np.array([-60, -40, -20, -9, -1, 0, 1, 6, 9, 14]), count) + rng.integers(0, 9, count)
    z = number(exponent + distance)
    if kind == "bf16":  # the product overflows, the sum does not
        vast = np.full(count, 56)
        x = np.append(x, np.abs(number(vast)))
        y = np.append(y, np.abs(number(vast + rng.integers(0, 2, count))))
        z = np.append(z, -np.abs(number(vast + 64)))
    finite = np.isfinite(x.astype(float)) & np.isfinite(y.astype(float)) & np.isfinite(z.astype(float))
    x, y, z = x[finite], y[finite], z[finite]
    rows = zip(x.astype(float), y.astype(float), z.astype(float), strict=True)
    want = np.array([fraction_to_format(Fraction(p) * Fraction(q) + Fraction(r), kind) for p, q, r in rows])
    (got,) = run("math.fma", [x, y, z], [kind], 16, target)
    assert np.array_equal(got.astype(float), want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FLOATS)
def test_order(kind: str, target: str) -> None:
    left, right = floats(kind)
    nan_left, nan_right = np.isnan(left), np.isnan(right)
    with np.errstate(all="ignore"):
        same = left == right
        greater = (left > right) | (same & np.signbit(right))
        lesser = (left < right) | (same & np.signbit(left))
    for most, first in ((True, greater), (False, lesser)):
        skipping = np.where(nan_right | first & ~nan_left, left, right)
        nan = np.array(np.nan, left.dtype)
        propagating = np.where(nan_left | nan_right, nan, skipping)
        word = "max" if most else "min"
        for lanes in (0, 1, 4, 8, 16, 32):
            same_bits(run(f"arith.{word}numf", [left, right], [kind], lanes, target)[0], skipping)
            same_bits(run(f"arith.{word}imumf", [left, right], [kind], lanes, target)[0], propagating)
    assert not externals("arith.maxnumf", [kind, kind], [kind], 16, target)
    assert not externals("arith.minimumf", [kind, kind], [kind], 16, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan])
def test_order_with_a_number(number: float, kind: str, target: str) -> None:
    left, _ = floats(kind)
    right = np.full_like(left, number)
    with np.errstate(all="ignore"):
        same = left == right
        greater = (left > right) | (same & np.signbit(right))
        lesser = (left < right) | (same & np.signbit(left))
    for word, first in (("max", greater), ("min", lesser)):
        want = np.where(np.isnan(right) | first & ~np.isnan(left), left, right)
        for lanes in (0, 4, 32):
            for at, inputs in ((1, [left, right]), (0, [right, left])):
                more = {"constants": {at: number}, "sign": str(number)}  # tells the zeros apart in the cache
                same_bits(run(f"arith.{word}numf", inputs, [kind], lanes, target, **more)[0], want)


@pytest.mark.parametrize("kind", FLOATS)
def test_clamp(kind: str) -> None:
    x, _ = floats(kind)
    low, high = np.full_like(x, -1.5), np.full_like(x, 3)
    with np.errstate(all="ignore"):
        want = np.minimum(np.maximum(x, low), high)
    same_bits(run("tt.clampf", [x, low, high], [kind], propagateNan="all")[0], want)
    same_bits(run("tt.clampf", [x, low, high], [kind], propagateNan="none")[0], np.where(np.isnan(x), low, want))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FLOATS)
def test_comparison(kind: str, target: str) -> None:
    left, right = floats(kind)
    unordered = np.isnan(left) | np.isnan(right)
    with np.errstate(all="ignore"):
        ordered = {
            "eq": left == right,
            "gt": left > right,
            "ge": left >= right,
            "lt": left < right,
            "le": left <= right,
        }
    ordered["ne"] = ~ordered["eq"] & ~unordered
    wants = {"o" + k: v for k, v in ordered.items() if k != "ne"} | {"u" + k: v | unordered for k, v in ordered.items()}
    wants |= {"one": ordered["ne"], "ord": ~unordered, "uno": unordered}
    wants |= {"true": np.ones_like(unordered), "false": np.zeros_like(unordered)}
    assert len(wants) == 16
    for predicate, want in wants.items():
        for lanes in (0, 16):
            same_bits(run("arith.cmpf", [left, right], ["i1"], lanes, target, predicate=predicate)[0], want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [*FLOATS, "f8E5M2", "f8E4M3FN", "f8E4M3FNUZ"])
def test_sign(kind: str, target: str) -> None:
    size = DTYPES[kind].itemsize
    x = np.random.default_rng(3).integers(0, 256, 1000 * size).astype(np.uint8).view(DTYPES[kind])
    top = 1 << (8 * size - 1)
    word = x.view(f"u{size}")
    negated, absolute = (
        (word ^ top).astype(word.dtype).view(x.dtype),
        (word & (top - 1)).astype(word.dtype).view(x.dtype),
    )
    if kind.endswith("FNUZ"):  # the sign bit alone is NaN there
        negated, absolute = (np.where(word & (top - 1) == 0, x, v) for v in (negated, absolute))
    for lanes in (0, 16):
        same_bits(run("arith.negf", [x], [kind], lanes, target)[0], negated)
        same_bits(run("math.absf", [x], [kind], lanes, target)[0], absolute)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FLOATS)
def test_square_root(kind: str, target: str) -> None:
    x, _ = floats(kind)
    with np.errstate(all="ignore"):
        want = np.sqrt(x) if kind in ("f32", "f64") else to_format(np.sqrt(x.astype(np.longdouble)), kind)
    for name in ("math.sqrt", "tt.precise_sqrt"):
        for lanes in (0, 16):
            same_bits(run(name, [x], [kind], lanes, target)[0], want)


def test_the_search_for_calls_finds_them() -> None:
    assert "fmodf" in LIBM
    assert externals("arith.remf", ["f32", "f32"], ["f32"], 4, "host") == {"fmodf"}
    assert HOST
