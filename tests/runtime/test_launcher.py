"""`kernel[grid](...)` in C: known launches meet no Python, every other one goes the way that it went before."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

import omnikernel  # noqa: E402
from omnikernel.ops.arrays import Array, state  # noqa: E402
from omnikernel.ops.launches import MutationError  # noqa: E402
from omnikernel.runtime import pool  # noqa: E402

pytestmark = [
    pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed"),
    pytest.mark.skipif(pool.native() is None, reason="the C extension is not built"),
]


@triton.jit
def scale(x, out, n, factor=2.0, BLOCK: tl.constexpr = 16):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)


@pytest.fixture
def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(64, dtype=np.float32), np.zeros(64, np.float32)


def python_calls(call: Callable[[], object]) -> list[str]:
    """The Python functions that run in a call."""
    found: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            found.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def test_a_known_launch_meets_no_python(arrays: Any) -> None:
    x, out = arrays
    for launch in (
        lambda: scale[(4,)](x, out, 64, 3.0, BLOCK=16),
        lambda: scale[4](x, out, n=64, factor=3.0, BLOCK=16),
        lambda: scale[(1,)](x=x, out=out, n=64, factor=3.0, BLOCK=64, num_warps=2),
    ):
        first = launch()
        out[:] = 0
        names = python_calls(lambda launch=launch: launch())  # type: ignore[misc]
        assert not {"run", "launch", "try_launch"} & set(names), names
        assert launch() is first
        assert np.array_equal(out, 3 * x)


def test_a_default_is_left_to_triton(arrays: Any) -> None:
    x, out = arrays
    for _ in range(2):
        scale[(4,)](x, out, 64)
        assert np.array_equal(out, 2 * x)


def test_launches_of_two_kinds_in_turn(arrays: Any) -> None:
    x, out = arrays
    wide, wide_out = x.astype(np.float64), np.zeros(64)
    for n in (64, 50, 64, 1, 50):
        scale[(4,)](x, out, n, 2.0, BLOCK=16)
        scale[(4,)](wide, wide_out, n, 2.0, BLOCK=16)
        assert np.array_equal(out[:n], 2 * x[:n])
        assert np.array_equal(wide_out[:n], 2 * wide[:n])
        if n == 1:
            vars(scale)["_omnikernel_table"].clear()


def test_a_launch_can_be_kept(arrays: Any) -> None:
    x, out = arrays
    launch = scale[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)]
    for n in (64, 10, 40):
        out[:] = 0
        launch(x, out, n, 2.0, BLOCK=16)
        assert np.array_equal(out, np.where(np.arange(64) < n, 2 * x, 0))


def test_a_replaced_run_is_called(arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = arrays
    scale[(4,)](x, out, 64, 2.0, BLOCK=16)
    scale[(4,)](x, out, 64, 2.0, BLOCK=16)
    ours, seen = type(scale).run, []

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["grid"])
        return ours(self, *args, **kwargs)

    monkeypatch.setattr(type(scale), "run", run)
    scale[(4,)](x, out, 64, 2.0, BLOCK=16)
    monkeypatch.undo()
    monkeypatch.setitem(vars(scale), "run", lambda *args, **kwargs: seen.append(kwargs["grid"]))
    scale[(3,)](x, out, 64, 2.0, BLOCK=16)
    monkeypatch.undo()
    scale[(4,)](x, out, 64, 2.0, BLOCK=16)
    assert seen == [(4,), (3,)]


def test_errors_are_those_of_triton(arrays: Any) -> None:
    x, out = arrays
    scale[(4,)](x, out, 64, 2.0, BLOCK=16)
    for wrong in ({"grid": (1,)}, {"warmup": True}):
        with pytest.raises(TypeError, match="multiple values for keyword argument"):
            scale[(4,)](x, out, 64, 2.0, BLOCK=16, **wrong)
    with pytest.raises(TypeError):
        scale[(4,)](*(x,) * 70)
    with pytest.raises(ZeroDivisionError):
        scale[lambda meta: (1 // 0,)](x, out, 64, 2.0, BLOCK=16)
    out.flags.writeable = False
    with pytest.raises(omnikernel.errors.ArgumentValueError, match="read-only"):
        scale[(4,)](x, out, 64, 2.0, BLOCK=16)


@omnikernel.op("launcher::chosen")
def chosen(x: Array, inside: bool) -> Array:
    out = omnikernel.empty_like(x)
    scale[(4,)](x, x if inside else out, 64, 2.0, BLOCK=16)
    return out


def test_every_launch_of_an_operator_is_held_against_its_declaration(arrays: Any) -> None:
    x, _ = arrays
    for _ in range(3):
        assert np.array_equal(chosen(x, False), 2 * x)
    names = python_calls(lambda: chosen(x, False))
    assert "launch" not in names
    with pytest.raises(MutationError, match="'x'"):
        chosen(x, True)


@omnikernel.op("launcher::doubled_", mutates=("x",))
def doubled_(x: Array) -> None:
    scale[(4,)](x, x, 64, 2.0, BLOCK=16)


def test_an_operator_in_place(arrays: Any) -> None:
    x, _ = arrays
    for _ in range(3):
        doubled_(x)
    assert np.array_equal(x, 8 * np.arange(64))


def test_the_call_of_a_thread_is_its_own() -> None:
    seen: list[Any] = []
    state.run = marker = object()  # type: ignore[assignment]
    try:
        thread = threading.Thread(target=lambda: seen.append(state.run))
        thread.start()
        thread.join()
        assert state.run is marker
    finally:
        state.run = None
    assert seen == [None]
    assert state.run is None


def test_arrays_of_an_operator() -> None:
    made = Array("value", source=3)
    assert (made.value, made.source, Array("x").source) == ("value", 3, -1)
    made.value, made.source = "other", -2
    assert (made.value, made.source) == ("other", -2)
    for wrong in ((), ("x", "y"), ("x", 1, 2)):
        with pytest.raises(TypeError):
            Array(*wrong)


@triton.jit
def repeated(x, out, steps, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i)
    for _ in range(steps):
        value = value * 0.5 + 1.0
    tl.store(out + i, value)


def test_threads_go_by_what_launches_took() -> None:
    """How long a loop is cannot be told beforehand where it is an argument."""
    native: Any = pool.native()
    x = np.linspace(0, 9, 16 * 8, dtype=np.float32)
    one, two = np.zeros_like(x), np.zeros_like(x)
    before = native.get_num_threads()

    def shared(steps: int, out: np.ndarray, count: int) -> int:
        start = native.shared_launches()
        for _ in range(count):
            repeated[(16,)](x, out, steps, BLOCK=8)
        return int(native.shared_launches() - start)

    try:
        native.set_num_threads(1)
        assert shared(50_000, one, 3) == 0
        native.set_num_threads(2)
        assert shared(50_000, two, 20) > 0
        assert np.array_equal(one, two)
        shared(2, two, 60)
        assert shared(2, two, 40) < 40
    finally:
        native.set_num_threads(before)
