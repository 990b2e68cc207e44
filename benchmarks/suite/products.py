"""Rows of matrix products: alone, batched, grouped, and inside attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attention as attention_example
import matmul as matmul_example
import ml_dtypes
import numpy as np
from kernels import attention_backward as backward
from kernels import many, tiles
from triton import cdiv

from .row import Arrays, Constants, Goal, Launch, Row, normal, pick, tensor, tensors

# What the tutorials tune among, smaller ones too; of bytes they take more in a step.
TILES = ((32, 32, 32), (64, 64, 32), (128, 64, 32), (128, 128, 32), (128, 128, 64), (128, 256, 32), (128, 256, 64))
BYTE_TILES = ((32, 32, 32), (64, 64, 64), (128, 128, 64), (64, 256, 128), (128, 256, 128))
SMALL, WIDE = (32, 32, 32), (128, 128, 64)
BLOCKS = tuple({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k} for m, n, k in TILES)
SHORT = tuple({"BM": m, "BN": n, "BK": k} for m, n, k in BYTE_TILES)


def product_grid(m: int, n: int) -> Callable[[Constants], tuple[int, ...]]:
    return lambda c: (cdiv(m, c["BLOCK_M"]) * cdiv(n, c["BLOCK_N"]),)


def product_launch(a: np.ndarray, b: np.ndarray, out: np.ndarray, typical: Constants) -> Launch:
    (m, k), n = a.shape, b.shape[1]
    arguments = (a, b, out, m, n, k, k, 1, n, 1, n, 1, "")
    return Launch(matmul_example.matmul_tile_kernel, arguments, product_grid(m, n), typical, BLOCKS, {"GROUP": 8})


def matmul(size: int, limit: float, typical: Constants) -> Row:
    import torch

    a, b = normal(size, size), normal(size, size, seed=1)
    out, theirs = np.empty_like(a), np.empty_like(a)
    ta, tb, tout = tensors(a, b, theirs)
    return Row(
        f"matmul f32 {size}", (product_launch(a, b, out, typical),), (out,), lambda: (matmul_example.reference(a, b),), 5e-4,
        (Goal("torch", limit),), peers={"torch": lambda: torch.mm(ta, tb, out=tout)},
        flops=2.0 * size**3, bytes=12.0 * size**2, interpreted="matmul", work=(size / 1024) ** 3, note="torch: MKL",
    )  # fmt: skip


def narrow_matmul(size: int, dtype: Any, typical: Constants) -> Row:
    import torch

    name = np.dtype(dtype).name
    a, b = normal(size, size).astype(dtype), normal(size, size, seed=1).astype(dtype)
    out = np.empty_like(a)
    ta, tb, tout = *tensors(a, b), torch.empty(size, size)
    return Row(
        f"matmul {name} {size}", (product_launch(a, b, out, typical),), (out,), lambda: (matmul_example.reference(a, b),),
        2e-2 if name == "bfloat16" else 3e-3, (Goal("upcast", 1.1),),
        peers={"upcast": lambda: torch.mm(ta.float(), tb.float(), out=tout)},
        flops=2.0 * size**3, bytes=6.0 * size**2, note="upcast: both to f32, then torch.mm in f32",
    )  # fmt: skip


def int8_matmul(size: int, typical: Constants) -> Row:
    import torch

    a, b = np.random.default_rng(0).integers(-128, 128, (2, size, size), dtype=np.int8)
    out = np.empty((size, size), np.int32)
    ta, tb = tensors(a, b)
    grid: Callable[[Constants], tuple[int, ...]] = lambda c: (cdiv(size, c["BM"]), cdiv(size, c["BN"]))  # noqa: E731
    return Row(
        f"matmul int8 {size}", (Launch(tiles.int8_matmul, (a, b, out, size, size, size), grid, typical, SHORT),), (out,),
        lambda: (a.astype(np.float64) @ b.astype(np.float64),), 0, (Goal("torch", 1.0),),
        peers={"torch": lambda: torch._int_mm(ta, tb)}, flops=2.0 * size**3, bytes=6.0 * size**2,
        note="torch: torch._int_mm",
    )  # fmt: skip


def batched_matmul(batch: int, size: int) -> Row:
    import torch

    a, b = normal(batch, size, size), normal(batch, size, size, seed=1)
    out, theirs = np.empty_like(a), np.empty_like(a)
    ta, tb, tout = tensors(a, b, theirs)
    constants = {"M": size, "N": size, "K": size}
    return Row(
        f"batched matmul {batch}x{size}", (Launch(tiles.batched_matmul, (a, b, out), lambda _: (batch,), constants),),
        (out,), lambda: (a.astype(np.float64) @ b,), 2e-5, (Goal("torch", 1.0),),
        peers={"torch": lambda: torch.bmm(ta, tb, out=tout)}, flops=2.0 * batch * size**3, bytes=12.0 * batch * size**2,
    )  # fmt: skip


def grouped_matmul(tokens: int, groups: int, inner: int, width: int) -> Row:
    """Rows in runs of uneven length, each run with a matrix of its own; torch does a product a run."""
    import torch

    x, w = normal(tokens, inner), normal(groups, inner, width, seed=1)
    out, theirs = np.empty((tokens, width), np.float32), np.empty((tokens, width), np.float32)
    bounds = np.sort(np.random.default_rng(2).integers(0, tokens + 1, groups + 1))
    bounds[0], bounds[-1] = 0, tokens
    runs = list(zip(range(groups), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    tx, tw, tout = tensors(x, w, theirs)
    pieces = [(tx[s:e], tw[g], tout[s:e]) for g, s, e in runs if e > s]

    def theirs_call() -> None:
        for left, right, result in pieces:
            torch.mm(left, right, out=result)

    def exact() -> Arrays:
        return (np.concatenate([x[s:e].astype(np.float64) @ w[g] for g, s, e in runs]),)

    rows = 64  # of a tile: the table below is made for it
    table = [(g, r, e) for g, s, e in runs for r in range(s, e, rows)]
    group, first, last = (np.array(column, np.int32) for column in zip(*table, strict=True))
    configs = tuple({"BN": n, "BK": k} for n, k in ((32, 32), (64, 32), (128, 32), (128, 64), (256, 64)))
    launch = Launch(
        many.grouped_matmul, (x, w, out, group, first, last, inner, width),
        lambda c: (len(table), cdiv(width, c["BN"])), {"BN": 64, "BK": 32}, configs, {"BM": rows},
    )  # fmt: skip
    return Row(
        f"grouped matmul {tokens}x{inner}x{width}, {groups} groups", (launch,), (out,), exact, 1e-4,
        (Goal("torch", 1.0),), peers={"torch": theirs_call}, flops=2.0 * tokens * inner * width,
        bytes=4.0 * (x.size + w.size + out.size), note="torch: torch.mm(out=) a group",
    )  # fmt: skip


def attention(heads: int, length: int, dim: int, dtype: Any) -> Row:
    from torch.nn.functional import scaled_dot_product_attention

    name = {"float32": "f32", "bfloat16": "bf16"}[np.dtype(dtype).name]
    shape = (1, heads, length, dim)
    q, k, v = (normal(*shape, seed=i).astype(dtype) for i in range(3))
    out = np.empty_like(q)
    tq, tk, tv = tensors(q, k, v)
    steps = (heads * length * dim, length * dim, dim) * 4
    arguments = (q, k, v, out, *steps, heads, length, dim**-0.5 * 1.4426950408889634)
    pairs = ((32, 32), (64, 32), (64, 64), (128, 64), (128, 128))
    launch = Launch(
        attention_example.attention_kernel, arguments, lambda c: (cdiv(length, c["BLOCK_M"]), heads),
        {"BLOCK_M": 64, "BLOCK_N": 64}, tuple({"BLOCK_M": m, "BLOCK_N": n} for m, n in pairs), {"D": dim},
    )  # fmt: skip
    flops = 2.0 * heads * length * length * dim + 6.0 * heads * length * length
    return Row(
        f"causal attention {name} H{heads} S{length} D{dim}", (launch,), (out,),
        lambda: (attention_example.reference(q, k, v),), 2e-2 if name == "bf16" else 2e-5, (Goal("torch", 0.75),),
        peers={"torch": lambda: scaled_dot_product_attention(tq, tk, tv, is_causal=True)}, flops=flops,
        bytes=4.0 * q.nbytes, interpreted="causal flash attention" if name == "f32" else "",
        work=heads * length * (length + 64) * dim / (8 * 1024 * (1024 + 64) * 64), note="torch: sdpa",
    )  # fmt: skip


def attention_backward(heads: int, length: int, dim: int, block: int) -> Row:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v, dout = (normal(heads, length, dim, seed=i) for i in range(4))
    scale = dim**-0.5
    later = np.triu(np.ones((length, length), bool), 1)
    scores = np.where(later, -np.inf, q.astype(np.float64) @ k.swapaxes(1, 2) * scale)
    top = scores.max(2, keepdims=True)
    p = np.exp(scores - top)
    norm = p.sum(2, keepdims=True)
    lse = (top + np.log(norm))[..., 0].astype(np.float32)
    out = (p / norm @ v).astype(np.float32)
    del scores, p
    delta, (dq, dk, dv) = np.empty((heads, length), np.float32), np.empty((3, *q.shape), np.float32)
    leaves = [tensor(a.copy()).requires_grad_() for a in (q, k, v)]
    y = scaled_dot_product_attention(*(leaf[None] for leaf in leaves), is_causal=True)
    grad = tensor(dout)[None]

    def exact() -> Arrays:
        p = np.exp(np.where(later, -np.inf, q.astype(np.float64) @ k.swapaxes(1, 2) * scale) - lse[..., None])
        dp = dout.astype(np.float64) @ v.swapaxes(1, 2)
        ds = p * (dp - (p * dp).sum(2, keepdims=True)) * scale
        return ds @ k, ds.swapaxes(1, 2) @ q, p.swapaxes(1, 2) @ dout

    shared = (q, k, v, dout, lse, delta)
    typical, fixed = {"BM": block, "BN": block}, {"D": dim}
    sizes = ((32, 32), (64, 32), (64, 64), (128, 64))
    configs = tuple({"BM": m, "BN": n} for m, n in sizes if max(m, n) <= length)
    launches = (
        Launch(backward.delta_kernel, (out, dout, delta), lambda c: (cdiv(heads * length, c["ROWS"]),), {"ROWS": block},
               (), fixed),
        Launch(backward.key_value_kernel, (*shared, dk, dv, length, scale), lambda c: (cdiv(length, c["BN"]), heads),
               typical, configs, fixed),
        Launch(backward.query_kernel, (*shared, dq, length, scale), lambda c: (cdiv(length, c["BM"]), heads), typical,
               tuple({"BM": c["BN"], "BN": c["BM"]} for c in configs), fixed),
    )  # fmt: skip
    return Row(
        f"causal attention backward H{heads} S{length} D{dim}", launches, (dq, dk, dv), exact, 1e-4, (Goal("torch", 1.0),),
        peers={"torch": lambda: torch.autograd.grad(y, leaves, grad, retain_graph=True)},
        flops=7.0 * heads * length * length * dim, bytes=4.0 * 8 * q.size, note="torch: sdpa's backward",
    )  # fmt: skip


def makers(scale: str) -> dict[str, Callable[[], Row]]:
    size = pick(scale, 1024, 256, 48)
    heads, length, dim = pick(scale, 8, 2, 2), pick(scale, 1024, 256, 64), pick(scale, 64, 64, 32)
    small = scale == "tiny"
    tile, attn = (SMALL, 32) if small else (WIDE, 64)
    block, short = BLOCKS[TILES.index(tile)], SHORT[BYTE_TILES.index(tile)]
    return {
        "matmul-512": partial(matmul, pick(scale, 512, 128, 40), 1.1, block),
        "matmul-1024": partial(matmul, size, 1.1, block),
        "matmul-2048": partial(matmul, pick(scale, 2048, 300, 56), 1.3, block),
        "matmul-f16": partial(narrow_matmul, size, np.float16, block),
        "matmul-bf16": partial(narrow_matmul, size, ml_dtypes.bfloat16, block),
        "matmul-int8": partial(int8_matmul, size, short),
        "batched": partial(batched_matmul, pick(scale, 512, 64, 3), pick(scale, 32, 32, 16)),
        "grouped": partial(
            grouped_matmul, pick(scale, 2048, 512, 150), pick(scale, 16, 8, 3), *(pick(scale, 256, 256, 40),) * 2
        ),
        "attention-f32": partial(attention, heads, length, dim, np.float32),
        "attention-bf16": partial(attention, heads, length, dim, ml_dtypes.bfloat16),
        "attention-backward": partial(attention_backward, heads, length, dim, attn),
    }
