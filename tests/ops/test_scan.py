"""tt.scan against the reference, and both against NumPy."""

# ruff: noqa: SIM108 (kernels branch by statements: that is what is tested)

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl
from tile_run import random, run

SHAPES = [
    (1, 1, 1),
    (1, 1, 64),
    (1, 64, 1),
    (4, 8, 1),
    (16, 16, 1),
    (2, 64, 1),
    (64, 2, 1),
    (1, 8, 64),
    (4, 4, 4),
    (8, 2, 2),
]


@triton.jit
def offsets(A: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    return (
        tl.arange(0, A)[:, None, None] * (N * B) + tl.arange(0, N)[None, :, None] * B + tl.arange(0, B)[None, None, :]
    )


@triton.jit
def cumulative(x, y, A: tl.constexpr, N: tl.constexpr, B: tl.constexpr, KIND: tl.constexpr, REVERSE: tl.constexpr):
    at = offsets(A, N, B)
    v = tl.load(x + at)
    if KIND == "sum":
        w = tl.cumsum(v, 1, reverse=REVERSE)
    else:
        w = tl.cumprod(v, 1, reverse=REVERSE)
    tl.store(y + at, w)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_cumulative_sums(dtype: str, shape: tuple[int, int, int], reverse: bool) -> None:
    x = random(np.random.default_rng(1), dtype, shape)
    _, y = run(cumulative, x, np.zeros_like(x), A=shape[0], N=shape[1], B=shape[2], KIND="sum", REVERSE=reverse)
    want = np.cumsum(x[:, ::-1] if reverse else x, 1, dtype=x.dtype)
    np.testing.assert_array_equal(y, want[:, ::-1] if reverse else want)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64", "uint8", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(4, 16, 1), (2, 8, 4), (1, 32, 1)], ids=str)
@pytest.mark.parametrize("kind", ["sum", "product"])
def test_every_type(dtype: str, shape: tuple[int, int, int], kind: str) -> None:
    x = random(np.random.default_rng(2), dtype, shape)
    widened = kind == "sum" and x.dtype.kind in "iu" and x.dtype.itemsize < 4  # only sums are
    out = x if not widened else x.astype("i4" if x.dtype.kind == "i" else "u4")
    _, y = run(cumulative, x, np.zeros_like(out), A=shape[0], N=shape[1], B=shape[2], KIND=kind, REVERSE=False)
    wide = out.astype(np.float64) if dtype in ("float16", "bfloat16") else out
    want = (np.cumsum if kind == "sum" else np.cumprod)(wide, 1, dtype=wide.dtype)
    if dtype in ("float16", "bfloat16"):
        np.testing.assert_allclose(y.astype(np.float64), want, rtol=0.1, atol=0.2)
    elif dtype == "float64":
        np.testing.assert_allclose(y, want, rtol=1e-12)
    else:
        np.testing.assert_array_equal(y, want)


@triton.jit
def keep_first(a, b):
    return a


@triton.jit
def linear(a0, b0, a1, b1):
    return a0 * a1, a1 * b0 + b1


@triton.jit
def branching(a, b):
    if a > b:
        r = a - b
    else:
        r = a * 3 + b
    return r


@triton.jit
def looping(a, b):
    r = a
    for i in range(0, b & 3):
        r = r * 2 + i
    return r


@triton.jit
def scan_with(x, y, N: tl.constexpr, M: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    v = tl.load(x + at)
    if KIND == "first":
        w = tl.associative_scan(v, AXIS, keep_first, reverse=REVERSE)
    elif KIND == "branching":
        w = tl.associative_scan(v, AXIS, branching, reverse=REVERSE)
    else:
        w = tl.associative_scan(v, AXIS, looping, reverse=REVERSE)
    tl.store(y + at, w)


def fold(x: np.ndarray, axis: int, reverse: bool, function: object) -> np.ndarray:
    lines = np.moveaxis(x.copy(), axis, 0)
    order = range(len(lines))[::-1] if reverse else range(len(lines))
    before = None
    for i in order:
        before = lines[i].copy() if before is None else np.vectorize(function)(before, lines[i])
        lines[i] = before
    return np.moveaxis(lines, 0, axis)


FUNCTIONS = {
    "first": lambda a, b: a,
    "branching": lambda a, b: a - b if a > b else a * 3 + b,
    "looping": lambda a, b: [a, a * 2, a * 4 + 1, a * 8 + 4][b & 3],
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_any_region(name: str, axis: int, reverse: bool) -> None:
    x = np.random.default_rng(3).integers(0, 4, (4, 8)).astype(np.int64)
    _, y = run(scan_with, x, np.zeros_like(x), N=4, M=8, AXIS=axis, REVERSE=reverse, KIND=name)
    np.testing.assert_array_equal(y, fold(x, axis, reverse, FUNCTIONS[name]))


@triton.jit
def scan_pairs(a, b, c, d, N: tl.constexpr, M: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    p, q = tl.associative_scan((tl.load(a + at), tl.load(b + at)), AXIS, linear)
    tl.store(c + at, p)
    tl.store(d + at, q)


@pytest.mark.parametrize("axis", [0, 1])
def test_two_operands(axis: int) -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=(16, 16)).astype(np.float32) for _ in range(2))
    *_, c, d = run(scan_pairs, a, b, np.zeros_like(a), np.zeros_like(b), N=16, M=16, AXIS=axis)
    p, q = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    state, want = np.zeros_like(q[0]), []
    for i in range(16):
        state = p[i] * state + q[i]
        want.append(state)
    np.testing.assert_allclose(np.moveaxis(c, axis, 0), np.cumprod(p, 0), rtol=1e-5)
    np.testing.assert_allclose(np.moveaxis(d, axis, 0), np.array(want), rtol=1e-4, atol=1e-5)


@triton.jit
def scan_mixed(x, i, y, j, N: tl.constexpr):
    at = tl.arange(0, N)
    v, w = tl.associative_scan((tl.load(x + at), tl.load(i + at)), 0, last_valid)
    tl.store(y + at, v)
    tl.store(j + at, w)


@triton.jit
def last_valid(x0, i0, x1, i1):
    return tl.where(i1, x1, x0), i0 | i1


def test_operands_of_two_types_forward_fill() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=64).astype(np.float16)
    i = rng.integers(0, 2, 64).astype(np.bool_)
    *_, y, j = run(scan_mixed, x, i, np.zeros_like(x), np.zeros_like(i), N=64)
    want = x.copy()
    for k in range(1, 64):
        want[k] = x[k] if i[k] else want[k - 1]
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(j, np.logical_or.accumulate(i))


@triton.jit
def scan_masked_in_loop(x, y, n, N: tl.constexpr):
    carry = 0.0
    for start in range(0, n, N):
        at = start + tl.arange(0, N)
        v = tl.cumsum(tl.load(x + at, mask=at < n, other=0.0), 0) + carry
        tl.store(y + at, v, mask=at < n)
        carry = tl.max(tl.where(tl.arange(0, N) == N - 1, v, float("-inf")), 0)


def test_a_scan_in_a_loop_with_a_tail() -> None:
    x = np.random.default_rng(6).normal(size=100).astype(np.float32)
    _, y = run(scan_masked_in_loop, x, np.zeros_like(x), 100, N=32)
    np.testing.assert_allclose(y, np.cumsum(x, dtype=np.float64), rtol=1e-4, atol=1e-5)


@triton.jit
def sorted_rows(x, y, N: tl.constexpr, M: tl.constexpr, DESCENDING: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(y + at, tl.sort(tl.load(x + at), descending=DESCENDING))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int16", "float16", "int64"])
def test_sort(dtype: str, descending: bool) -> None:
    x = random(np.random.default_rng(7), dtype, (4, 32))
    _, y = run(sorted_rows, x, np.zeros_like(x), N=4, M=32, DESCENDING=descending)
    want = np.sort(x, 1)
    np.testing.assert_array_equal(y, want[:, ::-1] if descending else want)
