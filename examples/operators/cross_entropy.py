"""Cross entropy of logits (rows, classes) and class numbers (rows): a loss a row, 0 where the class is `ignore`."""

import triton
import triton.language as tl

import omnikernel
from omnikernel import Array

from .softmax import rows, whole_row


@whole_row
@triton.jit
def cross_entropy_kernel(x, target, out, n, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row + i, i < n, other=float("-inf"))
    wide = v if v.dtype == tl.float64 else v.to(tl.float32)
    t = tl.load(target + tl.program_id(0))
    top = tl.max(wide, 0)
    chosen = tl.sum(tl.where(i == t, wide, 0.0), 0)
    loss = tl.log(tl.sum(tl.exp(wide - top), 0)) + top - chosen
    tl.store(out + tl.program_id(0), tl.where(t == ignore, 0.0, loss).to(v.dtype))


@whole_row
@triton.jit
def cross_entropy_grad_kernel(x, target, grad, out, n, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row + i, i < n, other=float("-inf"))
    wide = v if v.dtype == tl.float64 else v.to(tl.float32)
    t = tl.load(target + tl.program_id(0))
    e = tl.exp(wide - tl.max(wide, 0))
    g = tl.load(grad + tl.program_id(0))
    d = (e / tl.sum(e, 0) - tl.where(i == t, 1.0, 0.0)) * tl.where(t == ignore, 0.0, g)
    tl.store(out + row + i, d.to(v.dtype), i < n)


@omnikernel.op("operators::cross_entropy")
def cross_entropy(x: Array, target: Array, ignore: int = -100) -> Array:
    out = omnikernel.empty(x.shape[:-1], x.dtype)
    cross_entropy_kernel[lambda meta: rows(x)](x, target, out, x.shape[-1], ignore)
    return out


@omnikernel.op("operators::cross_entropy_grad")
def cross_entropy_grad(x: Array, target: Array, grad: Array, ignore: int) -> Array:
    out = omnikernel.empty_like(x)
    cross_entropy_grad_kernel[lambda meta: rows(x)](x, target, grad, out, x.shape[-1], ignore)
    return out


def formula(x, target, grad, ignore):
    xp = omnikernel.namespace(x)
    classes = xp.arange(x.shape[-1])
    e = xp.exp(x - x.max(-1)[0][..., None]) if xp.__name__ == "torch" else xp.exp(x - x.max(-1)[..., None])
    one = (classes == target[..., None]) * xp.ones_like(x)
    live = (target != ignore)[..., None] * xp.ones_like(x)
    return (e / e.sum(-1)[..., None] - one) * grad[..., None] * live


def backward(saved, grad):
    x, target, ignore = saved
    return cross_entropy_grad(x, target, grad, ignore), None


cross_entropy.def_vjp(backward, save=lambda x, target, ignore, out: (x, target, ignore))
cross_entropy_grad.def_vjp(
    omnikernel.vjp_of(formula), save=lambda x, target, grad, ignore, out: (x, target, grad, ignore)
)
