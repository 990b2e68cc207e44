"""Which products are fused into which sums: the results of an H200, written out by rounding once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from three_ways import check  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")

N = 256
S, T = np.float32(0.7315), np.float32(1.3337)
HALF, THREE = np.float32(0.5), np.float32(3)
Tiles = tuple[np.ndarray, ...]


def fma(x: Any, y: Any, z: Any) -> np.ndarray:
    """x * y + z of f32 values with one rounding: a wider sum of two products is exact enough for these values."""
    wide = np.longdouble
    return (np.asarray(x).astype(wide) * np.asarray(y).astype(wide) + np.asarray(z).astype(wide)).astype(np.float32)


@triton.jit
def forms(pa, pb, pc, pd, o, s, t, n, F: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(pa + i)
    b = tl.load(pb + i)
    c = tl.load(pc + i)
    d = tl.load(pd + i)
    if F == 0:
        r = a * b + c * d
    elif F == 1:
        r = c * d + a * b
    elif F == 2:
        r = a * d + b * c
    elif F == 3:
        r = c * d - a * b
    elif F == 4:
        r = b * t + a * (1.0 - t)
    elif F == 5:
        r = c * s + a * t
    elif F == 6:
        r = d * 0.5 + (a + b) * c
    elif F == 7:
        r = d * t + i * s
    elif F == 8:
        r = (c * -0.5) + a * b
    elif F == 9:
        r = a * b - (c * -0.5)
    elif F == 10:
        r = (a * -3.0) * b + c * d
    elif F == 11:
        r = (a * -1.0) + b * c
    elif F == 12:
        r = (a * b) * -1.0 + c
    elif F == 13:
        r = a * b - (c * -1.0)
    elif F == 14:
        r = (c * -1.0) - a * b
    elif F == 15:
        r = a - s * t
    elif F == 16:
        r = s * t - a
    elif F == 17:
        r = (s * t) + (t * t + a)
    elif F == 18:
        r = s * t + a * b
    else:
        p = a * b
        r = c
        if n > 0:
            r = p + c
    tl.store(o + i, r)


FORMS: list[Callable[..., Any]] = [
    lambda a, b, c, d, i: fma(a, b, c * d),
    lambda a, b, c, d, i: fma(a, b, c * d),
    lambda a, b, c, d, i: fma(b, c, a * d),
    lambda a, b, c, d, i: fma(c, d, -(a * b)),
    lambda a, b, c, d, i: fma(a, 1 - T, b * T),
    lambda a, b, c, d, i: fma(a, T, c * S),
    lambda a, b, c, d, i: fma(a + b, c, d * HALF),
    lambda a, b, c, d, i: fma(i, S, d * T),
    lambda a, b, c, d, i: fma(a, b, c * -HALF),
    lambda a, b, c, d, i: fma(a, b, c * HALF),
    lambda a, b, c, d, i: fma(c, d, (a * -THREE) * b),
    lambda a, b, c, d, i: fma(b, c, -a),
    lambda a, b, c, d, i: fma(-a, b, c),
    lambda a, b, c, d, i: fma(a, b, c),
    lambda a, b, c, d, i: fma(-a, b, -c),
    lambda a, b, c, d, i: fma(-S, T, a),
    lambda a, b, c, d, i: fma(S, T, -a),
    lambda a, b, c, d, i: fma(S, T, fma(T, T, a)),
    lambda a, b, c, d, i: fma(a, b, S * T),
    lambda a, b, c, d, i: fma(a, b, c),
]


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_products_of_a_sum(form: int) -> None:
    rng = np.random.default_rng(form)
    tiles = [rng.normal(size=N).astype(np.float32) for _ in range(4)]

    def make() -> dict[str, Any]:
        named = {f"p{name}": tile.copy() for name, tile in zip("abcd", tiles, strict=True)}
        return {**named, "o": np.zeros(N, np.float32), "s": float(S), "t": float(T), "n": 3, "F": form, "N": N}

    def expect(q: dict[str, Any]) -> None:
        q["o"][:] = FORMS[form](*tiles, np.arange(N, dtype=np.float32))

    check(forms, make, expect)


@triton.jit
def complex_product(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    ar = tl.load(x + 2 * i)
    ai = tl.load(x + 2 * i + 1)
    br = tl.load(y + 2 * i)
    bi = tl.load(y + 2 * i + 1)
    tl.store(o + 2 * i, ar * br - ai * bi)
    tl.store(o + 2 * i + 1, ar * bi + ai * br)


def test_complex_product() -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=2 * N).astype(np.float32) for _ in range(2))

    def expect(q: dict[str, Any]) -> None:
        (ar, ai), (br, bi) = x.reshape(N, 2).T, y.reshape(N, 2).T
        q["o"][::2] = fma(ar, br, -(ai * bi))
        q["o"][1::2] = fma(ai, br, ar * bi)

    check(complex_product, lambda: {"x": x.copy(), "y": y.copy(), "o": np.zeros(2 * N, np.float32), "N": N}, expect)


@triton.jit
def moved(pa, pb, pc, pd, o, s, F: tl.constexpr, M: tl.constexpr):
    i = tl.arange(0, M)
    a = tl.load(pa + i)
    b = tl.load(pb + i)
    ij = i[:, None] * M + i[None, :]
    c = tl.load(pc + ij)
    d = tl.load(pd + ij)
    if F == 0:
        r = (a * b)[:, None] + c
    elif F == 1:
        r = (a * b)[:, None] + c * d
    elif F == 2:
        r = c - (tl.max(c, 1) * s)[:, None]
    elif F == 3:
        r = tl.trans(c * d) + tl.trans(c)
    else:
        r = c * s - (a * s)[None, :]
    tl.store(o + ij, r)


@pytest.mark.parametrize("form", range(5))
def test_products_that_were_moved(form: int) -> None:
    M = 32
    rng = np.random.default_rng(form)
    a, b = (rng.normal(size=M).astype(np.float32) for _ in range(2))
    c, d = (rng.normal(size=(M, M)).astype(np.float32) for _ in range(2))

    def expect(q: dict[str, Any]) -> None:
        q["o"][:] = [
            lambda: fma(a[:, None], b[:, None], c),
            lambda: fma(c, d, (a * b)[:, None]),
            lambda: fma(-c.max(1)[:, None], S, c),
            lambda: fma(c, d, c).T,
            lambda: fma(c, S, -(a * S)[None, :]),
        ][form]()

    def make() -> dict[str, Any]:
        named = {"pa": a.copy(), "pb": b.copy(), "pc": c.copy(), "pd": d.copy()}
        return {**named, "o": np.zeros((M, M), np.float32), "s": float(S), "F": form, "M": M}

    check(moved, make, expect)
