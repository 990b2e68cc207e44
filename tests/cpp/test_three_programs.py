"""The three programs of a first CUDA extension, on arrays of every library, and exactly what they say of wrong arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import omnikernel
from omnikernel import Array
from omnikernel.cpp.module import Module
from omnikernel.errors import ArgumentTypeError, ArgumentValueError

SOURCE = r"""
#include <omnikernel.h>
__global__ void add_relu(ok::View<const float, 2> a, ok::View<const float, 2> b, ok::View<float, 2> out) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
  if (j < out.size(1)) { float v = a[i][j] + b[i][j]; out[i][j] = v > 0.f ? v : 0.f; }
}
__global__ void row_scale(ok::View<float, 2> x, ok::View<const float, 1> scale) {
  for (int j = threadIdx.x; j < x.size(1); j += blockDim.x) x[blockIdx.x][j] *= scale[blockIdx.x];
}
__global__ void square(ok::View<const double, 1> x, ok::View<double, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) out[i] = x[i] * x[i];
}
__global__ void square_backward(ok::View<const double, 1> x, ok::View<const double, 1> grad, ok::View<double, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) out[i] = 2 * x[i] * grad[i];
}
"""
SHAPES = {"add_relu": dict.fromkeys(("a", "b", "out"), "n, m"), "row_scale": {"x": "rows, m", "scale": "rows"}}
LIBRARIES = ("numpy", "torch", "jax")


@pytest.fixture(scope="module")
def kernels(compiler: object) -> Module:
    return omnikernel.load_inline("three", cuda_source=SOURCE, shapes=SHAPES)


@pytest.fixture(scope="module")
def add_relu(kernels: Module) -> Any:
    @omnikernel.op("three::add_relu", strided=("a", "b"))
    def add_relu(a: Array, b: Array) -> Array:
        out = omnikernel.empty_like(a)
        kernels.add_relu[(omnikernel.cdiv(a.shape[1], 32), a.shape[0]), 32](a, b, out)
        return out

    return add_relu


@pytest.fixture(scope="module")
def row_scale(kernels: Module) -> Any:
    @omnikernel.op("three::row_scale_", mutates=("x",), strided=("x",))
    def row_scale_(x: Array, scale: Array) -> None:
        kernels.row_scale[x.shape[0], 32](x, scale)

    return row_scale_


@pytest.fixture(scope="module")
def square(kernels: Module) -> Any:
    @omnikernel.op("three::square_backward")
    def square_backward(x: Array, grad: Array) -> Array:
        out = omnikernel.empty_like(x)
        kernels.square_backward[omnikernel.cdiv(x.size, 64), 64](x, grad, out)
        return out

    @omnikernel.op("three::square")
    def square(x: Array) -> Array:
        out = omnikernel.empty_like(x)
        kernels.square[omnikernel.cdiv(x.size, 64), 64](x, out)
        return out

    return square.def_vjp(lambda saved, grad: square_backward(saved[0], grad), save=lambda x, out: (x,))


def values(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x[:20, :30],
    "transposed": lambda x: x[:30, :20].T,
    "sliced": lambda x: x[1:41:2, 3:33],
}


def library(name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """To the library's array, and what a function is wrapped in: `jax.jit` for JAX."""
    if name == "numpy":
        return np.asarray, lambda f: f
    if name == "torch":
        return pytest.importorskip("torch").from_numpy, lambda f: f
    jax = pytest.importorskip("jax")
    return jax.numpy.asarray, jax.jit


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("as_operator", [False, True], ids=["kernel", "operator"])
def test_add_relu(kernels: Module, add_relu: Any, name: str, layout: str, as_operator: bool) -> None:
    put, jit = library(name)
    view = LAYOUTS[layout]
    a, b = values(42, 42), values(42, 43)[:, :42]
    expected = np.maximum(view(a) + view(b), 0)
    if as_operator:
        found = jit(lambda x, y: add_relu(view(x), view(y)))(put(a), put(b))
    elif name == "jax":
        jax = pytest.importorskip("jax")
        from omnikernel.jax import triton_call

        out = jax.ShapeDtypeStruct((20, 30), np.float32)
        launch = {"kernel": kernels.add_relu, "out_shape": out, "grid": ((1, 20), (32,))}
        found = jit(lambda x, y: triton_call(view(x), view(y), **launch))(put(a), put(b))
    else:
        found = put(np.full((20, 30), np.nan, np.float32))
        kernels.add_relu[(1, 20), 32](view(put(a)), view(put(b)), found)
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("as_operator", [False, True], ids=["kernel", "operator"])
def test_row_scale_in_place_on_a_view(kernels: Module, row_scale: Any, name: str, as_operator: bool) -> None:
    put, _ = library(name)
    whole, scale = values(12, 40), np.arange(4, dtype=np.float32)
    expected = whole.copy()
    expected[::3, 5:35] *= scale[:, None]
    own = whole.copy()
    view = put(own)[::3, 5:35]
    if as_operator:
        row_scale(view, put(scale))
    else:
        kernels.row_scale[4, 32](view, put(scale))
    np.testing.assert_array_equal(own, expected)


@pytest.mark.jax
def test_row_scale_in_jit_and_on_a_ref(kernels: Module, row_scale: Any) -> None:
    jax = pytest.importorskip("jax")
    from omnikernel.jax import triton_call

    x, scale = values(4, 30), np.arange(4, dtype=np.float32)
    expected = x * scale[:, None]
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    launch = {"kernel": kernels.row_scale, "out_shape": out, "grid": (4, 32), "input_output_aliases": {0: 0}}
    argument = jax.numpy.asarray(x)
    np.testing.assert_array_equal(jax.jit(lambda a, s: triton_call(a, s, **launch))(argument, scale), expected)
    np.testing.assert_array_equal(argument, x)  # an argument that is not donated is copied first

    def by_ref(a: Any, s: Any) -> Any:
        ref = jax.new_ref(a)
        row_scale(ref, s)
        return ref[...]

    np.testing.assert_array_equal(jax.jit(by_ref)(argument, scale), expected)


@pytest.mark.parametrize("name", LIBRARIES)
def test_square_and_its_derivative(square: Any, name: str) -> None:
    x = values(50).astype(np.float64)
    if name == "numpy":
        np.testing.assert_array_equal(square(x), x * x)
    elif name == "torch":
        torch = pytest.importorskip("torch")
        assert torch.autograd.gradcheck(square, (torch.tensor(x, requires_grad=True),))
        assert torch.autograd.gradcheck(square, (torch.tensor(x[::-1].copy(), requires_grad=True)[::2],))
    else:
        jax = pytest.importorskip("jax")
        from jax.test_util import check_grads

        with jax.enable_x64(True):
            check_grads(jax.jit(square), (jax.numpy.asarray(x),), order=1, modes=["rev"])


def wrong(name: str) -> Any:
    return pytest.param(name, marks=getattr(pytest.mark, name) if name != "numpy" else ())


def launch(kernels: Module, name: str, *arrays: Any) -> Any:
    """A launch of add_relu; inside `jax.jit` for JAX."""
    if name == "jax":
        jax = pytest.importorskip("jax")
        from omnikernel.jax import triton_call

        out = jax.ShapeDtypeStruct((2, 3), np.float32)
        call = jax.jit(lambda *a: triton_call(*a, kernel=kernels.add_relu, out_shape=out, grid=((1, 2), (32,))))
        return call(*arrays)
    put, _ = library(name)
    return kernels.add_relu[(1, 2), 32](*map(put, arrays), put(np.zeros((2, 3), np.float32)))


@pytest.mark.parametrize("name", [wrong(name) for name in LIBRARIES])
def test_wrong_size(kernels: Module, name: str) -> None:
    with pytest.raises(ArgumentValueError) as caught:
        launch(kernels, name, values(2, 3), values(2, 4))
    assert str(caught.value) == (
        "kernel 'add_relu', parameter 'b': expected size m = 3, as 'a' has, along axis 1, got shape (2, 4); "
        "pass arrays whose sizes agree"
    )


@pytest.mark.parametrize("name", [wrong(name) for name in LIBRARIES])
def test_wrong_dtype(kernels: Module, name: str) -> None:
    got = {"numpy": "numpy array", "torch": "torch array", "jax": "one"}[name]
    with pytest.raises(ArgumentTypeError) as caught:
        launch(kernels, name, values(2, 3), values(2, 3).astype(np.int32))
    assert str(caught.value) == (
        f"kernel 'add_relu', parameter 'b': expected an array of float32 with 2 dimensions, got {got} of int32; "
        "convert it, or change the parameter's type ok::View<const float, 2>"
    )


@pytest.mark.parametrize("name", [wrong(name) for name in LIBRARIES])
def test_wrong_rank(kernels: Module, name: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        launch(kernels, name, values(2, 3), values(6))
    assert str(caught.value) == (
        "kernel 'add_relu', parameter 'b': expected an array of float32 with 2 dimensions, got one of 1 dimension, "
        "shape (6,); reshape it, or change the parameter's type ok::View<const float, 2>"
    )


@pytest.mark.torch
def test_wrong_device(kernels: Module, add_relu: Any) -> None:
    torch = pytest.importorskip("torch")
    here, elsewhere = torch.zeros(2, 3), torch.zeros(2, 3, device="meta")
    with pytest.raises(ArgumentTypeError) as caught:
        kernels.add_relu[(1, 2), 32](here, elsewhere, here)
    assert str(caught.value) == (
        "kernel 'add_relu', parameter 'b': expected a tensor on the CPU, got a torch tensor of float32 on meta; "
        "move it with .cpu(), or launch the kernel on its device"
    )
    with pytest.raises(ArgumentTypeError) as caught:
        add_relu(here, elsewhere)
    assert str(caught.value) == (
        "operator three::add_relu, argument 'b': expected a tensor on cpu, as the ones before, got one on meta; "
        "move it with .to('cpu')"
    )
