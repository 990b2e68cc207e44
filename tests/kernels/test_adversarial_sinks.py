"""Scans, sorts, gathers, histograms and joins of masked, shifted and kept tiles."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from three_ways import check  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")


def draw(n: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, n).astype(dtype)


@triton.jit
def in_place_sinks(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i, mask=i < n, other=4.0)
    c = tl.cumsum(v, 0)
    tl.store(x + i, c, mask=i < n + 3)
    r = tl.cumsum(v, 0, reverse=True)
    s = tl.sort(v)
    tl.store(x + N - 1 - i, s)
    f = tl.flip(v, 0)
    g = tl.gather(tl.load(x + i), (i * 5) % N, 0)
    h = tl.histogram((v + 9).to(tl.int32), 32, mask=i < n)
    tl.store(y + i, r + f)
    tl.store(y + N + i, g - c)
    tl.store(y + 2 * N + tl.arange(0, 32), h.to(tl.float32))


@pytest.mark.parametrize(("n", "size"), [(0, 32), (20, 32), (64, 64), (50, 64)])
def test_sinks_of_an_array_that_is_stored(n: int, size: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        x, y, i = a["x"], a["y"], np.arange(size)
        v = np.where(i < n, x, 4).astype(np.float32)
        c = np.cumsum(v)
        s = np.sort(v)
        x[:] = s[::-1]
        y[:size] = np.cumsum(v[::-1])[::-1] + v[::-1]
        y[size : 2 * size] = x[i * 5 % size] - c
        y[2 * size :] = np.bincount((v[:n] + 9).astype(int), minlength=32)

    make = lambda: {"x": draw(size), "y": np.zeros(2 * size + 32, np.float32), "n": n, "N": size}  # noqa: E731
    check(in_place_sinks, make, expect)


@triton.jit
def joined(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i, mask=i < n, other=1.0)
    b = tl.load(x + N + i, mask=i >= n, other=2.0)
    c = tl.interleave(a, b)
    k = tl.arange(0, 2 * N)
    tl.store(y + k, c, mask=tl.interleave(i < n, i >= n))
    d = tl.cat(a, b, can_reorder=True)
    tl.store(y + 2 * N, tl.sum(d, 0))
    m = tl.join(a, b)
    tl.store(y + 2 * N + 1 + i, tl.sum(m, 1))
    lo, hi = tl.split(tl.reshape(c, (N, 2)))
    tl.store(y + 3 * N + 1 + i, lo - hi, mask=lo > hi)
    q = tl.join(tl.join(a, b), tl.join(b, a))
    tl.store(y + 4 * N + 1 + tl.arange(0, 4 * N), tl.reshape(tl.trans(q, (2, 0, 1)), (4 * N,)))


@pytest.mark.parametrize(("n", "size"), [(0, 1), (1, 2), (3, 16), (20, 32), (64, 64), (50, 128)])
def test_joins(n: int, size: int) -> None:
    def expect(q: dict[str, Any]) -> None:
        x, y, i = q["x"], q["y"], np.arange(size)
        a, b = np.where(i < n, x[:size], 1), np.where(i >= n, x[size:], 2)
        c = np.stack([a, b], -1).ravel()
        m = np.stack([i < n, i >= n], -1).ravel()
        y[: 2 * size][m] = c[m]
        y[2 * size] = a.sum() + b.sum()
        y = y[2 * size + 1 :]
        y[:size] = a + b
        y[size : 2 * size][a > b] = (a - b)[a > b]
        ab, ba = np.stack([a, b], -1), np.stack([b, a], -1)
        y[2 * size :] = np.stack([ab, ba], -1).transpose(2, 0, 1).ravel()

    make = lambda: {"x": draw(2 * size), "y": np.zeros(8 * size + 1, np.float32), "n": n, "N": size}  # noqa: E731
    check(joined, make, expect)


@triton.jit
def narrow_loops(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    half = a
    acc = tl.zeros((N, N), tl.float32)
    for _ in range(n):
        acc = tl.dot(half, b, acc)
        half = (tl.trans(half) + a).to(a.dtype)
        acc = acc + tl.sum(half.to(tl.float32), 1)[None, :]
    tl.store(y + p, acc)
    tl.store(y + N * N + p, half.to(tl.float32))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_narrow_tiles_carried_beside_a_dot(dtype: Any, n: int) -> None:
    N = 32

    def expect(q: dict[str, Any]) -> None:
        a, b = (q[k].astype(np.float32).reshape(N, N) for k in "xw")
        half, acc = a, np.zeros((N, N), np.float32)
        for _ in range(n):
            acc = half @ b + acc
            half = half.T + a
            acc = acc + half.sum(1)
        q["y"][:] = np.concatenate([acc.ravel(), half.ravel()])

    def make() -> dict[str, Any]:
        x, w = (draw(N * N, dtype, seed) for seed in (1, 2))
        return {"x": x, "w": w, "y": np.zeros(2 * N * N, np.float32), "n": n, "N": N}

    check(narrow_loops, make, expect)
