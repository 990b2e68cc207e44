"""Which atomic additions are gathered over programs."""

from __future__ import annotations

import pytest

from omnikernel.passes.alias import find_roots
from omnikernel.passes.defer import deferred
from omnikernel.ttir import parse

HEAD = """\
module {
  tt.func public @kernel(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32) attributes {noinline = false} {
    %c64 = arith.constant 64 : i32
    %p = tt.get_program_id x : i32
    %first = arith.muli %p, %c64 : i32
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %firsts = tt.splat %first : i32 -> tensor<64xi32>
    %j = arith.addi %firsts, %i : tensor<64xi32>
    %ns = tt.splat %n : i32 -> tensor<64xi32>
    %same = arith.cmpi slt, %i, %ns : tensor<64xi32>
    %own = arith.cmpi slt, %j, %ns : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %ys = tt.splat %y : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %xp = tt.addptr %xs, %j : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %yp = tt.addptr %ys, %i : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %yq = tt.addptr %ys, %j : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %v = tt.load %xp : tensor<64x!tt.ptr<i32>>
    %yv = tt.addptr %ys, %v : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
"""
TAIL = "    tt.return\n  }\n}\n"
TYPES = "(tensor<64x!tt.ptr<i32>>, tensor<64xi32>, tensor<64xi1>) -> tensor<64xi32>"


def atomic(pointer: str = "yp", mask: str = "same", kind: str = "add", name: str = "old") -> str:
    return f"    %{name} = tt.atomic_rmw {kind}, acq_rel, gpu, %{pointer}, %v, %{mask} : {TYPES}\n"


def store(pointer: str, value: str = "v") -> str:
    return f"    tt.store %{pointer}, %{value} : tensor<64x!tt.ptr<i32>>\n"


# name -> text, disjoint arguments, how many are deferred
CASES = {
    "one": (atomic(), True, 1),
    "two": (atomic() + atomic(name="again"), True, 2),
    "arguments may overlap": (atomic(), False, 0),
    "the result is stored": (atomic() + store("xp", "old"), True, 0),
    "the address depends on the program": (atomic("yq"), True, 0),
    "the address is loaded": (atomic("yv"), True, 0),
    "the mask depends on the program": (atomic(mask="own"), True, 0),
    "no sum": (atomic(kind="max"), True, 0),
    "what is added to is stored too": (atomic() + store("yq"), True, 0),
    "what is added to is read too": (atomic() + "    %w = tt.load %yq : tensor<64x!tt.ptr<i32>>\n", True, 0),
    "programs may see each other": (atomic() + store("xp"), True, 0),
    "one that cannot wait": (atomic() + atomic("yq", name="again"), True, 0),
    "a barrier": (atomic() + "    ttg.barrier all\n", True, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_deferred(name: str) -> None:
    body, disjoint, count = CASES[name]
    kernel = parse(HEAD + body + TAIL)
    assert len(deferred(kernel.entry, find_roots(kernel, disjoint))) == count
