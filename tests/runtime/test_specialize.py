"""Specialisation: every library gives the keys that Triton gives for a torch tensor."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from omnikernel.errors import ArgumentTypeError
from omnikernel.runtime import arrays
from omnikernel.runtime.specialize import plain, specialize

pytest.importorskip("triton")


@pytest.fixture
def backend() -> Any:
    from triton.backends.compiler import BaseBackend

    return BaseBackend


FLAGS = [(False, True, True), (True, True, True), (False, False, True), (False, True, False)]


@pytest.mark.torch
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("name", arrays.DTYPES)
def test_numpy_is_keyed_like_torch(backend: Any, name: str, flags: tuple[bool, bool, bool]) -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch, name):
        pytest.skip("torch has no such dtype")
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    memory = np.zeros(256, np.uint8)
    memory = memory[-memory.ctypes.data % 16 :]
    for offset in (0, 8):
        ours = memory[offset : offset + 64].view(dtype)
        theirs = torch.frombuffer(memory[offset : offset + 64].data, dtype=getattr(torch, name))
        assert specialize(backend, ours, *flags) == specialize(backend, theirs, *flags)


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        (np.int64(1), ("constexpr", 1)),
        (np.int64(48), ("i32", "D")),
        (np.int8(3), ("i32", "")),
        (np.int64(2**40), ("i64", "D")),
        (np.uint64(2**63 + 1), ("u64", "")),
        (np.float32(1), ("fp32", None)),
        (np.float64(1.5), ("fp32", None)),
        (np.float16(1), ("fp32", None)),
        (ml_dtypes.bfloat16(1), ("fp32", None)),
        (np.bool_(True), ("u1", None)),
        (3, ("i32", "")),
        (True, ("u1", None)),
        (None, ("constexpr", None)),
    ],
)
def test_scalars(backend: Any, scalar: Any, expected: tuple[str, Any]) -> None:
    assert specialize(backend, scalar, False, True, True) == expected


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(
    "scalar",
    [
        *(0, 1, -1, 16, -16, 3, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1),
        *(2**63 - 1, 2**63, 2**64 - 1, -(2**63), True, False, 1.0, float("nan"), None),
    ],
)
def test_scalars_are_keyed_as_by_triton(backend: Any, scalar: Any, flags: tuple[bool, bool, bool]) -> None:
    from triton._C.libtriton import native_specialize_impl

    ours, theirs = specialize(backend, scalar, *flags), native_specialize_impl(backend, scalar, *flags)
    assert ours == theirs and [type(part) for part in ours] == [type(part) for part in theirs]


def test_integers_that_fit_nowhere(backend: Any) -> None:
    for value in (2**64, -(2**63) - 1):
        with pytest.raises(OverflowError):
            specialize(backend, value, False, True, True)


def test_other_arrays(backend: Any) -> None:
    source = np.zeros(8, np.float32)
    assert specialize(backend, memoryview(source), False, True, True)[0] == "*fp32"
    assert specialize(backend, bytearray(32), False, True, True)[0] == "*u8"


@pytest.mark.jax
def test_jax(backend: Any) -> None:
    jnp = pytest.importorskip("jax.numpy")
    assert specialize(backend, jnp.zeros(64, jnp.bfloat16), False, True, True) == ("*bf16", "D")


def test_tuples(backend: Any) -> None:
    source = np.zeros(64, np.float32)
    source = source[-source.ctypes.data % 16 // 4 :]
    assert specialize(backend, (source, 1, (np.int64(5),)), False, False, False) == (
        ("*fp32", "constexpr", ("i32",)),
        ("D", 1, ("",)),
    )
    pair = namedtuple("Pair", ["a", "b"])
    types, keys = specialize(backend, pair(source, 3), False, True, True)
    assert types == pair("*fp32", "i32") and keys == pair("D", "")
    assert type(types) is pair


def test_refusals(backend: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="native byte order"):
        specialize(backend, np.zeros(3, ">f4"), False, True, True)
    with pytest.raises(TypeError, match="failed to specialize"):
        specialize(backend, object(), False, True, True)


def test_plain() -> None:
    assert type(plain(np.int64(3))) is int and type(plain(np.float32(1))) is float and plain("text") == "text"
