"""Matrix product with an optional fused activation, tuned over tile sizes.

Programs are numbered so that a group of them shares a band of rows: their tiles of `a` and `b` then stay in the cache.
"""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl
from anyarray import empty, float64, max_error, strides

TILES = [(32, 32, 32), (64, 64, 32), (128, 64, 32), (128, 128, 64)]


@triton.jit
def silu(x):
    return x / (1 + tl.exp(-x))


@triton.jit
def matmul_tile_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, a_sm, a_sk, b_sk, b_sn, c_sm, c_sn, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = (pid // (GROUP * tiles_n)) * GROUP
    height = min(tiles_m - first, GROUP)
    within = pid % (GROUP * tiles_n)
    tile_m, tile_n = first + within % height, within // height

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * a_sm + inner[None, :] * a_sk
    b_ptrs = b_ptr + inner[:, None] * b_sk + cols[None, :] * b_sn
    in_m, in_n = (rows < M)[:, None], (cols < N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=in_m & (inner < K - k)[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=in_n & (inner < K - k)[:, None], other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * a_sk
        b_ptrs += BLOCK_K * b_sk
    if ACTIVATION == "relu":
        acc = tl.maximum(acc, 0.0)
    elif ACTIVATION == "silu":
        acc = silu(acc)
    c_ptrs = c_ptr + rows[:, None] * c_sm + cols[None, :] * c_sn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=in_m & in_n)


matmul_kernel = triton.autotune(
    configs=[triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8}) for m, n, k in TILES],
    key=["M", "N", "K"],
)(matmul_tile_kernel)


def matmul(a, b, out=None, activation: str = "", tile: tuple[int, int, int] | None = None):
    """a (M, K) @ b (K, N), f32, f16 or bf16, summed in f32; strides are free.

    Args:
        a, b: the factors, of one dtype.
        out: (M, N); a new array of the kind and dtype of `a` by default.
        activation: "", "relu" or "silu", applied before the result is rounded to its dtype.
        tile: (BLOCK_M, BLOCK_N, BLOCK_K); the autotuner's choice by default.
    """
    (M, K), N = a.shape, b.shape[1]
    out = empty(a, (M, N)) if out is None else out
    args = (a, b, out, M, N, K, *strides(a), *strides(b), *strides(out), activation)
    if tile is None:
        matmul_kernel[lambda t: (triton.cdiv(M, t["BLOCK_M"]) * triton.cdiv(N, t["BLOCK_N"]),)](*args)
    else:
        m, n, k = tile
        grid = (triton.cdiv(M, m) * triton.cdiv(N, n),)
        matmul_tile_kernel[grid](*args, BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, GROUP=8)
    return out


def reference(a, b, activation: str = "") -> np.ndarray:
    c = float64(a) @ float64(b)
    return {"": lambda: c, "relu": lambda: np.maximum(c, 0), "silu": lambda: c / (1 + np.exp(-c))}[activation]()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((190, 130), np.float32), rng.standard_normal((130, 210), np.float32)
    print("matmul, 190 x 210 x 130, silu, max error", max_error(matmul(a, b, None, "silu"), reference(a, b, "silu")))
    a, b = a.astype(np.float16), b.astype(np.float16)
    print("  f16, max error", max_error(matmul(a, b), reference(a, b)))
