"""How a math function is compared with its exact values: mpmath's, in long double, in ulp of the result's type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from elementwise_jit import run

from omnikernel.lower.math import MATH

INF, NAN = math.inf, math.nan

# mpmath does not know -0.
ZEROS = {"sinpi", "cospi"}


def mp_function(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """An mpmath function over arrays, rounded to long double; NaN where mpmath has no real value."""

    def one(*values: Any) -> np.longdouble:
        try:
            value = function(*(mpmath.mpf(float(v)) for v in values))
        except (ValueError, ZeroDivisionError, mpmath.libmp.NoConvergence):
            return np.longdouble(NAN)
        if isinstance(value, mpmath.mpc):
            return np.longdouble(NAN)
        high = float(value)
        return np.longdouble(high) + (np.longdouble(float(value - high)) if math.isfinite(high) else 0)

    def many(*arrays: np.ndarray) -> np.ndarray:
        with mpmath.workdps(40):
            return np.array([one(*row) for row in zip(*arrays, strict=True)], np.longdouble)

    return many


def ulp_error(got: np.ndarray, exact: np.ndarray, signed_zero: bool = True) -> np.ndarray:
    """Distance in ulp of the result's type; infinite where NaN, infinity or (if asked) the sign of zero differs."""
    dtype = got.dtype
    with np.errstate(all="ignore"):
        want = exact.astype(dtype)
        error = np.abs(got.astype(np.longdouble) - exact) / np.spacing(np.abs(want)).astype(np.longdouble)
        special = ~np.isfinite(want) | ~np.isfinite(got)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        error = np.where(special, np.where(same, 0, INF), error)
        both_zero = (got == 0) & (want == 0)
        return np.where(signed_zero & both_zero & (np.signbit(got) != np.signbit(want)), INF, error)


def check(name: str, kind: str, inputs: list[np.ndarray], exact: np.ndarray, target: str, lanes: int) -> None:
    bound = MATH[name].ulp[kind]
    symbol = f"__nv_{name}{'f' if kind == 'f32' else ''}"
    (got,) = run("tt.extern_elementwise", inputs, [kind], lanes, target, symbol=symbol)
    error = ulp_error(got, exact, signed_zero=name not in ZEROS)
    worst = int(np.argmax(error))
    at = [x[worst] for x in inputs]
    text = f"{name} {kind} {target}: {error[worst]} ulp at {at}: got {got[worst]!r}, want {exact[worst]!r}"
    # The references' own error is part of the measured distance.
    assert error[worst] <= max(bound, 0.5) + 0.02, text
