"""Integer arithmetic, comparison and selection against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from elementwise_jit import DTYPES, TARGETS, externals, run, same_bits

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
LANES = (0, 1, 4, 16, 32)


def samples(kind: str, seed: int = 0, count: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Pairs: every pair of edge values, then random ones, half of them with a small right operand."""
    bits = BITS[kind]
    if bits == 1:
        return np.array([0, 0, 1, 1] * 8, bool), np.array([0, 1, 0, 1] * 8, bool)
    rng = np.random.default_rng(seed)
    top = 1 << (bits - 1)
    edges = [0, 1, -1, 2, -2, 3, 7, -7, 10, top - 1, -top, -top + 1, top // 2, bits, bits - 1, bits + 1]
    left = [a for a in edges for _ in edges] + [int(v) for v in rng.integers(-top, top, count)]
    right = [b for _ in edges for b in edges] + [int(v) for v in rng.integers(-top, top, count)]
    right[-count // 2 :] = [int(v) for v in rng.integers(-9, 10, count // 2)]
    return np.array(left, DTYPES[kind]), np.array(right, DTYPES[kind])


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _divsi(a: int, b: int, w: int) -> int:
    a, b = signed(a, w), signed(b, w)
    return truncated(a, b) if b else -1


def _remsi(a: int, b: int, w: int) -> int:
    a, b = signed(a, w), signed(b, w)
    return a - b * truncated(a, b) if b else a


def _ceildivsi(a: int, b: int, w: int) -> int:
    a, b = signed(a, w), signed(b, w)
    return -(-a // b) if b else -1


def _floordivsi(a: int, b: int, w: int) -> int:
    a, b = signed(a, w), signed(b, w)
    return a // b if b else -1


def _shrsi(a: int, b: int, w: int) -> int:
    return signed(a, w) >> min(unsigned(b, w), w)


MEANINGS: dict[str, Callable[[int, int, int], int]] = {
    "arith.addi": lambda a, b, w: a + b,
    "arith.subi": lambda a, b, w: a - b,
    "arith.muli": lambda a, b, w: a * b,
    "arith.andi": lambda a, b, w: a & b,
    "arith.ori": lambda a, b, w: a | b,
    "arith.xori": lambda a, b, w: a ^ b,
    "arith.divsi": _divsi,
    "arith.remsi": _remsi,
    "arith.divui": lambda a, b, w: unsigned(a, w) // unsigned(b, w) if b else -1,
    "arith.remui": lambda a, b, w: unsigned(a, w) % unsigned(b, w) if b else a,
    "arith.ceildivsi": _ceildivsi,
    "arith.ceildivui": lambda a, b, w: -(-unsigned(a, w) // unsigned(b, w)) if b else -1,
    "arith.floordivsi": _floordivsi,
    "arith.shli": lambda a, b, w: a << unsigned(b, w) if unsigned(b, w) < w else 0,
    "arith.shrui": lambda a, b, w: unsigned(a, w) >> min(unsigned(b, w), w),
    "arith.shrsi": _shrsi,
    "arith.maxsi": lambda a, b, w: max(signed(a, w), signed(b, w)),
    "arith.minsi": lambda a, b, w: min(signed(a, w), signed(b, w)),
    "arith.maxui": lambda a, b, w: max(unsigned(a, w), unsigned(b, w)),
    "arith.minui": lambda a, b, w: min(unsigned(a, w), unsigned(b, w)),
    "tt.mulhiui": lambda a, b, w: unsigned(a, w) * unsigned(b, w) >> w,
}


def expected(name: str, kind: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    bits = BITS[kind]
    values = [MEANINGS[name](int(a), int(b), bits) for a, b in zip(left, right, strict=True)]
    wrapped = [unsigned(v, bits) if bits == 1 else signed(v, bits) for v in values]
    return np.array(wrapped, DTYPES[kind])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MEANINGS)
def test_binary(name: str, target: str) -> None:
    for kind in BITS:
        if name == "tt.mulhiui" and kind not in ("i32", "i64"):
            continue
        left, right = samples(kind)
        want = expected(name, kind, left, right)
        for lanes in LANES if kind == "i32" else (0, 16):
            same_bits(run(name, [left, right], [kind], lanes, target)[0], want)


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 10, 64, 127, -1, -2, -5, 0])
@pytest.mark.parametrize("name", ["arith.divsi", "arith.remsi", "arith.divui", "arith.remui", "arith.floordivsi"])
def test_constant_divisor(name: str, divisor: int) -> None:
    for kind in ("i8", "i32", "i64"):
        left, right = samples(kind)
        right = np.full_like(right, divisor)
        want = expected(name, kind, left, right)
        for lanes in (0, 8):
            same_bits(run(name, [left, right], [kind], lanes, constants={1: divisor})[0], want)


def test_every_8_bit_quotient() -> None:
    left, right = (v.ravel().astype(np.int8) for v in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    for name in ("arith.divsi", "arith.remsi", "arith.divui", "arith.remui"):
        same_bits(run(name, [left, right], ["i8"])[0], expected(name, "i8", left, right))


@pytest.mark.parametrize("target", TARGETS)
def test_quotients_next_to_integers(target: str) -> None:
    """n d - 1, n d and n d + 1 over d: where a rounded float quotient could be off by one."""
    rng = np.random.default_rng(3)
    d = rng.integers(1, 2**16, 20000)
    n = rng.integers(1, 2**31, 20000) // d
    for off in (-1, 0, 1):
        left, right = (n * d + off).astype(np.int32), d.astype(np.int32)
        same_bits(run("arith.divsi", [left, right], ["i32"], 8, target)[0], (left // right).astype(np.int32))
        wide = (n * d + off) * 2 + 1
        got = run("arith.divui", [wide.astype(np.int32), right], ["i32"], 8, target)[0]
        same_bits(got, (wide // d).astype(np.int32))


@pytest.mark.parametrize("kind", BITS)
def test_comparison(kind: str) -> None:
    left, right = samples(kind)
    bits = BITS[kind]
    sides = {
        "s": [(signed(int(a), bits), signed(int(b), bits)) for a, b in zip(left, right, strict=True)],
        "u": [(unsigned(int(a), bits), unsigned(int(b), bits)) for a, b in zip(left, right, strict=True)],
    }
    relations = {
        "lt": int.__lt__,
        "le": int.__le__,
        "gt": int.__gt__,
        "ge": int.__ge__,
        "eq": int.__eq__,
        "ne": int.__ne__,
    }
    for predicate in ("eq", "ne", *(s + r for s in "su" for r in ("lt", "le", "gt", "ge"))):
        pairs = sides["u" if predicate[0] in "en" else predicate[0]]
        want = np.array([relations[predicate[-2:]](a, b) for a, b in pairs])
        for lanes in (0, 4, 32):
            same_bits(run("arith.cmpi", [left, right], ["i1"], lanes, predicate=predicate)[0], want)


@pytest.mark.parametrize("target", TARGETS)
def test_extended(target: str) -> None:
    for kind in ("i8", "i32", "i64"):
        left, right = samples(kind)
        bits = BITS[kind]
        pairs = [(int(a), int(b)) for a, b in zip(left, right, strict=True)]
        for name, read in (("arith.mulsi_extended", signed), ("arith.mului_extended", unsigned)):
            products = [read(a, bits) * read(b, bits) for a, b in pairs]
            for lanes in (0, 8):
                low, high = run(name, [left, right], [kind, kind], lanes, target)
                same_bits(low, np.array([signed(p, bits) for p in products], DTYPES[kind]))
                same_bits(high, np.array([signed(p >> bits, bits) for p in products], DTYPES[kind]))
        sums = [unsigned(a, bits) + unsigned(b, bits) for a, b in pairs]
        total, carry = run("arith.addui_extended", [left, right], [kind, "i1"], 8, target)
        same_bits(total, np.array([signed(s, bits) for s in sums], DTYPES[kind]))
        same_bits(carry, np.array([s >> bits for s in sums], bool))


def test_absolute() -> None:
    for kind in ("i8", "i16", "i32", "i64"):
        left, _ = samples(kind)
        with np.errstate(over="ignore"):
            same_bits(run("math.absi", [left], [kind])[0], np.abs(left))


@pytest.mark.parametrize("kind", DTYPES)
def test_select(kind: str) -> None:
    rng = np.random.default_rng(1)
    size = DTYPES[kind].itemsize
    sides = [
        rng.integers(0, 2 if kind == "i1" else 256, 200 * size).astype(np.uint8).view(DTYPES[kind]) for _ in range(2)
    ]
    condition = rng.integers(0, 2, 200).astype(bool)
    want = np.where(condition, *(s.view(f"u{size}") for s in sides)).view(DTYPES[kind])
    for lanes in (0, 4, 16):
        (got,) = run("arith.select", [condition, *sides], [kind], lanes, ins=["i1", kind, kind])
        assert np.array_equal(got.view(f"u{size}"), want.view(f"u{size}"))


@pytest.mark.parametrize("target", TARGETS)
def test_no_calls(target: str) -> None:
    for name in MEANINGS:
        for kind in ("i8", "i32"):
            assert not externals(name, [kind, kind], [kind], 16, target)
