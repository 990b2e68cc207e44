"""Flash attention: softmax(q k^T * scale) v, without the matrix of scores. Arrays are (..., length, width).

Queries, keys, values and gradients are taken as the views that they are: heads usually come from one matrix by a
transposition, and copies of them would cost as much as a product.
"""

import math

import triton
import triton.language as tl

import omnikernel
from omnikernel import Array

from .rms_norm import wide

blocks = triton.heuristics({"WIDTH": lambda args: max(16, omnikernel.next_power_of_2(args["width"]))})


@triton.jit
def at(x, strides, head, heads):
    """The matrix of a head, of an array (batch, heads, length, width) with these strides."""
    return x + (head // heads) * strides[0] + (head % heads) * strides[1]


@triton.jit
def tile(strides, rows, d):
    """Offsets of some rows of a matrix."""
    return rows[:, None] * strides[2] + d[None, :] * strides[3]


@triton.jit
def scores(q, k, rows, columns, m, n, scale, CAUSAL: tl.constexpr):
    """Scaled scores of a tile; -inf where a key is beyond the end, or, if causal, after the query."""
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    keep = (rows[:, None] < m) & (columns[None, :] < n)
    if CAUSAL:
        keep = keep & (columns[None, :] <= rows[:, None] + (n - m))
    return tl.where(keep, s, float("-inf"))


@blocks
@triton.jit
def attention_kernel(
    q, k, v, out, lse, qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, heads, m, n, width, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    by_q, by_k, by_v = (qb, qh, qm, qd), (kb, kh, kn, kd), (vb, vh, vn, vd)
    head = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * ROWS
    rows, d = first + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    here = (rows[:, None] < m) & (d[None, :] < width)
    tile_q = tl.load(at(q, by_q, head, heads) + tile(by_q, rows, d), here, other=0.0)
    keys, values = at(k, by_k, head, heads), at(v, by_v, head, heads)
    kind = lse.dtype.element_ty
    top = tl.full((ROWS,), float("-inf"), kind)
    total = tl.zeros((ROWS,), kind)
    acc = tl.zeros((ROWS, WIDTH), kind)
    end = n
    if CAUSAL:  # no row of this tile sees the columns beyond
        end = tl.minimum(n, first + ROWS + (n - m))
    for start in range(0, end, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        there = (columns[:, None] < n) & (d[None, :] < width)
        tile_k = tl.load(keys + tile(by_k, columns, d), there, other=0.0)
        tile_v = tl.load(values + tile(by_v, columns, d), there, other=0.0)
        s = scores(tile_q, tile_k, rows, columns, m, n, scale, CAUSAL)
        new = tl.maximum(top, tl.max(s, 1))
        safe = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp(s - safe[:, None])
        shrink = tl.exp(top - safe)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None] + tl.dot(p.to(tile_v.dtype), tile_v, input_precision="ieee")
        top = new
    whole = tl.where(total == 0.0, 1.0, total)
    result = (acc / whole[:, None]).to(tile_q.dtype)
    tl.store(out + head * m * width + rows[:, None] * width + d[None, :], result, here)
    tl.store(lse + head * m + rows, tl.where(total == 0.0, 0.0, top + tl.log(whole)), rows < m)


@blocks
@triton.jit
def delta_kernel(
    out, grad, grad_lse, delta, gb, gh, gm, gd, heads, m, width, ROWS: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """What every row's scores have in common in the gradient: sum(out * grad) - grad_lse."""
    head = tl.program_id(1).to(tl.int64)
    rows, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    here = (rows[:, None] < m) & (d[None, :] < width)
    kind = delta.dtype.element_ty
    by_g = (gb, gh, gm, gd)
    tile_g = tl.load(at(grad, by_g, head, heads) + tile(by_g, rows, d), here, other=0.0)
    tile_o = tl.load(out + head * m * width + rows[:, None] * width + d[None, :], here, other=0.0)
    common = tl.sum(tile_o.to(kind) * tile_g.to(kind), 1) - tl.load(grad_lse + head * m + rows, rows < m, other=0.0)
    tl.store(delta + head * m + rows, common, rows < m)


@blocks
@triton.jit
def attention_grad_kernel(
    q, k, v, grad, lse, delta, sums, dk, dv,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, gb, gh, gm, gd, heads, m, n, width, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """All gradients of a head: scores are computed once, and the gradient of q is summed in memory, in order."""
    by_q, by_k, by_v, by_g = (qb, qh, qm, qd), (kb, kh, kn, kd), (vb, vh, vn, vd), (gb, gh, gm, gd)
    head = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, WIDTH)
    queries, grads = at(q, by_q, head, heads), at(grad, by_g, head, heads)
    keys, values = at(k, by_k, head, heads), at(v, by_v, head, heads)
    kind = delta.dtype.element_ty
    for first in range(0, n, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        there = (columns[:, None] < n) & (d[None, :] < width)
        tile_k = tl.load(keys + tile(by_k, columns, d), there, other=0.0)
        tile_v = tl.load(values + tile(by_v, columns, d), there, other=0.0)
        acc_k = tl.zeros((COLUMNS, WIDTH), kind)
        acc_v = tl.zeros((COLUMNS, WIDTH), kind)
        begin = 0
        if CAUSAL:  # no row before sees these columns
            begin = tl.maximum(first - (n - m), 0) // ROWS * ROWS
        for start in range(begin, m, ROWS):
            rows = start + tl.arange(0, ROWS)
            here = (rows[:, None] < m) & (d[None, :] < width)
            tile_q = tl.load(queries + tile(by_q, rows, d), here, other=0.0)
            tile_g = tl.load(grads + tile(by_g, rows, d), here, other=0.0)
            s = scores(tile_q, tile_k, rows, columns, m, n, scale, CAUSAL)
            p = tl.exp(s - tl.load(lse + head * m + rows, rows < m, other=0.0)[:, None])
            dp = tl.dot(tile_g, tl.trans(tile_v), input_precision="ieee")
            ds = p * (dp - tl.load(delta + head * m + rows, rows < m, other=0.0)[:, None]) * scale
            acc_v += tl.dot(tl.trans(p).to(tile_g.dtype), tile_g, input_precision="ieee")
            acc_k += tl.dot(tl.trans(ds).to(tile_q.dtype), tile_q, input_precision="ieee")
            place = sums + head * m * width + rows[:, None] * width + d[None, :]
            more = tl.dot(ds.to(tile_k.dtype), tile_k, input_precision="ieee")
            tl.store(place, tl.load(place, here, other=0.0) + more, here)
        key = head * n * width + columns[:, None] * width + d[None, :]
        tl.store(dk + key, acc_k.to(tile_k.dtype), there)
        tl.store(dv + key, acc_v.to(tile_v.dtype), there)


@triton.jit
def narrow_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n).to(out.dtype.element_ty), i < n)


TILE = {"ROWS": 64, "COLUMNS": 64}


@omnikernel.op("operators::attention", strided=("q", "k", "v"))
def attention_and_lse(q: Array, k: Array, v: Array, causal: bool, scale: float) -> tuple[Array, Array]:
    batch, heads, m, width = q.shape
    n = k.shape[2]
    out, lse = omnikernel.empty_like(q), omnikernel.empty((batch, heads, m), wide(q))
    attention_kernel[lambda meta: (omnikernel.cdiv(m, meta["ROWS"]), batch * heads)](
        q, k, v, out, lse, *q.strides, *k.strides, *v.strides, heads, m, n, width, scale, CAUSAL=causal, **TILE
    )
    return out, lse


@omnikernel.op("operators::attention_grad", strided=("q", "k", "v", "grad"))
def attention_grad(
    q: Array, k: Array, v: Array, out: Array, lse: Array, grad: Array, grad_lse: Array, causal: bool, scale: float
) -> tuple[Array, Array, Array]:
    batch, heads, m, width = q.shape
    n = k.shape[2]
    dk, dv = omnikernel.empty_like(k), omnikernel.empty_like(v)
    sums, delta = omnikernel.zeros(q.shape, wide(q)), omnikernel.empty_like(lse)
    delta_kernel[lambda meta: (omnikernel.cdiv(m, meta["ROWS"]), batch * heads)](
        out, grad, grad_lse, delta, *grad.strides, heads, m, width, ROWS=TILE["ROWS"]
    )
    attention_grad_kernel[lambda meta: (batch * heads,)](
        q, k, v, grad, lse, delta, sums, dk, dv,
        *q.strides, *k.strides, *v.strides, *grad.strides, heads, m, n, width, scale, CAUSAL=causal, **TILE,
    )  # fmt: skip
    if q.dtype == sums.dtype:
        return sums, dk, dv
    dq = omnikernel.empty_like(q)
    narrow_kernel[lambda meta: (omnikernel.cdiv(q.size, meta["BLOCK"]),)](sums, dq, q.size, BLOCK=1024)
    return dq, dk, dv


def formula(q, k, v, out, lse, grad, grad_lse, causal, scale):
    """The same gradients with the whole matrix of scores, for the second derivative."""
    xp = omnikernel.namespace(q)
    s = q @ xp.swapaxes(k, -1, -2) * scale
    p = xp.exp(s - lse[..., None])
    if causal:
        m, n = q.shape[-2], k.shape[-2]
        keep = xp.arange(n)[None, :] <= xp.arange(m)[:, None] + (n - m)
        p = xp.where(keep, p, xp.zeros_like(p))
    delta = (grad * out).sum(-1) - grad_lse
    ds = p * (grad @ xp.swapaxes(v, -1, -2) - delta[..., None]) * scale
    return ds @ k, xp.swapaxes(ds, -1, -2) @ q, xp.swapaxes(p, -1, -2) @ grad


def backward(saved, grad, grad_lse):
    q, k, v, out, lse, causal, scale = saved
    return attention_grad(q, k, v, out, lse, grad, grad_lse, causal, scale)


attention_and_lse.def_vjp(backward, save=lambda q, k, v, causal, scale, out, lse: (q, k, v, out, lse, causal, scale))
attention_grad.def_vjp(
    omnikernel.vjp_of(formula),
    save=lambda q, k, v, out, lse, grad, grad_lse, causal, scale, *results: (
        q, k, v, out, lse, grad, grad_lse, causal, scale,
    ),
)  # fmt: skip


def four(x):
    """The same array as (batch, heads, length, width)."""
    lead = (1, 1, *x.shape[:-2])
    return x.reshape((math.prod(lead[:-1]), lead[-1], *x.shape[-2:]))


def attention(q, k, v, causal=False, scale=None):
    """Attention of queries (..., m, width) to keys and values (..., n, width)."""
    scale = float(q.shape[-1]) ** -0.5 if scale is None else scale
    out, _ = attention_and_lse(*(four(x) for x in (q, k, v)), causal, scale)
    return out.reshape(q.shape)
