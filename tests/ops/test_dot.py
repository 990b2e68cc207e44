"""Dots of every type and rank, and of micro-scaled operands, against the reference and NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl
from tile_run import DTYPES, random, run


@triton.jit
def product(x, y, z, o, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    b = tl.arange(0, B)[:, None, None]
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + b * (M * K) + rows[None, :, None] * K + inner[None, None, :])
    c = tl.load(y + b * (K * N) + inner[None, :, None] * N + columns[None, None, :])
    at = b * (M * N) + rows[None, :, None] * N + columns[None, None, :]
    tl.store(o + at, tl.dot(a, c, tl.load(z + at), input_precision=PRECISION, out_dtype=o.dtype.element_ty))


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)


@pytest.mark.parametrize(
    ("dtype", "out"),
    [
        ("float32", "float32"),
        ("float16", "float32"),
        ("float16", "float16"),
        ("bfloat16", "float32"),
        ("float64", "float64"),
        ("int8", "int32"),
        ("float8_e5m2", "float32"),
        ("float8_e4m3fn", "float32"),
    ],
)
@pytest.mark.parametrize("extents", [(1, 16, 16, 16), (4, 16, 32, 16), (2, 32, 16, 64)], ids=str)
def test_batches(dtype: str, out: str, extents: tuple[int, int, int, int]) -> None:
    batch, m, n, k = extents
    rng = np.random.default_rng(1)
    x, y, z = random(rng, dtype, (batch, m, k)), random(rng, dtype, (batch, k, n)), random(rng, out, (batch, m, n))
    *_, o = run(product, x, y, z, np.zeros_like(z), B=batch, M=m, N=n, K=k, PRECISION="ieee")
    want = wide(x) @ wide(y) + wide(z)
    tolerance = {"float16": 1e-2, "float64": 1e-12}.get(out, 1e-5)
    np.testing.assert_allclose(wide(o), want, rtol=tolerance, atol=10 * tolerance)


@triton.jit
def matrix(x, y, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + rows[:, None] * K + inner[None, :])
    c = tl.load(y + inner[:, None] * N + columns[None, :])
    tl.store(o + rows[:, None] * N + columns[None, :], tl.dot(a, c, input_precision=PRECISION))


@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "ieee"])
def test_input_precisions(precision: str) -> None:
    rng = np.random.default_rng(2)
    x, y = random(rng, "float32", (16, 32)), random(rng, "float32", (32, 16))
    *_, o = run(matrix, x, y, np.zeros((16, 16), np.float32), M=16, N=16, K=32, PRECISION=precision)
    np.testing.assert_allclose(o, x.astype(np.float64) @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extents", [(1, 1, 1), (2, 4, 1), (1, 32, 8), (16, 1, 16), (4, 2, 128)], ids=str)
def test_small_extents(extents: tuple[int, int, int]) -> None:
    m, n, k = extents
    rng = np.random.default_rng(3)
    x, y = random(rng, "float32", (m, k)), random(rng, "float32", (k, n))
    *_, o = run(matrix, x, y, np.zeros((m, n), np.float32), M=m, N=n, K=k, PRECISION="ieee")
    np.testing.assert_allclose(o, x.astype(np.float64) @ y, rtol=1e-4, atol=1e-5)


@triton.jit
def accumulated(x, y, o, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, B: tl.constexpr):
    b = tl.arange(0, B)[:, None, None]
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((B, M, N), tl.float32)
    for s in range(0, steps):
        a = tl.load(x + (b * M + rows[None, :, None]) * (K * steps) + s * K + inner[None, None, :])
        c = tl.load(y + (b * steps * K + s * K + inner[None, :, None]) * N + columns[None, None, :])
        acc = tl.dot(a, c, acc)
    tl.store(o + (b * M + rows[None, :, None]) * N + columns[None, None, :], acc)


def test_batches_in_a_loop() -> None:
    rng = np.random.default_rng(4)
    x, y = random(rng, "float16", (2, 16, 48)), random(rng, "float16", (2, 48, 16))
    *_, o = run(accumulated, x, y, np.zeros((2, 16, 16), np.float32), 3, M=16, N=16, K=16, B=2)
    np.testing.assert_allclose(o, wide(x) @ wide(y), rtol=1e-4, atol=1e-4)


# --- how the right operand comes -------------------------------------------------------------------------------------


@triton.jit
def loaded(x, y, bias, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, HOW: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + rows[:, None] * K + inner[None, :])
    if HOW == "rows":
        c = tl.load(y + inner[:, None] * N + columns[None, :])
    elif HOW == "turned":  # consecutive along K in memory
        c = tl.trans(tl.load(y + columns[:, None] * K + inner[None, :]))
    elif HOW == "reshaped":
        c = tl.reshape(tl.load(y + tl.arange(0, N * K)), (K, N))
    else:  # consecutive along K, with more ops than a tile that is turned may have
        c = tl.load(y + columns[None, :] * K + inner[:, None]).to(tl.float32)
        c = (tl.abs(c) * 2 - tl.load(bias + inner)[:, None] * tl.load(bias + inner)[:, None]) * 3
        c = (tl.maximum(c, -2.0) + 1.5).to(y.dtype.element_ty)
    tl.store(o + rows[:, None] * N + columns[None, :], tl.dot(a, c, input_precision="ieee"))


RIGHT_OPERANDS = [
    *itertools.product(["rows", "turned", "reshaped"], ["float32", "bfloat16", "float64", "int8"]),
    *itertools.product(["computed"], ["float32", "bfloat16"]),  # in f32
]


@pytest.mark.parametrize(("how", "dtype"), RIGHT_OPERANDS)
@pytest.mark.parametrize("extents", [(16, 32, 16), (32, 64, 32), (4, 128, 16)], ids=str)
def test_right_operands(dtype: str, how: str, extents: tuple[int, int, int]) -> None:
    m, n, k = extents
    rng = np.random.default_rng(8)
    x, y, bias = random(rng, dtype, (m, k)), random(rng, dtype, (k, n)), random(rng, "float32", (k,))
    right = y
    given = np.ascontiguousarray(y.T) if how in ("turned", "computed") else y
    if how == "computed":
        wanted = (np.maximum((np.abs(wide(y)) * 2 - (wide(bias) ** 2)[:, None]) * 3, -2) + 1.5).astype(np.float32)
        right = wanted.astype(y.dtype)
    o = np.zeros((m, n), np.int32 if dtype == "int8" else np.float64 if dtype == "float64" else np.float32)
    *_, got = run(loaded, x, given, bias, o, M=m, N=n, K=k, HOW=how)
    tolerance = 2e-2 if dtype == "bfloat16" and how == "computed" else 1e-5
    np.testing.assert_allclose(wide(got), wide(x) @ wide(right), rtol=tolerance, atol=50 * tolerance)


# --- micro-scaled --------------------------------------------------------------------------------------------------

FOUR_BITS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@triton.jit
def scaled(
    x, y, u, v, o,
    M: tl.constexpr, N: tl.constexpr, KX: tl.constexpr, KY: tl.constexpr, S: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, LEFT_SCALE: tl.constexpr, RIGHT_SCALE: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + rows[:, None] * KX + tl.arange(0, KX)[None, :])
    b = tl.load(y + tl.arange(0, KY)[:, None] * N + columns[None, :])
    s = tl.load(u + rows[:, None] * S + tl.arange(0, S)[None, :]) if LEFT_SCALE else None
    t = tl.load(v + columns[:, None] * S + tl.arange(0, S)[None, :]) if RIGHT_SCALE else None
    c = tl.dot_scaled(a, s, LEFT, b, t, RIGHT)
    tl.store(o + rows[:, None] * N + columns[None, :], c)


KINDS = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "bf16": "bfloat16", "fp16": "float16"}


def operand(rng: np.random.Generator, kind: str, rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel gets, k innermost, and what it means."""
    if kind == "e2m1":
        data = rng.integers(0, 256, (rows, k // 2)).astype(np.uint8)
        return data, FOUR_BITS[np.stack([data & 15, data >> 4], -1)].reshape(rows, k)
    data = rng.normal(size=(rows, k)).astype(np.float32).astype(DTYPES[KINDS[kind]])
    return data, data.astype(np.float64)


@pytest.mark.parametrize("left", ["e4m3", "e5m2", "e2m1", "bf16", "fp16"])
@pytest.mark.parametrize("right", ["e4m3", "e2m1", "bf16", "fp16"])
@pytest.mark.parametrize("scales", [(True, True), (True, False), (False, True)], ids=str)
def test_scaled(left: str, right: str, scales: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(5)
    m, n, k = 32, 16, 64
    (a, x), (b, y) = operand(rng, left, m, k), operand(rng, right, n, k)
    u, v = (rng.integers(124, 131, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    if left in ("bf16", "fp16"):
        scales = (False, scales[1])
    if right in ("bf16", "fp16"):
        scales = (scales[0], False)
    held: dict[str, Any] = {"LEFT": left, "RIGHT": right, "LEFT_SCALE": scales[0], "RIGHT_SCALE": scales[1]}
    o = np.zeros((m, n), np.float32)
    *_, got = run(
        scaled, a, np.ascontiguousarray(b.T), u, v, o, M=m, N=n, KX=a.shape[1], KY=b.shape[1], S=k // 32, **held
    )
    if scales[0]:
        x = x * np.repeat(2.0 ** (u.astype(np.float64) - 127), 32, 1)
    if scales[1]:
        y = y * np.repeat(2.0 ** (v.astype(np.float64) - 127), 32, 1)
    np.testing.assert_allclose(got, x @ y.T, rtol=1e-4, atol=1e-3)


def test_scale_of_all_ones_is_nan() -> None:
    rng = np.random.default_rng(6)
    (a, _), (b, _) = operand(rng, "e4m3", 16, 32), operand(rng, "e4m3", 16, 32)
    u, v = np.full((16, 1), 127, np.uint8), np.full((16, 1), 127, np.uint8)
    u[3], v[5] = 255, 0
    held: dict[str, Any] = {"LEFT": "e4m3", "RIGHT": "e4m3", "LEFT_SCALE": True, "RIGHT_SCALE": True}
    o = np.zeros((16, 16), np.float32)
    *_, got = run(scaled, a, np.ascontiguousarray(b.T), u, v, o, M=16, N=16, KX=32, KY=32, S=1, **held)
    assert np.isnan(got[3]).all() and not np.isnan(np.delete(got, 3, 0)).any()


@triton.jit
def packed_rows(x, y, u, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    a = tl.load(x + tl.arange(0, M // 2)[:, None] * K + tl.arange(0, K)[None, :])
    b = tl.load(y + tl.arange(0, K)[:, None] * (N // 2) + tl.arange(0, N // 2)[None, :])
    s = tl.load(u + tl.arange(0, M)[:, None] * (K // 32) + tl.arange(0, K // 32)[None, :])
    c = tl.dot_scaled(a, s, "e2m1", b, None, "e2m1", lhs_k_pack=False, rhs_k_pack=False)
    tl.store(o + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], c)


def test_pairs_along_rows_and_columns() -> None:
    rng = np.random.default_rng(7)
    m, n, k = 16, 32, 64
    a, b = rng.integers(0, 256, (m // 2, k)).astype(np.uint8), rng.integers(0, 256, (k, n // 2)).astype(np.uint8)
    u = rng.integers(124, 131, (m, k // 32)).astype(np.uint8)
    *_, got = run(packed_rows, a, b, u, np.zeros((m, n), np.float32), M=m, N=n, K=k)
    x = FOUR_BITS[np.stack([a & 15, a >> 4], 1)].reshape(m, k) * np.repeat(2.0 ** (u.astype(np.float64) - 127), 32, 1)
    y = FOUR_BITS[np.stack([b & 15, b >> 4], -1)].reshape(k, n)
    np.testing.assert_allclose(got, x @ y, rtol=1e-5, atol=1e-3)
