"""Chains of compare-and-swaps become one op: what is folded, what is not, and that every bit is kept."""

from __future__ import annotations

import numpy as np
import pytest
from swap_programs import KINDS, Text, data, names, run_compiled, run_reference

from omnikernel.ir.network import Step, steps_of
from omnikernel.ir.tile import Kernel, walk
from omnikernel.ir.verify import verify
from omnikernel.lower.network import plan
from omnikernel.passes.exchange import exchange, partners
from omnikernel.passes.network import LEAST, network
from omnikernel.ttir import parse


def folded(text: str) -> Kernel:
    made = network(parse(text))
    verify(made, "network")
    return made


def networks(kernel: Kernel) -> list[list[Step]]:
    return [steps_of(op) for op in walk(kernel.entry.body) if op.name == "tile.network"]


@pytest.mark.parametrize("late", [False, True], ids=["of 3.6", "of 3.9"])
@pytest.mark.parametrize("rank", [2, 5, 6, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sort_is_one_op(kind: str, rank: int, late: bool) -> None:
    builder = Text(kind, rank)
    text = builder.text(builder.sort("%h", late))
    made = folded(text)
    (steps,) = networks(made)
    assert [step.bit for step in steps] == [bit for stage in range(rank) for bit in range(stage, -1, -1)]
    assert set(names(made)) <= {
        *("tt.make_range", "tt.splat", "tt.addptr", "tt.load", "tile.network", "tt.store", "tt.return")
    }
    x = data(kind, 1 << rank)
    expected = run_reference(parse(text), x)
    np.testing.assert_array_equal(np.sort(x), expected)
    assert run_reference(made, x).tobytes() == expected.tobytes()
    assert run_compiled(text, x).tobytes() == expected.tobytes()


@pytest.mark.parametrize("rank", [3, 7])
@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_swaps(rank: int, seed: int) -> None:
    """Axes in any order, alternating by any higher axis, are no sort, but a network all the same."""
    random = np.random.default_rng(seed)
    builder = Text("f32", rank)
    x = "%h"
    for _ in range(12):
        axis = int(random.integers(rank))
        order = int(random.integers(axis)) if axis and random.integers(2) else None
        x = builder.swap(x, axis, order, bool(random.integers(2)))
    text = builder.text(x)
    made = folded(text)
    assert len(networks(made)) == 1
    values = data("f32", 1 << rank)
    values[::5] = np.nan
    expected = run_reference(parse(text), values)
    assert run_reference(made, values).tobytes() == expected.tobytes()
    assert run_compiled(text, values).tobytes() == expected.tobytes()


def test_an_order_by_a_lower_axis_is_left() -> None:
    builder = Text("i32", 4)
    x = "%h"
    for _ in range(4):
        x = builder.swap(x, 1, 3, False)
    text = builder.text(x)
    assert not networks(folded(text))
    values = data("i32", 16)
    assert run_compiled(text, values).tobytes() == run_reference(parse(text), values).tobytes()


def test_a_few_swaps_are_left() -> None:
    builder = Text("i32", 4)
    x = "%h"
    for axis in range(LEAST - 1):
        x = builder.swap(x, axis, None, False)
    kernel = partners(exchange(folded(builder.text(x))))
    assert not networks(kernel)
    assert names(kernel).count("tile.partner") == LEAST - 1


def test_what_is_used_halfway_ends_a_chain() -> None:
    """The sum of two states of a tile: each is the result of a network of its own."""
    builder = Text("i32", 5)
    half = x = builder.sort("%h", False)
    for axis in range(5):
        x = builder.swap(x, axis, None, False)
    both = builder.emit(f"arith.addi {half}, {x} : {builder.cube('i32')}")
    text = builder.text(both)
    made = folded(text)
    assert [len(steps) for steps in networks(made)] == [15, 5]
    values = data("i32", 32)
    expected = run_reference(parse(text), values)
    assert run_reference(made, values).tobytes() == expected.tobytes()
    assert run_compiled(text, values).tobytes() == expected.tobytes()


def test_the_plan_of_a_long_sort_repeats_few_codes() -> None:
    steps = [Step(bit, 1 << bit | 2 << stage) for stage in range(16) for bit in range(stage, -1, -1)]
    stages = plan(steps, 1 << 17, 32)
    assert sum(len(stage.code.swaps) or 1 for stage in stages) == len(steps)
    assert len({stage.code for stage in stages}) == 3  # within rows: one way, or two; and of two rows


def test_the_plan_of_a_top_k_goes_down_to_one_row() -> None:
    steps = [Step(3) for _ in range(8)]
    stages = plan(steps, 1 << 12, 32)
    assert [stage.count for stage in stages] == [64, 32, 16, 8, 4, 2, 1, 1]
    assert len({stage.code for stage in stages}) == 1
