"""Causal flash attention, forward: softmax(q k' / sqrt(D)) v, without ever storing the (S, S) scores."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl
from anyarray import empty, float64, max_error, strides


@triton.jit
def attend(
    acc, total, top, q, k_ptr, v_ptr, k_ss, v_ss, queries, first, last, S, scale,
    D: tl.constexpr, BLOCK_N: tl.constexpr, DIAGONAL: tl.constexpr,
):  # fmt: skip
    """Folds the keys first <= j < last into the running sums. DIAGONAL: some of them may come after the query."""
    dims = tl.arange(0, D)
    for start in range(first, last, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = (keys < S)[:, None]
        k = tl.load(k_ptr + keys[:, None] * k_ss + dims[None, :], mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if DIAGONAL:
            scores = tl.where(queries[:, None] >= keys[None, :], scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        p = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(top - higher)
        v = tl.load(v_ptr + keys[:, None] * v_ss + dims[None, :], mask=inside, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        total = total * shrink + tl.sum(p, axis=1)
        top = higher
    return acc, total, top


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, q_sb, q_sh, q_ss, k_sb, k_sh, k_ss, v_sb, v_sh, v_ss, o_sb, o_sh, o_ss,
    H, S, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tl.static_assert(BLOCK_M % BLOCK_N == 0)  # so that the blocks before the diagonal hold no later key
    batch, head = tl.program_id(1) // H, tl.program_id(1) % H
    start = tl.program_id(0) * BLOCK_M
    queries = start + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    inside = (queries < S)[:, None]
    q = tl.load(q_ptr + batch * q_sb + head * q_sh + queries[:, None] * q_ss + dims[None, :], mask=inside, other=0.0)
    k_ptr += batch * k_sb + head * k_sh
    v_ptr += batch * v_sb + head * v_sh

    acc = tl.zeros((BLOCK_M, D), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    acc, total, top = attend(
        acc, total, top, q, k_ptr, v_ptr, k_ss, v_ss, queries, 0, start, S, scale, D, BLOCK_N, False
    )  # fmt: skip
    acc, total, top = attend(
        acc, total, top, q, k_ptr, v_ptr, k_ss, v_ss, queries, start, tl.minimum(start + BLOCK_M, S), S, scale,
        D, BLOCK_N, True,
    )  # fmt: skip
    out = acc / total[:, None]
    out_ptrs = out_ptr + batch * o_sb + head * o_sh + queries[:, None] * o_ss + dims[None, :]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=inside)


def attention(q, k, v, out=None, block_m: int = 64, block_n: int = 64):
    """Causal attention of q, k, v (batch, heads, S, D); D is a power of two, and its elements lie side by side."""
    B, H, S, D = q.shape
    out = empty(q) if out is None else out
    steps = (*strides(q)[:3], *strides(k)[:3], *strides(v)[:3], *strides(out)[:3])
    scale = D**-0.5 * 1.4426950408889634  # log2(e), since the kernel uses powers of two
    grid = (triton.cdiv(S, block_m), B * H)
    attention_kernel[grid](q, k, v, out, *steps, H, S, scale, D=D, BLOCK_M=block_m, BLOCK_N=block_n)
    return out


def reference(q, k, v) -> np.ndarray:
    q, k, v = float64(q), float64(k), float64(v)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


if __name__ == "__main__":
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 3, 200, 32), np.float32)
    print("causal attention, 2 x 3 x 200 x 32, max error", max_error(attention(q, k, v), reference(q, k, v)))
