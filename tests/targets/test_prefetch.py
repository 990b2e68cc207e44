"""What loops ask for ahead of reading it: on which processors, and for which arrays."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

from omnikernel import pipeline
from omnikernel.frontend import ttir_text
from omnikernel.lower.lanes import Target

AVX512 = frozenset({"sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"})
INTEL = Target("x86_64-unknown-linux-gnu", "emeraldrapids", AVX512)
AMD = Target("x86_64-unknown-linux-gnu", "znver4", AVX512)
OLDER = Target("x86_64-unknown-linux-gnu", "haswell", AVX512 - {f for f in AVX512 if f.startswith("avx512")})


@triton.jit
def scaled(x_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Each program has a row of its own; all have the same weights."""
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    x = tl.load(x_ptr + row + i, mask=i < n, other=0.0) * tl.load(w_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + row + i, x, mask=i < n)


@triton.jit
def neighbours(x_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + i, mask=i < n) + tl.load(x_ptr + i + 1, mask=i < n) + tl.load(x_ptr + i + 2, mask=i < n)
    tl.store(out_ptr + i, total, mask=i < n)


@triton.jit
def gathered(x_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i * 3, mask=i < n), mask=i < n)


def requests(kernel: Any, target: Target, block: int = 1024) -> int:
    text = ttir_text(kernel, "*fp32:16,*fp32:16,*fp32:16,i32", {"BLOCK": block})
    artefact = pipeline.compile_text(text, pipeline.Options(disjoint=True), target)
    return artefact.texts["llvm"].count("call void @llvm.prefetch")


@triton.jit
def sums(x_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + tl.load(w_ptr + i, mask=i < n), mask=i < n)


def test_each_line_of_a_chunk_is_asked_for_once() -> None:
    """Once in each version of the loop: for one array, be it read in one place or in three; for two, twice as often."""
    once = requests(scaled, INTEL)
    assert once > 0
    assert requests(neighbours, INTEL) == once
    assert requests(scaled, INTEL, 4096) == once
    assert requests(sums, INTEL) == 2 * once


@pytest.mark.parametrize("target", [AMD, OLDER])
def test_other_processors_do_well_by_themselves(target: Target) -> None:
    assert requests(scaled, target) == 0


def test_short_rows_and_gathers_are_left_alone() -> None:
    assert requests(scaled, INTEL, 256) == 0
    assert requests(gathered, INTEL) == 0
