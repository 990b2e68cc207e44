"""Kernels whose threads loop over the grid run step by step, all threads of a block side by side: which, and that they stay right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnikernel
from omnikernel.cpp.emulation import emulate

LOOP = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)"


def stepped(body: str, parameters: str = "float *x, const float *y, int n") -> bool:
    """Whether a kernel of this body runs step by step. Its lines and what it says stay."""
    text = f"__global__ void kern({parameters}) {{\n{body}\n}}\n"
    made = emulate(text, "a.cu")
    assert made.text.count("\n") == text.count("\n")
    assert body in made.text.replace("ok::detail::position(blockIdx.x, blockDim.x, threadIdx.x, gridDim.x)", PLACE)
    return "kern" in made.strided


PLACE = "blockIdx.x * blockDim.x + threadIdx.x"
STEPPED = [
    f"{LOOP} x[i] = y[i];",
    f"{LOOP} {{ float v = y[i]; for (int k = 0; k < 8; k++) v = v * v + k; x[i] += v; }}",
    f"{LOOP} {{ // a comment\n if (y[i] > 0) atomicAdd(&x[i % 7], y[i]); else x[i] = 0; }}",
    f"const int first = {PLACE};\n int step = gridDim.x * blockDim.x; for (int i = first; i < n / 2; i += step) x[i] = 1;",
    LOOP.replace("int i", "size_t i") + " { x[i] *= 2.f; }",
]
NOT_STEPPED = [
    f"float sum = 0; {LOOP} sum += y[i]; atomicAdd(x, sum);",  # a sum outlives the step
    f"{LOOP} {{ if (y[i] > 0) break; x[i] = 1; }}",
    f"{LOOP} {{ if (y[i] > 0) continue; x[i] = 1; }}",
    f"{LOOP} {{ if (y[i] > 0) return; x[i] = 1; }}",
    f"{LOOP} {{ x[i] = 1; i++; }}",
    f"{LOOP} {{ x[i] = 1; n = n - 1; }}",
    f"{LOOP} {{ x[i] = 1; n >>= 1; }}",
    f"{LOOP} {{ x[i] = 1; x += 1; }}",
    f"{LOOP} {{ x[i] = 1; change(&n); }}",
    f"{LOOP} x[i] = 1; x[0] = 2;",  # something follows
    f"if (n > 0) {LOOP} x[i] = 1;",
    f"{LOOP} {{\n#pragma unroll\n for (int k = 0; k < 4; k++) x[4 * i + k] = 1; }}",
    LOOP.replace("i < n", "i < length()") + " x[i] = 1;",  # perhaps another at every call
    LOOP.replace("i < n", "i <= n") + " x[i] = 1;",
    LOOP.replace("* gridDim.x)", "* 2)") + " x[i] = 1;",  # narrower than the grid: threads meet the same elements
    LOOP.replace("+ threadIdx.x;", "+ threadIdx.x + 1;") + " x[i] = 1;",
    LOOP + " { x[i] = 1; __syncthreads(); }",
]


@pytest.mark.parametrize("body", STEPPED)
def test_loops_that_run_step_by_step(body: str) -> None:
    assert stepped(body)


@pytest.mark.parametrize("body", NOT_STEPPED)
def test_loops_that_do_not(body: str) -> None:
    assert not stepped(body)


def test_a_kernel_that_is_declared_twice_stays_as_it_is() -> None:
    text = f"__global__ void k(float *x, int n);\n__global__ void k(float *x, int n) {{ {LOOP} x[i] = 1; }}"
    assert not emulate(text, "a.cu").strided


SOURCE = f"""
#include <omnikernel.h>
// Every thread goes on from what it wrote a step before.
__global__ void chain(int *x, int n, int width) {{ {LOOP} {{ x[i] = i < width ? 1 : x[i - width] + 1; }} }}
template <typename T> __global__ void axpy(ok::View<const T, 1> x, ok::View<T, 1> y, T a) {{
  const unsigned step = blockDim.x * gridDim.x;
  for (int64_t i = threadIdx.x + blockIdx.x * blockDim.x; i < y.size(0); i += step)
    y[i] += a * x[i];
}}
__device__ int mine() {{ return threadIdx.x + 1; }}
__global__ void who(int *x, int n) {{ {LOOP} x[i] = mine(); }}
"""


@pytest.mark.parametrize(
    "before",
    ["#define CHECK(v) if (v < 0) return", "__device__ void CHECK(int &v) { v += 1; }"],
    ids=["a macro", "a reference"],
)
def test_what_may_jump_or_change_an_argument(before: str) -> None:
    body = f"__global__ void kern(float *x, int n) {{ {LOOP} {{ CHECK(i); x[i] = 1; }} }}"
    assert not emulate(f"{before}\n{body}", "a.cu").strided
    assert emulate(f"__device__ void CHECK(int v) {{}}\n{body}", "a.cu").strided


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
def test_results(compiler: object, checked: bool) -> None:
    explicit = {
        "chain": "(int *x, int n, int width)",
        "who": "(int *x, int n)",
        "axpy": "axpy<double>(ok::View<const double, 1> x, ok::View<double, 1> y, double a)",
    }
    mod: Any = omnikernel.load_inline("strides", cuda_source=SOURCE, functions=explicit, checked=checked)
    for n in (0, 1, 31, 96, 97, 1000):
        x = np.full(1001, -1, np.int32)
        mod.chain[3, 32](x, n, 96)
        np.testing.assert_array_equal(x[:n], 1 + np.arange(n) // 96)
        assert (x[n:] == -1).all()
        a, y = np.arange(n, dtype=np.float64), np.ones(n)
        mod.axpy[2, 40](a[::-1], y, 0.5)
        np.testing.assert_array_equal(y, 1 + 0.5 * a[::-1])
        mod.who[2, 16](x, n)
        np.testing.assert_array_equal(x[:n], 1 + np.arange(n) % 16)
