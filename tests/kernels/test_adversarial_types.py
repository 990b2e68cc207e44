"""Every type through load, arithmetic, select, reduce and store; scalars of every type; tiles of odd shapes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from three_ways import check  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


@triton.jit
def integer_ops(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i, mask=i < n, other=3)
    b = tl.load(x + N + i)
    tl.store(y + i, a + b)
    tl.store(y + N + i, a * b - a)
    tl.store(y + 2 * N + i, tl.where(a > b, a, -b))
    tl.store(y + 3 * N + i, (a & b) | (a ^ b))
    tl.store(y + 4 * N + i, a // b)
    tl.store(y + 5 * N + i, a % b)
    tl.store(y + 6 * N + i, (a >> 1) + (b << 2))
    tl.store(y + 7 * N + i, tl.maximum(a, b) + tl.minimum(a, b) // 2)
    tl.store(y + 8 * N + i, tl.max(a, 0) - tl.min(b, 0) + i.to(a.dtype) * 0)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("n", [0, 5, 64])
def test_integers(dtype: Any, n: int) -> None:
    N = 64
    rng = np.random.default_rng(n)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 2 * N, dtype=dtype, endpoint=True)
    x[N:][x[N:] == 0] = 1
    x[:4] = [info.max, info.min, 0, 1]

    def expect(q: dict[str, Any]) -> None:
        a, b = np.where(np.arange(N) < n, x[:N], dtype(3)).astype(dtype), x[N:]
        quotient = np.array(
            [int(abs(int(p)) // abs(int(r))) * (-1 if (p < 0) != (r < 0) else 1) for p, r in zip(a, b, strict=True)]
        )
        with np.errstate(over="ignore"):
            low = np.minimum(a, b)
            half = np.array([int(abs(int(v)) // 2) * (-1 if v < 0 else 1) for v in low])
            zero = np.zeros(N, dtype)
            rows = [
                a + b,
                a * b - a,
                np.where(a > b, a, zero - b),
                (a & b) | (a ^ b),
                wrapped(quotient, dtype),
                a - wrapped(quotient, dtype) * b,
                (a >> dtype(1)) + (b << dtype(2)),
                np.maximum(a, b) + wrapped(half, dtype),
                a.max() - b.min() + zero,
            ]
        q["y"][:] = np.concatenate(rows)

    check(integer_ops, lambda: {"x": x.copy(), "y": np.zeros(9 * N, dtype), "n": n, "N": N}, expect)


def wrapped(values: Any, dtype: Any) -> np.ndarray:
    """Python numbers as a type holds them, modulo its width."""
    bits = np.iinfo(dtype).bits
    return np.array([int(v) % (1 << bits) for v in values], np.uint64).astype(f"u{bits // 8}").view(dtype)


@triton.jit
def float_ops(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i, mask=i < n, other=1.5)
    b = tl.load(x + N + i)
    tl.store(y + i, a + b)
    tl.store(y + N + i, -a)
    tl.store(y + 2 * N + i, tl.where(a > b, a, -b))
    tl.store(y + 3 * N + i, tl.maximum(a, b))
    tl.store(y + 4 * N + i, tl.abs(b))
    s = tl.max(a, 0)
    tl.store(y + 5 * N + i, tl.where(i % 2 == 0, a, s))
    tl.store(y + 6 * N + i, a * b)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [0, 33, 64])
def test_floats(dtype: Any, n: int) -> None:
    N = 64
    x = np.random.default_rng(n).normal(size=2 * N).astype(dtype)

    def expect(q: dict[str, Any]) -> None:
        i = np.arange(N)
        a, b = np.where(i < n, x[:N], np.array(1.5, dtype)).astype(dtype), x[N:]
        rows = [a + b, -a, np.where(a > b, a, -b), np.maximum(a, b), np.abs(b), np.where(i % 2 == 0, a, a.max()), a * b]
        q["y"][:] = np.concatenate([r.astype(dtype) for r in rows])

    check(float_ops, lambda: {"x": x.copy(), "y": np.zeros(7 * N, dtype), "n": n, "N": N}, expect)


@triton.jit
def bits_of_bool(x, y, z, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = a & (i % 2 == 0)
    tl.store(y + i, b)
    tl.store(y + N + i, a ^ b)
    tl.store(y + 2 * N + i, a | flag)
    tl.store(y + 3 * N + i, a == b, mask=a)
    tl.store(z + i, a.to(tl.int32) + b.to(tl.int8) - (~a).to(tl.int32))
    tl.store(z + N + i, tl.where(flag, a.to(tl.float32) * 3, 1.0).to(tl.int32))
    tl.store(z + 2 * N + i, tl.cumsum(a.to(tl.int32), 0))


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("n", [1, 4, 32, 64])
def test_bool(flag: bool, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 2, n).astype(bool)

    def expect(q: dict[str, Any]) -> None:
        i = np.arange(n)
        b = x & (i % 2 == 0)
        y = q["y"].reshape(4, n)
        y[0], y[1], y[2] = b, x ^ b, x | flag
        y[3][x] = (x == b)[x]
        z = q["z"].reshape(3, n)
        z[0] = x.astype(int) + b - (~x).astype(int)
        z[1] = x * 3 if flag else 1
        z[2] = np.cumsum(x)

    def make() -> dict[str, Any]:
        return {"x": x.copy(), "y": np.zeros(4 * n, bool), "z": np.zeros(3 * n, np.int32), "flag": flag, "N": n}

    check(bits_of_bool, make, expect)


@triton.jit
def scalars(y, a: tl.int8, b: tl.uint64, c: tl.float16, d: tl.bfloat16, e: tl.float64, f, g, h, none):
    tl.store(y, a)
    tl.store(y + 1, b.to(tl.float64))
    tl.store(y + 2, c)
    tl.store(y + 3, d)
    tl.store(y + 4, e)
    tl.store(y + 5, f)
    tl.store(y + 6, g)
    if h:
        tl.store(y + 7, 1.0)
    if none is None:
        tl.store(y + 8, 2.0)


def test_scalars_of_every_type() -> None:
    def make() -> dict[str, Any]:
        values = {"a": -5, "b": 2**63 + 2048, "c": 0.1, "d": 0.1, "e": 0.1, "f": 0.1, "g": 2**40, "h": True}
        return {"y": np.zeros(9, np.float64), **values, "none": None}

    def expect(q: dict[str, Any]) -> None:
        narrow = [float(np.float16(0.1)), float(ml_dtypes.bfloat16(0.1)), 0.1, float(np.float32(0.1))]
        q["y"][:] = [-5, 2.0**63 + 2048, *narrow, 2.0**40, 1, 2]

    check(scalars, make, expect)


@triton.jit
def ones(x, y, ONE: tl.constexpr):
    i = tl.arange(0, ONE)
    a = tl.load(x + i)
    b = tl.load(x + i + 1, mask=i < 1, other=9.0)
    s = tl.sum(a, 0) + tl.max(b, 0)
    m = a[:, None] + b[None, :]
    tl.store(y + i, a * 2)
    tl.store(y + 1 + i[:, None] + i[None, :], tl.trans(m) + s)
    tl.store(y + 2 + i, tl.reshape(m, (ONE,)) * 3)
    tl.store(y + 3 + i, tl.cumsum(a, 0) + tl.dot(m, m).reshape(ONE))


def test_tiles_of_one_element() -> None:
    def expect(q: dict[str, Any]) -> None:
        a, b = q["x"]
        q["y"][:] = [2 * a, 2 * (a + b), 3 * (a + b), a + (a + b) ** 2]

    check(ones, lambda: {"x": np.array([2, 5], np.float32), "y": np.zeros(4, np.float32), "ONE": 1}, expect)


@triton.jit
def chains_of_shapes(x, y, n):
    i = tl.arange(0, 512)
    v = tl.load(x + i, mask=i < n, other=-1.0)
    a = tl.reshape(v, (2, 4, 8, 2, 4))
    b = tl.trans(a, (4, 2, 0, 3, 1))
    c = tl.reshape(b, (16, 32)) + tl.reshape(b, (32, 16)).trans(1, 0)
    d = tl.reshape(tl.trans(tl.reshape(c, (4, 4, 4, 8)), (2, 0, 3, 1)), (512,))
    tl.store(y + i, d)
    e = tl.join(tl.reshape(c, (512,)), v)
    f, g = tl.split(tl.reshape(tl.trans(e, (1, 0)), (512, 2)))
    tl.store(y + 512 + i, f - g * 2)
    h = tl.sum(tl.reshape(d, (1, 2, 8, 1, 32)), 2)
    tl.store(y + 1024 + tl.arange(0, 64), tl.reshape(tl.trans(h, (3, 1, 2, 0)), (64,)))
    k = tl.broadcast_to(tl.reshape(v, (1, 32, 1, 16)), (2, 32, 2, 16))
    tl.store(y + 1088 + tl.arange(0, 2048), tl.reshape(tl.trans(k, (3, 0, 1, 2)), (2048,)), mask=tl.arange(0, 2048) < n)
    m = tl.reshape(tl.trans(tl.reshape(i < n, (16, 32))), (512,))
    tl.store(y + 3136 + i, tl.load(x + i, mask=m, other=5.0))


@pytest.mark.parametrize("n", [0, 100, 512, 3000])
def test_chains_of_shapes(n: int) -> None:
    def expect(q: dict[str, Any]) -> None:
        y, i = q["y"], np.arange(512)
        v = np.where(i < n, q["x"], -1)
        b = v.reshape(2, 4, 8, 2, 4).transpose(4, 2, 0, 3, 1)
        c = b.reshape(16, 32) + b.reshape(32, 16).T
        d = c.reshape(4, 4, 4, 8).transpose(2, 0, 3, 1).reshape(512)
        y[:512] = d
        pair = np.stack([c.ravel(), v], -1).T.reshape(512, 2)
        y[512:1024] = pair[:, 0] - pair[:, 1] * 2
        y[1024:1088] = d.reshape(1, 2, 8, 1, 32).sum(2).transpose(3, 1, 2, 0).reshape(64)
        k = np.broadcast_to(v.reshape(1, 32, 1, 16), (2, 32, 2, 16)).transpose(3, 0, 1, 2).reshape(2048)
        y[1088:3136][: min(n, 2048)] = k[:n]
        m = (i < n).reshape(16, 32).T.reshape(512)
        y[3136:] = np.where(m, q["x"], 5)

    check(
        chains_of_shapes,
        lambda: {"x": np.arange(512).astype(np.float32), "y": np.zeros(3648, np.float32), "n": n},
        expect,
    )


@triton.jit
def high_halves(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    b = tl.load(x + N + i)
    first = tl.umulhi(tl.load(x + i), b)
    second = tl.umulhi(first, b)
    tl.store(y + i, (first == second).to(tl.float32) + 2 * (first != second).to(tl.float32))


@pytest.mark.parametrize("n", [2, 4, 8, 64])
def test_equality_of_high_halves(n: int) -> None:
    """LLVM ends the process over two truncations of which it knows that they lose nothing."""
    x = np.random.default_rng(n).integers(0, 1 << 32, 2 * n, dtype=np.uint32)
    x[n:][::2] = [0, 1, 2**32 - 1, 0][: max(1, n // 2)] * max(1, n // 8)

    def expect(q: dict[str, Any]) -> None:
        b = x[n:].astype(np.uint64)
        first = x[:n].astype(np.uint64) * b >> np.uint64(32)
        second = first * b >> np.uint64(32)
        q["y"][:] = np.where(first == second, 1, 2)

    check(high_halves, lambda: {"x": x, "y": np.zeros(n, np.float32), "N": n}, expect)
