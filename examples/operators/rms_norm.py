"""RMS norm over the last axis: x / sqrt(mean(x^2) + eps) * weight."""

import triton
import triton.language as tl

import omnikernel
from omnikernel import Array

from .softmax import rows, whole_row


@whole_row
@triton.jit
def rms_norm_kernel(x, weight, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row + i, i < n, other=0.0)
    wide = v if v.dtype == tl.float64 else v.to(tl.float32)
    r = 1 / tl.sqrt(tl.sum(wide * wide, 0) / n + eps)
    tl.store(out + row + i, (wide * r * tl.load(weight + i, i < n)).to(v.dtype), i < n)


@whole_row
@triton.jit
def rms_norm_grad_kernel(x, weight, grad, dx, scale, n, eps, BLOCK: tl.constexpr):
    """The gradient of x, and 1 / rms of every row."""
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row + i, i < n, other=0.0)
    wide = v if v.dtype == tl.float64 else v.to(tl.float32)
    r = 1 / tl.sqrt(tl.sum(wide * wide, 0) / n + eps)
    wg = tl.load(weight + i, i < n, other=0.0) * tl.load(grad + row + i, i < n, other=0.0)
    inner = tl.sum(wg * wide, 0) / n
    tl.store(dx + row + i, (r * (wg - wide * r * r * inner)).to(v.dtype), i < n)
    tl.store(scale + tl.program_id(0), r)


@triton.jit
def rms_norm_weight_kernel(x, grad, scale, dw, rows, n, BLOCK: tl.constexpr):
    """Column sums of x / rms * grad, in the order of the rows."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), scale.dtype.element_ty)
    for r in range(rows):
        at = r.to(tl.int64) * n + i
        v = tl.load(x + at, i < n, other=0.0).to(total.dtype)
        total += v * tl.load(scale + r) * tl.load(grad + at, i < n, other=0.0)
    tl.store(dw + i, total.to(dw.dtype.element_ty), i < n)


def wide(x):
    """The dtype that sums are kept in."""
    return "float64" if x.dtype == "float64" else "float32"


@omnikernel.op("operators::rms_norm")
def rms_norm(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    out = omnikernel.empty_like(x)
    rms_norm_kernel[lambda meta: rows(x)](x, weight, out, x.shape[-1], eps)
    return out


@omnikernel.op("operators::rms_norm_grad")
def rms_norm_grad(x: Array, weight: Array, grad: Array, eps: float) -> tuple[Array, Array]:
    n = x.shape[-1]
    dx, dw = omnikernel.empty_like(x), omnikernel.empty_like(weight)
    scale = omnikernel.empty(x.shape[:-1], wide(x))
    rms_norm_grad_kernel[lambda meta: rows(x)](x, weight, grad, dx, scale, n, eps)
    rms_norm_weight_kernel[lambda meta: (omnikernel.cdiv(n, meta["BLOCK"]),)](
        x, grad, scale, dw, scale.size, n, BLOCK=128
    )
    return dx, dw


def formula(x, weight, grad, eps):
    xp, n = omnikernel.namespace(x), x.shape[-1]
    r = 1 / xp.sqrt((x * x).sum(-1)[..., None] / n + eps)
    wg = weight * grad
    dx = r * (wg - x * r * r * ((wg * x).sum(-1)[..., None] / n))
    return dx, (x * r * grad).reshape(-1, n).sum(0)


rms_norm.def_vjp(
    lambda saved, grad: rms_norm_grad(*saved[:2], grad, saved[2]), save=lambda x, weight, eps, out: (x, weight, eps)
)
rms_norm_grad.def_vjp(omnikernel.vjp_of(formula), save=lambda x, weight, grad, eps, dx, dw: (x, weight, grad, eps))
