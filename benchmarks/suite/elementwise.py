"""Rows of elementwise kernels: bound by memory, or by one function of each element."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from kernels import elementwise, many
from triton import cdiv

from .row import Arrays, Constants, Goal, Launch, Row, blocks, normal, pick, tensors, torch_function

CONFIGS = blocks(256, 1024, 4096, 16384)


def flat(n: int) -> Callable[[Constants], tuple[int, ...]]:
    """A grid of blocks over n elements."""
    return lambda meta: (cdiv(n, meta["BLOCK"]),)


def erf(x: np.ndarray) -> np.ndarray:
    import torch

    found: np.ndarray = torch.erf(torch.from_numpy(x)).numpy()
    return found


def pointwise(
    name: str, kernel: Any, n: int, inputs: int, exact: Callable[..., np.ndarray], torch_out: Callable[..., Any],
    goals: tuple[Goal, ...], flops: float, **more: Any,
) -> Row:  # fmt: skip
    """A kernel (inputs..., out, n) of n elements; `torch_out` takes the inputs and the output to write."""
    arrays = [normal(n, seed=i) for i in range(inputs)]
    out = np.empty(n, np.float32)
    theirs = np.empty(n, np.float32)
    return Row(
        name,
        (Launch(kernel, (*arrays, out, n), flat(n), {"BLOCK": 1024}, CONFIGS),),
        (out,),
        lambda: (exact(*(a.astype(np.float64) for a in arrays)),),
        2e-6,
        goals,
        torch_function(torch_out, *tensors(*arrays, theirs)),
        flops=flops * n,
        bytes=4.0 * n * (inputs + 1),
        **more,
    )


def add(n: int, label: str, limit: float) -> Row:
    import torch

    return pointwise(
        f"add {label}", elementwise.add, n, 2, lambda x, y: x + y, lambda x, y, out: torch.add(x, y, out=out),
        (Goal("torch", limit),), 1, interpreted="vector add", work=n / 1_000_003,
    )  # fmt: skip


def relu_mul(n: int) -> Row:
    import torch

    return pointwise(
        f"relu(a+b)*b {n}", elementwise.relu_mul, n, 2, lambda a, b: np.maximum(a + b, 0) * b,
        lambda a, b, out: out.copy_(torch.relu(a + b) * b), (Goal("torch.compile", 0.65),), 3,
    )  # fmt: skip


def gelu(n: int) -> Row:
    import torch

    return pointwise(
        f"gelu(erf) {n}", elementwise.gelu, n, 1, lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
        lambda x, out: out.copy_(torch.nn.functional.gelu(x)), (Goal("torch.compile", 0.45),), 14,
    )  # fmt: skip


def swiglu(n: int) -> Row:
    import torch

    return pointwise(
        f"swiglu {n}", elementwise.swiglu, n, 2, lambda g, u: g / (1 + np.exp(-g)) * u,
        lambda g, u, out: out.copy_(torch.nn.functional.silu(g) * u), (Goal("torch.compile", 1.0),), 24,
    )  # fmt: skip


def rotary(tokens: int, length: int, heads: int = 16, width: int = 64) -> Row:
    import torch

    half = width // 2
    x, angle = normal(tokens, heads, width), normal(length, half, seed=1)
    cos, sin = np.cos(angle), np.sin(angle)
    out, theirs = np.empty_like(x), np.empty_like(x)

    def turn(x: Any, cos: Any, sin: Any, out: Any) -> Any:
        parts = x.view(-1, length, heads, width)
        left, right = parts[..., :half], parts[..., half:]
        c, s = cos[None, :, None], sin[None, :, None]
        return out.copy_(torch.cat([left * c - right * s, right * c + left * s], -1).view(x.shape))

    def exact() -> Arrays:
        c, s = (np.tile(t, (tokens // length, 1)).astype(np.float64)[:, None] for t in (cos, sin))
        left, right = x[..., :half], x[..., half:]
        return (np.concatenate([left * c - right * s, right * c + left * s], -1),)

    return Row(
        f"rotary {tokens}x{heads}x{width}",
        (Launch(elementwise.rotary, (x, cos, sin, out, length, heads), lambda _: (tokens,), {"HALF": half}),),
        (out,), exact, 2e-6, (Goal("torch.compile", 1.0),), torch_function(turn, *tensors(x, cos, sin, theirs)),
        flops=3.0 * x.size, bytes=8.0 * x.size,
    )  # fmt: skip


def adamw(n: int) -> Row:
    """A step from the same state each time it is checked; the timed steps go on from there, as the peer's do."""
    import torch

    start = [normal(n, seed=i) for i in range(3)] + [normal(n, seed=3) ** 2]
    p, g, m, v = (a.copy() for a in start)
    lr, beta1, beta2, eps, decay, steps = 1e-3, 0.9, 0.999, 1e-8, 0.01, 10
    fix1, fix2 = 1 - beta1**steps, 1 - beta2**steps
    theirs = torch.nn.Parameter(torch.from_numpy(p.copy()))
    theirs.grad = torch.from_numpy(g.copy())
    optimizer = torch.optim.AdamW([theirs], lr=lr, weight_decay=decay, fused=True)

    def reset() -> None:
        for now, then in zip((p, g, m, v), start, strict=True):
            now[:] = then

    def exact() -> Arrays:
        p, g, m, v = (a.astype(np.float64) for a in start)
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        return p * (1 - lr * decay) - lr * (m / fix1) / (np.sqrt(v / fix2) + eps), m, v

    arguments = (p, g, m, v, n, lr, beta1, beta2, eps, decay, fix1, fix2)
    restore = ("p_ptr", "m_ptr", "v_ptr")
    return Row(
        f"adamw step {n}",
        (Launch(elementwise.adamw, arguments, flat(n), {"BLOCK": 1024}, CONFIGS, restore=restore),),
        (p, m, v), exact, 2e-6, (Goal("torch", 1.1),), peers={"torch": optimizer.step}, reset=reset,
        flops=40.0 * n, bytes=28.0 * n, note="torch: its fused AdamW",
    )  # fmt: skip


def programs(count: int, span: int) -> Row:
    """Many programs of 128 elements against one program with a loop over the same blocks, in the cache."""
    x, y = normal(span * 128), normal(span * 128, seed=1)
    out, theirs = np.empty((2, x.size), np.float32)  # alike to the lines and pages of the caches
    loop = many.add_loop[(1,)]
    return Row(
        f"{count} programs, BLOCK 128",
        (Launch(many.add_wrapped, (x, y, out, span), lambda _: (count,), {"BLOCK": 128}),),
        (out,), lambda: (x.astype(np.float64) + y,), 2e-6, (Goal("one program", 1.2),),
        peers={"one program": lambda: loop(x, y, theirs, span, count, BLOCK=128)},
        flops=128.0 * count, bytes=0.0, note="one program: the same blocks in a loop",
    )  # fmt: skip


def makers(scale: str) -> dict[str, Callable[[], Row]]:
    n = pick(scale, 1 << 20, 1 << 16, 3000)
    return {
        "add-16": partial(add, pick(scale, 1 << 16, 1 << 12, 1000), "2^16", 1.05),
        "add-20": partial(add, n, "2^20", 1.05),
        "add-24": partial(add, pick(scale, 1 << 24, 1 << 18, 5000), "2^24", 0.85),
        "relu_mul": partial(relu_mul, n),
        "gelu": partial(gelu, n),
        "swiglu": partial(swiglu, n),
        "rotary": partial(rotary, pick(scale, 2048, 256, 128), pick(scale, 1024, 128, 64)),
        "adamw": partial(adamw, n),
        "programs": partial(programs, pick(scale, 1_000_000, 50_000, 40), pick(scale, 64, 64, 8)),
    }
