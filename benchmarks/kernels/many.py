"""The same blocks by many small programs, and by one program with a loop: what a program costs."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_wrapped(x_ptr, y_ptr, out_ptr, span, BLOCK: tl.constexpr):
    """Programs beyond `span` begin again at the first block, so that the data stays in the cache."""
    i = (tl.program_id(0) % span) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))


@triton.jit
def add_loop(x_ptr, y_ptr, out_ptr, span, count, BLOCK: tl.constexpr):
    for block in range(count):
        i = (block % span) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))


@triton.jit
def grouped_matmul(
    x_ptr, w_ptr, out_ptr, group_ptr, first_ptr, last_ptr, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Rows first <= r < last of x times the matrix of their group; a table of row tiles says which, as in MoE layers."""
    tile = tl.program_id(0)
    m = tl.load(first_ptr + tile) + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    in_m, in_n = (m < tl.load(last_ptr + tile))[:, None], (n < N)[None, :]
    w_ptr += tl.load(group_ptr + tile) * K * N
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=in_m & (k < K)[None, :], other=0.0)
        w = tl.load(w_ptr + k[:, None] * N + n[None, :], mask=in_n & (k < K)[:, None], other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=in_m & in_n)
