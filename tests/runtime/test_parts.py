"""Launches of which each thread has its own part, and brief ones that are shared with threads that are awake."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402

from omnikernel.runtime import pool  # noqa: E402

NATIVE: Any = pool.native()
pytestmark = [
    pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed"),
    pytest.mark.skipif(NATIVE is None, reason="the C extension is not built"),
]


@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def in_turn(turn, seen, BLOCK: tl.constexpr):
    """Program p waits until all lower ones have been here, and adds up what is in memory meanwhile."""
    p = tl.program_id(0)
    while tl.atomic_cas(turn, p, p) != p:
        pass
    i = tl.arange(0, BLOCK)
    tl.store(seen + i, tl.load(seen + i) * 3 + p)
    tl.atomic_xchg(turn, p + 1)


@pytest.fixture(params=[2, 3, 8])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """A number of threads, on however few processors."""
    before = NATIVE.get_num_threads()
    NATIVE.set_num_threads(request.param)
    yield request.param
    NATIVE.set_num_threads(before)


# Launches that are too brief to be shared, brief ones, longer ones, those that have no parts of their own, and uneven ones.
@pytest.mark.parametrize(("size", "launches"), [(1000, 300), (100_000, 3000), (1_000_003, 200), (10_000_000, 4)])
def test_every_program_runs_once(threads: int, size: int, launches: int) -> None:
    x = np.zeros(size, np.int32)
    for _ in range(launches):
        add_one[(triton.cdiv(size, 1024),)](x, size, BLOCK=1024)
    assert x.min() == x.max() == launches


def test_brief_launches_are_shared_once_they_follow_each_other(threads: int) -> None:
    """Whether they are is up to the system: another process may take the other processors all the time."""
    x = np.zeros(100_000, np.int32)
    start, launches, until = NATIVE.shared_launches(), 0, time.monotonic() + 20
    while NATIVE.shared_launches() < start + 10:
        if time.monotonic() > until:
            pytest.skip("no thread was awake in 20 seconds")
        for _ in range(1000):
            add_one[(98,)](x, x.size, BLOCK=1024)
        launches += 1000
    assert x.min() == x.max() == launches


def test_launches_of_several_threads_and_sizes(threads: int) -> None:
    arrays = [np.zeros(size, np.int32) for size in (70_000, 100_000, 400_000)]

    def repeat(x: np.ndarray) -> None:
        for _ in range(500):
            add_one[(triton.cdiv(x.size, 1024),)](x, x.size, BLOCK=1024)

    callers = [threading.Thread(target=repeat, args=(x,)) for x in arrays]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [(x.min(), x.max()) for x in arrays] == [(500, 500)] * 3


@pytest.mark.parametrize("programs", [2, 16, 200])
def test_programs_that_wait_for_lower_ones_are_handed_out_in_order(threads: int, programs: int) -> None:
    expected = np.zeros(512, np.int32)
    for p in range(programs):
        expected = expected * np.int32(3) + np.int32(p)
    for _ in range(30):
        turn, seen = np.zeros(1, np.int32), np.zeros(512, np.int32)
        in_turn[(programs,)](turn, seen, BLOCK=512)
        assert turn[0] == programs
        assert np.array_equal(seen, expected)
