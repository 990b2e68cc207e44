"""Functions that are not exactly rounded, against mpmath, within one ulp (0.51 for f32 and narrower)."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from oracle import apply, same

from omnikernel.errors import UnsupportedOp
from omnikernel.reference.registry import DTYPES

FUNCTIONS = {
    "math.exp": (mpmath.exp, -80, 80),
    "math.exp2": (lambda x: mpmath.power(2, x), -120, 120),
    "math.log": (mpmath.log, 1e-30, 1e30),
    "math.log2": (lambda x: mpmath.log(x, 2), 1e-30, 1e30),
    "math.sin": (mpmath.sin, -100, 100),
    "math.cos": (mpmath.cos, -100, 100),
    "math.rsqrt": (lambda x: 1 / mpmath.sqrt(x), 1e-30, 1e30),
    "math.erf": (mpmath.erf, -5, 5),
}
EXTERN = {
    "tanh": mpmath.tanh,
    "expm1": mpmath.expm1,
    "log1p": mpmath.log1p,
    "atan": mpmath.atan,
    "asinh": mpmath.asinh,
    "cbrt": mpmath.cbrt,
    "erfc": mpmath.erfc,
    "sinh": mpmath.sinh,
    "lgamma": mpmath.loggamma,
    "tgamma": mpmath.gamma,
    "log10": mpmath.log10,
    "exp10": lambda x: mpmath.power(10, x),
}


def check(function, values: np.ndarray, got: np.ndarray, ulp: float) -> None:
    for x, made in zip(values, got, strict=True):
        with mpmath.workprec(120):
            exact = function(mpmath.mpf(float(x)))
        # the absolute term allows for cancellation near a zero of the function, in the wider type
        bound = ulp * float(np.spacing(np.abs(made.astype(got.dtype)))) + (1e-17 if got.dtype == np.float32 else 1e-15)
        assert abs(float(exact - mpmath.mpf(float(made)))) <= bound, (x, made)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_math(name: str, kind: str) -> None:
    function, low, high = FUNCTIONS[name]
    rng = np.random.default_rng(9)
    span = np.exp(rng.uniform(np.log(low), np.log(high), 60)) if low > 0 else rng.uniform(low, high, 60)
    values = span.astype(DTYPES[kind])
    check(function, values, apply(name, [values], [kind], kind), 0.51 if kind == "f32" else 1.5)


@pytest.mark.parametrize("name", EXTERN)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_libdevice(name: str, kind: str) -> None:
    values = np.random.default_rng(10).uniform(0.1, 4, 60).astype(DTYPES[kind])
    symbol = f"__nv_{name}{'f' if kind == 'f32' else ''}"
    got = apply("tt.extern_elementwise", [values], [kind], kind, symbol=symbol)
    check(EXTERN[name], values, got, 0.51 if kind == "f32" else 4)


def test_special_values() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    nan, inf = np.nan, np.inf

    def f(name: str) -> np.ndarray:
        return apply(name, [x], ["f32"], "f32")

    def want(*values: float) -> np.ndarray:
        return np.array(values, np.float32)

    assert same(f("math.exp"), want(nan, inf, 0, 1, 1))
    assert same(f("math.log"), want(nan, inf, nan, -inf, -inf))
    assert same(f("math.sin"), want(nan, nan, nan, 0.0, -0.0))
    assert same(f("math.rsqrt"), want(nan, 0, nan, inf, -inf))
    assert same(f("math.erf"), want(nan, 1, -1, 0.0, -0.0))


def test_subnormal_results_are_kept() -> None:
    got = apply("math.exp", [np.float32(-100)], ["f32"], "f32")
    assert 0 < got < np.finfo(np.float32).tiny


def test_two_operands_and_integer_results() -> None:
    def extern(symbol: str, args, kinds, result):
        return apply("tt.extern_elementwise", args, kinds, result, symbol=symbol).tolist()

    assert extern("__nv_powf", [[2.0, 9.0], [3.0, 0.5]], ["f32", "f32"], "f32") == [8.0, 3.0]
    assert extern("__nv_atan2", [[0.0, 1.0], [-1.0, 0.0]], ["f64", "f64"], "f64") == [np.pi, np.pi / 2]
    assert extern("__nv_isnanf", [[1.0, np.nan]], ["f32"], "i32") == [0, 1]
    assert extern("__nv_ldexpf", [[1.5, 1.0], [3, -149]], ["f32", "i32"], "f32") == [12.0, 2.0**-149]
    assert extern("__nv_roundf", [[0.5, -2.5, 0.49999997]], ["f32"], "f32") == [1.0, -3.0, 0.0]
    assert extern("__nv_rintf", [[0.5, 2.5, -1.5]], ["f32"], "f32") == [0.0, 2.0, -2.0]
    assert extern("__nv_fmaf", [[1.0], [2.0], [3.0]], ["f32"] * 3, "f32") == [5.0]
    assert extern("__nv_fmaxf", [[np.nan], [2.0]], ["f32"] * 2, "f32") == [2.0]
    assert extern("__nv_tgammaf", [[5.0, np.inf, 0.0, -1.0]], ["f32"], "f32")[:3] == [24.0, np.inf, np.inf]


def test_square_roots_of_doubles_are_rounded_once() -> None:
    value = float(np.float32(2.9161725))  # in long double the root lies halfway between two doubles
    assert extern("__nv_sqrt", [[value]], ["f64"], "f64") == [float.fromhex("0x1.b52a8bb20c1c7p+0")]


def test_gamma_beside_its_pole_at_zero() -> None:
    assert extern("__nv_tgamma", [[5e-324, -5e-324]], ["f64"], "f64") == [float("inf"), float("-inf")]


def test_unknown_function_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="'__nv_nothing'"):
        apply("tt.extern_elementwise", [1.0], ["f32"], "f32", symbol="__nv_nothing")


def extern(symbol: str, args, kinds, result):
    return apply("tt.extern_elementwise", args, kinds, result, symbol=symbol).tolist()


def test_integer_functions() -> None:
    x = [0, 1, -1, 12, -(2**31)]
    assert extern("__nv_popc", [x], ["i32"], "i32") == [0, 1, 32, 2, 1]
    assert extern("__nv_clz", [x], ["i32"], "i32") == [32, 31, 0, 28, 0]
    assert extern("__nv_ffs", [x], ["i32"], "i32") == [0, 1, 1, 3, 32]
    assert extern("__nv_brev", [x], ["i32"], "i32") == [0, -(2**31), -1, 0x30000000, 1]
    assert extern("__nv_clzll", [[1, -1]], ["i64"], "i32") == [63, 0]
    assert extern("__nv_byte_perm", [[0x33221100], [0x77665544], [0x0F47]], ["i32"] * 3, "i32") == [0x00774477]
    assert extern("__nv_mulhi", [[-1], [2]], ["i32"] * 2, "i32") == [-1]
    assert extern("__nv_umulhi", [[-1], [2]], ["i32"] * 2, "i32") == [1]
    assert extern("__nv_hadd", [[2**31 - 1], [2**31 - 1]], ["i32"] * 2, "i32") == [2**31 - 1]
    assert extern("__nv_sad", [[-5], [7], [1]], ["i32"] * 3, "i32") == [13]
    assert extern("__nv_abs", [[-(2**31), -3]], ["i32"], "i32") == [-(2**31), 3]


def test_bits() -> None:
    assert extern("__nv_float_as_int", [[1.0]], ["f32"], "i32") == [0x3F800000]
    assert extern("__nv_int_as_float", [[0x40000000]], ["i32"], "f32") == [2.0]
    assert extern("__nv_hiloint2double", [[0x3FF00000], [0]], ["i32"] * 2, "f64") == [1.0]
    assert extern("__nv_double2hiint", [[1.0]], ["f64"], "i32") == [0x3FF00000]


def test_explicit_roundings() -> None:
    one, tiny = np.float32(1), np.float32(2**-30)
    above, below = float(np.nextafter(one, np.float32(2))), float(np.nextafter(one, np.float32(0)))
    top = float(np.finfo(np.float32).max)

    def two(symbol: str, a: float, b: float) -> float:
        return extern(symbol, [[a], [b]], ["f32", "f32"], "f32")[0]

    assert [two(f"__nv_fadd_{m}", one, tiny) for m in ("rn", "rz", "rd", "ru")] == [1, 1, 1, above]
    assert [two(f"__nv_fsub_{m}", one, tiny) for m in ("rn", "rz", "rd", "ru")] == [1, below, below, 1]
    assert [two(f"__nv_fsub_{m}", -one, -tiny) for m in ("rn", "rz", "rd", "ru")] == [-1, -below, -1, -below]
    assert [two(f"__nv_fmul_{m}", top, 2.0) for m in ("rn", "rz", "rd", "ru")] == [np.inf, top, top, np.inf]
    assert [two(f"__nv_fdiv_{m}", 1.0, 0.0) for m in ("rn", "rz")] == [np.inf, np.inf]
    assert two("__nv_fdiv_rd", 1.0, 3.0) < two("__nv_fdiv_ru", 1.0, 3.0)
    assert np.signbit(two("__nv_fadd_rd", 1.0, -1.0)) and not np.signbit(two("__nv_fadd_rn", 1.0, -1.0))
    roots = [extern(f"__nv_dsqrt_{m}", [[2.0]], ["f64"], "f64")[0] for m in ("rd", "ru")]
    assert roots[0] < roots[1] == np.nextafter(roots[0], 2)
    assert [extern(f"__nv_float2int_{m}", [[2.5, -2.5]], ["f32"], "i32") for m in ("rn", "rz", "rd", "ru")] == [
        [2, -2],
        [2, -2],
        [2, -3],
        [3, -2],
    ]
    odd = 2**24 + 1
    assert [extern(f"__nv_int2float_{m}", [[odd]], ["i32"], "f32")[0] for m in ("rn", "rd", "ru")] == [
        2**24,
        2**24,
        2**24 + 2,
    ]
    assert extern("__nv_ull2float_rd", [[-1]], ["i64"], "f32") == [2.0**64 - 2**40]
    assert extern("__nv_double2float_ru", [[1e-60]], ["f64"], "f32") == [2.0**-149]
    assert extern("__nv_fmaf_rz", [[1 + 2**-23], [1 + 2**-23], [0.0]], ["f32"] * 3, "f32") == [1 + 2**-22]
