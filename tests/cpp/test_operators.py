"""C++ and CUDA kernels inside operators: NumPy, torch with gradcheck, JAX inside jit and under grad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnikernel
from omnikernel import Array
from omnikernel.cpp.module import Module
from omnikernel.errors import ArgumentTypeError
from omnikernel.ops.launches import MutationError

SOURCE = r"""
#include <omnikernel.h>
template <typename T>
__global__ void silu_mul(ok::View<const T, 1> x, ok::View<const T, 1> gate, ok::View<T, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) out[i] = x[i] * gate[i] / (T(1) + exp(-gate[i]));
}
template <typename T>
__global__ void silu_mul_backward(ok::View<const T, 1> grad, ok::View<const T, 1> x, ok::View<const T, 1> gate,
                                  ok::View<T, 1> dx, ok::View<T, 1> dgate) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= x.size(0)) return;
  T s = T(1) / (T(1) + exp(-gate[i]));
  dx[i] = grad[i] * gate[i] * s;
  dgate[i] = grad[i] * x[i] * s * (T(1) + gate[i] * (T(1) - s));
}
__global__ void scale_rows(ok::View<float, 2> x, float by) {
  __shared__ float factor;
  if (threadIdx.x == 0) factor = by;
  __syncthreads();
  for (int j = threadIdx.x; j < x.size(1); j += blockDim.x) x[blockIdx.x][j] *= factor;
}
"""
CPP = r"""
#include <omnikernel.h>
void twice(ok::View<const float, 1> x, ok::View<float, 1> out) {
  ok::parallel_for(out.size(0), [&](int64_t i) { out[i] = 2 * x[i]; });
}
int count(ok::View<const float, 1> x) { return (int)x.size(0); }
"""


def signatures() -> dict[str, str]:
    found = {}
    for short, cpp in (("f32", "float"), ("f64", "double")):
        const, plain = f"ok::View<const {cpp}, 1>", f"ok::View<{cpp}, 1>"
        found[f"forward_{short}"] = f"silu_mul<{cpp}>({const} x, {const} gate, {plain} out)"
        found[f"backward_{short}"] = (
            f"silu_mul_backward<{cpp}>({const} grad, {const} x, {const} gate, {plain} dx, {plain} dgate)"
        )
    return {**found, "scale_rows": "(ok::View<float, 2> x, float by)"}


@pytest.fixture(scope="module")
def kernels(compiler: object) -> Module:
    return omnikernel.load_inline("silu", cuda_source=SOURCE, functions=signatures())


@pytest.fixture(scope="module")
def silu_mul(kernels: Module) -> Any:
    def pick(kind: str, dtype: Any) -> Any:
        return getattr(kernels, f"{kind}_{'f64' if dtype == 'float64' else 'f32'}")

    @omnikernel.op("cpptests::silu_mul")
    def silu_mul(x: Array, gate: Array) -> Array:
        out = omnikernel.empty_like(x)
        pick("forward", x.dtype)[omnikernel.cdiv(x.size, 128), 128](x, gate, out)
        return out

    @omnikernel.op("cpptests::silu_mul_backward")
    def backward(grad: Array, x: Array, gate: Array) -> tuple[Array, Array]:
        dx, dgate = omnikernel.empty_like(x), omnikernel.empty_like(x)
        pick("backward", x.dtype)[omnikernel.cdiv(x.size, 128), 128](grad, x, gate, dx, dgate)
        return dx, dgate

    silu_mul.def_vjp(lambda saved, grad: backward(grad, *saved), save=lambda x, gate, out: (x, gate))
    return silu_mul


def expected(x: Any, gate: Any) -> Any:
    return x * gate / (1 + np.exp(-gate))


def inputs(dtype: str = "float32", n: int = 301) -> tuple[Any, Any]:
    r = np.random.default_rng(3)
    return r.standard_normal(n).astype(dtype), r.standard_normal(n).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpy(silu_mul: Any, dtype: str) -> None:
    x, gate = inputs(dtype)
    np.testing.assert_allclose(silu_mul(x, gate), expected(x, gate), rtol=1e-5)


@pytest.mark.torch
def test_torch_gradcheck(silu_mul: Any) -> None:
    torch = pytest.importorskip("torch")
    x, gate = (torch.tensor(a[:20], requires_grad=True) for a in inputs("float64"))
    assert torch.autograd.gradcheck(silu_mul, (x, gate))
    np.testing.assert_allclose(silu_mul(x, gate).detach(), expected(*(a[:20] for a in inputs("float64"))))


@pytest.mark.torch
def test_torch_knows_shapes_without_running(silu_mul: Any) -> None:
    torch = pytest.importorskip("torch")
    x, gate = (torch.tensor(a) for a in inputs())
    torch.library.opcheck(silu_mul.torch, (x, gate))


@pytest.mark.jax
def test_jax_in_jit_and_grad(silu_mul: Any) -> None:
    jax = pytest.importorskip("jax")
    x, gate = inputs()
    found = jax.jit(lambda a, b: silu_mul(a, b) + 1)(x, gate)
    np.testing.assert_allclose(found, expected(x, gate) + 1, rtol=1e-5)
    plain = lambda a, b: (a * b * jax.nn.sigmoid(b)).sum()  # noqa: E731
    got = jax.grad(lambda a, b: silu_mul(a, b).sum(), (0, 1))(x, gate)
    for one, want in zip(got, jax.grad(plain, (0, 1))(x, gate), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-5)


@pytest.mark.jax
def test_jax_vmap(silu_mul: Any) -> None:
    jax = pytest.importorskip("jax")
    x, gate = (np.stack([a, a + 1, a - 1]) for a in inputs())
    np.testing.assert_allclose(jax.vmap(silu_mul)(x, gate), expected(x, gate), rtol=1e-5)
    one_gate = jax.vmap(silu_mul, in_axes=(0, None))(x, gate[0])
    np.testing.assert_allclose(one_gate, expected(x, gate[0]), rtol=1e-5)


@pytest.mark.jax
def test_triton_call_takes_cuda_kernels(kernels: Module) -> None:
    jax = pytest.importorskip("jax")
    from omnikernel.jax import triton_call

    x, gate = inputs()
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = jax.jit(lambda a, b: triton_call(a, b, kernel=kernels.forward_f32, out_shape=out, grid=((3,), (128,))))
    np.testing.assert_allclose(call(x, gate), expected(x, gate), rtol=1e-5)
    wide = np.random.default_rng(1).standard_normal((4, 50)).astype(np.float32)
    scaled = jax.jit(
        lambda a: triton_call(
            a,
            3.0,
            kernel=kernels.scale_rows,
            out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype),
            grid=((4,), (32,)),
            input_output_aliases={0: 0},
        )
    )
    np.testing.assert_allclose(scaled(wide), 3 * wide, rtol=1e-6)


@pytest.mark.jax
def test_an_error_inside_jit(compiler: object) -> None:
    jax = pytest.importorskip("jax")
    from omnikernel.jax import triton_call

    mod = omnikernel.load_inline(
        "fails", cuda_source="__global__ void k(const float *x, float *y) { assert(x[0] > 0); y[0] = 1; }"
    )
    out = jax.ShapeDtypeStruct((1,), np.float32)
    run = jax.jit(lambda a: triton_call(a, kernel=mod.k, out_shape=out, grid=(1, 1)))
    assert float(run(np.ones(1, np.float32))[0]) == 1
    with pytest.raises(Exception, match=r"kernel 'k', program \(0, 0, 0\).*a failed assert"):
        jax.block_until_ready(run(-np.ones(1, np.float32)))


def test_mutation_is_declared(kernels: Module) -> None:
    @omnikernel.op("cpptests::undeclared")
    def undeclared(x: Array) -> Array:
        kernels.scale_rows[x.shape[0], 32](x, 2.0)
        return omnikernel.empty_like(x)

    with pytest.raises(MutationError, match=r"kernel 'scale_rows' stores through its parameter 'x'"):
        undeclared(np.ones((2, 3), np.float32))

    @omnikernel.op("cpptests::scaled_", mutates=("x",))
    def scaled_(x: Array, by: float) -> None:
        kernels.scale_rows[x.shape[0], 32](x, by)

    x = np.ones((2, 3), np.float32)
    scaled_(x, 2.5)
    assert (x == 2.5).all()


def test_cpp_functions(compiler: object) -> None:
    mod = omnikernel.load_inline("cppop", cpp_source=CPP)

    @omnikernel.op("cpptests::twice")
    def twice(x: Array) -> Array:
        out = omnikernel.empty_like(x)
        mod.twice(x, out)
        return out

    @omnikernel.op("cpptests::count")
    def count(x: Array) -> Array:
        mod.count(x)
        return omnikernel.empty_like(x)

    x = np.arange(10000, dtype=np.float32)
    np.testing.assert_array_equal(twice(x), 2 * x)
    with pytest.raises(
        ArgumentTypeError, match=r"function 'count' returns int; inside an operator write results through"
    ):
        count(x)


@pytest.mark.jax
def test_cpp_functions_in_jax(compiler: object) -> None:
    jax = pytest.importorskip("jax")
    mod = omnikernel.load_inline("cppop", cpp_source=CPP)

    @omnikernel.op("cpptests::twice_jax")
    def twice(x: Array) -> Array:
        out = omnikernel.empty_like(x)
        mod.twice(x, out)
        return out

    x = np.arange(10000, dtype=np.float32)
    np.testing.assert_array_equal(jax.jit(twice)(jax.numpy.asarray(x)), 2 * x)


BY_DEVICE = """
#include <omnikernel.h>
__global__ void negate(ok::View<const float, 1> x, ok::View<float, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) out[i] = -x[i];
}
"""


@pytest.mark.torch
@pytest.mark.jax
@pytest.mark.parametrize("cuda_for", ["cuda", "cpu"])
def test_a_triton_body_for_one_device_and_cuda_for_another(compiler: object, cuda_for: str) -> None:
    """Every device there is takes its own kernel; a GPU is a fake one here."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    from torch._subclasses import FakeTensorMode
    from two_bodies import negate_kernel

    mod = omnikernel.load_inline("by_device", cuda_source=BY_DEVICE)
    taken: list[str] = []

    @omnikernel.op(f"cpptests::negate_{cuda_for}")
    def negate(x: Array) -> Array:
        out = omnikernel.empty_like(x)
        taken.append(f"{x.device} {'cuda' if x.device == cuda_for else 'triton'}")
        if x.device == cuda_for:
            mod.negate[omnikernel.cdiv(x.size, 128), 128](x, out)
        else:
            negate_kernel[(omnikernel.cdiv(x.size, 128),)](x, out, x.size, BLOCK=128)
        return out

    x = np.arange(300, dtype=np.float32)
    here = "cpu cuda" if cuda_for == "cpu" else "cpu triton"
    np.testing.assert_array_equal(negate(x), -x)
    np.testing.assert_array_equal(negate(torch.from_numpy(x)), -x)
    np.testing.assert_array_equal(torch.compile(lambda t: negate(t) + 1, fullgraph=True)(torch.from_numpy(x)), 1 - x)
    np.testing.assert_array_equal(jax.jit(negate)(jax.numpy.asarray(x)), -x)
    assert set(taken) == {here}
    taken.clear()
    with FakeTensorMode():
        found = negate(torch.empty(300, device="cuda"))
        assert found.device.type == "cuda" and found.shape == (300,)
    assert taken == ["cuda cuda" if cuda_for == "cuda" else "cuda triton"]
