"""libdevice's conversions between integers and floats with the rounding in the name.

Stage: lowering. Each function makes the emitter of one row of `math.MATH`.
"""

from __future__ import annotations

from collections.abc import Callable

from .casts import float_to_integer
from .number import Num


def whole_number(rounded: Callable[[Num], Num], scalar: str, *, signed: bool) -> Callable[[Num], Num]:
    """A float rounded to an integral value, then converted, saturating; NaN gives 0."""
    return lambda x: x.new(float_to_integer(x.b, rounded(x).v, scalar, signed=signed))


def nearest(opcode: str, scalar: str) -> Callable[[Num], Num]:
    """An integer as the nearest float, ties to even."""
    return lambda x: x.cast(opcode, scalar)
