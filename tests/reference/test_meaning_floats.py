"""Float meanings against exact arithmetic on fractions, rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from oracle import FORMATS, apply, edge_floats, edge_integers, round_exact, same

from omnikernel.ir.tile import Constant
from omnikernel.ir.types import F32, I1, I8, Scalar, Tensor
from omnikernel.reference import narrow
from omnikernel.reference.registry import DTYPES

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # signalling NaNs

ARITHMETIC = ["f16", "f32", "f64"]
ALL = ["f16", "bf16", "f32", "f64"]


def finite(*values: float) -> bool:
    return all(math.isfinite(v) for v in values)


@pytest.mark.parametrize("kind", ARITHMETIC)
@pytest.mark.parametrize("name", ["addf", "subf", "mulf", "divf", "fma"])
def test_one_rounding(name: str, kind: str) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.permutation(edge_floats(kind, rng)) for _ in range(3))
    args = [a, b, c] if name == "fma" else [a, b]
    got = apply("math.fma" if name == "fma" else f"arith.{name}", args, [kind] * len(args), kind).astype(np.float64)
    checked = 0
    for i in range(len(a)):
        x, y, z = float(a[i]), float(b[i]), float(c[i])
        if not finite(x, y, z) or (name == "divf" and y == 0):
            continue
        fx, fy, fz = Fraction(x), Fraction(y), Fraction(z)
        exact = {"addf": fx + fy, "subf": fx - fy, "mulf": fx * fy, "fma": fx * fy + fz}.get(name)
        if exact is None:
            exact = fx / fy
        want = round_exact(exact, kind)
        assert got[i] == want, (name, kind, x.hex(), y.hex(), z.hex())
        checked += 1
    assert checked > 200


@pytest.mark.parametrize("kind", ALL)
def test_fma_where_two_roundings_would_show(kind: str) -> None:
    """The product lies next to a midpoint; c is far below, and decides."""
    precision, _, _ = FORMATS[kind]
    ulp = 2.0 ** (1 - precision)
    dtype = DTYPES[kind]
    half_up = (1 + ulp) * 1.0, 1.0
    a = np.array([half_up[0]] * 4, dtype)
    b = np.array([1 + ulp / 2 if kind != "f64" else 1.0] * 4, np.float64)
    tiny = 2.0 ** (-4 * precision if kind not in ("f16",) else -24)
    c = np.array([tiny, -tiny, 0.0, -0.0], dtype)
    b_typed = b.astype(dtype)
    got = narrow.fma(a, b_typed, c, kind).astype(np.float64)
    for i in range(4):
        exact = Fraction(float(a[i])) * Fraction(float(b_typed[i])) + Fraction(float(c[i]))
        assert got[i] == round_exact(exact, kind)
    # (1 + ulp)(1 + ulp) = 1 + 2 ulp + ulp^2: not a midpoint; (1 + ulp) * 2^-1 + 1 is, up to c's scale
    x = np.array([1 + ulp], dtype)
    y = np.array([ulp / 2], dtype) if kind != "f16" else np.array([2.0**-11], dtype)
    for sign in (1.0, -1.0):
        z = np.array([sign], dtype)
        exact = Fraction(float(x[0])) * Fraction(float(y[0])) + Fraction(sign)
        assert float(narrow.fma(x, y, z, kind)[0]) == round_exact(exact, kind)


def test_fma_specials_and_signed_zero() -> None:
    inf, nan = np.inf, np.nan
    for kind in ALL:
        a = [inf, inf, 1.0, nan, 0.0, -0.0, 1.0]
        b = [1.0, 0.0, 1.0, 1.0, 1.0, 1.0, -1.0]
        c = [-inf, 1.0, inf, 1.0, -0.0, -0.0, 1.0]
        got = apply("math.fma", [a, b, c], [kind] * 3, kind).astype(np.float64)
        assert same(got, np.array([nan, nan, inf, nan, 0.0, -0.0, 0.0]))


def test_fma_of_f64_at_the_ends_of_the_range() -> None:
    top, tiny = np.finfo(np.float64).max, 5e-324
    cases = [
        (top, 2.0, -top),
        (tiny, 0.5, tiny),
        (1e-200, 1e-200, 1e-310),
        (2.0**-540, 2.0**-535, 2.0**-1074),
        (1e308, 10.0, -1e308),
    ]
    a, b, c = (np.array(x) for x in zip(*cases, strict=True))
    got = apply("math.fma", [a, b, c], ["f64"] * 3, "f64")
    for i, (x, y, z) in enumerate(cases):
        assert got[i] == round_exact(Fraction(x) * Fraction(y) + Fraction(z), "f64")


CASTS = [
    (s, t) for s in ("f64", "f32", "f16", "bf16") for t in ("f64", "f32", "f16", "bf16", "f8E5M2", "f8E4M3FN") if s != t
]


def near_midpoints(source: str, target: str) -> np.ndarray:
    """Target values, midpoints between neighbours, and midpoints off by the least step of the source."""
    rng = np.random.default_rng(4)
    grid = edge_floats(target, rng).astype(np.float64)
    grid = np.unique(grid[np.isfinite(grid)])
    middle = (grid[1:] / 2 + grid[:-1] / 2).astype(DTYPES[source])
    bits = middle.view(f"u{middle.dtype.itemsize}")
    around = [grid.astype(DTYPES[source]), middle, (bits + 1).view(middle.dtype), (bits - 1).view(middle.dtype)]
    return np.concatenate([*around, edge_floats(source, rng)])


@pytest.mark.parametrize(("source", "target"), CASTS)
@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
def test_casts_round_once(source: str, target: str, rounding: str) -> None:
    with np.errstate(all="ignore"):
        values = near_midpoints(source, target)
    got = apply("tt.fp_to_fp", [values], [source], target, rounding=rounding)
    for value, made in zip(values.astype(np.float64), got.astype(np.float64), strict=True):
        if np.isnan(value):
            assert np.isnan(made)
        elif np.isinf(value):
            assert made == (math.copysign(FORMATS[target][2], value) if target.startswith("f8") else value)
        else:
            want = round_exact(Fraction(value), target, toward_zero=rounding == "rtz")
            assert made == want and np.signbit(made) == np.signbit(value), (value.hex(), made, want)


def test_truncf_toward_zero_by_its_own_attribute() -> None:
    got = apply("arith.truncf", [[70000.0, 1.0 + 2**-11 + 2**-20]], ["f32"], "f16", roundingmode="toward_zero")
    assert got.tolist() == [65504.0, 1.0]
    with pytest.raises(ValueError, match="expected rtne or rtz"):
        apply("arith.truncf", [[1.0]], ["f32"], "f16", roundingmode="upward")


@pytest.mark.parametrize("source", ["i1", "i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("name", ["sitofp", "uitofp"])
def test_integer_to_float(source: str, target: str, name: str) -> None:
    rng = np.random.default_rng(5)
    a = edge_integers(source, rng, 100)
    if source == "i64":  # midpoints of bf16, off by one
        edges = np.array(
            [(257 << 40) + d for d in (-1, 0, 1)] + [(0x1FF << 54) + d - (1 << 63) for d in (-1, 0, 1)], np.int64
        )
        a = np.concatenate([a, edges, -edges])
    got = apply(f"arith.{name}", [a], [source], target).astype(np.float64)
    bits = 1 if source == "i1" else 8 * a.dtype.itemsize
    for x, made in zip(a.tolist(), got, strict=True):
        whole = int(x) % (1 << bits) if name == "uitofp" else -int(x) if bits == 1 else int(x)
        assert made == round_exact(Fraction(whole), target), x


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ["i1", "i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("name", ["fptosi", "fptoui"])
def test_float_to_integer_saturates(source: str, target: str, name: str) -> None:
    a = edge_floats(source, np.random.default_rng(6))
    with np.errstate(all="ignore"):
        a = np.concatenate(
            [
                a,
                np.array(
                    [127.9, 128.0, -128.9, -129.0, 255.5, 256.0, 2.0**31, -(2.0**31), 2.0**63, 1.99], np.float64
                ).astype(a.dtype),
            ]
        )
    got = apply(f"arith.{name}", [a], [source], target)
    bits = 1 if target == "i1" else 8 * got.dtype.itemsize
    low, high = (0, 2**bits - 1) if name == "fptoui" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for x, made in zip(a.astype(np.float64).tolist(), got.tolist(), strict=True):
        want = (
            0
            if math.isnan(x)
            else high
            if x == math.inf
            else low
            if x == -math.inf
            else min(max(math.trunc(x), low), high)
        )
        assert (int(made) - want) % (1 << bits) == 0, (x, made)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_minimum_and_maximum(kind: str) -> None:
    a = np.array([0.0, -0.0, -0.0, 0.0, np.nan, 1.0, np.nan, 2.0, -np.inf], DTYPES[kind])
    b = np.array([-0.0, 0.0, -0.0, 0.0, 1.0, np.nan, np.nan, 3.0, np.inf], DTYPES[kind])
    nan = np.nan
    want = {
        "maxnumf": [0.0, 0.0, -0.0, 0.0, 1.0, 1.0, nan, 3.0, np.inf],
        "minnumf": [-0.0, -0.0, -0.0, 0.0, 1.0, 1.0, nan, 2.0, -np.inf],
        "maximumf": [0.0, 0.0, -0.0, 0.0, nan, nan, nan, 3.0, np.inf],
        "minimumf": [-0.0, -0.0, -0.0, 0.0, nan, nan, nan, 2.0, -np.inf],
    }
    for name, values in want.items():
        assert same(apply(f"arith.{name}", [a, b], [kind, kind], kind), np.array(values).astype(DTYPES[kind])), name


def test_clamp() -> None:
    args = [[np.nan, -5.0, 0.5, 5.0], [-1.0] * 4, [1.0] * 4]
    assert apply("tt.clampf", args, ["f32"] * 3, "f32", propagateNan="none").tolist() == [-1.0, -1.0, 0.5, 1.0]
    kept = apply("tt.clampf", args, ["f32"] * 3, "f32", propagateNan="all")
    assert np.isnan(kept[0]) and kept[1:].tolist() == [-1.0, 0.5, 1.0]


ORDERED = {"eq": np.equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "f8E4M3FN"])
def test_cmpf(kind: str) -> None:
    a = np.array([1.0, 2.0, 2.0, np.nan, 1.0, np.nan, 0.0], DTYPES[kind])
    b = np.array([2.0, 1.0, 2.0, 1.0, np.nan, np.nan, -0.0], DTYPES[kind])
    unordered = np.array([False, False, False, True, True, True, False])
    x, y = a.astype(np.float64), b.astype(np.float64)

    def compare(predicate: str) -> list[bool]:
        return apply("arith.cmpf", [a, b], [kind, kind], "i1", predicate=predicate).tolist()

    for name, function in ORDERED.items():
        assert compare(f"o{name}") == (function(x, y) & ~unordered).tolist()
        assert compare(f"u{name}") == (function(x, y) | unordered).tolist()
    assert compare("one") == [True, True, False, False, False, False, False]
    assert compare("une") == [True, True, False, True, True, True, False]
    assert compare("ord") == (~unordered).tolist()
    assert compare("uno") == unordered.tolist()
    assert compare("false") == [False] * 7
    assert compare("true") == [True] * 7


def test_sign_ops_touch_only_the_sign() -> None:
    for kind in ["f16", "bf16", "f32", "f64", "f8E5M2"]:
        a = edge_floats(kind, np.random.default_rng(7), 50)
        bits = np.dtype(f"u{a.dtype.itemsize}")
        top = 1 << (8 * a.dtype.itemsize - 1)
        assert (apply("arith.negf", [a], [kind], kind).view(bits) == a.view(bits) ^ bits.type(top)).all()
        assert (apply("math.absf", [a], [kind], kind).view(bits) == a.view(bits) & bits.type(top - 1)).all()


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_remainder_rounding_and_root(kind: str) -> None:
    rng = np.random.default_rng(8)
    a, b = edge_floats(kind, rng, 100), rng.permutation(edge_floats(kind, rng, 100))
    rest = apply("arith.remf", [a, b], [kind, kind], kind).astype(np.float64)
    down = apply("math.floor", [a], [kind], kind).astype(np.float64)
    up = apply("math.ceil", [a], [kind], kind).astype(np.float64)
    root = apply("math.sqrt", [a], [kind], kind)
    assert same(root, apply("tt.precise_sqrt", [a], [kind], kind))
    for i, (x, y) in enumerate(zip(a.astype(np.float64).tolist(), b.astype(np.float64).tolist(), strict=True)):
        if math.isfinite(x):
            assert (down[i], up[i]) == (math.floor(x), math.ceil(x))
            if math.isfinite(y) and y != 0:
                assert rest[i] == math.fmod(x, y)
            if x > 0:  # the root is nearest: half a step to either side, squared, encloses x
                r = Fraction(float(root[i]))
                below = (r + Fraction(float(np.nextafter(root[i], np.array(0, root.dtype))))) / 2
                above = (r + Fraction(float(np.nextafter(root[i], np.array(np.inf, root.dtype))))) / 2
                assert below**2 <= Fraction(x) <= above**2
        elif math.isnan(x) or x < 0:
            assert np.isnan(root[i])


def test_constants_and_select() -> None:
    dense = Constant((0x3F800000, 0x7FC00000), Tensor((2,), F32))
    got = apply("arith.constant", [], [], "f32", (2,), value=dense)
    assert got[0] == 1.0 and np.isnan(got[1])
    splat = apply("arith.constant", [], [], "i8", (2, 2), value=Constant((0xFF,), Tensor((2, 2), I8)))
    assert splat.tolist() == [[-1, -1], [-1, -1]]
    assert apply("arith.constant", [], [], "i1", value=Constant((1,), I1)).dtype == np.bool_
    half = apply("arith.constant", [], [], "bf16", value=Constant((0x4049,), Scalar("bf16")))
    assert half == ml_dtypes.bfloat16(3.140625)
    assert apply("arith.select", [True, [1, 2], [3, 4]], ["i1", "i32", "i32"], "i32").tolist() == [1, 2]
    assert apply("arith.select", [[True, False], [1, 2], [3, 4]], ["i1", "i32", "i32"], "i32").tolist() == [1, 4]
    assert apply("ub.poison", [], [], "f32", (3,)).tolist() == [0.0, 0.0, 0.0]
