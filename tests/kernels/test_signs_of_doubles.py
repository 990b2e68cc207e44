"""A sign that comes from f64, on a number that is rounded to f16: no function from f64 to f16 exists to call."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice

DOUBLES = np.array(
    [-2.75, -1.5, -0.0, 0.25, 0.5, 1.625, 70000.0, -1e-7, 3.3, -3.3, 5e-5, 1e4, -65519.0, 2.5, -0.5, 7.0]
)


@triton.jit
def signed_tile(x_ptr, out_ptr, HOW: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    narrow = x.to(tl.float32)
    if HOW == "toward zero":
        tl.store(out_ptr + i, narrow.to(tl.float16, fp_downcast_rounding="rtz"))
    elif HOW == "round":
        tl.store(out_ptr + i, libdevice.round(narrow).to(tl.float16))
    elif HOW == "round in f64":
        tl.store(out_ptr + i, libdevice.round(x).to(tl.float32).to(tl.float16))
    else:
        tl.store(out_ptr + i, libdevice.copysign(tl.full((N,), 3.0, tl.float32), narrow).to(tl.float16))


@triton.jit
def signed_scalar(x_ptr, out_ptr, HOW: tl.constexpr):
    x_ptr += tl.program_id(0)
    out_ptr += tl.program_id(0)
    x = tl.load(x_ptr)
    narrow = x.to(tl.float32)
    if HOW == "toward zero":
        tl.store(out_ptr, narrow.to(tl.float16, fp_downcast_rounding="rtz"))
    elif HOW == "round":
        tl.store(out_ptr, libdevice.round(narrow).to(tl.float16))
    elif HOW == "round in f64":
        tl.store(out_ptr, libdevice.round(x).to(tl.float32).to(tl.float16))
    else:
        tl.store(out_ptr, libdevice.copysign(tl.abs(narrow) * 0 + 3.0, narrow).to(tl.float16))


def toward_zero(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        near = x.astype(np.float32).astype(np.float16)
    return np.where(np.abs(near.astype(np.float64)) > np.abs(x), np.nextafter(near, np.float16(0)), near)


def rounded(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.copysign(np.floor(np.abs(x) + 0.5), x).astype(np.float16)


WANT = {
    "toward zero": toward_zero,
    "round": rounded,
    "round in f64": rounded,
    "sign alone": lambda x: np.copysign(3.0, x).astype(np.float16),
}


@pytest.mark.parametrize("how", WANT)
def test_signs_of_doubles_on_halves(how: str) -> None:
    tile, scalars = np.empty(16, np.float16), np.empty(16, np.float16)
    signed_tile[(1,)](DOUBLES, tile, HOW=how, N=16)
    signed_scalar[(16,)](DOUBLES, scalars, HOW=how)
    want = WANT[how](DOUBLES)
    np.testing.assert_array_equal(tile.view(np.uint16), want.view(np.uint16))
    np.testing.assert_array_equal(scalars.view(np.uint16), want.view(np.uint16))
