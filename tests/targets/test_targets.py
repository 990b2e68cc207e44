"""Code for other machines than this one: older x86 run here, aarch64 made and looked at."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from program_comparison import differences, options_of, run_compiled, run_reference
from random_programs import draw

from omnikernel import pipeline
from omnikernel.llvm import jit
from omnikernel.lower.lanes import Target
from omnikernel.passes.contract import contract
from omnikernel.ttir import parse

SSE2 = frozenset({"sse", "sse2", "cx8", "fxsr", "mmx", "64bit", "cmov"})
AVX2 = SSE2 | frozenset(
    [
        "sse3",
        "ssse3",
        "sse4.1",
        "sse4.2",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "bmi",
        "bmi2",
        "popcnt",
        "lzcnt",
        "movbe",
        "xsave",
        "cx16",
        "sahf",
    ]
)
OLDER = {"sse2": ("x86-64", SSE2), "avx2": ("x86-64-v3", AVX2)}
AARCH64 = Target("aarch64-unknown-linux-gnu", "generic", frozenset({"neon", "fp-armv8"}))

SOFTMAX = """\
module {
  tt.func public @softmax(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) attributes {noinline = false} {
    %none = arith.constant dense<0xFF800000> : tensor<1024xf32>
    %i = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
    %s = tt.splat %n : i32 -> tensor<1024xi32>
    %m = arith.cmpi slt, %i, %s : tensor<1024xi32>
    %p = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
    %q = tt.addptr %p, %i : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
    %v = tt.load %q, %m, %none : tensor<1024x!tt.ptr<f32>>
    %top = "tt.reduce"(%v) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.maxnumf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<1024xf32>) -> f32
    %t = tt.splat %top : f32 -> tensor<1024xf32>
    %d = arith.subf %v, %t : tensor<1024xf32>
    %e = math.exp %d : tensor<1024xf32>
    %o = tt.splat %y : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
    %w = tt.addptr %o, %i : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
    tt.store %w, %e, %m : tensor<1024x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.skipif(not jit.host_target().triple.startswith("x86_64"), reason="runs x86-64 code")
@pytest.mark.parametrize("level", OLDER)
@pytest.mark.parametrize("seed", range(12))
def test_older_processors(level: str, seed: int) -> None:
    cpu, features = OLDER[level]
    program, options = draw(seed), options_of(seed)
    kernel = parse(program.text)
    target = Target(jit.host_target().triple, cpu, features)
    want = run_reference(contract(kernel) if options.fp_fusion else kernel, program, target)
    artefact = pipeline.compile_text(program.text, options, target)
    missing = [name for name in jit.undefined_symbols(artefact.object) if llvm.address_of_symbol(name) is None]
    assert not missing
    assert not differences(want, run_compiled(artefact, program))


def test_aarch64_by_construction() -> None:
    artefact = pipeline.compile_text(SOFTMAX, pipeline.Options(disjoint=True), AARCH64)
    assert artefact.object[:4] == b"\x7fELF"
    assert artefact.object[18] == 0xB7  # e_machine: AArch64
    assert "fmla" in jit.assembly(artefact.texts["llvm"], AARCH64)
    assert not list(jit.undefined_symbols(artefact.object))
