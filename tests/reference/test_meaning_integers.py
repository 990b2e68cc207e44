"""Integer meanings against Python's integers, lane by lane."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from oracle import apply, apply_many, edge_integers

from omnikernel.reference.registry import DTYPES

WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


def wrap(value: int, bits: int) -> int:
    """The signed value of the low bits; i1 as 0 or 1."""
    low = value & ((1 << bits) - 1)
    return low if bits == 1 else low - (1 << bits) if low >> (bits - 1) else low


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def signed(value: int, bits: int) -> int:
    return -value if bits == 1 else value


def truncating(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def on_signed(
    f: Callable[[int, int], int], by_zero: Callable[[int], int] | None = None
) -> Callable[[int, int, int], int]:
    def apply_one(a: int, b: int, bits: int) -> int:
        a, b = signed(a, bits), signed(b, bits)
        return by_zero(a) if by_zero and b == 0 else f(a, b)

    return apply_one


def on_unsigned(
    f: Callable[[int, int], int], by_zero: Callable[[int], int] | None = None
) -> Callable[[int, int, int], int]:
    def apply_one(a: int, b: int, bits: int) -> int:
        a, b = unsigned(a, bits), unsigned(b, bits)
        return by_zero(a) if by_zero and b == 0 else f(a, b)

    return apply_one


def shift(name: str) -> Callable[[int, int, int], int]:
    def apply_one(a: int, b: int, bits: int) -> int:
        by = unsigned(b, bits)
        if name == "shli":
            return 0 if by >= bits else a << by
        if name == "shrui":
            return unsigned(a, bits) >> by
        return signed(a, bits) >> by

    return apply_one


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "addi": on_signed(operator.add),
    "subi": on_signed(operator.sub),
    "muli": on_signed(operator.mul),
    "divsi": on_signed(truncating, lambda x: -1),
    "remsi": on_signed(lambda a, b: a - b * truncating(a, b), lambda x: x),
    "divui": on_unsigned(operator.floordiv, lambda x: -1),
    "remui": on_unsigned(operator.mod, lambda x: x),
    "ceildivsi": on_signed(lambda a, b: -(-a // b), lambda x: -1),
    "ceildivui": on_unsigned(lambda a, b: -(-a // b), lambda x: -1),
    "floordivsi": on_signed(operator.floordiv, lambda x: -1),
    "andi": on_signed(operator.and_),
    "ori": on_signed(operator.or_),
    "xori": on_signed(operator.xor),
    "shli": shift("shli"),
    "shrui": shift("shrui"),
    "shrsi": shift("shrsi"),
    "maxsi": on_signed(max),
    "minsi": on_signed(min),
    "maxui": on_unsigned(max),
    "minui": on_unsigned(min),
}


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    values = edge_integers(kind, rng, 60)
    a = np.concatenate([np.repeat(values[:11], 11), values])
    b = np.concatenate([np.tile(values[:11], 11), rng.permutation(values)])
    return a, b


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, kind: str) -> None:
    a, b = pairs(kind)
    bits = WIDTHS[kind]
    want = [wrap(BINARY[name](int(x), int(y), bits), bits) for x, y in zip(a, b, strict=True)]
    got = apply(f"arith.{name}", [a, b], [kind, kind], kind)
    assert got.tolist() == want
    scalar = apply(f"arith.{name}", [a[3], b[3]], [kind, kind], kind)
    assert scalar.shape == () and int(scalar) == want[3]


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
def test_division_by_zero_and_overflow_follow_the_gpu(kind: str) -> None:
    low = np.iinfo(DTYPES[kind]).min
    a, b = [7, low, low, -5], [0, 0, -1, 0]
    assert apply("arith.divsi", [a, b], [kind, kind], kind).tolist() == [-1, -1, low, -1]
    assert apply("arith.remsi", [a, b], [kind, kind], kind).tolist() == [7, low, 0, -5]


@pytest.mark.parametrize("kind", WIDTHS)
def test_extended_arithmetic(kind: str) -> None:
    a, b = pairs(kind)
    bits = WIDTHS[kind]
    total, carry = apply_many("arith.addui_extended", [a, b], [kind, kind], [kind, "i1"])
    ulow, uhigh = apply_many("arith.mului_extended", [a, b], [kind, kind], [kind, kind])
    slow, shigh = apply_many("arith.mulsi_extended", [a, b], [kind, kind], [kind, kind])
    high = apply("tt.mulhiui", [a, b], [kind, kind], kind)
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        u = unsigned(int(x), bits) * unsigned(int(y), bits)
        s = signed(int(x), bits) * signed(int(y), bits)
        plus = unsigned(int(x), bits) + unsigned(int(y), bits)
        assert (int(total[i]), int(carry[i])) == (wrap(plus, bits), plus >> bits)
        assert (int(ulow[i]), int(uhigh[i])) == (wrap(u, bits), wrap(u >> bits, bits))
        assert (int(slow[i]), int(shigh[i])) == (wrap(s, bits), wrap(s >> bits, bits))
        assert int(high[i]) == wrap(u >> bits, bits)


PREDICATES = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
def test_cmpi(predicate: str, kind: str) -> None:
    a, b = pairs(kind)
    bits = WIDTHS[kind]
    reading = unsigned if predicate[0] == "u" else signed
    compare = PREDICATES[predicate if predicate in PREDICATES else predicate[1:]]
    want = [compare(reading(int(x), bits), reading(int(y), bits)) for x, y in zip(a, b, strict=True)]
    assert apply("arith.cmpi", [a, b], [kind, kind], "i1", predicate=predicate).tolist() == want


@pytest.mark.parametrize("source", WIDTHS)
@pytest.mark.parametrize("target", WIDTHS)
def test_width_changes(source: str, target: str) -> None:
    a = edge_integers(source, np.random.default_rng(2), 50)
    narrower = WIDTHS[target] < WIDTHS[source]
    for name, reading in (("trunci", unsigned),) if narrower else (("extsi", signed), ("extui", unsigned)):
        want = [wrap(reading(int(x), WIDTHS[source]), WIDTHS[target]) for x in a]
        assert apply(f"arith.{name}", [a], [source], target).tolist() == want


def test_index_casts_and_absolute_value() -> None:
    assert apply("arith.index_cast", [np.int32(-3)], ["i32"], "index") == -3
    assert apply("arith.index_castui", [np.int32(-1)], ["i32"], "index") == 2**32 - 1
    assert apply("arith.index_cast", [2**32 + 5], ["index"], "i32") == 5
    assert apply("math.absi", [[-128, -1, 0, 127]], ["i8"], "i8").tolist() == [-128, 1, 0, 127]


def test_pointers() -> None:
    moved = apply("tt.addptr", [[1000, 1000, 1000], [3, -1, 2**31 - 1]], ["*f32", "i32"], "*f32")
    assert moved.tolist() == [1012, 996, 1000 + 4 * (2**31 - 1)]
    assert apply("tt.addptr", [1000, -(2**40)], ["*f64", "i64"], "*f64") == 1000 - 8 * 2**40
    assert apply("tt.addptr", [1000, 5], ["*i1", "i32"], "*i1") == 1005
    assert apply("tt.ptr_to_int", [1234], ["*f32"], "i64") == 1234
    assert apply("tt.int_to_ptr", [1234], ["i64"], "*f32") == 1234
    assert apply("tt.bitcast", [[5, 6]], ["*f32"], "*i32").tolist() == [5, 6]


def test_bitcast_keeps_bits() -> None:
    assert apply("arith.bitcast", [[1.0, -0.0]], ["f32"], "i32").tolist() == [0x3F800000, -(2**31)]
    assert apply("arith.bitcast", [[0x3F80]], ["i16"], "bf16").astype(np.float32).tolist() == [1.0]
    with pytest.raises(TypeError, match="changes the width"):
        apply("arith.bitcast", [[1.0]], ["f32"], "i64")
