"""Three operators with prebuilt kernels: two in Triton, one in C++."""

from .operators import interpolate, rms_norm, silu_mul

__all__ = ["interpolate", "rms_norm", "silu_mul"]
