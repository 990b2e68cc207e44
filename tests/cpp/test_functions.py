"""C++ functions and the three programs of a first CUDA extension, on arrays of several libraries; arguments that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnikernel
from omnikernel.cpp.library import KernelError
from omnikernel.cpp.module import Module
from omnikernel.errors import ArgumentTypeError, ArgumentValueError

ADD_RELU = r"""
#include <omnikernel.h>
__global__ void add_relu(ok::View<const float, 1> a, ok::View<const float, 1> b, ok::View<float, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) { float v = a[i] + b[i]; out[i] = v > 0.f ? v : 0.f; }
}
__global__ void add_relu_2d(ok::View<const float, 2> a, ok::View<const float, 2> b, ok::View<float, 2> out) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < out.size(0) && j < out.size(1)) { float v = a[i][j] + b(i, j); out[i][j] = v > 0.f ? v : 0.f; }
}
__global__ void row_scale(ok::View<float, 2> x, ok::View<const float, 1> scale) {
  int row = blockIdx.x;
  for (int column = threadIdx.x; column < x.size(1); column += blockDim.x) x[row][column] *= scale[row];
}
"""
FUNCTIONS = r"""
#include <omnikernel.h>
void add_relu(ok::View<const float, 1> a, ok::View<const float, 1> b, ok::View<float, 1> out) {
  ok::parallel_for(out.size(0), [&](int64_t i) { float v = a[i] + b[i]; out[i] = v > 0.f ? v : 0.f; });
}
double total(ok::View<const double, 2> x) {
  double t = 0;
  for (int i = 0; i < x.size(0); i++) for (int j = 0; j < x.size(1); j++) t += x[i][j];
  return t;
}
int8_t negated(int8_t x) { return (int8_t)-x; }
bool both(bool a, bool b) { return a && b; }
float third(ok::f16 x) { return (float)x / 3; }
uint64_t wide(uint64_t x) { return x + 1; }
void refuse(int n) { OK_CHECK(n > 0, "n is %d", n); }
void refuse_inside(ok::View<float, 1> x) {
  ok::parallel_for(0, x.size(0), 1, [&](int64_t low, int64_t) { if (low == 7) ok::fail("at %d", (int)low); });
}
void first(float *p, const int64_t *q) { if (p) p[0] = q ? (float)q[0] : -1.0f; }
"""


@pytest.fixture(scope="module")
def kernels(compiler: object) -> Module:
    shapes = {"add_relu": dict.fromkeys(("a", "b", "out"), "n"), "row_scale": {"x": "rows, 30", "scale": "rows"}}
    return omnikernel.load_inline("relu", cuda_source=ADD_RELU, shapes=shapes)


@pytest.fixture(scope="module")
def cpp(compiler: object) -> Module:
    return omnikernel.load_inline("plain", cpp_source=FUNCTIONS)


def values(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


def test_add_relu_contiguous_and_sliced(kernels: Module) -> None:
    a, b, out = values(1001), values(2002)[::2], np.full(1001, np.nan, np.float32)
    kernels.add_relu[(8,), (128,)](a, b, out)
    np.testing.assert_array_equal(out, np.maximum(a + b, 0))
    out[:] = np.nan
    kernels.add_relu[4, 256](a[:0:-2], b[1::2], out[:500])
    np.testing.assert_array_equal(out[:500], np.maximum(a[:0:-2] + b[1::2], 0))
    assert np.isnan(out[500:]).all()


def test_add_relu_transposed(kernels: Module) -> None:
    a, b, out = values(37, 65), values(65, 37), np.empty((37, 65), np.float32)
    kernels.add_relu_2d[(5, 10), (16, 4)](a, b.T, out)
    np.testing.assert_array_equal(out, np.maximum(a + b.T, 0))


def test_row_scale_in_place_on_a_view(kernels: Module) -> None:
    whole = values(12, 40)
    expected = whole.copy()
    expected[::3, 5:35] *= np.arange(4, dtype=np.float32)[:, None]
    kernels.row_scale[4, 32](whole[::3, 5:35], np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.torch
def test_torch_tensors(kernels: Module) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.randn(30, 50), torch.randn(50, 30)
    out = torch.empty(30, 50)
    kernels.add_relu_2d[(4, 30), (16, 1)](a, b.t(), out)
    torch.testing.assert_close(out, torch.relu(a + b.t()), rtol=0, atol=0)


@pytest.mark.jax
def test_jax_arrays_are_read_and_never_written(kernels: Module) -> None:
    jnp = pytest.importorskip("jax.numpy")
    a, b, out = jnp.arange(64, dtype=jnp.float32), values(64), np.empty(64, np.float32)
    kernels.add_relu[1, 64](a, b, out)
    np.testing.assert_array_equal(out, np.maximum(np.asarray(a) + b, 0))
    with pytest.raises(ArgumentValueError, match="JAX arrays are immutable"):
        kernels.add_relu[1, 64](a, b, a)


def test_a_cpp_function(cpp: Module) -> None:
    a, b, out = values(100_000), values(100_000), np.empty(100_000, np.float32)
    cpp.add_relu(a, b, out=out)
    np.testing.assert_array_equal(out, np.maximum(a + b, 0))
    x = np.arange(12.0).reshape(3, 4)
    assert cpp.total(x) == cpp.total(x.T[::-1]) == 66.0


def test_scalars_and_results(cpp: Module) -> None:
    assert cpp.negated(-127) == 127 and cpp.negated(np.int8(5)) == -5
    assert cpp.both(True, True) is True and cpp.both(True, False) is False
    assert cpp.third(1.5) == 0.5
    assert cpp.wide(2**64 - 2) == 2**64 - 1
    with pytest.raises(ArgumentValueError, match=r"an integer from -128 to 127 for int8_t, got 128"):
        cpp.negated(128)
    with pytest.raises(ArgumentTypeError, match=r"expected an integer for int8_t, got 1.5 of type float"):
        cpp.negated(1.5)


def test_errors_that_functions_report(cpp: Module) -> None:
    with pytest.raises(KernelError, match=r"^function 'refuse': n is -2$"):
        cpp.refuse(-2)
    with pytest.raises(KernelError, match=r"^function 'refuse_inside': at 7$"):
        cpp.refuse_inside(values(50))


def test_pointers(cpp: Module) -> None:
    x, n = np.zeros(3, np.float32), np.array([5], np.int64)
    cpp.first(x, n)
    assert x[0] == 5
    cpp.first(x, None)
    assert x[0] == -1
    with pytest.raises(ArgumentValueError) as caught:
        cpp.first(np.zeros(6, np.float32)[::2], n)
    assert str(caught.value) == (
        "kernel 'first', parameter 'p': expected a contiguous array for a pointer, got strides (2,); "
        "pass a contiguous copy, or take an ok::View, which knows strides"
    )


def meta(n: int) -> Any:
    """A tensor of another device, which every build of torch has."""
    return pytest.importorskip("torch").empty(n, device="meta")


WRONG = [
    (
        lambda a, b, out: (a, b),
        ArgumentTypeError,
        "kernel 'add_relu': expected 3 arguments (a, b, out), got 2",
    ),
    (
        lambda a, b, out: (a.astype(np.float64), b, out),
        ArgumentTypeError,
        "kernel 'add_relu', parameter 'a': expected an array of float32 with 1 dimension, got numpy array of float64; "
        "convert it, or change the parameter's type ok::View<const float, 1>",
    ),
    (
        lambda a, b, out: (a, b.reshape(2, 32), out),
        ArgumentTypeError,
        "kernel 'add_relu', parameter 'b': expected an array of float32 with 1 dimension, got one of 2 dimensions, "
        "shape (2, 32); reshape it, or change the parameter's type ok::View<const float, 1>",
    ),
    (
        lambda a, b, out: (a, b[:63], out),
        ArgumentValueError,
        "kernel 'add_relu', parameter 'b': expected size n = 64, as 'a' has, along axis 0, got shape (63,); "
        "pass arrays whose sizes agree",
    ),
    (
        lambda a, b, out: (a, meta(64), out),
        ArgumentTypeError,
        "kernel 'add_relu', parameter 'b': expected a tensor on the CPU, got a torch tensor of float32 on meta; "
        "move it with .cpu(), or launch the kernel on its device",
    ),
    (
        lambda a, b, out: (a, 1.5, out),
        ArgumentTypeError,
        "kernel 'add_relu', parameter 'b': expected an array of float32 with 1 dimension, got 1.5 of type float; "
        "the parameter is ok::View<const float, 1>",
    ),
    (
        lambda a, b, out: (a, b, np.broadcast_to(out[:1], 64)),
        ArgumentValueError,
        "kernel 'add_relu', parameter 'out': expected a writeable array, got a read-only numpy array; "
        "pass a writeable array, or make the parameter const if it is only read",
    ),
]


@pytest.mark.parametrize("change, kind, message", WRONG)
def test_wrong_arguments(kernels: Module, change: Any, kind: type[Exception], message: str) -> None:
    a, b, out = values(64), values(64), np.zeros(64, np.float32)
    with pytest.raises(kind) as caught:
        kernels.add_relu[1, 64](*change(a, b, out))
    assert str(caught.value) == message
    assert not out.any()


def test_wrong_names_and_launches(kernels: Module) -> None:
    a = values(4)
    with pytest.raises(ArgumentTypeError, match=r"kernel 'add_relu': has no parameter 'c'; it has a, b, out"):
        kernels.add_relu[1, 4](a, a, c=a)
    with pytest.raises(ArgumentTypeError, match=r"kernel 'add_relu': parameter 'a' is given twice"):
        kernels.add_relu[1, 4](a, a, a=a)
    with pytest.raises(
        AttributeError, match=r"module 'relu' has no function 'sub'; it has add_relu, add_relu_2d, row_scale"
    ):
        _ = kernels.sub
    with pytest.raises(ValueError, match=r"kernel 'add_relu': a block has at most 1024 threads, got \(64, 32, 1\)"):
        kernels.add_relu[1, (64, 32)]
    with pytest.raises(TypeError, match=r"add_relu\[grid, block\]"):
        kernels.add_relu(a, a, a)


def test_declared_sizes(kernels: Module) -> None:
    with pytest.raises(ArgumentValueError, match=r"'x': expected size 30 along axis 1, got shape \(4, 31\)"):
        kernels.row_scale[4, 32](values(4, 31), values(4))
    with pytest.raises(ValueError, match=r"shapes: 'add_relu' has no view 'a' with 2 dimensions for 'n, m'"):
        omnikernel.load_inline("relu", cuda_source=ADD_RELU, shapes={"add_relu": {"a": "n, m"}})


def test_an_empty_grid_runs_nothing(kernels: Module) -> None:
    empty = np.empty(0, np.float32)
    kernels.add_relu[0, 32](empty, empty, empty)
    kernels.add_relu[1, 32](empty, empty, empty)


def test_restrict_arrays_share_no_memory(compiler: object) -> None:
    source = r"""
    #include <omnikernel.h>
    void twice(ok::View<const float, 1, ok::Restrict> x, ok::View<float, 1, ok::Restrict> y) {
      for (int i = 0; i < y.size(0); i++) y[i] = 2 * x[i];
    }"""
    mod = omnikernel.load_inline("restricted", cpp_source=source)
    x = values(10)
    y = np.empty(5, np.float32)
    mod.twice(x[:5], y)
    np.testing.assert_array_equal(y, 2 * x[:5])
    with pytest.raises(ArgumentValueError, match=r"'x' and 'y' share memory, but one is ok::Restrict"):
        mod.twice(x[:5], x[2:7])
