"""Operators that call operators: values, writes in place and shared memory, the same in every library."""

import numpy as np
import pytest
from declared import blocks, dense_copy, increment_, increment_kernel, scale, scale_kernel, tenfold, two_steps_

import omnikernel
from omnikernel import Array
from omnikernel.ops.launches import AliasError, MutationError


def in_numpy(x):
    return x


def in_torch(x):
    return pytest.importorskip("torch").from_numpy(x)


def in_jax(x):
    return pytest.importorskip("jax.numpy").asarray(x)


LIBRARIES = [
    in_numpy,
    pytest.param(in_torch, marks=pytest.mark.torch),
    pytest.param(in_jax, marks=pytest.mark.jax),
]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_results_are_arrays_of_the_outer_function(library):
    x = library(X.copy())
    first, second = tenfold(x, [x, x], None)
    assert type(first) is type(x) and np.array_equal(first, 5.0 * X.reshape(-1) * 6.5)
    assert np.array_equal(second, np.ones((2, 3))) and np.array_equal(x, X)


@pytest.mark.parametrize("library", LIBRARIES[:2])
def test_writes_in_place_go_through(library):
    x = library(np.zeros((3, 4), np.float32))
    two_steps_(x)
    assert (x == 3).all()
    two_steps_(x.T[1:])
    assert (x[:, 1:] == 6).all() and (x[:, 0] == 3).all()


@pytest.mark.jax
def test_writes_in_place_go_through_references():
    jax = pytest.importorskip("jax")
    ref = jax.new_ref(jax.numpy.zeros((3, 4)))
    two_steps_(ref)
    assert (ref[...] == 3).all()


@pytest.mark.torch
def test_the_dispatcher_s_rules_hold():
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).reshape(2, 3)
    torch.library.opcheck(torch.ops.tests.tenfold.default, (x.t(), [x, x], x))
    torch.library.opcheck(torch.ops.tests.two_steps_.default, (x,))
    compiled = torch.compile(lambda x: tenfold(x + 1, [x])[0], backend="aot_eager", fullgraph=True, dynamic=True)
    assert torch.equal(compiled(x), tenfold(x + 1, [x])[0])


@pytest.mark.jax
def test_under_transformations_of_jax():
    jax = pytest.importorskip("jax")
    xs = jax.numpy.stack([X, X + 1])
    found = jax.jit(jax.vmap(lambda x: tenfold(x, [x])[0]))(xs)
    assert np.array_equal(found[1], tenfold(X + 1, [X])[0])


def test_a_view_that_is_passed_on_is_made_dense():
    @omnikernel.op("tests::passes_on", strided=("x",))
    def passes_on(x: Array) -> Array:
        return scale(dense_copy(x)) if x.ndim == 2 else scale(x)

    assert np.array_equal(passes_on(X.T), 2 * X.T) and np.array_equal(passes_on(X[0, ::2]), 2 * X[0, ::2])


def test_a_write_that_the_outer_operator_does_not_declare_is_found_at_declaration():
    with pytest.raises(
        MutationError, match=r"hides: it calls tests::increment_, which writes its 'x'.*mutates=\('y',\)"
    ):

        @omnikernel.op("tests::hides")
        def hides(y: Array) -> Array:
            increment_(y.reshape(-1))
            return omnikernel.empty_like(y)


@pytest.mark.parametrize("library", LIBRARIES)
def test_or_at_the_first_call_before_anything_is_written(library):
    @omnikernel.op("tests::hides_for_two")
    def hides_for_two(y: Array) -> Array:
        if y.shape[0] != 2:
            raise ValueError("two")
        increment_(y)
        return omnikernel.empty_like(y)

    x = library(X.copy())
    with pytest.raises(MutationError, match="hides_for_two: it calls tests::increment_"):
        hides_for_two(x)
    assert np.array_equal(x, X)


def test_a_declared_write_that_no_called_operator_makes():
    @omnikernel.op("tests::idles", mutates=("x",))
    def idles(x: Array) -> Array:
        return scale(x)

    with pytest.raises(MutationError, match="no kernel that it launched stores through 'x'"):
        idles(X.copy())


def test_a_wrong_declaration_of_the_called_operator():
    @omnikernel.op("tests::undeclared_inside")
    def undeclared(x: Array) -> Array:
        increment_kernel[blocks(x.size)](x, x.size, BLOCK=64)
        return omnikernel.empty_like(x)

    @omnikernel.op("tests::calls_undeclared")
    def calls(x: Array) -> Array:
        return undeclared(scale(x))

    with pytest.raises(MutationError, match="tests::undeclared_inside: kernel 'increment_kernel' stores"):
        calls(X.copy())


@pytest.mark.parametrize("library", LIBRARIES)
def test_results_that_share_memory(library):
    def body(x: Array) -> tuple[Array, Array]:
        if x.size == 1:
            raise ValueError("undecided at declaration")
        out = omnikernel.zeros_like(x)
        return out, out.reshape(-1)

    with pytest.raises(AliasError, match="results 0 and 1 share memory"):
        omnikernel.op("tests::shares")(body)(library(X.copy()))


def test_results_that_share_memory_are_found_at_declaration():
    with pytest.raises(AliasError, match="results 0 and 1 share memory"):

        @omnikernel.op("tests::shares_always")
        def shares(x: Array) -> tuple[Array, Array]:
            out = omnikernel.empty_like(x)
            return out.reshape(-1), out.reshape(-1)


def test_an_array_that_escapes():
    kept = []

    @omnikernel.op("tests::keeps")
    def keeps(x: Array) -> Array:
        kept.append(x)
        out = omnikernel.empty_like(x)
        scale_kernel[blocks(x.size)](x, out, x.size, 2.0, BLOCK=64)
        return out

    keeps(X)
    with pytest.raises(omnikernel.errors.OmnikernelError, match="tests::scale: got an array from inside"):
        scale(kept[-1])
