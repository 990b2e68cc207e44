"""Loops that carry tiles, pointers and accumulators in every shape, and dots whose accumulators have other readers."""

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


def small(n: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers, so that sums and products are exact in any order."""
    return np.random.default_rng(seed).integers(-2, 3, n).astype(np.float32)


@triton.jit
def swaps(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(x + N + i)
    c = tl.load(x + 2 * N + i)
    for k in range(n):
        a, b, c = b, c + k, a * 2
    tl.store(y + i, a)
    tl.store(y + N + i, b)
    tl.store(y + 2 * N + i, c)


@triton.jit
def reads_each_other(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(x + N + i)
    c = tl.load(x + 2 * N + i)
    for _ in range(n):
        a, b, c = a + b, a - c, tl.sum(a, 0) * 0.0 + b
    tl.store(y + i, a)
    tl.store(y + N + i, b)
    tl.store(y + 2 * N + i, c)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("kernel", [swaps, reads_each_other])
def test_several_carried_tiles(kernel: Any, n: int) -> None:
    def expect(q: dict[str, Any]) -> None:
        a, b, c = q["x"].reshape(3, 64).copy()
        for k in range(n):
            a, b, c = (b, c + k, a * 2) if kernel is swaps else (a + b, a - c, b)
        q["y"][:] = np.concatenate([a, b, c])

    check(kernel, lambda: {"x": ramp(192), "y": np.zeros(192, np.float32), "n": n, "N": 64}, expect)


@triton.jit
def transposes(x, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = a + 1
    for k in range(n):
        a, b = tl.trans(a) + k, tl.trans(b) + a
    tl.store(y + p, a)
    tl.store(y + N * N + p, b)


@triton.jit
def row_sums(x, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = a + 1
    for _ in range(n):
        s = tl.sum(a, 1)
        m = tl.max(b, 0)
        a = a - s[:, None] + m[None, :]
        b = b + s[None, :] + tl.reshape(a, (N, N))
    tl.store(y + p, a)
    tl.store(y + N * N + p, b)


@triton.jit
def reshapes(x, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = a + 1
    for _ in range(n):
        a = tl.reshape(tl.trans(tl.reshape(a, (N * N // 8, 8))), (N, N))
        b = tl.trans(tl.reshape(b, (N // 2, 2, N)), (1, 0, 2)).reshape(N, N) + a
    tl.store(y + p, a)
    tl.store(y + N * N + p, b)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("kernel", [transposes, row_sums, reshapes])
def test_carried_matrices(kernel: Any, n: int) -> None:
    N = 16

    def expect(q: dict[str, Any]) -> None:
        a = q["x"].reshape(N, N).copy()
        b = a + 1
        for k in range(n):
            if kernel is transposes:
                a, b = a.T + k, b.T + a
            elif kernel is row_sums:
                s, m = a.sum(1), b.max(0)
                a = a - s[:, None] + m[None, :]
                b = b + s[None, :] + a
            else:
                a = a.reshape(N * N // 8, 8).T.reshape(N, N)
                b = b.reshape(N // 2, 2, N).transpose(1, 0, 2).reshape(N, N) + a
        q["y"][:] = np.concatenate([a.ravel(), b.ravel()])

    check(kernel, lambda: {"x": small(N * N), "y": np.zeros(2 * N * N, np.float32), "n": n, "N": N}, expect)


@triton.jit
def nested(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    acc = tl.zeros((N,), tl.float32)
    top = 1
    for k in range(n):
        t = tl.load(x + i) * 0
        for j in range(k, top):
            t += tl.load(x + j * N + i)
            acc = acc * 2 + t
        top += 1
        acc, t = t + acc, acc
        if tl.sum(acc, 0) > 100000.0:
            acc = acc * 0 + 1
    tl.store(y + i, acc)


@pytest.mark.parametrize("n", [0, 1, 3, 6])
def test_nested_loops(n: int) -> None:
    def expect(q: dict[str, Any]) -> None:
        x = q["x"].reshape(8, 32)
        acc, top = np.zeros(32, np.float32), 1
        for k in range(n):
            t = x[0] * 0
            for j in range(k, top):
                t = t + x[j]
                acc = acc * 2 + t
            top += 1
            acc = t + acc
            if acc.sum() > 100000:
                acc = acc * 0 + 1
        q["y"][:] = acc

    check(nested, lambda: {"x": ramp(256), "y": np.zeros(32, np.float32), "n": n, "N": 32}, expect)


@triton.jit(do_not_specialize=["lo", "hi"])
def wide_and_backwards(y, lo, hi, N: tl.constexpr):
    at = 0
    for k in range(lo, hi, 3):
        tl.store(y + at, k)
        at += 1
    for k in range(7, -2, -2):
        tl.store(y + at, k.to(tl.int64))
        at += 1
    s = tl.zeros((N,), tl.int64)
    for k in range(hi - 4, hi):
        s += k
    tl.store(y + at + tl.arange(0, N), s)


@pytest.mark.parametrize(("lo", "hi"), [(2**40, 2**40 + 8), (-(2**40), -(2**40) + 7), (5, 5), (2**31 - 6, 2**31 - 1)])
def test_loop_indices(lo: int, hi: int) -> None:
    def expect(q: dict[str, Any]) -> None:
        values = [*range(lo, hi, 3), *range(7, -2, -2), *[sum(range(hi - 4, hi))] * 4]
        q["y"][: len(values)] = values

    check(wide_and_backwards, lambda: {"y": np.zeros(32, np.int64), "lo": lo, "hi": hi, "N": 4}, expect)


@triton.jit
def collatz(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    steps = v * 0
    while tl.max(v, 0) > 1:
        live = v > 1
        v, steps = tl.where(live, tl.where(v % 2 == 0, v // 2, 3 * v + 1), v), steps + live.to(tl.int32)
    tl.store(y + i, steps)


def test_while_with_tiles() -> None:
    def expect(q: dict[str, Any]) -> None:
        for at, start in enumerate(q["x"].tolist()):
            v = start
            while v > 1:
                v = v // 2 if v % 2 == 0 else 3 * v + 1
                q["y"][at] += 1

    check(collatz, lambda: {"x": ramp(64, np.int32), "y": np.zeros(64, np.int32), "N": 64}, expect)


@triton.jit
def early(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    pid = tl.program_id(0)
    v = tl.exp2(tl.load(x + i))
    if pid >= n:
        return
    tl.store(y + pid * N + i, v)
    if pid == 1:
        tl.store(y + pid * N + i, v + 1)
        return
    else:
        v = v * 3
    if n > 3:
        if pid == 2:
            return
        v += tl.load(y + pid * N + i)
    tl.store(y + pid * N + i, v)


@pytest.mark.parametrize("n", [0, 2, 4])
def test_early_returns(n: int) -> None:
    def expect(q: dict[str, Any]) -> None:
        v, y = np.exp2(q["x"]), q["y"].reshape(4, 32)
        for pid in range(n):
            y[pid] = v
            if pid == 1:
                y[pid] = v + 1
            elif n <= 3:
                y[pid] = v * 3
            elif pid != 2:
                y[pid] = v * 4

    x = (np.arange(32) % 5).astype(np.float32)
    check(early, lambda: {"x": x.copy(), "y": np.zeros(128, np.float32), "n": n, "N": 32}, expect, grid=(4,))


@triton.jit
def moving_pointers(x, y, n, step, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i
    q = x + 3 * i
    r = x + N - i
    o = y + i
    off = i + 5
    for k in range(n):
        v = tl.load(p) + tl.load(q) + tl.load(r) + tl.load(x + off)
        tl.store(o, v)
        p += step
        q += i % 2 + k
        r = r + step * 2 - 1
        o += N
        off = off + step + 1
        if k == 1:
            p, q = q, p
    tl.store(o, tl.load(p) - tl.load(q))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_moving_pointers(n: int) -> None:
    N, step = 32, 4

    def expect(a: dict[str, Any]) -> None:
        x, y, i = a["x"], a["y"].reshape(-1, N), np.arange(N)
        p, q, r, off = i, 3 * i, N - i, i + 5
        for k in range(n):
            y[k] = x[p] + x[q] + x[r] + x[off]
            p = p + step
            q = q + i % 2 + k
            r = r + step * 2 - 1
            off = off + step + 1
            if k == 1:
                p, q = q, p
        y[n] = x[p] - x[q]

    check(
        moving_pointers, lambda: {"x": ramp(512), "y": np.zeros(256, np.float32), "n": n, "step": step, "N": N}, expect
    )


@triton.jit
def pointer_swap(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    src = x
    dst = y
    for k in range(n):
        tl.store(dst + i, tl.load(src + i) + k)
        src, dst = dst, src
    chosen = tl.where(i % 2 == 0, src + i, dst + i)
    tl.store(x + N + i, tl.load(chosen))
    tl.store(chosen, i.to(tl.float32))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_swapped_pointers(n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        i = np.arange(32)
        src, dst = a["x"][:32], a["y"]
        for k in range(n):
            dst[:] = src + k
            src, dst = dst, src
        a["x"][32:] = np.where(i % 2 == 0, src, dst)
        src[::2] = i[::2]
        dst[1::2] = i[1::2]

    check(pointer_swap, lambda: {"x": ramp(64), "y": np.zeros(32, np.float32), "n": n, "N": 32}, expect)


# --- dots -----------------------------------------------------------------------------------------------------------


@triton.jit
def squares(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    for _ in range(n):
        a = tl.dot(a, b)
    tl.store(y + p, a)


@triton.jit
def squares_right(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    for _ in range(n):
        a = tl.dot(b, a, b + 1)
    tl.store(y + p, a)


@triton.jit
def both_sides(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    for _ in range(n):
        a = tl.dot(tl.trans(a), b, a * 2)
    tl.store(y + p, a)


@triton.jit
def old_stored_after(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    acc = a
    for k in range(n):
        new = tl.dot(a, b, acc)
        if k == n - 1:
            tl.store(y + N * N + p, acc)
        acc = new
    tl.store(y + p, acc)


@triton.jit
def old_read_after(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    acc = a
    for _ in range(n):
        new = tl.dot(a, b, acc)
        tl.store(y + N * N + p, acc + 1)
        acc = new
    tl.store(y + p, acc)


@triton.jit
def two_into_one(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    acc = a
    for _ in range(n):
        acc = tl.dot(a, b, acc)
        acc = tl.dot(b, a, acc)
    tl.store(y + p, acc)


@triton.jit
def chained(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    one = a
    two = b
    for _ in range(n):
        first = tl.dot(a, b, one)
        second = tl.dot(b, a, first)
        one, two = second, first + two
    tl.store(y + p, one)
    tl.store(y + N * N + p, two)


@triton.jit
def swapped(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    one = a
    two = b
    for _ in range(n):
        one, two = tl.dot(a, b, two), tl.dot(b, a, one)
    tl.store(y + p, one)
    tl.store(y + N * N + p, two)


@triton.jit
def yielded_twice(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    one = a
    two = b
    for _ in range(n):
        new = tl.dot(a, b, one)
        one, two = new, new
    tl.store(y + p, one)
    tl.store(y + N * N + p, two)


@triton.jit
def rescaled(x, w, y, n, N: tl.constexpr):
    p = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + p)
    b = tl.load(w + p)
    acc = a * 0
    m = tl.load(x + tl.arange(0, N))
    for _ in range(n):
        new = tl.maximum(m, tl.max(acc, 1))
        scale = m - new + 2
        acc = tl.dot(a, b, acc * scale[:, None])
        m = new
    tl.store(y + p, acc)
    tl.store(y + N * N + p, acc + m[:, None])


def run_dot(kernel: Any, a: np.ndarray, b: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """What a kernel above leaves in the two halves of its output; None for one that it does not write."""
    if kernel in (squares, squares_right, both_sides):
        for _ in range(n):
            a = a @ b if kernel is squares else b @ a + b + 1 if kernel is squares_right else a.T @ b + a * 2
        return a, None
    one, two, m = a, b, a[0]
    if kernel in (old_stored_after, old_read_after):
        last = None
        for _ in range(n):
            last, one = one + (kernel is old_read_after), a @ b + one
        return one, last
    if kernel is rescaled:
        one = a * 0
    for _ in range(n):
        if kernel is two_into_one:
            one = a @ b + b @ a + one
        elif kernel is chained:
            first = a @ b + one
            one, two = b @ a + first, first + two
        elif kernel is swapped:
            one, two = a @ b + two, b @ a + one
        elif kernel is yielded_twice:
            one = two = a @ b + one
        else:
            new = np.maximum(m, one.max(1))
            one = a @ b + one * (m - new + 2)[:, None]
            m = new
    if kernel is rescaled:
        return one, one + m[:, None]
    return one, None if kernel is two_into_one else two


KERNELS = [
    squares, squares_right, both_sides, old_stored_after, old_read_after, two_into_one, chained, swapped,
    yielded_twice, rescaled,
]  # fmt: skip


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("N", [16, 64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_accumulators(kernel: Any, N: int, n: int) -> None:

    def expect(q: dict[str, Any]) -> None:
        first, second = run_dot(kernel, q["x"].reshape(N, N), q["w"].reshape(N, N), n)
        q["y"][: N * N] = first.ravel()
        if second is not None:
            q["y"][N * N :] = second.ravel()

    def make() -> dict[str, Any]:
        return {"x": small(N * N, 1), "w": small(N * N, 2), "y": np.zeros(2 * N * N, np.float32), "n": n, "N": N}

    check(kernel, make, expect, rtol=1e-6)


@triton.jit
def dot_kinds(x, w, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr):
    a = tl.load(x + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    b = tl.load(w + tl.arange(0, K)[:, None] + K * tl.arange(0, N)[None, :])
    c = tl.dot(a, b, out_dtype=OUT)
    tl.store(y + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], c)


@pytest.mark.parametrize(
    ("source", "out"),
    [
        (np.float32, tl.float32),
        (np.float16, tl.float32),
        (np.float16, tl.float16),
        (np.int8, tl.int32),
        (np.float64, tl.float64),
    ],
)
@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (1, 16, 64), (64, 1, 4), (2, 32, 1), (1, 1, 1), (32, 2, 128)])
def test_dot_shapes_and_types(m: int, n: int, k: int, source: Any, out: Any) -> None:
    kind = {tl.float32: np.float32, tl.float16: np.float16, tl.int32: np.int32, tl.float64: np.float64}[out]

    def expect(q: dict[str, Any]) -> None:
        a = q["x"].reshape(m, k).astype(np.float64)
        b = q["w"].reshape(n, k).T.astype(np.float64)
        q["y"][:] = (a @ b).ravel()

    def make() -> dict[str, Any]:
        x, w = small(m * k, 1).astype(source), small(k * n, 2).astype(source)
        return {"x": x, "w": w, "y": np.zeros(m * n, kind), "M": m, "N": n, "K": k, "OUT": out}

    check(dot_kinds, make, expect)


@triton.jit
def loaded_then_moved(idx, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.load(idx + i)
    p = y + tl.load(idx + N - 1 - i)
    for k in range(n):
        tl.store(idx + at, at * 0 + k)
        tl.store(p, at.to(tl.float32))
        at += 1
        p += N
    tl.store(idx + at, at)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_indices_loaded_before_a_loop_that_overwrites_them(n: int) -> None:
    N = 32
    order = np.random.default_rng(4).permutation(N).astype(np.int32)

    def expect(a: dict[str, Any]) -> None:
        at, p = order.copy(), order[::-1].copy()
        for k in range(n):
            a["idx"][at] = k
            a["y"][p] = at
            at, p = at + 1, p + N
        a["idx"][at] = at

    def make() -> dict[str, Any]:
        return {"idx": np.concatenate([order, order]), "y": np.zeros(4 * N, np.float32), "n": n, "N": N}

    check(loaded_then_moved, make, expect)


@triton.jit
def while_carries_all(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i
    a = tl.load(p)
    b = a * 0
    k = n
    while (k > 0) & (tl.sum(b, 0) < 10000.0):
        a, b = tl.load(p) + b, tl.flip(a, 0)
        tl.store(p, b)
        p += N
        if k % 2 == 0:
            k -= 3
        else:
            k += 1
    tl.store(y + i, a)
    tl.store(y + N + i, b)
    tl.store(y + 2 * N + i, tl.load(p))


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_while_that_carries_pointers_and_tiles(n: int) -> None:
    N = 32

    def expect(q: dict[str, Any]) -> None:
        x = q["x"].reshape(-1, N)
        a, b, k, p = x[0].copy(), x[0] * 0, n, 0
        while k > 0 and b.sum() < 10000:
            a, b = x[p] + b, a[::-1].copy()
            x[p] = b
            p += 1
            k += -3 if k % 2 == 0 else 1
        q["y"][:] = np.concatenate([a, b, x[p]])

    check(while_carries_all, lambda: {"x": ramp(N * 16), "y": np.zeros(3 * N, np.float32), "n": n, "N": N}, expect)
