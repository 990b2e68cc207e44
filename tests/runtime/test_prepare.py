"""Prepared launches: they mean what `kernel[grid](...)` means, at once where they can and by the ordinary launch where not."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

import omnikernel  # noqa: E402
from omnikernel.errors import ArgumentTypeError, ArgumentValueError, DeviceAssertionError  # noqa: E402
from omnikernel.runtime import pool  # noqa: E402
from omnikernel.runtime import prepare as module  # noqa: E402

SCALE = tl.constexpr(3)
N = 100


@triton.jit
def scaled_sum(x, y, out, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr = 2):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n) * FACTOR + tl.load(y + i, mask=i < n)
    tl.store(out + i, value, mask=i < n)


@triton.jit
def of_a_global(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * SCALE)


@triton.jit
def shifted(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + 1)


@triton.jit
def called_grid(grid, out, offset=5):
    tl.store(out + tl.program_id(0), grid + offset)


@triton.jit
def asserts(out, n):
    tl.device_assert(n < 3, "n is below 3")
    tl.store(out, n)


def arrays(dtype: str = "float32", n: int = N) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(rng.random(n) * 50).astype(dtype) for _ in range(2)] + [np.zeros(n, dtype)]


def grid(meta: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


@pytest.fixture(params=["native", "python"])
def prepared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """`prepare`, with the C extension and without."""
    if request.param == "native" and pool.native() is None:
        pytest.skip("the C extension is not built")
    if request.param == "python":
        monkeypatch.setattr(module, "extension", lambda: None)

    def made(*args: Any, **kwargs: Any) -> Any:
        launch = omnikernel.prepare(*args, **kwargs)
        assert launch.direct == (request.param == "native")
        return launch

    return made


@pytest.fixture
def direct() -> None:
    if pool.native() is None:
        pytest.skip("the C extension is not built")


def test_preparing_runs_nothing(prepared: Any) -> None:
    x, y, out = arrays()
    prepared(scaled_sum, grid, x, y, out, N, BLOCK=32)
    assert not out.any()


def test_bound_and_other_arguments(prepared: Any) -> None:
    x, y, out = arrays()
    launch = prepared(scaled_sum, grid, x, y, out, N, BLOCK=32)
    compiled = launch()
    np.testing.assert_array_equal(out, x * 2 + y)
    x += 1
    assert launch() is compiled
    np.testing.assert_array_equal(out, x * 2 + y)
    other = np.zeros_like(out)
    launch(y, x, other, N)
    np.testing.assert_array_equal(other, y * 2 + x)


@pytest.mark.parametrize("n", [0, 1, 16, 32, 33, 97])
def test_the_class_of_an_integer_changes(prepared: Any, n: int) -> None:
    x, y, out = arrays()
    prepared(scaled_sum, grid, x, y, out, N, BLOCK=32)(x, y, out, n)
    np.testing.assert_array_equal(out, np.where(np.arange(N) < n, x * 2 + y, 0))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8"])
def test_the_dtype_changes(prepared: Any, dtype: str) -> None:
    launch = prepared(scaled_sum, (4,), *arrays(), N, BLOCK=32)
    x, y, out = arrays(dtype)
    launch(x, y, out, N)
    np.testing.assert_allclose(out, x * 2 + y, rtol=1e-3)


def test_alignment_and_overlap_change(prepared: Any) -> None:
    x, y, out = arrays()
    launch = prepared(scaled_sum, (4,), x, y, out, N, BLOCK=32)
    whole = np.zeros(N + 1, np.float32)
    launch(x, y, whole[1:], N)
    np.testing.assert_array_equal(whole[1:], x * 2 + y)
    want = x * 2 + y
    launch(x, y, x, N)
    np.testing.assert_array_equal(x, want)
    line = np.arange(33, dtype=np.float32)
    step = prepared(shifted, (1,), np.zeros(32, np.float32), np.zeros(32, np.float32), BLOCK=32)
    step(line[:-1], line[1:])  # a tile is read before it is written
    np.testing.assert_array_equal(line, [0, *range(1, 33)])


def test_a_read_only_array_is_refused(prepared: Any) -> None:
    x, y, out = arrays()
    launch = prepared(scaled_sum, (4,), x, y, out, N, BLOCK=32)
    x.flags.writeable = False
    launch(x, y, out, N)  # read only
    np.testing.assert_array_equal(out, x * 2 + y)
    out.flags.writeable = False
    with pytest.raises(ArgumentValueError, match=r"scaled_sum.*out.*write"):
        launch()
    with pytest.raises(ArgumentValueError, match=r"scaled_sum.*out.*write"):
        omnikernel.prepare(scaled_sum, (4,), x, y, out, N, BLOCK=32)


def test_it_keeps_its_arrays_alive_and_no_others(prepared: Any) -> None:
    x, y, out = arrays()
    launch, dies = prepared(scaled_sum, (4,), x, y, out, N, BLOCK=32), weakref.ref(x)
    want = x * 2 + y
    del x, y
    gc.collect()
    junk = [np.full(N, 7, np.float32) for _ in range(50)]
    launch()
    np.testing.assert_array_equal(out, want)
    other, gone = arrays()[0], []
    gone.append(weakref.ref(other))
    launch(other, other, out, N)
    del other
    assert gone[0]() is None and dies() is not None
    del launch, junk
    gc.collect()
    assert dies() is None


def test_the_grid_is_called_with_all_arguments(prepared: Any) -> None:
    seen: list[dict[str, Any]] = []

    def record(meta: dict[str, Any]) -> tuple[int, ...]:
        seen.append(dict(meta))
        return (4,)

    x, y, out = arrays()
    launch = prepared(scaled_sum, record, x, y, out, N, BLOCK=32)
    seen.clear()
    launch(y, x, out, 36)
    assert len(seen) == 1
    assert seen[0]["x"] is y and seen[0]["n"] == 36 and seen[0]["BLOCK"] == 32 and seen[0]["FACTOR"] == 2


def test_what_a_grid_raises_is_raised(prepared: Any) -> None:
    def fails(meta: dict[str, Any]) -> tuple[int]:
        if meta["n"] == 36:
            raise LookupError("no such n")
        return (4,)

    x, y, out = arrays()
    launch = prepared(scaled_sum, fails, x, y, out, N, BLOCK=32)
    with pytest.raises(LookupError, match="no such n"):
        launch(x, y, out, 36)


@pytest.mark.parametrize("extents", [4, [4], (2, 2), (0,), np.int64(4)], ids=repr)
def test_forms_of_a_grid(prepared: Any, extents: Any) -> None:
    x, y, out = arrays()
    prepared(scaled_sum, extents, x, y, out, N, BLOCK=32)()
    reached = {0: 0, 2: 64}.get(extents[0] if isinstance(extents, (tuple, list)) else 4, N)
    np.testing.assert_array_equal(out, np.where(np.arange(N) < reached, x * 2 + y, 0))


def test_keywords_defaults_and_a_parameter_called_grid(prepared: Any) -> None:
    x, y, out = arrays()
    launch = prepared(scaled_sum, (4,), n=N, out=out, y=y, x=x, FACTOR=4, BLOCK=32, num_warps=2)
    launch()
    np.testing.assert_array_equal(out, x * 4 + y)
    launch(y, x, out, N)  # in the kernel's order, whatever it was prepared in
    np.testing.assert_array_equal(out, y * 4 + x)
    whole = np.zeros(3, np.int32)
    omnikernel.prepare(called_grid, (3,), 7, whole)(9, whole)
    np.testing.assert_array_equal(whole, 14)


def test_a_failed_assert_is_raised(monkeypatch: pytest.MonkeyPatch, direct: None) -> None:
    monkeypatch.setattr(triton.knobs.runtime, "debug", True)
    out = np.zeros(1, np.int32)
    launch = omnikernel.prepare(asserts, (1,), out, 2, debug=True)
    launch()
    assert launch.direct and out[0] == 2
    with pytest.raises(DeviceAssertionError, match="n is below 3"):
        launch(out, 5)


def test_the_direct_way_needs_no_triton(monkeypatch: pytest.MonkeyPatch, direct: None) -> None:
    x, y, out = arrays()
    launch = omnikernel.prepare(scaled_sum, (4,), x, y, out, N, BLOCK=32)
    calls: list[str] = []
    monkeypatch.setattr(type(scaled_sum), "run", lambda *args, **kwargs: calls.append("ordinary"))
    launch()
    launch(y, x, out, 52)
    assert calls == []
    np.testing.assert_array_equal(out[:52], (y * 2 + x)[:52])
    launch(x, y, out, 64)  # divisible by 16
    launch(*arrays("float64"), N)
    assert calls == ["ordinary"] * 2


def test_hooks_and_the_reference_are_heard(monkeypatch: pytest.MonkeyPatch, prepared: Any) -> None:
    x, y, out = arrays()
    launch = prepared(scaled_sum, (4,), x, y, out, N, BLOCK=32)
    seen: list[Any] = []
    monkeypatch.setattr(triton.knobs.runtime, "launch_enter_hook", seen.append)
    launch()
    assert len(seen) == 1
    monkeypatch.undo()
    from omnikernel import reference

    runs: list[Any] = []
    stock = reference.run
    monkeypatch.setattr(reference, "run", lambda *args, **kwargs: (runs.append(1), stock(*args, **kwargs)))
    monkeypatch.setenv("OMNIKERNEL_REFERENCE", "1")
    launch()
    assert runs == [1]


def test_a_changed_global_is_seen(monkeypatch: pytest.MonkeyPatch, prepared: Any) -> None:
    x, out = np.ones(16, np.float32), np.zeros(16, np.float32)
    launch = prepared(of_a_global, (1,), x, out, BLOCK=16)
    launch()
    assert (out == 3).all()
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(4))
    with pytest.raises(RuntimeError, match="SCALE"):  # as the ordinary launch says
        launch()


def test_emptied_caches_compile_anew(prepared: Any) -> None:
    x, y, out = arrays()
    launch = prepared(scaled_sum, (4,), x, y, out, N, BLOCK=32)
    first = launch()
    scaled_sum.device_caches.clear()
    assert launch() is not first
    np.testing.assert_array_equal(out, x * 2 + y)


def test_threads_launch_one_prepared_launch(prepared: Any) -> None:
    x, y, out = arrays()
    launch, wrong = prepared(scaled_sum, grid, x, y, out, N, BLOCK=32), []

    def work(seed: int) -> None:
        mine = [np.random.default_rng(seed + k).random(N, np.float32) for k in range(2)]
        for n in (36, 52, 68, 32, 100) * 20:
            result = np.zeros(N, np.float32)
            launch(*mine, result, n)
            if not np.array_equal(result, np.where(np.arange(N) < n, mine[0] * 2 + mine[1], 0)):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_mistakes(prepared: Any) -> None:
    x, y, out = arrays()
    launch = prepared(scaled_sum, (4,), x, y, out, N, BLOCK=32)
    with pytest.raises(TypeError, match=r"scaled_sum.*4 run-time arguments \(x, y, out, n\).*got 3"):
        launch(x, y, out)
    with pytest.raises(TypeError):
        launch(x, y, out, n=N)
    with pytest.raises(ArgumentTypeError, match=r"scaled_sum.*missing.*'out'"):
        omnikernel.prepare(scaled_sum, (4,), x, y, n=N, BLOCK=32)
    with pytest.raises(ArgumentTypeError, match="whole numbers"):
        omnikernel.prepare(scaled_sum, (4.5,), x, y, out, N, BLOCK=32)
    with pytest.raises(ArgumentTypeError, match="jit function"):
        omnikernel.prepare(len, (4,), x)
    tuned = triton.autotune([triton.Config({"BLOCK": 32})], key=[])(scaled_sum)
    with pytest.raises(ArgumentTypeError, match=r"scaled_sum.*best_config"):
        omnikernel.prepare(tuned, (4,), x, y, out, N)


@pytest.mark.torch
def test_tensors(direct: None) -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.rand(2, N)
    out = torch.empty(N)
    launch = omnikernel.prepare(scaled_sum, (4,), x, y, out, N, BLOCK=32)
    assert launch.direct
    launch()
    torch.testing.assert_close(out, x * 2 + y)
    launch(x.double(), y.double(), wide := out.double(), N)
    torch.testing.assert_close(wide, x.double() * 2 + y.double())
    a, b, c = arrays()
    launch(a, b, c, N)  # another library: an ordinary launch
    np.testing.assert_array_equal(c, a * 2 + b)
    out.resize_(N + 28)  # moves what the launch was prepared with
    out.zero_()
    launch()
    torch.testing.assert_close(out[:N], x * 2 + y)
