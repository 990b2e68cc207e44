"""Operands of products that stay packed from trip to trip and from program to program: never an old tile for a new one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import triton
import triton.language as tl

import omnikernel
from omnikernel.passes.alias import find_roots
from omnikernel.passes.shared import shared
from omnikernel.ttir import parse


@triton.jit
def product(
    a_ptr, b_ptr, c_ptr, scale, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ROWS_FIRST: tl.constexpr
):  # fmt: skip
    """Programs follow each other down the rows or along the columns; trips depend on the program."""
    pid = tl.program_id(0)
    down, along = tl.cdiv(M, BM), tl.cdiv(N, BN)
    i, j = (pid % down, pid // down) if ROWS_FIRST else (pid // along, pid % along)
    m, n = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K - i % 2 * BK, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot((a * scale).to(a.dtype), b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def chosen(x_ptr, w_ptr, c_ptr, group_ptr, factor_ptr, STEPS: tl.constexpr, B: tl.constexpr):
    """The matrix is found through a pointer and a number from memory; some trips leave it out; loops within loops."""
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    base = w_ptr + tl.load(group_ptr + pid) * B * B
    acc = tl.zeros((B, B), tl.float32)
    for outer in range(2):
        factor = tl.load(factor_ptr + outer)
        for step in range(STEPS):
            if (step + pid) % 3 != 1:
                x = tl.load(x_ptr + step * B * B + at)
                w = tl.load(base + at) * factor
                acc += tl.dot(x, w, input_precision="ieee") * (outer + 1)
    tl.store(c_ptr + pid * B * B + at, acc)


@triton.jit
def rewritten(x_ptr, w_ptr, c_ptr, STEPS: tl.constexpr, B: tl.constexpr):
    """The kernel itself changes what it multiplies by."""
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    for step in range(STEPS):
        w = tl.load(w_ptr + at)
        c = tl.dot(tl.load(x_ptr + at), w, input_precision="ieee")
        tl.store(c_ptr + step * B * B + at, c)
        tl.store(w_ptr + at, w + 1.0)


@triton.jit
def halving(x_ptr, w_ptr, c_ptr, count, B: tl.constexpr):
    """A loop that is no count."""
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    acc = tl.zeros((B, B), tl.float32)
    left = count
    while left > 0:
        acc = tl.dot(tl.load(x_ptr + at), tl.load(w_ptr + (left % 4) * B * B + at), acc, input_precision="ieee")
        left = left // 2
    tl.store(c_ptr + at, acc)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """So that all programs of a launch follow each other."""
    before = omnikernel.get_num_threads()
    omnikernel.set_num_threads(1)
    yield
    omnikernel.set_num_threads(before)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


@pytest.mark.parametrize("rows_first", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("tile", [(32, 32, 16), (128, 16, 128)], ids=str)  # of the second 17 fit among 24
def test_products(rows_first: bool, dtype: str, tile: tuple[int, int, int]) -> None:
    bm, bn, bk = tile
    m, n, k = 3 * bm - 5, 4 * bn - 3, 24 * bk - 7
    rng = np.random.default_rng(1)
    for again in range(2):  # new numbers at the same addresses
        if not again:
            a, b, c = np.empty((m, k), dtype), np.empty((k, n), dtype), np.empty((m, n), np.float32)
        a[:], b[:] = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
        product[grid](a, b, c, 0.5, m, n, k, BM=bm, BN=bn, BK=bk, ROWS_FIRST=rows_first)
        want = wide(a * np.asarray(0.5, dtype)) @ wide(b)
        short = 23 * bk  # the last trip of every second band of rows is left out
        for first in range(bm, m, 2 * bm):
            want[first : first + bm] = wide(a[first : first + bm, :short] * np.asarray(0.5, dtype)) @ wide(b[:short])
        np.testing.assert_allclose(c, want, rtol=2e-3, atol=2e-3)


def test_the_same_on_any_number_of_threads() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((200, 300)).astype(np.float32), rng.standard_normal((300, 170)).astype(np.float32)
    results = []
    for threads in (1, 2, 5):
        omnikernel.set_num_threads(threads)
        c = np.empty((200, 170), np.float32)
        product[(7 * 6,)](a, b, c, 1.0, 200, 170, 300, BM=32, BN=32, BK=16, ROWS_FIRST=True)
        results.append(c)
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_chosen_matrices() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((6, 32, 32)).astype(np.float32), rng.standard_normal((4, 32, 32)).astype(np.float32)
    groups, factors = np.array([0, 0, 3, 1, 1, 1, 0, 2], np.int32), np.array([1.5, -2.0], np.float32)
    c = np.zeros((8, 32, 32), np.float32)
    chosen[(8,)](x, w, c, groups, factors, STEPS=6, B=32)
    for pid, group in enumerate(groups):
        inner = sum(wide(x[s]) for s in range(6) if (s + pid) % 3 != 1)
        want = sum(inner @ (wide(w[group]) * factors[outer]) * (outer + 1) for outer in range(2))
        np.testing.assert_allclose(c[pid], want, rtol=1e-3, atol=1e-3)


def test_what_the_kernel_writes_is_packed_anew() -> None:
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((2, 32, 32)).astype(np.float32)
    before, c = w.copy(), np.zeros((4, 32, 32), np.float32)
    handle = rewritten[(1,)](x, w, c, STEPS=4, B=32)
    for step in range(4):
        np.testing.assert_allclose(c[step], wide(x) @ (wide(before) + step), rtol=1e-4, atol=1e-4)
    kernel = parse(handle.asm["ttir"])
    assert {number for _, number in shared(kernel.entry, find_roots(kernel, disjoint=True))} == {0}
    assert not shared(kernel.entry, find_roots(kernel, disjoint=False))


def test_a_loop_that_is_no_count() -> None:
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((32, 32)).astype(np.float32), rng.standard_normal((4, 32, 32)).astype(np.float32)
    c = np.zeros((32, 32), np.float32)
    halving[(1,)](x, w, c, 27, B=32)
    np.testing.assert_allclose(c, wide(x) @ sum(wide(w[left % 4]) for left in (27, 13, 6, 3, 1)), rtol=1e-4, atol=1e-4)
