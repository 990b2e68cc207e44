"""Finds the polynomials of `omnikernel.lower.polynomials_*`: weighted fits, coefficients rounded one by one.

    python tools/minimax.py [NAME ...]

Prints each table as Python source with the largest error of the rounded polynomial, relative to the function (exact
arithmetic). The method: a least-squares fit at Chebyshev points in 60-digit arithmetic, with weights moved toward the
largest errors (Lawson's iteration), which ends close to the minimax polynomial. Round the coefficient of the lowest power to the format, fix it, solve for the others again, and so on. The last coefficients
then absorb the rounding of the first, which matter most.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import mpmath as mp

Real = Any
mp.mp.dps = 60


@dataclass(frozen=True)
class Fit:
    """target(x) is approximated by sum c_k x^k over `powers` on [low, high]; the error is divided by scale(x)."""

    target: Callable[[Real], Real]
    scale: Callable[[Real], Real]
    powers: Sequence[int]
    low: Real
    high: Real
    bits: int  # 24 for f32, 53 for f64


def solve(fit: Fit, powers: Sequence[int], fixed: dict[int, Real], rounds: int = 8) -> list[Real]:
    """Nearly minimax coefficients of the given powers, the others being fixed."""
    middle, half, count = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2, 8 * len(fit.powers) + 40
    points = [middle - half * mp.cos(mp.pi * (i + mp.mpf("0.5")) / count) for i in range(count)]
    scales = [fit.scale(x) for x in points]
    wanted = [
        (fit.target(x) - sum(c * x**k for k, c in fixed.items())) / s for x, s in zip(points, scales, strict=True)
    ]
    rows = [[x**k / s for k in powers] for x, s in zip(points, scales, strict=True)]
    weights = [mp.mpf(1)] * count
    coefficients: list[Real] = []
    for _ in range(rounds):
        size = len(powers)
        normal, right = mp.matrix(size, size), mp.matrix(size, 1)
        for row, want, weight in zip(rows, wanted, weights, strict=True):
            for i in range(size):
                right[i] += weight * row[i] * want
                for j in range(i + 1):
                    normal[i, j] += weight * row[i] * row[j]
        for i in range(size):
            for j in range(i):
                normal[j, i] = normal[i, j]
        coefficients = list(mp.lu_solve(normal, right))
        errors = [
            abs(want - sum(c * r for c, r in zip(coefficients, row, strict=True)))
            for row, want in zip(rows, wanted, strict=True)
        ]
        most = max(errors)
        weights = [w * (e / most + mp.mpf("0.05")) for w, e in zip(weights, errors, strict=True)]
    return coefficients


def rounded(value: Real, bits: int) -> Real:
    with mp.workprec(bits):
        return +value


def fit(task: Fit) -> tuple[dict[int, Real], Real]:
    """Coefficients by power, rounded to the format, and the largest relative error."""
    fixed: dict[int, Real] = {}
    powers = list(task.powers)
    while powers:
        coefficients = solve(task, powers, fixed)
        fixed[powers[0]] = rounded(coefficients[0], task.bits)
        powers = powers[1:]
    grid = [task.low + (task.high - task.low) * i / 1000 for i in range(1001)]
    error = max(
        abs((task.target(x) - sum(c * x**k for k, c in fixed.items())) / task.scale(x)) for x in grid if abs(x) > 1e-12
    )
    return fixed, error


LN2, SQRT2 = mp.log(2), mp.sqrt(2)
# From sqrt(1/2) to 3/2: both ways to choose the exponent, [sqrt(1/2), sqrt(2)) and [3/4, 3/2).
LOG_LOW, LOG_HIGH = 1 / SQRT2 - 1, mp.mpf("0.5")


def _log_s(s: Real) -> Real:
    """log((1 + s) / (1 - s)), of which log(1 + f) with s = f / (2 + f) is one."""
    return mp.log((1 + s) / (1 - s))


@cache
def _erfcx(q: Real) -> Real:
    """(1 + 2 x) exp(x^2) erfc(x) at x = 4 (1 + q) / (1 - q)."""
    x = 4 * (1 + q) / (1 - q)
    if x > 100:  # the asymptotic series
        series = sum((-1) ** n * mp.fac2(2 * n - 1) / (2 * x * x) ** n for n in range(12))
        return (1 + 2 * x) / (x * mp.sqrt(mp.pi)) * series
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def _log_erfc(x: Real) -> Real:
    """log(erfc(x)), by the asymptotic series where erfc itself would need hundreds of digits."""
    if x < 9:
        return mp.log(mp.erfc(x))
    series = sum((-1) ** n * mp.fac2(2 * n - 1) / (2 * x * x) ** n for n in range(30))
    return -x * x - mp.log(x * mp.sqrt(mp.pi)) + mp.log(series)


@cache
def _erfinv(w: Real) -> Real:
    """erfinv(y) / y at y = sqrt(1 - exp(-w))."""
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    with mp.workdps(120):
        y = mp.sqrt(1 - mp.exp(-w))
        aim = -w - mp.log(1 + y)  # log(1 - y)
        guess = mp.sqrt(w - mp.log(w * mp.pi) / 2) if w > 4 else y
        for _ in range(8):  # Newton on log(erfc), which keeps the digits of the tail
            error = _log_erfc(guess) - aim
            guess += error * mp.exp(_log_erfc(guess) + guess * guess) * mp.sqrt(mp.pi) / 2
        return guess / y


@cache
def _bessel(order: int, u: Real) -> Real:
    """sqrt(x) exp(-x) I_order(x) at x = 8 / (u + 1/2)."""
    x = 8 / (u + mp.mpf("0.5"))
    return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)


S_HIGH = max(LOG_HIGH / (2 + LOG_HIGH), -LOG_LOW / (2 + LOG_LOW))
# Each target has its leading terms taken away, so that these are exact in the polynomial: see the docstrings there.
TASKS = {
    # exp(r) = 1 + r + r^2 P(r)
    "EXP_F32": Fit(lambda r: mp.exp(r) - 1 - r, mp.exp, range(2, 7), -LN2 / 2, LN2 / 2, 24),
    "EXP_F64": Fit(lambda r: mp.exp(r) - 1 - r, mp.exp, range(2, 12), -LN2 / 2, LN2 / 2, 53),
    # exp2(r) = 1 + r P(r)
    "EXP2_F32": Fit(lambda r: mp.mpf(2) ** r - 1, lambda r: mp.mpf(2) ** r, range(1, 7), mp.mpf(-0.5), mp.mpf(0.5), 24),
    # log(1 + f) = f - f^2/2 + f^3 P(f)
    "LOG_F32": Fit(
        lambda f: mp.log(1 + f) - f + f * f / 2, lambda f: mp.log(1 + f), range(3, 12), LOG_LOW, LOG_HIGH, 24
    ),
    # log(1 + f) = 2 s + s^3 P(s^2), s = f / (2 + f)
    "LOG_F64": Fit(lambda s: _log_s(s) - 2 * s, _log_s, range(3, 19, 2), mp.mpf(0), S_HIGH, 53),
    # sin(r) = r + r^3 P(r^2); cos(r) = 1 - r^2/2 + r^4 P(r^2)
    "SIN_F32": Fit(lambda r: mp.sin(r) - r, mp.sin, range(3, 10, 2), mp.mpf(0), mp.pi / 4, 24),
    "COS_F32": Fit(lambda r: mp.cos(r) - 1 + r * r / 2, mp.cos, range(4, 9, 2), mp.mpf(0), mp.pi / 4, 24),
    "SIN_F64": Fit(lambda r: mp.sin(r) - r, mp.sin, range(3, 15, 2), mp.mpf(0), mp.pi / 4, 53),
    "COS_F64": Fit(lambda r: mp.cos(r) - 1 + r * r / 2, mp.cos, range(4, 15, 2), mp.mpf(0), mp.pi / 4, 53),
    # tanh(x) = x + x^3 P(x^2)
    "TANH_F32": Fit(lambda x: mp.tanh(x) - x, mp.tanh, range(3, 14, 2), mp.mpf(0), mp.mpf("0.55"), 24),
    # erf(x) = x + x P(x^2) for x < 1.125
    "ERF_SMALL_F32": Fit(lambda x: mp.erf(x) - x, mp.erf, range(1, 14, 2), mp.mpf(0), mp.mpf("1.125"), 24),
    # erf(x) = 1 - Q(x)^4 for 1.125 <= x < 4; an error of Q counts 4 Q^3 times
    "ERF_LARGE_F32": Fit(
        lambda x: mp.erfc(x) ** 0.25, lambda x: mp.erfc(x) ** -0.75 / 4, range(0, 8), mp.mpf("1.125"), mp.mpf(4), 24
    ),
    # For f32 functions computed in f64: 2^-32 is enough.
    # atan(z) = z + z^3 P(z^2)
    "ATAN": Fit(lambda z: mp.atan(z) - z, mp.atan, range(3, 26, 2), mp.mpf(0), mp.mpf(1), 53),
    # (1 + 2 x) exp(x^2) erfc(x) = P((x - 4) / (x + 4))
    "ERFCX": Fit(_erfcx, _erfcx, range(0, 18), mp.mpf(-1), mp.mpf("0.9999"), 53),
    # erfinv(y) = y P(w - 2.5), w = -log(1 - y^2) < 5; y P(w - 10.5) for w < 16; y P(sqrt(w) - 7) for w < 110;
    # y P(sqrt(w) - 19) above
    "ERFINV_SMALL": Fit(lambda w: _erfinv(w + 2.5), lambda w: mp.mpf(1), range(0, 15), mp.mpf(-2.5), mp.mpf(2.5), 53),
    "ERFINV_MIDDLE": Fit(
        lambda w: _erfinv(w + 10.5), lambda w: mp.mpf(1), range(0, 15), mp.mpf("-5.5"), mp.mpf("5.5"), 53
    ),
    "ERFINV_LARGE": Fit(
        lambda s: _erfinv((s + 7) ** 2), lambda s: s + 7, range(0, 15), mp.mpf("-3"), mp.mpf("3.5"), 53
    ),
    "ERFINV_HUGE": Fit(lambda s: _erfinv((s + 19) ** 2), lambda s: s + 19, range(0, 12), mp.mpf("-9"), mp.mpf("9"), 53),
    "ERFCX_F64": Fit(_erfcx, _erfcx, range(0, 31), mp.mpf(-1), mp.mpf("0.9999"), 53),
    # I_0(x) = exp(x) / sqrt(x) P(8 / x - 0.5) for x > 8, and I_1 alike
    "I0_LARGE": Fit(
        lambda u: _bessel(0, u), lambda u: _bessel(0, u), range(0, 22), mp.mpf("-0.4999"), mp.mpf("0.5"), 53
    ),
    "I1_LARGE": Fit(
        lambda u: _bessel(1, u), lambda u: _bessel(1, u), range(0, 22), mp.mpf("-0.4999"), mp.mpf("0.5"), 53
    ),
}


def main() -> None:
    for name in sys.argv[1:] or TASKS:
        coefficients, error = fit(TASKS[name])
        print(f"{name} = (  # relative error {mp.nstr(error, 3)} = 2^{mp.nstr(mp.log(error, 2), 4)}")
        for power, value in coefficients.items():
            print(f"    {float(value)!r},  # x^{power}")
        print(")", flush=True)


if __name__ == "__main__":
    main()
