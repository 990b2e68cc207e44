"""Loads, stores and atomics at real addresses."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
from oracle import apply, typed

from omnikernel.errors import UnsupportedOp
from omnikernel.ir.tile import Op, Value
from omnikernel.reference import MEANS, Interpreter, memory
from omnikernel.reference.registry import DTYPES


def addresses(array: np.ndarray, index) -> np.ndarray:
    return array.ctypes.data + np.asarray(index, np.int64) * array.itemsize


def load(array: np.ndarray, kind: str, index, mask=None, other=None) -> np.ndarray:
    args, kinds = [addresses(array, index)], [f"*{kind}"]
    for value, its in ((mask, "i1"), (other, kind)):
        if value is not None:
            args.append(value)
            kinds.append(its)
    return apply("tt.load", args, kinds, kind, np.shape(index))


def effect(name: str, args, kinds, observer=None, **attributes) -> None:
    arrays = [np.asarray(a, np.int64 if k.startswith("*") else DTYPES[k]) for a, k in zip(args, kinds, strict=True)]
    operands = tuple(Value(f"a{i}", typed(k, a.shape)) for i, (a, k) in enumerate(zip(arrays, kinds, strict=True)))
    machine = Interpreter(None, (1, 1, 1), observer)
    MEANS[name](machine, Op(name, operands, (), attributes), tuple(arrays))


KINDS = ["i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f8E5M2", "f8E4M3FN"]


@pytest.mark.parametrize("kind", KINDS)
def test_load_and_store_every_dtype(kind: str) -> None:
    dtype = DTYPES[kind]
    rng = np.random.default_rng(11)
    memory_array = (
        rng.integers(0, 2, 64).astype(bool) if kind == "i1" else rng.integers(0, 9, 64).astype(np.float32)
    ).astype(dtype)
    index = rng.permutation(64)[:32].reshape(4, 8)
    mask = rng.integers(0, 2, (4, 8)).astype(bool)
    assert (load(memory_array, kind, index) == memory_array[index]).all()
    assert (load(memory_array, kind, index, mask) == np.where(mask, memory_array[index], np.zeros((), dtype))).all()
    other = memory_array[index[::-1]]
    assert (load(memory_array, kind, index, mask, other) == np.where(mask, memory_array[index], other)).all()
    want = memory_array.copy()
    want[index[mask]] = other[mask]
    effect("tt.store", [addresses(memory_array, index), other, mask], [f"*{kind}", kind, "i1"])
    assert (want == memory_array).all()


def test_scalars_and_unaligned_addresses() -> None:
    raw = np.zeros(32, np.uint8)
    effect("tt.store", [raw.ctypes.data + 3, 1.5], ["*f32", "f32"])
    assert raw[3:7].view(np.uint8).tobytes() == np.float32(1.5).tobytes()
    assert apply("tt.load", [raw.ctypes.data + 3], ["*f32"], "f32", ()) == 1.5


def test_last_of_equal_addresses_wins() -> None:
    x = np.zeros(4, np.int32)
    effect("tt.store", [addresses(x, [1, 2, 1, 1]), [10, 20, 30, 40]], ["*i32", "i32"])
    assert x.tolist() == [0, 40, 20, 0]


def test_masked_off_lanes_touch_nothing() -> None:
    """The page behind the array cannot be read or written."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    last = np.frombuffer(area, np.int32)[page // 4 - 4 : page // 4]
    last[:] = [1, 2, 3, 4]
    index = np.array([0, 1, 2, 3, 2**40, -(2**40)])
    mask = np.array([True] * 4 + [False] * 2)
    assert load(last, "i32", index, mask).tolist() == [1, 2, 3, 4, 0, 0]
    assert load(last, "i32", index, np.zeros(6, bool)).tolist() == [0] * 6
    effect("tt.store", [addresses(last, index), np.arange(6), mask], ["*i32", "i32", "i1"])
    assert last.tolist() == [0, 1, 2, 3]


def test_null_is_an_error_only_where_it_is_touched() -> None:
    assert apply("tt.load", [[0, 0], [False, False]], ["*f32", "i1"], "f32", (2,)).tolist() == [0, 0]
    with pytest.raises(ValueError, match="null"):
        apply("tt.load", [[0, 0]], ["*f32"], "f32", (2,))


def atomic(kind: str, element: str, x: np.ndarray, index, value, mask=None) -> np.ndarray:
    args, kinds = [addresses(x, index), value], [f"*{element}", element]
    if mask is not None:
        args.append(mask)
        kinds.append("i1")
    return apply("tt.atomic_rmw", args, kinds, element, np.shape(index), kind=kind)


def test_atomics_return_old_values_lane_by_lane() -> None:
    x = np.array([10, 20, 30], np.int32)
    assert atomic("add", "i32", x, [0, 1, 0, 0], [1, 2, 3, 4]).tolist() == [10, 20, 11, 14]
    assert x.tolist() == [18, 22, 30]
    assert atomic("exch", "i32", x, [2, 2], [5, 6]).tolist() == [30, 5]
    assert x[2] == 6
    assert atomic("add", "i32", x, [0, 1], [100, 100], [False, True]).tolist() == [0, 22]
    assert x.tolist() == [18, 122, 6]


@pytest.mark.parametrize(
    ("kind", "before", "value", "after"),
    [
        ("and", 0b1100, 0b1010, 0b1000),
        ("or", 0b1100, 0b1010, 0b1110),
        ("xor", 0b1100, 0b1010, 0b0110),
        ("add", 2**31 - 1, 1, -(2**31)),
        ("max", -5, 3, 3),
        ("min", -5, 3, -5),
        ("umax", -5, 3, -5),
        ("umin", -5, 3, 3),
        ("exch", -5, 3, 3),
    ],
)
def test_atomic_kinds(kind: str, before: int, value: int, after: int) -> None:
    x = np.array([before], np.int32)
    assert atomic(kind, "i32", x, 0, value) == before
    assert x[0] == after


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_float_atomics_round_each_time(kind: str) -> None:
    dtype = DTYPES[kind]
    x = np.array([2048.0 if kind == "f16" else 256.0 if kind == "bf16" else 1.0], dtype)
    old = atomic("fadd", kind, x, [0, 0, 0], [1.0, 1.0, 1.0])
    if kind in ("f16", "bf16"):  # 1 is half a step: each sum rounds back
        assert old[0] == old[2] == x[0]
    else:
        assert x[0] == 4.0 and old.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(UnsupportedOp, match="atomic max"):
        atomic("max", kind, x, 0, 1.0)


def test_compare_and_swap_compares_bits() -> None:
    x = np.array([5, 6], np.int64)
    old = apply("tt.atomic_cas", [addresses(x, [0, 1, 0]), [5, 5, 7], [7, 7, 9]], ["*i64", "i64", "i64"], "i64", (3,))
    assert old.tolist() == [5, 6, 7] and x.tolist() == [9, 6]
    f = np.array([-0.0, np.nan], np.float32)
    old = apply("tt.atomic_cas", [addresses(f, [0, 1]), [0.0, np.nan], [1.0, 2.0]], ["*f32"] + ["f32"] * 2, "f32", (2,))
    assert np.signbit(f[0]) and f[1] == 2.0 and np.isnan(old[1])


def test_observer_sees_accesses_before_they_happen() -> None:
    class Stop(Exception):
        pass

    class Refuse:
        def store(self, op, addresses, mask, width):
            assert (addresses.tolist(), mask.tolist(), width) == ([16, 0], [True, True], 2)
            raise Stop

    with pytest.raises(Stop):
        effect("tt.store", [[16, 0], [1, 2]], ["*i16", "i16"], Refuse())


def test_block_pointers_are_refused() -> None:
    with pytest.raises(UnsupportedOp, match="block pointers"):
        memory._lanes(Op("tt.load", (Value("p", typed("f32")),)), np.array(8), None)
