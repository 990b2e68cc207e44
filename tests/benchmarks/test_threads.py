"""Results are the same bits whatever the number of threads, and in every run: all kernels of the benchmark and its examples.

Float atomics and locks are excepted: their order is that of the programs, which threads change, as on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import cases

import omnikernel
from omnikernel.runtime import dispatch, launch, pool

pytestmark = pytest.mark.torch

MAKERS: Mapping[str, Callable[[], Any]] = cases.makers("tiny")
ORDERED = re.compile(r"tt\.atomic_rmw fadd|tt\.atomic_cas|tt\.atomic_rmw exch")


class WithoutCosts:
    """The pool, without the estimate by which it runs small launches in the calling thread."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.launches = inner, 0

    def run(self, address: int, slots: bytes, grid: tuple[int, int, int], arena_bytes: int, cost: float) -> Any:
        self.launches += 1
        return self.inner.run(address, slots, grid, arena_bytes, 0.0)


@pytest.fixture
def shared_out(monkeypatch: pytest.MonkeyPatch) -> Iterator[WithoutCosts]:
    """Every launch goes through a pool that shares it out among the threads there are."""
    made = WithoutCosts(pool.pool())
    monkeypatch.setattr(launch, "pool", lambda: made)
    before = omnikernel.get_num_threads()
    with dispatch.suspended():
        yield made
    omnikernel.set_num_threads(before)


def bits(row: Any, call: Callable[[], object]) -> list[bytes]:
    """What a run leaves in the outputs, from fresh inputs."""
    row.reset()
    for output in row.outputs:
        if not any(output is a for one in row.launches for a in one.arguments if one.restore):
            output.fill(77)
    call()
    return [np.ascontiguousarray(output).tobytes() for output in row.outputs]


@pytest.mark.parametrize("name", MAKERS)
def test_threads_do_not_change_a_bit(name: str, shared_out: WithoutCosts) -> None:
    row = MAKERS[name]()
    call = row.call()
    omnikernel.set_num_threads(1)
    row.reset()
    compiled = call()
    kernels = compiled if isinstance(compiled, tuple) else (compiled,)
    if any(ORDERED.search(kernel.asm["ttir"]) for kernel in kernels):
        pytest.skip("float atomics or locks")
    want = bits(row, call)
    for threads in (1, 2, 5, 5, 2):
        omnikernel.set_num_threads(threads)
        assert bits(row, call) == want, f"{threads} threads"
    assert shared_out.launches >= 6


def test_a_row_is_excepted_only_where_order_matters() -> None:
    excepted = []
    for name, make in MAKERS.items():
        compiled = make().call()()
        kernels = compiled if isinstance(compiled, tuple) else (compiled,)
        if any(ORDERED.search(kernel.asm["ttir"]) for kernel in kernels):
            excepted.append(name)
    assert excepted == ["layer_norm-backward", "layer_norm-backward-atomic"]
