"""Scaled dots, prints, scans and lookups, against plain loops."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from oracle import apply, empty_kernel, same, typed

from omnikernel.ir.tile import Block, Op, Region, Value
from omnikernel.ir.types import Scalar
from omnikernel.reference import MEANS, Interpreter, narrow

FP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def fp4(code: int) -> float:
    return -FP4[code & 7] if code & 8 else FP4[code & 7]


def dot_scaled(a, b, c, scales, kinds, **attributes) -> np.ndarray:
    named = {"e2m1": "i8", "e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "bf16": "bf16", "fp16": "f16"}
    arrays = [a, b, c, *(s for s in scales if s is not None)]
    dtypes = [named[kinds[0]], named[kinds[1]], "f32", *("i8" for s in scales if s is not None)]
    flags = {"has_lhs_scale": scales[0] is not None, "has_rhs_scale": scales[1] is not None}
    return apply(
        "tt.dot_scaled",
        arrays,
        dtypes,
        "f32",
        c.shape,
        lhs_elem_type=kinds[0],
        rhs_elem_type=kinds[1],
        **flags,
        **attributes,
    )


def test_dot_of_packed_4_bit_floats_and_scales() -> None:
    rng = np.random.default_rng(18)
    m, n, k = 4, 2, 64
    left, right = rng.integers(0, 16, (m, k)), rng.integers(0, 16, (k, n))
    a = (left[:, ::2] | left[:, 1::2] << 4).astype(np.uint8).view(np.int8)
    b = (right[::2] | right[1::2] << 4).astype(np.uint8).view(np.int8)
    powers = rng.integers(120, 134, (m, k // 32))
    scale = powers.astype(np.uint8).view(np.int8)
    want = np.zeros((m, n), np.float32)
    for i in range(m):
        for j in range(n):
            for x in range(k):
                factor = 2.0 ** (int(powers[i, x // 32]) - 127)
                want[i, j] += np.float32(fp4(left[i, x]) * factor * fp4(right[x, j]))
    got = dot_scaled(a, b, np.zeros((m, n), np.float32), (scale, None), ("e2m1", "e2m1"))
    assert same(got, want)  # these sums are exact
    along_rows = (left[::2] | left[1::2] << 4).astype(np.uint8).view(np.int8)
    assert same(
        dot_scaled(along_rows, b, np.zeros((m, n), np.float32), (scale, None), ("e2m1", "e2m1"), lhs_k_pack=False), want
    )


def test_scale_of_all_ones_is_nan() -> None:
    a = np.ones((1, 32), ml_dtypes.float8_e4m3fn)
    b = np.ones((32, 1), ml_dtypes.bfloat16)
    zero = np.zeros((1, 1), np.float32)
    right = np.array([[-1]], np.int8)
    assert np.isnan(dot_scaled(a, b, zero, (None, right), ("e4m3", "bf16")))
    assert dot_scaled(a, b, zero, (None, right), ("e4m3", "bf16"), fastMath=True) == np.inf
    assert dot_scaled(a, b, zero, (None, np.array([[128]]).astype(np.uint8).view(np.int8)), ("e4m3", "bf16")) == 64.0


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(axis: int, reverse: bool) -> None:
    x = np.random.default_rng(19).normal(size=(4, 8)).astype(np.float16)
    a, b, r = (Value(n, Scalar("f16")) for n in "abr")
    body = (Op("arith.subf", (a, b), (r,)), Op("tt.scan.return", (r,)))
    operand, result = Value("x", typed("f16", x.shape)), Value("y", typed("f16", x.shape))
    op = Op("tt.scan", (operand,), (result,), {"axis": axis, "reverse": reverse}, (Region((Block("", (a, b), body),)),))
    machine = Interpreter(empty_kernel(), (1, 1, 1))
    machine.frames.append({operand: x})
    machine.run_op(op, False)
    lines = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1]
    want = [lines[0]]
    for line in lines[1:]:
        want.append(narrow.narrow(want[-1].astype(np.float32) - line.astype(np.float32), "f16"))
    assert same(machine.frames[-1][result], np.moveaxis(np.array(want)[:: -1 if reverse else 1], 0, axis).copy())


def test_gather_and_histogram() -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    at = np.array([[0, 2], [3, -1], [1, 99]], np.int32)
    assert apply("tt.gather", [x, at], ["i32", "i32"], "i32", (3, 2), axis=1).tolist() == [[0, 2], [7, 7], [9, 11]]
    values = [0, 3, 3, 9, -1, 3]
    assert apply("tt.histogram", [values], ["i32"], "i32", (4,)).tolist() == [1, 0, 0, 3]
    mask = [True, True, False, True, True, True]
    assert apply("tt.histogram", [values, mask], ["i32", "i1"], "i32", (4,)).tolist() == [1, 0, 0, 2]


def test_join_split_cat() -> None:
    a, b = np.array([1, 2]), np.array([3, 4])
    assert apply("tt.join", [a, b], ["i32", "i32"], "i32", (2, 2)).tolist() == [[1, 3], [2, 4]]
    assert apply("tt.cat", [a, b], ["i32", "i32"], "i32", (4,)).tolist() == [1, 2, 3, 4]


def printed(capsys: pytest.CaptureFixture[str], values, kinds, **attributes) -> list[str]:
    arrays = tuple(np.asarray(v) for v in values)
    operands = tuple(Value(f"v{i}", typed(k, a.shape)) for i, (a, k) in enumerate(zip(arrays, kinds, strict=True)))
    machine = Interpreter(empty_kernel(), (4, 1, 1), program=(3, 0, 0))
    MEANS["tt.print"](machine, Op("tt.print", operands, (), attributes), arrays)
    return capsys.readouterr().out.splitlines()


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, [], [], prefix=" hello") == ["pid (3, 0, 0) hello"]
    assert printed(capsys, [np.float32(1.5)], ["f32"], prefix=" x: ") == ["pid (3, 0, 0) idx () x: 1.500000"]
    signed = printed(capsys, [np.array([-1, 2], np.int8)], ["i8"], prefix=" ", isSigned=(1,))
    assert signed == ["pid (3, 0, 0) idx (0) -1", "pid (3, 0, 0) idx (1) 2"]
    assert printed(capsys, [np.int8(-1)], ["i8"], prefix=" ", isSigned=(0,)) == ["pid (3, 0, 0) idx () 255"]
    assert printed(capsys, [np.int16(-2)], ["i16"], prefix=" ", hex=True) == ["pid (3, 0, 0) idx () 0xfffe"]
    wide = printed(capsys, [np.zeros((2, 16), np.int32)], ["i32"], prefix=" ", isSigned=(1,))
    assert wide[3] == "pid (3, 0, 0) idx (0,  3) 0" and len(wide) == 32
    two = printed(capsys, [np.int32(1), np.int32(2)], ["i32", "i32"], prefix=" ", isSigned=(1, 1))
    assert two[1] == "pid (3, 0, 0) idx () (operand 1) 2"
