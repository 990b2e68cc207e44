"""Every row of the benchmark, at tiny sizes: ours and its peers give what NumPy gives in float64. No timings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import cases
import sweep

pytestmark = pytest.mark.torch

MAKERS: Mapping[str, Callable[[], Any]] = cases.makers("tiny")


@pytest.mark.parametrize("name", MAKERS)
def test_row_is_right(name: str) -> None:
    row = MAKERS[name]()
    want = row.exact()
    assert row.error(row.call(), want) <= row.tolerance
    last = {i: launch.configs[-1] for i, launch in enumerate(row.launches) if launch.configs}
    if last:
        assert row.error(row.call(last), want) <= row.tolerance, "with other block sizes"


@pytest.mark.parametrize("kernel", [*sweep.FLAT, *sweep.ROWS])
def test_a_kernel_of_a_sweep_gives_the_same_when_one_launch_does_it_many_times(kernel: str) -> None:
    row = {**sweep.FLAT, **sweep.ROWS}[kernel](5)
    assert row.error(row.call(times=3), row.exact()) <= row.tolerance


@pytest.mark.parametrize("name", MAKERS)
def test_contenders_do_the_same_work(name: str) -> None:
    """All run; what torch returns, where it returns results laid out as ours are, is right too."""
    row = MAKERS[name]()
    want = row.exact()
    calls = dict(row.peers)
    if row.torch is not None:
        calls.setdefault("torch", row.torch(lambda function: function))
    named = {goal.peer for goal in row.goals}
    assert named - {"torch.compile"} <= calls.keys(), "a goal names a contender that is not there"
    assert row.torch is not None or "torch.compile" not in named
    found = {peer: call() for peer, call in calls.items()}.get("torch")
    if found is None:
        return  # it works in place, or is not there
    got = tuple(np.asarray(t.detach().float().numpy()) for t in (found if isinstance(found, tuple) else (found,)))
    got = tuple(g.reshape(w.shape) if g.size == w.size else g for g, w in zip(got, want, strict=False))
    if [g.shape for g in got] == [w.shape for w in want]:  # else it returns something besides
        assert row.distance(got, want) <= max(row.tolerance, 1e-6)


def test_a_wrong_result_is_seen() -> None:
    row = MAKERS["relu_mul"]()
    assert row.error(lambda: None, row.exact()) > row.tolerance
