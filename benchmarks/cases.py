"""What is measured: a row a kernel and shape, with everything that does the same work on the same memory.

Ours is called on NumPy arrays, torch on tensors that share their memory. Where a peer has `out=` it is used, so that
nobody pays for fresh pages; where it has none it allocates, as its users see it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import attention
import demo
import layer_norm
import matmul
import softmax
import vector_add
from measure import Call


@dataclass(frozen=True)
class Row:
    """A line of the table. `goal`: ours may take this share of the time of that contender, on one thread.

    `eager` is torch's own expression of the work, which `torch.compile` gets too. `interpreted` is the name of the
    case of the demo whose measurement in Triton's interpreter fits; `work` is this row's share of its work.
    """

    name: str
    ours: Call
    peers: dict[str, Call]
    eager: Callable[..., Any] | None = None
    arguments: tuple[Any, ...] = ()
    goal: tuple[str, float] | None = None
    interpreted: str = ""
    work: float = 1.0
    notes: Callable[[], str] = field(default=lambda: "")


def tensors(*arrays: np.ndarray) -> tuple[Any, ...]:
    import torch

    return tuple(torch.from_numpy(a) for a in arrays)


def add_row(n: int) -> Row:
    import torch

    x, y, out = demo.normal((n,), (n,), (n,))
    tx, ty, tout = tensors(x, y, out)
    return Row(
        f"vector add 2^{n.bit_length() - 1}",
        lambda: vector_add.add(x, y, out, block=4096),
        {"torch": lambda: torch.add(tx, ty, out=tout), "NumPy": lambda: np.add(x, y, out=out)},
        torch.add, (tx, ty), ("torch", 1.15), "vector add", n / 1_000_003,
    )  # fmt: skip


def softmax_row(n_rows: int, n_cols: int, programs: int | None = None) -> Row:
    import torch

    x, out = demo.normal((n_rows, n_cols), (n_rows, n_cols))
    (tx,) = tensors(x)
    return Row(
        f"softmax {n_rows}x{n_cols}" + (", persistent" if programs else ""),
        lambda: softmax.softmax(x, out, programs),
        {"torch": lambda: torch.softmax(tx, 1), "NumPy": lambda: demo.numpy_softmax(x)},
        lambda t: torch.softmax(t, 1), (tx,), ("torch", 1.0) if n_cols == 1024 and programs is None else None,
        "softmax", n_rows * n_cols / (4096 * 1021),
    )  # fmt: skip


def layer_norm_row(n_rows: int, n_cols: int) -> Row:
    from torch.nn.functional import layer_norm as torch_layer_norm

    x, w, b, out = demo.normal((n_rows, n_cols), (n_cols,), (n_cols,), (n_rows, n_cols))
    mean, rstd = np.empty((2, n_rows), np.float32)
    tx, tw, tb = tensors(x, w, b)
    return Row(
        f"layer norm {n_rows}x{n_cols}",
        lambda: layer_norm.layer_norm(x, w, b, out=out, mean=mean, rstd=rstd),
        {
            "torch": lambda: torch_layer_norm(tx, (n_cols,), tw, tb),
            "NumPy": lambda: demo.numpy_layer_norm(x, w, b),
        },
        lambda t, u, v: torch_layer_norm(t, (n_cols,), u, v), (tx, tw, tb), ("torch", 1.3), "layer norm",
        n_rows * n_cols / (4096 * 1024),
    )  # fmt: skip


def layer_norm_backward_row(n_rows: int, n_cols: int, atomic: bool) -> Row:
    import torch

    x, w, b, dy = demo.normal((n_rows, n_cols), (n_cols,), (n_cols,), (n_rows, n_cols))
    _, mean, rstd = layer_norm.layer_norm(x, w, b)
    tx, tw, tb, tdy, tm, tr = tensors(x, w, b, dy, mean, rstd)
    shape, which = (n_cols,), [True] * 3

    def eager(t: Any, u: Any) -> Any:
        return torch.ops.aten.native_layer_norm_backward(t, u, shape, tm[:, None], tr[:, None], tw, tb, which)

    return Row(
        f"layer norm backward {n_rows}x{n_cols}, " + ("atomic_add" if atomic else "locks"),
        lambda: layer_norm.layer_norm_backward(dy, x, w, mean, rstd, atomic=atomic),
        {"torch": lambda: eager(tdy, tx), "NumPy": lambda: demo.numpy_layer_norm_backward(x, w, b, dy)},
        eager, (tdy, tx), None, "layer norm backward", n_rows * n_cols / (4096 * 1024),
    )  # fmt: skip


def matmul_row(size: int, dtype: str, tile: tuple[int, int, int] | None) -> Row:
    import torch

    a, b = (x.astype(dtype) for x in demo.normal((size, size), (size, size)))
    out = np.empty_like(a)
    ta, tb, tout = tensors(a, b, out)
    peers: dict[str, Call] = {"torch": lambda: torch.matmul(ta, tb, out=tout)}
    if dtype == "float32":
        peers["NumPy"] = lambda: np.matmul(a, b, out=out)
    label = "x".join(map(str, tile)) if tile else "tuned"
    return Row(
        f"matmul {size}^3 {dtype}, {label}",
        lambda: matmul.matmul(a, b, out, tile=tile),
        peers, torch.matmul, (ta, tb), ("torch", 1.5 if dtype == "float32" else 1.0),
        "matmul" if dtype == "float32" else "", (size / 1024) ** 3,
        lambda: "" if tile else f"tile chosen: {matmul.matmul_kernel.best_config}",
    )  # fmt: skip


def attention_row(heads: int, length: int, dim: int, block_m: int, block_n: int) -> Row:
    from torch.nn.functional import scaled_dot_product_attention

    shape = (1, heads, length, dim)
    q, k, v, out = demo.normal(shape, shape, shape, shape)
    tq, tk, tv = tensors(q, k, v)
    work = heads * length * (length + 64) * dim / (8 * 1024 * (1024 + 64) * 64)
    return Row(
        f"causal attention H{heads} S{length} D{dim}, {block_m}x{block_n}",
        lambda: attention.attention(q, k, v, out, block_m, block_n),
        {
            "torch": lambda: scaled_dot_product_attention(tq, tk, tv, is_causal=True),
            "NumPy": lambda: demo.numpy_attention(q, k, v),
        },
        lambda t, u, w: scaled_dot_product_attention(t, u, w, is_causal=True), (tq, tk, tv), ("torch", 1.1),
        "causal flash attention", work,
    )  # fmt: skip


def makers(quick: bool) -> dict[str, Callable[[], Row]]:
    """The rows by a short name, each made when its turn comes, so that memory is not held for all of them."""
    rows, size, length = (256, 256, 256) if quick else (4096, 1024, 1024)
    return {
        "add": lambda: add_row(1 << (16 if quick else 20)),
        "softmax": lambda: softmax_row(rows, 1024),
        "softmax-ragged": lambda: softmax_row(rows, 781),
        "softmax-persistent": lambda: softmax_row(rows, 1024, programs=64),
        "layer_norm": lambda: layer_norm_row(rows, 1024),
        "layer_norm-backward": lambda: layer_norm_backward_row(rows, 1024, atomic=False),
        "layer_norm-backward-atomic": lambda: layer_norm_backward_row(rows, 1024, atomic=True),
        "matmul": lambda: matmul_row(size, "float32", (64, 64, 32)),
        "matmul-tuned": lambda: matmul_row(size, "float32", None),
        "matmul-f16": lambda: matmul_row(size, "float16", (64, 64, 32)),
        "attention": lambda: attention_row(8, length, 64, 64, 64),
    }
