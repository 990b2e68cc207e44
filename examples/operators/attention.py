"""Flash attention: softmax(q k^T * scale) v, without the matrix of scores. Arrays are (..., length, width)."""

import triton
import triton.language as tl

import omnikernel
from omnikernel import Array

from .rms_norm import wide

blocks = triton.heuristics({"WIDTH": lambda args: max(16, omnikernel.next_power_of_2(args["width"]))})


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
    q,
    k,
    v,
    out,
    lse,
    m,
    n,
    width,
    scale,
    CAUSAL: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    rows, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    here = (rows[:, None] < m) & (d[None, :] < width)
    tile_q = tl.load(q + head * m * width + rows[:, None] * width + d[None, :], here, other=0.0)
    kind = lse.dtype.element_ty
    top = tl.full((ROWS,), float("-inf"), kind)
    total = tl.zeros((ROWS,), kind)
    acc = tl.zeros((ROWS, WIDTH), kind)
    for start in range(0, n, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        there = (columns[:, None] < n) & (d[None, :] < width)
        at = head * n * width + columns[:, None] * width + d[None, :]
        tile_k, tile_v = tl.load(k + at, there, other=0.0), tl.load(v + at, there, other=0.0)
        s = scores(tile_q, tile_k, rows, columns, m, n, scale, CAUSAL)
        new = tl.maximum(top, tl.max(s, 1))
        safe = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp(s - safe[:, None])
        shrink = tl.exp(top - safe)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None] + tl.dot(p.to(tile_v.dtype), tile_v, input_precision="ieee")
        top = new
    whole = tl.where(total == 0.0, 1.0, total)
    tile = (acc / whole[:, None]).to(tile_q.dtype)
    tl.store(out + head * m * width + rows[:, None] * width + d[None, :], tile, here)
    tl.store(lse + head * m + rows, tl.where(total == 0.0, 0.0, top + tl.log(whole)), rows < m)


@blocks
@triton.jit
def delta_kernel(out, grad, grad_lse, delta, m, width, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """What every row's scores have in common in the gradient: sum(out * grad) - grad_lse."""
    head = tl.program_id(1).to(tl.int64)
    rows, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    here = (rows[:, None] < m) & (d[None, :] < width)
    at = head * m * width + rows[:, None] * width + d[None, :]
    kind = delta.dtype.element_ty
    both = tl.load(out + at, here, other=0.0).to(kind) * tl.load(grad + at, here, other=0.0).to(kind)
    common = tl.sum(both, 1) - tl.load(grad_lse + head * m + rows, rows < m, other=0.0)
    tl.store(delta + head * m + rows, common, rows < m)


@triton.jit
def tile_gradient(q, k, v, grad, lse, delta, rows, columns, m, n, scale, CAUSAL: tl.constexpr):
    """Probabilities of a tile, and the gradient of its scores."""
    s = scores(q, k, rows, columns, m, n, scale, CAUSAL)
    p = tl.exp(s - lse[:, None])
    dp = tl.dot(grad, tl.trans(v), input_precision="ieee")
    return p, p * (dp - delta[:, None]) * scale


@blocks
@triton.jit
def query_grad_kernel(
    q, k, v, grad, lse, delta, dq, m, n, width, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    rows, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    here = (rows[:, None] < m) & (d[None, :] < width)
    at = head * m * width + rows[:, None] * width + d[None, :]
    tile_q, tile_g = tl.load(q + at, here, other=0.0), tl.load(grad + at, here, other=0.0)
    row_lse = tl.load(lse + head * m + rows, rows < m, other=0.0)
    row_delta = tl.load(delta + head * m + rows, rows < m, other=0.0)
    acc = tl.zeros((ROWS, WIDTH), delta.dtype.element_ty)
    for start in range(0, n, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        there = (columns[:, None] < n) & (d[None, :] < width)
        key = head * n * width + columns[:, None] * width + d[None, :]
        tile_k, tile_v = tl.load(k + key, there, other=0.0), tl.load(v + key, there, other=0.0)
        _, ds = tile_gradient(tile_q, tile_k, tile_v, tile_g, row_lse, row_delta, rows, columns, m, n, scale, CAUSAL)
        acc += tl.dot(ds.to(tile_k.dtype), tile_k, input_precision="ieee")
    tl.store(dq + at, acc.to(tile_q.dtype), here)


@blocks
@triton.jit
def key_grad_kernel(
    q, k, v, grad, lse, delta, dk, dv, m, n, width, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    columns, d = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, WIDTH)
    there = (columns[:, None] < n) & (d[None, :] < width)
    key = head * n * width + columns[:, None] * width + d[None, :]
    tile_k, tile_v = tl.load(k + key, there, other=0.0), tl.load(v + key, there, other=0.0)
    acc_k = tl.zeros((COLUMNS, WIDTH), delta.dtype.element_ty)
    acc_v = tl.zeros((COLUMNS, WIDTH), delta.dtype.element_ty)
    for start in range(0, m, ROWS):
        rows = start + tl.arange(0, ROWS)
        here = (rows[:, None] < m) & (d[None, :] < width)
        at = head * m * width + rows[:, None] * width + d[None, :]
        tile_q, tile_g = tl.load(q + at, here, other=0.0), tl.load(grad + at, here, other=0.0)
        row_lse = tl.load(lse + head * m + rows, rows < m, other=0.0)
        row_delta = tl.load(delta + head * m + rows, rows < m, other=0.0)
        p, ds = tile_gradient(tile_q, tile_k, tile_v, tile_g, row_lse, row_delta, rows, columns, m, n, scale, CAUSAL)
        acc_v += tl.dot(tl.trans(p).to(tile_g.dtype), tile_g, input_precision="ieee")
        acc_k += tl.dot(tl.trans(ds).to(tile_q.dtype), tile_q, input_precision="ieee")
    tl.store(dk + key, acc_k.to(tile_k.dtype), there)
    tl.store(dv + key, acc_v.to(tile_v.dtype), there)


def heads(x):
    count = 1
    for extent in x.shape[:-2]:
        count = count * extent
    return count


TILE = {"ROWS": 64, "COLUMNS": 64}


@omnikernel.op("operators::attention")
def attention_and_lse(q: Array, k: Array, v: Array, causal: bool, scale: float) -> tuple[Array, Array]:
    (m, width), n = q.shape[-2:], k.shape[-2]
    out, lse = omnikernel.empty_like(q), omnikernel.empty(q.shape[:-1], wide(q))
    attention_kernel[lambda meta: (omnikernel.cdiv(m, meta["ROWS"]), heads(q))](
        q, k, v, out, lse, m, n, width, scale, CAUSAL=causal, **TILE
    )
    return out, lse


@omnikernel.op("operators::attention_grad")
def attention_grad(
    q: Array, k: Array, v: Array, out: Array, lse: Array, grad: Array, grad_lse: Array, causal: bool, scale: float
) -> tuple[Array, Array, Array]:
    (m, width), n = q.shape[-2:], k.shape[-2]
    dq, dk, dv = omnikernel.empty_like(q), omnikernel.empty_like(k), omnikernel.empty_like(v)
    delta = omnikernel.empty_like(lse)
    by_rows = lambda meta: (omnikernel.cdiv(m, meta["ROWS"]), heads(q))  # noqa: E731
    by_columns = lambda meta: (omnikernel.cdiv(n, meta["COLUMNS"]), heads(q))  # noqa: E731
    delta_kernel[by_rows](out, grad, grad_lse, delta, m, width, ROWS=TILE["ROWS"])
    query_grad_kernel[by_rows](q, k, v, grad, lse, delta, dq, m, n, width, scale, CAUSAL=causal, **TILE)
    key_grad_kernel[by_columns](q, k, v, grad, lse, delta, dk, dv, m, n, width, scale, CAUSAL=causal, **TILE)
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


def attention(q, k, v, causal=False, scale=None):
    """Attention of queries (..., m, width) to keys and values (..., n, width)."""
    return attention_and_lse(q, k, v, causal, float(q.shape[-1]) ** -0.5 if scale is None else scale)[0]
