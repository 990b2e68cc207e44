"""Blocks much longer than their rows: what lies beyond the bounds counts as if it had been computed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl
from tile_run import random, run

N = 512
BOUNDS = [0, 1, 31, 32, 33, 64, 100, 479, 480, 511, 512]


def row(dtype: str, seed: int) -> np.ndarray:
    return random(np.random.default_rng(seed), dtype, (N,))


@triton.jit
def kept(x, y, n, N: tl.constexpr, OTHER: tl.constexpr):
    """e is kept by the first sum; all of it is read again, also beyond n."""
    i = tl.arange(0, N)
    a = tl.load(x + i, mask=i < n, other=OTHER)
    e = tl.sqrt(a * a) / 3.0
    total = tl.sum(e, 0)
    tl.store(y + i, e / total)


@triton.jit
def centred(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=0.0)
    mean = tl.sum(a, 0) / n
    d = tl.where(inside, a - mean, 0.0)
    tl.store(y + i, d * tl.sum(d * d, 0), mask=inside)


@triton.jit
def products(x, y, n, N: tl.constexpr, OTHER: tl.constexpr):
    """Each chunk beyond n still changes what is carried."""
    i = tl.arange(0, N)
    a = tl.load(x + i, mask=i < n, other=OTHER)
    tl.store(y, tl.sum(a, 0))
    tl.store(y + 1, tl.max(a, 0))
    tl.store(y + 2, tl.xor_sum(a.to(tl.int32), 0).to(y.dtype.element_ty))
    tl.store(y + 3, tl.sum(tl.load(x + i, mask=i >= n, other=OTHER), 0))


@triton.jit
def placed(x, y, n, N: tl.constexpr):
    """What depends on the place goes on beyond n."""
    i = tl.arange(0, N)
    a = tl.load(x + i, mask=i < n, other=0)
    tl.store(y, tl.sum(a + i, 0).to(y.dtype.element_ty))
    tl.store(y + 1, tl.sum(tl.where(i < n, 0, i), 0).to(y.dtype.element_ty))
    tl.store(y + 2, tl.argmin(a, 0).to(y.dtype.element_ty))
    tl.store(y + 3, tl.sum(tl.where(i < n, a, tl.load(x + i)), 0).to(y.dtype.element_ty))


@triton.jit
def two_bounds(x, y, n, m, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i, mask=i < n, other=1)
    b = tl.load(x + i, mask=(i < m) & (n > 3), other=2)
    tl.store(y + i, a + b, mask=i < m)
    tl.store(y + N + i, tl.sum(a * b, 0).to(y.dtype.element_ty), mask=(i < n) & (i >= 5))


@pytest.mark.parametrize("n", BOUNDS)
@pytest.mark.parametrize("other", [0.0, 2.0, float("-inf")])
def test_what_is_kept_beyond(n: int, other: float) -> None:
    run(kept, row("float32", n), np.zeros(N, np.float32), n, N=N, OTHER=other)


@pytest.mark.parametrize("n", BOUNDS[1:])
def test_two_passes(n: int) -> None:
    run(centred, row("float32", n), np.zeros(N, np.float32), n, N=N)


@pytest.mark.parametrize("n", BOUNDS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int64"])
@pytest.mark.parametrize("other", [0, -0.0, 3])
def test_each_chunk_beyond_counts(n: int, dtype: str, other: float) -> None:
    x = row(dtype, n)
    if other == 0:
        x[:] = -x * 0
    run(products, x, np.zeros(4, x.dtype), n, N=N, OTHER=other)


@pytest.mark.parametrize("n", BOUNDS)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_what_depends_on_the_place(n: int, dtype: str) -> None:
    run(placed, row(dtype, n), np.zeros(4, dtype), n, N=N)


@pytest.mark.parametrize(("n", "m"), [(0, 512), (512, 0), (40, 300), (300, 40), (-7, 33), (65, 9000)])
def test_two_bounds(n: int, m: int) -> None:
    run(two_bounds, row("int32", 3), np.zeros(2 * N, np.int32), n, m, N=N)


@triton.jit
def wrapping(x, y, start, n, N: tl.constexpr):
    i = start + tl.arange(0, N)
    a = tl.load(x + tl.arange(0, N), mask=i < n, other=5)
    tl.store(y, tl.sum(a, 0))
    tl.store(y + 1 + tl.arange(0, N), a, mask=i < n)


@pytest.mark.parametrize("start", [0, 2**31 - 100, -(2**31)])
@pytest.mark.parametrize("n", [100, -100, 2**31 - 1, -(2**31) + 40])
def test_places_that_wrap(start: int, n: int) -> None:
    run(wrapping, row("int32", 3), np.zeros(1 + N, np.int32), start, n, N=N)


@triton.jit
def between(x, y, low, high, on, N: tl.constexpr):
    """Chunks that begin and end at a bound: nothing outside is touched, and the place of each lane is its own."""
    i = tl.arange(0, N)
    inside = (i >= low) & (high > i) & (on > 0)
    a = tl.load(x + i, mask=inside, other=7)
    tl.store(y + 1 + i, a * 2 + i.to(a.dtype), mask=inside)


@triton.jit
def in_place(x, low, high, N: tl.constexpr):
    """Each element once."""
    i = tl.arange(0, N)
    inside = (i >= low) & (i < high)
    tl.store(x + i, tl.load(x + i, mask=inside) + 1, mask=inside)


@triton.jit
def framed(x, y, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    """Bounds in both dimensions, rows that are all off among them, and a load whose mask is narrower."""
    r, c = tl.arange(0, BR)[:, None], tl.arange(0, BC)[None, :]
    inside = (r > 0) & (r < rows - 1) & (c > 0) & (c < cols - 1)
    at = r * BC + c
    left = tl.load(x + at - 1, mask=inside & (c > 2), other=0.5)
    tl.store(y + at, tl.load(x + at, mask=inside) + left, mask=inside)


RANGES = [(0, 512), (1, 511), (0, 33), (17, 49), (17, 48), (31, 64), (5, 300), (200, 231), (-3, 700), (40, 40), (90, 3)]


@pytest.mark.parametrize(("low", "high"), RANGES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8"])
def test_between_bounds(low: int, high: int, dtype: str) -> None:
    for on in (0, 1):
        run(between, row(dtype, high), np.full(N + 9, 3, dtype), low, high, on, N=N)


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_between_bounds_in_place(low: int, high: int) -> None:
    run(in_place, row("float32", high), low, high, N=N)


@pytest.mark.parametrize(("rows", "cols"), [(8, 64), (7, 61), (8, 35), (8, 34), (3, 40), (2, 64), (9, 70)])
def test_a_frame(rows: int, cols: int) -> None:
    x = random(np.random.default_rng(cols), "float32", (1 + 8 * 64,))
    run(framed, x[1:], np.full(8 * 64, 3, np.float32), rows, cols, BR=8, BC=64)


@triton.jit
def wrapping_frame(x, y, start, low, high, N: tl.constexpr):
    i = start + tl.arange(0, N)
    inside = (i > low) & (i < high)
    a = tl.load(x + tl.arange(0, N), mask=inside, other=5)
    tl.store(y + tl.arange(0, N), a, mask=inside)


@pytest.mark.parametrize("start", [0, 2**31 - 100, 2**31 - N, -(2**31)])
@pytest.mark.parametrize(("low", "high"), [(-100, 100), (-(2**31), 2**31 - 1), (2**31 - 90, 2**31 - 1), (40, -(2**31))])
def test_bounds_on_places_that_wrap(start: int, low: int, high: int) -> None:
    run(wrapping_frame, row("int32", 3), np.zeros(N, np.int32), start, low, high, N=N)
