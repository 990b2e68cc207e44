"""What Triton's own runtime tests take for granted: what emptied caches mean, and what a failed assert raises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")


@triton.jit
def fill(x, value, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), value)


@triton.jit
def asserts(x):
    tl.device_assert(tl.load(x) == 1, "not one")


@pytest.mark.parametrize("kind", [RuntimeError, AssertionError])
def test_a_failed_assert_is_what_torch_raises_for_one(kind: type[Exception]) -> None:
    asserts[(1,)](np.ones(1, np.int32), debug=True)
    with pytest.raises(kind, match=r"device-side assert .*not one"):
        asserts[(1,)](np.zeros(1, np.int32), debug=True)


def clear_all(kernel: Any) -> None:
    kernel.device_caches.clear()


def clear_each(kernel: Any) -> None:
    for kept in kernel.device_caches.values():
        kept[0].clear()


def clear_all_and_compile_another(kernel: Any) -> None:
    kernel.device_caches.clear()
    kernel[(1,)](np.zeros(4, np.int64), 2, N=4)


@pytest.mark.parametrize("clear", [clear_all, clear_each, clear_all_and_compile_another])
def test_a_cleared_kernel_is_compiled_anew(clear: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(4, np.int32)
    for value in (7, 8, 9):  # the later ones on the fast path
        fill[(1,)](x, value, N=4)
    clear(fill)
    told: list[Any] = []
    monkeypatch.setattr(triton.knobs.compilation, "listener", lambda **about: told.append(about["src"].name))
    fill[(1,)](x, 3, N=4)
    assert told == ["fill"]
    assert x.tolist() == [3] * 4
    fill[(1,)](x, 4, N=4)
    assert told == ["fill"]
    assert x.tolist() == [4] * 4
