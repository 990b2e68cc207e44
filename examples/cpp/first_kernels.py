"""Three programs of a first CUDA extension, from a string: on NumPy arrays on the CPU, on torch tensors wherever they are.

Run it with no GPU and no CUDA: python examples/cpp/first_kernels.py
"""

import numpy as np

import omnikernel
from omnikernel import Array

SOURCE = r"""
#include <omnikernel.h>

__global__ void add_relu(ok::View<const float, 1> a, ok::View<const float, 1> b, ok::View<float, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) { float v = a[i] + b[i]; out[i] = v > 0.f ? v : 0.f; }
}

__global__ void row_scale(ok::View<float, 2> x, ok::View<const float, 1> scale) {
  int row = blockIdx.x;
  for (int column = threadIdx.x; column < x.size(1); column += blockDim.x) x[row][column] *= scale[row];
}

__global__ void softplus(ok::View<const double, 1> x, ok::View<double, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) out[i] = log1p(exp(-fabs(x[i]))) + fmax(x[i], 0.0);
}

__global__ void softplus_backward(ok::View<const double, 1> x, ok::View<const double, 1> grad, ok::View<double, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) out[i] = grad[i] / (1.0 + exp(-x[i]));
}
"""
mod = omnikernel.load_inline(
    "first",
    cuda_source=SOURCE,
    shapes={"add_relu": {"a": "n", "b": "n", "out": "n"}, "row_scale": {"scale": "rows", "x": "rows, m"}},
)


def blocks(n: int, threads: int = 256) -> int:
    return omnikernel.cdiv(n, threads)


@omnikernel.op("first::softplus_backward")
def softplus_backward(x: Array, grad: Array) -> Array:
    out = omnikernel.empty_like(x)
    mod.softplus_backward[blocks(x.size), 256](x, grad, out)
    return out


@omnikernel.op("first::softplus")
def softplus(x: Array) -> Array:
    out = omnikernel.empty_like(x)
    mod.softplus[blocks(x.size), 256](x, out)
    return out


softplus.def_vjp(lambda saved, grad: softplus_backward(saved[0], grad), save=lambda x, out: (x,))


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 1000), dtype=np.float32)
    out = np.empty_like(a)
    mod.add_relu[blocks(1000), 256](a, b[::-1], out)  # a view with a negative stride is right as it is
    np.testing.assert_array_equal(out, np.maximum(a + b[::-1], 0))
    print("add_relu   ", out[:4])

    x = rng.standard_normal((6, 50), dtype=np.float32)
    expected = x[::2, 5:45] * np.arange(3, dtype=np.float32)[:, None]
    mod.row_scale[3, 64](x[::2, 5:45], np.arange(3, dtype=np.float32))  # in place, on a slice
    np.testing.assert_array_equal(x[::2, 5:45], expected)
    print("row_scale  ", x[2, 5:9])

    y = rng.standard_normal(20)
    np.testing.assert_allclose(softplus(y), np.logaddexp(0, y))
    print("softplus   ", softplus(y)[:4])
    try:
        import torch
    except ImportError:
        print("torch is not installed: no gradcheck")
        return
    assert torch.autograd.gradcheck(softplus, (torch.tensor(y, requires_grad=True),))
    print("gradcheck   passed")


if __name__ == "__main__":
    main()
