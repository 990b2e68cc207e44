"""Which axis of the grid runs fastest."""

from __future__ import annotations

import pytest

from omnikernel.passes.alias import find_roots
from omnikernel.passes.order import may_wait, program_order
from omnikernel.ttir import parse

HEAD = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %stride: i32) attributes {noinline = false} {
    %c8 = arith.constant 8 : i32
    %c16 = arith.constant 16 : i32
    %p = tt.get_program_id x : i32
    %q = tt.get_program_id y : i32
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
"""
TAIL = "    tt.return\n  }\n}\n"


def tile(row: str, column: str, name: str = "at") -> str:
    """Offsets `row * stride + column + i` of 16 elements."""
    return f"""\
    %{name}_row = arith.muli %{row}, %stride : i32
    %{name}_sum = arith.addi %{name}_row, %{column} : i32
    %{name}_all = tt.splat %{name}_sum : i32 -> tensor<16xi32>
    %{name} = arith.addi %{name}_all, %i : tensor<16xi32>
"""


def pointers(name: str, array: str, at: str) -> str:
    return f"""\
    %{name}_{at}s = tt.splat %{array} : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %{name}_{at} = tt.addptr %{name}_{at}s, %{at} : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
"""


def load(at: str, array: str = "x") -> str:
    return pointers("from", array, at) + f"    %v_{at} = tt.load %from_{at} : tensor<16x!tt.ptr<f32>>\n"


def store(at: str, value: str, array: str = "y") -> str:
    return pointers("to", array, at) + f"    tt.store %to_{at}, %v_{value} : tensor<16x!tt.ptr<f32>>\n"


COLUMNS = "    %cols = arith.muli %q, %c16 : i32\n"
ROWS = "    %cols = arith.muli %p, %c16 : i32\n"
BOTH = COLUMNS + tile("p", "cols")
SWAPPED, AS_IT_WAS = (1, 0, 2), (0, 1, 2)
# name -> text, disjoint arguments, the axes from the fastest on
CASES = {
    "y along the rows": (BOTH + load("at") + store("at", "at"), True, SWAPPED),
    "x along the rows": (ROWS + tile("q", "cols") + load("at") + store("at", "at"), True, AS_IT_WAS),
    "arguments may overlap": (BOTH + load("at") + store("at", "at"), False, AS_IT_WAS),
    "what is read is written": (BOTH + load("at") + store("at", "at", "x"), True, AS_IT_WAS),
    "a barrier": (BOTH + load("at") + "    ttg.barrier all\n" + store("at", "at"), True, AS_IT_WAS),
    "a load against the store": (
        BOTH + "    %down = arith.muli %p, %c8 : i32\n" + tile("q", "down", "t") + load("t") + store("at", "t"),
        True,
        AS_IT_WAS,
    ),
    "x by a smaller step": (
        COLUMNS + "    %near = arith.addi %p, %cols : i32\n" + tile("c8", "near") + load("at") + store("at", "at"),
        True,
        AS_IT_WAS,
    ),
    "only loads along the rows": (
        BOTH + load("at") + tile("p", "c8", "o") + store("o", "at"),
        True,
        AS_IT_WAS,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_order(name: str) -> None:
    body, disjoint, order = CASES[name]
    kernel = parse(HEAD + body + TAIL)
    assert program_order(kernel, find_roots(kernel, disjoint)) == order


WAITING = {
    "loads and stores": ("", False),
    "a barrier": ("    ttg.barrier all\n", True),
    "an atomic": (
        "    %one = arith.constant dense<1.0> : tensor<16xf32>\n    %all = arith.constant dense<true> : tensor<16xi1>\n"
        "    %old = tt.atomic_rmw fadd, relaxed, gpu, %from_at, %one, %all : "
        "(tensor<16x!tt.ptr<f32>>, tensor<16xf32>, tensor<16xi1>) -> tensor<16xf32>\n",
        True,
    ),
    "a volatile load": ("    %v = tt.load %from_at {isVolatile = true} : tensor<16x!tt.ptr<f32>>\n", True),
}


@pytest.mark.parametrize("name", WAITING)
def test_programs_that_may_wait_are_told(name: str) -> None:
    more, expected = WAITING[name]
    assert may_wait(parse(HEAD + BOTH + load("at") + more + store("at", "at") + TAIL)) == expected
