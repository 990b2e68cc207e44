"""Operators on a GPU: the six examples, streams, graphs, compiled functions, CuPy's arrays, JAX. Skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F
from declared import dense_copy, everything, increment_, outer, scale, tenfold, two_steps_
from operators import attention, cross_entropy, gelu, layer_norm, rms_norm, softmax

from omnikernel.errors import ArgumentTypeError

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

LABELS = torch.tensor([1, 0, -100, 3, 2, 1] * 4)
CASES = {
    "gelu": (gelu, F.gelu, [(24, 40)]),
    "softmax": (softmax, lambda x: F.softmax(x, -1), [(24, 40)]),
    "rms_norm": (rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), [(24, 40), (40,)]),
    "layer_norm": (layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), [(24, 40), (40,), (40,)]),
    "cross_entropy": (
        lambda x: cross_entropy(x, LABELS[: len(x)].to(x.device)),
        lambda x: F.cross_entropy(x, LABELS[: len(x)].to(x.device), reduction="none"),
        [(24, 40)],
    ),
    "attention": (attention, F.scaled_dot_product_attention, [(2, 3, 40, 32)] * 3),
    "causal_attention": (
        lambda q, k, v: attention(q, k, v, True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 3, 40, 32)] * 3,
    ),
}
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 6e-3, torch.bfloat16: 4e-2}


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    torch.manual_seed(0)


def inputs(shapes, dtype=torch.float32):
    return [torch.randn(*shape, device="cuda", dtype=dtype) for shape in shapes]


def with_gradients(operator, arrays):
    leaves = [x.detach().clone().requires_grad_() for x in arrays]
    found = operator(*leaves)
    weight = torch.linspace(-1, 1, found.numel(), device="cuda").reshape(found.shape)
    return [found.detach(), *torch.autograd.grad((found.float() * weight).sum(), leaves)]


def close(found, expected, dtype):
    for one, other in zip(found, expected, strict=True):
        assert one.device.type == "cuda" and one.dtype == dtype
        torch.testing.assert_close(one.float(), other.float(), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


# ---- the six examples ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, dtype):
    operator, reference, shapes = CASES[name]
    arrays = inputs(shapes, dtype)
    expected = with_gradients(reference, [x.float() for x in arrays])
    close(with_gradients(operator, arrays), expected, dtype)


@pytest.mark.parametrize("name", CASES)
def test_any_layout(name):
    operator, reference, shapes = CASES[name]
    x, *rest = inputs(shapes)
    for view in (x.transpose(-1, -2).contiguous().transpose(-1, -2), x[:1].expand(x.shape), x[:0]):
        others = [y[: len(view)] if y.shape == x.shape else y for y in rest]
        torch.testing.assert_close(operator(view, *others), reference(view, *others), atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_compiled(name):
    operator, reference, shapes = CASES[name]
    arrays = inputs(shapes)
    compiled = torch.compile(lambda *xs: operator(*(x + 1 for x in xs)) * 2, fullgraph=True)
    expected = with_gradients(lambda *xs: reference(*(x + 1 for x in xs)) * 2, arrays)
    close(with_gradients(compiled, arrays), expected, torch.float32)


@pytest.mark.parametrize("name", ["gelu", "layer_norm"])
def test_second_derivatives(name):
    operator, _, shapes = CASES[name]
    leaves = [torch.randn(min(s[0], 3), *s[1:], device="cuda", dtype=torch.float64)[..., :4] for s in shapes]
    leaves = [x.contiguous().requires_grad_() if x.dim() > 1 else torch.ones(4, device="cuda").double() for x in leaves]
    assert torch.autograd.gradcheck(operator, leaves)
    assert torch.autograd.gradgradcheck(operator, leaves)


@pytest.mark.parametrize("operator", [scale, gelu, dense_copy])
def test_opcheck(operator):
    x = torch.randn(5, 7, device="cuda")
    torch.library.opcheck(operator.torch, (x.requires_grad_(operator is not dense_copy),))


# ---- streams, graphs, devices ----


def behind(stream, call):
    """What a call gives for an array that a long kernel in front of it, on the same stream, fills last."""
    x = torch.zeros(1 << 16, device="cuda").reshape(256, 256)
    call(x)  # compiled before
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        x.fill_(3)
        found = call(x)
        done = torch.cuda.Event()
        done.record()
    early = not done.query()
    done.synchronize()
    return found, early


@pytest.mark.parametrize(
    "call",
    [
        scale,
        lambda x: scale(x, factor=2.0),
        torch.ops.tests.scale,
        lambda x: scale(x.t()),
        lambda x: x.add(x),
    ],
    ids=["direct", "long way", "dispatcher", "copied", "torch's own"],
)
def test_launches_go_to_the_current_stream(call):
    found, early = behind(torch.cuda.Stream(), call)
    assert early, "the call waited for the GPU"
    assert found.eq(6).all(), "a launch did not wait for the stream that was current"


def test_gradients_and_compiled_functions_on_a_side_stream():
    compiled = torch.compile(lambda x: scale(x) + 1, fullgraph=True)
    found, _ = behind(torch.cuda.Stream(), compiled)
    assert found.eq(7).all()

    def gradient(x):
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad((scale(leaf, 0.5) * x).sum(), leaf)[0]

    found, _ = behind(torch.cuda.Stream(), gradient)
    assert found.eq(1.5).all()


def test_a_graph():
    x = torch.ones(4, 5, device="cuda")
    scale(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = scale(x, 3.0)
    x.fill_(2)
    graph.replay()
    torch.cuda.synchronize()
    assert found.eq(6).all()


def test_every_kind_of_argument_writes_and_nested_operators():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    one, two = everything(x, [x, x], x, (2, 3), flag=False, mode="ten", dtype=torch.float64)
    assert torch.equal(one, 13 * x.double()) and tuple(two.shape) == (2, 3)
    y = torch.zeros(4, 5, device="cuda")
    two_steps_(y.t()[1:])
    assert y[:, 1:].eq(3).all() and y[:, 0].eq(0).all()
    assert torch.equal(tenfold(x, [x])[0], 5.0 * 6.0 * x.reshape(-1))
    assert torch.allclose(torch.func.vmap(outer, in_dims=(0, None))(x, x[0]), torch.einsum("bi,j->bij", x, x[0]))


def test_the_cpu_beside_the_gpu():
    x = np.arange(5, dtype=np.float32)
    assert np.array_equal(scale(x), 2 * x)
    cpu = torch.from_numpy(x)
    assert torch.equal(scale(cpu), 2 * cpu) and torch.equal(scale(cpu.cuda()).cpu(), 2 * cpu)
    increment_(cpu)
    assert torch.equal(torch.compile(lambda x: scale(x) + 1, fullgraph=True)(cpu), 2 * cpu + 1)
    with pytest.raises((ArgumentTypeError, RuntimeError), match=r"expected a tensor on|same device"):
        outer(torch.ones(3), torch.ones(4, device="cuda"))


# ---- CuPy ----


def test_cupy_arrays():
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(12, dtype=cupy.float32).reshape(3, 4)
    found = scale(x, 3.0)
    assert isinstance(found, cupy.ndarray) and (found == 3 * x).all()
    assert (scale(x.T) == 2 * x.T).all() and (dense_copy(x.T) == x.T).all()
    assert (outer(x[0], x[1]) == cupy.outer(x[0], x[1])).all()
    y = cupy.zeros((3, 4), cupy.float32)
    assert increment_(y) is None and (y == 1).all()
    one, two = everything(x, [x, x], x, (2, 3), flag=False, mode="ten", dtype="float64")
    assert one.dtype == cupy.float64 and (one == 13 * x).all() and two.shape == (2, 3) and not two.any()
    assert (tenfold(x, [x])[0] == 30 * x.reshape(-1)).all()
    assert scale(x[:0]).shape == (0, 4)


@pytest.mark.parametrize("name", ["gelu", "softmax", "rms_norm", "layer_norm", "attention"])
def test_examples_on_cupy_arrays(name):
    cupy = pytest.importorskip("cupy")
    operator, reference, shapes = CASES[name]
    arrays = inputs(shapes)
    found = operator(*(cupy.from_dlpack(x) for x in arrays))
    assert isinstance(found, cupy.ndarray)
    torch.testing.assert_close(torch.from_dlpack(found), reference(*arrays), atol=2e-4, rtol=2e-4)


def test_cupys_current_stream():
    cupy = pytest.importorskip("cupy")
    wait = cupy.RawKernel(
        'extern "C" __global__ void wait(long long n) { long long t = clock64(); while (clock64() - t < n) {} }', "wait"
    )
    x = cupy.zeros((256, 256), cupy.float32)
    x.fill(1)
    scale(x)
    wait((1,), (1,), (np.int64(10),))
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        wait((1,), (1,), (np.int64(500_000_000),))
        x.fill(3)
        found = scale(x)
        early = not stream.done
    stream.synchronize()
    assert (found == 6).all(), "a launch did not wait for CuPy's current stream"
    assert early, "the call waited for the GPU"


def test_cupy_arrays_that_do_not_fit():
    cupy = pytest.importorskip("cupy")
    x = cupy.zeros((3, 4), cupy.float32)
    with pytest.raises(ArgumentTypeError, match="'x': expected an array of numbers, got an array of complex64"):
        scale(x.astype(cupy.complex64))
    with pytest.raises(ArgumentTypeError, match="expected an array on cuda:0"):
        outer(x[0], np.zeros(3, np.float32))
    found = outer(torch.ones(3, device="cuda"), x[0])  # among tensors they become tensors
    assert isinstance(found, torch.Tensor) and not found.any()


# ---- JAX ----


@pytest.mark.jax
def test_jax_arrays_in_the_cpus_memory():
    jax = pytest.importorskip("jax")
    with jax.default_device(jax.devices("cpu")[0]):
        x = jax.numpy.arange(6.0)
        assert (scale(x) == 2 * x).all() and (jax.jit(jax.vmap(scale))(x) == 2 * x).all()
        assert (jax.grad(lambda x: scale(x, 3.0).sum())(x) == 3).all()


@pytest.mark.jax
def test_jax_arrays_of_a_gpu_are_refused():
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    x = jax.numpy.arange(6.0)
    with pytest.raises(ArgumentTypeError, match=r"tests::scale: .* on a GPU"):
        scale(x)
    with pytest.raises(Exception, match=r"omnikernel: .* on a GPU"):
        jax.jit(lambda x: scale(x + 1))(x).block_until_ready()
