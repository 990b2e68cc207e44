"""Kernels over tiles of two dimensions: products, transposes, stencils, pairs."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def int8_matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.int32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0)
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def batched_matmul(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.program_id(0)
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + batch * M * K + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + batch * K * N + k[:, None] * N + n[None, :])
    tl.store(c_ptr + batch * M * N + m[:, None] * N + n[None, :], tl.dot(a, b, input_precision="ieee"))


@triton.jit
def transpose(x_ptr, out_ptr, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    inside = (r < rows)[:, None] & (c < cols)[None, :]
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=inside)
    tl.store(out_ptr + c[:, None] * rows + r[None, :], tl.trans(x), mask=tl.trans(inside))


@triton.jit
def stencil(x_ptr, out_ptr, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    """The five-point average of the inner points."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)[:, None]
    c = tl.program_id(1) * BC + tl.arange(0, BC)[None, :]
    inside = (r > 0) & (r < rows - 1) & (c > 0) & (c < cols - 1)
    at = x_ptr + r * cols + c
    total = tl.load(at, mask=inside)
    total += tl.load(at - 1, mask=inside)
    total += tl.load(at + 1, mask=inside)
    total += tl.load(at - cols, mask=inside)
    total += tl.load(at + cols, mask=inside)
    tl.store(out_ptr + r * cols + c, total * 0.2, mask=inside)


@triton.jit
def n_body(x_ptr, y_ptr, z_ptr, mass_ptr, ax_ptr, ay_ptr, az_ptr, n, soft, BI: tl.constexpr, BJ: tl.constexpr):
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    mine = i < n
    x, y, z = tl.load(x_ptr + i, mask=mine), tl.load(y_ptr + i, mask=mine), tl.load(z_ptr + i, mask=mine)
    ax = tl.zeros((BI,), tl.float32)
    ay = tl.zeros((BI,), tl.float32)
    az = tl.zeros((BI,), tl.float32)
    for start in range(0, n, BJ):
        j = start + tl.arange(0, BJ)
        theirs = j < n
        dx = tl.load(x_ptr + j, mask=theirs, other=0.0)[None, :] - x[:, None]
        dy = tl.load(y_ptr + j, mask=theirs, other=0.0)[None, :] - y[:, None]
        dz = tl.load(z_ptr + j, mask=theirs, other=0.0)[None, :] - z[:, None]
        inverse = tl.rsqrt(dx * dx + dy * dy + dz * dz + soft)
        pull = tl.load(mass_ptr + j, mask=theirs, other=0.0)[None, :] * inverse * inverse * inverse
        ax += tl.sum(pull * dx, 1)
        ay += tl.sum(pull * dy, 1)
        az += tl.sum(pull * dz, 1)
    tl.store(ax_ptr + i, ax, mask=mine)
    tl.store(ay_ptr + i, ay, mask=mine)
    tl.store(az_ptr + i, az, mask=mine)


@triton.jit
def mandelbrot(out_ptr, width, height, x0, y0, dx, dy, limit, BLOCK: tl.constexpr):
    """Steps until a point escapes; a block of a row a program, which stops when all its points have."""
    row = tl.program_id(1)
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cr = x0 + col * dx
    ci = y0 + row * dy
    zr = tl.zeros((BLOCK,), tl.float32)
    zi = tl.zeros((BLOCK,), tl.float32)
    steps = tl.zeros((BLOCK,), tl.int32)
    inside = col < width
    count = 0
    while (count < limit) & (tl.max(inside.to(tl.int32), 0) > 0):
        new_zr = zr * zr - zi * zi + cr
        zi = 2 * zr * zi + ci
        zr = new_zr
        inside = inside & (zr * zr + zi * zi < 4.0)
        steps += inside.to(tl.int32)
        count += 1
    tl.store(out_ptr + row * width + col, steps, mask=col < width)
