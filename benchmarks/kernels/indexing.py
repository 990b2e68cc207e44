"""Kernels whose addresses are loaded: gathers, scatters, counts."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def embedding(index_ptr, table_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < width
    source = tl.load(index_ptr + row)
    tl.store(out_ptr + row * width + i, tl.load(table_ptr + source * width + i, mask=inside), mask=inside)


@triton.jit
def segment_sum(values_ptr, starts_ptr, out_ptr, width, BLOCK: tl.constexpr):
    """The sums of runs of rows, whose bounds are loaded."""
    segment = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < width
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.load(starts_ptr + segment), tl.load(starts_ptr + segment + 1)):
        total += tl.load(values_ptr + row * width + i, mask=inside)
    tl.store(out_ptr + segment * width + i, total, mask=inside)


@triton.jit
def histogram(x_ptr, out_ptr, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    counts = tl.histogram(tl.load(x_ptr + i, mask=inside, other=0), BINS, mask=inside)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), counts)
