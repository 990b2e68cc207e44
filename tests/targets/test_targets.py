"""Code for other machines than this one: older x86 run here, aarch64 made and looked at."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from program_comparison import differences, options_of, run_compiled, run_reference
from random_programs import draw

from omnikernel import elf, pipeline
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
    missing = [name for name in elf.undefined_symbols(artefact.object) if llvm.address_of_symbol(name) is None]
    assert not missing
    assert not differences(want, run_compiled(artefact, program))


def test_aarch64_by_construction() -> None:
    artefact = pipeline.compile_text(SOFTMAX, pipeline.Options(disjoint=True), AARCH64)
    assert artefact.object[:4] == b"\x7fELF"
    assert artefact.object[18] == 0xB7  # e_machine: AArch64
    assert "fmla" in jit.assembly(artefact.texts["llvm"], AARCH64)
    assert not list(elf.undefined_symbols(artefact.object))


AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
X86 = "x86_64-unknown-linux-gnu"
LEVELS = {
    "sse2": (Target(X86, "x86-64", SSE2), "xmm"),
    "avx2": (Target(X86, "x86-64-v3", AVX2), "ymm"),
    "avx512": (Target(X86, "x86-64-v4", AVX512), "zmm"),
}


@pytest.mark.parametrize("level", LEVELS)
def test_the_widest_registers_are_used_and_no_wider(level: str) -> None:
    target, widest = LEVELS[level]
    artefact = pipeline.compile_text(SOFTMAX, pipeline.Options(disjoint=True), target)
    text = jit.assembly(artefact.texts["llvm"], target)
    registers = ("xmm", "ymm", "zmm")
    used = {name for name in registers if f"%{name}" in text}
    assert widest in used and used <= set(registers[: registers.index(widest) + 1])
    assert ("vfmadd" in text) == (level != "sse2")


def product_of(operand: str, result: str) -> str:
    """A 32x64x32 product from and to memory."""
    lines, precision = [], "" if result == "i32" else ", inputPrecision = ieee"
    for name, kind, rows, columns in (("a", operand, 32, 64), ("b", operand, 64, 32), ("c", result, 32, 32)):
        tile, places = f"{rows}x{columns}x{kind}", f"tensor<{rows}x{columns}x!tt.ptr<{kind}>>"
        lines += [
            f"%{name}.0 = tt.make_range {{end = {rows * columns} : i32, start = 0 : i32}} : tensor<{rows * columns}xi32>",
            f"%{name}.1 = tt.reshape %{name}.0 : tensor<{rows * columns}xi32> -> tensor<{rows}x{columns}xi32>",
            f"%{name}.2 = tt.splat %{name} : !tt.ptr<{kind}> -> {places}",
            f"%{name}.3 = tt.addptr %{name}.2, %{name}.1 : {places}, tensor<{rows}x{columns}xi32>",
            f"%{name}.4 = tt.load %{name}.3 : {places}",
        ]
        if name == "c":
            lines += [
                f"%d = tt.dot %a.4, %b.4, %c.4{precision} : tensor<32x64x{operand}> * tensor<64x32x{operand}> -> tensor<{tile}>",
                f"tt.store %c.3, %d : {places}",
            ]
    head = f"tt.func public @product(%a: !tt.ptr<{operand}>, %b: !tt.ptr<{operand}>, %c: !tt.ptr<{result}>)"
    return "\n".join(["module {", head + " attributes {noinline = false} {", *lines, "tt.return", "}", "}", ""])


@pytest.mark.parametrize("vnni", [False, True], ids=["without", "with"])
def test_bytes_are_multiplied_by_vnni_where_it_is(vnni: bool) -> None:
    target = Target(X86, "x86-64-v4", AVX512 | ({"avx512vnni"} if vnni else set()))
    artefact = pipeline.compile_text(product_of("i8", "i32"), pipeline.Options(disjoint=True), target)
    assert ("vpdpbusd" in jit.assembly(artefact.texts["llvm"], target)) == vnni


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_half_products_are_fused_in_f32(kind: str) -> None:
    """VDPBF16PS rounds otherwise, and takes subnormals for zero: a product would depend on the processor."""
    target = Target(X86, "sapphirerapids", AVX512 | {"avx512vnni", "avx512bf16", "avx512fp16"})
    artefact = pipeline.compile_text(product_of(kind, "f32"), pipeline.Options(disjoint=True), target)
    text = jit.assembly(artefact.texts["llvm"], target)
    assert "vfmadd" in text and "ps" in text
    assert "vdpbf16ps" not in text and "vfmadd213ph" not in text and "vfmadd231ph" not in text
