"""Flash attention's backward pass in two kernels: dk and dv by blocks of keys, dq by blocks of queries.

With p = exp(s - lse): dv = p^T do, ds = p * (do v^T - delta), dk = ds^T q, dq = ds k, where delta = sum(do * o) a row.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def delta_kernel(out_ptr, dout_ptr, delta_ptr, ROWS: tl.constexpr, D: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = r[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(delta_ptr + r, tl.sum(tl.load(out_ptr + at) * tl.load(dout_ptr + at), 1))


@triton.jit
def key_value_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, length, scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    base = head * length * D
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    d = tl.arange(0, D)
    k = tl.load(k_ptr + base + n[:, None] * D + d[None, :])
    v = tl.load(v_ptr + base + n[:, None] * D + d[None, :])
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    for start in range(tl.program_id(0) * BN // BM * BM, length, BM):
        m = start + tl.arange(0, BM)
        q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
        dout = tl.load(dout_ptr + base + m[:, None] * D + d[None, :])
        s = tl.dot(k, tl.trans(q), input_precision="ieee") * scale
        p = tl.exp(s - tl.load(lse_ptr + head * length + m)[None, :])
        p = tl.where(m[None, :] >= n[:, None], p, 0.0)
        dv = tl.dot(p, dout, dv, input_precision="ieee")
        dp = tl.dot(v, tl.trans(dout), input_precision="ieee")
        ds = p * (dp - tl.load(delta_ptr + head * length + m)[None, :])
        dk = tl.dot(ds, q, dk, input_precision="ieee")
    tl.store(dk_ptr + base + n[:, None] * D + d[None, :], dk * scale)
    tl.store(dv_ptr + base + n[:, None] * D + d[None, :], dv)


@triton.jit
def query_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr, length, scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    base = head * length * D
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
    dout = tl.load(dout_ptr + base + m[:, None] * D + d[None, :])
    lse = tl.load(lse_ptr + head * length + m)
    delta = tl.load(delta_ptr + head * length + m)
    dq = tl.zeros((BM, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + base + n[:, None] * D + d[None, :])
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :])
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        p = tl.where(m[:, None] >= n[None, :], tl.exp(s - lse[:, None]), 0.0)
        dp = tl.dot(dout, tl.trans(v), input_precision="ieee")
        dq = tl.dot(p * (dp - delta[:, None]), k, dq, input_precision="ieee")
    tl.store(dq_ptr + base + m[:, None] * D + d[None, :], dq * scale)
