"""Row softmax in one pass over memory, with one program a row, or with few programs that loop over the rows."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl
from anyarray import empty, float64, max_error, strides


@triton.jit
def softmax_kernel(x_ptr, out_ptr, x_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=-float("inf"))
    # Subtracting the row's maximum keeps exp from overflowing and does not change the quotient.
    e = tl.exp(x.to(tl.float32) - tl.max(x.to(tl.float32), axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(out_ptr + row * out_stride + cols, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_persistent_kernel(x_ptr, out_ptr, x_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=-float("inf"))
        e = tl.exp(x.to(tl.float32) - tl.max(x.to(tl.float32), axis=0))
        y = e / tl.sum(e, axis=0)
        tl.store(out_ptr + row * out_stride + cols, y.to(out_ptr.dtype.element_ty), mask=mask)


def softmax(x, out=None, programs: int | None = None):
    """Softmax along the last axis of a matrix (rows, columns); columns lie side by side in memory.

    Args:
        x: (M, N) floating point.
        out: where to write; a new array of the kind of `x` by default.
        programs: None for one program a row, else the number of programs that share the rows.
    """
    out = empty(x) if out is None else out
    n_rows, n_cols = x.shape
    block = triton.next_power_of_2(n_cols)
    if programs is None:
        softmax_kernel[(n_rows,)](x, out, strides(x)[0], strides(out)[0], n_cols, BLOCK=block)
    else:
        grid = (min(programs, n_rows),)
        softmax_persistent_kernel[grid](x, out, strides(x)[0], strides(out)[0], n_rows, n_cols, BLOCK=block)
    return out


def reference(x) -> np.ndarray:
    x = float64(x)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    a = np.random.default_rng(0).standard_normal((127, 781), np.float32)
    print("softmax, 127 x 781, max error", max_error(softmax(a), reference(a)))
    print("softmax, persistent, max error", max_error(softmax(a, programs=8), reference(a)))
