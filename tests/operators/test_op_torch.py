"""Operators on torch tensors: the dispatcher's entry, autograd, transforms, torch.compile, bad input."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from declared import blocks, dense_copy, everything, increment_, outer, scale, scale_kernel  # noqa: E402

import omnikernel  # noqa: E402
from omnikernel import Array  # noqa: E402
from omnikernel.errors import ArgumentTypeError, ArgumentValueError  # noqa: E402
from omnikernel.ops.launches import AliasError, MutationError  # noqa: E402

BACKENDS = ["eager", "aot_eager", "inductor"]


def needs_compiler(backend):
    if backend == "inductor":
        from torch._inductor.cpp_builder import get_cpp_compiler

        try:
            get_cpp_compiler()
        except Exception:
            pytest.skip("Inductor needs a C++ compiler")


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()


X = torch.arange(12, dtype=torch.float32).reshape(3, 4)
VIEWS = [X, X.t(), X[:, ::2], X[0].expand(3, 4), X[:0], torch.tensor(3.0)]


@pytest.mark.parametrize("x", VIEWS)
def test_direct_calls_and_the_dispatcher_agree(x):
    assert torch.equal(scale(x), 2 * x)
    assert torch.equal(torch.ops.tests.scale(x, 3.0), 3 * x)
    assert torch.equal(scale(x, factor=3.0), 3 * x)
    assert scale(x).is_contiguous()


def test_the_dispatcher_takes_a_shorter_way_where_nothing_watches():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    call, leaf = torch.ops.tests.scale, X.clone().requires_grad_()
    with Watch():
        assert torch.equal(call(X, 3.0), 3 * X)
    assert "tests.scale.default" in seen
    assert call(leaf, 3.0).requires_grad
    with torch.no_grad():
        assert not call(leaf, 3.0).requires_grad
    with torch.inference_mode():
        assert call(X).is_inference()
    assert call(X.to("meta")).device.type == "meta"
    assert torch.equal(torch.vmap(call)(X), 2 * X)
    with torch.profiler.profile() as profile:
        call(X)
    assert any(event.key == "tests::scale" for event in profile.key_averages())


@pytest.mark.parametrize("x", VIEWS)
def test_opcheck(x):
    assert set(torch.library.opcheck(torch.ops.tests.scale.default, (x.clone().requires_grad_(), 3.0)).values()) == {
        "SUCCESS"
    }
    strided = x.as_strided(x.shape, x.stride()) if x.dim() == 2 else X
    torch.library.opcheck(torch.ops.tests.dense_copy.default, (strided,))


def test_opcheck_of_mutation_and_of_every_kind_of_argument():
    torch.library.opcheck(torch.ops.tests.increment_.default, (torch.zeros(3, 4),))
    torch.library.opcheck(torch.ops.tests.everything.default, (X, [X, X], X, [2, 3]), {"flag": False, "mode": "ten"})


def test_the_dispatcher_entry_exists_whatever_is_imported_first():
    code = "import declared, torch; print(torch.ops.tests.scale.default._schema)"
    path = str(__import__("pathlib").Path(__file__).parent)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=path, check=True)
    assert run.stdout.strip() == "tests::scale(Tensor x, float factor=2.) -> Tensor"


def test_meta_tensors_have_the_same_shapes_dtypes_and_strides():
    for x in VIEWS:
        meta, real = scale(x.to("meta")), scale(x)
        assert (meta.shape, meta.dtype, meta.stride()) == (real.shape, real.dtype, real.stride())
    one, two = everything(X.to("meta"), [X.to("meta")], sizes=(5, 6), dtype="float64")
    assert one.dtype == torch.float64 and tuple(two.shape) == (5, 6)


def test_a_user_rule_replaces_the_derived_fake():
    @omnikernel.op("tests::own_fake")
    def own_fake(x: Array) -> Array:
        return omnikernel.empty((3,), x.dtype)

    own_fake.def_fake(lambda x: omnikernel.empty((7,), x.dtype))
    assert tuple(own_fake(X.to("meta")).shape) == (7,)


# ---- autograd ----


def test_gradients():
    x = X.clone().requires_grad_()
    scale(x, 3.0).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 3))
    assert scale(x.detach()).grad_fn is None
    with torch.no_grad():
        assert scale(x).grad_fn is None


def test_only_what_save_names_is_kept():
    x, y = torch.ones(3, requires_grad=True), torch.ones(4, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        scale(x)
        assert not kept
        outer(x, y)
    assert [t.data_ptr() for t in kept] == [x.data_ptr(), y.data_ptr()]


def test_an_input_without_gradient():
    x, y = torch.rand(3, requires_grad=True), torch.rand(4)
    outer(x, y).sum().backward()
    assert torch.allclose(x.grad, y.sum().expand(3)) and y.grad is None


@pytest.mark.parametrize(
    ("grads", "says"),
    [
        (lambda x, y: (x,), "returned 1 gradients, expected 2, one for each array parameter \\(x, y\\)"),
        (lambda x, y: (x, y, x), "returned 3 gradients, expected 2"),
        (lambda x, y: (y, x), "gradient 1, of 'x': expected shape \\(3,\\), got \\(4,\\)"),
        (lambda x, y: (x, 3.0), "gradient 2, of 'y': expected an array"),
    ],
)
def test_wrong_gradients_are_counted_as_the_user_counts(grads, says):
    @omnikernel.op("tests::wrong")
    def wrong(x: Array, y: Array, n: int = 1) -> Array:
        return omnikernel.zeros((3,), x.dtype)

    wrong.def_vjp(lambda saved, grad: grads(*saved[:2]), save=lambda x, y, n, out: (x, y))
    found = wrong(torch.ones(3, requires_grad=True), torch.ones(4, requires_grad=True))
    with pytest.raises((ArgumentValueError, ArgumentTypeError), match=says):
        found.sum().backward()


def test_no_gradient_is_named():
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="tests::dense_copy has no derivative; give it one by def_vjp"):
        dense_copy(x).sum().backward()


def test_none_gradients():
    @omnikernel.op("tests::first")
    def first(x: Array, y: Array) -> Array:
        out = omnikernel.empty_like(x)
        scale_kernel[blocks(x.size)](x, out, x.size, 1.0, BLOCK=64)
        return out

    first.def_vjp(lambda saved, grad: (grad, None), save=lambda x, y, out: ())
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    first(x, y).sum().backward()
    assert torch.equal(x.grad, torch.ones(3)) and y.grad is None


def test_writes_in_place_bump_the_version():
    x = torch.zeros(4)
    version = x._version
    increment_(x)
    assert x._version == version + 1 and (x == 1).all()
    y = torch.zeros(4, 5)
    increment_(y.t()[1:])
    assert y[:, 1:].eq(1).all() and y[:, 0].eq(0).all()
    leaf = torch.ones(3, requires_grad=True)
    product = leaf * x[:3]
    increment_(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


# ---- torch.func ----


def test_transforms():
    from torch.func import grad, jacrev, vjp, vmap

    x, y = torch.rand(3), torch.rand(4)
    assert torch.allclose(grad(lambda x: outer(x, y).sum())(x), y.sum().expand(3))
    assert torch.allclose(vjp(outer, x, y)[1](torch.ones(3, 4))[1], x.sum().expand(4))
    xs = torch.rand(5, 3)
    assert torch.allclose(vmap(outer, in_dims=(0, None))(xs, y), torch.einsum("bi,j->bij", xs, y))
    assert torch.allclose(vmap(outer, in_dims=(1, None))(xs.t(), y), torch.einsum("bi,j->bij", xs, y))
    assert torch.allclose(vmap(vmap(scale))(xs[None]), 2 * xs[None])
    assert torch.allclose(vmap(grad(lambda x: outer(x, y).sum()))(xs), y.sum().expand(5, 3))
    assert torch.allclose(jacrev(scale)(x), 2 * torch.eye(3))
    assert torch.allclose(vmap(torch.ops.tests.scale)(xs), 2 * xs)
    everything_of = vmap(lambda x: everything(x, [x, x])[0])
    assert torch.allclose(everything_of(xs), 3 * xs)


def test_vmap_over_writes_in_place():
    from torch.func import vmap

    x = torch.zeros(3, 4)
    vmap(lambda row: increment_(row) or row.sum())(x)
    assert x.eq(1).all()


def test_a_vmap_rule_of_the_user():
    @omnikernel.op("tests::ruled")
    def ruled(x: Array) -> Array:
        out = omnikernel.empty_like(x)
        scale_kernel[blocks(x.size)](x, out, x.size, 2.0, BLOCK=64)
        return out

    calls = []
    ruled.def_vmap(lambda size, batched, x: calls.append((size, batched)) or ruled(x))
    assert torch.equal(torch.func.vmap(ruled)(X), 2 * X)
    assert calls == [(3, (True,))]


# ---- torch.compile ----


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_with_gradients_and_dynamic_shapes(backend):
    needs_compiler(backend)
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(
        lambda x, y: outer(scale(x, 3.0) + 1, y) * 2, backend=counter, fullgraph=True, dynamic=True
    )
    for m, n in ((5, 6), (7, 9), (12, 31)):
        x, y = torch.rand(m, requires_grad=True), torch.rand(n, requires_grad=True)
        found = compiled(x, y)
        found.sum().backward()
        expected = torch.outer(3 * x.detach() + 1, y.detach()) * 2
        assert torch.allclose(found, expected)
        assert torch.allclose(x.grad, 6 * y.detach().sum().expand(m))
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_mutation(backend):
    needs_compiler(backend)

    def step(x):
        y = x * 2
        increment_(y)
        increment_(x)
        return y

    x = torch.zeros(5)
    found = torch.compile(step, backend=backend, fullgraph=True)(x)
    assert found.eq(1).all() and x.eq(1).all()


def test_compiled_strides_are_kept():
    needs_compiler("inductor")
    x = torch.rand(6, 7)
    compiled = torch.compile(lambda x: dense_copy((x + 1).t()) * 2, fullgraph=True)
    assert torch.allclose(compiled(x), (x + 1).t() * 2)


def test_compiled_with_every_kind_of_argument():
    needs_compiler("inductor")

    def step(x):
        return everything(x * 2, [x, x], sizes=(x.shape[0], 2), flag=False, mode="ten", dtype=torch.float64)

    one, two = torch.compile(step, fullgraph=True)(X)
    assert torch.equal(one, 24 * X.double()) and tuple(two.shape) == (3, 2)


def test_compiled_with_numpy_arrays_among_the_tensors():
    y = np.arange(4, dtype=np.float32)

    def step(x):
        return everything(x, [y], dtype=torch.float64)[0] + outer(x, y)[:, 0]

    x = torch.ones(3)
    assert torch.equal(torch.compile(step, backend="eager", fullgraph=True)(x), step(x))


def test_export_and_make_fx():
    class Model(torch.nn.Module):
        def forward(self, x):
            return scale(x) + 1

    exported = torch.export.export(Model(), (X,))
    assert "tests.scale" in str(exported.graph)
    assert torch.equal(exported.module()(X), 2 * X + 1)
    graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x: scale(x) + 1)(X)
    assert "tests.scale" in graph.code


def test_plain_launch_in_a_compiled_function():
    needs_compiler("inductor")

    def step(x):
        out = torch.empty_like(x)
        scale_kernel[(omnikernel.cdiv(x.numel(), 64),)](x, out, x.numel(), 5.0, BLOCK=64)
        return out + 1

    assert torch.equal(torch.compile(step, fullgraph=True)(X), 5 * X + 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_triton_op_by_hand_without_a_fake_kernel(backend):
    """The three outcomes of a textbook on a machine with no GPU: derived, compiled, eager."""
    needs_compiler(backend)

    @torch.library.triton_op(f"tests::by_hand_{backend}", mutates_args={})
    def by_hand(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(scale_kernel)[(1,)](x, out, x.numel(), 5.0, BLOCK=64)
        return out

    compiled = torch.compile(lambda x: by_hand(x) + 1, backend=backend, fullgraph=True)
    assert torch.equal(compiled(X), 5 * X + 1)


# ---- arguments of other kinds, and bad ones ----


def test_numpy_arrays_among_tensors_are_shared():
    y = np.arange(4, dtype=np.float32)
    found = outer(torch.ones(3), y)
    assert isinstance(found, torch.Tensor) and np.array_equal(found[0].numpy(), y)
    assert isinstance(outer(y, torch.ones(3)), torch.Tensor)


def test_out():
    out = torch.empty(3, 4)
    assert scale(X, out=out) is out and torch.equal(out, 2 * X)
    with pytest.raises(ArgumentTypeError, match="out= has no derivative"):
        scale(X.clone().requires_grad_(), out=out)
    with pytest.raises(ArgumentValueError, match="expected out="):
        scale(X, out=torch.empty(2))


def test_out_of_another_library_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"tests::scale: out= takes tensors here, got a ndarray.*from_dlpack"):
        scale(X, out=X.numpy())
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(ArgumentTypeError, match="takes tensors here, got a JAX array, which is immutable; leave out="):
        scale(X, out=jnp.zeros((3, 4)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_out(backend):
    needs_compiler(backend)
    out = torch.zeros(3, 4)
    found = torch.compile(lambda x, out: scale(x + 1, out=out) * 3, backend=backend, fullgraph=True)(X, out)
    assert torch.equal(out, 2 * (X + 1)) and torch.equal(found, 3 * out)


def test_parameters_and_subclasses_and_inference():
    assert torch.equal(scale(torch.nn.Parameter(X)), 2 * X)
    with torch.inference_mode():
        assert torch.equal(scale(X), 2 * X)
        assert torch.equal(scale(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(scale(torch._neg_view(X)), -2 * X)


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (X.to_sparse(), "layout sparse_coo"),
        (X.to(torch.complex64), "complex64"),
        (X.to(torch.float8_e8m0fnu), r"argument 'x': expected a dtype that Triton has, got torch.float8_e8m0fnu"),
        (X.to(torch.complex64).conj(), "complex64"),
        ("text", "expected an array, got a? ?'?text|expected"),
    ],
)
def test_bad_tensors(x, says):
    with pytest.raises((TypeError, ArgumentTypeError), match=says):
        scale(x)


def test_tensors_of_two_devices():
    with pytest.raises((ArgumentTypeError, RuntimeError), match=r"expected a tensor on|device"):
        outer(torch.ones(3), torch.ones(4, device="meta"))


def test_views_made_by_other_means_are_found():
    @omnikernel.op("tests::raw_view")
    def raw_view(x: Array, times: int = 1) -> Array:
        return x.value.t()

    for call in (raw_view, lambda x: raw_view(x, 2), torch.ops.tests.raw_view):
        with pytest.raises(AliasError, match="shares memory with the input 'x'"):
            call(torch.ones(3, 4))


def test_undeclared_writes():
    from declared import increment_kernel

    @omnikernel.op("tests::hidden_write_torch")
    def hidden(x: Array) -> Array:
        out = omnikernel.empty_like(x)
        increment_kernel[(1,)](x, x.size, BLOCK=16)
        return out

    x = torch.zeros(4)
    with pytest.raises(MutationError):
        hidden(x)
    assert not x.any()


def test_a_dense_input_is_not_copied_and_nothing_else_is_allocated():
    x = torch.rand(1000)
    scale(x)
    with torch.profiler.profile(profile_memory=True) as profile:
        scale(x)
    allocated = sum(max(0, event.self_cpu_memory_usage) for event in profile.key_averages())
    assert allocated == 4000
