"""Kernels that take a row a program: norms, losses, and what else reduces along it."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rms_norm(x_ptr, w_ptr, out_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + row * stride + i, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(x * x, 0) / n + eps)
    tl.store(out_ptr + row * stride + i, x * scale * tl.load(w_ptr + i, mask=inside), mask=inside)


@triton.jit
def cross_entropy(logits_ptr, labels_ptr, loss_ptr, stride, n, scale, BLOCK: tl.constexpr):
    """The loss of a row, and its gradient in place of the logits, in two passes over blocks of the vocabulary."""
    row = tl.program_id(0)
    logits_ptr += row.to(tl.int64) * stride
    label = tl.load(labels_ptr + row)
    target = tl.load(logits_ptr + label)
    top = float("-inf")
    norm = 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + i, mask=i < n, other=float("-inf"))
        block_top = tl.max(x, 0)
        new_top = tl.maximum(top, block_top)
        norm = norm * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), 0)
        top = new_top
    tl.store(loss_ptr + row, top + tl.log(norm) - target)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + i, mask=i < n, other=float("-inf"))
        grad = tl.exp(x - top) / norm
        grad = tl.where(i == label, grad - 1.0, grad) * scale
        tl.store(logits_ptr + i, grad, mask=i < n)


@triton.jit
def argmax(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + i, mask=i < n, other=float("-inf"))
    tl.store(out_ptr + row, tl.argmax(x, 0))


@triton.jit
def column_norms(x_ptr, out_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    total = tl.zeros((BLOCK_C,), tl.float32)
    for start in range(0, rows, BLOCK_R):
        r = start + tl.arange(0, BLOCK_R)
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=(r < rows)[:, None] & (c < cols)[None, :], other=0.0)
        total += tl.sum(x * x, 0)
    tl.store(out_ptr + c, tl.sqrt(total), mask=c < cols)


@triton.jit
def row_sort(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at)))


@triton.jit
def top_k(x_ptr, out_ptr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row * K + tl.arange(0, K), tl.topk(tl.load(x_ptr + row * N + tl.arange(0, N)), K))


@triton.jit
def cumsum(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + i, mask=i < n, other=0.0)
    tl.store(out_ptr + row * stride + i, tl.cumsum(x, 0), mask=i < n)


@triton.jit
def linear_recurrence(a_ptr, b_ptr, out_ptr, steps, channels, BLOCK: tl.constexpr):
    """h[t] = a[t] * h[t - 1] + b[t], a block of channels a program."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = c < channels
    h = tl.zeros((BLOCK,), tl.float32)
    for t in range(steps):
        a = tl.load(a_ptr + t * channels + c, mask=inside)
        b = tl.load(b_ptr + t * channels + c, mask=inside)
        h = a * h + b
        tl.store(out_ptr + t * channels + c, h, mask=inside)
