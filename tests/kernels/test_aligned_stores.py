"""Stores whose chunks are moved to cache lines: every element once or twice with the same value, none beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from placed import after_line

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from three_ways import check  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")

N = 1024
DTYPES = [np.float32, np.float64, np.float16, np.int8, np.int64]


@triton.jit
def double(x, y, lo, hi, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    m = (i >= lo) & (i < hi)
    tl.store(y + i, tl.load(x + i, mask=m) * 2, mask=m)


@triton.jit
def double_below(x, y, hi, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + i, tl.load(x + i, mask=i < hi) * 2, mask=i < hi)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0, 1, 4, 7, 15, 31])
def test_offsets(offset: int, dtype: Any) -> None:
    source = (np.arange(2 * N) % 50).astype(dtype)
    for lo, hi in ((0, 2 * N), (5, 2 * N - 3), (N - 1, N + 70), (40, 300), (300, 40), (0, 31)):

        def expect(a: dict[str, Any], lo: int = lo, hi: int = hi) -> None:
            a["y"][lo : max(lo, hi)] = a["x"][lo : max(lo, hi)] * 2

        def make(**bounds: int) -> Any:
            return lambda: {"x": source, "y": after_line(2 * N + 64, offset, dtype), **bounds, "N": N}

        check(double, make(lo=lo, hi=hi), expect, grid=(2,))
        if lo == 0:
            check(double_below, make(hi=hi), expect, grid=(2,))


@triton.jit
def rows(x, y, z, stride, N: tl.constexpr, R: tl.constexpr):
    r = tl.arange(0, R)[:, None]
    i = tl.arange(0, N)[None, :]
    v = tl.load(x + r * stride + i)
    tl.store(y + r * stride + i, v + 1)
    tl.store(z + r * N + i, v - 1)


@pytest.mark.parametrize("stride", [N, N + 1, N + 5])
def test_rows_begin_anywhere(stride: int) -> None:
    count = 4 * stride

    def expect(a: dict[str, Any]) -> None:
        for r in range(4):
            row = a["x"][r * stride : r * stride + N]
            a["y"][r * stride : r * stride + N] = row + 1
            a["z"][r * N : r * N + N] = row - 1

    def make() -> dict[str, Any]:
        x = np.arange(count, dtype=np.float32)
        y, z = after_line(count, 3, np.float32), after_line(4 * N, 9, np.float32)
        return {"x": x, "y": y, "z": z, "stride": stride, "N": N, "R": 4}

    check(rows, make, expect)


@triton.jit
def in_place(x, hi, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i, mask=i < hi) + 1, mask=i < hi)


@triton.jit
def shifted(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i) + 1)


@pytest.mark.parametrize("offset", [0, 1, 5, 13])
def test_what_is_loaded_is_stored_once(offset: int) -> None:
    def increment(a: dict[str, Any]) -> None:
        a["x"][: a["hi"]] += 1

    check(in_place, lambda: {"x": after_line(N, offset, np.float32), "hi": N, "N": N}, increment)
    check(in_place, lambda: {"x": after_line(N, offset, np.float32), "hi": N - 40, "N": N}, increment)

    def move(a: dict[str, Any]) -> None:
        a["y"][:N] = a["x"][:N] + 1

    def overlapping() -> dict[str, Any]:
        x = after_line(N + 16, offset, np.float32)
        x[:] = np.arange(N + 16)
        return {"x": x[8:], "y": x, "N": N}

    check(shifted, overlapping, move, disjoint=False)
