"""Launches: slots, the choice of variant, refusals word for word, asserts, Triton's launcher."""

from __future__ import annotations

import struct
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import handmade as kernels
import ml_dtypes
import numpy as np
import pytest

from omnikernel import pipeline
from omnikernel.errors import ArgumentTypeError, ArgumentValueError, DeviceAssertionError
from omnikernel.ir.types import Scalar
from omnikernel.pipeline import Artefact, Options
from omnikernel.runtime import cache, launch
from omnikernel.runtime.launch import Executable, Launcher


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMNIKERNEL_CACHE_DIR", str(tmp_path))


@pytest.fixture
def recompiled(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """Records what the launcher compiles on demand, and compiles the add kernel whatever the text."""
    asked: list[Options] = []

    def compile_text(ttir: str, options: Options, target: object = None) -> Artefact:
        assert ttir == "add ttir"
        asked.append(options)
        return kernels.add(options)

    monkeypatch.setattr(pipeline, "compile_text", compile_text, raising=False)
    return asked


def vectors(n: int = 64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32), np.zeros(n, np.float32)


# ---- running ----


def test_runs() -> None:
    x, y, out = vectors()
    Executable(kernels.add()).run((64,), [x, y, out, 60])
    assert (out[:60] == x[:60] + 0.5).all() and not out[60:].any()


def test_libraries_may_be_mixed() -> None:
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    x, _, out = vectors()
    Executable(kernels.add()).run((64, 1, 1), [torch.from_numpy(x), jnp.ones(64, jnp.float32), memoryview(out), 64])
    assert (out == x + 1).all()


@pytest.mark.parametrize("grid", [(0,), (0, 3, 3), (3, 0), (1, 1, 0)])
def test_zero_grid_touches_nothing(grid: tuple[int, ...]) -> None:
    Executable(kernels.add()).run(grid, [None, None, None, 3])


def test_empty_arrays() -> None:
    empty = np.zeros(0, np.float32)
    Executable(kernels.add()).run((5,), [empty, empty, empty, 0])


def test_strided_views_pass_their_first_element() -> None:
    x, y, out = vectors(8)
    Executable(kernels.add()).run((1,), [x[::-1], y, out, 1])  # element 0 of the reversed view is the last
    assert out[0] == 7.5


def test_grid_of_numpy_integers() -> None:
    x, y, out = vectors()
    Executable(kernels.add()).run(np.array([64, 1]), [x, y, out, np.int64(64)])
    assert out[63] == 63.5


def test_two_threads_launch_at_once() -> None:
    kernel = Executable(kernels.count())
    arrays = [np.zeros(400, np.int32) for _ in range(4)]
    callers = [threading.Thread(target=lambda c=c: [kernel.run((400,), [c]) for _ in range(25)]) for c in arrays]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(counts.min() == counts.max() == 25 for counts in arrays)


def test_device_assert() -> None:
    kernel = Executable(kernels.fail())
    kernel.run((5,), [5])
    with pytest.raises(DeviceAssertionError) as caught:
        kernel.run((100,), [7])
    assert (
        str(caught.value)
        == "kernel 'fail', program (7, 0, 0): device-side assert failed: kernel.py:7: index out of range"
    )


# ---- slots ----

F16, BF16, F8 = Scalar("f16"), Scalar("bf16"), Scalar("f8E5M2")


@pytest.mark.parametrize(
    ("kind", "value", "bits"),
    [
        ("i1", True, 1),
        ("i1", np.bool_(False), 0),
        ("i8", -1, 2**64 - 1),
        ("i8", 255, 255),
        ("i16", -(2**15), 2**64 - 2**15),
        ("i32", 2**32 - 1, 2**32 - 1),
        ("i32", np.int32(-5), 2**64 - 5),
        ("i64", -(2**63), 2**63),
        ("i64", 2**64 - 1, 2**64 - 1),
        ("f32", 0.1, struct.unpack("<I", struct.pack("<f", 0.1))[0]),
        ("f32", 3, struct.unpack("<I", struct.pack("<f", 3.0))[0]),
        ("f32", 1e300, 0x7F800000),
        ("f32", float("-inf"), 0xFF800000),
        ("f64", 0.1, struct.unpack("<Q", struct.pack("<d", 0.1))[0]),
        ("f16", 1.5, 0x3E00),
        ("f16", 1e9, 0x7C00),
        ("bf16", 1.0 + 2**-8, 0x3F80),  # a tie, to even
        ("bf16", ml_dtypes.bfloat16(-2), 0xC000),
        ("f8E5M2", 1.0, 0x3C),
        ("f8E4M3FN", 1.0, 0x38),
    ],
)
def test_slots(kind: str, value: Any, bits: int) -> None:
    out = np.zeros(8, np.int64)
    kernel = Executable(kernels.echo(Scalar(kind)))
    kernel.run((1,), [out, value, *range(7)])
    assert int(out.view(np.uint64)[0]) == bits
    assert out[1:].tolist() == list(range(7))


@pytest.mark.parametrize(
    ("kind", "slot", "value"),
    [
        ("i1", 1, True),
        ("i8", 255, -1),
        ("i32", 2**64 - 5, -5),
        ("i64", 2**63, -(2**63)),
        ("f32", 0x3FC00000, 1.5),
        ("f64", 0x3FF8000000000000, 1.5),
        ("bf16", 0x3FC0, 1.5),
    ],
)
def test_slots_as_numbers_of_the_reference(kind: str, slot: int, value: Any) -> None:
    found = launch._number(slot, Scalar(kind))
    assert found == value and type(found) is type(value)


# ---- variants ----


def variants(kernel: Executable) -> list[bool]:
    return sorted(kernel._variants)


def test_disjoint_arguments_take_the_optimised_variant(recompiled: list[Options]) -> None:
    x, _, out = vectors()
    kernel = Executable(kernels.add())
    kernel.run((64,), [x, x, out, 64])  # arrays that are only read may be the same
    assert variants(kernel) == [True] and not recompiled


@pytest.mark.parametrize("which", ["same", "partial", "inside"])
def test_overlap_takes_the_conservative_variant(recompiled: list[Options], which: str) -> None:
    x, y, _ = vectors(100)
    out = {"same": x, "partial": x[50:], "inside": x[3:5]}[which]
    kernel = Executable(kernels.add(Options(disjoint=True, fp_fusion=False)))
    kernel.run((2,), [x[:60], y, out, 2])
    assert variants(kernel) == [False]
    assert recompiled == [Options(disjoint=False, fp_fusion=False)]
    kernel.run((2,), [x[:60], y, out, 2])
    assert len(recompiled) == 1  # kept


def test_touching_and_empty_arrays_do_not_overlap(recompiled: list[Options]) -> None:
    x, y, _ = vectors(100)
    kernel = Executable(kernels.add())
    kernel.run((2,), [x[:50], y, x[50:], 2])
    kernel.run((2,), [x[:0], y, x, 0])
    assert variants(kernel) == [True]


def test_unknown_extents_take_the_conservative_variant(recompiled: list[Options]) -> None:
    x, y, out = vectors()
    kernel = Executable(kernels.add())
    kernel.run((64,), [x, y, out.ctypes.data, 64])
    assert variants(kernel) == [False] and out[1] == 1.5
    kernel = Executable(kernels.add())
    kernel.run((64,), [x.ctypes.data, y, out, 64])
    assert variants(kernel) == [False]


def test_a_conservative_artefact_is_recompiled_for_disjoint_arguments(recompiled: list[Options]) -> None:
    x, y, out = vectors()
    kernel = Executable(kernels.add(Options(disjoint=False)))
    kernel.run((64,), [x, y, x, 64])
    assert not recompiled
    kernel.run((64,), [x, y, out, 64])
    assert recompiled == [Options(disjoint=True)]


def test_the_other_variant_is_kept_on_disk(recompiled: list[Options]) -> None:
    x, y, _ = vectors()
    for _ in range(2):
        Executable(kernels.add()).run((64,), [x, y, x, 64])
    assert len(recompiled) == 1
    assert Executable(replace(kernels.add(), texts={})).variant(True)
    with pytest.raises(ArgumentValueError, match="expected an artefact with its TTIR"):
        Executable(replace(kernels.add(), texts={})).run((64,), [x, y, x, 64])


# ---- refusals, word for word ----


def refused(values: list[Any], kind: type[Exception] = ArgumentTypeError) -> str:
    with pytest.raises(kind) as caught:
        Executable(kernels.add()).run((1,), values)
    return str(caught.value)


def test_read_only_array_in_a_written_position() -> None:
    x, y, out = vectors()
    out.flags.writeable = False
    Executable(kernels.add()).run((1,), [out, y, x, 1])  # read-only is fine where the kernel only reads
    assert refused([x, y, out, 1], ArgumentValueError) == (
        "kernel 'add', parameter 'out': expected an array that the kernel can write, got a read-only NumPy array; "
        "pass a writeable copy"
    )
    assert refused([x, y, memoryview(bytes(16)).cast("f"), 1], ArgumentValueError) == (
        "kernel 'add', parameter 'out': expected an array that the kernel can write, got read-only memory (buffer); "
        "pass a writeable copy"
    )


def test_jax_array_in_a_written_position() -> None:
    jnp = pytest.importorskip("jax.numpy")
    x, y, _ = vectors()
    assert refused([x, y, jnp.zeros(64, jnp.float32), 1]) == (
        "kernel 'add', parameter 'out': expected an array that the kernel can write, got a JAX array; JAX arrays are "
        "immutable: use omnikernel.jax.triton_call, or pass a NumPy array to write into"
    )


def test_wrong_dtype() -> None:
    x, y, out = vectors()
    assert refused([x, y.astype(np.float64), out, 1]) == (
        "kernel 'add', parameter 'y': expected an array of float32, got an array of float64; "
        "the kernel was compiled for the former"
    )


def test_no_array() -> None:
    x, _, out = vectors()
    assert refused([x, 2.5, out, 1]) == (
        "kernel 'add', parameter 'y': expected an array of float32, got 2.5; "
        "pass a NumPy array, a CPU torch tensor, a JAX array, or an object with DLPack or a buffer"
    )
    assert "expected an array of float32, got a dict;" in refused([x, {}, out, 1])


def test_wrong_scalars() -> None:
    x, y, out = vectors()
    assert refused([x, y, out, 1.5]) == "kernel 'add', parameter 'n': expected an integer (i32), got 1.5; pass an int"
    assert refused([x, y, out, 2**32], ArgumentValueError) == (
        "kernel 'add', parameter 'n': expected an integer of 32 bits, got 4294967296; "
        "annotate the parameter with a wider type"
    )
    assert refused([x, y, out, x]) == (
        "kernel 'add', parameter 'n': expected a number (i32), got a ndarray; pass a Python or NumPy number"
    )


def test_wrong_count() -> None:
    assert refused([1, 2]) == "kernel 'add': expected 4 (x, y, out, n), got 2"


def test_wrong_grids() -> None:
    kernel = Executable(kernels.add())
    values = [*vectors(), 1]
    with pytest.raises(ArgumentTypeError) as caught:
        kernel.run((2.0,), values)  # type: ignore[arg-type]
    assert str(caught.value) == "kernel 'add': expected a grid of whole numbers, got (2.0,)"
    for grid in [(-1,), (1, 2**31), (), (1, 1, 1, 1)]:
        with pytest.raises(ArgumentValueError, match="expected a grid of one to three numbers from 0 to 2147483647"):
            kernel.run(grid, values)


def test_torch_tensor_elsewhere() -> None:
    torch = pytest.importorskip("torch")
    _, y, out = vectors()
    assert refused([torch.zeros(64, device="meta"), y, out, 1]).startswith(
        "kernel 'add', parameter 'x': expected a tensor on the CPU, got a torch tensor of float32 on meta"
    )


# ---- Triton's launcher ----


def source(signature: dict[str, Any], constants: dict[Any, Any] | None = None, names: list[str] | None = None) -> Any:
    fn = SimpleNamespace(arg_names=names or list(signature))
    return SimpleNamespace(fn=fn, signature=signature, constants=constants or {})


def call(launcher: Launcher, function: Any, *args: Any, hooks: tuple[Any, Any] = (None, None), grid: int = 64) -> None:
    launcher(grid, 1, 1, 0, function, (4, 1, 0), {"name": "add"}, *hooks, *args)


def test_launcher_skips_constants() -> None:
    x, y, out = vectors()
    signature = {"x": "*fp32", "one": "constexpr", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    launcher = Launcher(source(signature, {(1,): 1, (5,): 16}), None)
    call(launcher, cache.pack(kernels.add()), x, 1, y, out, 64, 16)
    assert (out == x + 0.5).all()


def test_launcher_unpacks_tuples() -> None:
    x, y, out = vectors()
    launcher = Launcher(source({"xs": ("*fp32", ("constexpr", "*fp32")), "out": "*fp32", "n": "i32"}), None)
    call(launcher, Executable(kernels.add()), (x, (None, y)), out, 64)
    assert (out == x + 0.5).all()


def test_launcher_takes_sources_made_by_hand() -> None:
    x, y, out = vectors()
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}  # no entry for the constant
    names = ["x", "BLOCK", "y", "out", "n"]
    launcher = Launcher(source(signature, {"BLOCK": 16}, names), None)
    call(launcher, cache.pack(kernels.add()), x, 16, y, out, 64)
    assert (out == x + 0.5).all()


def test_launcher_calls_hooks() -> None:
    x, y, out = vectors()
    seen: list[Any] = []
    hooks = (lambda m: seen.append(("enter", m, out[1])), lambda m: seen.append(("exit", m, out[1])))
    launcher = Launcher(source({"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}), None)
    call(launcher, cache.pack(kernels.add()), x, y, out, 64, hooks=hooks)
    assert seen == [("enter", {"name": "add"}, 0.0), ("exit", {"name": "add"}, 1.5)]


def test_equal_binaries_share_an_executable() -> None:
    packed = cache.pack(kernels.add())
    one = launch.executable(packed)
    assert launch.executable(bytes(bytearray(packed))) is one


@pytest.mark.parametrize("tf32", [False, True])
def test_descriptors_are_flattened(tf32: bool) -> None:
    described = SimpleNamespace(base="base", shape=[4, 8], strides=[8, 1], padding="nan")
    if tf32:
        described.round_f32_to_tf32 = False
    flags = [True, False] if tf32 else [True]
    assert launch.flatten_descriptor(described) == ["base", 4, 8, 8, 1, *flags, 4, 8, 8, 1]
