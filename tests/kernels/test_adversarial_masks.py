"""Masks: those that are taken for bounds, those that only look like bounds, and what masked-off lanes must not do."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from three_ways import check  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")

N = 128


def ramp(n: int, dtype: Any = np.float32) -> np.ndarray:
    return np.arange(1, n + 1).astype(dtype)


def make_with(**more: Any) -> Any:
    return lambda: {"x": ramp(4 * N), "y": np.full(4 * N, -7, np.float32), "N": N, **more}


@triton.jit(do_not_specialize=["n", "start"])
def compare_with(x, y, n, start, OP: tl.constexpr, UNSIGNED: tl.constexpr, WIDE: tl.constexpr, N: tl.constexpr):
    lane = tl.arange(0, N)
    i = lane + start
    if WIDE:
        i = i.to(tl.int64)
        n = n.to(tl.int64)
    if UNSIGNED:
        i = i.to(tl.uint64) if WIDE else i.to(tl.uint32)
        n = n.to(tl.uint64) if WIDE else n.to(tl.uint32)
    if OP == "lt":
        m = i < n
    elif OP == "le":
        m = i <= n
    elif OP == "gt":
        m = i > n
    elif OP == "ge":
        m = i >= n
    elif OP == "rlt":
        m = n < i
    elif OP == "rge":
        m = n >= i
    elif OP == "eq":
        m = i == n
    else:
        m = i != n
    v = tl.load(x + lane, mask=m, other=-1)
    tl.store(y + lane, v, mask=m)
    tl.store(y + N + lane, v)
    tl.store(y + 2 * N + lane, tl.where(m, 5.0, v))


OPS = {
    "lt": lambda i, n: i < n,
    "le": lambda i, n: i <= n,
    "gt": lambda i, n: i > n,
    "ge": lambda i, n: i >= n,
    "rlt": lambda i, n: n < i,
    "rge": lambda i, n: n >= i,
    "eq": lambda i, n: i == n,
    "ne": lambda i, n: i != n,
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("op", list(OPS))
def test_comparisons(op: str, unsigned: bool, wide: bool) -> None:
    bounds = [0, 1, 31, 32, 33, 100, 127, 128, 200, -1, -100, 2**31 - 1, 2**31 - 64, -(2**31)]
    starts = [0, 10, -5, -64, 2**31 - 50, 2**31 - 128]
    for n, start in [*((b, 0) for b in bounds), *((b, s) for s in starts for b in (0, 1, 33, -1, 2**31 - 30))]:
        dtype = {
            (False, False): np.int32,
            (True, False): np.uint32,
            (False, True): np.int64,
            (True, True): np.uint64,
        }[unsigned, wide]

        def expect(a: dict[str, Any], n: int = n, start: int = start, dtype: Any = dtype) -> None:
            i = (np.arange(N) + start).astype(np.int32).astype(dtype)
            m = OPS[op](i, np.array(n).astype(dtype))
            v = np.where(m, a["x"][:N], -1)
            a["y"][:N][m] = v[m]
            a["y"][N : 2 * N] = v
            a["y"][2 * N : 3 * N] = np.where(m, 5, v)

        more = {"n": n, "start": start, "OP": op, "UNSIGNED": unsigned, "WIDE": wide}
        check(compare_with, make_with(**more), expect)


@triton.jit
def remainder_mask(x, y, start, n, t, N: tl.constexpr):
    lane = tl.arange(0, N)
    r = (lane + start) % n
    tl.store(y + lane, tl.load(x + lane), mask=r >= t)
    tl.store(y + N + lane, tl.load(x + lane), mask=r < t)
    tl.store(y + 2 * N + lane, tl.load(x + lane, mask=r > t, other=-1.0))


@pytest.mark.parametrize(("start", "n", "t"), [(0, 64, 32), (32, 64, 32), (60, 64, 62), (0, 48, 16), (-20, 64, 0)])
def test_remainders_are_no_bounds(start: int, n: int, t: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        r = np.fmod(np.arange(N) + start, n)
        a["y"][:N][r >= t] = a["x"][:N][r >= t]
        a["y"][N : 2 * N][r < t] = a["x"][:N][r < t]
        a["y"][2 * N : 3 * N] = np.where(r > t, a["x"][:N], -1)

    check(remainder_mask, make_with(start=start, n=n, t=t), expect)


@triton.jit
def hash_mask(x, y, t, N: tl.constexpr):
    lane = tl.arange(0, N)
    h = lane * 1664525 + 1013904223
    v = tl.load(x + lane, mask=h < t, other=-2.0)
    tl.store(y + lane, v)
    tl.store(y + N + (h.to(tl.uint32) % 128).to(tl.int32), v, mask=(h & 1) == 0)
    tl.store(y + 2 * N + lane, v, mask=(lane * 33554432 + 5) < t)
    tl.store(y + 3 * N + lane, v, mask=(lane * 33554432).to(tl.int64) < t)


@pytest.mark.parametrize("t", [0, 12345678, -5, 2**31 - 1])
def test_hash_masks_wrap(t: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        lane = np.arange(N, dtype=np.int32)
        h = lane * np.int32(1664525) + np.int32(1013904223)
        v = np.where(h < t, a["x"][:N], -2)
        y = a["y"]
        y[:N] = v
        for i in range(N):
            if h[i] & 1 == 0:
                y[N + int(h.view(np.uint32)[i] % 128)] = v[i]
        g = lane * np.int32(33554432)
        m = g + np.int32(5) < t
        y[2 * N : 3 * N][m] = v[m]
        m = g < t
        y[3 * N : 4 * N][m] = v[m]

    check(hash_mask, make_with(t=t), expect)


@triton.jit
def jumping(x, y, n, N: tl.constexpr):
    lane = tl.arange(0, N)
    rows = tl.arange(0, 4)[:, None] * 1000 + tl.arange(0, N // 4)[None, :]
    i = tl.reshape(rows, (N,))
    tl.store(y + lane, tl.load(x + lane), mask=i < n)
    v = tl.load(x + lane, mask=tl.reshape(rows, (N,)) < n, other=0.0)
    tl.store(y + N + lane, v)
    m = tl.reshape(rows < n, (N,))
    tl.store(y + 2 * N + lane, tl.load(x + lane, mask=m, other=3.0), mask=m)
    band = tl.reshape(tl.broadcast_to(tl.arange(0, 4)[:, None] * 1000 < n, (4, N // 4)), (N,))
    tl.store(y + 3 * N + lane, v, mask=band)


@pytest.mark.parametrize("n", [0, 16, 100, 1000, 1010, 2500, 5000])
def test_bounds_over_reshaped_ranges(n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        x, y = a["x"][:N], a["y"]
        i = (np.arange(4)[:, None] * 1000 + np.arange(N // 4)[None, :]).ravel()
        m = i < n
        y[:N][m] = x[m]
        y[N : 2 * N] = np.where(m, x, 0)
        y[2 * N : 3 * N][m] = x[m]
        b = np.repeat(np.arange(4) * 1000 < n, N // 4)
        y[3 * N :][b] = np.where(m, x, 0)[b]

    check(jumping, make_with(n=n), expect)


@triton.jit
def jumping_uniform(x, y, n, N: tl.constexpr):
    lane = tl.arange(0, N)
    band = tl.reshape(tl.broadcast_to(tl.arange(0, 4)[:, None], (4, N // 4)), (N,))
    m = band * 1 < n
    tl.store(y + lane, tl.load(x + lane, mask=m, other=9.0), mask=m)
    tl.store(y + N + lane, tl.load(x + band * 7 + lane % 4))
    zero = tl.reshape(tl.zeros((4, N // 4), tl.int64), (N,))
    tl.store(y + 2 * N + lane, tl.load(x + lane, mask=zero != 0, other=1.0))
    tl.store(y + 3 * N + lane, tl.load(x + lane, mask=(zero != n) & (band < n), other=1.0))


@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_masks_that_are_the_same_within_a_chunk_only(n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        x, y = a["x"], a["y"]
        band = np.repeat(np.arange(4), N // 4)
        m = band < n
        y[:N][m] = x[:N][m]
        y[N : 2 * N] = x[band * 7 + np.arange(N) % 4]
        y[2 * N : 3 * N] = 1
        y[3 * N :] = np.where((n != 0) & m, x[:N], 1)

    check(jumping_uniform, make_with(n=n), expect)


@triton.jit
def rows_and_columns(x, y, m, n, lo, hi, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, K)[None, :]
    inside = (i < m) & (j < n)
    band = (j >= lo) & (j < hi)
    lower = j <= i
    v = tl.load(x + i * K + j, mask=inside, other=-1.0)
    w = tl.load(x + i * K + j, mask=inside & band, other=-2.0)
    u = tl.load(x + i * K + j, mask=(i + j < n) | lower, other=-3.0)
    tl.store(y + i * K + j, v, mask=lower)
    tl.store(y + M * K + j * M + i, w, mask=inside)
    tl.store(y + 2 * M * K + i * K + j, u)
    tl.store(y + 3 * M * K + j * M + i, tl.where(band, w, v), mask=(i >= m) ^ band)


@pytest.mark.parametrize(("m", "n", "lo", "hi"), [(0, 5, 0, 9), (16, 64, 0, 64), (7, 33, 31, 32), (3, -2, 60, 70)])
def test_masks_of_rows_and_columns(m: int, n: int, lo: int, hi: int) -> None:
    M, K = 16, 64

    def expect(a: dict[str, Any]) -> None:
        x = a["x"].reshape(M, K)
        y = a["y"].reshape(4, M * K)
        i, j = np.arange(M)[:, None], np.arange(K)[None, :]
        inside, band, lower = (i < m) & (j < n), (j >= lo) & (j < hi), j <= i
        full = np.broadcast_arrays(inside, band, lower)
        v = np.where(inside, x, -1)
        w = np.where(inside & band, x, -2)
        u = np.where((i + j < n) | lower, x, -3)
        y[0].reshape(M, K)[full[2]] = v[full[2]]
        y[1].reshape(K, M).T[full[0]] = w[full[0]]
        y[2].reshape(M, K)[:] = u
        last = (i >= m) ^ band
        y[3].reshape(K, M).T[last] = np.where(band, w, v)[last]

    def make() -> dict[str, Any]:
        y = np.full(4 * M * K, -7, np.float32)
        return {"x": ramp(M * K), "y": y, "m": m, "n": n, "lo": lo, "hi": hi, "M": M, "K": K}

    check(rows_and_columns, make, expect)


@triton.jit
def loaded_masks(x, y, f, lens, N: tl.constexpr):
    lane = tl.arange(0, N)
    m = tl.load(f + lane) != 0
    b = tl.load(f + lane).to(tl.int1)
    tl.store(y + lane, tl.load(x + lane, mask=m, other=tl.load(x + N + lane)), mask=b)
    n = tl.load(lens + 1)
    tl.store(y + N + lane, tl.load(x + lane, mask=lane < n, other=lane), mask=(lane < tl.load(lens + 2)) & m)
    one = tl.load(f + lane * 0 + 3) != 0
    tl.store(y + 2 * N + lane, tl.load(x + lane, mask=one, other=8.0), mask=one)


def test_masks_that_are_loaded() -> None:
    rng = np.random.default_rng(3)
    flags = rng.integers(0, 2, N).astype(np.int8)
    lens = np.array([0, 77, 50], np.int32)

    def expect(a: dict[str, Any]) -> None:
        x, y, f = a["x"], a["y"], flags != 0
        y[:N][f] = np.where(f, x[:N], x[N : 2 * N])[f]
        m = (np.arange(N) < 50) & f
        y[N : 2 * N][m] = np.where(np.arange(N) < 77, x[:N], np.arange(N))[m]
        if f[3]:
            y[2 * N : 3 * N] = x[:N]

    check(loaded_masks, make_with(f=flags, lens=lens), expect)


@triton.jit
def ragged(x, y, lens, W: tl.constexpr):
    row = tl.arange(0, 4)
    n = tl.load(lens + row, mask=row < 3, other=2)[:, None]
    j = tl.arange(0, W)[None, :]
    p = row[:, None] * W + j
    tl.store(y + p, tl.load(x + p, mask=j < n, other=-1.0), mask=j <= n)


def test_ragged_rows() -> None:
    lens = np.array([0, 33, 64], np.int32)

    def expect(a: dict[str, Any]) -> None:
        x, y = a["x"].reshape(4, 64), a["y"].reshape(4, 64)
        n = np.array([0, 33, 64, 2])[:, None]
        j = np.arange(64)[None, :]
        v = np.where(j < n, x, -1)
        y[j <= n] = v[j <= n]

    check(ragged, lambda: {"x": ramp(256), "y": np.zeros(256, np.float32), "lens": lens, "W": 64}, expect)


@triton.jit
def guarded(x, y, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.store(y + i, v + v, mask=i < n)


@triton.jit
def guarded_backwards(x, y, n, N: tl.constexpr):
    i = n - 1 - tl.arange(0, N)
    v = tl.load(x + i, mask=i >= 0, other=0)
    tl.store(y + i, v + v, mask=i >= 0)


@triton.jit
def guarded_strided(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i * 3, mask=i * 3 < n, other=0)
    tl.store(y + i * 3, v + v, mask=i * 3 < n)


def pages(count: int) -> tuple[mmap.mmap, int]:
    """Memory with a page before and after it that must not be touched; and the address of the memory."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, (count + 2) * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for at in (start, start + (count + 1) * page):
        assert protect(at, page, 0) == 0
    return area, start + page


def array_at(address: int, count: int, dtype: Any) -> np.ndarray:
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kernel", [guarded, guarded_backwards, guarded_strided])
@pytest.mark.parametrize("n", [1, 2, 31, 33, 100])
def test_masked_off_lanes_touch_no_page(kernel: Any, dtype: Any, n: int) -> None:
    size = np.dtype(dtype).itemsize
    areas = [pages(1), pages(1)]
    for end in (True, False):

        def make(end: bool = end) -> dict[str, Any]:
            arrays = []
            for _, start in areas:
                at = start + (mmap.PAGESIZE - n * size if end else 0)
                arrays.append(array_at(at, n, dtype))
            arrays[0][:] = np.arange(n) % 50
            arrays[1][:] = 3
            return {"x": arrays[0], "y": arrays[1], "n": n, "N": 128}

        want = np.arange(n) % 50 * 2
        step = 3 if kernel is guarded_strided else 1

        def expect(a: dict[str, Any], want: Any = want, step: int = step) -> None:
            a["x"], a["y"] = a["x"].copy(), a["y"].copy()  # the ways share the pages
            a["y"][::step] = want[::step]

        check(kernel, make, expect, grid=(2,) if kernel is guarded else (1,))


@triton.jit
def constant_bound(x, y, n: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, (v.to(tl.float32) * 2).to(y.dtype.element_ty), mask=i < n)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.int16])
@pytest.mark.parametrize(("n", "block"), [(1, 4), (1, 2), (1, 64), (2, 4), (3, 4), (5, 8), (33, 64)])
def test_constant_bounds(dtype: Any, n: int, block: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        a["y"][:n] = a["x"][:n] * 2

    check(constant_bound, lambda: {"x": ramp(64, dtype), "y": np.full(64, 7, dtype), "n": n, "B": block}, expect)


@triton.jit
def known_in_one_nest(x, y, n, m, N: tl.constexpr):
    i = tl.arange(0, N)
    inside = i < n
    v = tl.load(x + i, mask=inside, other=1.0)
    s = tl.sum(v, 0)
    w = tl.where(inside, v * 2, s)
    tl.store(y + i, w, mask=i < m)
    tl.store(y + N + i, w)
    t = tl.max(tl.where(inside & (i < m), w, -5.0), 0)
    tl.store(y + 2 * N + i, tl.where(inside, t, v), mask=(i < m) | inside)


@pytest.mark.parametrize(("n", "m"), [(0, 128), (128, 0), (50, 90), (90, 50), (128, 128), (-3, 64)])
def test_one_mask_in_several_nests(n: int, m: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        x, y, i = a["x"][:N], a["y"], np.arange(N)
        v = np.where(i < n, x, 1)
        s = v.sum()
        w = np.where(i < n, v * 2, s)
        y[:N][i < m] = w[i < m]
        y[N : 2 * N] = w
        t = np.where((i < n) & (i < m), w, -5).max()
        k = (i < m) | (i < n)
        y[2 * N : 3 * N][k] = np.where(i < n, t, v)[k]

    check(known_in_one_nest, make_with(n=n, m=m), expect)


@triton.jit(do_not_specialize=["n", "start"])
def wrapped_remainder(x, y, start, n, N: tl.constexpr):
    i = tl.arange(0, N) + start
    v = tl.load(x + i % n)
    tl.store(y + tl.arange(0, N), v)
    u = tl.load(x + (i.to(tl.uint32) % n.to(tl.uint32)).to(tl.int32))
    tl.store(y + N + tl.arange(0, N), u)


@pytest.mark.parametrize(("start", "n"), [(0, 128), (100, 130), (2**31 - 10, 200), (5, 1), (7, 32), (300, 512)])
def test_remainders_in_addresses(start: int, n: int) -> None:
    def make() -> dict[str, Any]:
        x = ramp(1024)
        return {"x": x[256:], "y": np.zeros(2 * N, np.float32), "start": start, "n": np.int32(n), "N": N}

    def expect(a: dict[str, Any]) -> None:
        i = (np.arange(N) + start).astype(np.int32)
        a["y"][:N] = (256 + np.fmod(i, n) + 1).astype(np.float32)
        a["y"][N:] = (256 + i.astype(np.uint32) % n + 1).astype(np.float32)

    check(wrapped_remainder, make, expect)


@triton.jit
def between(x, y, lo, hi, N: tl.constexpr):
    i = tl.arange(0, N)
    m = (i >= lo) & (hi > i)
    v = tl.load(x + i, mask=m, other=1.0)
    tl.store(y + i, v * 2, mask=m)
    tl.store(y + 2 * N + i, tl.sum(v, 0) + tl.zeros((N,), tl.float32))


@pytest.mark.parametrize("n", [16, 32, 128])
@pytest.mark.parametrize("lo, hi", [(1, 127), (0, 32), (32, 96), (33, 64), (96, 32), (-5, 200), (127, 128), (200, -5)])
def test_masks_between_two_bounds(lo: int, hi: int, n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        i = np.arange(n)
        m = (i >= lo) & (hi > i)
        v = np.where(m, a["x"][:n], 1)
        a["y"][:n][m] = 2 * v[m]
        a["y"][2 * n : 3 * n] = v.sum()

    check(between, lambda: {"x": ramp(4 * N), "y": np.full(4 * N, -7, np.float32), "lo": lo, "hi": hi, "N": n}, expect)
