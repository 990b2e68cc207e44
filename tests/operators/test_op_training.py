"""A transformer of two blocks gives the same losses over twenty steps, however it is run (f32, to 2e-5)."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training import jax_step, losses, plain_torch, torch_step  # noqa: E402

TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def expected():
    found = losses(torch_step(use=plain_torch()))
    assert found[-1] < 0.1 * found[0]  # it learns
    return found


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()


@pytest.mark.torch
def test_eager(expected):
    np.testing.assert_allclose(losses(torch_step()), expected, atol=TOLERANCE)


@pytest.mark.jax
def test_jax(expected):
    pytest.importorskip("jax")
    np.testing.assert_allclose(losses(jax_step()), expected, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("backend", ["cpp", "triton"])
def test_compiled(expected, backend):
    with torch._inductor.config.patch(cpu_backend=backend):
        np.testing.assert_allclose(losses(torch_step(compiled=True)), expected, atol=TOLERANCE)
