"""Layer norm, forward and backward.

The gradients of weight and bias sum over all rows. Two ways are shown: partial sums, each guarded by a lock made of
`atomic_cas` and `atomic_xchg`, which a second kernel adds up; and plain `atomic_add` into the result.
"""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl
from anyarray import empty, float64, max_error, strides, zeros


@triton.jit
def forward_kernel(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, x_stride, y_stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask).to(tl.float32)
    y = (x - mean) * rstd * w + b
    tl.store(y_ptr + row * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def input_gradient(x_ptr, w_ptr, dy_ptr, dx_ptr, mean_ptr, rstd_ptr, row, stride, N, BLOCK: tl.constexpr):
    """Writes one row of dx; returns that row's share of dw and of db."""
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    x_hat = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    g = w * dy
    along_x = tl.sum(x_hat * g, axis=0) / N
    along_1 = tl.sum(g, axis=0) / N
    dx = (g - x_hat * along_x - along_1) * rstd
    tl.store(dx_ptr + row * stride + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    return dy * x_hat, dy


@triton.jit
def backward_locked_kernel(
    x_ptr, w_ptr, dy_ptr, dx_ptr, dw_ptr, db_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, N, SLOTS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    dw, db = input_gradient(x_ptr, w_ptr, dy_ptr, dx_ptr, mean_ptr, rstd_ptr, row, stride, N, BLOCK)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    slot = row % SLOTS
    dw_slot = dw_ptr + slot * N + cols
    db_slot = db_ptr + slot * N + cols
    while tl.atomic_cas(lock_ptr + slot, 0, 1) == 1:
        pass
    tl.store(dw_slot, tl.load(dw_slot, mask=mask) + dw, mask=mask)
    tl.store(db_slot, tl.load(db_slot, mask=mask) + db, mask=mask)
    tl.debug_barrier()  # every thread of the program has stored before the lock opens
    tl.atomic_xchg(lock_ptr + slot, 0)


@triton.jit
def sum_slots_kernel(dw_slots_ptr, db_slots_ptr, dw_ptr, db_ptr, N, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slots = tl.arange(0, SLOTS)
    mask = (cols < N)[None, :]
    offsets = slots[:, None] * N + cols[None, :]
    dw = tl.sum(tl.load(dw_slots_ptr + offsets, mask=mask, other=0.0), axis=0)
    db = tl.sum(tl.load(db_slots_ptr + offsets, mask=mask, other=0.0), axis=0)
    tl.store(dw_ptr + cols, dw, mask=cols < N)
    tl.store(db_ptr + cols, db, mask=cols < N)


@triton.jit
def backward_atomic_kernel(
    x_ptr, w_ptr, dy_ptr, dx_ptr, dw_ptr, db_ptr, mean_ptr, rstd_ptr, stride, N, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    dw, db = input_gradient(x_ptr, w_ptr, dy_ptr, dx_ptr, mean_ptr, rstd_ptr, row, stride, N, BLOCK)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    tl.atomic_add(dw_ptr + cols, dw, mask=mask)
    tl.atomic_add(db_ptr + cols, db, mask=mask)


def layer_norm(x, weight, bias, eps: float = 1e-5, out=None, mean=None, rstd=None):
    """Layer norm of the rows of x (M, N); returns (y, mean, 1/std), the last two (M,) f32 for the backward pass."""
    n_rows, n_cols = x.shape
    y = empty(x) if out is None else out
    mean = empty(x, (n_rows,), "float32") if mean is None else mean
    rstd = empty(x, (n_rows,), "float32") if rstd is None else rstd
    block = triton.next_power_of_2(n_cols)
    forward_kernel[(n_rows,)](
        x, weight, bias, y, mean, rstd, strides(x)[0], strides(y)[0], n_cols, eps, BLOCK=block
    )  # fmt: skip
    return y, mean, rstd


def layer_norm_backward(dy, x, weight, mean, rstd, atomic: bool = False, slots: int = 16):
    """Gradients (dx, dw, db); x and dy are dense rows. `atomic`: dw and db by atomic_add, not by locked partial sums."""
    n_rows, n_cols = x.shape
    dx = empty(x)
    dw, db = zeros(x, (n_cols,), "float32"), zeros(x, (n_cols,), "float32")
    block = triton.next_power_of_2(n_cols)
    if atomic:
        backward_atomic_kernel[(n_rows,)](x, weight, dy, dx, dw, db, mean, rstd, n_cols, n_cols, BLOCK=block)
        return dx, dw, db
    dw_slots, db_slots = zeros(x, (slots, n_cols), "float32"), zeros(x, (slots, n_cols), "float32")
    locks = zeros(x, (slots,), "int32")
    backward_locked_kernel[(n_rows,)](
        x, weight, dy, dx, dw_slots, db_slots, mean, rstd, locks, n_cols, n_cols, SLOTS=slots, BLOCK=block
    )  # fmt: skip
    sum_slots_kernel[(triton.cdiv(n_cols, 128),)](dw_slots, db_slots, dw, db, n_cols, SLOTS=slots, BLOCK=128)
    return dx, dw, db


def reference(x, weight, bias, eps: float = 1e-5) -> np.ndarray:
    x = float64(x)
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps) * float64(weight) + float64(bias)


def reference_backward(dy, x, weight, eps: float = 1e-5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dy, x = float64(dy), float64(x)
    centred = x - x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps)
    x_hat, g = centred * rstd, dy * float64(weight)
    dx = (g - x_hat * (x_hat * g).mean(axis=1, keepdims=True) - g.mean(axis=1, keepdims=True)) * rstd
    return dx, (dy * x_hat).sum(axis=0), dy.sum(axis=0)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    a, grad = rng.standard_normal((2, 151, 1021), np.float32)
    w, b = rng.standard_normal((2, 1021), np.float32)
    y, m, r = layer_norm(a, w, b)
    print("layer norm, 151 x 1021, max error", max_error(y, reference(a, w, b)))
    for atomic in (False, True):
        pairs = zip(layer_norm_backward(grad, a, w, m, r, atomic=atomic), reference_backward(grad, a, w), strict=True)
        print(f"  backward, atomic={atomic}, max error", max(max_error(got, want) for got, want in pairs))
