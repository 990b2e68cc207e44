"""Arrays at a place of their own within a cache line: a helper for the tests beside it."""

from __future__ import annotations

from typing import Any

import numpy as np


def after_line(count: int, offset: int, dtype: Any, value: int = -7) -> np.ndarray:
    """`count` elements that begin `offset` elements after a cache line, all of one value."""
    size = np.dtype(dtype).itemsize
    raw = np.full(count * size + 4096, 0, np.uint8)
    start = -raw.ctypes.data % 64 + offset * size
    made = raw[start : start + count * size].view(dtype)
    made[:] = value
    return made
