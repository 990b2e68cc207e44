"""Triton's key of a kernel from the names that its source is known to refer to: the key that the whole walk gives."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.runtime import jit

from omnikernel.backend import dependencies

LIMIT = tl.constexpr(7)
OTHER = tl.constexpr(8)
WIDTH = tl.constexpr(16)


class Shapes:
    rows = tl.constexpr(2)


@triton.jit
def leaf(x, bias: tl.constexpr = LIMIT):
    return x + bias


@triton.jit
def branch(x):
    return leaf(x) + leaf(leaf(x))


@triton.jit
def plain(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 1.0)


@triton.jit
def shadowed(x, WIDTH, N: tl.constexpr):
    LIMIT = WIDTH + 1
    for OTHER in range(N):
        tl.store(x + OTHER, LIMIT)


@triton.jit
def read_before_it_is_shadowed(x):
    tl.store(x, OTHER)  # noqa: F823
    OTHER, first = 1, 2
    tl.store(x + first, OTHER)


@triton.jit
def attributes(x, N: tl.constexpr = Shapes.rows):
    total = tl.load(x + tl.arange(0, WIDTH)).to(tl.float32).sum(0)
    tl.store(x, tl.maximum(total, LIMIT).to(x.dtype.element_ty) + Shapes.rows)


@triton.jit
def calls(x, y):
    tl.store(x, branch(tl.load(x)) + tl.sum(leaf(tl.arange(0, WIDTH)), 0))
    tl.store(y, branch(tl.load(y)))


@triton.jit
def recursive(n):
    return n if n == 0 else recursive(n - 1) + LIMIT


def closure() -> Any:
    inner = tl.constexpr(5)

    @triton.jit
    def captured(x):
        tl.store(x, leaf(inner))

    return captured


FUNCTIONS = [
    plain,
    shadowed,
    read_before_it_is_shadowed,
    attributes,
    calls,
    recursive,
    closure(),
    tl.softmax,
    tl.argmax,
    tl.cdiv,
    tl.flip,
]
Key = tuple[str, list[tuple[str, Any]]]


def forget(function: Any) -> None:
    """Let keys be made anew, of the function and of all that the tests' functions call."""
    for other in (function, leaf, branch, *FUNCTIONS, *vars(tl.standard).values()):
        if isinstance(other, jit.JITCallable):
            other.hash = None
            other.used_global_vals = {}


def key_of(function: Any) -> Key:
    """The key, and the names and values of the globals that a launch compares."""
    forget(function)
    key = function.cache_key
    return key, sorted((name, str(value)) for (name, _), (value, _) in function.used_global_vals.items())


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The sources that are parsed from here on, while names are kept in an empty folder."""
    sources: list[str] = []
    stock = ast.parse
    monkeypatch.setenv("OMNIKERNEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ast, "parse", lambda source, *more: (sources.append(source), stock(source, *more))[1])
    return sources


def kept(function: Any) -> Key:
    with dependencies.remembered():
        return key_of(function)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_the_key_is_that_of_the_whole_walk(function: Any, parsed: list[str], tmp_path: Path) -> None:
    whole = key_of(function)
    assert not list(tmp_path.rglob("*.names"))
    assert kept(function) == whole
    parsed.clear()
    assert kept(function) == whole
    assert parsed == []


def test_launches_keep_names(parsed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    for expected in (True, False):
        parsed.clear()
        forget(plain)
        plain.device_caches.clear()
        x = np.zeros(4, np.float32)
        plain[(1,)](x, N=4)
        assert list(x) == [1, 1, 1, 1]
        assert bool(parsed) == expected


def test_what_a_name_means_is_looked_up_anew(parsed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept(calls)
    for name, value in (("WIDTH", tl.constexpr(32)), ("branch", leaf)):
        with monkeypatch.context() as changed:
            changed.setitem(globals(), name, value)
            parsed.clear()
            other = kept(calls)
            assert other[0] != first[0]
            assert other == key_of(calls)
    leaf_source = leaf.src
    try:
        leaf._unsafe_update_src(leaf_source.replace("x + bias", "x - bias"))
        assert kept(calls)[0] != first[0]
    finally:
        leaf._unsafe_update_src(leaf_source)
    assert kept(calls) == first


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"0" * 64 + b"\n tl.load", bytes([255, 254])])
def test_damaged_files_are_written_anew(damage: bytes, parsed: list[str], tmp_path: Path) -> None:
    whole = kept(plain)
    (file,) = tmp_path.rglob("*.names")
    content = file.read_bytes()
    file.write_bytes(damage)
    assert kept(plain) == whole
    assert file.read_bytes() == content


def test_a_folder_that_cannot_be_written_does_no_harm(parsed: list[str], tmp_path: Path) -> None:
    (tmp_path / "names").write_text("")
    assert kept(plain) == key_of(plain)


def test_errors_are_those_of_the_whole_walk(parsed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    kept(calls)
    monkeypatch.setitem(globals(), "branch", print)
    for make in (key_of, kept):
        with pytest.raises(RuntimeError, match="Unsupported function referenced"):
            make(calls)


def test_targets_that_are_attributes_are_walked_each_time(parsed: list[str], tmp_path: Path) -> None:
    source = plain.src
    try:
        plain._unsafe_update_src("def plain(x, N):\n    Shapes.rows = N\n")
        whole = key_of(plain)
        assert kept(plain) == kept(plain) == whole
        assert not list(tmp_path.rglob("*.names"))
    finally:
        plain._unsafe_update_src(source)
