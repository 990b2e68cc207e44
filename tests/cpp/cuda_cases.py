"""Eight CUDA kernels as people write them, each with inputs and the result that NumPy gives; for the CPU and for a GPU."""

from __future__ import annotations

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
    }
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


CASES = {f.__name__: f for f in (reduction, transpose, matmul, scan, histogram, softmax, layer_norm, stencil)}
