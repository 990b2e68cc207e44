"""What a caller may hand to a launch, and what must come of it: one function a behaviour.

Each runs compiled, in Triton's interpreter, and with torch and jax hidden: test_launches.py calls `run_all` in a
process of its own for the modes that need one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import triton
import triton.language as tl


@dataclass(frozen=True, slots=True)
class Case:
    """A behaviour. `needs`: the library it is about; `interpreted`: whether it also holds in Triton's interpreter."""

    check: Callable[[], None]
    needs: str
    interpreted: bool


CASES: dict[str, Case] = {}


def case(needs: str = "", interpreted: bool = True) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def register(check: Callable[[], None]) -> Callable[[], None]:
        CASES[check.__name__] = Case(check, needs, interpreted)
        return check

    return register


def same(got: object, want: object) -> None:
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def refused(launch: Callable[[], object], kinds: tuple[type[Exception], ...], *words: str) -> None:
    """The launch raises one of `kinds`, with all the words in its message."""
    try:
        launch()
    except kinds as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"the message lacks {missing}: {error}"
        return
    raise AssertionError("nothing was raised")


@triton.jit
def copy_kernel(src_ptr, dst_ptr, n, src_step, dst_step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(dst_ptr + i * dst_step, tl.load(src_ptr + i * src_step, mask=mask), mask=mask)


@triton.jit
def where_am_i_kernel(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(out_ptr + x + nx * (y + ny * z), 100 * x + 10 * y + z)


@triton.jit
def mix_kernel(sources, weights, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.load(sources[0] + i) * weights[0]
    total += tl.load(sources[1] + i) * weights[1]
    tl.store(out_ptr + i, total)


@triton.jit
def flip_kernel(src_ptr, dst_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(dst_ptr + i, ~tl.load(src_ptr + i))


@triton.jit
def maybe_bias_kernel(x_ptr, bias_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + i)
    tl.store(out_ptr + i, x)


@triton.jit
def product_kernel(out_ptr, a, b):
    tl.store(out_ptr, a * b)


@triton.jit
def fill_2d_kernel(ptr, step_0, step_1, value, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(ptr + i * step_0 + j * step_1, value)


@triton.jit
def count_kernel(values_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.atomic_add(counts_ptr + tl.load(values_ptr + i, mask=mask, other=0), 1, mask=mask)


@triton.jit
def stop_early_kernel(out_ptr, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    tl.store(out_ptr + pid, 1)


@triton.jit
def choose_kernel(out_ptr, flag, scale):
    if flag:
        tl.store(out_ptr, scale)
    else:
        tl.store(out_ptr, -scale)


SIZES = [triton.Config({"BLOCK": size}) for size in (16, 64)]
tuned_copy_kernel = triton.autotune(configs=SIZES, key=["n"])(copy_kernel)
tuned_count_kernel = triton.autotune(configs=SIZES, key=["n"], reset_to_zero=["counts_ptr"])(count_kernel)


@case()
def numpy_arrays_as_they_are() -> None:
    x, out = np.arange(100, dtype=np.float32), np.full(128, -1, np.float32)
    copy_kernel[(4,)](x, out, 100, 1, 1, BLOCK=32)
    same(out[:100], x)
    same(out[100:], np.full(28, -1))


@case()
def numpy_scalars_as_arguments() -> None:
    x, out = np.arange(32, dtype=np.int16), np.zeros(16, np.int16)
    copy_kernel[(1,)](x, out, np.int64(16), np.int32(2), np.uint8(1), BLOCK=16)
    same(out, x[::2])


@case()
def numpy_float_scalars() -> None:
    out = np.zeros(1, np.float32)
    product_kernel[(1,)](out, np.float32(2.5), np.float64(3))
    same(out, [7.5])


@case(interpreted=False)  # Triton 3.7's interpreter refuses Python's own bools there
def numpy_bool_scalars() -> None:
    out = np.zeros(1, np.float32)
    choose_kernel[(1,)](out, np.bool_(True), 2.5)
    same(out, [2.5])
    choose_kernel[(1,)](out, np.bool_(False), 2.5)
    same(out, [-2.5])


@case()
def grid_as_a_list() -> None:
    out = np.zeros(3, np.int32)
    where_am_i_kernel[[3]](out)
    same(out, [0, 100, 200])


@case()
def grid_of_three_dimensions_with_numpy_integers() -> None:
    out = np.zeros(24, np.int32)
    where_am_i_kernel[(np.int64(2), np.int32(3), 4)](out)
    same(out, [100 * x + 10 * y + z for z in range(4) for y in range(3) for x in range(2)])


@case()
def grid_as_a_function() -> None:
    x, out = np.arange(50, dtype=np.int8), np.zeros(50, np.int8)
    copy_kernel[lambda meta: (triton.cdiv(50, meta["BLOCK"]),)](x, out, 50, 1, 1, BLOCK=16)
    same(out, x)


@case()
def keyword_arguments() -> None:
    x, out = np.arange(8, dtype=np.float64), np.zeros(8)
    copy_kernel[(1,)](dst_ptr=out, src_ptr=x, n=8, BLOCK=8, dst_step=1, src_step=1)
    same(out, x)


@case()
def tuples_of_arrays_and_numbers() -> None:
    x, y, out = np.arange(8, dtype=np.float32), np.ones(8, np.float32), np.zeros(8, np.float32)
    mix_kernel[(1,)]((x, y), (2, 5), out, BLOCK=8)
    same(out, 2 * x + 5)


@case()
def none_as_an_argument() -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    maybe_bias_kernel[(1,)](x, None, out, BLOCK=8)
    same(out, x)
    maybe_bias_kernel[(1,)](x, x, out, BLOCK=8)
    same(out, 2 * x)


@case()
def bool_arrays() -> None:
    x, out = np.array([True, False, False, True]), np.zeros(4, bool)
    flip_kernel[(1,)](x, out, BLOCK=4)
    same(out.view(np.uint8), [0, 1, 1, 0])


@case()
def bf16_arrays() -> None:
    x = np.array([1.0, -0.0, 3.140625, np.inf], ml_dtypes.bfloat16)
    out = np.zeros(4, ml_dtypes.bfloat16)
    copy_kernel[(1,)](x, out, 4, 1, 1, BLOCK=4)
    same(out.view(np.uint16), x.view(np.uint16))


@case()
def views_are_written_in_place_and_nothing_else_is() -> None:
    base = np.zeros((8, 16), np.float32)
    view = base[2:6, 1:9:2]
    fill_2d_kernel[(1,)](view, view.strides[0] // 4, view.strides[1] // 4, 3.0, M=4, N=4)
    want = np.zeros((8, 16), np.float32)
    want[2:6, 1:9:2] = 3
    same(base, want)


@case()
def negative_strides() -> None:
    x, out = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    copy_kernel[(1,)](x[::-1], out, 8, -1, 1, BLOCK=8)
    same(out, x[::-1])


@case()
def arrays_without_dimensions() -> None:
    x, out = np.array(5, np.int64), np.array(0, np.int64)
    copy_kernel[(1,)](x, out, 1, 1, 1, BLOCK=1)
    assert out == 5


@case()
def empty_arrays_and_an_empty_grid() -> None:
    x, out = np.zeros(0, np.float32), np.zeros(0, np.float32)
    copy_kernel[(1,)](x, out, 0, 1, 1, BLOCK=8)
    copy_kernel[(0,)](x, out, 0, 1, 1, BLOCK=8)
    where_am_i_kernel[(2, 0, 3)](out)


@case()
def read_only_arrays_are_read() -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    x.flags.writeable = False
    copy_kernel[(1,)](x, out, 8, 1, 1, BLOCK=8)
    same(out, x)


@case()
def read_only_arrays_are_not_written() -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    out.flags.writeable = False
    refused(lambda: copy_kernel[(1,)](x, out, 8, 1, 1, BLOCK=8), (TypeError, ValueError), "dst_ptr", "copy_kernel")
    same(out, np.zeros(8))


@case(interpreted=False)
def foreign_byte_order_is_refused() -> None:
    x, out = np.arange(8, dtype=">f4"), np.zeros(8, np.float32)
    refused(lambda: copy_kernel[(1,)](x, out, 8, 1, 1, BLOCK=8), (TypeError, ValueError), "src_ptr", "byte order")


@case(interpreted=False)
def object_arrays_are_refused() -> None:
    x, out = np.array([None] * 8), np.zeros(8, np.float32)
    refused(lambda: copy_kernel[(1,)](x, out, 8, 1, 1, BLOCK=8), (TypeError, ValueError), "src_ptr")


@case()
def integers_beyond_32_bits_stay_whole() -> None:
    out = np.zeros(1, np.int64)
    product_kernel[(1,)](out, 3_000_000_019, 3)
    assert out[0] == 9_000_000_057


@case(interpreted=False)
def float_arguments_are_32_bits_wide() -> None:
    out = np.zeros(1, np.float64)
    product_kernel[(1,)](out, 0.1, 1.0)
    assert out[0] == np.float64(np.float32(0.1))


@case()
def atomics_return_every_count() -> None:
    values = np.random.default_rng(0).integers(0, 7, 1000, dtype=np.int32)
    counts = np.zeros(7, np.int32)
    count_kernel[(triton.cdiv(1000, 64),)](values, counts, 1000, BLOCK=64)
    same(counts, np.bincount(values, minlength=7))


@case()
def programs_may_return_early() -> None:
    out = np.zeros(8, np.int32)
    stop_early_kernel[(8,)](out, 3)
    same(out, [1, 1, 1, 0, 0, 0, 0, 0])


@case(interpreted=False)
def constants_of_an_enclosing_function() -> None:
    step = tl.constexpr(5)

    @triton.jit
    def shift_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i) + step)

    x, out = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    shift_kernel[(1,)](x, out, BLOCK=4)
    same(out, x + 5)


@case()
def autotuned_kernels() -> None:
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    tuned_copy_kernel[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, out, 100, 1, 1)
    same(out, x)


@case()
def autotuning_does_not_add_up_twice() -> None:
    values, counts = np.ones(100, np.int32), np.zeros(2, np.int32)
    tuned_count_kernel[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](values, counts, 100)
    same(counts, [0, 100])


@case(needs="jax")
def jax_arrays_are_read() -> None:
    import jax.numpy as jnp

    x, out = jnp.arange(8, dtype=jnp.float32), np.zeros(8, np.float32)
    copy_kernel[(1,)](x, out, 8, 1, 1, BLOCK=8)
    same(out, x)


@case(needs="jax")
def jax_arrays_are_not_written() -> None:
    import jax.numpy as jnp

    x, out = np.arange(8, dtype=np.float32), jnp.zeros(8)
    refused(lambda: copy_kernel[(1,)](x, out, 8, 1, 1, BLOCK=8), (TypeError, ValueError), "dst_ptr", "immutable")
    same(out, np.zeros(8))


@case(needs="torch")
def torch_tensors_beside_numpy_arrays() -> None:
    import torch

    x, out = torch.arange(8, dtype=torch.bfloat16), np.zeros(8, ml_dtypes.bfloat16)
    copy_kernel[(1,)](x, out, 8, 1, 1, BLOCK=8)
    same(out.astype(np.float32), x.float().numpy())


def run_all(hide: bool) -> None:
    """Run what fits this process, and print a line of JSON a case: its name and its error, "" where it passed."""
    interpreted = bool(os.environ.get("TRITON_INTERPRET"))
    for name, entry in CASES.items():
        if (interpreted and not entry.interpreted) or (hide and entry.needs):
            continue
        try:
            entry.check()
            error = ""
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        print(json.dumps({"name": name, "error": error}), flush=True)
    imported = sorted(name for name in ("torch", "jax") if sys.modules.get(name) is not None)
    print(json.dumps({"name": "imported", "error": ", ".join(imported)}), flush=True)
