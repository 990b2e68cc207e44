"""Elementwise kernels as tutorials and kernel libraries write them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=inside) + tl.load(y_ptr + i, mask=inside), mask=inside)


@triton.jit
def relu_mul(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(a_ptr + i, mask=inside)
    b = tl.load(b_ptr + i, mask=inside)
    tl.store(out_ptr + i, tl.maximum(a + b, 0.0) * b, mask=inside)


@triton.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside)
    tl.store(out_ptr + i, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)), mask=inside)


@triton.jit
def swiglu(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    gate = tl.load(gate_ptr + i, mask=inside)
    up = tl.load(up_ptr + i, mask=inside)
    tl.store(out_ptr + i, gate * tl.sigmoid(gate) * up, mask=inside)


@triton.jit
def rotary(x_ptr, cos_ptr, sin_ptr, out_ptr, seq_len, heads, HALF: tl.constexpr):
    """Rotates the halves of each head of (tokens, heads, 2 * HALF) by the angles of its position; a token a program."""
    token = tl.program_id(0)
    i = tl.arange(0, HALF)
    position = token % seq_len
    cos = tl.load(cos_ptr + position * HALF + i)
    sin = tl.load(sin_ptr + position * HALF + i)
    for head in range(heads):
        base = (token * heads + head) * 2 * HALF
        left = tl.load(x_ptr + base + i)
        right = tl.load(x_ptr + base + HALF + i)
        tl.store(out_ptr + base + i, left * cos - right * sin)
        tl.store(out_ptr + base + HALF + i, right * cos + left * sin)


@triton.jit
def adamw(p_ptr, g_ptr, m_ptr, v_ptr, n, lr, beta1, beta2, eps, decay, correction1, correction2, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    p = tl.load(p_ptr + i, mask=inside)
    g = tl.load(g_ptr + i, mask=inside)
    m = tl.load(m_ptr + i, mask=inside)
    v = tl.load(v_ptr + i, mask=inside)
    p = p * (1 - lr * decay)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    p = p - lr * (m / correction1) / (tl.sqrt(v / correction2) + eps)
    tl.store(p_ptr + i, p, mask=inside)
    tl.store(m_ptr + i, m, mask=inside)
    tl.store(v_ptr + i, v, mask=inside)
