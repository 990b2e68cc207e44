"""GELU by the error function: x * Phi(x), elementwise."""

import triton
import triton.language as tl

import omnikernel
from omnikernel import Array

INV_SQRT2 = tl.constexpr(0.7071067811865476)
INV_SQRT_2PI = tl.constexpr(0.3989422804014327)


@triton.jit
def gelu_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    wide = v if v.dtype == tl.float64 else v.to(tl.float32)
    tl.store(out + i, (0.5 * wide * (1 + tl.erf(wide * INV_SQRT2))).to(v.dtype), i < n)


@triton.jit
def gelu_grad_kernel(x, grad, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    g = tl.load(grad + i, i < n)
    wide = v if v.dtype == tl.float64 else v.to(tl.float32)
    slope = 0.5 * (1 + tl.erf(wide * INV_SQRT2)) + wide * tl.exp(-0.5 * wide * wide) * INV_SQRT_2PI
    tl.store(out + i, (slope * g).to(v.dtype), i < n)


def blocks(n):
    return lambda meta: (omnikernel.cdiv(n, meta["BLOCK"]),)


@omnikernel.op("operators::gelu")
def gelu(x: Array) -> Array:
    out = omnikernel.empty_like(x)
    gelu_kernel[blocks(x.size)](x, out, x.size, BLOCK=1024)
    return out


@omnikernel.op("operators::gelu_grad")
def gelu_grad(x: Array, grad: Array) -> Array:
    out = omnikernel.empty_like(x)
    gelu_grad_kernel[blocks(x.size)](x, grad, out, x.size, BLOCK=1024)
    return out


def gelu_grad_backward(saved, h):
    x, grad = saved
    density = omnikernel.namespace(x).exp(-0.5 * x * x) * 0.3989422804014327
    return h * grad * density * (2 - x * x), gelu_grad(x, h)


gelu.def_vjp(lambda saved, grad: gelu_grad(saved[0], grad), save=lambda x, out: (x,))
gelu_grad.def_vjp(gelu_grad_backward, save=lambda x, grad, out: (x, grad))
