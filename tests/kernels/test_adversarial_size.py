"""Long chains and shared operands: neither Python's stack nor the time to compile may run out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from three_ways import check  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")


@triton.jit
def chain(x, s, R: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i, mask=i < s, other=0.5)
    for k in tl.static_range(R):
        v = v * 0.5 + k
    tl.store(x + i, v)


@triton.jit
def doubled(x, s, R: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    w = v * 2
    for _ in tl.static_range(R):
        v, w = v + w * 0.5, v - w
    tl.store(x + i, v * w)


@triton.jit
def shared_offsets(x, s, R: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    j = i + s
    for k in tl.static_range(R):
        i, j = j - i + s, i + s * k
    at = tl.arange(0, N) + (i + j) % 2 * 0
    tl.store(x + at, tl.load(x + at, mask=i + j < 100 * s, other=2.0) + 1, mask=i - j < s * R)


@triton.jit
def accumulated(x, s, R: tl.constexpr, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    acc = a
    for _ in range(s):
        t = acc
        for _ in tl.static_range(R):
            t = t - t * 0.5
        acc = tl.dot(a, a, t)
    tl.store(x + p, acc)


def test_long_chain() -> None:
    def expect(a: dict[str, Any]) -> None:
        v = np.where(np.arange(64) < 40, a["x"], np.float32(0.5)).astype(np.float32)
        for k in range(320):
            v = v * np.float32(0.5) + np.float32(k)
        a["x"][:] = v

    check(chain, lambda: {"x": np.arange(64, dtype=np.float32), "s": 40, "R": 320, "N": 64}, expect)


def test_operands_shared_at_every_step() -> None:
    def expect(a: dict[str, Any]) -> None:
        v, w = a["x"].copy(), a["x"] * 2
        for _ in range(30):
            v, w = v + w * np.float32(0.5), v - w
        a["x"][:] = v * w

    make = lambda: {"x": np.arange(64, dtype=np.float32), "s": 3, "R": 30, "N": 64}  # noqa: E731
    check(doubled, make, expect, rtol=1e-5)


def test_offsets_shared_at_every_step() -> None:
    rounds, n, s = 40, 64, 3

    def expect(a: dict[str, Any]) -> None:
        i = np.arange(n, dtype=np.int32)
        j = i + np.int32(s)
        for k in range(rounds):
            i, j = j - i + np.int32(s), i + np.int32(s * k)
        at = np.arange(n)
        v = np.where(i + j < 100 * s, a["x"][at], 2) + 1
        m = i - j < s * rounds
        a["x"][at[m]] = v[m]

    check(shared_offsets, lambda: {"x": np.arange(n, dtype=np.float32), "s": s, "R": rounds, "N": n}, expect)


def test_accumulator_behind_a_long_chain() -> None:
    def expect(q: dict[str, Any]) -> None:
        a = q["x"].reshape(16, 16).copy()
        acc = a
        for _ in range(3):
            acc = a @ a + acc * np.float32(0.5**25)
        q["x"][:] = acc.ravel()

    x = np.random.default_rng(0).integers(-2, 3, 256).astype(np.float32)
    check(accumulated, lambda: {"x": x.copy(), "s": 3, "R": 25, "N": 16}, expect, rtol=1e-5, atol=1e-5)


@triton.jit
def summed_offsets(x, s, o, R: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    k = i
    for j in tl.static_range(R):
        k = k + tl.load(s + j % 4)
    tl.store(o + i, tl.load(x + k))


@triton.jit
def multiplied_offsets(x, s, o, R: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    k = i * 0
    for j in tl.static_range(R):
        k = k + i * (j % 2)
    tl.store(o + i, tl.load(x + k // (R // 2)))


@triton.jit
def advanced_pointers(x, s, o, R: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i
    for j in tl.static_range(R):
        p = p + tl.load(s + j % 4)
    tl.store(o + i, tl.load(p))


@pytest.mark.parametrize("kernel", [summed_offsets, multiplied_offsets, advanced_pointers])
def test_long_sums_of_integers(kernel: Any) -> None:
    R, N = 2000, 16
    x = np.arange(N + R, dtype=np.float32)
    s = np.array([0, 1, 1, 0], np.int32)
    at = np.arange(N) if kernel is multiplied_offsets else np.arange(N) + R // 2

    def expect(a: dict[str, Any]) -> None:
        a["o"][:] = x[at]

    check(kernel, lambda: {"x": x.copy(), "s": s.copy(), "o": np.zeros(N, np.float32), "R": R, "N": N}, expect)
