"""Tensor descriptors, passed from the host and made in kernels: launched, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl

TensorDescriptor = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


@triton.jit
def copied(d, o, M: tl.constexpr, N: tl.constexpr):
    at = [tl.program_id(0) * M, tl.program_id(1) * N]
    o.store(at, d.load(at) + 1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint16"])
def test_load_and_store_past_the_edges(dtype: str) -> None:
    x = numbers(dtype, (20, 24))
    around = np.full((22, 24), 7, dtype)
    o = around[1:21]
    copied[(3, 2)](TensorDescriptor.from_tensor(x, [8, 16]), TensorDescriptor.from_tensor(o, [8, 16]), 8, 16)
    np.testing.assert_array_equal(o, x + x.dtype.type(1))
    assert (around[[0, 21]] == 7).all()


@triton.jit
def merged(d, o, M: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr):
    v = d.load([tl.program_id(0) * M, tl.program_id(1) * N])
    if KIND == "add":
        o.atomic_add([0, 0], v)
    elif KIND == "minimum":
        o.atomic_min([0, 0], v)
    elif KIND == "maximum":
        o.atomic_max([0, 0], v)
    elif KIND == "bitwise_and":
        o.atomic_and([0, 0], v)
    elif KIND == "bitwise_or":
        o.atomic_or([0, 0], v)
    else:
        o.atomic_xor([0, 0], v)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("add", "int32"),
        ("add", "float32"),
        ("add", "float16"),
        ("minimum", "int32"),
        ("minimum", "uint32"),
        ("maximum", "int64"),
        ("maximum", "uint32"),
        ("bitwise_and", "int32"),
        ("bitwise_or", "uint32"),
        ("bitwise_xor", "int64"),
    ],
)
def test_reduce(kind: str, dtype: str) -> None:
    x = numbers(dtype, (32, 32))
    if dtype == "uint32":
        x[::3] += np.uint32(2**31)
    o = numbers(dtype, (8, 16))
    want = o.copy()
    for i in range(4):
        for j in range(2):
            want = getattr(np, kind)(want, x[i * 8 : i * 8 + 8, j * 16 : j * 16 + 16])
    merged[(4, 2)](TensorDescriptor.from_tensor(x, [8, 16]), TensorDescriptor.from_tensor(o, [8, 16]), 8, 16, kind)
    np.testing.assert_array_equal(o, want)


@triton.jit
def gathered(d, rows, o, M: tl.constexpr, N: tl.constexpr):
    v = d.gather(tl.load(rows + tl.arange(0, M)), 4)
    tl.store(o + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


@triton.jit
def scattered(d, rows, x, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    d.scatter(v, tl.load(rows + tl.arange(0, M)), 4)


def test_gather_and_scatter_rows() -> None:
    x, rows, o = numbers("float32", (64, 32)), np.array([3, 60, 1, 99, 0, -1, 5, 63], np.int32), np.ones((8, 16), "f4")
    gathered[(1,)](TensorDescriptor.from_tensor(x, [1, 16]), rows, o, 8, 16)
    inside = (rows >= 0) & (rows < 64)
    np.testing.assert_array_equal(o, np.where(inside[:, None], x[np.clip(rows, 0, 63), 4:20], 0))
    y = np.zeros((64, 32), np.float32)
    scattered[(1,)](TensorDescriptor.from_tensor(y, [1, 16]), rows, o, 8, 16)
    want = np.zeros_like(y)
    want[rows[inside], 4:20] = o[inside]
    np.testing.assert_array_equal(y, want)


@triton.jit
def made_here(p, o, m, n, M: tl.constexpr, N: tl.constexpr, PADDING: tl.constexpr):
    d = tl.make_tensor_descriptor(p, [m, n], [n, 1], [M, N], padding_option=PADDING)
    for k in range(0, 2):
        v = d.load([k * M - 2, 3])
        tl.store(o + k * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


@triton.jit
def made_there(d, o, M: tl.constexpr, N: tl.constexpr):
    for k in range(0, 2):
        v = d.load([k * M - 2, 3])
        tl.store(o + k * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], v)


@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("host", [False, True])
def test_padding(padding: str, host: bool) -> None:
    x, o = numbers("float32", (12, 16)), np.full((2, 8, 16), -1, np.float32)
    if host:
        made_there[(1,)](TensorDescriptor(x, [12, 16], [16, 1], [8, 16], padding), o, 8, 16)
    else:
        made_here[(1,)](x, o, 12, 16, 8, 16, padding)
    want = np.full((24, 32), 0 if padding == "zero" else np.nan, np.float32)
    want[2:14, :16] = x
    np.testing.assert_array_equal(o, want[:16, 3:19].reshape(2, 8, 16))


@triton.jit
def doubled(pair, M: tl.constexpr, N: tl.constexpr):
    pair[1].store([0, 0], pair[0].load([0, 0]) * 2)


def test_descriptors_in_a_tuple() -> None:
    x = numbers("float32", (8, 16))
    o = np.zeros_like(x)
    doubled[(1,)]((TensorDescriptor.from_tensor(x, [8, 16]), TensorDescriptor.from_tensor(o, [8, 16])), 8, 16)
    np.testing.assert_array_equal(o, x * 2)


@triton.jit(noinline=True)
def block_sum(d, i):
    return tl.sum(d.load([i * 8, 0]))


@triton.jit
def by_function(d, o):
    tl.store(o, block_sum(d, 1))


@triton.jit
def four_dimensions(d, o):
    o.store([0, 0, 0, 0], d.load([1, 0, 2, 0]))


def test_descriptors_in_functions_and_of_rank_4() -> None:
    x, o = numbers("float32", (16, 16)), np.zeros(1, np.float32)
    by_function[(1,)](TensorDescriptor.from_tensor(x, [8, 16]), o)
    assert o[0] == x[8:].sum()
    x4, o4 = numbers("int16", (3, 2, 8, 8)), np.zeros((1, 2, 4, 8), np.int16)
    four_dimensions[(1,)](
        TensorDescriptor.from_tensor(x4, [1, 2, 4, 8]), TensorDescriptor.from_tensor(o4, [1, 2, 4, 8])
    )
    np.testing.assert_array_equal(o4, x4[1:2, :, 2:6])
