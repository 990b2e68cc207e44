"""Loads whose operands differ in whether they vary from lane to lane."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl
from tile_run import random, run


@triton.jit
def one_place(x, fallback, y, keep, N: tl.constexpr):
    i = tl.arange(0, N)
    other = tl.load(fallback + i)
    tl.store(y + i, tl.load(tl.broadcast_to(x, (N,)), tl.broadcast_to(keep > 0, (N,)), other))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "bool", "float8_e5m2"])
@pytest.mark.parametrize("keep", [0, 1])
def test_one_place_or_else_a_tile(dtype: str, keep: int) -> None:
    """Pointer and mask are the same for all lanes, and what stands where the mask is off is not."""
    rng = np.random.default_rng(5)
    x, fallback = random(rng, dtype, (1,)), random(rng, dtype, (64,))
    *_, y = run(one_place, x, fallback, np.zeros_like(fallback), keep, N=64)
    assert (y == (x if keep else fallback)).all()


@triton.jit
def running_sums(x, fallback, y, keep, N: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, N)
    other = tl.load(fallback + row)
    first = tl.load(tl.broadcast_to(x, (N,)), tl.broadcast_to(keep > 0, (N,)), tl.broadcast_to(other, (N,)))
    tl.store(y + row * N + i, tl.cumsum(first + tl.load(x + row * N + i), 0))


@pytest.mark.parametrize("keep", [0, 1])
def test_programs_side_by_side(keep: int) -> None:
    """Rows of running sums run together: what is the same for a row differs between the lanes."""
    rng = np.random.default_rng(6)
    x, fallback = random(rng, "float32", (13, 128)), random(rng, "float32", (13,))
    run(running_sums, x, fallback, np.zeros_like(x), keep, grid=(13, 1, 1), N=128)
