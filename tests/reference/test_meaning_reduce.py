"""The canonical orders of reductions and dot products, against plain loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from oracle import empty_kernel, same, typed

from omnikernel.ir.tile import Block, Op, Region, Value
from omnikernel.ir.types import I1, I32, Scalar
from omnikernel.reference import MEANS, Interpreter, narrow
from omnikernel.reference.registry import DTYPES


def region(kinds: list[str], body: Callable[..., tuple[list[Op], list[Value]]]) -> Region:
    old = [Value(f"o{i}", Scalar(k)) for i, k in enumerate(kinds)]
    new = [Value(f"n{i}", Scalar(k)) for i, k in enumerate(kinds)]
    ops, results = body(*old, *new)
    return Region((Block("entry", (*old, *new), (*ops, Op("tt.reduce.return", tuple(results)))),))


def binary(name: str, kind: str) -> Region:
    made = Value("r", Scalar(kind))
    return region([kind], lambda a, b: ([Op(name, (a, b), (made,))], [made]))


def argmax() -> Region:
    """Larger value, or the same value with a smaller index."""

    def body(a: Value, i: Value, b: Value, j: Value) -> tuple[list[Op], list[Value]]:
        g, e, s, t, u = (Value(n, I1) for n in "gestu")
        v, k = Value("v", Scalar("f32")), Value("k", I32)
        return [
            Op("arith.cmpf", (a, b), (g,), {"predicate": "ogt"}),
            Op("arith.cmpf", (a, b), (e,), {"predicate": "oeq"}),
            Op("arith.cmpi", (i, j), (s,), {"predicate": "slt"}),
            Op("arith.andi", (e, s), (t,)),
            Op("arith.ori", (g, t), (u,)),
            Op("arith.select", (u, a, b), (v,)),
            Op("arith.select", (u, i, j), (k,)),
        ], [v, k]

    return region(["f32", "i32"], body)


def branching() -> Region:
    """max by scf.if, which cannot run on whole arrays."""

    def body(a: Value, b: Value) -> tuple[list[Op], list[Value]]:
        g, m = Value("g", I1), Value("m", Scalar("f32"))
        yes = Region((Block("", (), (Op("scf.yield", (a,)),)),))
        no = Region((Block("", (), (Op("scf.yield", (b,)),)),))
        return [Op("arith.cmpf", (a, b), (g,), {"predicate": "ogt"}), Op("scf.if", (g,), (m,), {}, (yes, no))], [m]

    return region(["f32"], body)


def reduce(arrays: list[np.ndarray], kinds: list[str], axis: int, combine: Region) -> list[np.ndarray]:
    shape = arrays[0].shape
    operands = tuple(Value(f"x{i}", typed(k, shape)) for i, k in enumerate(kinds))
    rest = shape[:axis] + shape[axis + 1 :]
    results = tuple(Value(f"r{i}", typed(k, rest)) for i, k in enumerate(kinds))
    machine = Interpreter(empty_kernel(), (1, 1, 1))
    machine.frames.append(dict(zip(operands, arrays, strict=True)))
    with np.errstate(all="ignore"):
        machine.run_op(Op("tt.reduce", operands, results, {"axis": axis}, (combine,)), False)
    return [machine.frames[-1][r] for r in results]


def row_by_loops(row: list, f: Callable) -> object:
    lanes = min(len(row), 32)
    acc = row[:lanes]
    for c in range(1, len(row) // lanes):
        acc = [f(acc[i], row[c * lanes + i]) for i in range(lanes)]
    half = lanes // 2
    while half:
        acc = [f(acc[i], acc[i + half]) for i in range(half)]
        half //= 2
    return acc[0]


@pytest.mark.parametrize("extent", [1, 2, 16, 32, 64, 256])
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_last_axis(extent: int, kind: str) -> None:
    dtype = DTYPES[kind]
    x = np.random.default_rng(12).normal(size=(3, extent)).astype(dtype)
    (got,) = reduce([x], [kind], 1, binary("arith.subf", kind))  # neither commutative nor associative

    def step(a, b):
        return narrow.narrow(np.asarray(np.float32(a) - np.float32(b)), kind)[()]

    want = np.array([row_by_loops(list(row), step) for row in x], dtype)
    assert same(got, want)
    (scalar,) = reduce([x[1]], [kind], 0, binary("arith.subf", kind))
    assert scalar.shape == () and same(scalar, want[1])


def test_other_axes_go_in_order_of_the_index() -> None:
    x = np.random.default_rng(13).normal(size=(8, 4, 2)).astype(np.float32)
    for axis in (0, 1):
        (got,) = reduce([x], ["f32"], axis, binary("arith.subf", "f32"))
        moved = np.moveaxis(x, axis, 0)
        want = moved[0]
        for part in moved[1:]:
            want = want - part
        assert same(got, want)


def test_several_operands() -> None:
    x = np.random.default_rng(14).integers(0, 5, (4, 64)).astype(np.float32)
    index = np.broadcast_to(np.arange(64, dtype=np.int32), (4, 64))
    value, at = reduce([x, index], ["f32", "i32"], 1, argmax())
    assert (at == x.argmax(1)).all() and (value == x.max(1)).all()


def test_regions_with_control_flow_run_by_element() -> None:
    x = np.random.default_rng(15).normal(size=(4, 16)).astype(np.float32)
    for axis in (0, 1):
        (got,) = reduce([x], ["f32"], axis, branching())
        assert (got == x.max(axis)).all()


def test_region_that_ignores_its_operands() -> None:
    one = Value("one", Scalar("i32"))
    from omnikernel.ir.tile import Constant

    combine = region(["i32"], lambda a, b: ([Op("arith.constant", (), (one,), {"value": Constant((7,), I32)})], [one]))
    (got,) = reduce([np.zeros((2, 64), np.int32)], ["i32"], 1, combine)
    assert got.tolist() == [7, 7]


def test_extent_must_be_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two"):
        reduce([np.zeros((2, 3), np.float32)], ["f32"], 1, binary("arith.addf", "f32"))


def dot(a, b, c, kinds) -> np.ndarray:
    operands = tuple(Value(n, typed(k, v.shape)) for n, k, v in zip("abc", kinds, (a, b, c), strict=True))
    result = Value("d", typed(kinds[2], c.shape))
    with np.errstate(all="ignore"):
        (made,) = MEANS["tt.dot"](Interpreter(empty_kernel(), (1, 1, 1)), Op("tt.dot", operands, (result,)), (a, b, c))
    return made


@pytest.mark.parametrize(
    ("operand", "accumulator"),
    [
        ("f32", "f32"),
        ("f16", "f32"),
        ("bf16", "f32"),
        ("f16", "f16"),
        ("bf16", "bf16"),
        ("f8E4M3FN", "f32"),
        ("f64", "f64"),
    ],
)
def test_dot_is_a_chain_of_fma_in_k(operand: str, accumulator: str) -> None:
    rng = np.random.default_rng(16)
    a = rng.normal(size=(4, 8)).astype(np.float32).astype(DTYPES[operand])
    b = rng.normal(size=(8, 2)).astype(np.float32).astype(DTYPES[operand])
    c = rng.normal(size=(4, 2)).astype(np.float32).astype(DTYPES[accumulator])
    wide = "f64" if accumulator == "f64" else "f32"
    want = np.empty((4, 2), DTYPES[accumulator])
    from fractions import Fraction

    from oracle import round_exact

    for i in range(4):
        for j in range(2):
            acc = float(c[i, j])
            for k in range(8):
                acc = round_exact(Fraction(float(a[i, k])) * Fraction(float(b[k, j])) + Fraction(acc), wide)
            want[i, j] = narrow.narrow(np.array(acc), accumulator)[()]
    assert same(dot(a, b, c, [operand, operand, accumulator]), want)


def test_integer_dot_wraps() -> None:
    a, b = np.full((1, 16), -128, np.int8), np.full((16, 1), 127, np.int8)
    assert dot(a, b, np.array([[-(2**31)]], np.int32), ["i8", "i8", "i32"]) == 2**31 - 16 * 128 * 127
