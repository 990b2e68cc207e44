"""The Triton kernels, as one writes them, and what of them is prebuilt."""

import triton
import triton.language as tl

import omnikernel


@omnikernel.prebuild("*fp32, *fp32, *fp32, i32", "*bf16, *bf16, *bf16, i32", constants={"BLOCK": 1024})
@triton.jit
def silu_mul(x_ptr, gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    gate = tl.load(gate_ptr + i, mask=i < n).to(tl.float32)
    tl.store(out_ptr + i, x * gate / (1.0 + tl.exp(-gate)), mask=i < n)


@omnikernel.prebuild(
    "*fp32, *fp32, *fp32, i32, fp32", constants=[{"BLOCK": 256}, {"BLOCK": 1024}, {"BLOCK": 4096, "num_warps": 8}]
)
@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + i, mask=i < n, other=0.0)
    scale = tl.rsqrt(tl.sum(x * x) / n + eps)
    tl.store(out_ptr + row * n + i, x * scale * tl.load(weight_ptr + i, mask=i < n), mask=i < n)
