"""Every example, compiled, on ragged sizes and on the arrays of three libraries, against float64."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import attention
import layer_norm
import matmul
import ml_dtypes
import numpy as np
import pytest
import softmax
import vector_add
from anyarray import float64

Convert = Callable[[np.ndarray], Any]


def _numpy(x: np.ndarray) -> np.ndarray:
    return x


def _torch(x: np.ndarray) -> Any:
    torch = pytest.importorskip("torch")
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.astype(np.float32)).bfloat16()
    return torch.from_numpy(x.copy())


def _jax(x: np.ndarray) -> Any:
    return pytest.importorskip("jax.numpy").asarray(x)


@pytest.fixture(
    params=[_numpy, pytest.param(_torch, marks=pytest.mark.torch), pytest.param(_jax, marks=pytest.mark.jax)],
    ids=["numpy", "torch", "jax"],
)
def convert(request: pytest.FixtureRequest) -> Convert:
    return request.param


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def close(got: Any, want: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(float64(got), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", [1, 127, 1024, 5000])
def test_vector_add(convert: Convert, n: int) -> None:
    x, y = convert(normal(n)), convert(normal(n, seed=1))
    close(vector_add.add(x, y), vector_add.reference(x, y), 1e-6)


def test_vector_add_leaves_the_rest_alone() -> None:
    x, out = normal(100), np.full(128, 7, np.float32)
    vector_add.add(x, x, out[:100], block=64)
    assert (out[100:] == 7).all()


@pytest.mark.parametrize("shape", [(1, 1), (5, 77), (33, 781), (3, 4096)])
@pytest.mark.parametrize("programs", [None, 1, 4])
def test_softmax(convert: Convert, shape: tuple[int, int], programs: int | None) -> None:
    x = convert(normal(*shape) * 10)
    close(softmax.softmax(x, programs=programs), softmax.reference(x), 2e-6)


def test_softmax_f16_rows_apart() -> None:
    x = normal(9, 200).astype(np.float16)[:, :130]
    close(softmax.softmax(x), softmax.reference(x), 1e-3)


@pytest.mark.parametrize("shape", [(1, 16), (7, 100), (40, 1021)])
def test_layer_norm(convert: Convert, shape: tuple[int, int]) -> None:
    x, w, b = convert(normal(*shape) * 3 + 1), convert(normal(shape[1], seed=1)), convert(normal(shape[1], seed=2))
    y, mean, rstd = layer_norm.layer_norm(x, w, b)
    close(y, layer_norm.reference(x, w, b), 1e-5)
    close(mean, float64(x).mean(axis=1), 1e-5)
    close(rstd, 1 / np.sqrt(float64(x).var(axis=1) + 1e-5), 1e-5)


@pytest.mark.parametrize("shape", [(1, 16), (70, 100)])
@pytest.mark.parametrize("atomic", [False, True], ids=["locks", "atomic_add"])
def test_layer_norm_backward(convert: Convert, shape: tuple[int, int], atomic: bool) -> None:
    x, w, b = convert(normal(*shape)), convert(normal(shape[1], seed=1)), convert(normal(shape[1], seed=2))
    dy = convert(normal(*shape, seed=3))
    _, mean, rstd = layer_norm.layer_norm(x, w, b)
    got = layer_norm.layer_norm_backward(dy, x, w, mean, rstd, atomic=atomic, slots=4)
    for g, want in zip(got, layer_norm.reference_backward(dy, x, w), strict=True):
        close(g, want, 2e-5)


@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 65, 17), (130, 70, 190)], ids=str)
@pytest.mark.parametrize("activation", ["", "silu"])
def test_matmul(convert: Convert, shape: tuple[int, int, int], activation: str) -> None:
    m, n, k = shape
    a, b = convert(normal(m, k)), convert(normal(k, n, seed=1))
    close(matmul.matmul(a, b, activation=activation, tile=(32, 64, 32)), matmul.reference(a, b, activation), 2e-5)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_matmul_narrow(convert: Convert, dtype: Any) -> None:
    a, b = convert(normal(50, 70).astype(dtype)), convert(normal(70, 40, seed=1).astype(dtype))
    # One rounding to the result's dtype, of sums taken in f32.
    tolerance = {np.float16: 2e-3, ml_dtypes.bfloat16: 1e-2}[dtype]
    close(matmul.matmul(a, b, activation="relu", tile=(64, 64, 32)), matmul.reference(a, b, "relu"), tolerance)


def test_matmul_strided_factors() -> None:
    a, b = normal(70, 50).T, normal(140, 64, seed=1)[::2, ::-1]
    close(matmul.matmul(a, b, tile=(32, 32, 32)), matmul.reference(a, b), 2e-5)


def test_matmul_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = normal(45, 61), normal(61, 50, seed=1)
    close(matmul.matmul(a, b), matmul.reference(a, b), 2e-5)
    assert matmul.matmul_kernel.best_config.kwargs["BLOCK_K"] in {k for _, _, k in matmul.TILES}


@pytest.mark.parametrize("length", [1, 50, 128, 200])
@pytest.mark.parametrize("blocks", [(32, 16), (64, 64)], ids=str)
def test_attention(convert: Convert, length: int, blocks: tuple[int, int]) -> None:
    q, k, v = (convert(normal(2, 3, length, 32, seed=s)) for s in range(3))
    close(attention.attention(q, k, v, None, *blocks), attention.reference(q, k, v), 1e-5)


@pytest.mark.parametrize("name", ["vector_add", "softmax", "layer_norm", "matmul", "attention"])
def test_no_import_of_ours(name: str) -> None:
    """What the examples show must work with the package installed and never named."""
    module = importlib.import_module(name)
    assert module.__file__ is not None
    with open(module.__file__) as file:
        assert "omnikernel" not in file.read()
