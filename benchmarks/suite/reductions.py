"""Rows of kernels that reduce, scan or order the elements of a row or a column."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import layer_norm as example
import numpy as np
import softmax as softmax_example
from kernels import rows
from triton import cdiv, next_power_of_2

from .row import Arrays, Constants, Goal, Launch, Row, blocks, normal, pick, tensor, tensors, torch_function


def per_row(count: int) -> Callable[[Constants], tuple[int, ...]]:
    return lambda _: (count,)


def softmax(m: int, n: int, programs: int | None = None) -> Row:
    import torch

    x = normal(m, n)
    out, theirs = np.empty_like(x), np.empty_like(x)
    constants = {"BLOCK": next_power_of_2(n)}
    if programs is None:
        launch = Launch(softmax_example.softmax_kernel, (x, out, n, n, n), per_row(m), constants)
    else:
        launch = Launch(softmax_example.softmax_persistent_kernel, (x, out, n, n, m, n), per_row(programs), constants)
    tx, tout = tensors(x, theirs)
    return Row(
        f"softmax {m}x{n}" + (", persistent" if programs else ""), (launch,), (out,),
        lambda: (softmax_example.reference(x),), 2e-6,
        (Goal("torch.compile", 0.75), Goal("torch", 0.9)) if programs is None else (),
        torch_function(lambda x, out: out.copy_(torch.softmax(x, 1)), tx, tout),
        {"torch": lambda: torch.softmax(tx, 1, out=tout)},
        flops=16.0 * m * n, bytes=8.0 * m * n, interpreted="softmax", work=m * n / (4096 * 1021),
    )  # fmt: skip


def layer_norm(m: int, n: int) -> Row:
    from torch.nn.functional import layer_norm as torch_layer_norm

    x, w, b = normal(m, n), normal(n, seed=1), normal(n, seed=2)
    out, theirs = np.empty_like(x), np.empty_like(x)
    mean, rstd = np.empty((2, m), np.float32)
    arguments = (x, w, b, out, mean, rstd, n, n, n, 1e-5)
    tx, tw, tb, tout = tensors(x, w, b, theirs)
    return Row(
        f"layer norm {m}x{n}",
        (Launch(example.forward_kernel, arguments, per_row(m), {"BLOCK": next_power_of_2(n)}),),
        (out,), lambda: (example.reference(x, w, b),), 2e-5, (Goal("torch.compile", 0.75),),
        torch_function(lambda x, w, b, out: out.copy_(torch_layer_norm(x, (n,), w, b)), tx, tw, tb, tout),
        {"torch": lambda: torch_layer_norm(tx, (n,), tw, tb)},
        flops=8.0 * m * n, bytes=8.0 * m * n, interpreted="layer norm", work=m * n / (4096 * 1024),
    )  # fmt: skip


def rms_norm(m: int, n: int) -> Row:
    import torch

    x, w = normal(m, n), normal(n, seed=1)
    out, theirs = np.empty_like(x), np.empty_like(x)

    def theirs_of(x: Any, w: Any, out: Any) -> Any:
        return out.copy_(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w)

    def exact() -> Arrays:
        x64 = x.astype(np.float64)
        return (x64 / np.sqrt((x64 * x64).mean(1, keepdims=True) + 1e-6) * w,)

    return Row(
        f"rms norm {m}x{n}",
        (Launch(rows.rms_norm, (x, w, out, n, n, 1e-6), per_row(m), {"BLOCK": next_power_of_2(n)}),),
        (out,), exact, 1e-5, (Goal("torch.compile", 0.85),), torch_function(theirs_of, *tensors(x, w, theirs)),
        flops=4.0 * m * n, bytes=8.0 * m * n,
    )  # fmt: skip


def layer_norm_backward(m: int, n: int, atomic: bool) -> Row:
    import torch

    x, w, dy, slots = normal(m, n), normal(n, seed=1), normal(m, n, seed=2), 16
    x64 = x.astype(np.float64)
    mean = x64.mean(1).astype(np.float32)
    rstd = (1 / np.sqrt(x64.var(1) + 1e-5)).astype(np.float32)
    dx, dw, db = np.empty_like(x), np.zeros(n, np.float32), np.zeros(n, np.float32)
    constants, fixed = {"BLOCK": next_power_of_2(n)}, {"SLOTS": slots}
    if atomic:

        def clear() -> None:
            dw.fill(0)
            db.fill(0)

        arguments = (x, w, dy, dx, dw, db, mean, rstd, n, n)
        launches = (Launch(example.backward_atomic_kernel, arguments, per_row(m), constants, before=clear),)
    else:
        sums, locks = np.zeros((2, slots, n), np.float32), np.zeros(slots, np.int32)

        def clear() -> None:
            sums.fill(0)
            locks.fill(0)

        locked = (x, w, dy, dx, sums[0], sums[1], mean, rstd, locks, n, n)
        launches = (
            Launch(example.backward_locked_kernel, locked, per_row(m), constants, (), fixed, clear),
            Launch(
                example.sum_slots_kernel, (sums[0], sums[1], dw, db, n), lambda c: (cdiv(n, c["BLOCK"]),),
                {"BLOCK": 128}, (), fixed,
            ),
        )  # fmt: skip
    leaves = [tensor(x).clone().requires_grad_(), tensor(w).clone().requires_grad_()]
    leaves.append(torch.zeros(n, requires_grad=True))
    grad = tensor(dy)

    def theirs(wrap: Any) -> Any:
        forward = wrap(lambda x, w, b: torch.nn.functional.layer_norm(x, (n,), w, b))
        y = forward(*leaves)
        return lambda: torch.autograd.grad(y, leaves, grad, retain_graph=True)

    return Row(
        f"layer norm backward {m}x{n}" + (", atomic_add" if atomic else ""), launches, (dx, dw, db),
        lambda: example.reference_backward(dy, x, w), 3e-4, () if atomic else (Goal("torch.compile", 1.0),), theirs,
        flops=14.0 * m * n, bytes=12.0 * m * n, interpreted="" if atomic else "layer norm backward",
        work=m * n / (4096 * 1024),
    )  # fmt: skip


def cross_entropy(m: int, n: int, block: int) -> Row:
    """Loss and gradient, the gradient in place of the logits, as training libraries do it."""
    import torch

    start = normal(m, n)
    x, loss = start.copy(), np.empty(m, np.float32)
    labels = np.random.default_rng(1).integers(0, n, m)
    leaf, theirs_labels = torch.from_numpy(start.copy()).requires_grad_(), torch.from_numpy(labels)

    def theirs(wrap: Any) -> Any:
        forward = wrap(torch.nn.functional.cross_entropy)

        def call() -> None:
            leaf.grad = None
            forward(leaf, theirs_labels).backward()

        return call

    def reset() -> None:
        x[:] = start

    def exact() -> Arrays:
        wanted, losses = np.empty((m, n), np.float32), np.empty(m)
        for first in range(0, m, 256):  # in parts: float64 of all of it would need gigabytes
            part = slice(first, first + 256)
            x64, rows_here = start[part].astype(np.float64), np.arange(len(start[part]))
            x64 -= x64.max(1, keepdims=True)
            e = np.exp(x64)
            norm = e.sum(1, keepdims=True)
            losses[part] = np.log(norm[:, 0]) - x64[rows_here, labels[part]]
            e /= norm
            e[rows_here, labels[part]] -= 1
            wanted[part] = e / m
        return wanted, losses

    def distance(got: Arrays, want: Arrays) -> float:
        return max(float(np.abs(got[0] - want[0]).max()) * m, float(np.abs(got[1] - want[1]).max()))

    launch = Launch(
        rows.cross_entropy, (x, labels, loss, n, n, 1.0 / m), per_row(m), {"BLOCK": block},
        blocks(1024, 4096, 16384, 32768), restore=("logits_ptr",),
    )  # fmt: skip
    return Row(
        f"cross entropy {m}x{n}, fwd+bwd", (launch,), (x, loss), exact, 2e-5, (Goal("torch.compile", 1.0),), theirs,
        distance=distance, reset=reset, flops=24.0 * m * n, bytes=8.0 * m * n,
    )  # fmt: skip


def argmax(m: int, n: int) -> Row:
    import torch

    x, out = normal(m, n), np.empty(m, np.int32)
    (tx,) = tensors(x)
    return Row(
        f"argmax of rows {m}x{n}",
        (Launch(rows.argmax, (x, out, n, n), per_row(m), {"BLOCK": next_power_of_2(n)}),),
        (out,), lambda: (x.argmax(1),), 0, (Goal("NumPy", 1.2),),
        peers={"NumPy": lambda: x.argmax(1), "torch": lambda: torch.argmax(tx, 1)}, flops=1.0 * m * n, bytes=4.0 * m * n,
    )  # fmt: skip


def column_norms(m: int, n: int) -> Row:
    import torch

    x, out = normal(m, n), np.empty(n, np.float32)
    (tx,) = tensors(x)
    configs = tuple({"BLOCK_R": r, "BLOCK_C": c} for r, c in ((16, 64), (32, 128), (32, 256), (64, 512)))
    return Row(
        f"column norms {m}x{n}",
        (Launch(rows.column_norms, (x, out, m, n), lambda c: (cdiv(n, c["BLOCK_C"]),), {"BLOCK_R": 32, "BLOCK_C": 64},
                configs),),
        (out,), lambda: (np.sqrt((x.astype(np.float64) ** 2).sum(0)),), 1e-5, (Goal("NumPy", 1.2),),
        peers={"NumPy": lambda: np.sqrt(np.einsum("ij,ij->j", x, x)), "torch": lambda: torch.linalg.vector_norm(tx, dim=0)},
        flops=2.0 * m * n, bytes=4.0 * m * n,
    )  # fmt: skip


def row_sort(m: int, n: int) -> Row:
    import torch

    x, out = normal(m, n), np.empty((m, n), np.float32)
    (tx,) = tensors(x)
    return Row(
        f"row sort {m}x{n}", (Launch(rows.row_sort, (x, out), per_row(m), {"N": n}),),
        (out,), lambda: (np.sort(x, 1),), 0, (Goal("NumPy", 3.0),),
        peers={"NumPy": lambda: np.sort(x, 1), "torch": lambda: torch.sort(tx, 1)},
        flops=1.0 * m * n * np.log2(n), bytes=8.0 * m * n,
    )  # fmt: skip


def top_k(m: int, n: int, k: int) -> Row:
    import torch

    x, out = normal(m, n), np.empty((m, k), np.float32)
    (tx,) = tensors(x)
    return Row(
        f"top-{k} of rows {m}x{n}", (Launch(rows.top_k, (x, out), per_row(m), {"N": n}, fixed={"K": k}),),
        (out,), lambda: (-np.sort(-x, 1)[:, :k],), 0, (Goal("torch", 1.0),),
        peers={"torch": lambda: torch.topk(tx, k)}, flops=1.0 * m * n * np.log2(n), bytes=4.0 * m * n,
    )  # fmt: skip


def cumsum(m: int, n: int) -> Row:
    import torch

    x = normal(m, n)
    out, theirs = np.empty_like(x), np.empty_like(x)
    tx, tout = tensors(x, theirs)
    return Row(
        f"cumsum of rows {m}x{n}",
        (Launch(rows.cumsum, (x, out, n, n), per_row(m), {"BLOCK": next_power_of_2(n)}),),
        (out,), lambda: (np.cumsum(x.astype(np.float64), 1),), 1e-4, (Goal("torch", 1.0),),
        peers={"torch": lambda: torch.cumsum(tx, 1, out=tout)}, flops=1.0 * m * n, bytes=8.0 * m * n,
    )  # fmt: skip


def linear_recurrence(steps: int, channels: int, chunk: int) -> Row:
    """torch.compile gets pieces of some steps: it unrolls loops, and takes minutes for hundreds of steps."""
    import torch

    a = np.random.default_rng(0).random((steps, channels), np.float32)
    b = normal(steps, channels)
    out, theirs = np.empty_like(a), np.empty_like(a)
    ta, tb, tout = tensors(a, b, theirs)

    def piece(h: Any, a: Any, b: Any, out: Any) -> Any:
        for t in range(chunk):
            h = a[t] * h + b[t]
            out[t] = h
        return h

    def theirs_of(wrap: Any) -> Any:
        function, zero = wrap(piece), torch.zeros(channels)

        def call() -> None:
            h = zero
            for t in range(0, steps, chunk):
                h = function(h, ta[t : t + chunk], tb[t : t + chunk], tout[t : t + chunk])

        return call

    def exact() -> Arrays:
        wanted, h = np.empty(a.shape), np.zeros(channels)
        for t in range(steps):
            wanted[t] = h = a[t] * h + b[t]
        return (wanted,)

    return Row(
        f"linear recurrence {steps}x{channels}",
        (Launch(rows.linear_recurrence, (a, b, out, steps, channels), lambda c: (cdiv(channels, c["BLOCK"]),),
                {"BLOCK": 256}, blocks(64, 256, 1024, 4096)),),
        (out,), exact, 2e-5, (Goal("torch.compile", 0.8),), theirs_of, flops=2.0 * a.size, bytes=12.0 * a.size,
        note=f"torch.compile: pieces of {chunk} steps",
    )  # fmt: skip


def makers(scale: str) -> dict[str, Callable[[], Row]]:
    m = pick(scale, 4096, 256, 12)
    n = pick(scale, 1024, 1024, 128)
    ragged = pick(scale, 781, 781, 97)
    return {
        "softmax-1024": partial(softmax, m, n),
        "softmax-781": partial(softmax, m, ragged),
        "softmax-persistent": partial(softmax, m, n, pick(scale, 64, 64, 4)),
        "layer_norm": partial(layer_norm, m, n),
        "rms_norm": partial(rms_norm, m, n),
        "layer_norm-backward": partial(layer_norm_backward, m, n, False),
        "layer_norm-backward-atomic": partial(layer_norm_backward, m, n, True),
        "cross_entropy": partial(
            cross_entropy, pick(scale, 2048, 64, 5), pick(scale, 32000, 8000, 700), pick(scale, 4096, 4096, 256)
        ),
        "cumsum": partial(cumsum, pick(scale, 1024, 64, 7), pick(scale, 1024, 1024, 100)),
        "top_k": partial(top_k, pick(scale, 1000, 50, 4), pick(scale, 256, 256, 64), 8),
        "argmax": partial(argmax, m, pick(scale, 1000, 1000, 100)),
        "column_norms": partial(column_norms, m, pick(scale, 1024, 1024, 100)),
        "row_sort": partial(row_sort, pick(scale, 1000, 50, 4), pick(scale, 256, 256, 32)),
        "linear_recurrence": partial(
            linear_recurrence, pick(scale, 512, 64, 16), pick(scale, 4096, 1024, 300), pick(scale, 32, 16, 8)
        ),
    }
