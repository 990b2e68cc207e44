"""Programs that random drawing found, made small: each once differed from the reference or did not compile."""

from __future__ import annotations

import numpy as np
import pytest
from program_comparison import differences, run_compiled, run_reference
from program_drawer import Program
from program_writer import DTYPES

from omnikernel import pipeline
from omnikernel.ttir.parse import parse

# LLVM 22 stores 4 bytes for one lane of 2: a truncation feeds a masked store whose mask is one constant lane.
ONE_LANE = """\
module {
  tt.func public @kernel(%x: !tt.ptr<bf16>, %y: !tt.ptr<bf16>) attributes {noinline = false} {
    %0 = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %1 = tt.splat %x : !tt.ptr<bf16> -> tensor<4x!tt.ptr<bf16>>
    %2 = tt.addptr %1, %0 : tensor<4x!tt.ptr<bf16>>, tensor<4xi32>
    %3 = tt.load %2 : tensor<4x!tt.ptr<bf16>>
    %4 = arith.addf %3, %3 : tensor<4xbf16>
    %5 = arith.constant dense<1> : tensor<4xi32>
    %6 = arith.cmpi slt, %0, %5 : tensor<4xi32>
    %7 = tt.splat %y : !tt.ptr<bf16> -> tensor<4x!tt.ptr<bf16>>
    %8 = tt.addptr %7, %0 : tensor<4x!tt.ptr<bf16>>, tensor<4xi32>
    tt.store %8, %4, %6 : tensor<4x!tt.ptr<bf16>>
    tt.return
  }
}
"""
RESHAPED_MASK = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) attributes {noinline = false} {
    %0 = arith.constant dense<0> : tensor<4x4xi64>
    %1 = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %2 = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %3 = tt.addptr %2, %1 : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %4 = tt.reshape %0 : tensor<4x4xi64> -> tensor<16xi64>
    %5 = arith.constant dense<0> : tensor<16xi64>
    %6 = arith.cmpi ne, %4, %5 : tensor<16xi64>
    %7 = tt.load %3, %6 : tensor<16x!tt.ptr<f32>>
    %8 = arith.minnumf %7, %7 : tensor<16xf32>
    %9 = arith.negf %8 : tensor<16xf32>
    %10 = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %11 = tt.addptr %10, %1 : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %11, %9 : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
"""
# Extents of 1 after the axis do not change the order of a reduction.
COLUMN = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) attributes {noinline = false} {
    %0 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %1 = tt.expand_dims %0 {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
    %2 = tt.splat %x : !tt.ptr<f32> -> tensor<64x1x!tt.ptr<f32>>
    %3 = tt.addptr %2, %1 : tensor<64x1x!tt.ptr<f32>>, tensor<64x1xi32>
    %4 = tt.load %3 : tensor<64x1x!tt.ptr<f32>>
    %5 = "tt.reduce"(%4) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tt.reduce.return %s : f32
    }) : (tensor<64x1xf32>) -> tensor<1xf32>
    %6 = tt.splat %y : !tt.ptr<f32> -> tensor<1x!tt.ptr<f32>>
    tt.store %6, %5 : tensor<1x!tt.ptr<f32>>
    tt.return
  }
}
"""


# A narrow float that a while loop starts from needs its bits before the loop; two stores with a hole between them, of two
# lanes; the lesser of NaN and a converted integer, in one lane.
NARROW_START = """\
module {
  tt.func public @kernel(%x: !tt.ptr<bf16>, %y: !tt.ptr<bf16>) attributes {noinline = false} {
    %v = tt.load %x : !tt.ptr<bf16>
    %s = arith.addf %v, %v : bf16
    %one = arith.constant 1 : i32
    %none = arith.constant 0 : i32
    %r:2 = scf.while (%a = %s, %i = %none) : (bf16, i32) -> (bf16, i32) {
      %go = arith.cmpi slt, %i, %one : i32
      scf.condition(%go) %a, %i : bf16, i32
    } do {
    ^bb0(%a: bf16, %i: i32):
      %b = arith.addf %a, %a : bf16
      %j = arith.addi %i, %one : i32
      scf.yield %b, %j : bf16, i32
    }
    tt.store %y, %r#0 : !tt.ptr<bf16>
    tt.return
  }
}
"""
HOLE = """\
module {
  tt.func public @kernel(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) attributes {noinline = false} {
    %0 = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
    %1 = tt.splat %x : !tt.ptr<i32> -> tensor<2x!tt.ptr<i32>>
    %2 = tt.addptr %1, %0 : tensor<2x!tt.ptr<i32>>, tensor<2xi32>
    %3 = tt.load %2 : tensor<2x!tt.ptr<i32>>
    %4 = arith.constant dense<2> : tensor<2xi32>
    %5 = arith.muli %0, %4 : tensor<2xi32>
    %6 = tt.splat %y : !tt.ptr<i32> -> tensor<2x!tt.ptr<i32>>
    %7 = tt.addptr %6, %5 : tensor<2x!tt.ptr<i32>>, tensor<2xi32>
    tt.store %7, %3 : tensor<2x!tt.ptr<i32>>
    tt.return
  }
}
"""
LESSER = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) attributes {noinline = false} {
    %v = tt.load %x : !tt.ptr<f32>
    %zero = arith.constant 0.000000e+00 : f32
    %nan = arith.divf %zero, %zero : f32
    %n = arith.addf %v, %nan : f32
    %i = arith.fptosi %n : f32 to i16
    %u = arith.uitofp %i : i16 to f32
    %m = arith.minnumf %n, %u : f32
    %w = arith.maxnumf %u, %n : f32
    %s = arith.addf %m, %w : f32
    tt.store %y, %s : !tt.ptr<f32>
    tt.return
  }
}
"""

# The low half of a product, which is a truncation, through a constant mask of one lane.
LOW_HALF = """\
module {
  tt.func public @kernel(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) attributes {noinline = false} {
    %0 = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %1 = tt.splat %x : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %2 = tt.addptr %1, %0 : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    %3 = tt.load %2 : tensor<4x!tt.ptr<i32>>
    %low, %high = arith.mulsi_extended %3, %3 : tensor<4xi32>
    %4 = arith.constant dense<1> : tensor<4xi32>
    %5 = arith.cmpi slt, %0, %4 : tensor<4xi32>
    %6 = tt.splat %y : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %7 = tt.addptr %6, %0 : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    tt.store %7, %low, %5 : tensor<4x!tt.ptr<i32>>
    tt.return
  }
}
"""

# A region of map_elementwise that runs on lanes of which all are the same.
UNIFORM_MAP = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f16>, %y: !tt.ptr<f16>) attributes {noinline = false} {
    %v = tt.load %x : !tt.ptr<f16>
    %0 = tt.splat %v : f16 -> tensor<16xf16>
    %1 = "tt.map_elementwise"(%0) <{pack = 1 : i32}> ({
    ^bb0(%a: f16):
      %s = arith.addf %a, %a : f16
      tt.map_elementwise.return %s : f16
    }) : (tensor<16xf16>) -> tensor<16xf16>
    %2 = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %3 = tt.splat %y : !tt.ptr<f16> -> tensor<16x!tt.ptr<f16>>
    %4 = tt.addptr %3, %2 : tensor<16x!tt.ptr<f16>>, tensor<16xi32>
    tt.store %4, %1 : tensor<16x!tt.ptr<f16>>
    tt.return
  }
}
"""

# LLVM 22 loads all of a register whose part of a mask is zero by a constant, where a vector takes several registers.
PARTLY_OFF = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) attributes {noinline = false} {
    %0 = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %1 = arith.constant dense<3> : tensor<32xi32>
    %2 = arith.cmpi slt, %0, %1 : tensor<32xi32>
    %3 = tt.get_num_programs x : i32
    %4 = tt.splat %3 : i32 -> tensor<32xi32>
    %5 = arith.cmpi slt, %4, %1 : tensor<32xi32>
    %6 = arith.andi %2, %5 : tensor<32xi1>
    %7 = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %8 = tt.addptr %7, %0 : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    %9 = arith.constant dense<3.000000e+00> : tensor<32xf32>
    %10 = tt.load %8, %6, %9 : tensor<32x!tt.ptr<f32>>
    %11 = tt.splat %y : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %12 = tt.addptr %11, %0 : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    tt.store %12, %10 : tensor<32x!tt.ptr<f32>>
    tt.return
  }
}
"""

# A mask of a product's rows that comes of an op with two results.
CARRY = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) attributes {noinline = false} {
    %0 = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %1 = tt.expand_dims %0 {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
    %2 = tt.expand_dims %0 {axis = 0 : i32} : tensor<8xi32> -> tensor<1x8xi32>
    %3 = arith.constant dense<8> : tensor<8x1xi32>
    %4 = arith.muli %1, %3 : tensor<8x1xi32>
    %5 = tt.broadcast %4 : tensor<8x1xi32> -> tensor<8x8xi32>
    %6 = tt.broadcast %2 : tensor<1x8xi32> -> tensor<8x8xi32>
    %7 = arith.addi %5, %6 : tensor<8x8xi32>
    %8 = tt.splat %x : !tt.ptr<f32> -> tensor<8x8x!tt.ptr<f32>>
    %9 = tt.addptr %8, %7 : tensor<8x8x!tt.ptr<f32>>, tensor<8x8xi32>
    %10 = tt.load %9 : tensor<8x8x!tt.ptr<f32>>
    %11 = arith.constant dense<0.000000e+00> : tensor<8x8xf32>
    %12 = tt.dot %10, %10, %11, inputPrecision = ieee : tensor<8x8xf32> * tensor<8x8xf32> -> tensor<8x8xf32>
    %13 = arith.constant dense<-5> : tensor<8x1xi32>
    %sum, %carry = arith.addui_extended %1, %13 : tensor<8x1xi32>, tensor<8x1xi1>
    %14 = tt.broadcast %carry : tensor<8x1xi1> -> tensor<8x8xi1>
    %15 = tt.splat %y : !tt.ptr<f32> -> tensor<8x8x!tt.ptr<f32>>
    %16 = tt.addptr %15, %7 : tensor<8x8x!tt.ptr<f32>>, tensor<8x8xi32>
    tt.store %16, %12, %14 : tensor<8x8x!tt.ptr<f32>>
    tt.return
  }
}
"""

KNOWN = [
    pytest.param(CARRY, "f32", id="carry as a mask"),
    pytest.param(PARTLY_OFF, "f32", id="mask off in part"),
    pytest.param(UNIFORM_MAP, "f16", id="uniform map"),
    pytest.param(LOW_HALF, "i32", id="low half"),
    pytest.param(NARROW_START, "bf16", id="narrow start of a while loop"),
    pytest.param(HOLE, "i32", id="hole"),
    pytest.param(LESSER, "f32", id="lesser of NaN"),
    pytest.param(ONE_LANE, "bf16", id="one lane"),
    pytest.param(RESHAPED_MASK, "f32", id="mask"),
    pytest.param(COLUMN, "f32", id="column"),
]


@pytest.mark.parametrize(("text", "kind"), KNOWN)
def test_found_program(text: str, kind: str) -> None:
    rng = np.random.default_rng(17)
    arguments = [(9 * rng.normal(size=64)).astype(np.float32).astype(DTYPES[kind]) for _ in range(2)]
    program = Program(0, text, arguments, (1, 1, 1))
    want = run_reference(parse(text), program)
    for disjoint in (False, True):
        options = pipeline.Options(fp_fusion=False, disjoint=disjoint)
        assert differences(want, run_compiled(pipeline.compile_text(text, options), program)) == []
