"""x86 instructions that LLVM IR has no portable word for. Each returns None where the target or shape lacks them.

Stage: lowering. In: values of one vector type. Out: the result, or None, and then the caller takes its portable path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..llvm.emit import Builder, LValue


def in_registers(
    b: Builder, values: Sequence[LValue], emit: Callable[[Sequence[LValue]], LValue], needs: Sequence[str] = ()
) -> LValue | None:
    """emit() on AVX-512 registers: whole ones, or with AVX-512VL halves and quarters; longer vectors in pieces.

    Args:
        values: f32 or f64 vectors of one type.
        emit: makes one result of the operands' type.
        needs: features beyond `avx512f`.
    """
    features, lanes = b.module.features, values[0].lanes
    full = b.module.vector_bits // values[0].type.bits
    if "avx512f" not in features or not features.issuperset(needs):
        return None
    vector_length = "avx512vl" in features
    width = lanes * values[0].type.bits
    if width == 512 == b.module.vector_bits or (vector_length and width in (128, 256)):
        return emit(values)
    if b.module.vector_bits < 512 and not vector_length:
        return None
    if lanes < full or lanes % full or (lanes // full) & (lanes // full - 1):
        return None
    parts = [emit([b.shuffle(v, None, range(at, at + full)) for v in values]) for at in range(0, lanes, full)]
    while len(parts) > 1:
        width = parts[0].lanes
        parts = [b.shuffle(parts[i], parts[i + 1], range(2 * width)) for i in range(0, len(parts), 2)]
    return parts[0]


def _masked(b: Builder, name: str, values: Sequence[LValue], immediate: str = "") -> LValue:
    """Call llvm.x86.avx512.mask.<name>.<ps or pd>.<width>(values, immediate, all lanes) with default rounding."""
    type_ = values[0].type
    width = type_.lanes * type_.bits
    full_name = f"llvm.x86.avx512.mask.{name}.{'pd' if type_.scalar == 'double' else 'ps'}.{width}"
    mask = f"i{max(8, type_.lanes)}"
    constants = ["i32"] if immediate else []
    rounding = ["i32"] if width == 512 else []
    b.module.declare(full_name, type_, [*(v.type for v in values), *constants, type_, mask, *rounding])
    arguments = [*map(str, values), *([f"i32 {immediate}"] if immediate else [])]
    arguments += [f"{type_} zeroinitializer", f"{mask} -1", *(["i32 4"] if rounding else [])]
    return b.emit(type_, f"call {type_} @{full_name}({', '.join(arguments)})")


def scale(b: Builder, x: LValue, n: LValue) -> LValue | None:
    """x 2^floor(n), rounded once; overflow and subnormals as IEEE has them (VSCALEF)."""
    return in_registers(b, [x, n], lambda values: _masked(b, "scalef", values))


def extremum(b: Builder, x: LValue, y: LValue, *, most: bool) -> LValue | None:
    """The greater or lesser with -0 below +0; the other operand where one is a quiet NaN (VRANGE)."""
    code = "5" if most else "4"  # compare result's sign; maximum or minimum
    return in_registers(b, [x, y], lambda values: _masked(b, "range", values, code), ["avx512dq"])


def exponent(b: Builder, x: LValue) -> LValue | None:
    """floor(log2(|x|)) as a float, of subnormal numbers too (VGETEXP)."""
    return in_registers(b, [x], lambda values: _masked(b, "getexp", values))


def mantissa(b: Builder, x: LValue) -> LValue | None:
    """|x| times the power of two that brings it into [3/4, 3/2) (VGETMANT)."""
    return in_registers(b, [x], lambda values: _masked(b, "getmant", values, "11"))


def reciprocal_root(b: Builder, x: LValue) -> LValue | None:
    """1 / sqrt(x) of f32 with a relative error below 2^-14, of subnormal numbers too (VRSQRT14)."""

    def emit(values: Sequence[LValue]) -> LValue:
        type_ = values[0].type
        name = f"llvm.x86.avx512.rsqrt14.ps.{type_.lanes * type_.bits}"
        mask = f"i{max(8, type_.lanes)}"
        b.module.declare(name, type_, [type_, type_, mask])
        return b.emit(type_, f"call {type_} @{name}({values[0]}, {type_} zeroinitializer, {mask} -1)")

    return in_registers(b, [x], emit)


# VFIXUPIMM's response to each class of x, from the low nibble: quiet and signalling NaN, 0, 1, -inf, inf, negative,
# positive. 0 keeps the value, 2 is x made quiet, 3 NaN, 4 -inf, 5 inf, 6 inf with the sign of x, 8 zero.
LOGARITHM = 0x03530422
RECIPROCAL_ROOT = 0x03830622


def logarithm_specials(b: Builder, x: LValue, value: LValue) -> LValue | None:
    """log's special cases put into `value`: NaN, -inf at 0, inf at inf, NaN below 0."""
    return _specials(b, x, value, LOGARITHM)


def reciprocal_root_specials(b: Builder, x: LValue, value: LValue) -> LValue | None:
    """1 / sqrt(x)'s special cases put into `value`: NaN, inf with the sign of a zero, 0 at inf, NaN below 0."""
    return _specials(b, x, value, RECIPROCAL_ROOT)


def _specials(b: Builder, x: LValue, value: LValue, responses: int) -> LValue | None:
    """Special cases by the class of x (VFIXUPIMM)."""

    def emit(values: Sequence[LValue]) -> LValue:
        type_ = values[0].type
        width = type_.lanes * type_.bits
        name = f"llvm.x86.avx512.mask.fixupimm.{'pd' if type_.scalar == 'double' else 'ps'}.{width}"
        table = b.integer(type_.of("i64" if type_.scalar == "double" else "i32"), responses)
        mask = f"i{max(8, type_.lanes)}"
        rounding = ["i32"] if width == 512 else []
        b.module.declare(name, type_, [type_, type_, table.type, "i32", mask, *rounding])
        tail = ", i32 4" if rounding else ""
        return b.emit(type_, f"call {type_} @{name}({values[1]}, {values[0]}, {table}, i32 0, {mask} -1{tail})")

    return in_registers(b, [x, value], emit)
