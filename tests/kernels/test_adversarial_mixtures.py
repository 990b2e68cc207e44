"""Several hard things at once: what is kept, moved, masked and carried must agree."""

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


@triton.jit
def kept_in_loops(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    d = tl.load(x + i).to(tl.int32)
    q = (d * 7) // (i + 1)
    acc = tl.zeros((N,), tl.int32)
    for k in range(n):
        r = q % (k + 3)
        if k % 2 == 1:
            acc += r // 2
            tl.store(x + i, acc.to(tl.float32))
            s = r * 2
        else:
            s = q - r
            for j in range(k):
                acc = acc + s // (j + 2)
        t = tl.load(x + i).to(tl.int32)
        acc = acc + tl.max(s, 0) + t // 3
    tl.store(y + i, acc)
    tl.store(y + N + i, q)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_dear_values_in_loops_and_branches(n: int) -> None:
    N = 64

    def expect(a: dict[str, Any]) -> None:
        x, i = a["x"], np.arange(N)
        q = x.astype(np.int32) * 7 // (i + 1)
        acc = np.zeros(N, np.int64)
        for k in range(n):
            r = q % (k + 3)
            if k % 2 == 1:
                acc = acc + r // 2
                x[:] = acc
                s = r * 2
            else:
                s = q - r
                for j in range(k):
                    acc = acc + s // (j + 2)
            acc = acc + s.max() + x.astype(np.int32) // 3
        a["y"][:] = np.concatenate([acc, q])

    check(kept_in_loops, lambda: {"x": ramp(N), "y": np.zeros(2 * N, np.int32), "n": n, "N": N}, expect)


@triton.jit
def attention(q, k, v, o, n, scale, M: tl.constexpr, B: tl.constexpr, D: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    j = tl.arange(0, B)
    qs = tl.load(q + i[:, None] * D + d[None, :], mask=i[:, None] < n, other=0.0)
    kp = k + d[:, None] + j[None, :] * D
    vp = v + j[:, None] * D + d[None, :]
    acc = tl.zeros((M, D), tl.float32)
    top = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    for start in range(0, tl.minimum(n, (tl.program_id(0) + 1) * M), B):
        at = start + j
        ks = tl.load(kp, mask=at[None, :] < n, other=0.0)
        s = tl.dot(qs, ks) * scale
        s = tl.where((at[None, :] <= i[:, None]) & (at[None, :] < n), s, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        fade = tl.exp(top - new)
        p = tl.exp(s - new[:, None])
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p, tl.load(vp, mask=at[:, None] < n, other=0.0), acc * fade[:, None])
        top = new
        kp += B * D
        vp += B * D
    tl.store(o + i[:, None] * D + d[None, :], acc / total[:, None], mask=i[:, None] < n)


@pytest.mark.parametrize("n", [1, 16, 33, 64, 70])
def test_attention(n: int) -> None:
    D, M, B = 32, 32, 16
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, n, D)).astype(np.float32)

    def expect(a: dict[str, Any]) -> None:
        s = (q.astype(np.float64) @ k.T) * 0.25
        s[np.triu_indices(n, 1)] = -np.inf
        p = np.exp(s - s.max(1, keepdims=True))
        a["o"][:] = (p / p.sum(1, keepdims=True)) @ v

    make = lambda: {  # noqa: E731
        "q": q, "k": k, "v": v, "o": np.zeros((n, D), np.float32), "n": n, "scale": 0.25, "M": M, "B": B, "D": D
    }  # fmt: skip
    check(attention, make, expect, grid=((n + M - 1) // M,), rtol=1e-4, atol=1e-5)


@triton.jit
def norm_in_place(x, w, n, eps, N: tl.constexpr):
    row = x + tl.program_id(0) * n
    j = tl.arange(0, N)
    v = tl.load(row + j, mask=j < n, other=0.0)
    first = tl.load(row)
    mean = tl.sum(v, 0) / n
    c = tl.where(j < n, v - mean, 0.0)
    tl.store(row + j, c, mask=j < n)
    rstd = 1 / tl.sqrt(tl.sum(c * c, 0) / n + eps)
    again = tl.load(row + j, mask=j < n, other=0.0)
    tl.store(row + j, again * rstd * tl.load(w + j, mask=j < n) + first + tl.load(row + n - 1) * 0, mask=j < n)


@pytest.mark.parametrize("n", [1, 7, 32, 100, 128])
def test_norm_in_place(n: int) -> None:
    x = np.random.default_rng(n).normal(size=(3, n)).astype(np.float32)
    w = np.random.default_rng(1).normal(size=n).astype(np.float32)

    def expect(a: dict[str, Any]) -> None:
        v = x.astype(np.float64)
        c = v - v.mean(1, keepdims=True)
        a["x"][:] = c / np.sqrt((c * c).mean(1, keepdims=True) + 1e-3) * w + v[:, :1]

    check(
        norm_in_place,
        lambda: {"x": x.copy(), "w": w, "n": n, "eps": 1e-3, "N": 128},
        expect,
        grid=(3,),
        rtol=1e-4,
        atol=1e-5,
    )


@triton.jit
def views(x, y, sx, sy, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i * sx)
    tl.store(y + i * sy, v + 1)
    tl.store(y + i * sy, tl.load(y + i * sy) + v)


@pytest.mark.parametrize("part", ["reversed", "interleaved", "shifted", "same", "columns"])
def test_views_of_one_array(part: str) -> None:
    n = 32

    def make() -> dict[str, Any]:
        base = ramp(4 * n)
        x, y = {
            "reversed": (base[:n], base[:n][::-1]),
            "interleaved": (base[::2], base[1::2]),
            "shifted": (base[1:], base),
            "same": (base, base),
            "columns": (base.reshape(n, 4)[:, 1], base.reshape(n, 4)[:, 2]),
        }[part]
        x, y = x[:n], y[:n]
        return {"x": x, "y": y, "sx": x.strides[0] // 4, "sy": y.strides[0] // 4, "N": n}

    def expect(a: dict[str, Any]) -> None:
        v = a["x"].copy()
        a["y"][:] = 2 * v + 1

    check(views, make, expect, disjoint=False)


@triton.jit
def several_blocks(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    w = (v.to(tl.int32) // 3).to(tl.float32)
    if n == 0:
        tl.store(y + i, w)
        return
    tl.store(x + i, v + 1)
    if n == 1:
        tl.store(y + i, v - w)
        return
    u = tl.load(x + i)
    for k in range(n):
        if k < 5:
            u = u + w
    tl.store(x + i, u)
    tl.store(y + i, v + u)


@pytest.mark.parametrize("n", [0, 1, 2, 8])
def test_values_used_in_later_blocks(n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        v = a["x"].copy()
        w = (v.astype(np.int32) // 3).astype(np.float32)
        if n == 0:
            a["y"][:] = w
        elif n == 1:
            a["x"][:], a["y"][:] = v + 1, v - w
        else:
            u = v + 1 + w * min(n, 5)
            a["x"][:], a["y"][:] = u, v + u

    check(several_blocks, lambda: {"x": ramp(64), "y": np.zeros(64, np.float32), "n": n, "N": 64}, expect)
