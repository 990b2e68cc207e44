"""Partners by xor become flips: what is recognised, what is not, and that sorts and flips keep every bit."""

from __future__ import annotations

import numpy as np
import pytest
from swap_programs import KINDS, Text, data, names, run_compiled, run_reference

from omnikernel.ir.verify import verify
from omnikernel.passes.exchange import BLOCK, exchange, partners
from omnikernel.ttir import parse


@pytest.mark.parametrize("late", [False, True], ids=["of 3.6", "of 3.9"])
@pytest.mark.parametrize("rank", [2, 4, 8, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_sorts(kind: str, rank: int, late: bool) -> None:
    builder = Text(kind, rank)
    text = builder.text(builder.sort("%h", late))
    kernel = parse(text)
    made = partners(exchange(kernel))
    verify(made, "exchange")
    assert "tt.reduce" not in names(made)
    far = sum(max(0, stage - (BLOCK.bit_length() - 1)) for stage in range(1, rank + 1))
    assert names(made).count("tile.flip") == far
    assert names(made).count("tile.partner") == rank * (rank + 1) // 2 - far
    x = data(kind, 1 << rank)
    expected = run_reference(kernel, x)
    np.testing.assert_array_equal(np.sort(x), expected)
    assert run_reference(made, x).tobytes() == expected.tobytes()
    assert run_compiled(text, x).tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["f32", "f16", "f64"])
def test_not_a_number(kind: str) -> None:
    builder = Text(kind, 8)
    text = builder.text(builder.sort("%h", False))
    x = data(kind, 256)
    bits = x.view(f"u{x.itemsize}")
    bits[::9] = ~np.zeros(1, bits.dtype)  # NaN with a payload
    bits[4::9] = ~np.zeros(1, bits.dtype) >> 1
    expected = run_reference(parse(text), x)
    assert run_reference(partners(exchange(parse(text))), x).tobytes() == expected.tobytes()
    assert run_compiled(text, x).tobytes() == expected.tobytes()


@pytest.mark.parametrize("rank", [3, 8])
@pytest.mark.parametrize("kind", ["f32", "i8"])
def test_flips_alone(kind: str, rank: int) -> None:
    builder = Text(kind, rank)
    x = "%h"
    for axis in range(rank):
        x = builder.flip(x, axis)
    text = builder.text(x)
    made = partners(exchange(parse(text)))
    assert names(made).count("tile.flip") == rank and "tt.reduce" not in names(made)
    values = data(kind, 1 << rank)
    assert run_compiled(text, values).tobytes() == values[::-1].tobytes() == run_reference(made, values).tobytes()


def test_other_reductions_stay() -> None:
    builder = Text("i32", 3)
    text = builder.text(builder.flip("%h", 1, "arith.ori"))
    kernel = parse(text)
    assert exchange(kernel) is kernel
    x = data("i32", 8)
    assert run_compiled(text, x).tobytes() == run_reference(kernel, x).tobytes()


def test_a_side_that_is_no_bit() -> None:
    """A comparison with what may be 2 is not a choice between two."""
    builder = Text("i32", 2)
    text = builder.text(builder.swap("%h", 1, None, False))
    text = text.replace("{end = 2 : i32, start = 0 : i32}", "{end = 3 : i32, start = 1 : i32}")
    kernel = parse(text)
    assert names(partners(exchange(kernel))).count("arith.select") == 1
    x = np.array([4, 1, 2, 3], np.int32)
    assert run_compiled(text, x).tobytes() == run_reference(kernel, x).tobytes()
