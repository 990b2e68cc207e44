"""A Triton kernel beside the CUDA one of test_operators.py: Triton reads its source from a file."""

import triton
import triton.language as tl


@triton.jit
def negate_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, -tl.load(x + i, i < n), i < n)
