"""Products of which masks keep a part from every store: what is stored is right, what matters elsewhere too is made."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

from omnikernel.ir.tile import walk
from omnikernel.passes.needed import needed
from omnikernel.ttir import parse


@triton.jit
def ragged(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, RELU: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    if RELU:
        acc = tl.maximum(acc * 2.0 + m[:, None], 0.0)
    late = (m[:, None] < M) & (n[None, :] < N)  # masks that stand after the products
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=late)


@triton.jit
def moving(a_ptr, b_ptr, c_ptr, limits_ptr, STEPS: tl.constexpr, B: tl.constexpr):
    """Each trip stores what the one before made, under a mask of its own."""
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
    acc = tl.zeros((B, B), tl.float32)
    for step in range(STEPS):
        limit = tl.load(limits_ptr + step)
        tl.store(c_ptr + step * B * B + at, acc, mask=(i < limit)[:, None] & (i < B)[None, :])
        acc = tl.dot(a, b, acc, input_precision="ieee")


@triton.jit
def twice(a_ptr, b_ptr, c_ptr, d_ptr, limit, other, B: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    c = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision="ieee")
    tl.store(c_ptr + at, c, mask=(i[:, None] < limit) & (i[None, :] < other))
    if HOW == "all":
        tl.store(d_ptr + at, c)
    elif HOW == "columns":
        tl.store(d_ptr + at, c, mask=i[None, :] < other)
    elif HOW == "sums":
        tl.store(d_ptr + i, tl.sum(c, 0))
    elif HOW == "turned":
        tl.store(d_ptr + at, tl.trans(c), mask=(i[:, None] < limit) & (i[None, :] < other))
    elif HOW == "again":
        tl.store(d_ptr + at, tl.dot(c, tl.load(b_ptr + at), input_precision="ieee"))


def masks_of(text: str) -> list[int]:
    """How many masks limit each product of a kernel."""
    found = needed(parse(text).entry)
    products = [op for op in walk(parse(text).entry.body) if op.name == "tt.dot"]
    return sorted(len(found[op].masks) for op in found) + [0] * (len(products) - len(found))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("m, n, k", [(64, 64, 32), (65, 1, 16), (1, 70, 33), (37, 50, 40), (128, 3, 8)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_ragged_tiles(m: int, n: int, k: int, dtype: str, relu: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    c = np.full((m, n), np.nan, np.float32)
    handle = ragged[(triton.cdiv(m, 64), triton.cdiv(n, 32))](a, b, c, m, n, k, BM=64, BN=32, BK=16, RELU=relu)
    want = a.astype(np.float64) @ b.astype(np.float64)
    want = np.maximum(want * 2 + np.arange(m)[:, None], 0) if relu else want
    np.testing.assert_allclose(c, want, rtol=1e-4, atol=1e-4)
    assert masks_of(handle.asm["ttir"]) == [2]


def test_a_mask_of_the_next_trip() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, 32, 32)).astype(np.float32)
    limits = np.array([0, 3, 32, 7, 31], np.int32)
    c = np.zeros((5, 32, 32), np.float32)
    handle = moving[(1,)](a, b, c, limits, STEPS=5, B=32)
    for step, limit in enumerate(limits):
        want = step * (a.astype(np.float64) @ b)
        want[limit:] = 0
        np.testing.assert_allclose(c[step], want, rtol=1e-4, atol=1e-4)
    assert masks_of(handle.asm["ttir"])[-1] <= 1  # the columns' only


@pytest.mark.parametrize(
    "how, masks", [("none", 2), ("all", 0), ("columns", 1), ("sums", 0), ("turned", 0), ("again", 0)]
)
def test_what_else_reads_a_product(how: str, masks: int) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 32, 32)).astype(np.float32)
    c, d = np.zeros((2, 32, 32), np.float32)
    handle = twice[(1,)](a, b, c, d, 5, 9, B=32, HOW=how)
    product = a.astype(np.float64) @ b
    inside = (np.arange(32)[:, None] < 5) & (np.arange(32)[None, :] < 9)
    np.testing.assert_allclose(c, np.where(inside, product, 0), rtol=1e-4, atol=1e-4)
    want = {
        "none": np.zeros((32, 32)),
        "all": product,
        "columns": np.where(np.arange(32)[None, :] < 9, product, 0),
        "sums": np.concatenate([product.sum(0)[None], np.zeros((31, 32))]),
        "turned": np.where(inside, product.T, 0),
        "again": product @ b,
    }
    np.testing.assert_allclose(d, want[how], rtol=1e-4, atol=1e-4)
    assert masks_of(handle.asm["ttir"])[0] == (0 if how == "again" else masks)
