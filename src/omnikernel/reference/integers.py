"""Integer, bitwise and pointer ops, and conversions between integers: wrap-around, and nothing that traps.

Signed and unsigned ops share the signed arrays of `registry`; unsigned ones look at the same bits through an unsigned
view. `i1` is bool: its signed reading is 0 and -1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..ir.tile import Op
from ..ir.types import Pointer, element_of
from .registry import UNSIGNED, Array, Machine, Outcome, Pure, bits_of, dtype_of, from_bits, kind_of, means, means_all


def unsigned(value: Array) -> Array:
    """The unsigned reading (bool as uint8)."""
    return bits_of(value)


def signed(value: Array) -> Array:
    """The signed reading; bool as int8 with 0 and -1."""
    return -value.astype(np.int8) if value.dtype == np.bool_ else value


def _back(value: Array, like: Array) -> Array:
    """Integers of any width to the dtype of `like`, by their low bits."""
    if like.dtype == np.bool_:
        return (np.asarray(value) & 1).astype(np.bool_)
    return np.asarray(value).astype(like.dtype, copy=False)


def _ring(function: Callable[[Array, Array], Array]) -> Pure:
    """Addition, subtraction, multiplication; on unsigned arrays NumPy wraps."""

    def meaning(a: Array, b: Array) -> Array:
        return _back(function(unsigned(a), unsigned(b)), a)

    return meaning


def _divide_unsigned(a: Array, b: Array, *, remainder: bool, up: bool = False) -> Array:
    """x/0 is all ones, x%0 is x."""
    x, y = unsigned(a), unsigned(b)
    zero = y == 0
    safe = np.where(zero, 1, y).astype(y.dtype)
    rest = x % safe
    if remainder:
        return _back(np.where(zero, x, rest), a)
    quotient = x // safe + (up & (rest != 0)).astype(x.dtype)
    return _back(np.where(zero, np.array(-1).astype(x.dtype), quotient), a)


def _divide_signed(a: Array, b: Array, *, remainder: bool = False, rounding: int = 0) -> Array:
    """Truncating (rounding 0), up (1) or down (-1). x/0 = -1, x%0 = x, min/-1 = min, min%-1 = 0.

    Computed on magnitudes as unsigned integers, where the magnitude of the least integer has room.
    """
    x, y = signed(a), signed(b)
    bits = UNSIGNED[8 * x.dtype.itemsize]
    big, small = _magnitude(x), _magnitude(y)
    zero = small == 0
    safe = np.where(zero, 1, small).astype(bits)
    quotient, rest = big // safe, big % safe
    if remainder:
        made = np.where(x < 0, 0 - rest, rest)
        return _back(np.where(zero, bits_of(x), made), a)
    opposite = (x < 0) != (y < 0)
    inexact = rest != 0
    away = (inexact & ~opposite) if rounding > 0 else (inexact & opposite) if rounding < 0 else np.False_
    quotient = quotient + np.asarray(away).astype(bits)
    made = np.where(opposite, 0 - quotient, quotient)
    return _back(np.where(zero, np.array(-1).astype(bits), made), a)


def _magnitude(value: Array) -> Array:
    bits = bits_of(value)
    return np.where(value < 0, 0 - bits, bits).astype(bits.dtype)


def _shift(a: Array, b: Array, *, left: bool, arithmetic: bool = False) -> Array:
    """Past the width: 0, or the sign for an arithmetic right shift."""
    width = 1 if a.dtype == np.bool_ else 8 * a.dtype.itemsize
    by = unsigned(b)
    past = by >= width
    x = signed(a) if arithmetic else unsigned(a)
    amount = np.where(past, 0, by).astype(x.dtype)
    moved = x << amount if left else x >> amount
    beyond = np.where(x < 0, -1, 0) if arithmetic else np.zeros_like(x)
    return _back(np.where(past, beyond, moved), a)


def _pick(a: Array, b: Array, *, largest: bool, reading: Callable[[Array], Array]) -> Array:
    first = reading(a) > reading(b) if largest else reading(a) < reading(b)
    return np.where(first, a, b)


def _multiply_high(a: Array, b: Array, *, is_signed: bool) -> Array:
    """The high half of the double-width product."""
    bits = 1 if a.dtype == np.bool_ else 8 * a.dtype.itemsize
    x, y = (signed(a), signed(b)) if is_signed else (unsigned(a), unsigned(b))
    if bits < 64:
        wide = np.dtype(np.int64 if is_signed else np.uint64)
        return _back((x.astype(wide) * y.astype(wide)) >> wide.type(bits), a)
    low32, by32 = np.uint64(0xFFFFFFFF), np.uint64(32)
    u, v = bits_of(a), bits_of(b)
    u0, u1, v0, v1 = u & low32, u >> by32, v & low32, v >> by32
    middle = u1 * v0 + ((u0 * v0) >> by32)
    other = u0 * v1 + (middle & low32)
    high = u1 * v1 + (middle >> by32) + (other >> by32)
    if is_signed:  # each negative factor counted 2**64 too much of the other
        high = high - np.where(x < 0, v, 0).astype(u.dtype) - np.where(y < 0, u, 0).astype(u.dtype)
    return _back(high, a)


means_all(
    {
        "arith.addi": _ring(np.add),
        "arith.subi": _ring(np.subtract),
        "arith.muli": _ring(np.multiply),
        "arith.divsi": _divide_signed,
        "arith.remsi": partial(_divide_signed, remainder=True),
        "arith.divui": partial(_divide_unsigned, remainder=False),
        "arith.remui": partial(_divide_unsigned, remainder=True),
        "arith.ceildivsi": partial(_divide_signed, rounding=1),
        "arith.floordivsi": partial(_divide_signed, rounding=-1),
        "arith.ceildivui": partial(_divide_unsigned, remainder=False, up=True),
        "arith.andi": np.bitwise_and,
        "arith.ori": np.bitwise_or,
        "arith.xori": np.bitwise_xor,
        "arith.shli": partial(_shift, left=True),
        "arith.shrui": partial(_shift, left=False),
        "arith.shrsi": partial(_shift, left=False, arithmetic=True),
        "arith.maxsi": partial(_pick, largest=True, reading=signed),
        "arith.minsi": partial(_pick, largest=False, reading=signed),
        "arith.maxui": partial(_pick, largest=True, reading=unsigned),
        "arith.minui": partial(_pick, largest=False, reading=unsigned),
        "tt.mulhiui": partial(_multiply_high, is_signed=False),
        "math.absi": lambda a: _back(_magnitude(signed(a)), a),
    }
)


@means("arith.addui_extended")
def addui_extended(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    a, b = args
    if a.dtype == np.bool_:
        return [a ^ b, a & b]
    total = unsigned(a) + unsigned(b)
    return [_back(total, a), np.asarray(total < unsigned(a))]


@means("arith.mului_extended", "arith.mulsi_extended")
def multiply_extended(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    a, b = args
    high = _multiply_high(a, b, is_signed=op.name == "arith.mulsi_extended")
    return [_back(unsigned(a) * unsigned(b), a), high]


COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@means("arith.cmpi")
def cmpi(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    predicate: str = op.attributes["predicate"]
    a, b = args
    if predicate in COMPARE:
        return [COMPARE[predicate](a, b)]
    reading = unsigned if predicate[0] == "u" else signed
    return [COMPARE[predicate[1:]](reading(a), reading(b))]


@means("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
def resize(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """Widening extends the sign or zeros; narrowing keeps the low bits."""
    dtype = dtype_of(op.result.type)
    reading = unsigned if op.name in ("arith.extui", "arith.index_castui") else signed
    value = reading(args[0])
    return [(value & 1).astype(np.bool_) if dtype == np.bool_ else value.astype(dtype)]


@means("arith.bitcast", "tt.bitcast", "tt.ptr_to_int", "tt.int_to_ptr")
def bitcast(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """The same bits as another type of the same width."""
    (value,) = args
    source, target = element_of(op.operands[0].type), element_of(op.result.type)
    if source.bits != target.bits:
        raise TypeError(f"{op.name} from {kind_of(source)} to {kind_of(target)} changes the width")
    return [from_bits(bits_of(value), dtype_of(target))]


@means("tt.addptr")
def addptr(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """The offset counts elements and is sign-extended; i1 elements take a byte."""
    base, offset = args
    pointer = element_of(op.result.type)
    assert isinstance(pointer, Pointer)
    width = element_of(pointer.pointee).bytes
    return [base + signed(offset).astype(np.int64) * np.int64(width)]
