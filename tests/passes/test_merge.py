"""Merging reductions: what joins, what must not, and that no meaning changes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from omnikernel import reference
from omnikernel.ir.tile import Kernel, walk
from omnikernel.ir.verify import verify
from omnikernel.passes.merge import merge
from omnikernel.ttir import parse

HEAD = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) attributes {noinline = false} {
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %p = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %q = tt.addptr %p, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %q : tensor<64x!tt.ptr<f32>>
    %c1 = arith.constant 1 : i32
    %y1 = tt.addptr %y, %c1 : !tt.ptr<f32>, i32
"""
TAIL = """\
    tt.return
  }
}
"""


def reduction(name: str, operand: str, op: str = "arith.addf") -> str:
    return f"""\
    %{name} = "tt.reduce"(%{operand}) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: f32, %b: f32):
      %c = {op} %a, %b : f32
      tt.reduce.return %c : f32
    }}) : (tensor<64xf32>) -> f32
"""


SQUARE = "    %w = arith.mulf %v, %v : tensor<64xf32>\n"
STORES = "    tt.store %y, %s : !tt.ptr<f32>\n    tt.store %y1, %t : !tt.ptr<f32>\n"
USED_BETWEEN = """\
    %d = tt.splat %s : f32 -> tensor<64xf32>
    %w = arith.subf %v, %d : tensor<64xf32>
"""
# name -> text, and how many reductions are left
CASES = {
    "neighbours": (SQUARE + reduction("s", "v") + reduction("t", "w", "arith.maxnumf") + STORES, 1),
    "an op between": (reduction("s", "v") + SQUARE + reduction("t", "w") + STORES, 1),
    "a late op between": (
        SQUARE + reduction("u", "v") + "    %s = arith.addf %u, %u : f32\n" + reduction("t", "w") + STORES,
        1,
    ),
    "the result is needed": (reduction("s", "v") + USED_BETWEEN + reduction("t", "w") + STORES, 2),
    "a store between": (
        SQUARE + reduction("s", "v") + "    tt.store %y, %s : !tt.ptr<f32>\n" + reduction("t", "w") + STORES,
        2,
    ),
}


def run(kernel: Kernel) -> np.ndarray:
    x = np.random.default_rng(5).standard_normal(64).astype(np.float32)
    y = np.zeros(2, np.float32)
    reference.run(kernel, [x.ctypes.data_as(ctypes.c_void_p).value or 0, y.ctypes.data], (1, 1, 1))
    return y


@pytest.mark.parametrize("name", CASES)
def test_merge(name: str) -> None:
    body, left = CASES[name]
    kernel = parse(HEAD + body + TAIL)
    merged = merge(kernel)
    verify(merged, "merge")
    assert sum(op.name == "tt.reduce" for op in walk(merged.entry.body)) == left
    assert np.array_equal(run(kernel), run(merged))
