"""Operators on NumPy arrays: strides, out=, writes in place, every kind of argument."""

import ml_dtypes
import numpy as np
import pytest
from declared import dense_copy, everything, increment_, scale

from omnikernel.errors import ArgumentTypeError, ArgumentValueError

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "x", [X, X.T, X[:, ::2], X[::-1], np.broadcast_to(X[0], (3, 4)), X[:0], np.full((), 3, np.float32)]
)
def test_any_strides(x):
    found = scale(x)
    assert found.shape == x.shape and found.flags.c_contiguous
    assert np.array_equal(found, 2 * x)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, ml_dtypes.bfloat16])
def test_dtypes(dtype):
    assert scale(X.astype(dtype), 3.0).dtype == dtype


def test_out_is_used_as_it_is():
    out = np.zeros_like(X)
    assert scale(X, out=out) is out
    assert np.array_equal(out, 2 * X)


def test_out_of_any_strides_and_out_over_an_input():
    out = np.zeros((4, 3), np.float32).T
    scale(X, out=out)
    assert np.array_equal(out, 2 * X)
    both = np.arange(5, dtype=np.float32)
    scale(both[:-1], out=both[1:])
    assert both.tolist() == [0, 0, 2, 4, 6]


@pytest.mark.parametrize("out", [np.zeros(3, np.float32), np.zeros((3, 4)), [np.zeros((3, 4))] * 2])
def test_out_that_does_not_fit(out):
    with pytest.raises(ArgumentValueError, match="tests::scale"):
        scale(X, out=out)


def test_out_of_another_kind_is_refused():
    with pytest.raises(ArgumentTypeError, match="takes NumPy arrays here, got a float"):
        scale(X, out=[0.0])


@pytest.mark.jax
def test_out_that_is_a_jax_array_is_refused():
    out = pytest.importorskip("jax.numpy").zeros((3, 4))
    with pytest.raises(ArgumentTypeError, match=r"tests::scale: out=.*JAX array, which is immutable; .* jnp.asarray"):
        scale(X, out=out)
    with pytest.raises(ArgumentTypeError, match="JAX array, which is immutable"):
        everything(X, [], out=(np.zeros_like(X), out))
    assert not np.asarray(out).any()


@pytest.mark.torch
def test_out_that_is_a_tensor_is_refused():
    out = pytest.importorskip("torch").zeros(3, 4)
    with pytest.raises(ArgumentTypeError, match=r"tests::scale: out=.*torch tensor; pass out.numpy\(\)"):
        scale(X, out=out)
    scale(X, out=out.numpy())
    assert np.array_equal(out, 2 * X)


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a.T, lambda a: a[::2, 1:]])
def test_writes_in_place_reach_any_view(view):
    a = np.zeros((4, 5), np.float32)
    expected = np.zeros((4, 5), np.float32)
    view(expected)[...] += 1
    assert increment_(view(a)) is None
    assert np.array_equal(a, expected)


def test_a_read_only_array_in_a_written_position():
    with pytest.raises(ArgumentValueError, match=r"'x'.*read-only"):
        increment_(np.broadcast_to(np.float32(1), (4,)))


def test_strided_parameters_come_as_they_are():
    assert np.array_equal(dense_copy(X.T), X.T)
    assert np.array_equal(dense_copy(X[:, ::-1]), X[:, ::-1])


def test_every_kind_of_argument():
    one, two = everything(X, [X, X], X, (2, 3), flag=False, mode="ten", dtype=np.float64)
    assert one.dtype == np.float64 and np.array_equal(one, 13 * X)
    assert two.shape == (2, 3) and not two.any()


def test_a_dense_input_is_not_copied(monkeypatch):
    from omnikernel.ops import numpy as binding

    seen, copies = [], []
    monkeypatch.setattr(binding, "dense", lambda value: copies.append(value) or value.copy())
    monkeypatch.setattr(
        binding.NumpyRun, "empty_like", lambda run, a: seen.append(a.value) or run.empty(a.shape, a.dtype)
    )
    scale(X)
    scale(X, factor=2.0)
    assert [value.ctypes.data for value in seen] == [X.ctypes.data] * 2
    everything(X, [X], X)
    increment_(writable := X.copy())
    assert copies == [] and writable[0, 0] == 1


@pytest.mark.parametrize(
    ("dtype", "says"),
    [
        ("complex64", "dtype that Triton has, got a numpy array of complex64; convert it"),
        ("M8[s]", r"dtype that Triton has, got a numpy array of datetime64\[s\]"),
        ("U3", "dtype that Triton has, got a numpy array of <U3"),
        (ml_dtypes.int4, "dtype that Triton has, got a numpy array of int4"),
        ("O", "an array of numbers, got a numpy array of object"),
        (">f4", "native byte order, got a numpy array of '>f4'"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"factor": 2.0}], ids=["short way", "long way"])
def test_an_element_type_that_triton_lacks(dtype, says, options):
    where = r"operator tests::scale, argument 'x' \(kernel 'scale_kernel', parameter 'x'\): expected .*"
    for _ in range(2):  # before the first launch, and after one
        with pytest.raises(ArgumentTypeError, match=where + says):
            scale(np.zeros(3, dtype), **options)
        scale(X)


def test_results_of_an_element_type_that_triton_lacks():
    with pytest.raises(ArgumentTypeError, match=r"kernel 'scale_kernel', parameter 'out': .*complex64"):
        everything(X, [], dtype="complex64")
    with pytest.raises(ArgumentTypeError, match="no dtype named 'float31'"):
        everything(X, [], dtype="float31")
