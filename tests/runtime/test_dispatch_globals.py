"""A kernel that uses a module's tl.constexpr is launched by the fast path, until that global changes."""

import numpy as np
import pytest
import triton
import triton.language as tl

from omnikernel.runtime import dispatch, pool

FACTOR = tl.constexpr(3.0)


@triton.jit
def scaled_by_global(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * FACTOR, i < n)


@pytest.mark.skipif(pool.native() is None, reason="the fast path is in the C extension")
def test_a_constexpr_global(monkeypatch):
    x = np.ones(8, np.float32)
    call = (scaled_by_global, (1,), (x, 8), {"BLOCK": 16})
    scaled_by_global[(1,)](x, 8, BLOCK=16)
    assert dispatch.try_launch(*call) is not None
    assert (x == 9).all()
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(5.0))
    assert dispatch.try_launch(*call) is None
    assert (x == 9).all()
