"""Reductions: every axis and extent, types, several operands, ragged rows, chains."""

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
    """Small whole numbers, so that sums are exact in any order and ties are common."""
    return np.random.default_rng(seed).integers(-3, 4, n).astype(dtype)


@triton.jit
def along(x, y, z, AXIS: tl.constexpr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, A)[:, None, None]
    j = tl.arange(0, B)[None, :, None]
    k = tl.arange(0, C)[None, None, :]
    p = i * B * C + j * C + k
    v = tl.load(x + p)
    s = tl.sum(v, AXIS)
    m = tl.max(v, AXIS)
    at = tl.argmin(v, AXIS)
    if AXIS == 0:
        o = tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :]
        n: tl.constexpr = B * C
    elif AXIS == 1:
        o = tl.arange(0, A)[:, None] * C + tl.arange(0, C)[None, :]
        n: tl.constexpr = A * C
    else:
        o = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
        n: tl.constexpr = A * B
    tl.store(y + o, s)
    tl.store(y + n + o, m)
    tl.store(z + o, at)
    tl.store(y + 2 * n + p, v - tl.expand_dims(s, AXIS) + tl.expand_dims(at, AXIS).to(tl.float32))


@pytest.mark.parametrize("shape", [(4, 8, 64), (1, 2, 128), (2, 1, 1), (64, 4, 2), (2, 128, 1), (1, 1, 1), (1, 64, 4)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_axis(shape: tuple[int, int, int], axis: int) -> None:
    size = int(np.prod(shape))

    def make() -> dict[str, Any]:
        n = size // shape[axis]
        y, z = np.zeros(2 * n + size, np.float32), np.zeros(n, np.int32)
        return {"x": draw(size), "y": y, "z": z, "AXIS": axis, **dict(zip("ABC", shape, strict=True))}

    def expect(a: dict[str, Any]) -> None:
        v = a["x"].reshape(shape)
        s, m, at = v.sum(axis), v.max(axis), v.argmin(axis)
        rest = v - np.expand_dims(s, axis) + np.expand_dims(at, axis)
        a["y"][:] = np.concatenate([s.ravel(), m.ravel(), rest.ravel()])
        a["z"][:] = at.ravel()

    check(along, make, expect)


@triton.jit
def of_type(x, y, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(y, tl.max(v, 0))
    tl.store(y + 1, tl.min(v, 0))
    tl.store(y + 2, tl.sum(v, 0).to(y.dtype.element_ty))
    tl.store(y + 3, tl.argmax(v, 0).to(y.dtype.element_ty))
    tl.store(y + 4, tl.argmin(v, 0).to(y.dtype.element_ty))


TYPES = [
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32,
    np.float64, ml_dtypes.bfloat16,
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 8, 32, 64, 128])
def test_types(dtype: Any, n: int) -> None:
    def data() -> np.ndarray:
        x = draw(n, np.int64, n)
        return (x + 3 if np.dtype(dtype).kind == "u" else x).astype(dtype)

    def expect(a: dict[str, Any]) -> None:
        x = a["x"].astype(np.float64)
        a["y"][:] = np.array([x.max(), x.min(), x.sum(), x.argmax(), x.argmin()]).astype(dtype)

    check(of_type, lambda: {"x": data(), "y": np.zeros(5, dtype), "N": n}, expect)


@triton.jit
def flags(x, y, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    b = v > 1
    tl.store(y, tl.sum(b.to(tl.int32), 0))
    tl.store(y + 1, tl.max(b.to(tl.int32), 0))
    tl.store(y + 2, tl.reduce_or(b, 0))
    tl.store(y + 3, tl.xor_sum(v.to(tl.int32), 0))
    tl.store(y + 4, tl.sum(v > 100, 0))


@pytest.mark.parametrize("n", [1, 2, 64, 128])
def test_flags(n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        x = a["x"]
        b = x > 1
        a["y"][:] = [b.sum(), b.max(), b.any(), np.bitwise_xor.reduce(x.astype(np.int32)), 0]

    check(flags, lambda: {"x": draw(n), "y": np.zeros(5, np.int32), "N": n}, expect)


@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    share = tl.where(n == 0, 0.0, n_b / n)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * n_a * share, n


@triton.jit
def larger_by_key(key_a, value_a, key_b, value_b):
    if key_a > key_b:
        key = key_a
        value = value_a
    else:
        key = key_b
        value = value_b
    return key, value


@triton.jit
def custom(x, y, n, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, N)[None, :]
    inside = (j < n) & (i >= 0)
    v = tl.load(x + i * N + j, mask=inside, other=0.0)
    mean, m2, count = tl.reduce((v, tl.zeros_like(v), inside.to(tl.float32)), 1, welford)
    tl.store(y + tl.arange(0, M), mean)
    tl.store(y + M + tl.arange(0, M), m2)
    tl.store(y + 2 * M + tl.arange(0, M), count)
    key, _ = tl.reduce((v, (i * N + j).to(tl.float32)), 1, larger_by_key)
    tl.store(y + 3 * M + tl.arange(0, M), key)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 64])
def test_custom_combinations(n: int) -> None:
    m, width = 4, 64

    def expect(a: dict[str, Any]) -> None:
        x = a["x"].reshape(m, width)
        v = np.where(np.arange(width) < n, x, 0)
        part, y = x[:, :n].astype(np.float64), a["y"].reshape(4, m)
        y[0] = part.mean(1) if n else 0
        y[1] = ((part - y[0][:, None]) ** 2).sum(1) if n else 0
        y[2], y[3] = n, v.max(1)

    def make() -> dict[str, Any]:
        return {"x": draw(m * width), "y": np.zeros(4 * m, np.float32), "n": n, "M": m, "N": width}

    check(custom, make, expect, rtol=1e-5, atol=1e-5)


@triton.jit
def ragged_softmax(x, y, lens, N: tl.constexpr):
    row = tl.program_id(0)
    n = tl.load(lens + row)
    j = tl.arange(0, N)
    v = tl.load(x + row * N + j, mask=j < n, other=-float("inf"))
    top = tl.max(v, 0)
    e = tl.exp(v - top)
    total = tl.sum(e, 0)
    tl.store(y + row * N + j, e / total, mask=j < n)
    low = tl.min(tl.where(j < n, v, 1e9), 0)
    count = tl.sum((v == top).to(tl.int32) & (j < n).to(tl.int32), 0)
    tl.store(y + row * N + j, low + count, mask=(j >= n) & (j < n + 2))


def test_ragged_rows() -> None:
    n = 1024
    lens = np.array([0, 1, 31, 32, 33, 1023, 1024], np.int32)

    def expect(a: dict[str, Any]) -> None:
        x, y = a["x"].reshape(len(lens), n), a["y"].reshape(len(lens), n)
        for row, length in enumerate(lens):
            v = x[row, :length].astype(np.float64)
            if length:
                e = np.exp(v - v.max())
                y[row, :length] = e / e.sum()
            y[row, length : length + 2] = v.min() + (v == v.max()).sum() if length else 1e9

    def make() -> dict[str, Any]:
        size = len(lens) * n
        return {"x": draw(size), "y": np.zeros(size, np.float32), "lens": lens, "N": n}

    check(ragged_softmax, make, expect, grid=(len(lens),), rtol=2e-6, atol=1e-7)


@triton.jit
def chain(x, y, M: tl.constexpr, N: tl.constexpr):
    p = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + p)
    rows = tl.sum(v, 1)
    centred = v - rows[:, None]
    cols = tl.max(centred, 0)
    scaled = centred * cols[None, :]
    total = tl.sum(tl.sum(scaled, 0) * cols, 0)
    turned = tl.sum(tl.trans(scaled), 0)
    flat = tl.max(tl.reshape(scaled, (M * N,)), 0)
    best = tl.argmax(tl.reshape(scaled, (N, M)), 1)
    tl.store(y + p, scaled + total + turned[:, None] + flat)
    tl.store(y + M * N + tl.arange(0, N), best)
    tl.store(y + M * N + N, tl.sum(v))


@pytest.mark.parametrize(("m", "n"), [(4, 64), (64, 4), (1, 32), (32, 1), (16, 16), (2, 128)])
def test_chains(m: int, n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        v = a["x"].reshape(m, n)
        centred = v - v.sum(1)[:, None]
        cols = centred.max(0)
        scaled = centred * cols
        total = (scaled.sum(0) * cols).sum()
        y = a["y"]
        y[: m * n] = (scaled + total + scaled.sum(1)[:, None] + scaled.max()).ravel()
        y[m * n : m * n + n] = scaled.reshape(n, m).argmax(1)
        y[m * n + n] = v.sum()

    check(chain, lambda: {"x": draw(m * n), "y": np.zeros(m * n + n + 1, np.float32), "M": m, "N": n}, expect)
