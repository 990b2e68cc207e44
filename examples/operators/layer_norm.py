"""Layer norm over the last axis: (x - mean) / sqrt(var + eps) * weight + bias."""

import triton
import triton.language as tl

import omnikernel
from omnikernel import Array

from .rms_norm import wide
from .softmax import rows, whole_row


@triton.jit
def statistics(v, i, n, eps):
    """The centred row and 1 / its standard deviation."""
    wide = v if v.dtype == tl.float64 else v.to(tl.float32)
    mean = tl.sum(wide, 0) / n
    centred = tl.where(i < n, wide - mean, 0.0)
    return centred, mean, 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)


@whole_row
@triton.jit
def layer_norm_kernel(x, weight, bias, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row + i, i < n, other=0.0)
    centred, _, r = statistics(v, i, n, eps)
    y = centred * r * tl.load(weight + i, i < n) + tl.load(bias + i, i < n)
    tl.store(out + row + i, y.to(v.dtype), i < n)


@whole_row
@triton.jit
def layer_norm_grad_kernel(x, weight, grad, dx, means, scales, n, eps, BLOCK: tl.constexpr):
    """The gradient of x, and mean and 1 / standard deviation of every row."""
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row + i, i < n, other=0.0)
    centred, mean, r = statistics(v, i, n, eps)
    wg = tl.load(weight + i, i < n, other=0.0) * tl.load(grad + row + i, i < n, other=0.0)
    along = tl.sum(wg * centred, 0) * r * r / n
    tl.store(dx + row + i, (r * (wg - tl.sum(wg, 0) / n - centred * along)).to(v.dtype), i < n)
    tl.store(means + tl.program_id(0), mean)
    tl.store(scales + tl.program_id(0), r)


@triton.jit
def layer_norm_weight_kernel(x, grad, means, scales, dw, db, rows, n, BLOCK: tl.constexpr):
    """Column sums of normalised x times grad, and of grad, in the order of the rows."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sum_w = tl.zeros((BLOCK,), scales.dtype.element_ty)
    sum_b = tl.zeros((BLOCK,), scales.dtype.element_ty)
    for r in range(rows):
        at = r.to(tl.int64) * n + i
        v = tl.load(x + at, i < n, other=0.0).to(sum_w.dtype)
        g = tl.load(grad + at, i < n, other=0.0).to(sum_w.dtype)
        sum_w += (v - tl.load(means + r)) * tl.load(scales + r) * g
        sum_b += g
    tl.store(dw + i, sum_w.to(dw.dtype.element_ty), i < n)
    tl.store(db + i, sum_b.to(db.dtype.element_ty), i < n)


@omnikernel.op("operators::layer_norm")
def layer_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    out = omnikernel.empty_like(x)
    layer_norm_kernel[lambda meta: rows(x)](x, weight, bias, out, x.shape[-1], eps)
    return out


@omnikernel.op("operators::layer_norm_grad")
def layer_norm_grad(x: Array, weight: Array, grad: Array, eps: float) -> tuple[Array, Array, Array]:
    n = x.shape[-1]
    dx, dw, db = omnikernel.empty_like(x), omnikernel.empty_like(weight), omnikernel.empty_like(weight)
    means, scales = omnikernel.empty(x.shape[:-1], wide(x)), omnikernel.empty(x.shape[:-1], wide(x))
    layer_norm_grad_kernel[lambda meta: rows(x)](x, weight, grad, dx, means, scales, n, eps)
    layer_norm_weight_kernel[lambda meta: (omnikernel.cdiv(n, meta["BLOCK"]),)](
        x, grad, means, scales, dw, db, means.size, n, BLOCK=128
    )
    return dx, dw, db


def formula(x, weight, grad, eps):
    xp, n = omnikernel.namespace(x), x.shape[-1]
    centred = x - x.sum(-1)[..., None] / n
    r = 1 / xp.sqrt((centred * centred).sum(-1)[..., None] / n + eps)
    wg = weight * grad
    dx = r * (wg - wg.sum(-1)[..., None] / n - centred * r * r * ((wg * centred).sum(-1)[..., None] / n))
    return dx, (centred * r * grad).reshape(-1, n).sum(0), grad.reshape(-1, n).sum(0)


def backward(saved, grad):
    x, weight, eps = saved
    return layer_norm_grad(x, weight, grad, eps)


layer_norm.def_vjp(backward, save=lambda x, weight, bias, eps, out: (x, weight, eps))
layer_norm_grad.def_vjp(omnikernel.vjp_of(formula), save=lambda x, weight, grad, eps, *results: (x, weight, grad, eps))
