"""Reductions of tiles: over the outer axis in groups of rows, and with masks inside the region."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl
from tile_run import random, run


@triton.jit
def over_rows(x, y, rows, cols, R: tl.constexpr, C: tl.constexpr, KIND: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    a = tl.load(x + r * C + c, mask=(r < rows) & (c < cols), other=0)
    if KIND == "sum":
        made = tl.sum(a, 0)
    elif KIND == "max":
        made = tl.max(a, 0)
    elif KIND == "xor":
        made = tl.xor_sum(a, 0)
    else:
        made = tl.argmin(a, 0)
    tl.store(y + tl.arange(0, C), made.to(y.dtype.element_ty))


INTS, FLOATS = ["int8", "int32", "int64"], ["float32", "float16", "bfloat16", "float64"]
OVER_ROWS = [*itertools.product(["sum", "max", "argmin"], [*FLOATS, *INTS]), *itertools.product(["xor"], INTS)]


@pytest.mark.parametrize(("kind", "dtype"), OVER_ROWS)
@pytest.mark.parametrize(("rows", "cols"), [(32, 128), (13, 77), (8, 33)])
def test_over_rows(kind: str, dtype: str, rows: int, cols: int) -> None:
    x = random(np.random.default_rng(rows), dtype, (32, 128))
    if "float" in dtype:
        x[5, 7], x[3, 9], x[:, 11] = np.nan, -np.inf, -0.0
    run(over_rows, x, np.zeros(128, x.dtype), rows, cols, R=32, C=128, KIND=kind)


@triton.jit
def along(x, y, cols, R: tl.constexpr, C: tl.constexpr):
    c = tl.arange(0, C)
    a = tl.load(x + tl.program_id(0) * C + c, mask=c < cols, other=float("-inf"))
    best, at = tl.max(a, 0, return_indices=True)
    last = tl.argmin(a, 0, tie_break_left=False)
    tl.store(y + tl.program_id(0) * 4, best)
    tl.store(y + tl.program_id(0) * 4 + 1, at)
    tl.store(y + tl.program_id(0) * 4 + 2, last)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("cols", [5, 32, 100, 256])
def test_positions_of_extremes(dtype: str, cols: int) -> None:
    x = np.random.default_rng(cols).integers(-3, 3, (6, 256)).astype(dtype)
    x[2], x[3, 40], x[4, :] = -np.inf, np.nan, np.nan
    run(along, x, np.zeros((6, 4), np.float64), cols, grid=(6, 1, 1), R=1, C=256)


@triton.jit
def greater(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def lesser(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def both(a, b, c, d):
    return tl.maximum(a, c), lesser(b, d)


@triton.jit
def extremes(x, y, C: tl.constexpr):
    a = tl.load(x + tl.program_id(0) * C + tl.arange(0, C))
    at = y + tl.program_id(0) * 6
    tl.store(at, tl.max(a, 0))
    tl.store(at + 1, tl.min(a, 0))
    tl.store(at + 2, tl.reduce(a, 0, greater))
    tl.store(at + 3, tl.reduce(a, 0, lesser))
    most, least = tl.reduce((a, -a), 0, both)
    tl.store(at + 4, most)
    tl.store(at + 5, least)


def special_rows(dtype: str, cols: int) -> np.ndarray:
    """Rows of zeros of both signs, infinities, NaN of both signs, and numbers with some of them among them."""
    rng = np.random.default_rng(cols)
    x = random(rng, dtype, (20, cols))
    kinds = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan]
    for row, value in enumerate(kinds):
        x[row] = value
        x[6 + row, rng.integers(cols)] = value
    x[12], x[12, cols // 2] = -np.inf, np.nan
    x[13], x[13, -1] = -0.0, 0.0
    x[14], x[14, 0] = 0.0, -0.0
    x[15] = np.where(np.arange(cols) % 2, np.nan, -1.0)
    x[16], x[16, -1] = np.nan, 2.0
    return x


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("cols", [2, 32, 256])
def test_extremes_of_special_values(dtype: str, cols: int) -> None:
    x = special_rows(dtype, cols)
    run(extremes, x, np.zeros((20, 6), x.dtype), grid=(20, 1, 1), C=cols)
