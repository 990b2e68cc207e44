"""The operators: what users of the package call, on arrays of any library."""

import omnikernel

from . import native

# The module `kernels` itself in a checkout; in an installed wheel its prebuilt kernels, without importing Triton.
kernels = omnikernel.shipped(".kernels", __package__)


@omnikernel.op("demo_kernels::silu_mul")
def silu_mul(x: omnikernel.Array, gate: omnikernel.Array) -> omnikernel.Array:
    out = omnikernel.empty_like(x)
    kernels.silu_mul[(omnikernel.cdiv(x.size, 1024),)](x, gate, out, x.size, BLOCK=1024)
    return out


@omnikernel.op("demo_kernels::rms_norm")
def rms_norm(x: omnikernel.Array, weight: omnikernel.Array, eps: float = 1e-6) -> omnikernel.Array:
    rows, n = x.shape
    block = next(size for size in (256, 1024, 4096) if n <= size)
    out = omnikernel.empty_like(x)
    kernels.rms_norm[(rows,)](x, weight, out, n, eps, BLOCK=block, num_warps=8 if block == 4096 else 4)
    return out


@omnikernel.op("demo_kernels::interpolate")
def interpolate(x: omnikernel.Array, table: omnikernel.Array) -> omnikernel.Array:
    out = omnikernel.empty_like(x)
    native.interpolate(x, table, out)
    return out
