"""Which stores share a nest."""

from __future__ import annotations

import pytest

from omnikernel.ir.tile import walk
from omnikernel.passes.alias import find_roots
from omnikernel.passes.neighbours import store_groups
from omnikernel.ttir import parse

HEAD = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %z: !tt.ptr<f32>) attributes {noinline = false} {
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %zs = tt.splat %z : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %yp = tt.addptr %ys, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %zp = tt.addptr %zs, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %xp : tensor<64x!tt.ptr<f32>>
"""
TAIL = "    tt.return\n  }\n}\n"


def store(pointer: str, value: str = "v") -> str:
    return f"    tt.store %{pointer}, %{value} : tensor<64x!tt.ptr<f32>>\n"


def load(name: str, pointer: str) -> str:
    return f"    %{name} = tt.load %{pointer} : tensor<64x!tt.ptr<f32>>\n"


ADD = "    %w = arith.addf %v, %v : tensor<64xf32>\n"
# name -> text, disjoint arguments, sizes of the groups
CASES = {
    "two": (store("yp") + ADD + store("zp", "w"), True, [2]),
    "what is loaded is written later": (store("yp") + store("xp") + store("zp"), True, [2]),
    "arguments may overlap": (store("yp") + store("zp"), False, []),
    "one array twice": (store("yp") + store("yp") + store("zp"), True, [2]),
    "what was stored is read": (store("yp") + load("w", "yp") + store("zp", "w"), True, []),
    "something else is read": (store("yp") + load("w", "xp") + store("zp", "w"), True, [2]),
    "a barrier": (store("yp") + "    ttg.barrier all\n" + store("zp"), True, []),
}


@pytest.mark.parametrize("name", CASES)
def test_groups(name: str) -> None:
    body, disjoint, sizes = CASES[name]
    kernel = parse(HEAD + body + TAIL)
    loads = [op.operands[0] for op in walk(kernel.entry.body) if op.name == "tt.load"]
    groups = store_groups(kernel.entry.body.block, find_roots(kernel, disjoint), loads)
    assert [len(group) for group in groups] == sizes
