"""The fast launch path: which calls hit, and every reason to leave a call to the stock path."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import handmade as kernels
import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from omnikernel import pipeline  # noqa: E402
from omnikernel.errors import DeviceAssertionError  # noqa: E402
from omnikernel.pipeline import Options  # noqa: E402
from omnikernel.runtime import dispatch, pool  # noqa: E402
from omnikernel.runtime.launch import Executable, Launcher  # noqa: E402

pytestmark = pytest.mark.skipif(pool.native() is None, reason="the C extension is not built")

SCALE = tl.constexpr(3)
NAMES = ["x", "y", "out", "n", "BLOCK", "ACT"]


def make() -> Any:
    """A new JITFunction; what it computes is compiled by hand."""

    @triton.jit
    def add(x, y, out, n, BLOCK: tl.constexpr, ACT: tl.constexpr = None):
        pass

    return add


@triton.jit
def helper(x):
    return x


@triton.jit
def other(x):
    return x


class Stock:
    """Stands for Triton's own path: compiles (by hand) at the first call of a kind, launches, remembers."""

    def __init__(self, function: Any) -> None:
        self.function = function
        signature = dict(zip(NAMES, ["*fp32", "*fp32", "*fp32", "i32", "constexpr", "constexpr"], strict=True))
        source = SimpleNamespace(fn=function, signature=signature, constants={})
        self.compiled = SimpleNamespace(_run=Launcher(source, None))
        self.executable = Executable(kernels.add())
        self.launches = 0

    def run(self, grid: Any, *args: Any, **kwargs: Any) -> Any:
        """The launch as the hook around JITFunction.run makes it; returns what try_launch did."""
        found = dispatch.try_launch(self.function, grid, args, kwargs)
        if found is not None:
            return found
        self.launches += 1
        bound = [*args, *[kwargs[name] for name in NAMES[len(args) :] if name in kwargs], None, None][:6]
        extents = grid(dict(zip(NAMES, bound, strict=True))) if callable(grid) else grid
        x, y, z = (*extents, 1, 1)[:3]
        self.compiled._run(x, y, z, 0, self.executable, None, None, None, None, *bound)
        dispatch.remember(self.function, args, kwargs, self.compiled)
        return None


@pytest.fixture
def stock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stock:
    monkeypatch.setenv("OMNIKERNEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(pipeline, "compile_text", lambda text, options, target: kernels.add(options), raising=False)
    return Stock(make())


@pytest.fixture
def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return tuple(aligned(64) for _ in range(3))  # type: ignore[return-value]


def aligned(n: int, dtype: Any = np.float32) -> np.ndarray:
    size = n * np.dtype(dtype).itemsize
    raw = np.zeros(size + 16, np.uint8)
    raw = raw[-raw.ctypes.data % 16 :][:size]
    made = raw.view(dtype)
    made[:] = np.arange(n)
    return made


def test_the_second_launch_is_fast(stock: Stock, arrays: Any) -> None:
    x, y, out = arrays
    assert stock.run((64,), x, y, out, 64, BLOCK=16) is None
    out[:] = 0
    assert stock.run((64,), x, y, out, 64, BLOCK=16) is stock.compiled
    assert (out == x + y).all() and stock.launches == 1


@pytest.mark.parametrize(
    "grid", [(64,), [64], (64, 1, 1), 64, (np.int64(64),), lambda meta: (meta["n"] * meta["BLOCK"] // 16,)]
)
def test_grids(stock: Stock, arrays: Any, grid: Any) -> None:
    x, y, out = arrays
    stock.run((64,), x, y, out, 64, BLOCK=16)
    out[:] = 0
    assert stock.run(grid, x, y, out, 64, BLOCK=16) is stock.compiled
    assert (out == x + y).all()


def test_grid_function_sees_every_argument(stock: Stock, arrays: Any) -> None:
    x, y, out = arrays
    stock.run((64,), x, y, out=out, n=64, BLOCK=16)
    seen: list[dict[str, Any]] = []
    assert stock.run(lambda meta: (seen.append(meta), (1,))[1], x, y, out=out, n=64, BLOCK=16) is stock.compiled
    assert list(seen[0]) == NAMES
    assert seen[0]["x"] is x and seen[0]["out"] is out and seen[0]["ACT"] is None


def test_grid_function_that_raises(stock: Stock, arrays: Any) -> None:
    stock.run((64,), *arrays, 64, BLOCK=16)
    with pytest.raises(ZeroDivisionError):
        dispatch.try_launch(stock.function, lambda meta: (1 // 0,), (*arrays, 64), {"BLOCK": 16})


@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), (-1,), (2**31,), (1.0,), None, "1"])
def test_strange_grids_are_left_to_the_stock_path(stock: Stock, arrays: Any, grid: Any) -> None:
    stock.run((64,), *arrays, 64, BLOCK=16)
    assert dispatch.try_launch(stock.function, grid, (*arrays, 64), {"BLOCK": 16}) is None


def test_zero_grid(stock: Stock, arrays: Any) -> None:
    x, y, out = arrays
    stock.run((64,), x, y, out, 64, BLOCK=16)
    out[:] = 7
    assert stock.run((0,), x, y, out, 64, BLOCK=16) is stock.compiled
    assert (out == 7).all()


# ---- what must be another key ----

CHANGES: dict[str, Callable[[list[Any], dict[str, Any]], None]] = {
    "dtype": lambda a, k: a.__setitem__(0, aligned(64, np.float64)),
    "equal dtype, other object": lambda a, k: a.__setitem__(0, aligned(64, np.dtype("f4", metadata={"a": 1}))),
    "alignment": lambda a, k: a.__setitem__(0, aligned(65)[1:]),
    "n = 1": lambda a, k: a.__setitem__(3, 1),
    "n not divisible": lambda a, k: a.__setitem__(3, 63),
    "n 64-bit": lambda a, k: a.__setitem__(3, 2**40),
    "n unsigned": lambda a, k: a.__setitem__(3, 2**63),
    "n huge": lambda a, k: a.__setitem__(3, 2**70),
    "n bool": lambda a, k: a.__setitem__(3, True),
    "n float": lambda a, k: a.__setitem__(3, 64.0),
    "None for an array": lambda a, k: a.__setitem__(0, None),
    "constexpr value": lambda a, k: k.update(BLOCK=32),
    "constexpr type": lambda a, k: k.update(BLOCK=16.0),
    "another constexpr": lambda a, k: k.update(ACT="relu"),
    "option": lambda a, k: k.update(num_warps=8),
    "debug": lambda a, k: k.update(debug=True),
    "dtype constexpr": lambda a, k: k.update(ACT=tl.float32),
    "kernel constexpr": lambda a, k: k.update(ACT=helper),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_calls_have_other_keys(stock: Stock, arrays: Any, change: str) -> None:
    stock.run((64,), *arrays, 64, BLOCK=16)
    args, kwargs = [*arrays, 64], {"BLOCK": 16}
    CHANGES[change](args, kwargs)
    table = vars(stock.function)["_omnikernel_table"]
    assert table.key(tuple(args), kwargs) != table.key((*arrays, 64), {"BLOCK": 16})
    assert dispatch.try_launch(stock.function, (1,), tuple(args), kwargs) is None


@pytest.mark.parametrize(
    "pair", [("a", "b"), (True, 1), (0.0, -0.0), (tl.float32, tl.float16), (helper, other), (-1, 2**64 - 1)]
)
def test_constexprs_are_told_apart(stock: Stock, arrays: Any, pair: tuple[Any, Any]) -> None:
    assert helper.cache_key and other.cache_key  # as the front end leaves them
    stock.run((64,), *arrays, 64, BLOCK=16)
    table = vars(stock.function)["_omnikernel_table"]
    keys = [table.key((*arrays, 64), {"BLOCK": 16, "ACT": value}) for value in pair]
    assert None not in keys and keys[0] != keys[1]


@pytest.mark.parametrize("value", [[1], (1, 2), {}, object(), tl.constexpr(3), np.str_("s"), b"bytes"])
def test_constexprs_without_a_key(stock: Stock, arrays: Any, value: Any) -> None:
    stock.run((64,), *arrays, 64, BLOCK=16)
    assert vars(stock.function)["_omnikernel_table"].key((*arrays, 64), {"BLOCK": 16, "ACT": value}) is None


def test_values_of_the_same_class_share_an_entry(stock: Stock, arrays: Any) -> None:
    x, y, out = arrays
    stock.run((64,), x, y, out, 64, BLOCK=16)
    out[:] = 0
    assert stock.run((64,), y, x, out, 48, BLOCK=16) is stock.compiled
    assert (out[:48] == x[:48] + y[:48]).all() and not out[48:].any()


@pytest.mark.parametrize(
    "scalar", [np.int64(64), np.int32(1), np.uint64(2**63), np.float32(0.5), np.float64(2), np.bool_(1)]
)
@pytest.mark.parametrize("where", ["n", "ACT"])
def test_numpy_scalars_are_the_numbers_they_hold(stock: Stock, arrays: Any, scalar: Any, where: str) -> None:
    stock.run((64,), *arrays, 64, BLOCK=16)
    table = vars(stock.function)["_omnikernel_table"]
    keys = [table.key(arrays, {"n": 64, "BLOCK": 16, where: value}) for value in (scalar, scalar.item())]
    assert keys[0] is not None and keys[0] == keys[1]


def test_numpy_scalars_are_passed(stock: Stock, arrays: Any) -> None:
    x, y, out = arrays
    stock.run((64,), x, y, out, np.int64(48), BLOCK=16)
    out[:] = 0
    assert stock.run((64,), x, y, out, np.int32(32), BLOCK=np.int64(16)) is stock.compiled
    assert (out[:32] == x[:32] + y[:32]).all() and not out[32:].any()


def test_a_changed_kernel_constexpr_is_another_key(stock: Stock, arrays: Any) -> None:
    stock.run((64,), *arrays, 64, BLOCK=16)

    @triton.jit
    def changing(x):
        return x

    table = vars(stock.function)["_omnikernel_table"]
    assert table.key((*arrays, 64), {"BLOCK": 16, "ACT": changing}) is None  # not hashed yet
    first = changing.cache_key
    before = table.key((*arrays, 64), {"BLOCK": 16, "ACT": changing})
    changing.hash = first[::-1]
    assert table.key((*arrays, 64), {"BLOCK": 16, "ACT": changing}) != before


# ---- arguments that the stock path must see ----


def test_read_only_output(stock: Stock, arrays: Any) -> None:
    x, y, out = arrays
    stock.run((64,), x, y, out, 64, BLOCK=16)
    x.flags.writeable = False
    assert stock.run((64,), x, y, out, 64, BLOCK=16) is stock.compiled
    out.flags.writeable = False
    assert dispatch.try_launch(stock.function, (64,), (x, y, out, 64), {"BLOCK": 16}) is None


def test_unaligned_elements(stock: Stock, arrays: Any) -> None:
    x, y, out = arrays
    stock.run((64,), x, y, out, 64, BLOCK=16)
    odd = np.zeros(300, np.uint8)[1:257].view(np.float32)
    assert dispatch.try_launch(stock.function, (64,), (odd, y, out, 64), {"BLOCK": 16}) is None


def test_overlap_waits_for_the_conservative_variant(stock: Stock, arrays: Any) -> None:
    x, y, out = arrays
    stock.run((64,), x, y, out, 64, BLOCK=16)
    assert dispatch.try_launch(stock.function, (64,), (x, y, x, 64), {"BLOCK": 16}) is None
    assert stock.run((64,), x, y, x, 64, BLOCK=16) is None  # compiles it
    expected = x + y
    assert stock.run((64,), x, y, x, 64, BLOCK=16) is stock.compiled
    assert (x == expected).all()
    assert stock.run((64,), x, y, out, 64, BLOCK=16) is stock.compiled  # and the other one is still there
    assert stock.launches == 2


def test_overlap_counts_negative_strides(stock: Stock) -> None:
    x, y = aligned(64), aligned(64)
    whole = aligned(128)
    stock.run((64,), x, y, whole[64:], 64, BLOCK=16)
    reverse = whole[60::-1]  # its address is inside, its elements are below
    assert reverse.ctypes.data % 16 == 0
    assert dispatch.try_launch(stock.function, (1,), (reverse, y, whole[0:4], 16), {"BLOCK": 16}) is None


def test_subclasses_of_ndarray(stock: Stock, arrays: Any) -> None:
    x, y, out = arrays
    stock.run((64,), x, y, out, 64, BLOCK=16)
    masked = np.ma.masked_array(x)
    assert dispatch.try_launch(stock.function, (64,), (masked, y, out, 64), {"BLOCK": 16}) is None


def test_kernels_without_arrays_are_not_remembered(stock: Stock) -> None:
    stock.compiled._run.executable = stock.executable
    assert not dispatch.remember(stock.function, (None, None, None, 64), {"BLOCK": 16}, stock.compiled)


# ---- contexts that the stock path must see ----


@pytest.fixture
def hit(stock: Stock, arrays: Any) -> Callable[[], bool]:
    stock.run((64,), *arrays, 64, BLOCK=16)
    return lambda: dispatch.try_launch(stock.function, (64,), (*arrays, 64), {"BLOCK": 16}) is not None


@pytest.mark.parametrize("hook", ["launch_enter_hook", "launch_exit_hook"])
def test_launch_hooks(hit: Callable[[], bool], hook: str) -> None:
    chain = getattr(triton.knobs.runtime, hook)
    assert hit()
    chain.add(print)
    try:
        assert not hit()
    finally:
        chain.remove(print)
    assert hit()


@pytest.mark.parametrize("knob", ["launch_enter_hook", "launch_exit_hook", "add_stages_inspection_hook"])
def test_assigned_hooks(hit: Callable[[], bool], knob: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.runtime, knob, lambda *a: None)
    assert not hit()


def test_debug_knob(hit: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.runtime, "debug", True)
    assert not hit()


def test_replaced_knobs(hit: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = copy.copy(triton.knobs.runtime)
    replaced.debug = True
    monkeypatch.setattr(triton.knobs, "runtime", replaced)
    assert not hit()


def test_pre_run_hooks(hit: Callable[[], bool], stock: Stock) -> None:
    stock.function.add_pre_run_hook(lambda *a, **k: None)
    assert not hit()


@pytest.mark.parametrize("variable", ["OMNIKERNEL_REFERENCE", "OMNIKERNEL_CHECK"])
def test_modes(hit: Callable[[], bool], variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    assert not hit()
    monkeypatch.setenv(variable, "0")
    assert hit()


def test_changed_globals(hit: Callable[[], bool], stock: Stock) -> None:
    scope = {"SCALE": SCALE}
    stock.function.used_global_vals = {("SCALE", id(scope)): (SCALE, scope)}
    assert hit()
    scope["SCALE"] = tl.constexpr(4)
    assert not hit()
    del scope["SCALE"]
    assert not hit()


def test_suspended(hit: Callable[[], bool]) -> None:
    with dispatch.suspended():
        assert not hit()
        with dispatch.suspended():
            pass
        assert not hit()
    assert hit()


# ---- the rest ----


def test_device_assert(monkeypatch: pytest.MonkeyPatch) -> None:
    @triton.jit
    def fail(n, x):
        pass

    fake = SimpleNamespace(fn=fail, signature={"n": "i64", "x": "constexpr"}, constants={})
    compiled = SimpleNamespace(_run=Launcher(fake, None))
    compiled._run.executable = Executable(kernels.fail())
    compiled._run.executable.variant(True)
    x = aligned(4)
    assert dispatch.remember(fail, (50, x), {}, compiled)
    assert dispatch.try_launch(fail, (50,), (50, x), {}) is compiled
    with pytest.raises(DeviceAssertionError, match=r"kernel 'fail', program \(50, 0, 0\): .*index out of range"):
        dispatch.try_launch(fail, (51,), (50, x), {})


def test_torch_tensors(stock: Stock, arrays: Any) -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no exchange API")
    x, y, out = (torch.from_numpy(a) for a in arrays)
    stock.run((64,), x, y, out, 64, BLOCK=16)
    out.zero_()
    assert stock.run((64,), x, y, out, 64, BLOCK=16) is stock.compiled
    assert torch.equal(out, x + y)

    def misses(*tensors: Any) -> bool:
        return dispatch.try_launch(stock.function, (1,), (*tensors, 64), {"BLOCK": 16}) is None

    assert misses(torch._neg_view(x), y, out)
    assert misses(x.to("meta"), y, out)
    assert misses(x.to(torch.float64), y, out)
    assert misses(x.to(torch.int32), y, out)
    assert misses(x[1:], y, out)
    assert misses(x, y, x)  # the conservative variant is not there yet


def test_copies_and_pickles_start_without_a_table(stock: Stock, arrays: Any) -> None:
    stock.run((64,), *arrays, 64, BLOCK=16)
    table = vars(stock.function)["_omnikernel_table"]
    assert pickle.loads(pickle.dumps(table)) is None
    assert copy.deepcopy(table) is None


def test_tables_are_collected(arrays: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIKERNEL_CACHE_DIR", str(tmp_path))
    stock = Stock(make())
    stock.run((64,), *arrays, 64, BLOCK=16)
    assert stock.run((64,), *arrays, 64, BLOCK=16) is stock.compiled
    stock.compiled.cycle = stock  # compiled kernel -> function -> table -> compiled kernel
    alive = weakref.ref(stock)
    registry = getattr(triton.runtime.jit, "_triton_jit_function_registry", {})  # from Triton 3.7 on
    for name in [name for name, function in registry.items() if function is stock.function]:
        del registry[name]
    del stock
    gc.collect()
    assert alive() is None


def test_many_entries_are_bounded(stock: Stock, arrays: Any) -> None:
    stock.run((64,), *arrays, 64, BLOCK=0)
    for block in range(1, 1100):
        dispatch.remember(stock.function, (*arrays, 64), {"BLOCK": block}, stock.compiled)
    assert 0 < len(vars(stock.function)["_omnikernel_table"]) <= 1024


def test_numpy_layout_is_checked() -> None:
    native = pool.native()
    assert native is not None
    sample = np.zeros(3, np.float32)
    told = (np.ndarray, sample, sample.ctypes.data, sample.shape, sample.strides, sample.dtype, True)
    assert native.setup_numpy(*told)
    assert not native.setup_numpy(*told[:2], told[2] + 8, *told[3:])
    assert not native.setup_numpy(*told[:-1], False)


def test_without_the_extension(stock: Stock, arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "native_with_triton", lambda: None)
    for _ in range(2):
        assert stock.run((64,), *arrays, 64, BLOCK=16) is None
    with dispatch.suspended():
        pass


@pytest.fixture(autouse=True)
def _balanced() -> Iterator[None]:
    yield
    native = pool.native()
    assert native is None or native.suspend(0) == 0


def test_options_fixture_is_disjoint() -> None:
    assert kernels.add().options == Options(disjoint=True)
