"""CUDA kernels as people write them, each with inputs and the result that NumPy gives; for the CPU and for a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import omnikernel
from omnikernel.cpp.module import Module

FOLDER = Path(__file__).parent / "kernels"
EXPLICIT = {
    "softmax": {
        "softmax_f32": "softmax<float>(ok::View<const float, 2> x, ok::View<float, 2> out)",
        "softmax_f16": "softmax<ok::f16>(ok::View<const ok::f16, 2> x, ok::View<ok::f16, 2> out)",
    },
    "rms_norm": {
        "rms_norm_f32": "rms_norm<float>(const float *x, const float *weight, float *out, int width, float eps)",
        "rms_norm_f16": "rms_norm<half, 64>(const half *x, const half *weight, half *out, int width, float eps)",
    },
    "adam": {
        "adamw": "optim::adam<optim::Decay::decoupled>"
        "(float *p, float *m, float *v, const float *g, int64_t n, float lr)",
    },
    "attention": {
        "attention": "attention<32, 16>(ok::View<const float, 2> q, ok::View<const float, 2> k, "
        "ok::View<const float, 2> v, ok::View<float, 2> out, float scale, bool causal)",
    },
}
Put = Callable[[Any], Any]


def load(name: str, **options: Any) -> Module:
    return omnikernel.load(name, FOLDER / f"{name}.cu", functions=EXPLICIT.get(name), **options)


def random(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def reduction(mod: Module, put: Put, get: Put) -> None:
    x, out = random(10_007), np.zeros(1, np.float32)
    device = put(out)
    mod.reduce_sum[7, 256](put(x), device)
    np.testing.assert_allclose(get(device)[0], x.astype(np.float64).sum(), rtol=1e-4, atol=1e-3)


def transpose(mod: Module, put: Put, get: Put) -> None:
    x = random(70, 45)
    device = put(np.zeros((45, 70), np.float32))
    mod.transpose[(2, 3), (32, 8)](put(x), device, 45, 70)
    np.testing.assert_array_equal(get(device), x.T)


def matmul(mod: Module, put: Put, get: Put) -> None:
    a, b = random(33, 50), random(50, 41)
    device = put(np.zeros((33, 41), np.float32))
    mod.matmul[(3, 3), (16, 16)](put(a), put(np.ascontiguousarray(b.T)).T, device)
    np.testing.assert_allclose(get(device), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


def scan(mod: Module, put: Put, get: Put) -> None:
    x = np.random.default_rng(1).integers(-9, 9, (3, 300), dtype=np.int32)
    device = put(np.zeros_like(x))
    mod.inclusive_scan[3, 128, 2 * 128 * 4](put(x), device)
    np.testing.assert_array_equal(get(device), np.cumsum(x, axis=1))


def histogram(mod: Module, put: Put, get: Put) -> None:
    data = np.random.default_rng(2).integers(0, 256, 5000, dtype=np.uint8)
    device = put(np.zeros(256, np.uint32))
    mod.histogram[5, 192](put(data), len(data), device)
    np.testing.assert_array_equal(get(device), np.bincount(data, minlength=256))


def softmax(mod: Module, put: Put, get: Put) -> None:
    x = random(13, 77)
    wide = x.astype(np.float64)
    expected = np.exp(wide - wide.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    device = put(np.zeros_like(x))
    mod.softmax_f32[4, (32, 4)](put(x), device)
    np.testing.assert_allclose(get(device), expected, rtol=1e-5)
    half = put(np.zeros(x.shape, np.float16))
    mod.softmax_f16[4, (32, 4)](put(x.astype(np.float16)), half)
    np.testing.assert_allclose(get(half), expected, rtol=6e-3)


def layer_norm(mod: Module, put: Put, get: Put) -> None:
    dy, x, weight = random(9, 130), random(9, 130) + 1, random(130)
    mean = x.mean(1)
    rstd = 1 / np.sqrt(x.var(1) + 1e-5)
    arrays = [put(a) for a in (dy, x, weight, mean, rstd)]
    dx, dweight, dbias = (put(np.zeros(s, np.float32)) for s in ((9, 130), 130, 130))
    mod.layer_norm_backward[9, 128](*arrays, dx, dweight, dbias)
    normal = (x - mean[:, None]).astype(np.float64) * rstd[:, None]
    g = dy.astype(np.float64) * weight
    expected = rstd[:, None] * (g - g.mean(1, keepdims=True) - normal * (g * normal).mean(1, keepdims=True))
    np.testing.assert_allclose(get(dx), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(get(dweight), (dy * normal).sum(0), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(get(dbias), dy.sum(0), rtol=1e-3, atol=1e-4)


def stencil(mod: Module, put: Put, get: Put) -> None:
    x = random(1000, dtype="float64")
    device = put(np.zeros(1000))
    mod.stencil_1d[8, 128](put(x), device)
    np.testing.assert_allclose(get(device), np.convolve(x, np.ones(7), "same") / 7, rtol=1e-12, atol=1e-14)


def rms_norm(mod: Module, put: Put, get: Put) -> None:
    x, weight = random(5, 300), random(300)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6) * weight
    device = put(np.zeros_like(x))
    mod.rms_norm_f32[5, 128](put(x), put(weight), device, 300, 1e-6)
    np.testing.assert_allclose(get(device), expected, rtol=1e-5, atol=1e-6)
    half = put(np.zeros(x.shape, np.float16))
    mod.rms_norm_f16[5, 64](put(x.astype(np.float16)), put(weight.astype(np.float16)), half, 300, 1e-6)
    np.testing.assert_allclose(get(half), expected, rtol=1e-2, atol=1e-3)


def blur(mod: Module, put: Put, get: Put) -> None:
    x = random(37, 53)
    device = put(np.zeros_like(x))
    mod.blur[(4, 3), (16, 16)](put(x), device, 37, 53)
    wide, weights = np.pad(x.astype(np.float64), 2, "edge"), np.array([1, 4, 6, 4, 1]) / 16
    expected = sum(a * b * wide[i : i + 37, j : j + 53] for i, a in enumerate(weights) for j, b in enumerate(weights))
    np.testing.assert_allclose(get(device), expected, rtol=1e-5, atol=1e-6)


def row_argmax(mod: Module, put: Put, get: Put) -> None:
    x = np.round(random(7, 500), 1)  # so that there are ties
    device = put(np.zeros(7, np.int64))
    mod.row_argmax[7, 96, 96 * 8](put(x), device, 500)
    np.testing.assert_array_equal(get(device), x.argmax(1))


def extremes(mod: Module, put: Put, get: Put) -> None:
    x = random(3333)
    device = put(np.array([np.inf, -np.inf], np.float32))
    mod.extremes[5, 96](put(x), device, x.size)
    np.testing.assert_array_equal(get(device), [x.min(), x.max()])


def keep_positive(mod: Module, put: Put, get: Put) -> None:
    x = np.random.default_rng(3).integers(-10, 11, 777, dtype=np.int32)
    for by_group in (False, True):
        kept, count = put(np.zeros(777, np.int32)), put(np.zeros(1, np.int32))
        mod.keep_positive[7, 128](put(x), x.size, kept, count, by_group)
        number = int(get(count)[0])
        assert number == (x > 0).sum()
        np.testing.assert_array_equal(np.sort(get(kept)[:number]), np.sort(x[x > 0]))


def group_sums(mod: Module, put: Put, get: Put) -> None:
    x = np.random.default_rng(4).integers(-9, 10, (2, 64, 4), dtype=np.int32)
    device = put(np.zeros((2, 64, 6), np.int32))
    mod.group_sums[2, 64, 64 * 4](put(x), device)
    mine = x.sum(2)
    tiles = mine.reshape(-1, 16)
    alike = [[max(u for u in tile if (u & 3) == (v & 3)) for v in tile] for tile in tiles]
    scans = [
        [sum(u for u in tile[: i + 1] if (u > 0) == (v > 0)) for i, v in enumerate(tile)] for tile in tiles.tolist()
    ]
    expected = [
        np.repeat(mine.sum(1), 64),
        np.repeat(tiles.sum(1), 16),
        np.repeat(mine.reshape(-1, 8).sum(1), 8),
        np.ravel(alike),
        np.ravel(scans),
        (np.cumsum(tiles, 1) - tiles).ravel(),
    ]
    for found, want in zip(get(device).reshape(128, 6).T, expected, strict=True):
        np.testing.assert_array_equal(found, want)


def swish_pairs(mod: Module, put: Put, get: Put) -> None:
    x, gate = random(256, 2, dtype="float16") * np.float16(2), random(255, 2, 1, dtype="float16").reshape(-1, 2)[:255]
    gate = np.concatenate([gate, gate[:1]])
    device = put(np.zeros_like(x))
    mod.swish_pairs[2, 128](put(x), put(gate), device, 0.25, 256)
    a, b = x.astype(np.float64), gate.astype(np.float64)
    expected = b / (1 + np.exp(-b)) * a + 0.25 * a
    near = np.abs(expected - 1).min(1) < 1e-2
    expected[(expected > 1).all(1), 0] = 1
    expected = np.where(a >= -2, expected, 0)
    np.testing.assert_allclose(get(device)[~near], expected[~near], rtol=1e-2, atol=2e-3)


def adam(mod: Module, put: Put, get: Put) -> None:
    p, g = random(5000), random(4999, 1).ravel()
    g = np.append(g, g[0])
    device = [put(a) for a in (p, np.zeros_like(p), np.zeros_like(p))]
    mod.adamw[3, 256](*device, put(g), p.size, 0.1)
    wide = g.astype(np.float64)
    np.testing.assert_allclose(get(device[1]), 0.1 * wide, rtol=1e-5)
    np.testing.assert_allclose(get(device[2]), 0.01 * wide**2, rtol=1e-4)
    expected = p * 0.99 - 0.1 * (0.1 * wide) / (0.1 * np.abs(wide) + 1e-6)
    np.testing.assert_allclose(get(device[0]), expected, rtol=1e-4, atol=1e-5)


def laplacian(mod: Module, put: Put, get: Put) -> None:
    u = random(9, 10, 11, dtype="float64")
    device = put(np.zeros_like(u))
    mod.laplacian[(2, 3, 3), (8, 4, 4)](put(u), device)
    expected = -6 * u
    for axis in range(3):
        expected += np.roll(u, 1, axis) + np.roll(u, -1, axis)
    inner = (slice(1, -1),) * 3
    np.testing.assert_allclose(get(device)[inner], expected[inner], rtol=1e-12, atol=1e-12)
    assert np.count_nonzero(get(device)) == 7 * 8 * 9


def single_pass(mod: Module, put: Put, get: Put) -> None:
    x, device = random(10_000), put(np.zeros(1))
    for _ in range(3):  # its state is as before
        mod.single_pass[20, 128](put(x), device, x.size)
        np.testing.assert_allclose(get(device)[0], x.astype(np.float64).sum(), rtol=1e-9)


def gelu_bf16(mod: Module, put: Put, get: Put) -> None:
    import ml_dtypes

    if get is not np.asarray:
        return  # torch takes no ml_dtypes
    x = random(2048).astype(ml_dtypes.bfloat16)
    device = put(np.zeros_like(x))
    mod.gelu_bf16[2, 128](put(x), device)
    wide = x.astype(np.float64)
    expected = 0.5 * wide * (1 + np.array([math.erf(v / math.sqrt(2)) for v in wide]))
    np.testing.assert_allclose(get(device).astype(np.float64), expected, rtol=1e-2, atol=1e-5)


def attention(mod: Module, put: Put, get: Put) -> None:
    q, k, v = (random(50, 32) * f for f in (1, 0.5, 2))
    for causal in (False, True):
        device = put(np.zeros_like(q))
        mod.attention[50, 64](put(q), put(k), put(v), device, 0.5, causal)
        scores = q.astype(np.float64) @ k.T * 0.5
        if causal:
            scores[np.triu_indices(50, 1)] = -np.inf
        weights = np.exp(scores - scores.max(1, keepdims=True))
        expected = weights / weights.sum(1, keepdims=True) @ v
        np.testing.assert_allclose(get(device), expected, rtol=1e-4, atol=1e-5)


CASES = {
    f.__name__: f
    for f in (
        *(reduction, transpose, matmul, scan, histogram, softmax, layer_norm, stencil),
        *(rms_norm, blur, row_argmax, extremes, keep_positive, group_sums, swish_pairs),
        *(adam, laplacian, single_pass, gelu_bf16, attention),
    )
}

# The ways in which a kernel can be declared.
SPELLINGS = """
extern "C" __global__ void a(int *x) { x[0] = 1; }
static __global__ void b(int *x);
__global__ static inline void c(int *x) { x[2] = 3; }
template <int N> __global__ void d(int *x) { x[3] = N; }
template __global__ void d<4>(int *);
static __global__ void b(int *x) { x[1] = 2; }
extern "C" {
__launch_bounds__(32) __global__ void e(int *x) {
  __shared__ alignas(16) int s[4]; volatile __shared__ int v[2]; __shared__ volatile float w;
  __shared__ int2 t[2], u;
  s[0] = 5; v[0] = s[0]; w = v[0]; t[0] = make_int2(w, 0); u = t[0];
  __syncthreads();
  x[4] = u.x;
}
}
"""
