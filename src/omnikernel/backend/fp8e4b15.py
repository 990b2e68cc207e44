"""Conversions from and to `tl.float8e4b15`, asked for by Triton's front end, as integer operations.

The type has 4 bits of exponent with bias 15 and 3 of mantissa, no infinity and no NaN, and MLIR has no name for it: in
TTIR its values are i8. GPU backends convert with inline PTX; this gives the same bits. An f16 has the same bias and
more of both, so widening is a shift. Narrowing clamps the magnitude to 1.75 (NaN too, since a PTX minimum drops it) and
rounds to nearest, ties away from zero; f32 is first cut to f16 toward zero.
"""

from __future__ import annotations

from typing import Any

_LARGEST = 0x3F00  # 1.75 as an f16


def convert(value: Any, target: Any, rounding: Any = None, _semantic: Any = None) -> Any:
    """The tensor `value` as `target` (a Triton type of the same shape); one of the two is `fp8e4b15`.

    `rounding` is what the front end was asked for. It has no say: there is one way to round, as on the GPU.
    """
    import triton.language as tl

    if value.type.scalar.is_fp8e4b15():
        return _semantic.cast(_widened(value, tl, _semantic), target.scalar)
    half = value
    if not value.type.scalar.is_fp16():
        half = _semantic.cast(_semantic.cast(value, tl.float32), tl.float16, "rtz")
    return _narrowed(half, target, tl, _semantic)


def _widened(value: Any, tl: Any, semantic: Any) -> Any:
    """fp8e4b15 -> f16, exact."""
    byte = tl.tensor(value.handle, _like(value, tl.uint8))
    bits = semantic.cast(byte, tl.uint16)
    sign = semantic.shl(semantic.and_(bits, 0x80), 8)
    rest = semantic.shl(semantic.and_(bits, 0x7F), 7)
    return semantic.bitcast(semantic.or_(sign, rest), _like(value, tl.float16))


def _narrowed(half: Any, target: Any, tl: Any, semantic: Any) -> Any:
    """f16 -> fp8e4b15."""
    bits = semantic.bitcast(half, _like(half, tl.uint16))
    magnitude = semantic.and_(bits, 0x7FFF)
    largest = semantic.full(half.shape, _LARGEST, tl.uint16) if half.type.is_block() else _LARGEST
    clamped = semantic.where(semantic.less_than(magnitude, _LARGEST), magnitude, largest)
    rounded = semantic.lshr(semantic.add(semantic.shl(clamped, 1), 0x80, False), 8)
    sign = semantic.and_(semantic.lshr(bits, 8), 0x80)
    byte = semantic.cast(semantic.or_(rounded, sign), tl.uint8)
    return tl.tensor(byte.handle, _like(half, target.scalar))


def _like(value: Any, scalar: Any) -> Any:
    """The type of a value with other elements."""
    return value.type.with_element_ty(scalar) if value.type.is_block() else scalar
