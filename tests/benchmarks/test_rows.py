"""Every row of the benchmark, at tiny sizes: ours and its peers give what NumPy gives in float64. No timings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import cases

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


@pytest.mark.parametrize("name", MAKERS)
def test_peers_run(name: str) -> None:
    row = MAKERS[name]()
    calls = dict(row.peers)
    if row.torch is not None:
        calls.setdefault("torch", row.torch(lambda function: function))
    named = {goal.peer for goal in row.goals} - {"torch.compile"}
    assert named <= calls.keys(), "a goal names a contender that is not there"
    assert row.torch is not None or "torch.compile" not in {goal.peer for goal in row.goals}
    for call in calls.values():
        call()


@pytest.mark.parametrize("name", MAKERS)
def test_torch_does_the_same_work(name: str) -> None:
    """What torch returns, where it returns results as ours are laid out, is right too."""
    row = MAKERS[name]()
    want = row.exact()
    call = row.peers.get("torch") or (row.torch(lambda function: function) if row.torch else None)
    found = call() if call is not None else None
    if found is None:
        pytest.skip("works in place, or is not there")
    got = tuple(np.asarray(t.detach().float().numpy()) for t in (found if isinstance(found, tuple) else (found,)))
    got = tuple(g.reshape(w.shape) if g.size == w.size else g for g, w in zip(got, want, strict=False))
    if [g.shape for g in got] != [w.shape for w in want]:
        pytest.skip("returns something else besides")
    assert row.distance(got, want) <= max(row.tolerance, 1e-6)


def test_a_wrong_result_is_seen() -> None:
    row = MAKERS["relu_mul"]()
    assert row.error(lambda: None, row.exact()) > row.tolerance
