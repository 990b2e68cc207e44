"""map_elementwise, functions that are not inlined, and regions with control flow and effects."""

# ruff: noqa: SIM108 (kernels branch by statements: that is what is tested)

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl
from tile_run import run


@triton.jit
def collatz(a):
    steps = 0
    while a > 1:
        a = a // 2 if a % 2 == 0 else a * 3 + 1
        steps += 1
    return steps


@triton.jit
def compare(a, b):
    if a < b:
        return -1
    if a > b:
        return 1
    return 0


@triton.jit
def sum_and_difference(a, b):
    return a + b, a - b


@triton.jit
def swapped(a0, a1, b0, b1):
    if a0 < a1:
        x0, x1 = b1, b0
    else:
        x0, x1 = b0, b1
    return x0, x1, a1, a0


@triton.jit
def mapped(x, y, z, w, N: tl.constexpr, M: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    a, b = tl.load(x + at), tl.load(y + at)
    if KIND == "collatz":
        c = tl.map_elementwise(collatz, a)
        d = c
    elif KIND == "compare":
        c = tl.map_elementwise(compare, a, b)
        d = c
    elif KIND == "pair":
        c, d = tl.map_elementwise(sum_and_difference, a, b)
    else:
        c, d = tl.map_elementwise(swapped, a, b, pack=2)
    tl.store(z + at, c)
    tl.store(w + at, d)


def pair_meaning(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = x.reshape(-1, 2), y.reshape(-1, 2)
    z = np.where((a[:, :1] < a[:, 1:]), b[:, ::-1], b)
    return z.reshape(x.shape), a[:, ::-1].reshape(x.shape)


@pytest.mark.parametrize("kind", ["collatz", "compare", "pair", "packed"])
@pytest.mark.parametrize("shape", [(1, 2), (4, 32), (16, 4)], ids=str)
def test_map_elementwise(kind: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(1, 40, (2, *shape)).astype(np.int32)
    zero = np.zeros_like(x)
    *_, z, w = run(mapped, x, y, zero, zero, N=shape[0], M=shape[1], KIND=kind)

    def steps(a: int) -> int:
        count = 0
        while a > 1:
            a, count = (a // 2 if a % 2 == 0 else a * 3 + 1), count + 1
        return count

    if kind == "collatz":
        want = np.vectorize(steps)(x), np.vectorize(steps)(x)
    elif kind == "compare":
        want = np.sign(x - y), np.sign(x - y)
    elif kind == "pair":
        want = x + y, x - y
    else:
        want = pair_meaning(x, y)
    np.testing.assert_array_equal(z, want[0])
    np.testing.assert_array_equal(w, want[1])


@triton.jit
def mapped_floats(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.map_elementwise(root, tl.load(x + at)))


@triton.jit
def root(a):
    r = a
    for _ in range(8):
        if r > 0:
            r = (r + a / r) * 0.5
    return r


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_map_elementwise_on_floats(dtype: str) -> None:
    x = np.abs(np.random.default_rng(2).normal(size=64)).astype(dtype) + dtype_one(dtype)
    _, y = run(mapped_floats, x, np.zeros_like(x), N=64)
    np.testing.assert_allclose(y, np.sqrt(x), rtol=1e-5)


def dtype_one(dtype: str) -> np.generic:
    return np.dtype(dtype).type(1)


# --- regions of reductions -----------------------------------------------------------------------------------------


@triton.jit
def keep_larger(a, b):
    if a > b:
        r = a
    else:
        r = b
    return r


@triton.jit
def digits(a, b):
    r = a
    n = b & 3
    while n > 0:
        r = r * 3 + n
        n -= 1
    return r


@triton.jit
def reduced(x, y, N: tl.constexpr, M: tl.constexpr, AXIS: tl.constexpr, KIND: tl.constexpr):
    v = tl.load(x + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :])
    if KIND == "larger":
        r = tl.reduce(v, AXIS, keep_larger)
    else:
        r = tl.reduce(v, AXIS, digits)
    if AXIS == 0:
        tl.store(y + tl.arange(0, M), r)
    else:
        tl.store(y + tl.arange(0, N), r)


@pytest.mark.parametrize("kind", ["larger", "digits"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(4, 64), (64, 4), (1, 16), (16, 1)], ids=str)
def test_reductions_with_control_flow(kind: str, axis: int, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(3).integers(0, 50, shape).astype(np.int32)
    _, y = run(reduced, x, np.zeros(shape[1 - axis], np.int32), N=shape[0], M=shape[1], AXIS=axis, KIND=kind)
    if kind == "larger":
        np.testing.assert_array_equal(y, x.max(axis))


@triton.jit
def reduced_row(x, y, N: tl.constexpr):
    tl.store(y, tl.reduce(tl.load(x + tl.arange(0, N)), 0, digits))


@pytest.mark.parametrize("size", [1, 2, 32, 256])
def test_a_reduction_to_a_scalar_with_a_loop(size: int) -> None:
    x = np.random.default_rng(4).integers(0, 9, size).astype(np.int64)
    _, y = run(reduced_row, x, np.zeros(1, np.int64), N=size)
    if size == 1:
        assert y[0] == x[0]


@triton.jit(noinline=True)
def slow_max(a, b):
    if a > b:
        return a
    return b


@triton.jit
def scan_by_call(x, y, z, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.associative_scan(tl.load(x + at), 0, slow_max))
    tl.store(z, tl.reduce(tl.load(x + at), 0, slow_max))


def test_regions_that_call_a_function() -> None:
    x = np.random.default_rng(5).normal(size=64).astype(np.float32)
    _, y, z = run(scan_by_call, x, np.zeros_like(x), np.zeros(1, np.float32), N=64)
    np.testing.assert_array_equal(y, np.maximum.accumulate(x))
    assert z[0] == x.max()


# --- functions that are not inlined --------------------------------------------------------------------------------


@triton.jit(noinline=True)
def shifted(v, by):
    return v + by + tl.program_id(0), v * 2


@triton.jit(noinline=True)
def store_to(p, v):
    if v > 0:
        tl.store(p, v)


@triton.jit
def calling(x, y):
    pid = tl.program_id(0)
    a, b = shifted(tl.load(x + pid), 10)
    c, d = shifted(a, pid)
    store_to(y + pid, c + b + d)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_functions_that_read_the_program(dtype: str) -> None:
    x = np.array([3, -90, 5], dtype)
    _, y = run(calling, x, np.zeros(3, dtype), grid=(3, 1, 1))
    a = x + 10 + np.arange(3)
    total = a + 2 * np.arange(3) + x * 2 + a * 2
    np.testing.assert_array_equal(y, np.where(total > 0, total, 0))


@triton.jit(noinline=True)
def halved(s):
    return s * 0.5


@triton.jit
def scalar_calls(x, y):
    v = tl.load(x)
    if v > 1.0:
        w = halved(v)
    else:
        w = v + halved(v)
    tl.store(y, w + halved(w))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("value", [0.5, 3.0])
def test_narrow_scalars_cross_branches_and_calls(dtype: str, value: float) -> None:
    from tile_run import DTYPES

    x = np.array([value], np.float32).astype(DTYPES[dtype])
    _, y = run(scalar_calls, x, np.zeros_like(x))
    w = value * 0.5 if value > 1 else value * 1.5
    assert float(y[0]) == w * 1.5


TILE_FUNCTION = """
module {
  tt.func public @k(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %px = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %py = tt.splat %y : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %ax = tt.addptr %px, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %ay = tt.addptr %py, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %v = tt.load %ax : tensor<16x!tt.ptr<i32>>
    %w:2 = tt.call @f(%v, %r) : (tensor<16xi32>, tensor<16xi32>) -> (tensor<16xi32>, i32)
    %u:2 = tt.call @f(%w#0, %v) : (tensor<16xi32>, tensor<16xi32>) -> (tensor<16xi32>, i32)
    %s = arith.addi %w#1, %u#1 : i32
    %t = tt.splat %s : i32 -> tensor<16xi32>
    %z = arith.addi %u#0, %t : tensor<16xi32>
    tt.store %ay, %z : tensor<16x!tt.ptr<i32>>
    tt.return
  }
  tt.func private @f(%a: tensor<16xi32>, %b: tensor<16xi32>) -> (tensor<16xi32>, i32) attributes {noinline = true} {
    %p = tt.get_program_id x : i32
    %q = tt.splat %p : i32 -> tensor<16xi32>
    %c = arith.muli %a, %b : tensor<16xi32>
    %d = arith.addi %c, %q : tensor<16xi32>
    %m = "tt.reduce"(%d) <{axis = 0 : i32}> ({
    ^bb0(%e: i32, %g: i32):
      %h = arith.maxsi %e, %g : i32
      tt.reduce.return %h : i32
    }) : (tensor<16xi32>) -> i32
    tt.return %d, %m : tensor<16xi32>, i32
  }
}
"""


def test_functions_that_take_and_return_tiles() -> None:
    from tile_run import run_compiled

    from omnikernel import reference
    from omnikernel.ttir import parse

    x = np.random.default_rng(8).integers(-9, 9, 16).astype(np.int32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    run_compiled(TILE_FUNCTION, [x, y], (1, 1, 1))
    reference.run(parse(TILE_FUNCTION), [x.ctypes.data, z.ctypes.data], (1, 1, 1))
    first = x * np.arange(16)
    second = first * x
    np.testing.assert_array_equal(z, second + first.max() + second.max())
    np.testing.assert_array_equal(y, z)
