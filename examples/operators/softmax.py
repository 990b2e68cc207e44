"""Softmax over the last axis: one program a row."""

import triton
import triton.language as tl

import omnikernel
from omnikernel import Array

whole_row = triton.heuristics({"BLOCK": lambda args: omnikernel.next_power_of_2(args["n"])})


@whole_row
@triton.jit
def softmax_kernel(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row + i, i < n, other=float("-inf"))
    wide = v if v.dtype == tl.float64 else v.to(tl.float32)
    e = tl.exp(wide - tl.max(wide, 0))
    tl.store(out + row + i, (e / tl.sum(e, 0)).to(v.dtype), i < n)


@whole_row
@triton.jit
def softmax_grad_kernel(y, grad, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    p = tl.load(y + row + i, i < n, other=0.0)
    g = tl.load(grad + row + i, i < n, other=0.0)
    wide = p if p.dtype == tl.float64 else p.to(tl.float32)
    tl.store(out + row + i, (wide * (g - tl.sum(wide * g, 0))).to(p.dtype), i < n)


def rows(x):
    n = x.shape[-1]
    return (x.size // n if n else 0,)


@omnikernel.op("operators::softmax")
def softmax(x: Array) -> Array:
    out = omnikernel.empty_like(x)
    softmax_kernel[lambda meta: rows(x)](x, out, x.shape[-1])
    return out


@omnikernel.op("operators::softmax_grad")
def softmax_grad(y: Array, grad: Array) -> Array:
    out = omnikernel.empty_like(y)
    softmax_grad_kernel[lambda meta: rows(y)](y, grad, out, y.shape[-1])
    return out


def softmax_grad_backward(saved, h):
    y, grad = saved
    weighted, projected = (grad * y).sum(-1)[..., None], (h * y).sum(-1)[..., None]
    return h * (grad - weighted) - grad * projected, softmax_grad(y, h)


softmax.def_vjp(lambda saved, grad: softmax_grad(saved[0], grad), save=lambda x, out: (out,))
softmax_grad.def_vjp(softmax_grad_backward, save=lambda y, grad, out: (y, grad))
