"""CUDA's execution model and functions on the CPU; what is not emulated is named when the source is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_cases import SPELLINGS

import omnikernel
from omnikernel.cpp.emulation import UnsupportedCuda, emulate
from omnikernel.cpp.library import KernelError
from omnikernel.cpp.module import Module
from omnikernel.cpp.source import SignatureError
from omnikernel.errors import ArgumentTypeError, ArgumentValueError


def make(source: str, **options: Any) -> Module:
    return omnikernel.load_inline("emulated", cuda_source="#include <omnikernel.h>\n" + source, **options)


def ints(n: int) -> Any:
    return np.zeros(n, np.int32)


def test_dimensions_of_grid_and_block(compiler: object) -> None:
    mod = make("""
__device__ int linear() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
__global__ void k(int *out) {
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + linear()] = block * threads + linear();
}
__global__ void with_barrier(int *out) {
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int threads = blockDim.x * blockDim.y * blockDim.z;
  __syncthreads();
  out[block * threads + linear()] = block * threads + linear();
}""")
    for kernel in (mod.k, mod.with_barrier):
        out = ints(3 * 2 * 4 * 5 * 3 * 2)
        kernel[(3, 2, 4), (5, 3, 2)](out)
        np.testing.assert_array_equal(out, np.arange(len(out)))


def test_which_kernels_need_fibers() -> None:
    text = """
#define MEET __syncthreads()
__device__ float inner(float x) { MEET; return x; }
__device__ float outer(float x) { return inner(x); }
__global__ void a(float *x) { x[0] = outer(1); }
__global__ void b(float *x) { x[threadIdx.x] = 1; }
__global__ void c(float *x) { x[0] = __shfl_sync(~0u, x[1], 0); }
"""
    assert emulate(text, "a.cu").fibers == {"a", "c"}
    assert emulate('#include "mine.cuh"\n' + text, "a.cu").fibers == {"a", "b", "c"}
    assert emulate(text + "struct S { __device__ void f() { __syncwarp(); } };", "a.cu").fibers == {"a", "b", "c"}


@pytest.mark.parametrize(
    "line, found",
    [
        ("int i = blockIdx.x * blockDim.x + threadIdx.x;", True),
        ("const auto i = blockDim.y * blockIdx.y + threadIdx.y;", True),
        ("f(threadIdx.z + blockIdx.z * blockDim.z, 1);", True),
        ("for (int i = blockIdx.x*blockDim.x\n + threadIdx.x; i < n; i++) {}", True),
        ("int i = 2 * blockIdx.x * blockDim.x + threadIdx.x;", False),  # another product
        ("int i = blockIdx.x * blockDim.x + threadIdx.x * 4;", False),
        ("int i = n - blockIdx.x * blockDim.x + threadIdx.x;", False),
        ("size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;", False),  # of another type
        ("int i = blockIdx.x * blockDim.y + threadIdx.x;", False),  # no place in the grid
    ],
)
def test_a_threads_place_in_the_grid(line: str, found: bool) -> None:
    """A sum that is the place of a thread is made by a function of its own; lines stay, and so does everything else."""
    text = f"__global__ void k(float *x, int n) {{\n{line}\n}}"
    made = emulate(text, "a.cu").text
    assert ("ok::detail::position(" in made) is found
    assert made.count("\n") == text.count("\n")
    outside = emulate(text.replace("__global__", "__device__"), "a.cu").text
    assert "position" not in outside


def test_positions_are_right_in_every_dimension(compiler: object) -> None:
    mod = make("""__global__ void k(unsigned *out, int pitch) {
  unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = threadIdx.y + blockDim.y * blockIdx.y;
  int z = blockDim.z * blockIdx.z + threadIdx.z;
  out[(z * gridDim.y * blockDim.y + y) * pitch + x] = x + 100 * y + 10000 * z;
}
__global__ void far(unsigned long long *out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == blockDim.x - 1 && blockIdx.x == gridDim.x - 1) out[0] = i;
}""")
    out = np.zeros((2 * 2, 3 * 4, 5 * 8), np.uint32)
    mod.k[(5, 3, 2), (8, 4, 2)](out, 40)
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, x + 100 * y + 10000 * z)
    last = np.zeros(1, np.uint64)
    mod.far[(1 << 20) + 5, 8](last)
    assert last[0] == 8 * ((1 << 20) + 5) - 1


def test_warp_operations(compiler: object) -> None:
    mod = make("""__global__ void k(int *out) {
  int t = threadIdx.x, n = blockDim.x, i = 0;
  const unsigned all = 0xffffffffu;
  out[n * i++ + t] = __shfl_sync(all, t * 10, 3);
  out[n * i++ + t] = __shfl_sync(all, t, t + 1, 8);
  out[n * i++ + t] = __shfl_up_sync(all, t, 2);
  out[n * i++ + t] = __shfl_up_sync(all, t, 1, 4);
  out[n * i++ + t] = __shfl_down_sync(all, t, 5);
  out[n * i++ + t] = __shfl_down_sync(all, t, 3, 16);
  out[n * i++ + t] = __shfl_xor_sync(all, t, 9);
  out[n * i++ + t] = (int)__ballot_sync(all, t % 3 == 0);
  out[n * i++ + t] = __any_sync(all, t == 40) + 2 * __all_sync(all, t < 32);
  out[n * i++ + t] = (int)__match_any_sync(all, t % 5);
  out[n * i++ + t] = __reduce_add_sync(all, t) + __reduce_max_sync(all, -t) + __reduce_min_sync(all, t);
  out[n * i++ + t] = (int)__reduce_xor_sync(all, 1u << t % 7);
  long long wide = __shfl_xor_sync(all, (long long)t << 40, 1);
  out[n * i++ + t] = (int)(wide >> 40);
  if (t % 2) out[n * i + t] = (int)__activemask();
  else out[n * i + t] = (int)__ballot_sync(0x55555555u, 1);
  i++;
  int same;
  __match_all_sync(all, t / 32, &same);
  out[n * i++ + t] = same;
}""")
    n = 64
    out = ints(15 * n)
    mod.k[1, n](out)
    rows = out.reshape(15, n)
    t = np.arange(n)
    base, lane = t & ~31, t & 31
    expected = [
        (base + 3) * 10,
        (t & ~7) + ((t + 1) & 7),
        np.where(lane < 2, t, t - 2),
        np.where(t % 4 < 1, t, t - 1),
        np.where(lane + 5 > 31, t, t + 5),
        np.where(t % 16 + 3 > 15, t, t + 3),
        t ^ 9,
    ]
    for row, want in zip(rows, expected, strict=False):
        np.testing.assert_array_equal(row, want)
    bits = lambda chosen: np.sum(np.where(chosen, 1 << np.arange(32), 0))  # noqa: E731
    ballot = np.array([bits((np.arange(32) + b) % 3 == 0) for b in base], np.int64).astype(np.int32)
    np.testing.assert_array_equal(rows[7], ballot)
    np.testing.assert_array_equal(rows[8], np.where(t < 32, 2, 1))
    match = np.array([bits((np.arange(32) + b) % 5 == x % 5) for b, x in zip(base, t, strict=True)])
    np.testing.assert_array_equal(rows[9], match.astype(np.uint32).astype(np.int32))
    np.testing.assert_array_equal(rows[10], [sum(range(b, b + 32)) for b in base])
    xors = [int(np.bitwise_xor.reduce(1 << (np.arange(b, b + 32) % 7))) for b in base]
    np.testing.assert_array_equal(rows[11], xors)
    np.testing.assert_array_equal(rows[12], t ^ 1)
    np.testing.assert_array_equal(rows[13], np.where(t % 2, -0x55555556, 0x55555555))
    np.testing.assert_array_equal(rows[14], 1)


def test_barriers_that_vote(compiler: object) -> None:
    mod = make("""__global__ void k(int *out) {
  int t = threadIdx.x;
  out[t] = __syncthreads_count(t % 3 == 0);
  out[t] += 1000 * __syncthreads_or(t == 70) + 10000 * __syncthreads_and(t < 100) + 100000 * __syncthreads_and(t < 99);
}""")
    out = ints(100)
    mod.k[1, 100](out)
    np.testing.assert_array_equal(out, 34 + 1000 + 10000)


def test_atomics_across_blocks(compiler: object) -> None:
    mod = make("""__global__ void k(int *i, unsigned *u, unsigned long long *w, float *f, double *d) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&i[0], t); atomicSub(&i[1], 1); atomicMax(&i[2], t); atomicMin(&i[3], -t);
  atomicInc(&u[0], 9u); atomicOr(&u[1], 1u << t % 32); atomicXor(&u[2], 1u << t % 32); atomicAnd(&u[3], ~(1u << t % 8));
  atomicAdd(w, 1ull << 40); atomicAdd(f, 1.0f); atomicAdd(d, 0.5);
  int seen = i[4], assumed;
  do { assumed = seen; seen = atomicCAS(&i[4], assumed, assumed + 2); } while (seen != assumed);
}""")
    n = 64 * 100
    i, u = ints(5), np.array([0, 0, 0, 0xFFFFFFFF], np.uint32)
    w, f, d = np.zeros(1, np.uint64), np.zeros(1, np.float32), np.zeros(1)
    mod.k[64, 100](i, u, w, f, d)
    np.testing.assert_array_equal(i, [n * (n - 1) // 2, -n, n - 1, -(n - 1), 2 * n])
    np.testing.assert_array_equal(u, [n % 10, 0xFFFFFFFF, 0, 0xFFFFFF00])
    assert (w[0], f[0], d[0]) == (n << 40, n, n / 2)


def test_half_and_bfloat16(compiler: object) -> None:
    import ml_dtypes

    mod = make("""#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void k(const __half *x, const __half *y, __half *out, int n) {
  int i = threadIdx.x;
  out[i] = __hadd(x[i], y[i]); out[n + i] = __hmul(x[i], y[i]); out[2 * n + i] = __hfma(x[i], y[i], x[i]);
  __half2 both = __hadd2(__halves2half2(x[i], y[i]), __float2half2_rn(1.0f));
  out[3 * n + i] = __low2half(both); out[4 * n + i] = hsqrt(__habs(x[i])); out[5 * n + i] = x[i] / y[i];
}
__global__ void b(const float *x, ok::View<ok::bf16, 1> out, ok::View<ok::f8e4m3, 1> narrow, ok::View<ok::f8e5m2, 1> wide) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = __float2bfloat16(x[i]); narrow[i] = ok::f8e4m3(x[i]); wide[i] = ok::f8e5m2(x[i]);
}
__global__ void widen(const ok::f8e4m3 *x, const ok::f8e5m2 *y, float *out) {
  out[threadIdx.x] = (float)x[threadIdx.x]; out[256 + threadIdx.x] = (float)y[threadIdx.x];
}""")
    r = np.random.default_rng(0)
    n = 512
    x, y = (r.standard_normal(n).astype(np.float16) for _ in range(2))
    out = np.zeros((6, n), np.float16)
    mod.k[1, n](x, y, out, n)
    wide = [v.astype(np.float64) for v in (x, y)]
    wanted = [x + y, x * y, (wide[0] * wide[1] + wide[0]).astype(np.float16), x + np.float16(1), np.sqrt(abs(x)), x / y]
    for row, want in zip(out, wanted, strict=True):
        np.testing.assert_array_equal(row, want)
    z = np.concatenate(
        [r.standard_normal(500) * 10.0 ** r.integers(-6, 4, 500), [0, -0.0, 448, 464, -1e9, 2**-9, 2**-10]]
    )
    z = np.concatenate([z, 1.5 * 2.0 ** np.arange(-20, -15)]).astype(np.float32)
    assert len(z) == 512
    bf, narrow, wide8 = (
        np.zeros(512, ml_dtypes.bfloat16),
        np.zeros(512, ml_dtypes.float8_e4m3fn),
        np.zeros(512, ml_dtypes.float8_e5m2),
    )
    mod.b[2, 256](z, bf, narrow, wide8)
    np.testing.assert_array_equal(bf.view(np.uint16), z.astype(ml_dtypes.bfloat16).view(np.uint16))
    np.testing.assert_array_equal(
        narrow.view(np.uint8), np.clip(z, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    )
    np.testing.assert_array_equal(
        wide8.view(np.uint8), np.clip(z, -57344, 57344).astype(ml_dtypes.float8_e5m2).view(np.uint8)
    )
    every = np.arange(256, dtype=np.uint8)
    floats = np.zeros((2, 256), np.float32)
    mod.widen[1, 256](every.view(ml_dtypes.float8_e4m3fn), every.view(ml_dtypes.float8_e5m2), floats)
    np.testing.assert_array_equal(floats[0], every.view(ml_dtypes.float8_e4m3fn).astype(np.float32))
    np.testing.assert_array_equal(floats[1], every.view(ml_dtypes.float8_e5m2).astype(np.float32))


def test_half_comparisons_rounding_and_conversions(compiler: object) -> None:
    mod = make("""#include <cuda_fp16.h>
__global__ void k(const half *x, const half *y, int *flags, half *out, int n) {
  const int i = threadIdx.x;
  const half a = x[i], b = y[i];
  flags[i] = __heq(a, b) | __hne(a, b) << 1 | __hlt(a, b) << 2 | __hge(a, b) << 3 | __hltu(a, b) << 4 | __hneu(a, b) << 5
           | __hbgt2(half2(a, a), half2(b, b)) << 6 | __hisnan(a) << 7 | (__hisinf(a) == 1) << 8;
  const half found[] = {hceil(a), hfloor(a), htrunc(a), hrint(a), __hmax(a, b), __hmin_nan(a, b), __hadd_sat(a, b),
                        __hfma_relu(a, b, a), __low2half(__hle2(half2(a, b), half2(b, a))), htanh(a)};
  for (int k = 0; k < 10; k++) out[k * n + i] = found[k];
  flags[n + i] = __half2int_rd(a) * 1000 + __half2int_rn(a);
}""")
    x = np.array([0, -1.5, 2.5, np.nan, np.inf, 0.3, -0.7, 100], np.float16)
    y = np.array([0, 1, 2.5, 1, np.inf, np.nan, -2, 3], np.float16)
    flags, out = ints(16), np.zeros((10, 8), np.float16)
    mod.k[1, 8](x, y, flags, out, 8)
    unordered = np.isnan(x) | np.isnan(y)
    bits = [x == y, (x != y) & ~unordered, x < y, x >= y, (x < y) | unordered, (x != y) | unordered, x > y, np.isnan(x)]
    bits.append(np.isposinf(x))
    np.testing.assert_array_equal(flags[:8], sum(b.astype(int) << i for i, b in enumerate(bits)))
    clean = np.nan_to_num(x, nan=0, posinf=np.inf).astype(float)
    whole = lambda v: np.where(np.isinf(v), 2**31 - 1, v).astype(np.int64)  # noqa: E731
    finite = ~np.isinf(x)
    np.testing.assert_array_equal(
        flags[8:][finite], (whole(np.floor(clean)) * 1000 + whole(np.rint(clean)))[finite].astype(np.int32)
    )
    with np.errstate(all="ignore"):
        wanted = [np.ceil(x), np.floor(x), np.trunc(x), np.rint(x), np.fmax(x, y), np.minimum(x, y)]
        wanted += [np.nan_to_num(np.clip(x + y, 0, 1), nan=0), (x * y + x), (x <= y).astype(np.float16), np.tanh(x)]
        wanted[7] = np.where(wanted[7] < 0, 0, wanted[7])
    for row, want in zip(out, wanted, strict=True):
        np.testing.assert_allclose(row, want.astype(np.float16), rtol=1e-3)


def test_pointers_to_vectors(compiler: object) -> None:
    mod = make("""__global__ void k(const float4 *x, uchar4 *out, const float3 *points) {
  const float4 v = x[threadIdx.x];
  out[threadIdx.x] = make_uchar4(v.x, v.y, v.z, points[threadIdx.x].y);
}""")
    x, out = np.arange(32, dtype=np.float32), np.zeros((8, 4), np.uint8)
    points = np.arange(25, dtype=np.float32)[1:].reshape(8, 3)
    mod.k[1, 8](x, out, points)
    np.testing.assert_array_equal(out, np.column_stack([x.reshape(8, 4)[:, :3], points[:, 1]]))
    wide = np.zeros(64, np.uint8)
    start = -wide.ctypes.data % 16 + 4  # beyond a multiple of 16
    crooked = wide[start : start + 16].view(np.float32)
    with pytest.raises(
        ArgumentValueError, match=r"'x': expected an array aligned to 16 bytes for const float4 \*, got addre"
    ):
        mod.k[1, 1](crooked, out, points)
    with pytest.raises(
        ArgumentValueError, match=r"'x': expected a multiple of 4 elements .*, got shape \(3,\); pass an array"
    ):
        mod.k[1, 1](x[:3].copy(), out, points)
    with pytest.raises(ArgumentTypeError, match=r"'x': expected an array of float32, got numpy array of float64"):
        mod.k[1, 1](x.astype(np.float64), out, points)


@pytest.mark.parametrize("parameter", ["Params p", "float4 p", "dim3 p"])
def test_structs_are_refused_with_advice(parameter: str) -> None:
    with pytest.raises(SignatureError) as caught:
        make(f"struct Params {{ int n; }};\n__global__ void k(float *x, {parameter}) {{}}")
    assert str(caught.value).startswith(
        f"emulated.cu:3: 'k', parameter 'p': the type '{parameter.split(maxsplit=1)[0]}' is not known;"
    )
    assert str(caught.value).endswith("a struct or a vector is not passed by value: take its members as parameters")


def test_coalesced_groups_know_their_ranks(compiler: object) -> None:
    mod = make("""#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(int *out, int tile) {
  const int t = threadIdx.x;
  if (t % 3 == 0) {
    auto g = cg::coalesced_threads();
    const int r = g.thread_rank();
    out[8 * t] = r, out[8 * t + 1] = g.size(), out[8 * t + 2] = g.shfl_up(t, 2), out[8 * t + 3] = g.shfl_down(t, 1);
    out[8 * t + 4] = g.ballot(r % 2), out[8 * t + 5] = g.any(t == 3) + 2 * g.all(t < 60);
    out[8 * t + 6] = g.match_any(r / 4), out[8 * t + 7] = cg::tiled_partition(g, tile).size();
  }
}""")
    out = ints(8 * 64)
    mod.k[1, 64](out, 4)
    for warp in range(2):
        lanes = [t for t in range(32 * warp, 32 * warp + 32) if t % 3 == 0]
        n = len(lanes)
        for r, t in enumerate(lanes):
            alike = sum(1 << s for s in range(n) if s // 4 == r // 4)
            odd = sum(1 << s for s in range(n) if s % 2)
            votes = int(3 in lanes) + 2 * int(all(lane < 60 for lane in lanes))
            down = lanes[r + 1] if r + 1 < n else t
            rest = min(4, n - r // 4 * 4)
            assert out[8 * t : 8 * t + 8].tolist() == [
                r,
                n,
                lanes[r - 2] if r > 1 else t,
                down,
                odd,
                votes,
                alike,
                rest,
            ]
    with pytest.raises(KernelError, match=r"tiled_partition: a tile has 1, 2, 4, 8, 16 or 32 threads, got 5"):
        mod.k[1, 64](out, 5)


def test_integer_functions(compiler: object) -> None:
    mod = make("""__global__ void k(int *o) {
  int i = 0;
  o[i++] = __clz(1) + __clz(0); o[i++] = __popc(0xf0f0u); o[i++] = __ffs(8); o[i++] = (int)__brev(1u);
  o[i++] = __mulhi(1 << 30, 8); o[i++] = (int)__umulhi(0xffffffffu, 2u); o[i++] = (int)__byte_perm(0x33221100u, 0x77665544u, 0x7210u);
  o[i++] = (int)__funnelshift_l(0x80000000u, 1u, 1); o[i++] = __float2int_rn(2.5f); o[i++] = __float2int_rz(-2.7f);
  o[i++] = __float2int_rd(1e20f); o[i++] = (int)__float2uint_rn(-3.0f); o[i++] = __dp4a(0x01020304, 0x01010101, 5);
  o[i++] = __float_as_int(1.0f); o[i++] = min(3, -2) + max(4u, 1u); o[i++] = (int)(1000 * rsqrtf(4.0f));
  o[i++] = (int)fminf(max(2.0f, NAN), 9.0f);
}""")
    out = ints(17)
    mod.k[1, 1](out)
    expected = [31 + 32, 8, 4, -(2**31), 2, 1, 0x77221100, 3, 2, -2, 2**31 - 1, 0, 15, 0x3F800000, 2, 500, 2]
    np.testing.assert_array_equal(out, expected)


def test_vector_types_and_constants(compiler: object) -> None:
    mod = make("""__constant__ float table[4] = {1, 10, 100, 1000};
__device__ int calls;
__global__ void k(const float *x, float *out) {
  float4 v = reinterpret_cast<const float4 *>(x)[threadIdx.x];
  v.x *= table[0]; v.y *= table[1]; v.z *= table[2]; v.w *= table[3];
  reinterpret_cast<float4 *>(out)[threadIdx.x] = v;
}""")
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    mod.k[1, 8](x, out)
    np.testing.assert_array_equal(out, x * np.tile([1, 10, 100, 1000], 8))


def test_cooperative_groups(compiler: object) -> None:
    mod = make("""#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void k(int *out) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int v = cg::reduce(tile, (int)block.thread_rank(), cg::plus<int>());
  block.sync();
  out[block.thread_rank()] = v * 10 + (int)tile.meta_group_rank() + 100000 * (int)tile.ballot(tile.thread_rank() == 1);
}""")
    out = ints(32)
    mod.k[1, 32](out)
    t = np.arange(32)
    np.testing.assert_array_equal(out, [10 * sum(range(g * 8, g * 8 + 8)) + g + 200000 for g in t // 8])


def test_dynamic_shared_memory_at_file_scope(compiler: object) -> None:
    mod = make("""extern __shared__ __align__(16) unsigned char raw[];
__global__ void k(int *out) {
  int *words = (int *)raw;
  words[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
}""")
    out = ints(48)
    mod.k[1, 48, 48 * 4](out)
    np.testing.assert_array_equal(out, np.arange(48)[::-1])


def test_ways_to_spell_a_kernel(compiler: object) -> None:
    explicit = dict.fromkeys("abce", "(int *x)") | {"d": "d<4>(int *x)"}
    mod = make(SPELLINGS, functions=explicit)
    x = ints(5)
    for name in "abcde":
        getattr(mod, name)[1, 1](x)
    np.testing.assert_array_equal(x, [1, 2, 3, 4, 5])


def test_printf(compiler: object, capfd: pytest.CaptureFixture[str]) -> None:
    mod = make('__global__ void k(int n) { if (threadIdx.x == n) printf("thread %d of %s\\n", n, "k"); }')
    mod.k[1, 8](5)
    assert capfd.readouterr().out == "thread 5 of k\n"


@pytest.mark.parametrize(
    "body, message",
    [
        (
            'asm("trap;");',
            "emulated.cu:3: inline PTX ('asm') is not emulated on the CPU; guard it with #ifndef OK_CUDA_ON_CPU",
        ),
        ("float v = tex2D<float>(t, 0, 0);", "emulated.cu:3: textures ('tex2D') is not emulated"),
        ("nvcuda::wmma::fragment<A> f;", "emulated.cu:3: tensor-core intrinsics ('nvcuda') is not emulated"),
        ("auto g = cg::this_grid();", "emulated.cu:3: cooperative groups of a grid ('this_grid') is not emulated"),
        (
            "k<<<1, 1>>>(x);",
            "emulated.cu:3: a launch from C++ (<<<...>>>) ('<<<') is not emulated on the CPU; launch the kernel",
        ),
        ("cudaMalloc(&x, 4);", "emulated.cu:3: the CUDA runtime's functions ('cudaMalloc') is not emulated"),
    ],
)
def test_what_is_not_emulated(body: str, message: str) -> None:
    with pytest.raises(UnsupportedCuda) as caught:
        make(f"__global__ void k(float *x) {{\n{body}\n}}")
    assert message in str(caught.value)


def test_torch_headers_are_refused() -> None:
    with pytest.raises(
        UnsupportedCuda, match=r"emulated.cu:2: <torch/extension.h> is not available on the CPU; take arrays as ok::V"
    ):
        make("#include <torch/extension.h>\n__global__ void k() {}")
