"""The TTIR reader: MLIR text of Triton 3.6 to 3.9 in, a `Kernel` of tile IR out. The only place that knows MLIR's syntax."""

from __future__ import annotations

from .parse import parse

__all__ = ["parse"]
