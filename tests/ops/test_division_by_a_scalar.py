"""Lanes divided by one scalar: bit by bit what IEEE division gives, on hard significands and on every kind of number."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

from omnikernel import pipeline
from omnikernel.llvm.jit import host_target

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 1.0]
    + [sign * 2.0**power for power in (-101, -100, -99, -21, -20, 19, 20, 21, 99, 100, 101) for sign in (1, -1)],
    np.float32,
)
with np.errstate(over="ignore"):
    SPECIAL = np.concatenate([SPECIAL, *(np.nextafter(SPECIAL, np.float32(to)) for to in (np.inf, 0))])
ALL_ONES = np.uint32((1 << 23) - 1)


@triton.jit
def divided(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Each program divides the same numbers by one of its own."""
    y = tl.load(y_ptr + tl.program_id(0))
    i = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + i, mask=start + i < n)
        tl.store(out_ptr + tl.program_id(0) * n + start + i, x / y, mask=start + i < n)


@triton.jit
def whole_rows(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Divided by a sum of the row, as a softmax does."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * n + i, x / tl.sum(x, 0), mask=i < n)


def check(x: np.ndarray, y: np.ndarray) -> None:
    out = np.zeros((len(y), len(x)), np.float32)
    divided[(len(y),)](x, y, out, len(x), BLOCK=256)
    with np.errstate(all="ignore"):
        wanted = x[None, :] / y[:, None]
    nan = np.isnan(wanted)
    assert np.array_equal(np.isnan(out), nan)
    assert np.array_equal(out.view(np.uint32)[~nan], wanted.view(np.uint32)[~nan])


def floats(significands: np.ndarray, exponent: int) -> np.ndarray:
    return (np.uint32((127 + exponent) << 23) | significands.astype(np.uint32)).view(np.float32)


def test_lanes_are_multiplied() -> None:
    """Where a product can be fused with a sum, and nothing else in the kernel needs the multipliers."""
    x, y = np.ones(512, np.float32), np.full(1, 3, np.float32)
    text = divided[(1,)](x, y, np.zeros(512, np.float32), 512, BLOCK=256).asm["ttir"]
    llvm = pipeline.compile_text(text, pipeline.Options(disjoint=True)).texts["llvm"]
    assert ("llvm.fma" in llvm) == bool({"fma", "neon"} & host_target().features)


@pytest.mark.parametrize("exponent", [0, -19, 19, 30])
def test_hard_significands(exponent: int) -> None:
    draw = np.random.default_rng(exponent + 99).integers
    near = np.arange(32, dtype=np.uint32)
    hard = np.concatenate([near, ALL_ONES - near, np.uint32(1) << np.arange(23, dtype=np.uint32), draw(0, 1 << 23, 40)])
    check(floats(draw(0, 1 << 23, 20_000), 3), floats(hard, exponent))


@pytest.mark.parametrize("shift", [0, 1, 7])
def test_every_kind_of_number(shift: int) -> None:
    """Among others, so that chunks hold both, and alone."""
    x = floats(np.random.default_rng(shift).integers(0, 1 << 23, 64 * len(SPECIAL)), -2)
    x[shift::64] = SPECIAL[: len(x[shift::64])]
    check(x, SPECIAL)
    check(np.repeat(SPECIAL, 64), np.concatenate([SPECIAL, np.float32([3, 7, 0.1, -3])]))


def test_every_exponent() -> None:
    exponents = np.arange(256, dtype=np.uint32).repeat(33) << np.uint32(23)
    significands = np.random.default_rng(5).integers(0, 1 << 23, len(exponents)).astype(np.uint32)
    x = (exponents | significands).view(np.float32)
    check(np.concatenate([x, -x]), np.concatenate([floats(np.array([1, 77, 1 << 22]), e) for e in (-20, -7, 0, 19)]))


def test_rows_by_their_sums() -> None:
    x = np.random.default_rng(6).random((7, 1000), np.float32)
    x[2], x[3, :5] = 0, [0.0, -0.0, np.inf, 1e-42, np.nan]
    out = np.zeros_like(x)
    whole_rows[(7,)](x, x, out, 1000, BLOCK=1024)
    plain = [0, 1, 4, 5, 6]
    assert np.allclose(out[plain].astype(np.float64).sum(1), 1, atol=1e-5)
    assert np.isnan(out[2:4]).all()
