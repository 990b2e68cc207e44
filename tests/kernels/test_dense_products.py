"""Products whose operands and result lie in memory without gaps: in place only where that changes nothing.

The numbers are small integers, so that every order of a sum gives the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from omnikernel import pipeline

N = 64


@triton.jit
def batched(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.program_id(0)
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + batch * M * K + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + batch * K * N + k[:, None] * N + n[None, :])
    tl.store(c_ptr + batch * M * N + m[:, None] * N + n[None, :], tl.dot(a, b, input_precision="ieee"))


@triton.jit
def strided(a_ptr, b_ptr, c_ptr, sa, sb, sc, rows, cols, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(a_ptr + i[:, None] * sa + i[None, :], mask=(i < rows)[:, None] & (i < cols)[None, :], other=2.0)
    b = tl.load(b_ptr + i[:, None] * sb + i[None, :])
    tl.store(c_ptr + i[:, None] * sc + i[None, :], tl.dot(a, b, input_precision="ieee"))


@triton.jit
def looped(a_ptr, b_ptr, c_ptr, rows, depth, sa, sb, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, depth, K):
        k = start + tl.arange(0, K)
        a = tl.load(a_ptr + m[:, None] * sa + k[None, :], mask=(m < rows)[:, None] & (k < depth)[None, :], other=0)
        b = tl.load(b_ptr + k[:, None] * sb + n[None, :], mask=(k < depth)[:, None], other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * sb + n[None, :], acc, mask=(m < rows)[:, None])


@triton.jit
def below_a_diagonal(a_ptr, b_ptr, c_ptr, limit, N: tl.constexpr):
    """The mask's first row and first column hold long before all of it does."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a = tl.load(a_ptr + at, mask=i[:, None] + i[None, :] < limit, other=0.0)
    tl.store(c_ptr + at, tl.dot(a, tl.load(b_ptr + at), input_precision="ieee"))


@triton.jit
def above_a_diagonal(a_ptr, b_ptr, c_ptr, first, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a = tl.load(a_ptr + at, mask=first + i[:, None] >= i[None, :], other=0.0)
    tl.store(c_ptr + at, tl.dot(a, tl.load(b_ptr + at), input_precision="ieee"))


@triton.jit
def warped(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    """Addresses that are dense in the first row and the first column only."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a = tl.load(a_ptr + at + i[:, None] * i[None, :])
    tl.store(c_ptr + at, tl.dot(a, tl.load(b_ptr + at), input_precision="ieee"))


@triton.jit
def wrapped(a_ptr, b_ptr, c_ptr, rows, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a = tl.load(a_ptr + (i % rows)[:, None] * N + i[None, :])
    tl.store(c_ptr + at, tl.dot(a, tl.load(b_ptr + at), input_precision="ieee"))


@triton.jit
def turned(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at, across = i[:, None] * N + i[None, :], i[:, None] + i[None, :] * N
    product = tl.dot(tl.load(a_ptr + across), tl.load(b_ptr + at), input_precision="ieee")
    tl.store(c_ptr + across, product)


@triton.jit
def stored_over(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    """The product is made before the other store, and stored after it."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    product = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision="ieee")
    tl.store(c_ptr + at, tl.zeros((N, N), tl.float32) + 5)
    tl.store(c_ptr + at, product)


@triton.jit
def used_twice(a_ptr, b_ptr, c_ptr, d_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    product = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision="ieee")
    tl.store(c_ptr + at, product)
    tl.store(d_ptr + at, product + 1)


@triton.jit
def on_itself(x_ptr, b_ptr, N: tl.constexpr):
    """x = x @ b, in one array."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(x_ptr + at, tl.dot(tl.load(x_ptr + at), tl.load(b_ptr + at), input_precision="ieee"))


@triton.jit
def computed_late(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    """Where the result goes is only said after the product."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    product = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision="ieee")
    tl.store(c_ptr + tl.num_programs(0) * N * N + i[:, None] * N + i[None, :], product)


def whole(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(-4, 5, shape).astype(np.float32)


def pair() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return whole(N, N), whole(N, N, seed=1), np.full((N, N), -1, np.float32)


@pytest.mark.parametrize("m, n, k", [(16, 16, 16), (32, 32, 32), (64, 16, 32), (16, 64, 16), (128, 128, 16)])
def test_batched(m: int, n: int, k: int) -> None:
    a, b, c = whole(5, m, k), whole(5, k, n), np.full((5, m, n), -1, np.float32)
    batched[(5,)](a, b, c, M=m, N=n, K=k)
    assert np.array_equal(c, a @ b)


@pytest.mark.parametrize("n", [16, 64])
@pytest.mark.parametrize("m, k", [(64, 64), (70, 33), (3, 128), (128, 7)])
@pytest.mark.parametrize("gap", [0, 5, 1024 - 128])
def test_a_loop_over_a_left_operand_with_gaps(m: int, n: int, k: int, gap: int) -> None:
    """All trips but the last, and all programs but the last, find no mask off."""
    a, b, c = whole(m, 128 + gap), whole(k, n, seed=1), np.full((m, n), -1, np.float32)
    looped[(triton.cdiv(m, 32),)](a, b, c, m, k, 128 + gap, n, M=32, N=n, K=16)
    assert np.array_equal(c, a[:, :k] @ b)


def test_nothing_is_copied() -> None:
    a, b, c = whole(5, 32, 16), whole(5, 16, 16), np.zeros((5, 32, 16), np.float32)
    kernel = batched[(5,)](a, b, c, M=32, N=16, K=16)
    artefact = pipeline.compile_text(kernel.asm["ttir"], pipeline.Options(disjoint=True))
    assert artefact.arena_bytes <= 16 * 16 * 4  # short registers take the right operand in panels
    assert np.array_equal(c, a @ b)


def test_an_array_that_is_operand_and_result() -> None:
    x, b = whole(1, 32, 32), whole(1, 32, 32, seed=1)
    wanted = x @ b
    batched[(1,)](x, b, x, M=32, N=32, K=32)
    assert np.array_equal(x, wanted)


@pytest.mark.parametrize("shift", [1, 16, 40])
def test_a_result_that_overlaps_an_operand(shift: int) -> None:
    memory = whole(32 * 32 + 64)
    x, b, c = memory[: 32 * 32], whole(32 * 32, seed=1), memory[shift : shift + 32 * 32]
    wanted = (x.reshape(32, 32) @ b.reshape(32, 32)).ravel()
    batched[(1,)](x, b, c, M=32, N=32, K=32)
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize("sa, sb, sc", [(N, N, N), (N + 3, N, N), (N, N + 1, N), (N, N, 2 * N), (0, N, N), (1, 0, N)])
@pytest.mark.parametrize("rows, cols", [(N, N), (N - 1, N), (N, 3), (0, N), (N + 5, N + 1), (-1, N)])
def test_strides_and_masks_of_run_time(sa: int, sb: int, sc: int, rows: int, cols: int) -> None:
    i = np.arange(N)
    a, b, c = whole(3 * N * N), whole(3 * N * N, seed=1), np.full(3 * N * N, -1, np.float32)
    strided[(1,)](a, b, c, sa, sb, sc, rows, cols, N=N)
    on = (i < rows)[:, None] & (i < cols)[None, :]
    left = np.where(on, a[i[:, None] * sa + i], np.float32(2))
    wanted = np.full_like(c, -1)
    wanted[i[:, None] * sc + i] = left @ b[i[:, None] * sb + i]
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize("limit", [0, 1, N, N + 1, 2 * N - 2, 2 * N - 1, 2 * N])
def test_a_mask_of_both_dimensions(limit: int) -> None:
    a, b, c = pair()
    i = np.arange(N)
    below_a_diagonal[(1,)](a, b, c, limit, N=N)
    assert np.array_equal(c, np.where(i[:, None] + i < limit, a, 0) @ b)


@pytest.mark.parametrize("first", [-1, 0, 1, N - 2, N - 1, N])
def test_a_diagonal_mask(first: int) -> None:
    a, b, c = pair()
    i = np.arange(N)
    above_a_diagonal[(1,)](a, b, c, first, N=N)
    assert np.array_equal(c, np.where(first + i[:, None] >= i, a, 0) @ b)


def test_a_product_of_two_indices() -> None:
    i = np.arange(N)
    a, (_, b, c) = whole(2 * N * N), pair()
    warped[(1,)](a, b, c, N=N)
    assert np.array_equal(c, a[i[:, None] * N + i + i[:, None] * i] @ b)


@pytest.mark.parametrize("rows", [1, 5, N, 3 * N])
def test_rows_that_wrap(rows: int) -> None:
    a, b, c = pair()
    wrapped[(1,)](a, b, c, rows, N=N)
    assert np.array_equal(c, a[np.arange(N) % rows] @ b)


def test_columns_that_lie_together() -> None:
    a, b, c = pair()
    turned[(1,)](a, b, c, N=N)
    assert np.array_equal(c, (a.T @ b).T)


@pytest.mark.parametrize("kernel, place", [(stored_over, 0), (computed_late, 1)])
def test_the_store_stays_in_its_place(kernel: Any, place: int) -> None:
    a, b, _ = pair()
    c = np.full((2, N, N), -1, np.float32)
    kernel[(1,)](a, b, c, N=N)
    assert np.array_equal(c[place], a @ b)
    assert np.array_equal(c[1 - place], np.full((N, N), -1))


def test_a_product_that_is_used_twice() -> None:
    a, b, c = pair()
    d = np.zeros_like(c)
    used_twice[(1,)](a, b, c, d, N=N)
    assert np.array_equal(c, a @ b)
    assert np.array_equal(d, a @ b + 1)


def test_one_array() -> None:
    x, b, _ = pair()
    wanted = x @ b
    on_itself[(1,)](x, b, N=N)
    assert np.array_equal(x, wanted)


@pytest.mark.parametrize("dtype", [np.float64, np.int8])
def test_other_types(dtype: type) -> None:
    a, b = whole(3, 32, 32).astype(dtype), whole(3, 32, 32, seed=1).astype(dtype)
    c = np.zeros((3, 32, 32), np.int32 if dtype == np.int8 else dtype)
    batched[(3,)](a, b, c, M=32, N=32, K=32)
    assert np.array_equal(c, a.astype(np.float64) @ b.astype(np.float64))
