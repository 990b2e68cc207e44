"""The six example operators: values against torch, and derivatives in f64 in torch and JAX, on inputs of every layout."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

import torch.nn.functional as F  # noqa: E402
from operators import attention, cross_entropy, gelu, layer_norm, rms_norm, softmax  # noqa: E402

TARGET = torch.tensor([1, 0, -100])


def values(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def transposed(x):
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else x


def expanded(x):
    return x[:1].expand(x.shape)


def empty(x):
    return x[:0]


CASES = {
    "gelu": (gelu, F.gelu, [(3, 4)]),
    "softmax": (softmax, lambda x: F.softmax(x, -1), [(3, 4)]),
    "rms_norm": (rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), [(3, 4), (4,)]),
    "layer_norm": (layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), [(3, 4), (4,), (4,)]),
    "cross_entropy": (
        lambda x: cross_entropy(x, TARGET[: len(x)]),
        lambda x: F.cross_entropy(x, TARGET[: len(x)], reduction="none"),
        [(3, 4)],
    ),
    "attention": (attention, F.scaled_dot_product_attention, [(2, 5, 3)] * 3),
    "causal_attention": (
        lambda q, k, v: attention(q, k, v, True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 4, 3)] * 3,
    ),
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def arrays(shapes, layout):
    """Inputs of a case; the layout is that of the first, a weight has no rows to leave out."""
    found = [values(*shape) for shape in shapes]
    same = [i for i, shape in enumerate(shapes) if len(shape) == len(shapes[0])]
    return [layout(x) if layout and i in same else x for i, x in enumerate(found)]


@pytest.mark.parametrize("layout", [None, transposed, expanded, empty])
@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name, layout):
    operator, reference, shapes = CASES[name]
    inputs = arrays(shapes, layout)
    torch.testing.assert_close(operator(*inputs), reference(*inputs))
    leaves = [x.requires_grad_() for x in arrays(shapes, None)]  # gradcheck perturbs them: the views are made inside

    def through_views(*dense):
        return operator(*(layout(x) if layout and len(x.shape) == len(shapes[0]) else x for x in dense))

    assert torch.autograd.gradcheck(through_views, leaves)
    assert torch.autograd.gradgradcheck(through_views, leaves)


@pytest.mark.parametrize("layout", [None, transposed, expanded, empty])
@pytest.mark.parametrize("name", CASES)
def test_opcheck(name, layout):
    operators = torch.ops.operators
    extra = {"rms_norm": (1e-6,), "layer_norm": (1e-5,), "cross_entropy": (TARGET,), "attention": (False, 0.5)}
    if name == "causal_attention":
        pytest.skip("the same operator as attention")
    inputs = [x.requires_grad_() for x in arrays(CASES[name][2], layout)]
    more = extra.get(name, ())
    if name == "cross_entropy":
        more = (TARGET[: len(inputs[0])],)
    if name == "attention":  # the entry takes (batch, heads, length, width)
        inputs = [x[None].detach().requires_grad_() for x in inputs]
    torch.library.opcheck(getattr(operators, name).default, (*inputs, *more))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CASES)
def test_narrow_dtypes(name, dtype):
    operator, reference, shapes = CASES[name]
    inputs = [x.to(dtype) for x in arrays(shapes, None)]
    found, expected = operator(*inputs), reference(*(x.float() for x in inputs))
    assert found.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(found.float(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_numpy_and_torch_agree_bit_for_bit(name):
    operator, _, shapes = CASES[name]
    if name == "cross_entropy":
        operator = lambda x: cross_entropy(x, TARGET.numpy() if isinstance(x, np.ndarray) else TARGET)  # noqa: E731
    inputs = [x.float() for x in arrays(shapes, None)]
    assert np.array_equal(operator(*(x.numpy() for x in inputs)), operator(*inputs).numpy())


def test_longer_rows_than_a_tile():
    q, k, v = (torch.randn(2, 3, n, 20) for n in (45, 70, 70))
    torch.testing.assert_close(attention(q, k, v), F.scaled_dot_product_attention(q, k, v), atol=1e-5, rtol=1e-5)
    x = torch.randn(5, 1000)
    torch.testing.assert_close(softmax(x), F.softmax(x, -1), atol=1e-6, rtol=1e-5)


@pytest.mark.jax
@pytest.mark.parametrize("layout", [None, transposed, expanded, empty])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_in_jax(name, layout):
    jax = pytest.importorskip("jax")
    from jax.test_util import check_grads

    operator, _, shapes = CASES[name]
    if name == "cross_entropy":
        operator = lambda x: cross_entropy(x, jax.numpy.asarray(TARGET[: len(x)].numpy()))  # noqa: E731
    with jax.enable_x64(True):
        inputs = [jax.numpy.asarray(x.numpy()) for x in arrays(shapes, layout)]
        torch.testing.assert_close(
            torch.tensor(np.asarray(operator(*inputs))), CASES[name][1](*(torch.tensor(np.asarray(x)) for x in inputs))
        )
        check_grads(operator, inputs, order=2, modes=["rev"])
