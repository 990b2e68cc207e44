"""Ops that move elements, and those that find elements by others, against the reference and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl
from tile_run import random, run

EVERY = ["bool", "int8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "float8_e5m2"]


@triton.jit
def join_and_split(x, y, z, p, q, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    a, b = tl.load(x + at), tl.load(y + at)
    j = tl.join(a, b)
    pairs = at[:, :, None] * 2 + tl.arange(0, 2)[None, None, :]
    tl.store(z + pairs, j)
    c, d = tl.split(j)
    tl.store(p + at, d)
    tl.store(q + at, c)


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("shape", [(4, 32), (1, 1), (2, 64)], ids=str)
def test_join_and_split(dtype: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    x, y = random(rng, dtype, shape), random(rng, dtype, shape)
    z = np.zeros((*shape, 2), x.dtype)
    _, _, z, p, q = run(join_and_split, x, y, z, np.zeros_like(x), np.zeros_like(x), N=shape[0], M=shape[1])
    np.testing.assert_array_equal(z.view(f"u{x.dtype.itemsize}"), np.stack([x, y], -1).view(f"u{x.dtype.itemsize}"))
    assert p.tobytes() == y.tobytes() and q.tobytes() == x.tobytes()


@triton.jit
def interleaved(x, y, z, n, N: tl.constexpr):
    at = tl.arange(0, N)
    a = tl.load(x + at, mask=at < n, other=0)
    b = tl.load(y + at, mask=at < n, other=1)
    tl.store(z + tl.arange(0, 2 * N), tl.interleave(a * 2, b + 1))


@pytest.mark.parametrize("dtype", ["int16", "float32", "bfloat16"])
@pytest.mark.parametrize("size", [1, 4, 32, 128])
def test_interleave(dtype: str, size: int) -> None:
    rng = np.random.default_rng(2)
    x, y = random(rng, dtype, [size]), random(rng, dtype, [size])
    n = max(1, size - 3)
    *_, z = run(interleaved, x, y, np.zeros(2 * size, x.dtype), n, N=size)
    a, b = np.where(np.arange(size) < n, x, x.dtype.type(0)), np.where(np.arange(size) < n, y, y.dtype.type(1))
    want = np.stack([a * x.dtype.type(2), b + x.dtype.type(1)], 1).reshape(-1)
    np.testing.assert_array_equal(z, want.astype(x.dtype))


@triton.jit
def interleaved_2d(x, y, z, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    wide = tl.arange(0, N)[:, None] * (2 * M) + tl.arange(0, 2 * M)[None, :]
    tl.store(z + wide, tl.interleave(tl.load(x + at), tl.load(y + at)))


def test_interleave_rows() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 4, 16)).astype(np.float32)
    *_, z = run(interleaved_2d, x, y, np.zeros((4, 32), np.float32), N=4, M=16)
    np.testing.assert_array_equal(z, np.stack([x, y], -1).reshape(4, 32))


@triton.jit
def complex_product(x, y, z, N: tl.constexpr):
    at = tl.arange(0, 2 * N)
    a, b = tl.split(tl.reshape(tl.load(x + at), (N, 2)))
    c, d = tl.split(tl.reshape(tl.load(y + at), (N, 2)))
    tl.store(z + at, tl.interleave(a * c - b * d, a * d + b * c))


@pytest.mark.parametrize("size", [4, 64, 256])
def test_complex_numbers(size: int) -> None:
    rng = np.random.default_rng(4)
    x, y = (rng.normal(size=2 * size).astype(np.float32) for _ in range(2))
    *_, z = run(complex_product, x, y, np.zeros_like(x), N=size)
    want = x.view(np.complex64) * y.view(np.complex64)
    np.testing.assert_allclose(z.view(np.complex64), want, rtol=1e-5, atol=1e-6)


@triton.jit
def concatenated(x, y, z, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(z + tl.arange(0, 2 * N), tl.cat(tl.load(x + at) + 1, tl.load(y + at), can_reorder=True))


@pytest.mark.parametrize("size", [1, 2, 16, 32, 128])
@pytest.mark.parametrize("dtype", ["int32", "float16"])
def test_cat(dtype: str, size: int) -> None:
    rng = np.random.default_rng(5)
    x, y = random(rng, dtype, [size]), random(rng, dtype, [size])
    *_, z = run(concatenated, x, y, np.zeros(2 * size, x.dtype), N=size)
    np.testing.assert_array_equal(z, np.concatenate([x + x.dtype.type(1), y]))


@triton.jit
def joined_sum(x, y, z, N: tl.constexpr):
    at = tl.arange(0, N)
    j = tl.join(tl.load(x + at), tl.load(y + at))
    tl.store(z + at, tl.sum(tl.trans(j), axis=0))


def test_a_join_that_is_reduced() -> None:
    x, y = np.random.default_rng(6).normal(size=(2, 64)).astype(np.float32)
    *_, z = run(joined_sum, x, y, np.zeros_like(x), N=64)
    np.testing.assert_array_equal(z, x + y)


@triton.jit
def flipped(x, y, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(y + at, tl.flip(tl.load(x + at), 1))


def test_flip() -> None:
    x = np.random.default_rng(7).integers(0, 99, (4, 32)).astype(np.int16)
    _, y = run(flipped, x, np.zeros_like(x), N=4, M=32)
    np.testing.assert_array_equal(y, x[:, ::-1])


@triton.jit
def flattened(x, y, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(y + tl.arange(0, N * M), tl.ravel(tl.load(x + at), can_reorder=True))


def test_reshape_that_may_reorder_keeps_the_order() -> None:
    x = np.arange(64, dtype=np.int32).reshape(4, 16)
    _, y = run(flattened, x, np.zeros(64, np.int32), N=4, M=16)
    np.testing.assert_array_equal(y, x.reshape(-1))


# --- lookups -------------------------------------------------------------------------------------------------------


@triton.jit
def gathered(x, i, y, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, AXIS: tl.constexpr):
    source = tl.load(x + tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :])
    at = tl.arange(0, C)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(y + at, tl.gather(source, tl.load(i + at), AXIS))


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize("index", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize(("axis", "many"), [(0, 16), (1, 64), (0, 2), (1, 1)])
def test_gather(dtype: str, index: str, axis: int, many: int) -> None:
    rng = np.random.default_rng(8)
    x = random(rng, dtype, (8, 16))
    shape = (many, 16) if axis == 0 else (8, many)
    i = rng.integers(0, x.shape[axis], shape).astype(index)
    _, _, y = run(gathered, x, i, np.zeros(shape, x.dtype), A=8, B=16, C=shape[0], D=shape[1], AXIS=axis)
    np.testing.assert_array_equal(y, np.take_along_axis(x, i.astype(np.int64), axis))


@triton.jit
def gathered_row(x, i, y, N: tl.constexpr, M: tl.constexpr):
    v = tl.load(x + tl.arange(0, N)) * 2
    at = tl.arange(0, M)
    tl.store(y + at, tl.gather(v, tl.load(i + at) ^ 1, 0) + 1)


@pytest.mark.parametrize("size", [2, 64])
def test_gather_of_what_is_computed(size: int) -> None:
    rng = np.random.default_rng(9)
    x, i = rng.normal(size=size).astype(np.float32), rng.integers(0, size, 128).astype(np.int32)
    _, _, y = run(gathered_row, x, i, np.zeros(128, np.float32), N=size, M=128)
    np.testing.assert_array_equal(y, x[i ^ 1] * 2 + 1)


def test_gather_past_the_end_reads_the_last() -> None:
    x, i = np.arange(8, dtype=np.float32), np.full(128, 1000, np.int32)
    i[1] = -3
    _, _, y = run(gathered_row, x, i, np.zeros(128, np.float32), N=8, M=128)
    assert set(y) == {x[7] * 2 + 1}


@triton.jit
def counted(x, y, n, N: tl.constexpr, BINS: tl.constexpr, MASKED: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    h = tl.histogram(v, BINS, mask=at < n) if MASKED else tl.histogram(v, BINS)
    tl.store(y + tl.arange(0, BINS), h)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint32"])
@pytest.mark.parametrize("bins", [1, 2, 16, 256])
@pytest.mark.parametrize("masked", [False, True])
def test_histogram(dtype: str, bins: int, masked: bool) -> None:
    rng = np.random.default_rng(10)
    info = np.iinfo(dtype)
    x = rng.integers(max(info.min, -5), min(info.max, 300), 1024).astype(dtype)
    _, y = run(counted, x, np.full(bins, -1, np.int32), 700, N=1024, BINS=bins, MASKED=masked)
    # A value is its bits: of int8, those of -1 are 255.
    kept = x[:700] if masked else x
    bits = kept.view(f"u{kept.dtype.itemsize}")
    np.testing.assert_array_equal(y, np.bincount(bits[bits < bins].astype(np.int64), minlength=bins))


# --- tiles of many small extents -----------------------------------------------------------------------------------


@triton.jit
def largest(x, y, N: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    v = tl.load(x + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :])
    tl.store(y + tl.arange(0, N)[:, None] * K + tl.arange(0, K)[None, :], tl.topk(v, K))


@pytest.mark.parametrize(("shape", "k"), [((1, 64), 4), ((8, 16), 16), ((2, 4), 1), ((4, 2), 2)])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_topk(shape: tuple[int, int], k: int, dtype: str) -> None:
    x = random(np.random.default_rng(11), dtype, shape)
    _, y = run(largest, x, np.zeros((shape[0], k), dtype), N=shape[0], M=shape[1], K=k)
    np.testing.assert_array_equal(y, np.sort(x, 1)[:, ::-1][:, :k])


@triton.jit
def cube(x, y, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, n):
    at = tl.arange(0, A)[:, None, None] * (B * C) + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)[None, None, :]
    r = tl.sum(tl.load(x + at, mask=at < n, other=3), AXIS) * 2
    if AXIS == 0:
        tl.store(y + tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :], r)
    elif AXIS == 1:
        tl.store(y + tl.arange(0, A)[:, None] * C + tl.arange(0, C)[None, :], r)
    else:
        tl.store(y + tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :], r)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(2, 2, 2), (4, 4, 4), (1, 4, 2), (4, 1, 4), (2, 4, 1)], ids=str)
def test_reductions_of_small_extents(dtype: str, axis: int, shape: tuple[int, int, int]) -> None:
    x = random(np.random.default_rng(12), dtype, shape)
    n = x.size - 3
    out = x.dtype if dtype != "int8" else np.dtype(np.int32)
    rest = [extent for d, extent in enumerate(shape) if d != axis]
    _, y = run(cube, x, np.zeros(rest, out), n, A=shape[0], B=shape[1], C=shape[2], AXIS=axis)
    masked = np.where(np.arange(x.size).reshape(shape) < n, x, x.dtype.type(3)).astype(np.float64)
    np.testing.assert_allclose(
        y.astype(np.float64), masked.sum(axis) * 2, rtol=1e-2 if dtype == "float16" else 1e-5, atol=1e-2
    )
