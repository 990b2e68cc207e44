"""What a clamp gives for NaN, as an H200 has it: the lower bound, but the upper one for bounds of one size."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from three_ways import check  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")


@triton.jit
def clamps(x, h, o, L, H, F: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    limit = tl.load(h + i)
    if F == 0:
        r = tl.clamp(v, -1.5, 1.5)
    elif F == 1:
        r = tl.clamp(v, -1.0, 2.0)
    elif F == 2:
        r = tl.clamp(v, -limit, limit)
    elif F == 3:
        r = tl.clamp(v, -H, H)
    elif F == 4:
        r = tl.clamp(v, L, H)
    else:
        r = tl.clamp(v, -1.5, 1.5, propagate_nan=tl.PropagateNan.ALL)
    tl.store(o + i, r)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", range(6))
def test_bounds(form: int, dtype: Any) -> None:
    N = 16
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-3, -7, 7] * 2).astype(dtype)
    limit = np.linspace(0.5, 3, N).astype(dtype)
    bounds = [(-1.5, 1.5), (-1.0, 2.0), (-limit, limit), (-1.25, 1.25), (-1.25, 1.25), (-1.5, 1.5)]
    low, high = (np.broadcast_to(np.asarray(b).astype(np.float64), N) for b in bounds[form])
    is_high = form == 0 or (form == 2 and dtype is not ml_dtypes.bfloat16)
    of_nan = np.full(N, np.nan) if form == 5 else high if is_high else low

    def expect(q: dict[str, Any]) -> None:
        wide = x.astype(np.float64)
        q["o"][:] = np.where(np.isnan(wide), of_nan, np.clip(wide, low, high)).astype(dtype)

    named = {"L": -1.25, "H": 1.25, "F": form, "N": N}
    check(clamps, lambda: {"x": x.copy(), "h": limit.copy(), "o": np.zeros(N, dtype), **named}, expect)
