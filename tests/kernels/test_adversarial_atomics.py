"""Atomics: duplicated addresses, masks, old values, and other accesses of the same memory around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from three_ways import check  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")


@triton.jit
def histogram(x, bins, sum, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i, mask=i < n, other=0)
    before = tl.atomic_add(bins + v, 1, mask=(i < n) & (v != 3))
    tl.atomic_add(sum, tl.sum(before, 0))
    tl.atomic_max(bins + 8 + i * 0, v)
    tl.atomic_min(bins + 9 + tl.arange(0, N) * 0, v - 5, mask=i < n)
    tl.atomic_xor(bins + 10 + i * 0, v)


def test_duplicated_addresses() -> None:
    x = np.random.default_rng(0).integers(0, 8, 128).astype(np.int32)

    def expect(a: dict[str, Any]) -> None:
        bins = a["bins"]
        counted = (np.arange(128) < 100) & (x != 3)
        for at in np.flatnonzero(counted):
            bins[x[at]] += 1
        values = np.where(np.arange(128) < 100, x, 0)
        bins[8], bins[9], bins[10] = values.max(), min(0, values[:100].min() - 5), np.bitwise_xor.reduce(values)
        a["sum"][0] = sum(k * (k - 1) // 2 for k in bins[:8].tolist())

    def make() -> dict[str, Any]:
        return {"x": x, "bins": np.zeros(11, np.int32), "sum": np.zeros(1, np.int32), "n": 100, "N": 64}

    check(histogram, make, expect, grid=(2,))


@triton.jit
def between(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    before = tl.load(x + i)
    one = tl.load(x + 3)
    old = tl.atomic_xchg(x + i, before * 2)
    after = tl.load(x + i)
    got = tl.atomic_cas(x + i, after, before + 100)
    two = tl.load(x + 3)
    swapped = tl.atomic_cas(x, 100, 7)
    tl.store(y + i, before)
    tl.store(y + N + i, old + one)
    tl.store(y + 2 * N + i, after)
    tl.store(y + 3 * N + i, got + two + swapped)


def test_loads_around_atomics() -> None:
    n, dtype = 32, np.int32

    def expect(a: dict[str, Any]) -> None:
        x, y = a["x"], a["y"].reshape(4, n)
        before = x.copy()
        y[0], y[1], y[2] = before, before + before[3], before * 2
        x[:] = before + 100
        y[3] = before * 2 + x[3] + x[0]
        if x[0] == 100:
            x[0] = 7

    check(between, lambda: {"x": np.arange(n).astype(dtype), "y": np.zeros(4 * n, dtype), "N": n}, expect)


@triton.jit
def float_atomics(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.atomic_add(out + i * 0, v, mask=i < n)
    tl.atomic_max(out + 1 + i * 0, v, mask=i < n)
    tl.atomic_min(out + 2 + i * 0, v)
    tl.atomic_add(out + 3 + i % 2, tl.sum(v, 0) * 0 + 1)


@pytest.mark.parametrize("n", [0, 1, 33, 64])
def test_floats(n: int) -> None:
    x = np.random.default_rng(2).integers(-9, 9, 64).astype(np.float32)

    def expect(a: dict[str, Any]) -> None:
        out = a["out"]
        out[0] += x[:n].sum()
        out[1] = max(out[1], x[:n].max(initial=-100))
        out[2] = min(out[2], x.min())
        out[3:] += 32

    start = np.array([1, -4, 5, 0, 0.5], np.float32)
    check(float_atomics, lambda: {"x": x, "out": start.copy(), "n": n, "N": 64}, expect)


@triton.jit
def ticket(x, out, count, N: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    tl.store(x + pid * N + i, pid + i)
    last = tl.atomic_add(count, 1) == tl.num_programs(0) - 1
    if last:
        total = tl.zeros((N,), tl.int32)
        for k in range(tl.num_programs(0)):
            total += tl.load(x + k * N + i)
        tl.store(out + i, total)


def test_last_program_sums() -> None:
    n, programs = 32, 8

    def expect(a: dict[str, Any]) -> None:
        x = a["x"].reshape(programs, n)
        x[:] = np.arange(programs)[:, None] + np.arange(n)
        a["out"][:] = x.sum(0)
        a["count"][0] = programs

    def make() -> dict[str, Any]:
        arrays = (np.zeros(k, np.int32) for k in (n * programs, n, 1))
        return {**dict(zip(("x", "out", "count"), arrays, strict=True)), "N": n}

    check(ticket, make, expect, grid=(programs,))


@triton.jit
def sums_of_blocks(x, counts, columns, bounds, n, width, N: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i, mask=i < n, other=0)
    bins = tl.arange(0, B)
    scale = width - 1
    tl.atomic_add(counts + bins * 2, tl.histogram(v, B, mask=i < n), mask=bins < width)
    rows = tl.reshape(v, (N // B, B))
    tl.atomic_add(columns + scale + bins, tl.sum(rows, 0).to(tl.float32), mask=bins < scale)
    tl.atomic_add(bounds + tl.arange(0, N) % 4, v)


@pytest.mark.parametrize("programs", [1, 7])
def test_gathered_over_programs(programs: int) -> None:
    """Additions to the same place in every program: duplicated addresses, masks, a scalar computed from arguments."""
    n, size, bins, width = programs * 64 - 5, 64, 16, 11
    x = np.random.default_rng(1).integers(0, 20, n).astype(np.int32)

    def expect(a: dict[str, Any]) -> None:
        padded = np.zeros(programs * size, np.int32)
        padded[:n] = x
        a["counts"][0 : 2 * width : 2] += np.bincount(x, minlength=bins)[:width].astype(np.int32)
        a["columns"][width - 1 : 2 * (width - 1)] += padded.reshape(-1, bins).sum(0)[: width - 1]
        a["bounds"] += padded.reshape(-1, 4).sum(0)

    def make() -> dict[str, Any]:
        return {
            "x": x,
            "counts": np.arange(2 * width, dtype=np.int32),
            "columns": np.arange(2 * width, dtype=np.float32),
            "bounds": np.arange(4, dtype=np.int32),
            "n": n,
            "width": width,
            "N": size,
            "B": bins,
        }

    check(sums_of_blocks, make, expect, grid=(programs,))
