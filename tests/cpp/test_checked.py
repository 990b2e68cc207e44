"""What checked builds report, and what every build reports: bad indices, races, divergence, failed asserts."""

from __future__ import annotations

import re

import numpy as np
import pytest

import omnikernel
from omnikernel.cpp.library import KernelError
from omnikernel.cpp.module import Module


def make(source: str, **options: object) -> Module:
    text = "#include <omnikernel.h>\n" + source
    return omnikernel.load_inline("checks", cuda_source=text, **{"checked": True, **options})  # type: ignore[arg-type]


def floats(n: int) -> np.ndarray:
    return np.zeros(n, np.float32)


def report(mod: Module, launch: object, *args: object, kernel: str = "k") -> str:
    with pytest.raises(KernelError) as caught:
        getattr(mod, kernel)[launch](*args)
    return str(caught.value)


def test_an_index_out_of_bounds(compiler: object) -> None:
    mod = make("""__global__ void k(ok::View<float, 2> x, int j) {
  int i = blockIdx.x;
  x[i][j] = 1.0f;
}
__global__ void call(ok::View<float, 2> x) { x(blockIdx.x, 0) = x(0,
  -1); }
""")
    x = floats(12).reshape(3, 4)
    mod.k[3, 1](x, 3)
    assert report(mod, (3, 1), x, 4) == (
        "kernel 'k', block (0, 0, 0): checks.cu:4: index 4 is out of bounds for axis 1 of x, whose size is 4"
    )
    assert report(mod, (4, 1), x, 0) == (
        "kernel 'k', block (3, 0, 0): checks.cu:4: index 3 is out of bounds for axis 0 of x, whose size is 3"
    )
    assert "index -1 is out of bounds for axis 1 of x" in report(mod, (1, 1), x, kernel="call")


def test_an_index_beyond_an_array_of_the_kernel(compiler: object) -> None:
    mod = make("""__global__ void k(float *out, int n) {
  __shared__ float s[64];
  s[threadIdx.x + n] = 1;
  out[threadIdx.x] = s[threadIdx.x + n];
}""")
    mod.k[1, 64](floats(64), 0)
    assert "checks.cu:4: index 64 is out of bounds for an array of type 'float [64]'" in report(
        mod, (1, 64), floats(64), 1
    )


def test_dynamic_shared_memory_is_as_large_as_the_launch_says(compiler: object) -> None:
    mod = make("""__global__ void k(float *out) {
  extern __shared__ float s[];
  s[threadIdx.x] = 1;
  out[threadIdx.x] = s[threadIdx.x];
}""")
    mod.k[1, 64, 256](floats(64))
    assert "byte 255 of dynamic shared memory is used at checks.cu:4, but the launch gives 252 bytes" in report(
        mod, (1, 64, 252), floats(64)
    )


RACE = """__global__ void k(float *out) {
  __shared__ float s[64];
  int t = threadIdx.x;
  s[t] = t;
  BARRIER;
  out[t] = s[(t + DISTANCE) % 64];
}"""


@pytest.mark.parametrize(
    "barrier, distance, races",
    [
        ("__syncthreads()", 1, False),
        ("", 0, False),
        ("", 1, True),
        ("__syncwarp()", 32, True),
        ("__syncwarp()", 0, False),
    ],
)
def test_races_in_shared_memory(compiler: object, barrier: str, distance: int, races: bool) -> None:
    mod = make(RACE, macros={"BARRIER": barrier, "DISTANCE": distance})
    if races:
        text = report(mod, (1, 64), floats(64))
        pattern = r"race in shared memory: thread \d+ (reads|writes) at checks.cu:[57] what thread \d+ (wrote|read) at checks.cu:[57]"
        assert re.search(pattern, text), text
    else:
        mod.k[3, 64](floats(64))


def test_a_warp_is_ordered_by_syncwarp(compiler: object) -> None:
    mod = make("""__global__ void k(int *out) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = t;
  __syncwarp();
  out[t] = s[t ^ 1];
}""")
    out = np.zeros(64, np.int32)
    mod.k[1, 64](out)
    np.testing.assert_array_equal(out, np.arange(64) ^ 1)


def test_atomics_do_not_race(compiler: object) -> None:
    mod = make("""__global__ void k(unsigned *out) {
  __shared__ unsigned total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, threadIdx.x);
  atomicMax(&total, 0u);
  __syncthreads();
  if (threadIdx.x == 0) *out = total;
}""")
    out = np.zeros(1, np.uint32)
    mod.k[1, 100](out)
    assert out[0] == 4950


@pytest.mark.parametrize("checked", [False, True])
def test_barriers_that_never_meet(compiler: object, checked: bool) -> None:
    mod = make(
        """__global__ void k(float *x) {
  if (threadIdx.x < 16) __syncthreads();
  else __shfl_sync(0xffffffffu, 1, 0);
}
__global__ void lanes(float *x) {
  if (threadIdx.x == 3) return;
  if (threadIdx.x == 5) __syncwarp(1u << 5 | 1u << 4);
}
__global__ void mask(float *x) { if (threadIdx.x < 16) __syncwarp(0xff00u); }
""",
        checked=checked,
    )
    text = report(mod, (1, 32), None)
    assert text == (
        "kernel 'k', block (0, 0, 0): checks.cu:4: __shfl_sync: divergent: thread 16 waits there for lanes of mask "
        "0xffffffff, but thread 0 waits at __syncthreads (checks.cu:3)"
    )
    assert "lane 0 calls with mask 0x0000ff00, which does not name it" in report(mod, (1, 32), None, kernel="mask")


def test_divergent_barriers(compiler: object) -> None:
    source = """__global__ void k(float *x) {
  if (threadIdx.x % 2) __syncthreads();
  else
    __syncthreads();
}
__global__ void early(float *x, int n) {
  if (threadIdx.x >= n) return;
  __syncthreads();
}"""
    mod = make(source)
    assert report(mod, (1, 64), None) == (
        "kernel 'k', block (0, 0, 0): checks.cu:5: __syncthreads: divergent barrier: thread 0 is there, "
        "thread 1 is at __syncthreads (checks.cu:3)"
    )
    mod.early[1, 64](None, 64)
    with pytest.raises(
        KernelError, match=r"checks.cu:9: __syncthreads: divergent barrier: 4 of the block's 64 threads"
    ):
        mod.early[1, 64](None, 60)
    plain = make(source, checked=False)  # as on a GPU: any barrier is the barrier, who has returned is not waited for
    plain.k[1, 64](None)
    plain.early[1, 64](None, 60)


@pytest.mark.parametrize("checked", [False, True])
def test_a_failed_assert(compiler: object, checked: bool) -> None:
    mod = make(
        "#include <cassert>\n__global__ void k(int n) { assert(blockIdx.x + threadIdx.x < n); }", checked=checked
    )
    mod.k[2, 4](5)
    expected = "kernel 'k', block (1, 0, 0): checks.cu:3: assert failed: blockIdx.x + threadIdx.x < n (thread 3, 0, 0)"
    assert report(mod, (2, 4), 4) == expected


def test_a_stack_that_overflows(compiler: object) -> None:
    mod = make(
        """__device__ __noinline__ float deep(int n, float x) { volatile float a[64]; for (int i = 0; i < 64; i++) a[i] = x;
  return n ? deep(n - 1, x) + a[n % 64] : a[0]; }
__global__ void k(float *x, int n) { x[0] = deep(n, x[0]); __syncthreads(); }""",
        stack_bytes=16384,
        checked=False,
    )
    mod.k[1, 1](floats(1), 4)
    assert "pass stack_bytes= for larger local arrays" in report(mod, (1, 4), floats(1), 64)
