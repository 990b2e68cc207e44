"""Arguments of every kind in every place: lists and None first, arrays by keyword alone, several written, wrong ones."""

import copy
import importlib
import pickle

import numpy as np
import pytest
import triton
import triton.language as tl
from declared import blocks, everything, increment_, scale

import omnikernel
from omnikernel import Array, DType
from omnikernel.errors import ArgumentTypeError

X = np.arange(6, dtype=np.float32)


@triton.jit
def add_scaled_kernel(y, x, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i, i < n) + factor * tl.load(x + i, i < n), i < n)


@triton.jit
def multiply_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * tl.load(y + i, i < n), i < n)


@triton.jit
def momentum_kernel(p, m, g, rate, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    moved = tl.load(m + i, i < n) * 0.5 + tl.load(g + i, i < n)
    tl.store(m + i, moved, i < n)
    tl.store(p + i, tl.load(p + i, i < n) - rate * moved, i < n)


@omnikernel.op("tests::weighted_sum")
def weighted_sum(
    xs: list[Array], weights: tuple[float, ...], *, mode: str = "sum", dtype: DType | None = None
) -> Array:
    total = omnikernel.zeros(xs[0].shape, dtype or xs[0].dtype)
    for x, weight in zip(xs, weights, strict=True):
        share = weight / len(xs) if mode == "mean" else weight
        add_scaled_kernel[blocks(x.size)](total, x, share, x.size, BLOCK=64)
    return total


weighted_sum.def_vjp(
    lambda saved, grad: ([grad * w for w in saved[0]],), save=lambda xs, weights, mode, dtype, out: (weights,)
)


@omnikernel.op("tests::product")
def product(x: Array, n: int = 1, *, flag: bool = True, y: Array) -> Array:
    out = omnikernel.empty_like(x)
    multiply_kernel[blocks(x.size)](x, y, out, x.size, BLOCK=64)
    return out


product.def_vjp(lambda saved, grad: (grad * saved[1], grad * saved[0]), save=lambda x, n, flag, y, out: (x, y))


@omnikernel.op("tests::optional_first")
def optional_first(shift: Array | None, x: Array) -> Array:
    out = omnikernel.zeros_like(x)
    for term in (x, shift):
        if term is not None:
            add_scaled_kernel[blocks(x.size)](out, term, 1.0, x.size, BLOCK=64)
    return out


@omnikernel.op("tests::momentum_", mutates=("p", "m"))
def momentum_(p: Array, m: Array, g: Array, rate: float) -> None:
    momentum_kernel[blocks(p.size)](p, m, g, rate, p.size, BLOCK=64)


@omnikernel.op("tests::add_to_each_", mutates="ys")
def add_to_each_(ys: list[Array], x: Array) -> None:
    for y in ys:
        add_scaled_kernel[blocks(y.size)](y, x, 1.0, y.size, BLOCK=64)


@omnikernel.op("tests::add_in_place", mutates=("y",))
def add_in_place(y: Array, x: Array) -> None:
    add_scaled_kernel[blocks(y.size)](y, x, 1.0, y.size, BLOCK=64)


def test_lists_and_none_first_in_numpy():
    assert np.array_equal(weighted_sum([X, 2 * X], (1.0, 2)), 5 * X)
    assert weighted_sum((X,), [0.5], dtype=np.float64, mode="mean").dtype == np.float64
    assert np.array_equal(optional_first(None, X), X) and np.array_equal(optional_first(x=X, shift=X), 2 * X)


def test_two_arrays_and_lists_are_written():
    p, m = np.zeros((3, 2), np.float32).T, np.ones((2, 3), np.float32)
    momentum_(p, m, np.ones((2, 3), np.float32), 2.0)
    assert (m == 1.5).all() and (p == -3).all()
    ys = [np.zeros(6, np.float32), np.zeros((6, 2), np.float32)[:, 1]]
    add_to_each_(ys, X)
    assert all(np.array_equal(y, X) for y in ys)


def test_operators_are_pickled_and_copied_like_functions():
    assert pickle.loads(pickle.dumps(weighted_sum)) is weighted_sum
    assert copy.deepcopy({"act": scale})["act"] is scale


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: weighted_sum(x, (1.0,)), "'xs': expected a list of arrays, got a"),
        (lambda x: weighted_sum(None, (1.0,)), "'xs': expected a list of arrays, got None"),
        (lambda x: weighted_sum([x, "y"], (1.0, 1.0)), "'xs': expected an array, got '?a? ?'?(y|str)"),
        (lambda x: weighted_sum([x], 3.0), "'weights': expected a list of float, got 3.0"),
        (lambda x: weighted_sum([x], ("a",)), "'weights': expected float, got 'a'"),
        (lambda x: weighted_sum([x], (1.0,), mode=3), "'mode': expected str, got 3"),
        (lambda x: weighted_sum([x], (1.0,), dtype=3), "'dtype': expected a dtype or its name, got 3"),
        (lambda x: scale([x]), "'x': expected an array, got a list"),
        (lambda x: scale(None), "'x': expected an array, got None"),
        (lambda x: scale(x, None), "'factor': expected float, got None"),
        (lambda x: scale(x, [1.0]), "'factor': expected float, got a list"),
    ],
)
@pytest.mark.parametrize("library", ["numpy", "torch", "jax.numpy"])
def test_wrong_arguments(library, call, says):
    module = pytest.importorskip(library)
    with pytest.raises(ArgumentTypeError, match=f"operator tests::.*, argument {says}"):
        call(module.ones(3))


# ---- torch ----

BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


@pytest.mark.torch
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_whatever_comes_first(backend, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()

    def step(x, ys):
        add_to_each_(ys, x)
        total = weighted_sum([x + 1, *ys], (1.0, 2.0), mode="mean") + weighted_sum(xs=[x], weights=(3.0,))
        return optional_first(None, x) * optional_first(x=x, shift=ys[0]) + total + product(x, y=total)

    x = torch.from_numpy(X)
    ys, expected_ys = [torch.ones(6)], [torch.ones(6)]
    counter = importlib.import_module("torch._dynamo.testing").CompileCounterWithBackend(backend)
    found = torch.compile(step, backend=counter, fullgraph=True, dynamic=True)
    torch.testing.assert_close(found(x, ys), step(x, expected_ys))
    assert torch.equal(ys[0], expected_ys[0])
    found(torch.rand(17), [torch.rand(17)])
    assert counter.frame_count == 1


@pytest.mark.torch
def test_gradients_of_lists_and_of_arrays_by_keyword():
    torch = pytest.importorskip("torch")
    x, y = (torch.rand(5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda x, y: product(x, y=y), (x, y))
    assert torch.autograd.gradgradcheck(lambda x, y: product(x, y=y), (x, y))
    assert torch.autograd.gradcheck(lambda y: product(x.detach(), y=y), (y,))
    assert torch.autograd.gradcheck(lambda x: product(x, y=y.detach()), (x,))
    assert torch.autograd.gradcheck(lambda x, y: weighted_sum([x, y], (2.0, 3.0)), (x, y))
    torch.library.opcheck(torch.ops.tests.product.default, (x,), {"y": y})
    torch.library.opcheck(torch.ops.tests.weighted_sum.default, ([x, y], [2.0, 3.0]), {"mode": "mean"})
    compiled = torch.compile(lambda x, y: product(x, y=y).sum(), backend="aot_eager", fullgraph=True)
    assert torch.equal(torch.autograd.grad(compiled(x.detach(), y), y)[0], x)
    assert torch.equal(torch.func.grad(lambda y: product(x, y=y).sum())(y), x)


@pytest.mark.torch
@pytest.mark.parametrize("index", range(3))
def test_writing_what_requires_grad_is_refused(index):
    torch = pytest.importorskip("torch")
    arrays = [torch.ones(3) for _ in range(3)]
    arrays[index].requires_grad_()
    says = (
        rf"tests::momentum_: it writes 'p', 'm' in place, which has no derivative, and '{'pmg'[index]}' requires grad"
    )
    for call in (momentum_, torch.ops.tests.momentum_):
        with pytest.raises(ArgumentTypeError, match=says):
            call(*arrays, 0.5)
        with pytest.raises(ArgumentTypeError, match=says):
            call(*(a * 1 for a in arrays), 0.5)
    with torch.no_grad():
        momentum_(*arrays, 0.5)
    assert (arrays[0] == 0.25).all()
    with pytest.raises(ArgumentTypeError, match="has no derivative"):
        torch.func.grad(lambda x: increment_(x) or x.sum())(torch.ones(3))


@pytest.mark.torch
def test_forward_mode_is_refused_by_name():
    torch = pytest.importorskip("torch")
    from torch.autograd import forward_ad

    x, says = torch.ones(3), "operator tests::scale has no forward-mode derivative in torch"
    with pytest.raises(NotImplementedError, match=says):
        torch.func.jvp(scale, (x,), (x,))
    with forward_ad.dual_level():
        for call in (scale, torch.ops.tests.scale):
            with pytest.raises(NotImplementedError, match=says):
                call(forward_ad.make_dual(x, x))
        assert torch.equal(scale(x), 2 * x)


@pytest.mark.torch
def test_several_written_arguments():
    torch = pytest.importorskip("torch")
    ys = [torch.zeros(6), torch.zeros(6, 2)[:, 1]]
    before = [y._version for y in ys]
    add_to_each_(ys, torch.from_numpy(X))
    assert all(torch.equal(y, torch.from_numpy(X)) for y in ys)
    assert all(y._version > version for y, version in zip(ys, before, strict=True))
    torch.library.opcheck(torch.ops.tests.add_to_each_.default, (ys, torch.ones(6)))
    torch.library.opcheck(torch.ops.tests.momentum_.default, (*torch.rand(3, 4).unbind(), 0.5))


# ---- JAX ----


@pytest.mark.jax
def test_lists_and_keywords_in_jax():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    assert np.allclose(jax.jit(lambda x: weighted_sum([x, x], (1.0, 2.0), mode="mean"))(x), 1.5 * X)
    assert np.allclose(jax.grad(lambda x: weighted_sum([x, x], (1.0, 2.0)).sum())(x), 3)
    assert np.allclose(jax.grad(lambda y: product(x, y=y).sum())(x), X)
    assert np.allclose(optional_first(None, x), X)


@pytest.mark.jax
def test_lists_of_references():
    jax = pytest.importorskip("jax")
    refs = [jax.new_ref(jax.numpy.zeros(6)), jax.new_ref(jax.numpy.ones(6))]
    add_to_each_(refs, jax.numpy.asarray(X))
    assert np.array_equal(refs[0][...], X) and np.array_equal(refs[1][...], X + 1)
    p, m, g = (jax.new_ref(jax.numpy.ones(3)) for _ in range(3))
    momentum_(p, m, g, 2.0)
    assert (p[...] == -2).all() and (m[...] == 1.5).all() and (g[...] == 1).all()
    with pytest.raises(ArgumentTypeError, match="'ys': the operator writes it, and JAX arrays are immutable"):
        add_to_each_([jax.numpy.zeros(6)], X)
    for wrong in ((p, p, g), (p, m, p), (p, m, m)):
        with pytest.raises(ArgumentTypeError, match="is the same reference as"):
            momentum_(*wrong, 0.5)


@pytest.mark.jax
def test_without_a_derivative_the_operator_is_named():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    for transformed in (
        jax.grad(lambda x: optional_first(None, x).sum()),
        lambda x: jax.jvp(lambda x: optional_first(x, x), (x,), (x,)),
    ):
        with pytest.raises(ArgumentTypeError, match="tests::optional_first has no derivative; give it one by def_vjp"):
            transformed(x)
    found = jax.grad(lambda x: (x * optional_first(None, jax.lax.stop_gradient(x))).sum())(x)
    assert np.array_equal(found, X)


@pytest.mark.jax
def test_numbers_are_compiled_in():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    for call in (lambda: scale(x, jax.numpy.float32(2)), lambda: jax.jit(scale)(x, 2.0)):
        with pytest.raises(
            ArgumentTypeError, match=r"'factor': expected float, .* numbers are compiled into the program"
        ):
            call()


@pytest.mark.jax
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_dtypes_of_64_bits_are_those_that_jax_has():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    for wide in (False, True):
        with jax.enable_x64(wide):
            found = weighted_sum([x, x], (1.0, 2.0), dtype="float64")
            assert found.dtype == ("float64" if wide else "float32") and np.array_equal(found, 3 * X)
            assert everything(x, [], dtype="int64")[0].dtype == ("int64" if wide else "int32")
