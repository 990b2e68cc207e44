"""Stores that go past the caches: the same values at every place, size and type, and only where they pay."""

import platform

import numpy as np
import pytest
import triton
import triton.language as tl
from placed import after_line

from omnikernel import pipeline
from omnikernel.frontend import ttir_text
from omnikernel.llvm.jit import assembly, host_target
from omnikernel.lower.lanes import Target
from omnikernel.runtime.launch import Executable

NON_TEMPORAL = ("movnt", "sfence")
ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="past the caches on x86-64 alone")


@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + x, mask=at < n)


@triton.jit
def inner(x_ptr, out_ptr, low, high, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = (at >= low) & (at < high)
    tl.store(out_ptr + row * BLOCK + at, tl.load(x_ptr + row * BLOCK + at, mask=inside) + row, mask=inside)


@triton.jit
def in_place(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def exponential(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.exp(tl.load(x_ptr + at, mask=at < n)), mask=at < n)


@triton.jit
def hands_over(x_ptr, out_ptr, flag_ptr, BLOCK: tl.constexpr):
    """Another program may read what was stored once the flag is up."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at))
    tl.atomic_xchg(flag_ptr + tl.program_id(0), 1)


@triton.jit
def rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One row a program, which several programs share: they run in step."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * BLOCK + at)
    tl.store(out_ptr + row * BLOCK + at, x + tl.cumsum(x, 0) * n)


def with_cache(size: int) -> Target:
    host = host_target()
    return Target(host.triple, host.cpu, host.features, last_cache=size)


def compiled(kernel: triton.JITFunction, signature: str, size: int, **constants: int) -> pipeline.Artefact:
    text = ttir_text(kernel, signature, constants)
    return pipeline.compile_text(text, pipeline.Options(disjoint=True), with_cache(size))


@pytest.mark.parametrize("offset", [0, 1, 4, 7, 15])
@pytest.mark.parametrize("n", [1, 511, 512, 1023, 1024, 5000, 8192, 8200])
@pytest.mark.parametrize("dtype, kind", [("float32", "fp32"), ("int8", "i8"), ("float64", "fp64"), ("float16", "fp16")])
def test_every_place(dtype: str, kind: str, n: int, offset: int) -> None:
    rng = np.random.default_rng(n)
    x, out = (rng.integers(-50, 50, n)).astype(dtype), after_line(n + 2, offset, dtype, 99)
    artefact = compiled(double, f"*{kind},*{kind},i32", 1024, BLOCK=1024)
    Executable(artefact).run((triton.cdiv(n, 1024), 1, 1), [x, out[1:], n])
    assert np.array_equal(out[1:-1], x + x)
    assert out[0] == 99 and out[-1] == 99


@pytest.mark.parametrize("offset", [0, 4, 5])
@pytest.mark.parametrize(
    "low, high", [(0, 2048), (1, 2047), (5, 300), (31, 289), (700, 1900), (2047, 2048), (9, 9), (40, 7)]
)
def test_between_two_bounds(low: int, high: int, offset: int) -> None:
    x = np.random.default_rng(low).random((4, 2048), np.float32)
    out = after_line(4 * 2048, offset, "float32", 0)
    artefact = compiled(inner, "*fp32,*fp32,i32,i32", 1024, BLOCK=2048)
    Executable(artefact).run((4, 1, 1), [x, out, low, high])
    wanted = np.zeros_like(x)
    wanted[:, low:high] = x[:, low:high] + np.arange(4, dtype=np.float32)[:, None]
    assert np.array_equal(out.reshape(4, 2048), wanted)


@pytest.mark.parametrize("programs", [1, 3, 4, 9])
def test_programs_in_step(programs: int) -> None:
    x = np.random.default_rng(programs).random((programs, 1024), np.float32)
    results = []
    for size in (1024, 1 << 60):
        out = np.zeros_like(x)
        Executable(compiled(rows, "*fp32,*fp32,i32", size, BLOCK=1024)).run((programs, 1, 1), [x, out, 3])
        results.append(out)
    assert np.array_equal(*results)


@ON_X86
@pytest.mark.parametrize(
    "kernel, signature, past",
    [
        (double, "*fp32,*fp32,i32", True),
        (inner, "*fp32,*fp32,i32,i32", True),
        (in_place, "*fp32,i32", False),
        (hands_over, "*fp32,*fp32,*i32", False),
        (exponential, "*fp32,*fp32,i32", False),
    ],
)
def test_which_stores(kernel: triton.JITFunction, signature: str, past: bool) -> None:
    """What is read back is in a cache, and what computes for long does not wait for memory."""
    artefact = compiled(kernel, signature, 1 << 20, BLOCK=1024)
    code = assembly(artefact.texts["llvm"], host_target())
    assert all((word in code) == past for word in NON_TEMPORAL)


@ON_X86
def test_short_rows_stay() -> None:
    assert "movnt" not in assembly(compiled(double, "*fp32,*fp32,i32", 1 << 20, BLOCK=256).texts["llvm"], host_target())
