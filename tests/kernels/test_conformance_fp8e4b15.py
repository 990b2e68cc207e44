"""`tl.float8e4b15`, which MLIR has no type for: arguments of it, and conversions with the bits that a GPU gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
ml_dtypes = pytest.importorskip("ml_dtypes")
import triton.language as tl  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")

BYTES = np.arange(256, dtype=np.uint8)
# Bias 15 and 3 bits of mantissa: ml_dtypes has it with bias 11 only, and with a NaN at 0x80.
WIDE = np.where(BYTES < 128, 1.0, -1.0) * np.where(
    BYTES & 0x78, 2.0 ** (((BYTES >> 3) & 15) - 15.0) * (1 + (BYTES & 7) / 8), (BYTES & 7) / 8 * 2.0**-14
)


@triton.jit
def _widen(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at).to(y.dtype.element_ty))


@triton.jit
def _narrow(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at).to(tl.float8e4b15))


@triton.jit
def _narrow_scalar(x, y):
    tl.store(y, tl.load(x).to(tl.float8e4b15))


def _as_fp8(array: np.ndarray) -> Any:
    """The dtype that arrays of this type are passed with."""
    return array.view(ml_dtypes.float8_e4m3b11fnuz)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_widening_is_exact(dtype: Any) -> None:
    out = np.zeros(256, dtype)
    _widen[(1,)](_as_fp8(BYTES.copy()), out, N=256)
    np.testing.assert_array_equal(out.astype(np.float64), WIDE)
    assert np.signbit(out.astype(np.float64))[128]


def _nearest(value: float) -> int:
    """The byte nearest to a value cut to f16, ties away from zero, clamped to 1.75."""
    magnitudes = WIDE[:0x7F]
    distance = np.abs(magnitudes - min(abs(value), 1.75))
    byte = int(np.flatnonzero(distance == distance.min())[-1])
    return byte | (0x80 if np.signbit(value) else 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrowing_rounds_ties_away_and_clamps(dtype: Any) -> None:
    halves = WIDE[:0x7E] + np.diff(WIDE[:0x7F]) / 2
    values = np.concatenate([halves, -halves, WIDE, [3.0, -np.inf, 1.8125, 0.0, -0.0]]).astype(dtype)
    values = np.resize(values, 512)
    out = np.zeros(512, np.uint8)
    _narrow[(1,)](values, _as_fp8(out), N=512)
    assert out.tolist() == [_nearest(value) for value in values.astype(np.float64)]


def test_narrowing_nan_gives_the_largest() -> None:
    out = np.zeros(2, np.uint8)
    _narrow[(1,)](np.array([np.nan, -np.nan], np.float32), _as_fp8(out), N=2)
    assert (out & 0x7F).tolist() == [0x7E, 0x7E]


def test_f32_is_cut_before_it_is_rounded() -> None:
    """Just below a tie: rounding to f16 first would reach the tie, which goes up."""
    below = np.nextafter(np.float32(1.0625), np.float32(0))
    out = np.zeros(1, np.uint8)
    _narrow_scalar[(1,)](np.array([below]), _as_fp8(out))
    assert out[0] == 0x78
