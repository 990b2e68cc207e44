"""How many lanes a chunk has: fewer where products take the time, and a sum has one order whatever else a kernel does."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl
from tile_run import random, run, text_of

from omnikernel import pipeline


@triton.jit
def sums(x, sums_out, maxima_out, squares_out, MULTIPLIES: tl.constexpr, N: tl.constexpr):
    """Sums and maxima of the rows of x and, beside them, squares of a product or of x, and one."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tile = tl.load(x + at)
    tl.store(sums_out + i, tl.sum(tile, 1) * 3.0)
    tl.store(maxima_out + i, tl.max(tile, 1) * 3.0)
    squared = tl.dot(tile, tile) if MULTIPLIES else tile
    tl.store(squares_out + at, squared * squared + 1.0)


def arrays() -> list[np.ndarray]:
    x = random(np.random.default_rng(0), "float32", (64, 64))
    return [x, np.zeros(64, np.float32), np.zeros(64, np.float32), np.zeros_like(x)]


def test_a_sum_is_the_same_beside_a_product() -> None:
    """Both are what the reference gives, bit for bit, and the same."""
    alone = run(sums, *arrays(), MULTIPLIES=False, N=64)
    beside = run(sums, *arrays(), MULTIPLIES=True, N=64)
    assert np.array_equal(alone[1], beside[1]) and np.array_equal(alone[2], beside[2])


def test_chunks_are_shorter_beside_a_product() -> None:
    def lanes(multiplies: bool) -> tuple[set[int], set[int]]:
        """Of the squares, and of all stores."""
        text = text_of(sums, arrays(), {"MULTIPLIES": multiplies, "N": 64})
        made = pipeline.compile_text(text, pipeline.Options(disjoint=True)).texts["llvm"]
        return (
            {int(n) for n in re.findall(r"llvm\.fma\.v\d+f32\(<(\d+) x float> .*splat \(float", made)},
            {int(n) for n in re.findall(r"store <(\d+) x float>", made)},
        )

    squares, stores = lanes(False)
    assert max(squares) == 32 and max(stores) == 32
    squares, stores = lanes(True)
    assert max(squares) == 16 and 8 in stores  # rows' sums and maxima are a 64th of a tile
