"""Operators that several tests of this folder use."""

import triton
import triton.language as tl

import omnikernel
from omnikernel import Array, DType


@triton.jit
def scale_kernel(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)


@triton.jit
def increment_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) + 1, i < n)


@triton.jit
def outer_kernel(x, y, out, m, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < m * n
    tl.store(out + i, tl.load(x + i // n, keep) * tl.load(y + i % n, keep), keep)


@triton.jit
def gather_rows_kernel(x, out, stride_r, stride_c, rows, columns, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    tl.store(out + r * columns + c, tl.load(x + r * stride_r + c * stride_c, c < columns), c < columns)


def blocks(n):
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


@omnikernel.op("tests::scale")
def scale(x: Array, factor: float = 2.0) -> Array:
    out = omnikernel.empty_like(x)
    scale_kernel[blocks(x.size)](x, out, x.size, factor, BLOCK=64)
    return out


scale.def_vjp(lambda saved, grad: scale(grad, saved[0]), save=lambda x, factor, out: (factor,))


@omnikernel.op("tests::increment_", mutates=("x",))
def increment_(x: Array) -> None:
    increment_kernel[blocks(x.size)](x, x.size, BLOCK=64)


@omnikernel.op("tests::outer")
def outer(x: Array, y: Array) -> Array:
    out = omnikernel.empty((x.shape[0], y.shape[0]), x.dtype)
    outer_kernel[blocks(out.size)](x, y, out, x.shape[0], y.shape[0], BLOCK=64)
    return out


outer.def_vjp(
    lambda saved, grad: ((grad * saved[1]).sum(-1), (grad * saved[0][:, None]).sum(0)), save=lambda x, y, out: (x, y)
)


@omnikernel.op("tests::dense_copy", strided=("x",))
def dense_copy(x: Array) -> Array:
    out = omnikernel.empty(x.shape, x.dtype)
    gather_rows_kernel[(x.shape[0],)](x, out, x.stride(0), x.stride(1), x.shape[0], x.shape[1], BLOCK=64)
    return out


@omnikernel.op("tests::everything")
def everything(
    x: Array,
    more: list[Array],
    maybe: Array | None = None,
    sizes: tuple[int, ...] = (1, 2),
    *,
    flag: bool = True,
    mode: str = "sum",
    dtype: DType | None = None,
) -> tuple[Array, Array]:
    one, two = omnikernel.empty_like(x, dtype=dtype), omnikernel.zeros(sizes, x.dtype)
    factor = 1.0 * flag + len(more) + (maybe is not None) + (10 if mode == "ten" else 0)
    scale_kernel[blocks(x.size)](x, one, x.size, factor, BLOCK=64)
    return one, two


@omnikernel.op("tests::tenfold")
def tenfold(x: Array, more: list[Array], maybe: Array | None = None) -> tuple[Array, Array]:
    first, second = everything(scale(x, 5.0), [x, *more], maybe, x.shape, flag=False, mode="ten")
    increment_(second)
    return scale(first, factor=0.5).reshape(-1), second


@omnikernel.op("tests::two_steps_", mutates=("x",))
def two_steps_(x: Array) -> None:
    increment_(x)
    increment_kernel[blocks(x.size)](x, x.size, BLOCK=64)
    increment_(x=x.reshape(-1))
