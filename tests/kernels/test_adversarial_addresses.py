"""Addresses: strides of every kind, narrow and wide offsets, gathers, tables of pointers, block pointers, descriptors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from three_ways import check  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")


def ramp(n: int, dtype: Any = np.float32) -> np.ndarray:
    return np.arange(1, n + 1).astype(dtype)


@triton.jit(do_not_specialize=["sm", "sn", "base"])
def strided(x, y, base, sm, sn, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, N)[None, :]
    v = tl.load(x + base + i * sm + j * sn)
    tl.store(y + i * N + j, v)
    tl.store(y + M * N + i + j * M, v * 2)


@pytest.mark.parametrize(
    ("sm", "sn"), [(64, 1), (1, 16), (0, 1), (1, 0), (0, 0), (-64, 1), (64, -1), (2, 3), (-1, -16), (63, 2), (1, 1)]
)
@pytest.mark.parametrize(("m", "n"), [(16, 64), (64, 16), (1, 32), (32, 1)])
@pytest.mark.parametrize("wide", [False, True])
def test_runtime_strides(sm: int, sn: int, m: int, n: int, wide: bool) -> None:
    kind = np.int64 if wide else np.int32

    def make() -> dict[str, Any]:
        return {
            "x": ramp(16384),
            "y": np.zeros(2 * m * n, np.float32),
            "base": kind(8192),
            "sm": kind(sm),
            "sn": kind(sn),
            "M": m,
            "N": n,
        }

    def expect(a: dict[str, Any]) -> None:
        at = 8192 + np.arange(m)[:, None] * sm + np.arange(n)[None, :] * sn
        v = a["x"][at]
        a["y"][: m * n] = v.ravel()
        a["y"][m * n :] = 2 * v.T.ravel()

    check(strided, make, expect)


@triton.jit
def narrow_offsets(x, y, s8, u8, s64, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + 128 + tl.load(s8 + i))
    b = tl.load(x + tl.load(u8 + i))
    c = tl.load(x + tl.load(s64 + i))
    d = tl.load(x + 128 + (i.to(tl.int8) + tl.full((N,), 100, tl.int8)))
    e = tl.load(x + (i.to(tl.uint8) + tl.full((N,), 200, tl.uint8)))
    f = tl.load(x + (i.to(tl.uint32) * 3))
    g = tl.load(x + (i.to(tl.int16) * 1000 & 255))
    tl.store(y + i, a)
    tl.store(y + N + i, b)
    tl.store(y + 2 * N + i, c)
    tl.store(y + 3 * N + i, d)
    tl.store(y + 4 * N + i, e)
    tl.store(y + 5 * N + i, f)
    tl.store(y + 6 * N + i, g)


def test_narrow_and_wide_offsets() -> None:
    rng = np.random.default_rng(5)
    n = 64
    s8 = rng.integers(-128, 128, n).astype(np.int8)
    u8 = rng.integers(0, 256, n).astype(np.uint8)
    s64 = rng.integers(0, 256, n).astype(np.int64)

    def expect(a: dict[str, Any]) -> None:
        x, i = a["x"], np.arange(n)
        rows = [
            x[128 + s8.astype(int)],
            x[u8],
            x[s64],
            x[128 + (i.astype(np.int8) + np.int8(100)).astype(int)],
            x[i.astype(np.uint8) + np.uint8(200)],
            x[3 * i],
            x[(i.astype(np.int16) * np.int16(1000)) & 255],
        ]
        a["y"][:] = np.concatenate(rows)

    check(
        narrow_offsets,
        lambda: {"x": ramp(512), "y": np.zeros(7 * n, np.float32), "s8": s8, "u8": u8, "s64": s64, "N": n},
        expect,
    )


@triton.jit
def edges(x, y, start, w, h, N: tl.constexpr):
    i = start + tl.arange(0, N)
    row = i // w
    col = i % w
    tl.store(y + tl.arange(0, N), tl.load(x + row * w + col))
    tl.store(y + N + tl.arange(0, N), tl.load(x + (row + 1) % h * w + (col + w - 1) % w))
    tl.store(y + 2 * N + tl.arange(0, N), tl.load(x + col * h + row % h))
    tl.store(y + 3 * N + tl.arange(0, N), tl.load(x + (i - i % 8) + 7 - i % 8))


@pytest.mark.parametrize(
    ("start", "w", "h"), [(0, 128, 4), (5, 10, 20), (30, 33, 7), (0, 7, 40), (64, 64, 8), (3, 1, 200)]
)
def test_wrapping_over_edges(start: int, w: int, h: int) -> None:
    n = 128

    def expect(a: dict[str, Any]) -> None:
        x, y = a["x"], a["y"].reshape(4, n)
        i = start + np.arange(n)
        row, col = i // w, i % w
        y[0] = x[row * w + col]
        y[1] = x[(row + 1) % h * w + (col + w - 1) % w]
        y[2] = x[col * h + row % h]
        y[3] = x[(i - i % 8) + 7 - i % 8]

    make = lambda: {"x": ramp(1024), "y": np.zeros(4 * n, np.float32), "start": start, "w": w, "h": h, "N": n}  # noqa: E731
    check(edges, make, expect)


@triton.jit
def scatter_gather(x, y, idx, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.load(idx + i)
    back = tl.load(idx + at)
    tl.store(y + at, tl.load(x + back))
    rows = at[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.store(y + N + rows, tl.load(x + rows) + at[:, None])
    cols = tl.arange(0, 4)[:, None] * N + at[None, :]
    tl.store(y + 5 * N + cols, tl.load(x + cols))


@pytest.mark.parametrize("n", [16, 128])
def test_gathers_and_scatters(n: int) -> None:
    order = np.random.default_rng(1).permutation(n).astype(np.int32)

    def expect(a: dict[str, Any]) -> None:
        x, y = a["x"], a["y"]
        y[:n][order] = x[order[order]]
        rows = order[:, None] * 4 + np.arange(4)
        y[n : 5 * n][rows] = x[rows] + order[:, None]
        cols = np.arange(4)[:, None] * n + order
        y[5 * n :][cols] = x[cols]

    check(scatter_gather, lambda: {"x": ramp(8 * n), "y": np.zeros(9 * n, np.float32), "idx": order, "N": n}, expect)


@triton.jit
def table(ptrs, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for k in range(n):
        p = tl.load(ptrs + k).to(tl.pointer_type(tl.float32))
        total += tl.load(p + i)
        tl.store(p + N - 1 - i, total)
    each = tl.load(ptrs + i % n).to(tl.pointer_type(tl.float32))
    tl.store(y + i, tl.load(each + i))
    tl.store(y + N + i, total)


def test_tables_of_pointers() -> None:
    n = 64
    arrays = [ramp(n) * (k + 1) for k in range(3)]
    fresh = [a.copy() for a in arrays]

    def make() -> dict[str, Any]:
        for array, start in zip(arrays, fresh, strict=True):
            array[:] = start
        return {
            "ptrs": np.array([a.ctypes.data for a in arrays], np.int64),
            "y": np.zeros(2 * n, np.float32),
            "n": 3,
            "N": n,
        }

    def expect(a: dict[str, Any]) -> None:
        values, total, i = [f.copy() for f in fresh], np.zeros(n, np.float32), np.arange(n)
        for k in range(3):
            total = total + values[k]
            values[k] = total[::-1]
        a["y"][:n] = np.array(values)[i % 3, i]
        a["y"][n:] = total

    check(table, make, expect)


@triton.jit
def chosen_pointers(x, y, z, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x if flag > 2 else y
    v = tl.load(p + i)
    tl.store(x + i, v + 1)
    tl.store(z + i, tl.load(p + i) + v)
    q = tl.where(tl.load(z + i) > 40, x + i, y + N - 1 - i)
    w = tl.load(q)
    tl.store(q, w * 2)
    tl.store(z + N + i, w)


@pytest.mark.parametrize("flag", [2, 3])
def test_chosen_pointers(flag: int) -> None:
    n = 32

    def expect(a: dict[str, Any]) -> None:
        x, y, z, i = a["x"], a["y"], a["z"], np.arange(n)
        p = x if flag > 2 else y
        v = p.copy()
        x[:] = v + 1
        z[:n] = p + v
        m = z[:n] > 40
        w = np.where(m, x, y[::-1])
        x[m] = w[m] * 2
        y[n - 1 - i[~m]] = w[~m] * 2
        z[n:] = w

    check(
        chosen_pointers,
        lambda: {"x": ramp(n), "y": ramp(n) * 3, "z": np.zeros(2 * n, np.float32), "flag": flag, "N": n},
        expect,
    )


@triton.jit
def blocks(x, y, M, N, B: tl.constexpr):
    p = tl.make_block_ptr(x, (M, N), (N, 1), (0, 0), (B, B), (1, 0))
    q = tl.make_block_ptr(y, (N, M), (M, 1), (0, 0), (B, B), (1, 0))
    for _ in range(0, N, B):
        v = tl.load(p, boundary_check=(0, 1), padding_option="zero")
        tl.store(q, tl.trans(v + 1), boundary_check=(0, 1))
        p = tl.advance(p, (0, B))
        q = tl.advance(q, (B, 0))


@triton.jit
def descriptors(x, y, M, N, B: tl.constexpr):
    p = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
    q = tl.make_tensor_descriptor(y, [N, M], [M, 1], [B, B])
    for k in range(0, N, B):
        v = p.load([0, k])
        q.store([k, 0], tl.trans(v + 1))


BLOCK_POINTERS = pytest.mark.skipif(
    tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 9), reason="Triton 3.9 has no block pointers"
)


@pytest.mark.parametrize("kernel", [pytest.param(blocks, marks=BLOCK_POINTERS), descriptors])
@pytest.mark.parametrize(("m", "n"), [(16, 32), (12, 40), (4, 20)])
def test_blocks(kernel: Any, m: int, n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        a["y"].reshape(n, m)[:] = a["x"].reshape(m, n).T + 1

    def make() -> dict[str, Any]:
        return {"x": ramp(m * n), "y": np.zeros(m * n, np.float32), "M": m, "N": n, "B": 16}

    check(kernel, make, expect)
