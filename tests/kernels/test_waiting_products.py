"""Products of bytes in loops, of which several trips are multiplied at once: against NumPy, for all numbers of trips."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

N, K = 32, 16


@triton.jit
def summed(a_ptr, b_ptr, c_ptr, depth, first, N: tl.constexpr, K: tl.constexpr):
    i, acc = tl.arange(0, N), tl.full((N, N), 3, tl.int32)
    for start in range(first, depth, K):
        k = start + tl.arange(0, K)
        a = tl.load(a_ptr + i[:, None] * depth + k[None, :], mask=(k < depth)[None, :], other=0)
        b = tl.load(b_ptr + k[:, None] * N + i[None, :], mask=(k < depth)[:, None], other=0)
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
    tl.store(c_ptr + i[:, None] * N + i[None, :], acc)


@triton.jit
def looked_at(a_ptr, b_ptr, c_ptr, d_ptr, depth, N: tl.constexpr, K: tl.constexpr):
    """Every trip stores the sums so far."""
    i, acc = tl.arange(0, N), tl.zeros((N, N), tl.int32)
    for start in range(0, depth, K):
        k = start + tl.arange(0, K)
        a, b = tl.load(a_ptr + i[:, None] * depth + k[None, :]), tl.load(b_ptr + k[:, None] * N + i[None, :])
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
        tl.store(d_ptr + start // K * N * N + i[:, None] * N + i[None, :], acc)
    tl.store(c_ptr + i[:, None] * N + i[None, :], acc)


@triton.jit
def written_over(a_ptr, b_ptr, c_ptr, depth, N: tl.constexpr, K: tl.constexpr):
    """Every trip writes to the right operand of the trip after it."""
    i, acc = tl.arange(0, N), tl.zeros((N, N), tl.int32)
    for start in range(0, depth, K):
        k = start + tl.arange(0, K)
        a, b = tl.load(a_ptr + i[:, None] * depth + k[None, :]), tl.load(b_ptr + k[:, None] * N + i[None, :])
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
        tl.store(b_ptr + (k + K)[:, None] * N + i[None, :], b + 1, mask=(k + K < depth)[:, None])
    tl.store(c_ptr + i[:, None] * N + i[None, :], acc)


@triton.jit
def nested(a_ptr, b_ptr, c_ptr, rounds, depth, N: tl.constexpr, K: tl.constexpr):
    """Two products a trip, in a loop in a loop; the outer one scales what the inner one left."""
    i = tl.arange(0, N)
    acc, other = tl.zeros((N, N), tl.int32), tl.zeros((N, N), tl.int32)
    for turn in range(rounds):
        for start in range(0, depth, K):
            k = start + tl.arange(0, K)
            a, b = tl.load(a_ptr + i[:, None] * depth + k[None, :]), tl.load(b_ptr + k[:, None] * N + i[None, :])
            acc = tl.dot(a, b, acc, out_dtype=tl.int32)
            other = tl.dot(tl.load(a_ptr + i[:, None] * depth + k[None, :] + turn), b, other, out_dtype=tl.int32)
        acc = acc * 3
    tl.store(c_ptr + i[:, None] * N + i[None, :], acc)
    tl.store(c_ptr + N * N + i[:, None] * N + i[None, :], other)


def operands(depth: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(depth).integers
    a, b = draw(-128, 128, (N, depth)).astype(np.int8), draw(-128, 128, (depth, N)).astype(np.int8)
    a[:1], b[:, :1] = -128, -128
    return a, b


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.int64) @ b.astype(np.int64)


@pytest.mark.parametrize("depth", [0, 1, 15, *range(16, 16 * 20, 16), 16 * 8 + 3, 16 * 9 - 1])
def test_every_number_of_trips(depth: int) -> None:
    a, b = operands(depth)
    c = np.full((N, N), -1, np.int32)
    summed[(1,)](a, b, c, depth, 0, N=N, K=K)
    assert np.array_equal(c, 3 + product(a, b))


@pytest.mark.parametrize("first", [1, 16, 40, 127, 128, 200])
def test_a_loop_that_begins_elsewhere(first: int) -> None:
    a, b = operands(128)
    c = np.full((N, N), -1, np.int32)
    summed[(1,)](a, b, c, 128, first, N=N, K=K)
    assert np.array_equal(c, 3 + product(a[:, first:], b[first:]))


@pytest.mark.parametrize("grid", [1, 3])
def test_programs_that_follow_each_other(grid: int) -> None:
    a, b = operands(16 * 11)
    c = np.full((N, N), -1, np.int32)
    for _ in range(3):
        summed[(grid,)](a, b, c, 16 * 11, 0, N=N, K=K)
        assert np.array_equal(c, 3 + product(a, b))
        a[0, 0] += 1  # what was packed for an earlier launch is gone


def test_sums_that_are_looked_at_do_not_wait() -> None:
    a, b = operands(16 * 9)
    c, d = np.zeros((N, N), np.int32), np.zeros((9, N, N), np.int32)
    looked_at[(1,)](a, b, c, d, 16 * 9, N=N, K=K)
    assert np.array_equal(c, product(a, b))
    for trip in range(9):
        until = K * (trip + 1)
        assert np.array_equal(d[trip], product(a[:, :until], b[:until]))


def test_operands_that_the_loop_writes_do_not_wait() -> None:
    a, b = operands(16 * 5)
    c = np.zeros((N, N), np.int32)
    wanted = np.concatenate([(b[:K] + np.int8(trip)).astype(np.int8) for trip in range(5)])
    written_over[(1,)](a, b.copy(), c, 16 * 5, N=N, K=K)
    assert np.array_equal(c, product(a, wanted))


@pytest.mark.parametrize("rounds, trips", [(0, 3), (1, 1), (3, 9), (2, 8), (4, 0)])
def test_two_products_in_nested_loops(rounds: int, trips: int) -> None:
    depth = K * trips
    a, b = operands(depth)
    memory = np.concatenate([a.ravel(), np.arange(8, dtype=np.int8)])
    c = np.full((2, N, N), -1, np.int32)
    nested[(1,)](memory, b, c, rounds, depth, N=N, K=K)
    wanted, other, at = np.zeros((N, N), np.int64), np.zeros((N, N), np.int64), np.arange(N)[:, None] * depth
    for turn in range(rounds):
        wanted = 3 * (wanted + product(a, b))
        other += product(memory[at + np.arange(depth) + turn], b)
    assert np.array_equal(c, np.stack([wanted, other]).astype(np.int32))
