"""One kernel an operation family, small but for its tile: what compiling the family costs as the tile grows."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def arithmetic(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, (x * 2 + 1) / (x * x + 3), mask=i < n)


@triton.jit
def integers(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, ((i // 7) % 5 ^ (i << 2)).to(tl.float32), mask=i < n)


@triton.jit
def functions(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.exp(x) + tl.sin(x) + tl.log(x), mask=i < n)


@triton.jit
def casts(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, x.to(tl.float16).to(tl.bfloat16).to(tl.int32).to(tl.float32), mask=i < n)


@triton.jit
def choice(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.where(x > 0, x, tl.minimum(x * 0.1, -x)), mask=i < n)


@triton.jit
def reduction(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr, tl.sum(x, 0) + tl.max(x, 0))


@triton.jit
def position(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr, tl.argmax(x, 0).to(tl.float32))


@triton.jit
def prefix_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.cumsum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0), mask=i < n)


@triton.jit
def sorting(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.sort(tl.load(x_ptr + i, mask=i < n, other=0.0)), mask=i < n)


@triton.jit
def best(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.arange(0, 16), tl.topk(tl.load(x_ptr + i, mask=i < n, other=0.0), 16))


@triton.jit
def gathering(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.gather(x, (i * 5) % BLOCK, 0), mask=i < n)


@triton.jit
def counting(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.int32)
    tl.store(out_ptr + tl.arange(0, 64), tl.histogram(x, 64, mask=i < n).to(tl.float32))


@triton.jit
def atomics(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + i // 2, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def shapes(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    even, odd = tl.split(tl.reshape(x, (BLOCK // 2, 2)))
    joined = tl.reshape(tl.trans(tl.join(odd, even)), (BLOCK,))
    tl.store(out_ptr + i, joined, mask=i < n)


@triton.jit
def control(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    for _ in range(n):
        if tl.max(x, 0) > 100.0:  # noqa: SIM108 - a branch is what is measured
            x = x * 0.5
        else:
            x = x + 1.0
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def product(x_ptr, out_ptr, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x_ptr + m[:, None] * n + k[None, :])
    b = tl.load(x_ptr + k[:, None] * n + j[None, :])
    tl.store(out_ptr + m[:, None] * n + j[None, :], tl.dot(a, b, input_precision="ieee"))


FAMILIES = {
    "arithmetic": arithmetic, "integers": integers, "functions": functions, "casts": casts, "choice": choice,
    "reduction": reduction, "argmax": position, "cumsum": prefix_sum, "sort": sorting, "top-k": best,
    "gather": gathering, "histogram": counting, "atomics": atomics, "reshape, join, split, trans": shapes,
    "loop and branch": control,
}  # fmt: skip
