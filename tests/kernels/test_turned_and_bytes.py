"""Tiles that are turned on their way, and products of bytes: against NumPy, on ragged sizes and extreme values."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

from omnikernel import pipeline
from omnikernel.llvm import jit
from omnikernel.lower.lanes import Target
from omnikernel.runtime.launch import Executable


@triton.jit
def transpose(x_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * C + tl.arange(0, C)
    inside = (r < rows)[:, None] & (c < cols)[None, :]
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=inside)
    tl.store(out_ptr + c[:, None] * rows + r[None, :], tl.trans(x), mask=tl.trans(inside))


@triton.jit
def stored_in_a_branch(x_ptr, out_ptr, again_ptr, flag, N: tl.constexpr):
    """The tile is turned inside a branch and stored once more after it."""
    i = tl.arange(0, N)
    x = tl.trans(tl.load(x_ptr + i[:, None] * N + i[None, :]))
    if flag > 0:
        tl.store(out_ptr + i[:, None] * N + i[None, :], x)
    tl.store(again_ptr + i[:, None] * N + i[None, :], x)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STEPS: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.full((M, N), 7, tl.int32)
    for step in range(STEPS):
        a = tl.load(a_ptr + m[:, None] * (K * STEPS) + (step * K + k)[None, :])
        b = tl.load(b_ptr + (step * K + k)[:, None] * N + n[None, :])
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64", "bool"])
@pytest.mark.parametrize("rows, cols", [(64, 64), (70, 33), (5, 100), (1, 1)])
def test_transpose(dtype: str, rows: int, cols: int) -> None:
    x = (np.random.default_rng(1).integers(-100, 100, (rows, cols)) % 7).astype(dtype)
    out = np.zeros((cols, rows), dtype)
    transpose[(triton.cdiv(rows, 32), triton.cdiv(cols, 64))](x, out, rows, cols, R=32, C=64)
    assert np.array_equal(out, x.T)


@pytest.mark.parametrize("flag", [0, 2])
def test_a_turned_tile_is_not_reached_from_outside_its_branch(flag: int) -> None:
    x = np.random.default_rng(2).random((32, 32), np.float32)
    out, again = np.zeros_like(x), np.zeros_like(x)
    stored_in_a_branch[(1,)](x, out, again, flag, N=32)
    assert np.array_equal(again, x.T)
    assert np.array_equal(out, x.T if flag else np.zeros_like(x))


@pytest.mark.parametrize(
    "m, n, k, steps", [(16, 16, 4, 1), (16, 16, 16, 3), (64, 32, 32, 2), (1, 16, 64, 1), (128, 64, 64, 1)]
)
def test_products_of_bytes(m: int, n: int, k: int, steps: int) -> None:
    draw = np.random.default_rng(3).integers
    a, b = draw(-128, 128, (m, k * steps)).astype(np.int8), draw(-128, 128, (k * steps, n)).astype(np.int8)
    a[0, :2], b[:2, 0] = -128, -128
    c = np.zeros((m, n), np.int32)
    product[(1,)](a, b, c, M=m, N=n, K=k, STEPS=steps)
    assert np.array_equal(c, 7 + a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("without", ["amx", "avx512vnni"])
@pytest.mark.parametrize("m, n, k, steps", [(16, 16, 16, 3), (64, 32, 128, 1)])
def test_products_of_bytes_on_lesser_processors(without: str, m: int, n: int, k: int, steps: int) -> None:
    draw = np.random.default_rng(4).integers
    a, b = draw(-128, 128, (m, k * steps)).astype(np.int8), draw(-128, 128, (k * steps, n)).astype(np.int8)
    c = np.zeros((m, n), np.int32)
    text = product[(1,)](a, b, c, M=m, N=n, K=k, STEPS=steps).asm["ttir"]
    host = jit.host_target()
    lesser = Target(host.triple, host.cpu, frozenset(f for f in host.features if not f.startswith(("amx", without))))
    artefact = pipeline.compile_text(text, pipeline.Options(disjoint=True), lesser)
    assert "amx" in without or "vpdpbusd" not in artefact.texts["llvm"]
    again = np.zeros((m, n), np.int32)
    Executable(artefact).run((1, 1, 1), [a, b, again])
    assert np.array_equal(again, c)
