"""Omnikernel: stock Triton kernels, compiled to native code on the CPU.

Installing the package is enough: Triton finds the backend `cpu` by its entry point, and `kernel[grid](...)` takes NumPy
arrays, torch CPU tensors and everything else that DLPack or the array interface describes.
"""

from __future__ import annotations

__version__ = "0.1.0"
