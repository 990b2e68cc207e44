"""Integer division that never traps, in vectors where the width allows it.

Stage: lowering. x86 and aarch64 have no vector integer division, and LLVM divides lane by lane. Up to 32 bits the
truncated float quotient (f32 for 8 and 16 bits, f64 for 32) is exact: a quotient that is no integer differs from the
nearest integer by at least one part in 2^(2 * width), far more than the rounding error.
"""

from __future__ import annotations

from collections.abc import Callable

from ..llvm.emit import Builder, LValue

Thunk = Callable[[], LValue]
# Any of these features brings an instruction that rounds a vector of doubles.
ROUNDS = frozenset({"sse4.1", "avx", "avx2", "avx512f", "neon"})


def constant_of(value: LValue) -> int | None:
    """The value of an integer constant or of a splat of one; None for anything else."""
    text = value.text.removeprefix(f"splat ({value.type.scalar} ").removesuffix(")")
    return int(text) if text.removeprefix("-").isdigit() else None


def divide(b: Builder, x: LValue, y: LValue, *, signed: bool) -> tuple[Thunk, Thunk]:
    """The truncated quotient and the remainder, each emitted when called.

    x/0 is all ones, x%0 is x, min/-1 is min and min%-1 is 0.
    """
    if x.type.bits == 1:  # the divisor 1 (or -1) gives x and 0; the divisor 0 gives 1 and x
        return lambda: b.or_(x, b.not_(y)), lambda: b.and_(x, b.not_(y))
    known = constant_of(y)
    if known not in (None, 0) and not (signed and known == -1):
        prefix = "s" if signed else "u"  # LLVM makes a product of it
        return lambda: b.binary(f"{prefix}div", x, y), lambda: b.binary(f"{prefix}rem", x, y)
    zero = b.icmp("eq", y, b.zero(y.type))

    def quotient() -> LValue:
        value = _quotient(b, x, y, zero, signed=signed)
        return b.select(zero, b.integer(x.type, -1), value)

    def remainder() -> LValue:
        # With the divisor 0 the product is 0 whatever the quotient, so the remainder is x.
        return b.sub(x, b.mul(_quotient(b, x, y, zero, signed=signed), y))

    return quotient, remainder


def _quotient(b: Builder, x: LValue, y: LValue, zero: LValue, *, signed: bool) -> LValue:
    """The quotient; any value where the divisor is 0."""
    bits = x.type.bits
    if x.lanes and bits < 32:
        return _float_quotient(b, x, y, zero, signed=signed)
    if x.lanes and bits == 32 and ROUNDS & b.module.features:
        return _double_quotient(b, x, y, zero, signed=signed)
    one = b.integer(y.type, 1)
    unsafe = zero
    if signed:
        least = b.icmp("eq", x, b.integer(x.type, 1 << (bits - 1)))
        unsafe = b.or_(zero, b.and_(least, b.icmp("eq", y, b.integer(y.type, -1))))  # min / 1 is min / -1
    return b.binary("sdiv" if signed else "udiv", x, b.select(unsafe, one, y))


def _float_quotient(b: Builder, x: LValue, y: LValue, zero: LValue, *, signed: bool) -> LValue:
    """8 and 16 bits. min / -1 fits i32 and wraps when cut to the width."""
    extend = "sext" if signed else "zext"
    divisor = b.select(zero, b.integer(y.type, 1), y)
    left, right = (b.cast("sitofp", b.cast(extend, v, "i32"), "float") for v in (x, divisor))
    return b.cast("trunc", b.cast("fptosi", b.fdiv(left, right), "i32"), x.type.scalar)


def _double_quotient(b: Builder, x: LValue, y: LValue, zero: LValue, *, signed: bool) -> LValue:
    """32 bits. Adding 1.5 * 2^52 to an integral double leaves the integer, modulo 2^32, in its low bits."""
    to_float = "sitofp" if signed else "uitofp"
    divisor = b.cast(to_float, b.select(zero, b.integer(y.type, 1), y), "double")
    exact = b.fdiv(b.cast(to_float, x, "double"), divisor)
    whole = b.intrinsic("trunc", exact.type, exact)
    shifted = b.fadd(whole, b.real(exact.type, 1.5 * 2.0**52))
    return b.cast("trunc", b.cast("bitcast", shifted, "i64"), "i32")


def divide_rounded(b: Builder, x: LValue, y: LValue, *, signed: bool, up: bool) -> LValue:
    """The quotient rounded up or down; all ones where the divisor is 0."""
    quotient, remainder = (thunk() for thunk in divide(b, x, y, signed=signed))
    if x.type.bits == 1:
        return quotient
    correct = b.icmp("ne", remainder, b.zero(x.type))
    if signed:  # the exact quotient is above the truncated one where the signs agree, else below
        opposite = b.icmp("slt", b.xor(x, y), b.zero(x.type))
        correct = b.and_(correct, b.not_(opposite) if up else opposite)
    elif not up:
        return quotient
    correct = b.and_(correct, b.icmp("ne", y, b.zero(y.type)))
    return b.select(correct, b.add(quotient, b.integer(x.type, 1 if up else -1)), quotient)
