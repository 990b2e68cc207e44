"""Memory order: loads may be moved to where they are used, but never so that it shows."""

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
def shift_then_use(x, y, SHIFT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(x + i + SHIFT, v)
    tl.store(y + i, v)


@pytest.mark.parametrize("shift", [0, 1, 7, 32])
def test_store_shifted_then_use(shift: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        v = a["x"][:128].copy()
        a["x"][shift : shift + 128] = v
        a["y"][:128] = v

    check(shift_then_use, lambda: {"x": ramp(256), "y": np.zeros(128, np.float32), "SHIFT": shift, "N": 128}, expect)


@triton.jit
def shift_up(x, SHIFT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i + SHIFT, tl.load(x + i))


@pytest.mark.parametrize("shift", [1, 31, 33, 100])
def test_shift_up(shift: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        a["x"][shift : shift + 128] = a["x"][:128].copy()

    check(shift_up, lambda: {"x": ramp(256), "SHIFT": shift, "N": 128}, expect)


@triton.jit
def reverse_in_place(x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(x + (N - 1 - i), v)
    tl.store(x + N + i, v)


@pytest.mark.parametrize("n", [2, 32, 256])
def test_reverse_in_place(n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        v = a["x"][:n].copy()
        a["x"][:n] = v[::-1]
        a["x"][n : 2 * n] = v

    check(reverse_in_place, lambda: {"x": ramp(2 * n), "N": n}, expect)


@triton.jit
def transpose_in_place(x, N: tl.constexpr):
    i = tl.arange(0, N)[:, None]
    j = tl.arange(0, N)[None, :]
    v = tl.load(x + i * N + j)
    tl.store(x + j * N + i, v)
    w = tl.load(x + i * N + j)
    tl.store(x + i * N + j, w + tl.trans(v))


def test_transpose_in_place() -> None:
    def expect(a: dict[str, Any]) -> None:
        m = a["x"].reshape(64, 64).copy()
        a["x"][:] = (2 * m.T).ravel()

    check(transpose_in_place, lambda: {"x": ramp(64 * 64), "N": 64}, expect)


@triton.jit
def transposed_value(x, N: tl.constexpr):
    i = tl.arange(0, N)[:, None]
    j = tl.arange(0, N)[None, :]
    p = x + i * N + j
    v = tl.load(p)
    tl.store(p, v + tl.trans(v))


def test_transposed_value_in_place() -> None:
    def expect(a: dict[str, Any]) -> None:
        m = a["x"].reshape(64, 64).copy()
        a["x"][:] = (m + m.T).ravel()

    check(transposed_value, lambda: {"x": ramp(64 * 64), "N": 64}, expect)


@triton.jit
def increment_gathered(x, idx, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + tl.load(idx + i)
    v = tl.load(p)
    tl.store(p, v + 1)


@triton.jit
def increment_wrapped(x, idx, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i % 16
    v = tl.load(p)
    tl.store(p, v + 1)


@triton.jit
def increment_halved(x, idx, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i // 64
    v = tl.load(p)
    tl.store(p, v + 1)


@triton.jit
def increment_broadcast(x, idx, N: tl.constexpr):
    p = x + tl.zeros((4, N), tl.int32) + tl.arange(0, 4)[:, None]
    v = tl.load(p)
    tl.store(p, v + 1)


@triton.jit
def increment_flat(x, idx, N: tl.constexpr):
    p = x + (tl.arange(0, 4)[:, None] + tl.arange(0, N)[None, :])
    v = tl.load(p)
    tl.store(p, v + 1)


@pytest.mark.parametrize(
    ("kernel", "touched"),
    [
        (increment_gathered, 8),
        (increment_wrapped, 16),
        (increment_halved, 4),
        (increment_broadcast, 4),
    ],
)
def test_equal_addresses_are_loaded_before_any_is_stored(kernel: Any, touched: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        a["x"][:touched] += 1

    check(kernel, lambda: {"x": ramp(512), "idx": (np.arange(256) % 8).astype(np.int32), "N": 256}, expect)


@triton.jit
def increment_strided(x, stride, N: tl.constexpr):
    p = x + tl.arange(0, 8)[:, None] * stride + tl.arange(0, N)[None, :]
    tl.store(p, tl.load(p) * 2)


@pytest.mark.parametrize("stride", [0, 1, 64, 128])
def test_runtime_stride_in_place(stride: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        x = a["x"]
        at = np.arange(8)[:, None] * stride + np.arange(64)[None, :]
        x[at % x.size] *= 2

    check(increment_strided, lambda: {"x": ramp(1024), "stride": stride, "N": 64}, expect)


@triton.jit
def around_a_store(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(x + i, a * 2)
    b = tl.load(x + i)
    tl.store(x + i, b + a)
    c = tl.load(x + i)
    tl.store(y + i, a)
    tl.store(y + N + i, b)
    tl.store(y + 2 * N + i, c)


def test_loads_around_stores() -> None:
    def expect(a: dict[str, Any]) -> None:
        x = a["x"].copy()
        a["x"][:] = 3 * x
        a["y"][:] = np.concatenate([x, 2 * x, 3 * x])

    check(around_a_store, lambda: {"x": ramp(128), "y": np.zeros(384, np.float32), "N": 128}, expect)


@triton.jit
def element_zero(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    first = tl.load(x + i * 0)
    v = tl.load(x + i)
    tl.store(x + i, v - first)
    tl.store(y + i, first)


@triton.jit
def element_zero_scalar(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    first = tl.load(x)
    v = tl.load(x + i)
    tl.store(x + i, v - first)
    tl.store(y + i, v * 0 + first)


@pytest.mark.parametrize("kernel", [element_zero, element_zero_scalar])
def test_first_element_of_a_row_in_place(kernel: Any) -> None:
    def expect(a: dict[str, Any]) -> None:
        a["y"][:] = a["x"][0]
        a["x"][:] -= a["x"][0]

    check(kernel, lambda: {"x": ramp(128), "y": np.zeros(128, np.float32), "N": 128}, expect)


@triton.jit
def rows_minus_first(x, N: tl.constexpr):
    i = tl.arange(0, 8)[:, None]
    j = tl.arange(0, N)[None, :]
    first = tl.load(x + i * N)
    v = tl.load(x + i * N + j)
    tl.store(x + i * N + j, v * first)


def test_rows_times_their_first_in_place() -> None:
    def expect(a: dict[str, Any]) -> None:
        m = a["x"].reshape(8, 64)
        m *= m[:, :1].copy()

    check(rows_minus_first, lambda: {"x": ramp(512), "N": 64}, expect)


@triton.jit
def after_a_loop(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    before = tl.load(x + i)
    for _ in range(n):
        tl.store(x + i, tl.load(x + i) + 1)
    tl.store(y + i, before)


@triton.jit
def in_a_loop(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    before = tl.load(x + i)
    for k in range(n):
        tl.store(x + i, before + k)
        before = tl.load(x + i) + before
    tl.store(y + i, before)


def test_load_before_a_loop_that_stores() -> None:
    def expect(a: dict[str, Any]) -> None:
        a["y"][:] = a["x"]
        a["x"][:] += 3

    check(after_a_loop, lambda: {"x": ramp(128), "y": np.zeros(128, np.float32), "n": 3, "N": 128}, expect)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_loop_that_stores_and_loads(n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        x, before = a["x"], a["x"].copy()
        for k in range(n):
            x[:] = before + k
            before = x + before
        a["y"][:] = before

    check(in_a_loop, lambda: {"x": ramp(128), "y": np.zeros(128, np.float32), "n": n, "N": 128}, expect)


@triton.jit
def store_in_a_branch(x, y, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if flag > 2:
        tl.store(x + i, v * 10)
    tl.store(y + i, v)
    w = tl.load(x + i)
    if flag > 2:
        z = tl.load(x + N + i)
        tl.store(x + N + i, w)
    else:
        z = w
    tl.store(y + N + i, z)


@pytest.mark.parametrize("flag", [2, 3])
def test_stores_and_loads_in_branches(flag: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        x, y = a["x"], a["y"]
        y[:128] = x[:128]
        if flag > 2:
            x[:128] *= 10
            y[128:] = x[128:]
            x[128:] = x[:128]
        else:
            y[128:] = x[:128]

    check(store_in_a_branch, lambda: {"x": ramp(256), "y": np.zeros(256, np.float32), "flag": flag, "N": 128}, expect)


@triton.jit
def dear_first_used_in_a_branch(x, y, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.exp2(tl.load(x + i))
    if flag > 2:
        tl.store(y + i, v)
    tl.store(x + i, v + 1)
    for k in range(flag):
        tl.store(y + N + i, v + k)
    tl.store(y + 2 * N + i, v)


@pytest.mark.parametrize("flag", [2, 3])
def test_dear_value_first_used_in_a_branch(flag: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        v = np.exp2(a["x"])
        if flag > 2:
            a["y"][:64] = v
        a["x"][:] = v + 1
        a["y"][64:128] = v + (flag - 1)
        a["y"][128:] = v

    x = np.arange(64) % 8
    check(
        dear_first_used_in_a_branch,
        lambda: {"x": x.astype(np.float32), "y": np.zeros(192, np.float32), "flag": flag, "N": 64},
        expect,
    )


@triton.jit
def overlapping(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    tl.store(z + i, a + b)
    tl.store(x + i, b)
    tl.store(y + i, a)


@pytest.mark.parametrize(("dx", "dy", "dz"), [(0, 0, 0), (0, 1, 2), (1, 0, 0), (0, 0, 1), (2, 1, 0), (0, 33, 1)])
def test_overlapping_arguments(dx: int, dy: int, dz: int) -> None:
    def make() -> dict[str, Any]:
        base = ramp(256)
        return {"x": base[dx : dx + 128], "y": base[dy : dy + 128], "z": base[dz : dz + 128], "N": 128}

    def expect(arguments: dict[str, Any]) -> None:
        a, b = arguments["x"].copy(), arguments["y"].copy()
        arguments["z"][:] = a + b
        arguments["x"][:] = b
        arguments["y"][:] = a

    check(overlapping, make, expect, disjoint=False)


@triton.jit
def barrier_between(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.debug_barrier()
    tl.store(x + N - 1 - i, v)
    tl.debug_barrier()
    w = tl.load(x + i)
    tl.atomic_add(x + i, w)
    tl.store(y + i, w + v)
    tl.store(y + N + i, tl.load(x + i))


def test_barriers_and_atomics_between() -> None:
    def expect(a: dict[str, Any]) -> None:
        v = a["x"].copy()
        w = v[::-1].copy()
        a["x"][:] = 2 * w
        a["y"][:128] = v + w
        a["y"][128:] = 2 * w

    check(barrier_between, lambda: {"x": ramp(128), "y": np.zeros(256, np.float32), "N": 128}, expect)


@triton.jit
def atomic_of_loaded(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + N - 1 - i)
    old = tl.atomic_add(x + i, v)
    tl.store(y + i, old)
    tl.store(y + N + i, v)


def test_atomic_of_values_loaded_from_the_same_array() -> None:
    def expect(a: dict[str, Any]) -> None:
        x = a["x"].copy()
        a["x"][:] = x + x[::-1]
        a["y"][:] = np.concatenate([x, x[::-1]])

    check(atomic_of_loaded, lambda: {"x": ramp(64), "y": np.zeros(128, np.float32), "N": 64}, expect)


@triton.jit(noinline=True)
def write_y(x, y, i, v):
    tl.store(y + i, v)
    return tl.load(y + i) + tl.load(x + i)


@triton.jit
def calls(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    before = tl.load(y + i)
    v = tl.load(x + i)
    s = write_y(x, y, 3, 7.0)
    s2 = write_y(x, y, 3, 9.0)
    tl.store(z + i, before)
    tl.store(z + N + i, v + s)
    tl.store(z + 2 * N + i, v + s2)


def test_function_calls_that_store() -> None:
    def expect(a: dict[str, Any]) -> None:
        z, x = a["z"], a["x"]
        z[:64] = a["y"]
        z[64:128], z[128:] = x + 7 + x[3], x + 9 + x[3]
        a["y"][3] = 9

    check(calls, lambda: {"x": ramp(64), "y": ramp(64) * 5, "z": np.zeros(192, np.float32), "N": 64}, expect)


@triton.jit
def reduce_then_store(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    s = tl.sum(v, 0)
    tl.store(x + i, v + s)
    m = tl.max(v, 0)
    tl.store(y + i, v + m)


def test_reduction_before_and_after_a_store() -> None:
    def expect(a: dict[str, Any]) -> None:
        v = a["x"].copy()
        a["x"][:] = v + v.sum()
        a["y"][:] = v + v.max()

    check(reduce_then_store, lambda: {"x": ramp(64), "y": np.zeros(64, np.float32), "N": 64}, expect)


@triton.jit
def masks_from_the_array(x, N: tl.constexpr):
    i = tl.arange(0, N)
    keep = tl.load(x + (i ^ 1)) > 5
    v = tl.load(x + i)
    tl.store(x + i, v + 100, mask=keep)


def test_mask_loaded_from_the_stored_array() -> None:
    def expect(a: dict[str, Any]) -> None:
        x = a["x"]
        x[x[np.arange(64) ^ 1] > 5] += 100

    check(masks_from_the_array, lambda: {"x": ramp(64), "N": 64}, expect)


@triton.jit
def permute_in_place(x, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i
    tl.store(p, tl.load(x + tl.load(p)))


def test_addresses_loaded_from_the_stored_array() -> None:
    order = np.random.default_rng(0).permutation(128).astype(np.int32)

    def expect(a: dict[str, Any]) -> None:
        a["x"][:] = order[order]

    check(permute_in_place, lambda: {"x": order.copy(), "N": 128}, expect)


@triton.jit
def while_with_stores(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    k = 0
    while k < n:
        tl.store(x + i, v + k)
        v = tl.load(x + (N - 1 - i))
        k += 1
    tl.store(y + i, v)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_while_that_stores_and_loads(n: int) -> None:
    def expect(a: dict[str, Any]) -> None:
        x, v = a["x"], a["x"].copy()
        for k in range(n):
            x[:] = v + k
            v = x[::-1].copy()
        a["y"][:] = v

    check(while_with_stores, lambda: {"x": ramp(64), "y": np.zeros(64, np.float32), "n": n, "N": 64}, expect)
