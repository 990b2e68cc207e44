"""Several programs in lock step: which kernels run so, and that each program's values stay its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl
from tile_run import random, run, text_of

from omnikernel.passes.alias import find_roots
from omnikernel.passes.lockstep import lockstep
from omnikernel.passes.order import program_order
from omnikernel.ttir import parse


def programs(kernel: Any, *arguments: Any, disjoint: bool = True, **constants: Any) -> int:
    """How many programs of a kernel run together."""
    parsed = parse(text_of(kernel, arguments, constants))
    roots = find_roots(parsed, disjoint)
    together = lockstep(parsed, roots, program_order(parsed, roots)[0])
    return together.programs if together else 1


@triton.jit
def running(x, y, z, stride, n, N: tl.constexpr, REVERSE: tl.constexpr):
    """A scan a program, beside what programs do with numbers of their own."""
    row = tl.program_id(0) + tl.program_id(1) * tl.num_programs(0)
    i = tl.arange(0, N)
    first = tl.load(x + row * stride)
    a = tl.load(x + row * stride + i, mask=i < n, other=first)
    s = tl.cumsum(a, 0, reverse=REVERSE)
    total = tl.sum(a, 0)
    least = tl.min(tl.where(i < row, s, a), 0)
    tl.store(y + row * stride + i, s + total * first, mask=i < n)
    tl.store(z + row, tl.where(row % 2 == 0, least, total))


@triton.jit
def scan_in_loop(x, y, stride, n, N: tl.constexpr):
    """Scalars and tiles that a loop carries, of which one is the same in all programs."""
    row = tl.program_id(0)
    i = tl.arange(0, N)
    before = tl.zeros((), x.dtype.element_ty)
    best = tl.full((N,), -100, x.dtype.element_ty)
    count = 0
    for start in range(0, n, N):
        at = start + i
        a = tl.load(x + row * stride + at, mask=at < n, other=0)
        tl.store(y + row * stride + at, tl.cumsum(a, 0) + before, mask=at < n)
        before += tl.sum(a, 0)
        best = tl.maximum(best, a)
        count += 1
    tl.store(y + row * stride + n, before + tl.max(best, 0) + count)


@triton.jit
def affine(a, b, c, d):
    """x -> a x + b and then x -> c x + d."""
    return a * c, b * c + d


@triton.jit
def scan_of_pairs(x, y, stride, N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, N)
    a = tl.load(x + row * stride + i)
    _, s = tl.associative_scan((a, a + row), 0, affine)
    tl.store(y + row * stride + i, s)


@triton.jit
def recurrence(x, y, steps, columns, C: tl.constexpr):
    c = tl.program_id(0) * C + tl.arange(0, C)
    h = tl.zeros((C,), x.dtype.element_ty)
    for t in range(steps):
        h = h * 3 + tl.load(x + t * columns + c, mask=c < columns, other=0)
        tl.store(y + t * columns + c, h, mask=c < columns)


@triton.jit
def own_length(x, y, lengths, stride, N: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, tl.load(lengths + row), N):
        i = start + tl.arange(0, N)
        tl.store(y + row * stride + i, tl.cumsum(tl.load(x + row * stride + i), 0))


@triton.jit
def counted(x, y, count, stride, N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, N)
    tl.store(y + row * stride + i, tl.cumsum(tl.load(x + row * stride + i), 0))
    tl.atomic_add(count, 1)


@triton.jit
def same_place(x, y, stride, N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, N)
    tl.store(y + i, tl.cumsum(tl.load(x + row * stride + i), 0))


@triton.jit
def chosen_by_all(x, y, stride, which, N: tl.constexpr):
    """Values of each program that a branch or a loop yields whose way is the same in all programs."""
    row = tl.program_id(0)
    i = tl.arange(0, N)
    a = tl.load(x + row * stride + i)
    if which > 0:
        a = a + row
    s = tl.cumsum(a, 0)
    left = which
    while left > 0:
        s += row
        left -= 1
    tl.store(y + row * stride + i, s)


DTYPES = ["float32", "int32", "float16", "int64"]


@pytest.mark.parametrize("grid", [(1, 1, 1), (4, 1, 1), (7, 1, 1), (8, 1, 1), (19, 1, 1), (11, 3, 1), (3, 9, 1)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [64, 51])
def test_running_sums(grid: tuple[int, int, int], reverse: bool, n: int) -> None:
    x = random(np.random.default_rng(n), "int32", (grid[0] * grid[1], 64))
    run(running, x, np.zeros_like(x), np.zeros(len(x), x.dtype), 64, n, grid=grid, N=64, REVERSE=reverse)


@pytest.mark.parametrize("dtype", DTYPES)
def test_running_sums_of_types(dtype: str) -> None:
    x = random(np.random.default_rng(1), dtype, (21, 64))
    arguments = (x, np.zeros_like(x), np.zeros(len(x), x.dtype), 64, 60)
    assert programs(running, *arguments, N=64, REVERSE=False) == (8 if dtype == "float16" else 4)
    run(running, *arguments, grid=(21, 1, 1), N=64, REVERSE=False)


@pytest.mark.parametrize("n", [0, 30, 32, 100])
def test_carried_by_loops(n: int) -> None:
    x = random(np.random.default_rng(n), "int32", (18, 104))
    assert programs(scan_in_loop, x, x, 104, n, N=32) == 4
    run(scan_in_loop, x, np.zeros_like(x), 104, n, grid=(18, 1, 1), N=32)


def test_longer_steps_want_more_programs() -> None:
    x = random(np.random.default_rng(3), "int32", (21, 64))
    assert programs(scan_of_pairs, x, x, 64, N=64) == 8
    run(scan_of_pairs, x, np.zeros_like(x), 64, grid=(21, 1, 1), N=64)


@pytest.mark.parametrize("which", [0, 3])
def test_branches_and_loops_that_yield_what_differs(which: int) -> None:
    x = random(np.random.default_rng(which), "int32", (11, 64))
    assert programs(chosen_by_all, x, x, 64, which, N=64) == 1
    run(chosen_by_all, x, np.zeros_like(x), 64, which, grid=(11, 1, 1), N=64)


def test_programs_that_must_run_alone() -> None:
    x, ints = np.zeros((8, 64), np.float32), np.zeros(8, np.int32)
    assert programs(recurrence, x, x, 8, 64, C=32) == 1
    assert programs(own_length, x, x, ints, 64, N=32) == 1
    assert programs(counted, x, x, ints, 64, N=64) == 1
    assert programs(same_place, x, x, 64, N=64) == 1
    assert programs(running, x, x, x, 64, 64, N=64, REVERSE=False, disjoint=False) == 1
