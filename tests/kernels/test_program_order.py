"""Launches whose programs run in another order than x, y, z: each runs once, with its own ids."""

from __future__ import annotations

import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")

N = 16


@triton.jit
def y_along_rows(out, plane, stride, N: tl.constexpr):
    p, q, r = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i = tl.arange(0, N)
    tl.store(out + r * plane + p * stride + q * N + i, p * 1000 + q * 100 + r * 20 + i)


@triton.jit
def z_along_rows(out, plane, stride, N: tl.constexpr):
    p, q, r = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i = tl.arange(0, N)
    tl.store(out + q * plane + p * stride + r * N + i, p * 1000 + q * 100 + r * 20 + i)


@pytest.mark.parametrize("kernel, axes", [(y_along_rows, (2, 0, 1)), (z_along_rows, (1, 0, 2))])
@pytest.mark.parametrize("grid", [(1, 1, 1), (3, 5, 1), (5, 3, 2), (1, 7, 3), (7, 1, 2), (4, 1, 9)])
def test_every_program_runs_once(kernel: object, axes: tuple[int, int, int], grid: tuple[int, int, int]) -> None:
    planes, rows, blocks = (grid[axis] for axis in axes)
    out = np.full((planes, rows, blocks * N), -1, np.int32)
    compiled = kernel[grid](out, rows * blocks * N, blocks * N, N=N)  # type: ignore[index]
    ids = dict(zip(axes, np.indices((planes, rows, blocks)), strict=True))
    want = (ids[0] * 1000 + ids[1] * 100 + ids[2] * 20)[..., None] + np.arange(N)
    assert np.array_equal(out, want.reshape(out.shape))
    assert "tt.get_program_id z" in compiled.asm["ttir"]
